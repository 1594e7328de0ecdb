"""Days of healthy nodes and of nodes with faults, in little (`make torture` has 10,000)."""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING

import pytest
import simulated_nodes

if TYPE_CHECKING:
    from pathlib import Path


def test_no_healthy_node_is_drained_and_each_fault_is(tmp_path: Path) -> None:
    done = simulated_nodes.trial(50, len(simulated_nodes.FAULTS), 5, tmp_path)
    assert (done.drained, done.missed) == ([], [])
    assert (done.planted, done.warned > 3) == (len(simulated_nodes.FAULTS) + 1, True)


@pytest.mark.parametrize("name", ["XID 79", "port down"])
def test_a_program_that_does_not_look_is_seen(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault that the program cannot see counts as missed."""
    words, _ = simulated_nodes.FAULTS[name]
    monkeypatch.setattr(simulated_nodes, "FAULTS", {name: (words, lambda _day, _scatter: None)})
    done = simulated_nodes.trial(0, 1, 5, tmp_path)
    assert [sentence.partition(":")[0] for sentence in done.missed] == [name]


def test_noise_that_is_a_fault_drains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = functools.partial(simulated_nodes.FAULTS["XID 79"][1])
    monkeypatch.setattr(simulated_nodes, "NOISE", (fault,))
    monkeypatch.setattr(simulated_nodes, "OFTEN", 1.0)
    machine = simulated_nodes.Machine(tmp_path / "node")
    told = simulated_nodes.check(machine, simulated_nodes.healthy(random.Random(1), 1.0)).told
    assert told[2:3] == ["state=drain"]
