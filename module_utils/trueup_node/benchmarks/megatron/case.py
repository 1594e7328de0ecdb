"""A training run as a case: options, model, layout, command, and the meaning of its rates."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ...errors import BadInput
from ...node.gpu_places import bound
from ...options import ModuleOption, Option, RoleOption, time_limit
from ...record import Metric, summarise
from ...run.launcher import LAUNCHER, Launcher, bind_argv
from .flops import Model, article_flops, megatron_flops
from .output import MegatronOutput

_PADDING = 128  # Megatron-LM pads the vocabulary to a multiple of it
TORCHRUN = "torchrun"
# The role's word for the settings of the model's runs.
CATALOG = "catalog"
# PyTorch's own.
RENDEZVOUS_PORT = 29500
PROGRAMS = ("gpt_driver", "megatron", "megatron_deepspeed")
PRECISIONS = ("fp32", "bf16", "fp16", "fp8")
OPTIONS = (
    Option(
        "prefix",
        "Folder for the virtual environment, the programs, DeepSpeed's configurations and the"
        " launchers: 1 GiB without GPUs, 8 GiB with CUDA's wheels. All nodes of a job have it at"
        " the same place.",
        "~/.local/share/trueup/training",
        type="path",
        why="Yours without root.",
    ),
    RoleOption(
        "version_set",
        "Version set of catalog/training.yml; auto: current on nodes with GPUs, cpu on others.",
        "auto",
        choices=("auto", "cpu", "current", "nd-h100"),
    ),
    RoleOption(
        "venv",
        "An environment that is there already, such as a container's, used instead of installing"
        " one. training_prefix/venv is a link to it, and nothing is installed into it. Empty: the"
        " role installs its own.",
        "",
    ),
    RoleOption(
        "pip_find_links",
        "Folder or page with the wheels, for sites without internet and for PyTorch's CPU build,"
        " which is not on PyPI; empty: the node's own pip configuration decides where from. Every"
        " file must match its pinned sha256.",
        "",
    ),
    RoleOption("pip_no_index", "Install from training_pip_find_links alone.", False),
    RoleOption(
        "megatron_repository",
        "Where Megatron is cloned from instead of the catalog's address; the commit stays the"
        " catalog's.",
        "",
    ),
    RoleOption(
        "program",
        "What trains: gpt_driver (a small GPT in plain PyTorch, no Megatron) or megatron"
        " (Megatron-LM, made-up data). auto: the version set's Megatron on nodes with GPUs, but"
        " gpt_driver for a ZeRO stage that it does not have; gpt_driver on others.",
        "auto",
        choices=("auto", "gpt_driver", "megatron"),
    ),
    ModuleOption(
        "program",
        "gpt_driver runs on CPUs (gloo) and GPUs (nccl). megatron is Megatron-LM with made-up data."
        " megatron_deepspeed needs O(data).",
        "gpt_driver",
        choices=PROGRAMS,
    ),
    RoleOption(
        "model",
        "Model of catalog/training.yml: tiny, 1.3B, 175B, 175B-h100, 530B, 1T or 2T. auto: 1.3B on"
        " nodes with"
        " GPUs, tiny on others. custom: training_custom_model.",
        "auto",
    ),
    RoleOption(
        "custom_model",
        "The model where training_model is custom: layers, hidden_size, attention_heads, and if"
        " wanted vocabulary_size.",
        {},
    ),
    ModuleOption("layers", "Decoder layers.", 2, least=1),
    ModuleOption("hidden_size", "Hidden size, a multiple of O(attention_heads).", 128, least=1),
    ModuleOption("attention_heads", "Attention heads.", 4, least=1),
    ModuleOption("vocabulary_size", "Vocabulary, as padded.", 512, least=1),
    RoleOption(
        "sequence_length",
        "Tokens of one sample; 0: the last of the model's runs in the catalog.",
        0,
    ),
    ModuleOption("sequence_length", "Tokens of one sample.", 64, least=1),
    RoleOption(
        "micro_batch", "Samples of each process in an iteration; 0: the last of the same run.", 0
    ),
    ModuleOption(
        "micro_batch",
        "Samples of each process in an iteration; the global batch is that of all of them.",
        4,
        least=1,
    ),
    RoleOption(
        "division",
        "How GPUs divide the work (Megatron-LM): tensor_parallel (GPUs that share each layer),"
        " pipeline_parallel (groups of layers that different GPUs have) and global_batch (samples"
        " of one iteration over all GPUs, accumulated). What is not here is as the model's runs in"
        " the catalog had it, else 1, 1 and one micro batch of each model copy.",
        {},
        fields=(
            Option("tensor_parallel", "GPUs that share each layer.", 0),
            Option("pipeline_parallel", "Groups of layers that different GPUs have.", 0),
            Option("global_batch", "Samples of one iteration over all GPUs.", 0),
        ),
    ),
    ModuleOption("tensor_parallel", "GPUs that share each layer; C(megatron) alone.", 1, least=1),
    ModuleOption(
        "pipeline_parallel",
        "Groups of layers that different GPUs have; C(megatron) alone.",
        1,
        least=1,
    ),
    ModuleOption(
        "global_batch",
        "Samples of one iteration over all GPUs; C(megatron) accumulates micro batches up to it. 0:"
        " one micro batch of each model copy.",
        0,
    ),
    Option(
        "save_directory",
        "Folder that all nodes share, for checkpoints; their time is in the record. gpt_driver"
        " writes them and reads none. Empty: none is written.",
        "",
    ),
    Option("save_interval", "Iterations between two of them; 0: none is written.", 0),
    Option(
        "iterations",
        "Iterations; a quarter, 2 to 4 of them, is warm-up and not in the figures.",
        20,
        why="A median needs some more than the warm-up.",
        least=6,
    ),
    RoleOption(
        "processes",
        "Processes of each node; 0: one a GPU, and 2 on nodes without, so that gloo has something"
        " to do.",
        0,
    ),
    ModuleOption(
        "processes", "Processes of each node; one a GPU where O(backend=nccl).", 1, least=1
    ),
    RoleOption(
        "threads",
        "CPU threads of each process; 0: the node's cores divided among them, without GPUs;"
        " PyTorch's choice with GPUs.",
        0,
    ),
    ModuleOption("threads", "CPU threads of each process; 0 leaves it to PyTorch.", 0),
    RoleOption(
        "hosts",
        "Hosts of the inventory that train one model together, the one that the others meet first;"
        " the record is the first one's. Empty: every node on its own.",
        [],
    ),
    RoleOption(
        "launcher",
        "What starts the processes there. torchrun: Ansible starts one on each of them at the same"
        " time. mpirun (Open MPI, over ssh, which must work between the nodes without a password"
        " and with host keys known) and slurm (a job by sbatch, its processes by srun): the first"
        " of them starts all, and training_prefix is the same path on each.",
        "torchrun",
        choices=(TORCHRUN, "mpirun", "slurm"),
    ),
    ModuleOption(
        "node_rank",
        "With O(launcher=local), this node's place among O(nodes), from 0; the others meet at the"
        " first.",
        0,
    ),
    Option(
        "rendezvous_address",
        "Address of the first of several nodes, as the others reach it; empty: its ansible_host,"
        " and with slurm the first node of the job, by Slurm's name and order.",
        "",
    ),
    ModuleOption("rendezvous_port", "Port there.", RENDEZVOUS_PORT, least=1),
    Option(
        "interface",
        "Network interface over which the processes meet, and gloo sends, such as eth0; empty"
        " leaves it to them.",
        "",
    ),
    ModuleOption(
        "backend",
        "nccl on nodes with GPUs, gloo on those without, where GPUs are hidden from it.",
        "gloo",
        choices=("gloo", "nccl"),
    ),
    RoleOption(
        "zero_stage",
        "DeepSpeed's ZeRO stage, 0 to 3. catalog: what the model's runs had (175B to 2T: 3; others:"
        " 0).",
        CATALOG,
        choices=(CATALOG, "0", "1", "2", "3"),
    ),
    ModuleOption(
        "zero_stage",
        "DeepSpeed's ZeRO stage; with C(megatron) 1 is its distributed optimizer.",
        0,
        most=3,
    ),
    RoleOption(
        "offload",
        "Where the optimizer's state is kept: none (with the model), cpu (ZeRO-3 only), or catalog:"
        " as the model's runs had it.",
        CATALOG,
        choices=(CATALOG, "none", "cpu"),
    ),
    ModuleOption(
        "offload",
        "Where the optimizer's state is kept; C(cpu) with O(zero_stage=3) alone.",
        "none",
        choices=("none", "cpu"),
    ),
    ModuleOption(
        "deepspeed_config",
        "DeepSpeed's configuration, a JSON file; where DeepSpeed takes part.",
        type="path",
    ),
    RoleOption(
        "recompute",
        "Whether activations are recomputed: true, false, or catalog: as the model's runs had it"
        " (175B to 2T: recomputed). Rates by the article's formula count it either way.",
        CATALOG,
    ),
    ModuleOption(
        "recompute", "Whether activations are computed again in the backward pass.", False
    ),
    RoleOption(
        "precision",
        "fp32, bf16, fp16 (not gpt_driver) or fp8 (Megatron-LM with Transformer Engine, version set"
        " nd-h100); auto: bf16 on GPUs, fp32 on CPUs.",
        "auto",
        choices=("auto", *PRECISIONS),
    ),
    ModuleOption(
        "precision",
        "What is computed in; C(gpt_driver) has no C(fp16). C(fp8) is bf16 with products of 8"
        " bits, and needs O(transformer_engine).",
        "fp32",
        choices=PRECISIONS,
    ),
    ModuleOption(
        "transformer_engine",
        "Whether Megatron-LM's layers are Transformer Engine's, which the environment has then.",
        False,
    ),
    ModuleOption(
        "data",
        "What megatron_deepspeed trains on: path (of a preprocessed dataset), vocabulary and merges"
        " (GPT-2's files).",
        {},
    ),
    ModuleOption(
        "gpu_masks",
        "Hexadecimal masks of the CPUs beside each GPU, in PCI order: what each process of a node"
        " is bound to. Empty binds nothing.",
        [],
    ),
    ModuleOption("arguments", "More options of the program's own, at the end.", []),
    Option(
        "variables",
        "Environment variables of the run, name to value.",
        {},
        why="On GPUs of a size in the catalog the run also has those of catalog/nccl_settings.yml"
        " and nccl_variables; these win over them.",
    ),
    time_limit(1800, "the case"),
    *LAUNCHER,
)
# How a process that mpirun or srun started learns its place, as torchrun would tell it. Of mpirun's
# processes inside a Slurm job Slurm's numbers are those of mpirun itself.
_PLACE = {
    "mpirun": (
        "RANK=${OMPI_COMM_WORLD_RANK:?this is no mpirun of Open MPI}"
        " LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE"
    ),
    "slurm": "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS",
}
# sh's message for a node where that cannot be: no Python at the prefix, another MPI, no scontrol.
_NO_PLACE = re.compile(
    r"(?m)^(sh: .*(?:\bexec: |/venv/bin/python: |OMPI_COMM_WORLD_RANK: |MASTER_ADDR: ).*)$"
)
_EXEC = 'export RANK LOCAL_RANK WORLD_SIZE; exec "$@"'


@dataclass(frozen=True)
class Run:
    """The model to train, the program, and the nodes.

    Attributes:
        program: one of PROGRAMS.
        model: l, h, s, V and the heads.
        micro_batch: samples of each process in an iteration; there is no accumulation.
        processes: of each node; one a GPU where there are GPUs.
        nodes: names; the first is where the others meet.
        node_rank: this node's place in it.
        backend: nccl on nodes with GPUs, gloo elsewhere.
        rendezvous: address of the first node; with slurm it is found in the job where it is empty.
        launcher: torchrun (on each node, by somebody else), mpirun or slurm (from one of them).
        accumulated: samples of an iteration over all GPUs; 0: one micro batch of each model copy.
        save_interval: iterations between checkpoints in ``save_directory``; 0 for none.
    """

    program: str
    model: Model
    micro_batch: int
    iterations: int
    processes: int
    nodes: Sequence[str]
    node_rank: int
    backend: str
    zero_stage: int
    offload: str
    recompute: bool
    precision: str
    rendezvous: str
    port: int
    threads: int
    launcher: str = TORCHRUN
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    accumulated: int = 0
    transformer_engine: bool = False
    save_directory: str = ""
    save_interval: int = 0

    def __post_init__(self) -> None:
        """Refuse impossible runs.

        Raises:
            BadInput: naming the error, and the mend.
        """
        for wrong, message in [*self._places(), *self._combinations(), *self._of_megatron_lm()]:
            if wrong:
                raise BadInput(message)

    def _of_megatron_lm(self) -> Iterator[Tuple[bool, str]]:
        ours, by = self.program == "megatron", self.tensor_parallel * self.pipeline_parallel
        is_divisible = self.world_size % by == 0
        yield (
            not ours and (by > 1 or self.accumulated > 0),
            (
                "tensor_parallel, pipeline_parallel and global_batch are for program megatron, not"
                f" {self.program}"
            ),
        )
        yield (
            not is_divisible or self.model.layers % self.pipeline_parallel > 0,
            (
                f"tensor_parallel {self.tensor_parallel} x pipeline_parallel"
                f" {self.pipeline_parallel} must divide the {self.world_size} processes, and"
                f" pipeline_parallel the {self.model.layers} layers: take another number of nodes"
            ),
        )
        yield (
            is_divisible and self.accumulated % (self.micro_batch * self.copies) > 0,
            (
                f"global_batch {self.accumulated} is not a multiple of micro_batch"
                f" {self.micro_batch} x {self.copies} copies of the model"
            ),
        )
        yield (
            self.precision == "fp8" and not (ours and self.transformer_engine),
            (
                "precision fp8 needs program megatron with Transformer Engine: take the version set"
                " nd-h100"
            ),
        )
        yield (
            bool(self.save_directory) != bool(self.save_interval)
            or self.save_interval > self.iterations,
            (
                f"save_interval {self.save_interval}: checkpoints need save_directory too, and no"
                f" more than the {self.iterations} iterations between them"
            ),
        )

    def _places(self) -> Iterator[Tuple[bool, str]]:
        count = len(self.nodes)
        yield (
            not 0 <= self.node_rank < count,
            f"node_rank {self.node_rank} is not one of {count} nodes, from 0",
        )
        yield (
            self.node_rank > 0 and self.launcher != TORCHRUN,
            (
                f"node_rank {self.node_rank}: with {self.launcher} the first node starts the"
                " processes of all, and the others run nothing"
            ),
        )
        yield len(set(self.nodes)) != count, f"nodes has one twice: {', '.join(self.nodes)}"
        yield (
            count > 1 and not self.rendezvous and self.launcher != "slurm",
            (
                f"{count} nodes need rendezvous_address: that of {self.nodes[0]}, as the others"
                " reach it"
            ),
        )

    def _combinations(self) -> Iterator[Tuple[bool, str]]:
        ours, zero = self.program == "gpt_driver", self.zero_stage
        yield (
            not ours and self.backend != "nccl",
            f"{self.program} needs GPUs; program gpt_driver runs without",
        )
        yield (
            self.offload != "none" and zero != 3,
            f"offload {self.offload} needs zero_stage 3, not {zero}",
        )
        yield (
            self.program == "megatron" and zero > 1,
            (
                "program megatron has zero_stage 0 and 1 (its distributed optimizer); for"
                f" {zero} take megatron_deepspeed or gpt_driver"
            ),
        )
        yield (
            self.precision == "fp32" and not ours,
            f"{self.program} is run in bf16 or fp16 only",
        )
        yield (
            self.precision == "fp16" and ours,
            "gpt_driver has no fp16, whose skipped steps it could not show: take bf16 or fp32",
        )
        words = self.model.vocabulary_size
        yield (
            self.program == "megatron" and words % _PADDING > 0,
            (
                f"vocabulary_size {words} is not a multiple of {_PADDING}, to which Megatron-LM"
                " would pad it"
            ),
        )

    @property
    def world_size(self) -> int:
        """Processes on all nodes."""
        return self.processes * len(self.nodes)

    @property
    def global_batch(self) -> int:
        """Samples of one iteration."""
        return self.accumulated or self.micro_batch * self.copies

    @property
    def copies(self) -> int:
        """Of the model, each on as many GPUs as it is divided among."""
        return self.world_size // (self.tensor_parallel * self.pipeline_parallel)

    @property
    def deepspeed(self) -> bool:
        """Whether DeepSpeed takes part."""
        return self.program == "megatron_deepspeed" or (
            self.program == "gpt_driver" and self.zero_stage > 0
        )

    @property
    def framework(self) -> str:
        """The program that trains."""
        if self.program == "gpt_driver":
            return "deepspeed" if self.deepspeed else "pytorch"
        return "megatron_lm" if self.program == "megatron" else "megatron_deepspeed"


def asked(module_parameters: Mapping[str, Any]) -> Run:
    """The run that parameters by the names of megatron_bench describe; its launcher may be named as
    in the module (local) or as in records (torchrun).

    Raises:
        BadInput: it cannot be.
    """
    same = ("program", "micro_batch", "iterations", "processes", "nodes", "node_rank", "backend")
    more = ("zero_stage", "offload", "recompute", "precision", "threads", *_OF_MEGATRON_LM)
    return Run(
        model=Model(**{name: module_parameters[name] for name in _MODEL}),
        rendezvous=module_parameters["rendezvous_address"],
        port=module_parameters["rendezvous_port"],
        launcher=TORCHRUN
        if module_parameters["launcher"] == "local"
        else module_parameters["launcher"],
        accumulated=module_parameters["global_batch"],
        **{name: module_parameters[name] for name in same + more},
    )


# As NVIDIA runs it on H100 (Megatron-LM@d98e8a64 examples/llama/train_llama3_8b_h100_fp8.sh).
_EIGHT_BITS = [
    *("--fp8-format", "hybrid", "--fp8-amax-history-len", "1024"),
    *("--fp8-amax-compute-algo", "max"),
]


def case_name(run: Run) -> str:
    """The case's name: program, model and layout, stable from run to run."""
    model = run.model
    zero = f"-zero{run.zero_stage}" if run.zero_stage else ""
    zero += "-offload" if run.offload != "none" else ""
    shares = (("tp", run.tensor_parallel), ("pp", run.pipeline_parallel))
    zero += "".join(f"-{name}{share}" for name, share in shares if share > 1)
    zero += f"-gb{run.accumulated}" if run.accumulated else ""
    zero += "-fp8" if run.precision == "fp8" else ""
    zero += f"-save{run.save_interval}" if run.save_interval else ""
    by = f"-{run.launcher}" if run.launcher != TORCHRUN else ""
    return (
        f"{run.program}-l{model.layers}h{model.hidden_size}-s{model.sequence_length}"
        f"-mb{run.micro_batch}-n{len(run.nodes)}p{run.processes}{zero}{by}"
    )


