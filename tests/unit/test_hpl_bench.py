"""The module hpl_bench: success, check mode, missing tool, unusable output, refusals."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import hpl_bench
import pytest
from ansible.module_utils.trueup.benchmarks.hpl import case as hpl
from ansible.module_utils.trueup.errors import BadInput
from ansible.module_utils.trueup.node.topology import Topology
from ansible.module_utils.trueup.run import bench
from ansible.module_utils.trueup.run.resume import identity
from bench_modules import FakeRun, ends_badly, goes_well, refuses, resumes
from trueup.benchmarks.hpl.output import parse_hpl

DATA = Path(__file__).parent.parent / "data" / "hpl"
TWO_RANKS = (DATA / "hpcc150_2ranks.txt").read_text()
ONE_RANK = (DATA / "hpcc150_1rank.txt").read_text()
OTHER = (DATA / "hpcc150_other_grid.txt").read_text()
NVIDIA = (DATA / "nvidia_8gpu.txt").read_text()
GIB = 1024**3
MACHINE = Topology(
    cpus=(0, 1), numa={0: (0, 1)}, l3_groups=((0, 1),), cores=((0,), (1,)), last_level_cache_bytes=1
)
LDD = "\tlibblas.so.3 => {} (0x00007f)\n\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n"
OPENBLAS = LDD.format("/opt/openblas-pthread/libblas.so.3")


@pytest.fixture(name="programs")
def _programs() -> dict[str, str | None]:
    found = {name: f"/usr/bin/{name}" for name in ("hpcc", "mpirun", "ldd")}
    return {**found, "/opt/xhpl": "/opt/xhpl"}


@pytest.fixture(name="run_module")
def _run_module(
    runner: Any, monkeypatch: pytest.MonkeyPatch, programs: dict[str, str | None]
) -> Any:
    monkeypatch.setattr(hpl_bench, "read_topology", lambda **_: MACHINE)
    monkeypatch.setattr(hpl_bench, "available_memory_bytes", lambda: 4 * GIB)
    module = bench.AnsibleModule
    monkeypatch.setattr(module, "get_bin_path", lambda _, name, **__: programs.get(name))
    monkeypatch.setattr(module, "run_command", lambda *_, **__: (0, OPENBLAS, ""))
    node = {"os": "Ubuntu 24.04", "kernel": "6.8.0-1017-azure"}
    return runner(hpl_bench, max_n=1600, node=node)


class Watch(FakeRun):
    """Also remembers the input file that the program would have read."""

    inputs: dict[str, str]

    def __call__(self, argv: list[str], **options: Any) -> Any:
        self.inputs = {path.name: path.read_text() for path in Path(argv[3]).iterdir()}
        return super().__call__(argv, **options)


def test_two_ranks_give_a_record(run_module: Any) -> None:
    run = Watch(stdout=TWO_RANKS)
    result, record = goes_well(run_module, run, ranks=2, binding="core")
    assert record["case"] == "n1536-nb192-1x2-t1-core"
    assert (record["ranks"], record["threads_per_rank"]) == (2, 1)
    assert result["ansible_facts"] == {"trueup_hpl": record}
    argv = run.calls[0]["argv"]
    assert argv[:2] == ["sh", "-c"]
    one = ["taskset", "--cpu-list", "0", "/usr/bin/hpcc"]
    two = ["taskset", "--cpu-list", "1", "/usr/bin/hpcc"]
    assert argv[4:] == [
        *("/usr/bin/mpirun", "--bind-to", "none"),
        *("-np", "1", *one, ":", "-np", "1", *two),
    ]
    assert run.calls[0]["environment"]["OPENBLAS_NUM_THREADS"] == "1"
    # One input, of hpcc's name, and the folder is gone.
    assert list(run.inputs) == ["hpccinf.txt"]
    lines = run.inputs["hpccinf.txt"].splitlines()
    assert [line.split()[0] for line in (lines[5], lines[7], lines[10], lines[11])] == [
        *("1536", "192", "1", "2"),
    ]
    assert len(lines) == 31
    assert os.path.exists(argv[3]) is False
    assert record["software"] == {
        "hpl": "2.0, hpcc 1.5.0",
        "blas": "/opt/openblas-pthread/libblas.so.3",
    }
    assert record["metrics"][0] == {
        "name": "hpl_rate",
        "value": 7.32153e9,
        "unit": "flop/s",
        "direction": "higher",
        "statistic": "single",
        "n": 1,
    }


def test_ranks_on_gpus_go_where_their_masks_say(run_module: Any) -> None:
    run = FakeRun(stdout=TWO_RANKS)
    given = {"gpus": 2, "memory_bytes": 4 * GIB, "max_n": 1600}
    run_module(run, **given, gpu_masks=["2", "1"])
    argv, environment = run.calls[0]["argv"], run.calls[0]["environment"]
    lists = [argv[place + 1] for place, word in enumerate(argv) if word == "--cpu-list"]
    assert (lists, environment["CUDA_DEVICE_ORDER"]) == (["1", "0"], "PCI_BUS_ID")
    refused = run_module(FakeRun(), **given, gpu_masks=["2"])
    assert "1 CPU masks for 2 ranks of a node: one each" in refused["msg"]
    assert (
        "mask of GPU 1: it has no CPU"
        in run_module(FakeRun(), **given, gpu_masks=["1", "0"])["msg"]
    )


def test_an_mpi_that_is_on_no_path_starts_the_ranks(
    run_module: Any, programs: dict[str, str | None]
) -> None:
    programs["mpirun"] = None
    variables = {"OPAL_PREFIX": "/opt/hpcx-v2/ompi", "LD_LIBRARY_PATH": "/opt/hpcx-v2/ompi/lib"}
    found = {"path": "/opt/hpcx-v2/ompi/bin/mpirun", "kind": "hpcx", "environment": variables}
    run = FakeRun(stdout=TWO_RANKS)
    _, record = goes_well(run_module, run, ranks=2, binding="core", node={"mpi": found})
    assert run.calls[0]["argv"][4] == found["path"]
    assert record["environment"].items() >= variables.items()
    assert run.calls[0]["environment"] == record["environment"]


def test_one_rank_needs_no_mpirun(run_module: Any, programs: dict[str, str | None]) -> None:
    programs["mpirun"] = None
    run = FakeRun(stdout=ONE_RANK)
    result = run_module(run)
    assert result["record"]["outcome"] == "ok"
    assert result["record"]["threads_per_rank"] == 2
    assert run.calls[0]["argv"][4:] == ["taskset", "--cpu-list", "0-1", "/usr/bin/hpcc"]


def test_check_mode_returns_the_same_keys_and_runs_nothing(
    run_module: Any, programs: dict[str, str | None]
) -> None:
    real = run_module(FakeRun(stdout=ONE_RANK))
    programs.update({"hpcc": None, "mpirun": None})  # a node that is not set up yet
    run = FakeRun(stdout=ONE_RANK)
    result = run_module(run, check=True)
    assert run.calls == []
    assert set(result) - {"warnings"} == set(real) - {"warnings"}
    assert (result["record"], result["command"][-1]) == (None, "hpcc")


test_a_bad_end_gives_a_record_with_the_reason = ends_badly(
    ({"returncode": 127, "stderr": "hpcc: not found"}, "failed", "exit status 127"),
    ({"timed_out": True}, "failed", "time limit"),
    ({"stdout": ""}, "failed", "no table"),
    ({"stdout": TWO_RANKS[:-200]}, "failed", "the output is cut off"),
    (
        {"stdout": OTHER},
        "invalid",
        "another problem than it was given: N 3520 instead of 1536, NB 80 instead of 192",
    ),
    ({"stdout": ONE_RANK}, "invalid", "P x Q 1x1 instead of 1x2"),
    ({"stdout": TWO_RANKS.replace("Success=1", "Success=0")}, "invalid", "failed: success"),
    ranks=2,
)


def test_a_failed_residual_is_invalid() -> None:
    failed = re.sub(r"0\.0001111 \.{6} PASSED", "77.0000000 ...... FAILED", NVIDIA)
    failed = failed.replace("1 tests completed and passed", "0 tests completed and passed")
    failed = failed.replace("0 tests completed and failed", "1 tests completed and failed")
    problem = hpl.Problem(264192, 1024, 4, 2)
    assert hpl.judge(parse_hpl(failed), problem) == "the residual failed: 77.0"
    assert hpl.judge(parse_hpl(NVIDIA), problem) is None


test_bad_input_is_refused_before_anything_runs = refuses(
    ({"program": "/opt/none"}, "/opt/none is not on this node"),
    ({"nb": 0}, "nb is 0: it must be 1 or more"),
    ({"nb": 2000}, "order 1600 is smaller than one block, nb 2000"),
    ({"n": 40000}, "n 40000 needs 11.9 GiB, and 4.0 GiB are available"),
    ({"n": 100}, "n 100 is smaller than one block"),
    ({"memory_fraction": 1.0}, "memory_fraction is 1.0: it must be 0.001 or more, 0.95"),
    ({"ranks": 3}, "3 ranks"),
    ({"ranks": -1}, "ranks is -1: it must be 0 or more"),
    ({"gpus": 2}, "memory_bytes 0: a run on GPUs needs"),
    ({"gpus": 2, "ranks": 1}, "1 ranks for 2 GPUs"),
)


def test_several_ranks_without_mpirun_are_refused(
    run_module: Any, programs: dict[str, str | None]
) -> None:
    programs["mpirun"] = None
    result = run_module(FakeRun(stdout=TWO_RANKS), ranks=2)
    assert "no mpirun on this node for 2 ranks" in result["msg"]


def test_the_reference_blas_is_refused() -> None:
    with pytest.raises(BadInput, match="is the reference BLAS"):
        hpl.blas_of(LDD.format("/usr/lib/x86_64-linux-gnu/blas/libblas.so.3"))
    assert hpl.blas_of("\tnot a dynamic executable\n") is None
    assert hpl.blas_of("\tlibmkl_rt.so.2 => /opt/libmkl_rt.so.2 (0x0)\n") == "/opt/libmkl_rt.so.2"


@pytest.mark.parametrize(
    ("ranks", "expected"), [(1, (1, 1)), (2, (1, 2)), (6, (2, 3)), (7, (1, 7)), (64, (8, 8))]
)
def test_the_grid_is_as_square_as_possible(ranks: int, expected: tuple[int, int]) -> None:
    assert hpl.grid(ranks) == expected


def test_the_order_fills_the_fraction_of_the_memory() -> None:
    order = hpl.order(n=0, nb=192, max_n=0, memory_fraction=0.8, memory_bytes=448 * GIB)
    assert order % 192 == 0
    assert order**2 * 8 <= 0.8 * 448 * GIB < (order + 192) ** 2 * 8
    with pytest.raises(BadInput, match="set n or max_n"):
        hpl.order(n=0, nb=192, max_n=0, memory_fraction=0.8, memory_bytes=None)


def test_one_rank_on_each_numa_node() -> None:
    machine = Topology(
        cpus=tuple(range(8)),
        numa={0: (0, 1, 2, 3), 1: (4, 5, 6)},
        l3_groups=(),
        cores=tuple((cpu,) for cpu in range(7)),
    )
    assert hpl.layout(machine, ranks=0, threads_per_rank=0, gpus=0) == (2, 3)
    assert hpl.layout(machine, ranks=4, threads_per_rank=0, gpus=0) == (4, 1)
    assert hpl.layout(machine, ranks=0, threads_per_rank=2, gpus=1) == (1, 2)


def test_a_record_of_the_run_stands_for_its_case(
    run_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {
        "program": "/opt/xhpl",
        "arguments": ["--dat", "HPL.dat"],
        "ranks": 2,
        "threads_per_rank": 1,
        "binding": "core",
        "gpus": 1,
        "gpu_masks": ["2"],
        "n": 1536,
        "nb": 96,
        "max_n": 1700,
        "memory_fraction": 0.7,
        "memory_bytes": 4 * GIB,
    }
    along = {"gpus": {"memory_bytes": 4 * GIB}}
    resumes(run_module, lambda: FakeRun(stdout=ONE_RANK), hpl_bench, changed, along=along)
    # Less memory is free than when it was recorded, and a smaller matrix fits.
    earlier = [identity(run_module(FakeRun(stdout=ONE_RANK))["record"])]
    monkeypatch.setattr(hpl_bench, "available_memory_bytes", lambda: GIB // 64)
    assert run_module(FakeRun(), earlier=earlier)["resumed"] == 0


def test_a_program_whose_libraries_are_not_told_in_time_is_refused(
    run_module: Any, monkeypatch: pytest.MonkeyPatch, programs: dict[str, str | None]
) -> None:
    programs["timeout"] = "/usr/bin/timeout"
    asked = []

    def hang(_: Any, argv: list[str], **__: Any) -> tuple[int, str, str]:
        asked.append(argv)
        return 124, "", ""

    monkeypatch.setattr(bench.AnsibleModule, "run_command", hang)
    result = run_module(FakeRun(stdout=""))
    # There is no case yet whose record it could be.
    assert (result["failed"], result["record"]) == (True, None)
    assert result["msg"] == "/usr/bin/hpcc: ldd did not end within 30 s"
    argv = ["/usr/bin/timeout", "--kill-after=5", "30", "/usr/bin/ldd", "/usr/bin/hpcc"]
    assert asked == [argv]
