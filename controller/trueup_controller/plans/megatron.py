"""The role training, planned: version set, program, model and layout, DeepSpeed's configurations,
and the one case."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from trueup_node.benchmarks.megatron.case import CATALOG, OPTIONS, RENDEZVOUS_PORT, TORCHRUN
from trueup_node.benchmarks.megatron.case import asked as run_of
from trueup_node.errors import BadInput
from trueup_node.node import mpi, own_python
from trueup_node.node.affinity import srun_cpu_bind
from trueup_node.node.gpu_places import bound, gpu_places
from trueup_node.node.pythons import Need
from trueup_node.options import ROLE, for_module, refusals
from trueup_node.plan import Plan, PlanInputs, Skipped
from trueup_node.run.launcher import bind_argv

from .. import launch_nodes as together
from .gpu_grid import lacks_cuda_13
from .nccl_setup import PROFILES, job_variables

_NEEDED_MIB = {True: 8192, False: 1024}
_OWN_MODEL = ("layers", "hidden_size", "attention_heads")
_RECOMPUTE = {"true": True, "yes": True, "false": False, "no": False}
_OF_THE_MODULE = [option for option in OPTIONS if option.of != ROLE]
_DEFAULTS = {option.name: option.default for option in _OF_THE_MODULE}
# The precision on GPUs where none is asked for.
_ON_GPUS = "bf16"
_DIVIDED = {"tensor_parallel": 1, "pipeline_parallel": 1, "global_batch": 0}


def programs(inputs: PlanInputs) -> dict[str, Any]:
    """Preflight queries for the node, as arguments of program_facts."""
    _, versions = _version_set(inputs)
    return {**own_python.programs(inputs, Need.of(versions["python"])), "programs": ["git"]}


class _Chosen(NamedTuple):
    """The values of ``auto`` and ``catalog`` on this node.

    Attributes:
        gpus: how many the node has.
        set_name, versions: the version set of catalog/training.yml.
        program: the program that trains.
        model: of the catalog or the user's own, with ``runs``.
        parallelism: how the catalog's runs of it were made.
    """

    gpus: int
    set_name: str
    versions: Mapping[str, Any]
    program: str
    model: Mapping[str, Any]
    parallelism: Mapping[str, Any]
    zero_stage: int

    @property
    def need(self) -> Need:
        """The set's requirements of Python."""
        return Need.of(self.versions["python"])

    def clone(self, mirror: str) -> dict[str, str]:
        """Repository and commit of Megatron; empty without it."""
        if self.program == "gpt_driver":
            return {}
        source = self.versions["megatron"]
        return {"repository": mirror or source["repository"], "commit": source["commit"]}


def plan(inputs: PlanInputs) -> Plan:
    """One case, on each node that has a part in it.

    ``clone`` is Megatron's repository and commit, or empty, ``files`` DeepSpeed's configurations,
    ``stale_link`` says whether ``venv`` is a link to an environment that is taken no more;
    ``processes``, ``node_count`` and ``gpus`` are for the launchers of the user's own jobs, as is
    ``mpirun``.
    """
    options, catalog = inputs.options, inputs.catalog("training.yml")
    hosts = [name.strip() for name in options["hosts"] if name.strip()]
    refused = _wrong(options, hosts, catalog, inputs.hostvars)
    if refused:
        return Plan(refused=refused)
    chosen = _choose(inputs, catalog)
    nodes = hosts or [inputs.host]
    case = _case(inputs, chosen, nodes)
    lacking = _lacking(inputs, chosen)
    mine = inputs.host in (nodes if options["launcher"] == TORCHRUN else nodes[:1])
    refused = _impossible(inputs, nodes)
    if mine and not lacking:
        refused += _no_run(case, nodes)
    return Plan(
        values={
            "clone": chosen.clone(options["megatron_repository"]),
            "files": _files(case, catalog),
            "environment": own_python.environment(
                inputs, "training", chosen.need, chosen.versions["requirements"]
            ),
            "stale_link": not options["venv"] and own_python.venv(inputs)["link"],
            "processes": case["processes"],
            "node_count": len(nodes),
            "gpus": chosen.gpus,
            "port": RENDEZVOUS_PORT,
            "job_options": case["job_options"],
            **_launching(case),
            **_told(inputs.options, chosen.gpus),
            "mpirun": started_by(inputs.node),
        },
        skipped=[Skipped("training", reason) for reason in lacking],
        refused=[f"training: {text}." for text in refused],
        cases=[case] if mine else [],
    )