_OF_MEGATRON_LM = (
    *("tensor_parallel", "pipeline_parallel", "transformer_engine"),
    *("save_directory", "save_interval"),
)
_MODEL = ("layers", "hidden_size", "attention_heads", "sequence_length", "vocabulary_size")
_RECORDED = (
    *("framework", "backend", "micro_batch", "global_batch", "iterations", "threads"),
    *("zero_stage", "offload", "recompute", "precision", "launcher"),
    *("tensor_parallel", "pipeline_parallel", "transformer_engine", "save_interval"),
)


def parameters(run: Run) -> Dict[str, Any]:
    """A record's parameters: the requested settings."""
    return {
        "program": "gpt_driver" if run.program == "gpt_driver" else "megatron",
        **{name: getattr(run.model, name) for name in _MODEL},
        **{name: getattr(run, name) for name in _RECORDED},
        "processes_per_node": run.processes,
        "tokens_per_iteration": run.global_batch * run.model.sequence_length,
    }


def command(
    run: Run,
    *,
    launcher: Optional[Launcher],
    variables: Mapping[str, str],
    limit_seconds: int,
    prefix: str,
    deepspeed_config: str,
    data: Mapping[str, str],
    arguments: Sequence[str],
    gpu_masks: Sequence[str] = (),
) -> List[str]:
    """The argv: torchrun on this node or a launcher over all of them, and the program with its
    options.

    Args:
        launcher: mpirun or slurm; None is torchrun.
        variables: those of the run, which mpirun has to be told the names of.
        limit_seconds: a Slurm job's own time limit.
        prefix: where role training installed it, on all nodes.
        deepspeed_config: DeepSpeed's JSON file, where DeepSpeed takes part.
        data: path, vocabulary and merges, which megatron_deepspeed needs.
        arguments: more of the program's own, at the end.
        gpu_masks: the CPUs of each process of a node; empty binds none.

    Raises:
        BadInput: DeepSpeed without a configuration, megatron_deepspeed without data, or fewer
            masks than processes.
    """
    if run.deepspeed and not deepspeed_config:
        raise BadInput(f"zero_stage {run.zero_stage} needs deepspeed_config")
    python = os.path.join(prefix, "venv", "bin", "python")
    program = [*_program(run, prefix, deepspeed_config, data), *arguments]
    placement = bound(gpu_masks, run.processes)
    if launcher is None:
        # With underscores: hyphens came with PyTorch 2.0.
        argv = [python, "-m", "torch.distributed.run"]
        argv += ["--nnodes", str(len(run.nodes)), "--nproc_per_node", str(run.processes)]
        argv += ["--node_rank", str(run.node_rank)]
        argv += ["--master_addr", run.rendezvous or "127.0.0.1", "--master_port", str(run.port)]
        if placement:
            # torchrun starts Python itself, unbound, unless it is given another program.
            program = ["--no_python", *bind_argv(placement), python, "-u", *program]
        return argv + program
    return launcher.command(
        ["sh", "-c", _place(run, launcher), "sh", python, *program],
        per_node=run.processes,
        variables=variables,
        placement=placement,
        gpus_per_node=run.processes if run.backend == "nccl" else 0,
        name="trueup-training",
        limit_seconds=limit_seconds,
    )


