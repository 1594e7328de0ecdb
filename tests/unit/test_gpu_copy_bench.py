"""The module gpu_copy_bench and its program: success, check mode, refusals, bad ends, the CPUs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gpu_copy_bench
import machines
import pytest
from bench_modules import FakeRun, checks_only, ends_badly, on_four_gpus, refuses, resumes
from helpers import ended, parametrized, refused
from record_schema import RECORDS
from trueup_node.benchmarks.gpu_copy.case import cpus_beside
from trueup_node.benchmarks.gpu_copy.output import parse_gpu_copy
from trueup_node.errors import BadInput

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parent.parent / "data" / "gpu_copy"
SECTIONS = (DATA / "sections_4gpu.txt").read_text()
PROGRAM = ROOT / "roles" / "gpu_copy" / "files" / "gpu_copy.py"


@pytest.fixture(name="run_module")
def _run_module(runner: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    return on_four_gpus(
        *(runner, monkeypatch, gpu_copy_bench, "NVIDIA A100"),
        prefix="/opt/gpu_copy",
        python="/usr/bin/python3",
        tool="nvbandwidth",
        program="/usr/local/bin/nvbandwidth",
    )


def test_a_good_run_gives_a_record(run_module: Any) -> None:
    run = FakeRun(stdout=SECTIONS)
    result = run_module(run)
    record = result["record"]
    RECORDS.validate(record)
    assert (record["outcome"], record["case"], record["gpus"]) == ("ok", "nvbandwidth-g4-numa", 4)
    assert result["ansible_facts"] == {"trueup_gpu_copy": record}
    assert run.calls[0]["argv"] == [
        *("/usr/bin/python3", "/opt/gpu_copy/gpu_copy.py", "--tool", "nvbandwidth"),
        *("--program", "/usr/local/bin/nvbandwidth", "--samples", "5", "--peers", "read"),
        *("--gpu=0:0", "--gpu=1:1", "--gpu=2:0", "--gpu=3:1"),
    ]
    assert run.calls[0]["environment"] == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert len(run.calls) == 1
    assert record["parameters"] == {
        "tool": "nvbandwidth",
        "samples": 5,
        "peers": "read",
        "binding": "numa",
        "program": "nvbandwidth",
        "memory": "pinned",
        "peer_access": "all",
        "peer_test": "read",
    }
    assert record["software"] == {"nvbandwidth": "0.9"}
    least = {
        row["name"]: row["n"]
        for row in record["metrics"]
        if row["statistic"] == "min" and "device" not in row
    }
    assert least == {
        "h2d_bandwidth": 4,
        "d2h_bandwidth": 4,
        "d2d_bandwidth": 4,
        "p2p_bandwidth": 12,
    }
    devices = {
        row["device"]
        for row in record["metrics"]
        if row["name"] == "p2p_bandwidth" and "device" in row
    }
    assert devices == {f"gpu{a}>gpu{b}" for a in range(4) for b in range(4) if a != b}


test_check_mode_returns_the_same_keys_and_runs_nothing = checks_only(SECTIONS)


test_a_bad_end_gives_a_record_with_the_reason = ends_badly(
    ({"returncode": 3, "stderr": "gpu_copy: no"}, "failed", "exit status 3"),
    ({"stdout": SECTIONS[:900]}, "failed", "expected the end of section gpu0"),
    ({"stdout": ""}, "failed", "neither nvbandwidth's"),
    ({"stdout": SECTIONS.replace("25.26", "95.26", 2)}, "failed", "it is damaged"),
    (
        {"stdout": (DATA / "nvbandwidth_0.9_h100.txt").read_text()},
        "invalid",
        "it ran on CPUs {} instead of {'gpu0': '0'",
    ),
    (
        {"stdout": "nvbandwidth Version: v0.9\n Invalid value when checking the pattern at 0"},
        "invalid",
        "copied data differ from what was sent",
    ),
)


test_bad_input_is_refused_before_anything_runs = refuses(
    ({"samples": 1}, "samples is 1: it must be 3 or more"),
    ({"node": {}}, "the node shows no GPU"),
    ({"gpu_masks": ["1"]}, "1 CPU masks for 4 GPUs"),
    ({"gpu_masks": ["1", "2", "1", "f0"]}, "mask of GPU 3: none of its CPUs may be used"),
    ({"gpu_masks": ["1", "2", "1", "x"]}, "mask of GPU 3: CPU mask: expected hexadecimal"),
    ({"timeout_seconds": 0}, "timeout_seconds is 0: it must be 1 or more"),
)


@parametrized(("arguments", "peers"))
def test_each_tool_gets_the_peers_that_it_can(
    run_module: Any, arguments: dict[str, Any], peers: str
) -> None:
    command = run_module(FakeRun(), check=True, **arguments)["command"]
    assert command[command.index("--peers") + 1] == peers
    assert ("--program" in command) is (arguments["tool"] != "pytorch")


def test_a_record_of_the_run_stands_for_its_case(run_module: Any) -> None:
    changed = {
        "prefix": "/srv/gpu_copy",
        "tool": "bandwidthTest",
        "program": "/opt/nvbandwidth",
        "python": "/opt/python3",
        "gpu_masks": ["2", "1", "2", "1"],
        "samples": 6,
        "peers": "write",
    }
    resumes(run_module, lambda: FakeRun(stdout=SECTIONS), gpu_copy_bench, changed)


def test_masks_of_the_catalog_win() -> None:
    topology = machines.topology_of("nd96asr_v4")
    masks = ["ffffff000000", "ffffff"]
    beside = cpus_beside([{"pci": "a"}, {"pci": "b"}], masks, topology)
    assert (beside.cpus, beside.binding) == (["24-47", "0-23"], "numa")


@parametrized(("node", "cpus", "binding"))
def test_without_masks_sysfs_says_where_a_gpu_is(
    tmp_path: Path, node: str | None, cpus: str, binding: str
) -> None:
    if node is not None:
        place = tmp_path / "bus" / "pci" / "devices" / "0001:00:00.0"
        place.mkdir(parents=True)
        (place / "numa_node").write_text(f"{node}\n")
    topology = machines.topology_of("nd96isr_h100_v5")
    beside = cpus_beside([{"pci": "0001:00:00.0"}], [], topology, str(tmp_path))
    assert (beside.cpus, beside.binding) == ([cpus], binding)


def test_a_machine_of_one_numa_node_is_bound_to_it(tmp_path: Path) -> None:
    topology = machines.topology_of("nv36ads_a10_v5")
    beside = cpus_beside([{"pci": "0002:00:00.0"}], [], topology, str(tmp_path))
    assert (beside.cpus, beside.binding) == (["0-35"], "numa")


def test_no_gpu_is_refused() -> None:
    with pytest.raises(BadInput, match="the node shows no GPU"):
        cpus_beside([], [], machines.topology_of("nv36ads_a10_v5"))


# --- the role's program


def stand_in(folder: Path, body: str) -> str:
    path = folder / "nvbandwidth"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


CPU = min(os.sched_getaffinity(0))


def test_the_program_places_each_gpu_and_marks_what_each_printed(tmp_path: Path) -> None:
    report = tmp_path / "report"
    text = "nvbandwidth Version: v0.9\\nWaived: \\nPerformance can vary"
    tool = stand_in(
        tmp_path,
        '[ "$1" != -h ] || exit 0\n'
        f'echo "$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $* $(taskset -cp $$)" >> {report}\n'
        f'printf "{text}\\n"',
    )
    done = ended(
        PROGRAM,
        *("--tool", "nvbandwidth", "--program", tool, "--samples", "4", "--peers", "read"),
        *(f"--gpu=0:{CPU}", f"--gpu=3:{CPU}"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = report.read_text().splitlines()
    tests = "host_to_device_memcpy_ce device_to_host_memcpy_ce device_local_copy"
    assert [line.partition(" pid")[0] for line in lines] == [
        f"0 PCI_BUS_ID -d -i 4 -t {tests}",
        f"3 PCI_BUS_ID -d -i 4 -t {tests}",
        "0,3 PCI_BUS_ID -d -i 4 -t device_to_device_memcpy_read_ce",
    ]
    assert [line.rpartition(": ")[2] for line in lines] == [str(CPU)] * 3
    marks = [line.split()[2:4] for line in done.stdout.splitlines() if line.startswith("[trueup")]
    assert marks == [
        *(["begin", "gpu0"], ["end", "gpu0"], ["begin", "gpu3"], ["end", "gpu3"]),
        *(["begin", "peers"], ["end", "peers"], ["done", "sections=3"]),
    ]


def test_the_program_asks_for_json_where_the_build_has_it(tmp_path: Path) -> None:
    """The help is that of nvbandwidth v0.8; the figures are those of a real H100."""
    real = DATA / "nvbandwidth_0.8_h100_real.json"
    tool = stand_in(
        tmp_path,
        'case "$*" in\n'
        '-h) echo "  -j [ --json ]    Print output in json format instead of plain text." ;;\n'
        f'"-d -i 5 -j -t "*) cat {real} ;;\n'
        "*) exit 9 ;;\nesac",
    )
    done = ended(PROGRAM, "--tool", "nvbandwidth", "--program", tool, f"--gpu=0:{CPU}")
    assert (done.returncode, done.stderr) == (0, "")
    output = parse_gpu_copy(done.stdout)
    assert output.figures == {
        "h2d": {"gpu0": (55.2734e9,)},
        "d2h": {"gpu0": (54.8955e9,)},
        "d2d": {"gpu0": (1491.57e9,)},
    }
    assert (output.tool_version, output.cpus) == ("0.8", {"gpu0": str(CPU)})


@parametrized(("arguments", "status", "message"))
def test_the_program_refuses_in_a_sentence(arguments: list[str], status: int, message: str) -> None:
    done = ended(PROGRAM, *arguments)
    refused(done, status, message)


@parametrized(("before", "after"), ids=["text", "json"])
def test_wrong_data_do_not_hide_behind_an_exit_status(
    tmp_path: Path, before: str, after: str
) -> None:
    text = f"{before} Invalid value when checking the pattern at 0x1{after}"
    tool = stand_in(tmp_path, f"printf '{text}\\n'; exit 1")
    done = ended(PROGRAM, "--tool", "nvbandwidth", "--program", tool, f"--gpu=0:{CPU}")
    assert done.returncode == 0
    assert parse_gpu_copy(done.stdout).checks == {"data_correct": False}