def _launching(case: Mapping[str, Any]) -> dict[str, str]:
    """Words of the launchers for a user's own jobs that put each process beside its GPU, with a
    blank behind them; empty where nothing is bound."""
    placement = bound(case["gpu_masks"], case["processes"])
    if placement is None:
        return {"srun": "", "bind": "", "torchrun": ""}
    bind = " ".join(shlex.quote(argument) for argument in bind_argv(placement))
    return {
        "srun": f"--cpu-bind={srun_cpu_bind(placement)} ",
        "bind": f"{bind} ",
        "torchrun": f"--no_python {bind} ./venv/bin/python -u ",
    }


def started_by(node: Mapping[str, Any]) -> str:
    """Words of a shell that start the node's Open MPI; that of the session where it has none."""
    mpi_launcher = mpi.of(node)
    if mpi_launcher is None or not mpi_launcher.environment or mpi_launcher.by_hydra:
        return "mpirun"
    name = "LD_LIBRARY_PATH"
    more = {name: f'"${{{name}:+:${name}}}"'}
    assignments = (
        f"{key}={shlex.quote(value)}{more.get(key, '')}"
        for key, value in mpi_launcher.environment.items()
        # Other variables of the fact are for programs that use MPI: these do not.
        if key in ("OPAL_PREFIX", name)
    )
    return " ".join(["env", *assignments, shlex.quote(mpi_launcher.path)])


def _told(options: Mapping[str, Any], gpus: int) -> dict[str, str]:
    """Variables in these launchers: ``exports`` are lines of a shell that has ``nodes``, how many
    take part; ``passed`` are words of mpirun, with a blank behind them."""
    interface, lines = options["interface"], []
    variables = dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), interface)
    variables = {**(variables if interface else {}), **options["variables"]}
    if gpus:
        lines += [
            "# What NCCL is told on one node or several (role nccl), where that role has been.",
            f"profile={PROFILES}/single_node.sh",
            f'[ "$nodes" = 1 ] || profile={PROFILES}/multi_node_training.sh',
            '[ ! -e "$profile" ] || . "$profile"',
        ]
    set_to = [f"{name}={shlex.quote(str(value))}" for name, value in sorted(variables.items())]
    return {
        "exports": "\n".join([*lines, *(f"export {assignment}" for assignment in set_to)]),
        "passed": "".join(f"-x {assignment} " for assignment in set_to),
    }


def _wrong(
    options: Mapping[str, Any],
    hosts: list[str],
    catalog: Mapping[str, Any],
    hostvars: Mapping[str, Any],
) -> list[str]:
    """Why no node could use the variables, a sentence each."""
    models, custom_model = catalog["models"], options["custom_model"]
    refused = []
    if options["model"] not in ("auto", "custom", *models):
        refused.append(
            f"training_model {options['model']} is none of auto, custom, {', '.join(models)}."
        )
    may = {*_OWN_MODEL, "vocabulary_size"}
    if not set(custom_model) <= may or (
        options["model"] == "custom" and not set(_OWN_MODEL) <= set(custom_model)
    ):
        refused.append(
            f"training_custom_model has {', '.join(custom_model) or 'nothing'}: it has"
            f" {', '.join(_OWN_MODEL)}, may have vocabulary_size, and nothing else."
        )
    if options["recompute"].lower() not in (CATALOG, *_RECOMPUTE):
        refused.append(
            f"training_recompute is {options['recompute']}: it must be {CATALOG}, true or false."
        )
    if options["prefix"][:1] not in ("/", "~"):
        refused.append(f"training_prefix {options['prefix']} is not an absolute path.")
    strange = [name for name in hosts if name not in hostvars]
    if strange or len(set(hosts)) < len(hosts):
        refused.append(
            f"training_hosts {', '.join(hosts)} must be hosts of the inventory, each once."
        )
    return refused