def _place(run: Run, launcher: Launcher) -> str:
    """Shell code that tells a process its place and becomes it."""
    parts = [_PLACE[run.launcher]]
    if run.launcher == "slurm" and len(run.nodes) > 1 and not run.rendezvous:
        # Slurm has an order of its own, whatever that of --nodelist; its first node has rank 0.
        scontrol = shlex.quote(os.path.join(launcher.path, "scontrol"))
        first = f'$({scontrol} show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
        parts += [f"MASTER_ADDR={first}", ": ${MASTER_ADDR:?scontrol does not say it}"]
        parts += ["export MASTER_ADDR"]
    return "; ".join([*parts, _EXEC])


def _program(run: Run, prefix: str, deepspeed_config: str, data: Mapping[str, str]) -> List[str]:
    if run.program == "gpt_driver":
        return _driver(run, prefix, deepspeed_config)
    argv = [os.path.join(prefix, "megatron", "pretrain_gpt.py"), *_megatron(run)]
    if run.program == "megatron":
        argv += ["--mock-data", "--tokenizer-type", "NullTokenizer", "--log-throughput"]
        # The tokenizer adds one token for the end of a document.
        argv += ["--vocab-size", str(run.model.vocabulary_size - 1)]
        if run.transformer_engine:
            argv += ["--transformer-impl", "transformer_engine", "--attention-backend", "auto"]
        else:
            # Without Transformer Engine and Apex, which are not in the version set.
            argv += ["--transformer-impl", "local", "--no-persist-layer-norm"]
            argv += ["--no-gradient-accumulation-fusion"]
        argv += _EIGHT_BITS if run.precision == "fp8" else []
        argv += ["--sequence-parallel"] if run.tensor_parallel > 1 else []
        argv += ["--ckpt-format", "torch_dist"] if run.save_interval else []
        argv += ["--use-distributed-optimizer"] if run.zero_stage == 1 else []
        recompute = ["--recompute-granularity", "full", "--recompute-method", "uniform"]
        argv += [*recompute, "--recompute-num-layers", "1"] if run.recompute else []
    else:
        lacking = [name for name in ("path", "vocabulary", "merges") if not data.get(name)]
        if lacking:
            raise BadInput(
                f"megatron_deepspeed has no made-up data: data lacks {', '.join(lacking)}"
            )
        argv += ["--data-path", data["path"], "--data-impl", "mmap"]
        argv += ["--vocab-file", data["vocabulary"], "--merge-file", data["merges"]]
        # It pads the tokenizer's vocabulary to a multiple of this.
        argv += ["--make-vocab-size-divisible-by", str(run.model.vocabulary_size)]
        argv += ["--deepspeed", "--deepspeed_config", deepspeed_config]
        argv += ["--zero-stage", str(run.zero_stage), "--no-pipeline-parallel"]
        argv += ["--cpu-optimizer"] if run.offload == "cpu" else []
        recompute = ["--checkpoint-activations", "--deepspeed-activation-checkpointing"]
        argv += recompute if run.recompute else []
    return argv


