"""Which nodes runs expected, and why those without a record have none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made
import pytest
from helpers import parametrized
from trueup_analysis.figures.health.required import ExpectedNode, expected_nodes, why_missing
from trueup_analysis.load import load
from trueup_node.record import new_manifest

OLD, NEW = "20261120T091300Z-7c1e", "20261121T080000Z-0a1b"
UNKNOWN = "no record, and run.json does not say why"


def tally(**counts: int) -> dict[str, int]:
    words = ("ok", "changed", "failed", "unreachable", "skipped", "rescued", "ignored")
    return {word: counts.get(word, 0) for word in words}


def run(run_id: str = OLD, **changes: Any) -> dict[str, Any]:
    """A manifest as the callback writes it."""
    begun = new_manifest(run_id, 1, "site.yml", "2026-11-20T09:12:00Z")
    return {**begun, "finished_at": "2026-11-20T09:40:00Z", **changes}


def older(**changes: Any) -> dict[str, Any]:
    """One of before ``expected`` and ``failed_in``."""
    manifest = run(**changes)
    return {name: manifest[name] for name in manifest if name not in ("expected", "failed_in")}


def skipped(node: str, what: str, why: str) -> dict[str, str]:
    return {"node": node, "what": what, "why": why}


ABSENT = {
    "unreachable": (run(expected=["n1"], hosts={"n1": tally(unreachable=1)}), "unreachable"),
    "unreachable after some tasks, and skipped before": (
        run(
            expected=["n1"],
            hosts={"n1": tally(ok=9, unreachable=1)},
            skipped=[skipped("n1", "stream", "no compiler")],
        ),
        "unreachable",
    ),
    "unreachable when an older release ran": (
        older(hosts={"n1": tally(unreachable=1)}),
        "unreachable",
    ),
    "a role failed": (
        run(expected=["n1"], hosts={"n1": tally(failed=1)}, failed_in={"n1": "gpu_driver"}),
        "failed in gpu_driver",
    ),
    "a task of no role failed": (
        run(
            expected=["n1"],
            hosts={"n1": tally(ok=2, failed=1)},
            failed_in={"n1": "Look at the GPUs"},
        ),
        "failed in Look at the GPUs",
    ),
    "its answer was refused": (
        run(
            expected=["n1"],
            hosts={"n1": tally(ok=2, failed=1)},
            failed_in={"n1": "stream"},
            refused={"n1": ["answer of ib_facts: x", "answer of stream_bench: y"]},
        ),
        "not believed: answer of stream_bench: y",
    ),
    "what ran once on another node failed": (
        run(expected=["n1"], hosts={"n1": tally(ok=2)}, failed_in={"n1": "slurm"}),
        "failed in slurm",
    ),
    "failed when an older release ran": (
        older(hosts={"n1": tally(ok=2, failed=1)}),
        "failed, and run.json does not say where",
    ),
    "rescued only": (run(expected=["n1"], hosts={"n1": tally(ok=2, rescued=1)}), UNKNOWN),
    "skipped": (
        run(
            expected=["n1"],
            hosts={"n1": tally(ok=7)},
            skipped=[
                skipped("n1", "stream", "no compiler"),
                skipped("n2", "devito", "another node's"),
                skipped("n1", "devito", "no space"),
            ],
        ),
        "skipped: stream: no compiler; devito: no space",
    ),
    "stopped": (run(expected=["n1"], finished_at=None), "the run did not finish"),
    "stopped on resume, having failed before": (
        run(
            expected=["n1"],
            finished_at=None,
            hosts={"n1": tally(failed=1)},
            failed_in={"n1": "rdma"},
        ),
        "failed in rdma",
    ),
    "no task at all": (run(expected=["n1"]), UNKNOWN),
    "all tasks well": (run(expected=["n1"], hosts={"n1": tally(ok=30)}), UNKNOWN),
    "all tasks well in an older release": (older(hosts={"n1": tally(ok=30)}), UNKNOWN),
}


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_why_a_node_has_no_record(name: str) -> None:
    manifest, why = ABSENT[name]
    found = expected_nodes([manifest], [(OLD, "other")])
    assert found == [
        ExpectedNode("n1", OLD, present=False, why=why),
        ExpectedNode("other", OLD, present=True, why=None),
    ]


def test_a_node_with_a_record_is_present_whatever_the_run_says_of_it() -> None:
    manifest = run(
        expected=["n1", "n2"],
        finished_at=None,
        hosts={"n1": tally(failed=1), "n2": tally(ok=3, unreachable=1)},
        failed_in={"n1": "stream"},
    )
    assert expected_nodes([manifest], [(OLD, "n2"), (OLD, "n1"), (OLD, "n1")]) == [
        ExpectedNode("n1", OLD, present=True, why=None),
        ExpectedNode("n2", OLD, present=True, why=None),
    ]


def test_nodes_that_no_manifest_lists_are_present() -> None:
    """A record of several nodes may name some that are in no inventory; a run.json may be lost."""
    measured = [(OLD, "n1"), (OLD, "slurm-7"), (NEW, "n9")]
    assert expected_nodes([run(expected=["n1"])], measured) == [
        ExpectedNode("n1", OLD, present=True, why=None),
        ExpectedNode("n9", NEW, present=True, why=None),
        ExpectedNode("slurm-7", OLD, present=True, why=None),
    ]


# What becomes of n1 in an older and a newer run, given in either order.
RUNS = {
    "lost in the newer": (
        run(NEW, expected=["n1"], hosts={"n1": tally(unreachable=1)}),
        [(OLD, "n1")],
        ExpectedNode("n1", NEW, present=False, why="unreachable"),
    ),
    "found again in the newer": (
        run(NEW, expected=["n1"]),
        [(NEW, "n1")],
        ExpectedNode("n1", NEW, present=True, why=None),
    ),
    "the newer did not mean it": (
        run(NEW, expected=["n2"], hosts={"n2": tally(ok=1)}),
        [(NEW, "n2")],
        ExpectedNode("n1", OLD, present=False, why="failed in rdma"),
    ),
    "only records are left of the newer": (
        None,
        [(NEW, "n1")],
        ExpectedNode("n1", NEW, present=True, why=None),
    ),
}


@pytest.mark.parametrize("name", sorted(RUNS))
@pytest.mark.parametrize("newest_first", [False, True])
def test_the_newest_run_that_expected_a_node_counts(name: str, *, newest_first: bool) -> None:
    newer, measured, wanted = RUNS[name]
    before = run(OLD, expected=["n1"], hosts={"n1": tally(failed=1)}, failed_in={"n1": "rdma"})
    runs = [before] if newer is None else [before, newer]
    found = expected_nodes(runs[::-1] if newest_first else runs, measured)
    assert [node for node in found if node.name == "n1"] == [wanted]


def test_a_count_says_which_run_began_last_and_no_clock() -> None:
    far = "20990101T000000Z-0001"
    runs = [
        run(far, count=1, expected=["n1"]),
        run(NEW, count=2, expected=["n1"], hosts={"n1": tally(unreachable=1)}),
    ]
    assert expected_nodes(runs, [(far, "n1"), (OLD, "n1")]) == [
        ExpectedNode("n1", NEW, present=False, why="unreachable")
    ]


# Hosts of a run of an older release -> those of them that are expected.
CONTROLLER = {
    "the controller had no trouble": ({"localhost": tally(ok=3), "n1": tally(ok=3)}, ["n1"]),
    "localhost had trouble": (
        {"localhost": tally(ok=3, failed=1), "n1": tally(ok=3)},
        ["localhost", "n1"],
    ),
    "localhost is the only one": ({"localhost": tally(ok=3)}, ["localhost"]),
}


@pytest.mark.parametrize("name", sorted(CONTROLLER))
def test_the_controller_of_an_older_run_is_no_node(name: str) -> None:
    hosts, wanted = CONTROLLER[name]
    assert [node.name for node in expected_nodes([older(hosts=hosts)], [])] == wanted


def test_the_controller_is_a_node_where_it_was_measured_or_is_expected() -> None:
    hosts = {"localhost": tally(ok=3), "n1": tally(ok=3)}
    by_record = expected_nodes([older(hosts=hosts)], [(OLD, "localhost")])
    by_inventory = expected_nodes([run(expected=["localhost", "n1"], hosts=hosts)], [])
    not_at_all = expected_nodes([run(expected=["n1"], hosts=hosts)], [])
    assert [node.name for node in by_record] == ["localhost", "n1"]
    assert [node.name for node in by_inventory] == ["localhost", "n1"]
    assert [node.name for node in not_at_all] == ["n1"]


def test_a_node_of_an_older_run_that_is_only_among_the_skipped_is_expected() -> None:
    manifest = older(skipped=[skipped("n1", "configure", "no play for the family")])
    assert expected_nodes([manifest], []) == [
        ExpectedNode("n1", OLD, False, "skipped: configure: no play for the family")
    ]


@parametrized(("change", "why"))
def test_why_a_measured_node_lacks_a_benchmark(change: dict[str, Any], why: str) -> None:
    assert why_missing("n1", run(expected=["n1"], **change), "ib") == why


@parametrized(("change", "reason"))
def test_the_reader_refuses_what_this_could_not_read(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    made.write(tmp_path, [made.record()])
    (tmp_path / "run.json").write_text(json.dumps(run(**change)))
    loaded = load([tmp_path])
    assert loaded.runs == []
    assert [reason in item.reason for item in loaded.excluded] == [True]