def _version_set(inputs: PlanInputs) -> tuple[str, Mapping[str, Any]]:
    """The set of catalog/training.yml that the node gets, by its name."""
    name = inputs.options["version_set"]
    if name == "auto":
        name = "current" if inputs.node.get("gpus") else "cpu"
    return name, inputs.catalog("training.yml")["sets"][name]


def _choose(inputs: PlanInputs, catalog: Mapping[str, Any]) -> _Chosen:
    options, gpus = inputs.options, len(inputs.node.get("gpus") or [])
    program, name = options["program"], options["model"]
    set_name, versions = _version_set(inputs)
    if name == "auto":
        name = "1.3B" if gpus else "tiny"
    custom_model = {
        "runs": [{"sequence_length": 1024, "micro_batch": [1]}],
        **options["custom_model"],
    }
    model = custom_model if name == "custom" else catalog["models"][name]
    parallelism = catalog["parallelism"].get(name, {})
    asked_stage = options["zero_stage"]
    stage = parallelism.get("zero_stage", 0) if asked_stage == CATALOG else asked_stage
    if program == "auto":
        program = versions["megatron"].get("program", "gpt_driver") if gpus else "gpt_driver"
        # Megatron-LM has no ZeRO-2 and 3: gpt_driver takes those of DeepSpeed.
        if program == "megatron" and int(stage) > 1:
            program = "gpt_driver"
    return _Chosen(
        gpus=gpus,
        set_name=set_name,
        versions=versions,
        program=program,
        model={"vocabulary_size": catalog["vocabulary"]["padded"], **model},
        parallelism=parallelism,
        zero_stage=int(stage),
    )


