"""What a run is expected to take and cost, and what is said not to be known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from trueup_controller.forecast import Forecast, Work, earlier, forecast, whole_run

VALID = Path(__file__).parents[1] / "data" / "records" / "valid.json"
WORK = [
    Work("a", "HB", "stream", 2),
    Work("b", "HB", "stream", 1),
    Work("a", "HB", "devito", 3),
    Work("b", "HX", "devito", 4),
    Work("b", "HX", "vllm", None),
]
TIMES = {("stream", "HB"): 60.0, ("devito", "HB"): 1000.0}


def test_nodes_wait_for_the_slowest_and_what_is_not_known_is_counted() -> None:
    found = forecast(WORK, TIMES, {"a": 3.6, "b": None})
    # 2 x 60 s of stream, then 3 x 1000 s of devito, on one node with a price.
    assert found == Forecast(2, 10, 3120.0, 4, 1, pytest.approx(3.12), 1)
    assert "time of 4 case(s) not known" in found.sentence()
    assert "price of 1 node(s) not known" in found.sentence()


@pytest.mark.parametrize(
    ("most", "refused"), [(None, False), (3.13, False), (3.0, True), (0, True)]
)
def test_a_run_above_the_limit_is_refused(most: float | None, refused: bool) -> None:
    found = forecast(WORK, TIMES, {"a": 3.6}).refusal(most)
    assert (found is not None) is refused
    assert not refused or "trueup_max_usd" in str(found)


def test_times_are_of_the_newest_run_that_has_them(tmp_path: Path) -> None:
    record = json.loads(VALID.read_text())
    kind = (record["benchmark"], record["vm_size"])
    for run, took, outcome in (
        ("20261120T091300Z-0001", 10, "ok"),
        ("20261121T091300Z-0001", 20, "ok"),
        ("20261122T091300Z-0001", 30, "failed"),
    ):
        (tmp_path / run).mkdir()
        text = json.dumps({**record, "duration_seconds": took, "outcome": outcome})
        (tmp_path / run / "one.json").write_text(text)
        (tmp_path / run / "two.json").write_text("no record")
    assert earlier(str(tmp_path), {kind, ("none", None)}) == {kind: 20.0}
    assert earlier(str(tmp_path / "nowhere"), {kind}) == {}


def manifest(folder: Path, count: int, **other: object) -> None:
    run = folder / f"20261120T09130{count}Z-7c1e"
    run.mkdir()
    fields = {"playbook": "check.yml", "expected": ["a", "b"], "count": count}
    times = {"started_at": "2026-11-20T09:00:00Z", "finished_at": "2026-11-20T09:12:05Z"}
    (run / "run.json").write_text(json.dumps({**fields, **times, **other}))


def test_the_last_run_of_the_playbook_over_these_hosts_says_how_long_it_takes(
    tmp_path: Path,
) -> None:
    results = str(tmp_path)
    assert whole_run(results, "check.yml", {"b", "a"}) is None
    manifest(tmp_path, 1)
    manifest(tmp_path, 2, finished_at=None)
    manifest(tmp_path, 3, playbook="site.yml")
    manifest(tmp_path, 4, expected=["a"])
    manifest(tmp_path, 5, finished_at="2026-11-20T08:00:00Z")
    manifest(tmp_path, 6, started_at="soon")
    manifest(tmp_path, 7, started_at="2026-11-20T09:00:00")
    assert whole_run(results, "check.yml", {"b", "a"}) == 725
