"""However a tool ends: one record, whose outcome and reason say it; figures of a good end only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ENDINGS = ("well", "garbage", "fails", "hangs", "dies")
# What each ending says; of `well` it depends on the output.
SAID = {
    "garbage": "output not understood",
    "fails": "ended with exit status 1",
    "hangs": "was ended at its time limit of 5 s",
    "dies": "was killed by SIGKILL",
}
# The benchmark of each kind of node, and what a good ending gives: outcome and part of the reason.
KINDS = {
    "nccl": ("nccl", "ok", ""),
    "nccl_shm": ("nccl", "invalid", "memory"),
}


def records() -> dict[str, dict[str, Any]]:
    results = Path(os.environ["TRUEUP_RESULTS"])
    found = {}
    for path in results.glob("*/*.json"):
        if path.name != "run.json":
            record = json.loads(path.read_text())
            assert record["nodes"][0] not in found
            found[record["nodes"][0]] = record
    return found


RECORDS = records()


def test_every_case_left_one_record() -> None:
    assert set(RECORDS) == {f"{kind}-{ending}" for kind in KINDS for ending in ENDINGS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_good_ending_counts(kind: str) -> None:
    benchmark, outcome, said = KINDS[kind]
    record = RECORDS[f"{kind}-well"]
    assert (record["benchmark"], record["outcome"]) == (benchmark, outcome)
    assert said in (record["reason"] or "")
    assert len(record["metrics"]) > 0


@pytest.mark.parametrize("ending", [ending for ending in ENDINGS if ending != "well"])
@pytest.mark.parametrize("kind", KINDS)
def test_any_other_ending_is_a_failure_that_says_how_and_has_no_figure(
    kind: str, ending: str
) -> None:
    record = RECORDS[f"{kind}-{ending}"]
    assert (record["outcome"], record["metrics"]) == ("failed", [])
    assert SAID[ending] in record["reason"]


def test_the_verdicts_follow() -> None:
    trueup = Path(sys.executable).with_name("trueup")
    done = subprocess.run(  # noqa: S603 WHY: our own command
        [trueup, "health", os.environ["TRUEUP_RESULTS"], "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    [table] = json.loads(done.stdout)["tables"]
    verdicts: dict[str, set[str]] = {}
    for row in table["rows"]:
        verdicts.setdefault(row["node"], set()).add(row["verdict"])
    for kind, (_, outcome, _) in KINDS.items():
        for ending in ENDINGS[1:]:
            assert verdicts[f"{kind}-{ending}"] == {"not measured"}
        assert ("fail" in verdicts[f"{kind}-well"]) == (outcome == "invalid")
