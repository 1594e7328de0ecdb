"""A run's id, its records that stand for a case, and which roles are benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import a_record
from trueup_measure import recorded
from trueup_node import record as records
from trueup_node.errors import BadInput
from trueup_node.record import run_of

RUN = a_record()["run_id"]
MANY = {"nodes": ["n1", "n2"]}
OLD, NEW = "20261119T091300Z-0001", "20261120T091300Z-7c1e"


def test_resume_takes_the_last_run_or_the_one_named(tmp_path: Path) -> None:
    for name in (OLD, NEW, "notes", "20261121T000000Z"):
        (tmp_path / name).mkdir()
    assert run_of(str(tmp_path), "last") == NEW
    assert run_of(str(tmp_path), OLD) == OLD


def test_the_last_run_is_the_one_with_the_highest_count_whatever_its_clock_says(
    tmp_path: Path,
) -> None:
    far, near, lost = "20990101T000000Z-0001", "20261120T091300Z-7c1e", "20261121T000000Z-0002"
    manifests = {far: '{"count": 4}', near: '{"count": 5}', OLD: "[]", lost: '{"count": "9"}'}
    for name, text in manifests.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(text)
    assert records.run_counts(str(tmp_path)) == {OLD: 0, lost: 0, far: 4, near: 5}
    assert run_of(str(tmp_path), "last") == near


@pytest.mark.parametrize("resume", ["last", OLD, "../x"])
def test_a_run_that_is_not_there_cannot_be_resumed(tmp_path: Path, resume: str) -> None:
    with pytest.raises(BadInput, match="there is none"):
        run_of(str(tmp_path / "missing"), resume)


def test_a_run_that_is_not_there_is_refused_with_the_newest_that_is(tmp_path: Path) -> None:
    (tmp_path / OLD).mkdir()
    with pytest.raises(BadInput, match=f"the newest there is {OLD}"):
        run_of(str(tmp_path), NEW)


def test_only_records_that_ended_ok_may_stand_for_a_case(tmp_path: Path) -> None:
    for record in (
        a_record(case="late", started_at="2026-11-20T10:00:00Z"),
        a_record(case="kept", started_at="2026-11-20T09:13:00Z"),
        a_record(case="failed", outcome="failed", reason="x"),
    ):
        records.write_record(str(tmp_path), record)
    # A damaged one keeps nothing from being measured.
    (tmp_path / RUN / "damaged.json").write_text('{"schema": "trueup.record/1"}')
    assert [record["case"] for record in recorded(tmp_path / RUN, "n1", MANY)] == ["kept", "late"]
    assert recorded(tmp_path / NEW.replace("7c1e", "0000"), "n1", {}) == []


def test_of_one_node_only_records_that_begin_on_it_are_read(tmp_path: Path) -> None:
    long = "c" * 200
    for case, nodes in (
        ("own", ["n1"]),
        ("own", ["n1"]),
        ("led", ["n1", "n2"]),
        (long, ["n1"]),
        ("other", ["n2"]),
        ("taken", ["n2", "n1"]),
        ("alike", ["n11"]),
    ):
        records.write_record(str(tmp_path), a_record(case=case, nodes=nodes))
    for alone in ({}, {"nodes": ["n1"]}):
        found = recorded(tmp_path / RUN, "n1", alone)
        assert sorted(record["case"] for record in found) == [long, "led", "own", "own"]
    assert len(recorded(tmp_path / RUN, "n1", MANY)) == 7