def _case(inputs: PlanInputs, chosen: _Chosen, nodes: list[str]) -> dict[str, Any]:
    options = inputs.options
    processes = options["processes"] or chosen.gpus or 2
    cores = inputs.node.get("cores") or 1
    return {
        **for_module(OPTIONS, options),
        **{name: chosen.model[name] for name in (*_OWN_MODEL, "vocabulary_size")},
        **_work(options, chosen),
        **_where(inputs, nodes),
        "processes": processes,
        "threads": options["threads"] or (0 if chosen.gpus else max(1, cores // processes)),
        "backend": "nccl" if chosen.gpus else "gloo",
        **_bound(inputs, chosen, processes, len(nodes)),
    }


def _bound(inputs: PlanInputs, chosen: _Chosen, processes: int, nodes: int) -> dict[str, Any]:
    """CPU masks and variables of the processes, and srun's --mpi, on GPUs of a size that the
    catalog knows; nothing of it anywhere else."""
    options, size = inputs.options, inputs.node.get("vm_size")
    if not (chosen.gpus and size):
        arguments = together.play_arguments(options["launcher"], inputs.variables)
        return {"launcher_arguments": arguments, "gpu_masks": []}
    places = gpu_places(size, chosen.gpus, inputs.catalog("topologies.yml"))
    variables = job_variables(inputs, "multi_node" if nodes > 1 else "single_node", "training")
    if options["interface"]:
        variables.pop("NCCL_SOCKET_IFNAME", None)
    return {
        "gpu_masks": [gpu.mask for gpu in places] if processes <= len(places) else [],
        "variables": {**variables, **options["variables"]},
        "launcher_arguments": together.launcher_arguments(options["launcher"], inputs),
    }


def _where(inputs: PlanInputs, nodes: list[str]) -> dict[str, Any]:
    """The nodes, and the launcher of the processes there."""
    options, launcher = inputs.options, inputs.options["launcher"]
    # mpirun on one node needs no name for it, nor ssh.
    named = [] if launcher == "mpirun" and len(nodes) == 1 else nodes
    rank = nodes.index(inputs.host) if inputs.host in nodes else 0
    return {
        "nodes": named,
        "hosts": together.hosts(named, inputs.hostvars),
        "absent": together.absent(nodes, inputs.hosts, inputs.hostvars, "training"),
        "launcher": "local" if launcher == TORCHRUN else launcher,
        **together.slurm_job(inputs.variables),
        "node_rank": rank,
        # The record is the first one's.
        "node": _facts(inputs.hostvars, nodes[0]) if rank else None,
        "rendezvous_address": options["rendezvous_address"] or _first(inputs, nodes),
    }


def _work(options: Mapping[str, Any], chosen: _Chosen) -> dict[str, Any]:
    """The work of each process; the catalog's last run gives the values that the user left out."""
    run, offload = chosen.model["runs"][-1], options["offload"]
    recompute = options["recompute"].lower()
    return {
        "program": chosen.program,
        "sequence_length": options["sequence_length"] or run["sequence_length"],
        "micro_batch": options["micro_batch"] or run["micro_batch"][-1],
        "zero_stage": chosen.zero_stage,
        "offload": chosen.parallelism.get("offload", "none") if offload == CATALOG else offload,
        "deepspeed_config": f"{options['prefix']}/zero.json",
        "recompute": _RECOMPUTE.get(recompute, chosen.parallelism.get("recompute", False)),
        **{name: options["division"].get(name) or _divided(chosen, name) for name in _DIVIDED},
        "transformer_engine": chosen.program == "megatron"
        and "transformer_engine" in chosen.versions["versions"],
        "precision": _precision(options["precision"], chosen),
    }


def _divided(chosen: _Chosen, name: str) -> int:
    """How the catalog's runs of the model were divided; values that are not for this program are
    left out: the article's 1 and 1 are everybody's."""
    parallelism = chosen.parallelism if chosen.program == "megatron" else {}
    return int(parallelism.get(name, _DIVIDED[name]))


def _facts(hostvars: Mapping[str, Any], name: str) -> dict[str, Any]:
    facts: dict[str, Any] = (hostvars[name].get("ansible_facts") or {}).get("trueup_node") or {}
    return facts


def _first(inputs: PlanInputs, nodes: list[str]) -> str:
    """Where the others meet; of a Slurm job and one node, nowhere that must be said."""
    if len(nodes) == 1 or inputs.options["launcher"] == "slurm":
        return ""
    return str(inputs.hostvars[nodes[0]].get("ansible_host") or nodes[0])


def _precision(requested: str, chosen: _Chosen) -> str:
    if requested != "auto":
        return requested
    return _ON_GPUS if chosen.gpus else "fp32"


def _lacking(inputs: PlanInputs, chosen: _Chosen) -> list[str]:
    """Why this node cannot have the role, a sentence each."""
    options = inputs.options
    megatron = chosen.program != "gpt_driver"
    sharded = not megatron and chosen.zero_stage > 0
    builds_venv, of_set = not options["venv"], f"the version set {chosen.set_name}"
    rules = (
        (
            builds_venv and not chosen.versions["requirements"],
            f"{of_set} is no set of wheels to install: set training_venv",
        ),
        (
            megatron and not inputs.found["programs"]["git"],
            "no git on this node, which Megatron is fetched with",
        ),
        (
            megatron and not chosen.gpus,
            f"{chosen.program} needs NVIDIA GPUs, and there is none: gpt_driver runs without",
        ),
        (
            builds_venv and sharded and "deepspeed" not in chosen.versions["versions"],
            f"zero_stage {chosen.zero_stage} needs DeepSpeed, which {of_set} does not have",
        ),
    )
    reasons = _environment(inputs, chosen) if builds_venv else []
    reasons += lacks_cuda_13(inputs) if builds_venv and chosen.gpus else []
    return [*reasons, *(reason for lacks, reason in rules if lacks)]


def _environment(inputs: PlanInputs, chosen: _Chosen) -> list[str]:
    """Why the role cannot make its own."""
    space = _NEEDED_MIB[bool(chosen.gpus)]
    return own_python.lacking(inputs, "training", chosen.need, mebibytes=space)


def _impossible(inputs: PlanInputs, nodes: list[str]) -> list[str]:
    """Why this node refuses."""
    options, venv = inputs.options, own_python.venv(inputs)
    refused = []
    if options["venv"] and venv["there"] and not venv["link"]:
        refused.append(
            f"training_venv {options['venv']} would stand at {options['prefix']}/venv, where the"
            " role's own environment is: remove that, or set training_prefix to another folder"
        )
    no_directory = together.without_job_directory(inputs.variables)
    if options["launcher"] == "slurm" and no_directory:
        refused.append(f"training_launcher: {no_directory}")
    unlike = together.unlike(nodes, inputs.hostvars)
    return [*refused, *([f"training_hosts: {unlike}"] if unlike else [])]


def _no_run(case: Mapping[str, Any], nodes: list[str]) -> list[str]:
    """Why the case cannot be run, by the module's own rules; empty where it can."""
    try:
        model_numbers = {name: int(case[name]) for name in (*_OWN_MODEL, "vocabulary_size")}
    except (TypeError, ValueError):
        return ["training_custom_model has a number that is not whole"]
    refused = refusals(_OF_THE_MODULE, {**case, **model_numbers})
    if not refused:
        try:
            run_of({**_DEFAULTS, **case, **model_numbers, "nodes": nodes})
        except BadInput as error:
            refused = [str(error)]
    return refused


def _files(case: Mapping[str, Any], catalog: Mapping[str, Any]) -> list[dict[str, str]]:
    """DeepSpeed's configuration of this node's run, and of each catalog model's."""
    contents = {
        "zero.json": deepspeed_configuration(
            case["micro_batch"], case["zero_stage"], case["offload"], case["precision"]
        )
    }
    for name, parallelism in catalog["parallelism"].items():
        if parallelism["zero_stage"] < 2:
            # Megatron-LM's own optimizer.
            continue
        micro_batch = catalog["models"][name]["runs"][-1]["micro_batch"][-1]
        contents[f"zero-{name}.json"] = deepspeed_configuration(
            micro_batch, parallelism["zero_stage"], parallelism["offload"], _ON_GPUS
        )
    return [
        {
            "path": f"{case['prefix']}/{name}",
            "content": json.dumps(content, indent=2, sort_keys=True) + "\n",
        }
        for name, content in contents.items()
    ]


def deepspeed_configuration(
    micro_batch: int, zero_stage: int, offload: str, precision: str
) -> dict[str, Any]:
    """DeepSpeed's configuration, as its documentation names the members; sizes are those of the
    article's recipes (Megatron-DeepSpeed, examples/azure)."""
    zero: dict[str, Any] = {
        "stage": zero_stage,
        "contiguous_gradients": True,
        "overlap_comm": True,
        "reduce_bucket_size": 90000000,
        "stage3_prefetch_bucket_size": 50000000,
        "stage3_param_persistence_threshold": 100000,
        "stage3_max_live_parameters": 3000000000,
        "stage3_max_reuse_distance": 3000000000,
        "sub_group_size": 1000000000,
    }
    if offload == "cpu":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    half: dict[str, Any] = {"enabled": precision == "fp16"}
    if precision == "fp16":
        half.update(initial_scale_power=15, loss_scale_window=1000, hysteresis=2, min_loss_scale=1)
    return {
        "train_micro_batch_size_per_gpu": micro_batch,
        "gradient_accumulation_steps": 1,
        "steps_per_print": 1000000,
        "gradient_clipping": 1.0,
        "zero_allow_untested_optimizer": False,
        "zero_optimization": zero,
        "bf16": {"enabled": precision == "bf16"},
        "fp16": half,
    }
