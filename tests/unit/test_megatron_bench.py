"""The module megatron_bench: success, check mode, missing tool, unusable output, refusals, and
nodes that only take part."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import zlib
from pathlib import Path
from typing import Any

import megatron_bench
import pytest
import yaml
from ansible.module_utils.trueup_node.run import launcher, lock
from ansible.module_utils.trueup_node.run.resume import identity
from bench_modules import FakeRun, ends_badly, goes_well, refuses
from helpers import parametrized
from record_schema import RECORDS
from recorded_runs import MEGATRON_LM as LM_MODEL
from recorded_runs import TINY_GPT
from test_parse_megatron import IDLE, KILLED, LM, NAN, ONE, TWO, with_losses

ROOT = Path(__file__).parents[2]
ALONE = {"processes": 1, "iterations": 12}
HERE = {"nodes": ["node-1", "node-2"], "rendezvous_address": "10.0.0.4", "processes": 1}
# What follows venv/bin/python or torchrun's options in a run of HERE.
DRIVER = [
    *("/opt/trueup/training/gpt_driver.py", "--layers", "2", "--hidden-size", "128"),
    *("--attention-heads", "4", "--sequence-length", "64", "--vocabulary-size", "512"),
    *("--micro-batch", "4", "--iterations", "20", "--backend", "gloo", "--threads", "1"),
]
PYTHON = "/opt/trueup/training/venv/bin/python"


SLURM = {"launcher": "slurm", "job_directory": "/shared/jobs"}
MPIRUN_PLACE = (
    "RANK=${OMPI_COMM_WORLD_RANK:?this is no mpirun of Open MPI}"
    " LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE;"
    ' export RANK LOCAL_RANK WORLD_SIZE; exec "$@"'
)
SLURM_PLACE = (
    "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS;"
    ' MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1);'
    " : ${MASTER_ADDR:?scontrol does not say it}; export MASTER_ADDR;"
    ' export RANK LOCAL_RANK WORLD_SIZE; exec "$@"'
)


def saying(text: str, **figures: Any) -> str:
    """The driver's log with figures of its last line replaced, and the checksum to match."""
    first, mark, last = text.rpartition("trueup-megatron ")
    data = {**json.loads(last), **figures}
    del data["check"]
    data["check"] = zlib.crc32(json.dumps(data, sort_keys=True).encode())
    return first + mark + json.dumps(data)