def _driver(run: Run, prefix: str, deepspeed_config: str) -> List[str]:
    argv = [os.path.join(prefix, "gpt_driver.py")]
    settings = {**vars(run.model), **vars(run)}
    for name in (
        *("layers", "hidden_size", "attention_heads", "sequence_length", "vocabulary_size"),
        *("micro_batch", "iterations", "backend"),
    ):
        argv += [f"--{name.replace('_', '-')}", str(settings[name])]
    argv += ["--threads", str(run.threads)] if run.threads else []
    argv += ["--recompute"] if run.recompute else []
    argv += ["--bf16"] if run.precision == "bf16" else []
    argv += _saving(run)
    return argv + (["--deepspeed", deepspeed_config] if run.deepspeed else [])


def _megatron(run: Run) -> List[str]:
    """Options that both Megatrons have."""
    model = run.model
    argv = []
    for name, value in (
        ("num-layers", model.layers),
        ("hidden-size", model.hidden_size),
        ("num-attention-heads", model.attention_heads),
        ("seq-length", model.sequence_length),
        ("max-position-embeddings", model.sequence_length),
        ("micro-batch-size", run.micro_batch),
        ("global-batch-size", run.global_batch),
        ("train-iters", run.iterations),
        ("tensor-model-parallel-size", run.tensor_parallel),
        ("pipeline-model-parallel-size", run.pipeline_parallel),
        ("lr", "1.0e-4"),
        ("lr-decay-style", "constant"),
        ("init-method-std", "0.006"),
        ("clip-grad", "1.0"),
        ("log-interval", 1),
        ("eval-iters", 0),
        ("eval-interval", run.iterations + 1),
        ("split", "98,2,0"),
    ):
        argv += [f"--{name}", str(value)]
    # Told to end, such as before an eviction, it writes one more.
    argv += [*_saving(run), "--exit-signal-handler"] if run.save_interval else []
    return [*argv, "--bf16" if run.precision == "fp8" else f"--{run.precision}"]


