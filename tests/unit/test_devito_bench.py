"""The module devito_bench: success, check mode, missing tool, unusable output, refusals."""

from __future__ import annotations

import json
import os
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import devito_bench
import pytest
from ansible.module_utils.trueup_node.benchmarks.devito import case as devito
from ansible.module_utils.trueup_node.benchmarks.devito.output import parse_devito
from ansible.module_utils.trueup_node.node.topology import Topology
from ansible.module_utils.trueup_node.run import process
from bench_modules import LAUNCHED, FakeRun, checks_only, ends_badly, refuses, resumes
from helpers import parametrized
from record_schema import RECORDS

DATA = Path(__file__).parent.parent / "data" / "devito"
GIB = 1024**3
ALWAYS = {"changed", "record", "raw", "command", "environment"}

# Two NUMA nodes of two cores.
MACHINE = Topology(
    cpus=(0, 1, 2, 3),
    numa={0: (0, 1), 1: (2, 3)},
    l3_groups=((0, 1), (2, 3)),
    cores=((0,), (1,), (2,), (3,)),
    last_level_cache_bytes=64 * 1024**2,
)


@pytest.fixture(name="run_module")
def _run_module(runner: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setattr(devito_bench, "read_topology", lambda **_: MACHINE)
    monkeypatch.setattr(devito_bench, "available_memory_bytes", lambda: 8 * GIB)
    return runner(devito_bench, prefix=str(tmp_path / "devito"), shape="128x128x128")


def driver_output(name: str = "driver_openmp.log") -> str:
    return (DATA / name).read_text()


def test_a_good_run_gives_a_record(run_module: Any, tmp_path: Path) -> None:
    run = FakeRun(stdout=driver_output())
    result = run_module(run, threads_per_rank=2, memory_bandwidth=40e9, timeout_seconds=60)
    assert set(result) >= ALWAYS
    record = result["record"]
    RECORDS.validate(record)
    assert (record["outcome"], record["reason"]) == ("ok", None)
    assert (record["ranks"], record["threads_per_rank"], record["nodes"]) == (1, 2, ["node-1"])
    assert record["case"] == "acoustic-so8-128x128x128-tn200-r1t2-core"
    assert record["software"]["devito"] == "4.8.23"
    assert record["parameters"]["block_shape"] == "8x8"
    assert record["duration_seconds"] == 4.5
    assert result["ansible_facts"] == {"trueup_devito": record}
    assert result["raw"] == driver_output()
    rows = {(row["name"], row.get("statistic")): row for row in record["metrics"]}
    assert rows["run_time", "median"]["value"] == 1.2640109062194824
    assert rows["run_time", "median"]["n"] == 3
    roof = 40e9 * 2.561128666391929
    expected = 12118114816.0 / 1.2640109062194824 / roof
    assert rows["roofline_fraction", "median"]["value"] == pytest.approx(expected, rel=1e-9)

    assert len(run.calls) == 1
    call = run.calls[0]
    prefix = str(tmp_path / "devito")
    assert call["argv"] == [
        f"{prefix}/venv/bin/python",
        f"{prefix}/devito_driver.py",
        *(["--model", "acoustic", "--shape", "128x128x128", "--space-order", "8", "--tn", "200"]),
        *(["--nbl", "10", "--autotune", "aggressive", "--repeats", "3"]),
        *(["--tunings", f"{prefix}/jit/{devito.jit_key()}/tunings", "--cpus", "0-1"]),
    ]
    assert call["timeout_seconds"] == 60
    assert call["environment"] == {
        "DEVITO_ARCH": "gcc",
        "DEVITO_LANGUAGE": "openmp",
        "DEVITO_LOGGING": "PERF",
        "OMP_NUM_THREADS": "2",
        "TMPDIR": f"{prefix}/jit/{devito.jit_key()}",
    }
    assert record["command"] == call["argv"]
    assert record["environment"] == call["environment"]


@parametrized(("said", "parameters", "warnings"))
def test_a_record_says_where_its_block_shape_is_from(
    run_module: Any, said: dict[str, Any], parameters: dict[str, str], warnings: list[str]
) -> None:
    text = driver_output().replace('"tuned"', f'"tuning": {json.dumps(said)}, "tuned"')
    result = run_module(FakeRun(stdout=text), threads_per_rank=2, tuning="anew")
    RECORDS.validate(result["record"])
    found = result["record"]["parameters"]
    assert {name: found[name] for name in found if "tun" in name} == {
        "autotune": "aggressive",
        **parameters,
    }
    assert parse_devito(text).warnings == warnings
    assert "--tune-anew" in result["record"]["command"]


def test_ranks_are_started_by_mpirun_and_bound_by_plan(run_module: Any) -> None:
    text = driver_output("driver_mpi.log").replace('"cpus": ["0", "1"]', '"cpus": ["0", "2"]')
    run = FakeRun(stdout=text)
    record = run_module(run, ranks=2, binding="numa", mpi_mode="full")["record"]
    assert record["outcome"] == "ok"
    argv = run.calls[0]["argv"]
    assert argv[:5] == ["mpirun", "--bind-to", "none", "-np", "2"]
    assert argv[-2:] == ["--cpus", "0/2"]
    assert run.calls[0]["environment"]["DEVITO_MPI"] == "full"
    assert (record["parameters"]["mpi"], record["parameters"]["launcher"]) == ("full", "local")
    assert record["case"].endswith("tn200-r2t1-numa-full")


OVER = {
    "shape": "64x64x64",
    "tn_ms": 50,
    "autotune": "off",
    "ranks": 2,
    "nodes": ["node-1", "node-2"],
}


def test_over_nodes_mpirun_starts_the_ranks(run_module: Any, tmp_path: Path) -> None:
    run = FakeRun(stdout=driver_output("driver_two_nodes.log"))
    result = run_module(
        run,
        **OVER,
        launcher="mpirun",
        hosts=["10.0.0.1", "10.0.0.2"],
        launcher_arguments=["--mca", "btl_tcp_if_include", "eth0"],
        launcher_path="/opt/mpi/bin/mpirun",
        binding="core",
    )
    record = result["record"]
    # The recorded nodes have 2 cores, this machine two NUMA nodes of 2.
    assert record["reason"] == "ranks ran on CPUs 0/1/0/1 instead of 0/2/0/2"
    text = driver_output("driver_two_nodes.log").replace('"0", "1"', '"0", "2"')
    run = FakeRun(stdout=text)
    given = {"launcher": "mpirun", "hosts": ["10.0.0.1", "10.0.0.2"], "mpi_mode": "full"}
    result = run_module(run, **OVER, **given)
    record = result["record"]
    RECORDS.validate(record)
    assert (record["outcome"], record["reason"]) == ("ok", None)
    assert (record["nodes"], record["node_count"], record["ranks"]) == (OVER["nodes"], 2, 4)
    assert record["case"] == "acoustic-so8-64x64x64-tn50-n2r2t1-core-full-mpirun"
    parameters = record["parameters"]
    assert {name: parameters[name] for name in ("layout", "launcher", "mpi", "binding")} == {
        "layout": "2x1",
        "launcher": "mpirun",
        "mpi": "full",
        "binding": "core",
    }
    rows = {(row["name"], row["statistic"]): row["value"] for row in record["metrics"]}
    assert rows["halo_share", "median"] == 0.9549455028167607

    [call] = run.calls
    prefix = str(tmp_path / "devito")
    names = ("DEVITO_ARCH", "DEVITO_LANGUAGE", "DEVITO_LOGGING", "DEVITO_MPI", "OMP_NUM_THREADS")
    assert call["argv"] == [
        *("mpirun", "-np", "4", "--map-by", "ppr:2:node", "--bind-to", "none"),
        *("--host", "10.0.0.1:2,10.0.0.2:2"),
        *("--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "plm_rsh_num_concurrent", "800"),
        *(word for name in (*names, "TMPDIR") for word in ("-x", name)),
        *(f"{prefix}/venv/bin/python", f"{prefix}/devito_driver.py", "--model", "acoustic"),
        *("--shape", "64x64x64", "--space-order", "8", "--tn", "50", "--nbl", "10"),
        *("--autotune", "off", "--repeats", "3", "--cpus", "0/2"),
    ]
    assert call["environment"]["DEVITO_MPI"] == "full"
    # A node that is lost meanwhile ends it.
    assert callable(call["watch"])


def test_over_nodes_slurm_is_handed_a_job(run_module: Any, tmp_path: Path) -> None:
    text = driver_output("driver_two_nodes_slurm.log").replace('"0", "1"', '"0", "2"')
    run = FakeRun(stdout=text)
    record = run_module(
        run,
        **OVER,
        launcher="slurm",
        job_directory=str(tmp_path),
        job_options=["--partition=all"],
        launcher_arguments=["--mpi=pmix"],
        queue_seconds=77,
        timeout_seconds=600,
    )["record"]
    assert (record["outcome"], record["reason"]) == ("ok", None)
    assert record["case"].endswith("-n2r2t1-core-basic-slurm")
    assert record["parameters"]["launcher"] == "slurm"
    [call] = run.calls
    argv = call["argv"]
    assert argv[:3] == ["sbatch", "--parsable", "--job-name=trueup-devito-2"]
    assert "--nodelist=node-1,node-2" in argv
    assert "--time=11" in argv
    assert argv[-2] == "--partition=all"
    assert " --cpu-bind=mask_cpu:0x1,0x4 --mpi=pmix " in argv[-1]
    assert argv[-1].endswith(" --cpus 0/2")
    assert (call["timeout_seconds"], call["queue_seconds"]) == (600, 77)
    assert call["names"] == {"node-1": "node-1", "node-2": "node-2"}
    assert not {name for name in call["environment"] if name.startswith("OMPI_")}


@parametrized(("change", "reason"))
def test_ranks_that_ran_elsewhere_are_invalid(
    run_module: Any, change: tuple[str, str], reason: str | None
) -> None:
    text = driver_output("driver_two_nodes.log").replace('"0", "1"', '"0", "2"').replace(*change)
    record = run_module(FakeRun(stdout=text), **OVER, launcher="mpirun")["record"]
    assert (record["outcome"], record["reason"]) == ("invalid" if reason else "ok", reason)


def test_why_a_run_over_nodes_ended_is_the_records_reason(run_module: Any) -> None:
    said = "Slurm job 7: it ended NODE_FAIL (NodeDown); node node-2 is down* in Slurm"
    ending = {"returncode": 1, "reason": said, "stdout": "begun\n"}
    result = run_module(
        FakeRun(**ending), **OVER, launcher="slurm", job_directory="/shared", check=False
    )
    assert (result["record"]["outcome"], result["record"]["reason"]) == ("failed", said)
    assert result["output_tail"] == ["begun"]


def test_a_record_of_one_node_by_another_launcher_is_another_case(run_module: Any) -> None:
    def case(**given: Any) -> str:
        result = run_module(FakeRun(lost=["gone"]), threads_per_rank=2, **given)
        return str(result["record"]["case"])

    one = {"nodes": ["node-1"]}
    assert case(launcher="mpirun", **one) == "acoustic-so8-128x128x128-tn200-n1r1t2-core-mpirun"
    two = {"nodes": ["node-1", "node-2"], "launcher": "mpirun"}
    assert case(**two).endswith("-n2r1t2-core-basic-mpirun")


test_check_mode_returns_the_same_keys_and_runs_nothing = checks_only(
    driver_output(), threads_per_rank=2
)


test_a_bad_end_gives_a_failed_record_with_the_reason = ends_badly(
    ({"error": TimeoutError("another benchmark still runs")}, "failed", "another benchmark"),
    ({"error": process.Orphaned("the process that asked is gone")}, "failed", "is gone"),
    ({"returncode": 1, "stderr": "Traceback\nBoom"}, "failed", "exit status 1"),
    ({"returncode": -9}, "failed", "was killed by SIGKILL"),
    (
        {"returncode": -9, "out_of_memory": True},
        "failed",
        "was killed by SIGKILL; the kernel's out-of-memory killer acted",
    ),
    ({"returncode": -9, "timed_out": True}, "failed", "ended at its time limit of 1800 s"),
    ({"stdout": ""}, "failed", "output not understood: no line 'Operator"),
    ({"stdout": "\x00nonsense"}, "failed", "output not understood"),
    ({"returncode": 1, "stdout": driver_output()}, "failed", "exit status 1"),
    threads_per_rank=2,
)


def test_a_prefix_that_cannot_be_written_is_refused(run_module: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = FakeRun(stdout=driver_output())
    result = run_module(run, prefix=str(tmp_path / "file"), threads_per_rank=2)
    assert "cannot be made: Not a directory" in result["msg"]
    assert (result["record"], run.calls) == (None, [])


@parametrized(("change", "arguments", "reason"))
def test_a_wrong_result_is_invalid(
    run_module: Any, change: tuple[str, str], arguments: dict[str, Any], reason: str
) -> None:
    text = driver_output().replace(*change) if change else driver_output()
    result = run_module(FakeRun(stdout=text), threads_per_rank=2, **arguments)
    assert result["failed"] is True
    RECORDS.validate(result["record"])
    assert result["record"]["outcome"] == "invalid"
    assert json.loads(json.dumps(result["record"], allow_nan=False)) == result["record"]
    assert reason in result["record"]["reason"]


def test_a_norm_within_single_precision_is_the_same(run_module: Any) -> None:
    norms = {"field": 239.9191131591797 * (1 + 2e-7)}
    result = run_module(FakeRun(stdout=driver_output()), threads_per_rank=2, reference_norms=norms)
    assert result["record"]["outcome"] == "ok"


test_bad_input_is_refused_before_anything_runs = refuses(
    ({"space_order": 7}, "space_order is 7: it must be a multiple of 2, 2 or more"),
    ({"space_order": 0}, "space_order is 0: it must be a multiple of 2, 2 or more"),
    ({"space_order": -8}, "space_order is -8: it must be a multiple of 2, 2 or more"),
    ({"shape": "4000x4000x4000"}, "needs about 1965.6 GiB with 1 rank(s), and 8.0 GiB are"),
    ({"shape": "128x128"}, "shape '128x128' is not three extents"),
    ({"shape": "4x128x128"}, "an extent of 4 is smaller than the stencil"),
    ({"ranks": 5}, "5"),
    ({"ranks": 0}, "0"),
    ({"ranks": 1, "threads_per_rank": 3, "binding": "numa"}, "3"),
    ({"repeats": 2}, "repeats is 2: it must be 3 or more"),
    ({"tn_ms": 0}, "tn_ms is 0: it must be 1 or more"),
    ({"nbl": -1}, "nbl is -1: it must be 0 or more"),
    ({"timeout_seconds": 0}, "timeout_seconds is 0: it must be 1 or more"),
    ({"nodes": ["a", "b"]}, "launcher local cannot run on 2 nodes"),
    ({"nodes": ["a"], "launcher": "slurm"}, "launcher slurm needs job_directory"),
    (
        {"shape": "1600x800x800", "nodes": ["a", "b"], "launcher": "mpirun"},
        "needs about 17.6 GiB on each of 2 nodes with 1 rank(s), and 8.0 GiB are available",
    ),
    threads_per_rank=1,
)


@parametrized(("variables", "rank"))
def test_the_driver_binds_to_its_ranks_cpus(
    variables: dict[str, str], rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(__file__).parents[2] / "roles" / "devito" / "files" / "devito_driver.py"
    driver = runpy.run_path(str(path))
    for name in ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for name in ("OMP_PLACES", "OMP_PROC_BIND"):
        monkeypatch.setenv(name, "")
    bound: list[list[int]] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: bound.append(list(cpus)))
    driver["bind"]("0-1,4/2-3")
    assert bound == [[[0, 1, 4], [2, 3]][rank]]
    assert os.environ["OMP_PLACES"] == ["{0},{1},{4}", "{2},{3}"][rank]


@parametrized(("gathered", "several", "halo"))
def test_the_driver_adds_up_what_halos_took(
    gathered: list[float], several: bool, halo: float | None
) -> None:
    path = Path(__file__).parents[2] / "roles" / "devito" / "files" / "devito_driver.py"
    driver = runpy.run_path(str(path))
    asked: list[float] = []

    def gather(value: float) -> list[float]:
        asked.append(value)
        return [2.0, 2.5] if len(asked) == 1 else gathered

    ranks = SimpleNamespace(several=several, gather=gather)
    repeater = driver["Repeater"](None, {}, ranks, 3, None)
    repeater.sections = {"section0": 1.5, "haloupdate0": 0.25, "halowait0": 0.125, "section1": 0.1}
    applied = SimpleNamespace(_profiler=SimpleNamespace(py_timers={"apply": 2.0}))
    vanilla = SimpleNamespace(gflopss=10.0, time=2.0, oi=2.5)
    fdlike = SimpleNamespace(gpointss=0.5, time=2.0)
    summary = SimpleNamespace(globals={"vanilla": vanilla, "fdlike": fdlike})
    repeater._measure(applied, summary)
    assert asked == [2.0, 0.375]
    [measured] = repeater.measured
    assert measured["seconds"] == 2.5
    assert measured["halo_seconds"] == (None if halo is None else pytest.approx(halo))
    assert (measured["flops"], measured["points"]) == (20_000_000_000, 1_000_000_000)


def test_a_record_of_the_run_stands_for_its_case(run_module: Any, tmp_path: Path) -> None:
    several = {"launcher": "mpirun", "nodes": ["node-1", "node-2"]}
    job = {**several, "launcher": "slurm", "job_directory": str(tmp_path)}
    changed = {
        "program": "/opt/conda/envs/devito/bin/python",
        "prefix": str(tmp_path / "else"),
        "shape": "64x64x64",
        "space_order": 4,
        "tn_ms": 100,
        "nbl": 20,
        "ranks": 2,
        "threads_per_rank": 2,
        "binding": "numa",
        "mpi_mode": "full",
        "autotune": "off",
        "tuning": "anew",
        "repeats": 4,
        "scaling": "weak",
        "sized_by": "machine",
        **LAUNCHED,
        "nodes": ["node-2", "node-1"],
        "job_directory": "/shared",
        "job_options": ["--partition=hbv3"],
    }
    several_too = ("nodes", "hosts", "launcher_path", "launcher_arguments", "mpi_mode")
    along = {
        **dict.fromkeys(several_too, several),
        **dict.fromkeys(("job_directory", "job_options"), job),
    }
    idle = {
        # There is one model.
        "model": "acoustic",
        "queue_seconds": 7,
        # These judge a run, and come of the run itself: other layouts' norms, STREAM's triad.
        "memory_bandwidth": 1e9,
        "peak_flops": 1e12,
        "reference_norms": {"field": 1.0},
        "norm_tolerance": 0.1,
        # A case that is recorded needs its nodes no more.
        "absent": ["node-2"],
    }
    resumes(
        run_module,
        lambda: FakeRun(stdout=driver_output()),
        devito_bench,
        changed,
        along=along,
        idle=idle,
    )
