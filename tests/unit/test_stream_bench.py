"""The module stream_bench: success, check mode, missing tool, unusable output, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import stream_bench
from ansible.module_utils.trueup_node.node.topology import Topology
from bench_modules import FakeRun, checks_only, ends_badly, goes_well, refuses, resumes

DATA = Path(__file__).parent.parent / "data" / "stream"
KERNEL = (DATA / "kernel_streaming.json").read_text()
MIB = 1024**2
MACHINE = Topology(
    cpus=(0, 1),
    numa={0: (0, 1)},
    l3_groups=((0, 1),),
    cores=((0,), (1,)),
    last_level_cache_bytes=64 * MIB,
)


@pytest.fixture(name="run_module")
def _run_module(runner: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(stream_bench, "read_topology", lambda **_: MACHINE)
    monkeypatch.setattr(stream_bench, "available_memory_bytes", lambda: 4096 * MIB)
    node = {"os": "Ubuntu 24.04", "kernel": "6.8.0-1017-azure"}
    return runner(stream_bench, prefix="/opt/stream", node=node)


def test_a_good_run_gives_a_record(run_module: Any) -> None:
    run = FakeRun(stdout=KERNEL)
    result, record = goes_well(run_module, run)
    assert record["case"] == "streaming-t2-core"
    assert (record["ranks"], record["threads_per_rank"]) == (1, 2)
    assert result["ansible_facts"] == {"trueup_stream": record}
    # Four times the caches: 256 MiB are 33554432 doubles.
    assert run.calls[0]["argv"] == ["/opt/stream/stream_kernel-streaming", "33554432", "10"]
    assert run.calls[0]["environment"] == {
        "OMP_NUM_THREADS": "2",
        "OMP_PLACES": "{0},{1}",
        "OMP_PROC_BIND": "close",
    }
    assert len(run.calls) == 1
    rates = {(row["name"], row["statistic"]): row["value"] for row in record["metrics"]}
    assert len(rates) == 12
    assert rates["triad_rate", "min"] <= rates["triad_rate", "median"] <= rates["triad_rate", "max"]
    assert {row["unit"] for row in record["metrics"]} == {"byte/s"}


test_check_mode_returns_the_same_keys_and_runs_nothing = checks_only(KERNEL)


test_a_bad_end_gives_a_record_with_the_reason = ends_badly(
    ({"returncode": 3, "stderr": "no memory"}, "failed", "exit status 3"),
    ({"stdout": KERNEL[:100]}, "failed", "cut off or damaged"),
    ({"stdout": ""}, "failed", "no table"),
    ({"stdout": KERNEL.replace('"error": 0.0', '"error": 9.0')}, "invalid", "do not hold"),
    ({"stdout": KERNEL.replace("[0, 1]", "[1, 1]")}, "invalid", "ran on CPUs [1, 1]"),
)


def test_figures_without_a_cross_check_are_never_an_ok_record(run_module: Any) -> None:
    table = (DATA / "stream510.txt").read_text(encoding="utf-8")
    result = run_module(FakeRun(stdout=table.replace("Array size", "Array")))
    assert (result["failed"], result["record"]["outcome"]) == (True, "failed")
    assert result["record"]["reason"].startswith("stream output cannot be verified: no line 'Array")


test_bad_input_is_refused_before_anything_runs = refuses(
    ({"array_bytes": 8 * MIB}, "array_bytes 8388608 is below 268435456"),
    ({"array_bytes": 2048 * MIB}, "need 6.0 GiB, and 4.0 GiB are available"),
    ({"repeats": 1}, "repeats is 1: it must be 3 or more"),
    ({"threads": 3}, "3"),
    ({"threads": -1}, "threads is -1: it must be 0 or more"),
)


def test_a_record_of_the_run_stands_for_its_case(run_module: Any) -> None:
    changed = {
        "prefix": "/srv/stream",
        "threads": 1,
        "binding": "l3",
        "stores": "regular",
        "array_bytes": 512 * MIB,
        "repeats": 11,
    }
    resumes(run_module, lambda: FakeRun(stdout=KERNEL), stream_bench, changed)