def _saving(run: Run) -> List[str]:
    """Options of all programs for checkpoints."""
    if not run.save_interval:
        return []
    return ["--save", run.save_directory, "--save-interval", str(run.save_interval)]


def environment(run: Run, interface: str, variables: Mapping[str, str]) -> Dict[str, str]:
    """The variables of the run: the interface that processes meet over, threads, and NCCL's; and
    those that torchrun would set by itself, where it does not start them."""
    run_variables: Dict[str, str] = {}
    if run.launcher != TORCHRUN:
        address = run.rendezvous or ("127.0.0.1" if len(run.nodes) == 1 else "")
        run_variables.update({"MASTER_ADDR": address} if address else {})
        run_variables["MASTER_PORT"] = str(run.port)
        if run.processes > 1:
            run_variables["OMP_NUM_THREADS"] = "1"
    if interface:
        run_variables["GLOO_SOCKET_IFNAME"] = interface
        if run.backend == "nccl":
            run_variables["NCCL_SOCKET_IFNAME"] = interface
    if run.threads:
        run_variables["OMP_NUM_THREADS"] = str(run.threads)
    if run.program != "gpt_driver":
        run_variables["CUDA_DEVICE_MAX_CONNECTIONS"] = (
            "1"  # Megatron's order of kernels asks for it
        )
    if run.backend == "gloo":
        run_variables["CUDA_VISIBLE_DEVICES"] = ""
    run_variables.update({str(name): str(value) for name, value in variables.items()})
    return run_variables


