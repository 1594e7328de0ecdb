"""The module hpl_bench: success, check mode, missing tool, unusable output, refusals."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import hpl_bench
import pytest
from ansible.module_utils.trueup_node.benchmarks.hpl import case as hpl
from ansible.module_utils.trueup_node.errors import BadInput
from ansible.module_utils.trueup_node.node.topology import Topology
from ansible.module_utils.trueup_node.run import bench, launcher
from ansible.module_utils.trueup_node.run.resume import identity
from bench_modules import LAUNCHED, FakeRun, ends_badly, goes_well, refuses, resumes
from trueup_node.benchmarks.hpl.output import parse_hpl

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
    found: dict[str, str | None] = {name: f"/usr/bin/{name}" for name in ("mpirun", "ldd", "env")}
    return {**found, "/opt/xhpl": "/opt/xhpl", "/opt/other": "/opt/other"}


@pytest.fixture(name="run_module")
def _run_module(
    runner: Any, monkeypatch: pytest.MonkeyPatch, programs: dict[str, str | None]
) -> Any:
    monkeypatch.setattr(hpl_bench, "read_topology", lambda **_: MACHINE)
    monkeypatch.setattr(hpl_bench, "available_memory_bytes", lambda: 4 * GIB)
    module = bench.AnsibleModule
    monkeypatch.setattr(module, "get_bin_path", lambda _, name, **__: programs.get(name))
    monkeypatch.setattr(module, "run_command", lambda *_, **__: (0, OPENBLAS, ""))
    node = {
        "os": "Ubuntu 24.04",
        "kernel": "6.8.0-1017-azure",
        "mpi": {"path": "/usr/bin/mpirun", "kind": "openmpi"},
    }
    return runner(hpl_bench, max_n=1600, program="/opt/xhpl", node=node)


BIND = ["sh", "-c", launcher._BIND, "sh"]
IN_FOLDER = ["sh", "-c", 'cd "$0" 2>/dev/null || cd /; exec "$@"']


def folder_of(argv: list[str]) -> Path:
    return Path(argv[argv.index(IN_FOLDER[2]) + 1])


class Watch(FakeRun):
    """Also remembers the input file that the program would have read."""

    inputs: dict[str, str]

    def __call__(self, argv: list[str], **options: Any) -> Any:
        files = folder_of(argv).iterdir()
        self.inputs = {path.name: path.read_text() for path in files}
        return super().__call__(argv, **options)


def test_two_ranks_give_a_record(run_module: Any) -> None:
    run = Watch(stdout=TWO_RANKS)
    result, record = goes_well(run_module, run, ranks=2, binding="core")
    assert record["case"] == "n1536-nb192-1x2-t1-core"
    assert (record["ranks"], record["threads_per_rank"]) == (2, 1)
    assert result["ansible_facts"] == {"trueup_hpl": record}
    argv = run.calls[0]["argv"]
    folder = folder_of(argv)
    assert argv == [
        *("mpirun", "--bind-to", "none", "-np", "2"),
        *(*BIND, "0/1", *IN_FOLDER, str(folder), "/opt/xhpl"),
    ]
    assert run.calls[0]["environment"]["OPENBLAS_NUM_THREADS"] == "1"
    # One input, and the folder is gone.
    assert list(run.inputs) == ["HPL.dat"]
    lines = run.inputs["HPL.dat"].splitlines()
    assert [line.split()[0] for line in (lines[5], lines[7], lines[10], lines[11])] == [
        *("1536", "192", "1", "2")
    ]
    assert len(lines) == 31
    assert folder.exists() is False
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


# ---- NVIDIA's container: a docker that writes down its argv, and runs nothing

IMAGE = f"mirror.example/nvidia/hpc-benchmarks@sha256:{'ab' * 32}"
EIGHT_GPUS = {
    "program": "/workspace/hpl.sh",
    "container_image": IMAGE,
    "gpus": 2,
    "memory_bytes": 4 * GIB,
    "max_n": 2048,
    "gpu_masks": ["2", "1"],
    "arguments": ["--cpu-affinity", "1:0"],
}
FAKE_DOCKER = """#!/bin/sh
printf '%s\\n' "$@" > "$FAKE/argv"
for word; do
    case $word in --workdir=*) cp "${word#--workdir=}/HPL.dat" "$FAKE";; esac