@pytest.fixture(name="run_module")
def _run_module(runner: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setattr(launcher.os, "geteuid", lambda: 1000)
    # Its folder is of who runs this.
    monkeypatch.setattr(lock, "_own", lambda folder: folder)
    # Root may measure on this machine meanwhile, and would be waited for.
    monkeypatch.setattr(lock, "_ROOTS", str(tmp_path))
    return runner(megatron_bench, prefix="/opt/trueup/training", processes=2, threads=1)


def test_a_good_run_gives_a_record(run_module: Any) -> None:
    run = FakeRun(stdout=TWO)
    result, record = goes_well(run_module, run)
    assert record["case"] == "gpt_driver-l2h128-s64-mb4-n1p2"
    assert (record["ranks"], record["threads_per_rank"], record["gpus"]) == (2, 1, 0)
    assert record["parameters"] == {
        "program": "gpt_driver",
        "framework": "pytorch",
        "backend": "gloo",
        **TINY_GPT,
        "global_batch": 8,
        "iterations": 20,
        "processes_per_node": 2,
        "threads": 1,
        "zero_stage": 0,
        "offload": "none",
        "recompute": False,
        "precision": "fp32",
        "launcher": "torchrun",
        "tensor_parallel": 1,
        "pipeline_parallel": 1,
        "transformer_engine": False,
        "save_interval": 0,
        "tokens_per_iteration": 512,
    }
    assert record["software"] == {"torch": "2.13.0+cpu", "python": "3.11.7"}
    assert record["environment"] == {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    assert result["ansible_facts"] == {"trueup_megatron": record}
    assert len(run.calls) == 1
    assert run.calls[0]["argv"][:3] == [
        "/opt/trueup/training/venv/bin/python",
        "-m",
        "torch.distributed.run",
    ]


def test_gpt_driver_writes_checkpoints_and_their_times_are_recorded(run_module: Any) -> None:
    """Lines as gpt_driver prints them, put into a recorded log."""
    lines = TWO.splitlines(keepends=True)
    saved = "    save-checkpoint " + "." * 32 + ": ({0:.6f}, {1:.6f})\n"
    text = "".join([*lines[:-1], saved.format(0.34, 278.4), saved.format(0.17, 134.8), lines[-1]])
    run = FakeRun(stdout=text)
    record = run_module(run, save_directory="/lustre/ckpt", save_interval=10)["record"]
    argv = run.calls[0]["argv"]
    assert [argv[argv.index(name) + 1] for name in ("--save", "--save-interval")] == [
        "/lustre/ckpt",
        "10",
    ]
    assert "--exit-signal-handler" not in argv
    assert (record["outcome"], record["case"]) == ("ok", "gpt_driver-l2h128-s64-mb4-n1p2-save10")
    times = {
        (row["statistic"], row["n"]): row["value"]
        for row in record["metrics"]
        if row["name"] == "checkpoint_save_time"
    }
    assert times["max", 2] == pytest.approx(0.2784)
    lacking = run_module(FakeRun(stdout=TWO), save_directory="/lustre/ckpt", save_interval=10)
    assert (lacking["record"]["outcome"], lacking["record"]["reason"]) == (
        "invalid",
        "0 checkpoints were written instead of 2",
    )


def test_an_eviction_says_where_the_checkpoint_is(run_module: Any, tmp_path: Path) -> None:
    evicted = "Azure evicts this machine (Preempt, at once)"
    given = {**SAVING, "save_directory": str(tmp_path)}
    run = FakeRun(returncode=-15, reason=evicted)
    assert run_module(run, **given)["record"]["reason"] == (
        f"{evicted}: no checkpoint is in {tmp_path}"
    )
    # It is told to end in time for one more.
    assert "--exit-signal-handler" in run.calls[0]["argv"]
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("15")
    assert run_module(run, **given)["record"]["reason"] == (
        f"{evicted}: the last checkpoint in {tmp_path} is of iteration 15"
    )
    record = run_module(run, **{**given, "save_directory": "", "save_interval": 0})["record"]
    assert (record["outcome"], record["reason"]) == ("failed", evicted)
    assert "--exit-signal-handler" not in run.calls[-1]["argv"]


def test_the_first_of_several_nodes_makes_the_record(run_module: Any) -> None:
    first = FakeRun(stdout=TWO)
    record = run_module(first, **HERE, interface="eth0")["record"]
    assert (record["nodes"], record["node_count"], record["ranks"]) == (["node-1", "node-2"], 2, 2)
    assert record["environment"]["GLOO_SOCKET_IFNAME"] == "eth0"
    second = FakeRun(stdout="")
    result = run_module(second, **HERE, node_rank=1)
    assert (result["record"], result["ansible_facts"], result["changed"]) == (None, {}, False)
    one, two = (run.calls[0]["argv"] for run in (first, second))
    assert one[one.index("--node_rank") + 1] == "0"
    assert two[two.index("--node_rank") + 1] == "1"
    assert {argv[argv.index("--master_addr") + 1] for argv in (one, two)} == {"10.0.0.4"}
    failed = run_module(FakeRun(returncode=1), **HERE, node_rank=1)
    assert failed["failed"] is True


def test_torchrun_over_nodes_is_the_whole_of_the_local_command(run_module: Any) -> None:
    run = FakeRun(stdout=TWO)
    # hosts and what else a launcher takes decide nothing where none is asked.
    record = run_module(run, **HERE, hosts=["ssh-1", "ssh-2"])["record"]
    assert run.calls[0]["argv"] == [
        *(PYTHON, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "1"),
        *("--node_rank", "0", "--master_addr", "10.0.0.4", "--master_port", "29500"),
        *DRIVER,
    ]
    assert record["case"] == "gpt_driver-l2h128-s64-mb4-n2p1"
    assert "MASTER_ADDR" not in record["environment"]


def test_mpirun_starts_the_processes_of_all_nodes(run_module: Any, tmp_path: Path) -> None:
    run = FakeRun(stdout=saying(TWO, hosts=["a", "b"]))
    record = run_module(
        run,
        **{**HERE, "hosts": ["ssh-1", "ssh-2"]},
        launcher="mpirun",
        launcher_path="/opt/hpcx/ompi/bin/mpirun",
        launcher_arguments=["--mca", "btl_tcp_if_include", "eth0"],
        interface="eth0",
    )["record"]
    RECORDS.validate(record)
    assert run.calls[0]["argv"] == [
        *("/opt/hpcx/ompi/bin/mpirun", "-np", "2", "--map-by", "ppr:1:node", "--bind-to", "none"),
        *("--host", "ssh-1:1,ssh-2:1"),
        *("--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "plm_rsh_num_concurrent", "800"),
        *("-x", "CUDA_VISIBLE_DEVICES", "-x", "GLOO_SOCKET_IFNAME"),
        *("-x", "MASTER_ADDR", "-x", "MASTER_PORT", "-x", "OMP_NUM_THREADS"),
        *("--mca", "btl_tcp_if_include", "eth0"),
        *("sh", "-c", MPIRUN_PLACE, "sh", PYTHON, *DRIVER),
    ]
    assert (record["outcome"], record["case"]) == ("ok", "gpt_driver-l2h128-s64-mb4-n2p1-mpirun")
    assert record["parameters"]["launcher"] == "mpirun"
    assert (record["nodes"], record["node_count"], record["ranks"]) == (["node-1", "node-2"], 2, 2)
    assert record["environment"] == {
        "CUDA_VISIBLE_DEVICES": "",
        "GLOO_SOCKET_IFNAME": "eth0",
        "MASTER_ADDR": "10.0.0.4",
        "MASTER_PORT": "29500",
        "OMP_NUM_THREADS": "1",
    }
    assert run.calls[0]["environment"] == record["environment"]


def test_a_slurm_job_finds_its_first_node_itself(run_module: Any) -> None:
    run = FakeRun(stdout=saying(TWO, hosts=["a", "b"]))
    given = {**HERE, "rendezvous_address": "", "launcher": "slurm", "job_directory": "/shared/jobs"}
    options = {"launcher_arguments": ["--mpi=none"], "job_options": ["--partition=all"]}
    record = run_module(run, **given, **options, timeout_seconds=600)["record"]
    RECORDS.validate(record)
    argv = run.calls[0]["argv"]
    assert argv[:-1] == [
        *("sbatch", "--parsable", "--job-name=trueup-training", "--nodes=2"),
        *("--ntasks-per-node=1", "--nodelist=node-1,node-2", "--exclusive", "--mem=0"),
        *("--no-requeue", "--time=11", "--chdir=/shared/jobs"),
        *("--output=/shared/jobs/trueup-%j.out", "--error=/shared/jobs/trueup-%j.err"),
        "--partition=all",
    ]
    assert argv[-1].startswith("--wrap=exec ")
    assert shlex.split(argv[-1].partition("=")[2]) == [
        *("exec", "srun", "--ntasks=2", "--ntasks-per-node=1", "--kill-on-bad-exit=1"),
        *("--cpu-bind=none", "--mpi=none", "sh", "-c", SLURM_PLACE, "sh", PYTHON, *DRIVER),
    ]
    assert (record["outcome"], record["case"]) == ("ok", "gpt_driver-l2h128-s64-mb4-n2p1-slurm")
    assert record["parameters"]["launcher"] == "slurm"
    assert record["environment"] == {
        "CUDA_VISIBLE_DEVICES": "",
        "MASTER_PORT": "29500",
        "OMP_NUM_THREADS": "1",
    }
    # An address that is given holds.
    run_module(run, **{**given, "rendezvous_address": "10.0.0.4"})
    assert "scontrol" not in run.calls[1]["argv"][-1]
    assert run.calls[1]["environment"]["MASTER_ADDR"] == "10.0.0.4"


def test_slurm_is_asked_for_the_gpus(run_module: Any) -> None:
    run = FakeRun(stdout=LM)
    given = {**LM_MODEL, "launcher": "slurm", "job_directory": "/shared/jobs", "threads": 0}
    record = run_module(run, **given)["record"]
    argv = run.calls[0]["argv"]
    assert argv[3:7] == [
        *("--nodes=1", "--ntasks-per-node=8", "--gpus-per-node=8"),
        # Slurm would choose a node by itself.
        f"--nodelist={record['nodes'][0]}",
    ]
    assert record["outcome"] == "ok"
    # What torchrun would set, so that both launchers measure the same.
    assert record["environment"] == {
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "OMP_NUM_THREADS": "1",
    }


def test_mpirun_on_this_node_alone_names_no_host(run_module: Any) -> None:
    run = FakeRun(stdout=TWO)
    record = run_module(run, launcher="mpirun")["record"]
    assert run.calls[0]["argv"][:7] == [
        *("mpirun", "-np", "2", "--map-by", "ppr:2:node", "--bind-to", "none")
    ]
    assert "--host" not in run.calls[0]["argv"]
    assert record["environment"]["MASTER_ADDR"] == "127.0.0.1"
    assert record["outcome"] == "ok"


@parametrized(("place", "variables"))
def test_a_process_learns_its_place_from_the_launcher(
    place: str, variables: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    ((prefix, names),) = variables.items()
    scontrol = tmp_path / "scontrol"  # stand-in for Slurm's
    scontrol.write_text(
        '#!/bin/sh\n[ "$1 $2" = "show hostnames" ] && printf "%s1\\n%s2\\n" $3 $3\n'
    )
    scontrol.chmod(0o755)
    given = {f"{prefix}{name}": str(number) for number, name in enumerate(names, start=3)}
    asked = 'echo "$RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR" "$@"'
    code = globals()[place]
    done = subprocess.run(
        ["sh", "-c", code, "sh", "sh", "-c", asked, "sh", "a  b"],
        # Inside a Slurm job mpirun's processes have Slurm's variables too, those of mpirun itself.
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "MASTER_ADDR": "node-1" if place == "MPIRUN_PLACE" else "another",
            "SLURM_JOB_NODELIST": "node-",
            # Inside a Slurm job mpirun's processes have Slurm's numbers too: of mpirun itself.
            "SLURM_PROCID": "0",
            "SLURM_LOCALID": "0",
            "SLURM_NTASKS": "1",
            **given,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "3 4 5 node-1 a  b\n"


def test_another_mpirun_and_no_scontrol_are_said(tmp_path: Path) -> None:
    for place, sentence in (
        (MPIRUN_PLACE, "this is no mpirun of Open MPI"),
        (SLURM_PLACE, "scontrol does not say it"),
    ):
        done = subprocess.run(
            ["/bin/sh", "-c", place, "sh", "echo", "ran"],
            env={"PATH": str(tmp_path), "SLURM_PROCID": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode != 0, done.stdout) == (True, "")
        assert sentence in done.stderr


@pytest.mark.parametrize("hosts", [["a", "a"], ["a", "b", "c"]])
def test_processes_on_other_nodes_than_asked_for_are_invalid(
    run_module: Any, hosts: list[str]
) -> None:
    run = FakeRun(stdout=saying(TWO, hosts=hosts))
    record = run_module(run, **HERE, launcher="mpirun")["record"]
    assert record["outcome"] == "invalid"
    names = ", ".join(sorted(set(hosts)))
    assert record["reason"] == f"its processes ran on {names} instead of 2 node(s)"


def test_a_node_that_does_not_answer_is_named(run_module: Any) -> None:
    sentence = "node node-2 does not answer ssh from here (no answer)"
    run = FakeRun(stdout=TWO, lost=[sentence])
    record = run_module(run, **HERE, launcher="mpirun")["record"]
    assert (record["outcome"], record["reason"], run.calls) == ("failed", sentence, [])


@pytest.mark.parametrize("rank", [0, 1])
def test_torchrun_does_not_wait_for_a_node_that_does_not_come(run_module: Any, rank: int) -> None:
    run = FakeRun()
    result = run_module(run, **HERE, node_rank=rank, absent=["node-2"])
    assert result["record"]["outcome"] == "failed"
    assert result["record"]["reason"].startswith("node node-2 takes no part in this play")
    assert run.calls == []


test_a_bad_end_gives_a_record_with_the_reason = ends_badly(
    ({"returncode": -9, "stdout": KILLED}, "failed", "SIGKILL"),
    ({"stdout": KILLED}, "failed", "2 iteration lines"),
    ({"stdout": TWO[:3000]}, "failed", "output not understood"),
    ({"stdout": ""}, "failed", "0 iteration lines"),
    ({"timed_out": True}, "failed", "time limit of 1800 s"),
    ({"stdout": LM}, "invalid", "megatron ran instead of gpt_driver"),
)


RISING = with_losses([10.0 + 0.2 * at for at in range(20)])


@pytest.mark.parametrize(
    ("output", "arguments", "reason"),
    [
        (NAN, {"iterations": 8}, "loss_finite, loss_falls, no_iteration_nan failed"),
        (TWO, {"iterations": 30}, "20 iterations ran instead of 30"),
        (TWO, {"processes": 4}, "the global batch was 8 instead of 16"),
        (TWO, {"processes": 4, "micro_batch": 2}, "world_size was 2 instead of 4"),
        (TWO, {"layers": 3}, "layers was 2 instead of 3"),
        (TWO, {"vocabulary_size": 1024}, "vocabulary_size was 512 instead of 1024"),
        (TWO, {"sequence_length": 128}, "sequence_length was 64 instead of 128"),
        (TWO, {"recompute": True}, "recompute was False instead of True"),
        (TWO, {"threads": 2}, "threads was 1 instead of 2"),
        (TWO, {"backend": "nccl"}, "it ran on cpu, which is not what backend nccl is for"),
        (ONE, {**ALONE, "backend": "nccl"}, "it ran on cpu, which is not what backend nccl"),
        (
            saying(ONE, device="NVIDIA A100"),
            ALONE,
            "it ran on NVIDIA A100, which is not what backend gloo is for",
        ),
        (IDLE, {**ALONE, "iterations": 20}, "loss_falls failed (loss 6.2220 to 6.2268)"),
        (RISING, LM_MODEL, "loss ended above its start (10 to 13.8); loss_falls failed"),
        (LM, {**LM_MODEL, "hidden_size": 4096}, "hidden_size was 2048 instead of 4096"),
    ],
)
def test_another_run_than_asked_for_is_invalid(
    run_module: Any, output: str, arguments: dict[str, Any], reason: str
) -> None:
    record = run_module(FakeRun(stdout=output), **arguments)["record"]
    assert record["outcome"] == "invalid"
    assert reason in record["reason"]


test_bad_input_is_refused_before_anything_runs = refuses(
    ({"iterations": 5}, "iterations is 5: it must be 6 or more"),
    ({"layers": 0}, "layers is 0: it must be 1 or more"),
    ({"hidden_size": 130}, "hidden_size 130 cannot be divided among 4 attention_heads"),
    ({"processes": 0}, "processes is 0: it must be 1 or more"),
    ({"threads": -1}, "threads is -1: it must be 0 or more"),
    ({"zero_stage": 4}, "zero_stage is 4: it must be 0 or more, 3 or less"),
    ({"zero_stage": 1}, "zero_stage 1 needs deepspeed_config"),
    ({"zero_stage": 1, "deepspeed_config": "/no/such"}, "/no/such is not a file on this node"),
    ({"offload": "cpu"}, "offload cpu needs zero_stage 3, not 0"),
    ({"node_rank": 1}, "node_rank 1 is not one of 1 nodes"),
    ({"nodes": ["a", "a"]}, "nodes has one twice: a, a"),
    ({"nodes": ["a", "b"]}, "2 nodes need rendezvous_address: that of a"),
    ({**HERE, "launcher": "mpirun", "rendezvous_address": ""}, "that of node-1"),
    ({**HERE, "launcher": "mpirun", "node_rank": 1}, "with mpirun the first node starts"),
    ({**HERE, "launcher": "mpirun", "hosts": ["a"]}, "hosts has 1 names for 2 nodes"),
    ({**HERE, "launcher": "slurm"}, "launcher slurm needs job_directory"),
    ({**SLURM, "queue_seconds": 0}, "queue_seconds 0"),
    ({**SLURM, "nodes": ["a b"]}, "'a b' among the nodes is no host name"),
    ({"program": "megatron", "precision": "bf16"}, "megatron needs GPUs"),
    ({**LM_MODEL, "precision": "fp32"}, "megatron is run in bf16 or fp16 only"),
    ({**LM_MODEL, "zero_stage": 3}, "take megatron_deepspeed or gpt_driver"),
    ({**LM_MODEL, "vocabulary_size": 50257}, "50257 is not a multiple of 128"),
    ({"precision": "fp16"}, "gpt_driver has no fp16"),
    ({"precision": "fp16", "zero_stage": 3}, "gpt_driver has no fp16"),
    ({"tensor_parallel": 2, "processes": 2}, "are for program megatron, not gpt_driver"),
    ({**LM_MODEL, "tensor_parallel": 8, "pipeline_parallel": 16}, "must divide the 8 processes"),
    ({**LM_MODEL, "pipeline_parallel": 8, "layers": 20}, "pipeline_parallel the 20 layers"),
    ({**LM_MODEL, "tensor_parallel": 8, "global_batch": 12}, "not a multiple of micro_batch 8 x 1"),
    ({**LM_MODEL, "precision": "fp8"}, "precision fp8 needs program megatron with Transformer"),
    ({**LM_MODEL, "save_interval": 5}, "checkpoints need save_directory too"),
    ({**LM_MODEL, "save_directory": "/c", "save_interval": 500}, "no more than the 20 iterations"),
    ({"timeout_seconds": 0}, "timeout_seconds is 0: it must be 1 or more"),
)


def recorded(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(json.dumps(identity(record)))]


# Of what a launcher takes alone, and of DeepSpeed, in a run that has them.
SAVING = {**LM_MODEL, "save_directory": "/lustre/ckpt", "save_interval": 5}


def test_every_node_of_torchrun_takes_the_first_ones_record(run_module: Any) -> None:
    """One that measured alone would wait for the others until the time limit."""
    earlier = recorded(run_module(FakeRun(stdout=TWO), **HERE)["record"])
    for rank in (0, 1):
        run = FakeRun()
        assert run_module(run, **HERE, node_rank=rank, earlier=earlier)["resumed"] == 0
        changed = run_module(run, **HERE, node_rank=rank, layers=3, check=True, earlier=earlier)
        assert (changed["resumed"], run.calls) == (None, [])


@pytest.mark.parametrize("name", ["current", "cpu"])
def test_a_version_sets_versions_are_those_that_are_pinned(name: str) -> None:
    chosen = yaml.safe_load((ROOT / "catalog" / "training.yml").read_text())["sets"][name]
    pins: dict[str, set[str]] = {}
    for file in chosen["requirements"]:
        text = (ROOT / "roles" / "training" / "files" / file).read_text()
        for distribution, version in re.findall(r"(?m)^([A-Za-z0-9_.-]+)==([^ ]+)", text):
            pins.setdefault(distribution, set()).add(version)
    # Two files that pin one thing otherwise would undo each other at each run.
    assert {pin: versions for pin, versions in pins.items() if len(versions) > 1} == {}
    assert pins["torch"] == {chosen["versions"]["pytorch"]}
    if "deepspeed" in chosen["versions"]:
        assert pins["deepspeed"] == {chosen["versions"]["deepspeed"]}