def explain(text: str) -> Optional[str]:
    """Why a launcher's processes did not become Python on a node, from the printed output."""
    match = _NO_PLACE.search(text)
    return f"on a node, {match.group(1)}" if match else None


def last_checkpoint(run: Run) -> Optional[str]:
    """Where a run that was ended goes on from, by the file that Megatron (checkpointing.py of
    megatron/training) and gpt_driver write after each checkpoint; None where it has none."""
    if not run.save_interval:
        return None
    try:
        path = os.path.join(run.save_directory, "latest_checkpointed_iteration.txt")
        with open(path, encoding="ascii") as stream:
            iteration = int(stream.read(32))
    except (OSError, ValueError):
        return f"no checkpoint is in {run.save_directory}"
    return f"the last checkpoint in {run.save_directory} is of iteration {iteration}"


def rates(run: Run, output: MegatronOutput) -> List[Metric]:
    """Rates of each GPU (of each process, without GPUs) by both formulas [flop/s], and tokens a
    second, by steps and by the clock, where the log did not say the length."""
    seconds = [item.seconds for item in output.measured]
    rows: List[Metric] = []
    for name, formula in (
        ("train_flops_article", article_flops),
        ("train_flops_megatron", megatron_flops),
    ):
        work = formula(run.model, run.global_batch) / run.world_size
        rows += summarise(name, [work / time for time in seconds], "flop/s", "higher")
    if output.sequence_length is None:
        tokens = run.global_batch * run.model.sequence_length
        rows += summarise("token_throughput", [tokens / time for time in seconds], "1/s", "higher")
        if output.clocked is not None:
            samples, clock = output.clocked
            value = samples * run.model.sequence_length / clock
            rows.append(
                Metric("token_rate_clocked", value, "1/s", "higher", statistic="single", n=1)
            )
    return rows