done
"""


class Docker(FakeRun):
    """Runs the command, with a fake docker on PATH that writes down its argv."""

    def __init__(self, folder: Path, **ending: Any) -> None:
        super().__init__(**ending)
        docker = folder / "docker"
        docker.write_text(FAKE_DOCKER)
        docker.chmod(0o755)
        self.environment = {"PATH": f"{folder}:{os.environ['PATH']}", "FAKE": str(folder)}

    def __call__(self, argv: list[str], **options: Any) -> Any:
        subprocess.run(argv, check=True, env=self.environment)
        return super().__call__(argv, **options)


def test_the_container_is_started_with_the_gpus_the_input_and_the_affinities(
    run_module: Any, tmp_path: Path
) -> None:
    result = run_module(Docker(tmp_path, stdout=TWO_RANKS), **EIGHT_GPUS)
    record = result["record"]
    folder = next(
        word.partition("=")[2] for word in record["command"] if word.startswith("--workdir=")
    )
    assert (tmp_path / "argv").read_text().splitlines() == [
        *("run", "--rm", "--init", "--pull=never", "--gpus=all", "--network=host", "--ipc=host"),
        *("--ulimit=memlock=-1", "--ulimit=stack=67108864"),
        *("--env", "BLIS_NUM_THREADS=1", "--env", "CUDA_DEVICE_ORDER=PCI_BUS_ID"),
        *("--env", "MKL_NUM_THREADS=1", "--env", "OMPI_MCA_btl=^openib,smcuda"),
        *("--env", "OMPI_MCA_pml=ucx", "--env", "OMP_NUM_THREADS=1"),
        *("--env", "OPENBLAS_NUM_THREADS=1"),
        *(f"--volume={folder}:{folder}", f"--workdir={folder}", IMAGE),
        *("mpirun", "--allow-run-as-root", "--bind-to", "none", "-np", "2"),
        *("/workspace/hpl.sh", "--dat", f"{folder}/HPL.dat", "--cpu-affinity", "1:0"),
    ]
    lines = (tmp_path / "HPL.dat").read_text().splitlines()
    assert [line.split()[0] for line in (lines[5], lines[7], lines[10], lines[11])] == [
        *("2048", "1024", "1", "2")
    ]
    assert (record["gpus"], record["parameters"]["container"]) == (2, IMAGE)
    # The recording is of another problem.
    assert record["outcome"] == "invalid"
    assert os.path.exists(folder) is False


def test_enroot_starts_a_file_of_the_given_sha256(run_module: Any, tmp_path: Path) -> None:
    image = tmp_path / "hpl.sqsh"
    image.write_bytes(b"squashed")
    sha256 = hashlib.sha256(b"squashed").hexdigest()
    given = {**EIGHT_GPUS, "container_image": str(image), "container_sha256": sha256}
    run = FakeRun(stdout=TWO_RANKS)
    run_module(run, **given)
    argv = run.calls[0]["argv"]
    folder = argv[argv.index("--chdir") + 1]
    assert argv[:2] == ["enroot", "start"]
    start = argv.index("--mount")
    assert argv[start : start + 6] == [
        *("--mount", f"{folder}:{folder}", str(image), "env", "--chdir", folder)
    ]
    assert argv[start + 6] == "mpirun"
    image.write_bytes(b"another")
    refused = run_module(FakeRun(), **given)
    assert f"expected {sha256}" in refused["msg"]


def test_ranks_on_gpus_go_where_their_masks_say(run_module: Any) -> None:
    run = FakeRun(stdout=TWO_RANKS)
    given = {"gpus": 2, "memory_bytes": 4 * GIB, "max_n": 1600}
    run_module(run, **given, gpu_masks=["2", "1"])
    argv, environment = run.calls[0]["argv"], run.calls[0]["environment"]
    assert argv[5:10] == [*BIND, "1/0"]
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    refused = run_module(FakeRun(), **given, gpu_masks=["2"])
    assert "1 CPU masks for 2 ranks of a node: one each" in refused["msg"]
    assert (
        "mask of GPU 1: it has no CPU"
        in run_module(FakeRun(), **given, gpu_masks=["1", "0"])["msg"]
    )


def test_an_mpi_that_is_on_no_path_starts_the_ranks(run_module: Any) -> None:
    variables = {"OPAL_PREFIX": "/opt/hpcx-v2/ompi", "LD_LIBRARY_PATH": "/opt/hpcx-v2/ompi/lib"}
    found = {"path": "/opt/hpcx-v2/ompi/bin/mpirun", "kind": "hpcx", "environment": variables}
    run = FakeRun(stdout=TWO_RANKS)
    _, record = goes_well(run_module, run, ranks=2, binding="core", node={"mpi": found})
    assert run.calls[0]["argv"][0] == found["path"]
    assert record["environment"].items() >= variables.items()
    assert run.calls[0]["environment"] == record["environment"]


def test_one_rank_needs_no_mpirun(run_module: Any) -> None:
    run = FakeRun(stdout=ONE_RANK)
    result = run_module(run, node={"mpi": None})
    assert result["record"]["outcome"] == "ok"
    assert result["record"]["threads_per_rank"] == 2
    argv = run.calls[0]["argv"]
    alone = ["taskset", "--cpu-list", "0-1"]
    assert argv == [*alone, *IN_FOLDER, str(folder_of(argv)), "/opt/xhpl"]


test_a_bad_end_gives_a_record_with_the_reason = ends_badly(
    ({"returncode": 127, "stderr": "xhpl: not found"}, "failed", "exit status 127"),
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
    ({"nb": -1}, "nb is -1: it must be 0 or more"),
    ({"program": ""}, "program is empty: the role hpl builds one and names it"),
    ({"container_image": "nvcr.io/x:1"}, "'nvcr.io/x:1' names no digest"),
    ({"launcher": "slurm", "nodes": ["a"]}, "launcher slurm needs job_directory"),
    ({"nb": 2000}, "order 1600 is smaller than one block, nb 2000"),
    ({"n": 40000}, "n 40000 needs 11.9 GiB, and 4.0 GiB are available"),
    ({"n": 100}, "n 100 is smaller than one block"),
    ({"memory_fraction": 1.0}, "memory_fraction is 1.0: it must be 0.001 or more, 0.95"),
    ({"ranks": 3}, "3 ranks"),
    ({"ranks": -1}, "ranks is -1: it must be 0 or more"),
    ({"gpus": 2}, "memory_bytes 0: a run on GPUs needs"),
    ({"gpus": 2, "ranks": 1}, "1 ranks for 2 GPUs"),
)


def test_several_ranks_without_mpirun_are_refused(run_module: Any) -> None:
    result = run_module(FakeRun(stdout=TWO_RANKS), ranks=2, node={"mpi": None})
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


def test_a_record_of_the_run_stands_for_its_case(
    run_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = {"nodes": ["node-1", "node-2"], "launcher": "mpirun"}
    changed = {
        **LAUNCHED,
        "nodes": ["node-2", "node-1"],
        "program": "/opt/other",
        "arguments": ["--dat", "HPL.dat"],
        "ranks": 2,
        "threads_per_rank": 1,
        "binding": "core",
        "container_image": IMAGE,
        "gpus": 1,
        "gpu_masks": ["2"],
        "n": 1536,
        "nb": 96,
        "max_n": 1700,
        "memory_fraction": 0.7,
        "memory_bytes": 4 * GIB,
    }
    along = {
        "gpus": {"memory_bytes": 4 * GIB},
        **dict.fromkeys(("nodes", "hosts", "launcher_path", "launcher_arguments"), several),
    }
    # Of a launch by Slurm alone, of a file, and of nodes that are gone.
    idle = {
        "container_sha256": "ab" * 32,
        "job_directory": "/shared",
        "job_options": ["--partition=a"],
        "queue_seconds": 60,
        "absent": ["a"],
    }
    resumes(
        run_module, lambda: FakeRun(stdout=ONE_RANK), hpl_bench, changed, along=along, idle=idle
    )
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
    assert result["msg"] == "/opt/xhpl: ldd did not end within 30 s"
    argv = ["/usr/bin/timeout", "--kill-after=5", "30", "/usr/bin/ldd", "/opt/xhpl"]
    assert asked == [argv]
