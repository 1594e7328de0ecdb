"""Without internet and root, a node gets a Devito that works, and is measured with it."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from nodes import devito
from testinfra.host import Host

PREFIX = "/home/hpc/.local/share/trueup"


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    """The records that the main job wrote, in the order of their names."""
    runs = sorted(Path(os.environ["TRUEUP_RESULTS"]).iterdir())
    files = sorted(path for path in runs[-1].glob("*.json") if path.name != "run.json")
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


def metric(record: dict[str, Any], name: str, statistic: str) -> float:
    """The one value of that metric."""
    (row,) = [
        row
        for row in record["metrics"]
        if row["name"] == name and row.get("statistic") == statistic
    ]
    return float(row["value"])


def test_the_node_is_what_the_scenario_promises(host: Host) -> None:
    assert host.run("id -un").stdout.strip() == "hpc"
    assert host.run("sudo -n true").rc == 1
    # Loopback only: there is no route to anywhere.
    assert host.run("cat /proc/net/route").stdout.splitlines()[1:] == []


def test_devito_imports_in_its_environment_at_the_pinned_version(host: Host) -> None:
    found, pinned = devito(host, PREFIX)
    assert found == pinned


def test_the_driver_is_executable(host: Host) -> None:
    assert host.run(f"test -x {PREFIX}/devito/devito_driver.py").rc == 0


def test_mpi_for_python_finds_the_nodes_mpi(host: Host) -> None:
    code = "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"
    found = host.run(f"mpirun -n 2 --oversubscribe {PREFIX}/devito/venv/bin/python -c '{code}'")
    assert found.stdout.split() == ["2", "2"]


def test_every_layout_was_measured_with_finite_numbers(records: list[dict[str, Any]]) -> None:
    devito = [record for record in records if record["benchmark"] == "devito"]
    # A problem of 64^3 takes less than a second, and longer where others use the processors.
    for record in devito:
        assert record["outcome"] in {"ok", "too_short"}
        assert (record["outcome"] == "too_short") == ("s were timed" in (record["reason"] or ""))
    layouts = sorted((record["ranks"], record["threads_per_rank"]) for record in devito)
    assert layouts == [(1, 1), (1, 2), (2, 1)]
    values = [
        metric(record, name, "median")
        for record in devito
        for name in ("run_time", "flop_rate", "point_rate", "operational_intensity")
    ]
    assert [value for value in values if not (math.isfinite(value) and value > 0)] == []


def test_the_layouts_agree_on_the_result(records: list[dict[str, Any]]) -> None:
    norms = [
        metric(record, "field_norm", "single")
        for record in records
        if record["benchmark"] == "devito"
    ]
    assert norms == pytest.approx([norms[0]] * 3, rel=1e-5)


def test_the_memory_bandwidth_is_that_of_a_computer(records: list[dict[str, Any]]) -> None:
    (stream,) = [record for record in records if record["benchmark"] == "stream"]
    assert stream["outcome"] == "ok"
    # In byte/s: above any number of MB/s or GB/s, below the 10 TB/s that no CPU reaches.
    assert 1e6 < metric(stream, "triad_rate", "median") < 1e13


def test_what_ran_is_gone(host: Host) -> None:
    processes = host.run("ps -eo args=").stdout.splitlines()
    assert [line for line in processes if line.startswith((PREFIX, "mpirun"))] == []
    assert "/sbin/init" in processes