def _told(run: Run, output: MegatronOutput) -> Dict[str, Any]:
    """Requested settings that the log must confirm, where it shows them."""
    expected = {**parameters(run), "world_size": run.world_size}
    if output.exact and run.world_size == 1 and not run.deepspeed:
        expected["backend"] = "none"  # one process exchanges nothing
    if not run.threads:
        del expected["threads"]  # PyTorch's choice
    return expected


def judge(run: Run, output: MegatronOutput) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None."""
    return _other_run(run, output) or _other_place(run, output) or _untrained(output)


def _other_run(run: Run, output: MegatronOutput) -> Optional[str]:
    """How the run differs from the requested one."""
    ran = "gpt_driver" if output.exact else "megatron"
    expected = _told(run, output)
    if ran != expected["program"]:
        return f"{ran} ran instead of {expected['program']}"
    if output.part:
        return output.part[0]
    last = output.iterations[-1]
    if last.number != run.iterations:
        return f"{last.number} iterations ran instead of {run.iterations}"
    if last.batch != run.global_batch:
        return f"the global batch was {last.batch} instead of {run.global_batch}"
    device = output.parameters.get("device")
    if device is not None and (device == "cpu") != (run.backend == "gloo"):
        return f"it ran on {device}, which is not what backend {run.backend} is for"
    for name, value in output.parameters.items():
        if name in expected and value != str(expected[name]):
            return f"{name} was {value} instead of {expected[name]}"
    saves = run.iterations // run.save_interval if run.save_interval else 0
    # Megatron writes a last one, whatever the interval.
    if output.exact and len(output.saves) != saves:
        return f"{len(output.saves)} checkpoints were written instead of {saves}"
    return None


def _other_place(run: Run, output: MegatronOutput) -> Optional[str]:
    """Which hosts, or which length, were not asked for."""
    hosts = sorted(set(output.hosts))
    # With torchrun each node starts its own.
    if hosts and run.launcher != TORCHRUN and len(hosts) != len(run.nodes):
        return f"its processes ran on {', '.join(hosts)} instead of {len(run.nodes)} node(s)"
    if output.sequence_length not in (None, run.model.sequence_length):
        return (
            f"the sequence length was {output.sequence_length} instead of"
            f" {run.model.sequence_length}"
        )
    return None


def _untrained(output: MegatronOutput) -> Optional[str]:
    failed = [name for name, passed in output.checks.items() if not passed]
    reasons = [output.reasons[name] for name in failed if name in output.reasons]
    broken = [name for name in failed if name not in output.reasons]
    if reasons:
        return "; ".join([*reasons, *(f"{name} failed" for name in broken)])
    if broken:
        losses = [item.loss for item in output.iterations if item.loss is not None]
        loss_range = f"{losses[0]:.4f} to {losses[-1]:.4f}" if len(losses) > 1 else "not finite"
        return f"it did not train: {', '.join(broken)} failed (loss {loss_range})"
    return None
