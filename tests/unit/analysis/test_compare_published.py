"""``trueup compare RUN published``: a run beside the published rows that its preset reproduces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made
import pytest
from helpers import parametrized

# catalog/reference_results.csv: HB120rs_v3, single node, 120 cores.
PUBLISHED = 259.78e9


def measured(folder: Path, rate: float, **changes: Any) -> Path:
    """A run of two nodes with the preset of the article."""
    parameters = {"preset": "devito-article", "preset_scale": 1.0, "launcher": "local", **changes}
    records = [
        made.record(
            made.WORK / rate, ranks=1, threads=120, parameters=parameters, nodes=[f"n-{number}"]
        )
        for number in (1, 2)
    ]
    return made.write(folder, records)


@parametrized(("rate", "changes", "verdict", "status"))
@pytest.mark.parametrize("sides", [("last", "published"), ("devito-article", "last")])
def test_a_run_is_held_against_the_row_of_its_work(
    call_trueup: Any,
    tmp_path: Path,
    sides: tuple[str, str],
    rate: float,
    changes: dict[str, Any],
    verdict: str,
    status: int,
) -> None:
    results = measured(tmp_path, rate, **changes)
    done = call_trueup("compare", *sides, "--results", results, "--format", "json")
    (table,) = json.loads(done.out)["tables"]
    (row,) = table["rows"]
    assert (done.status, row["verdict"], row["nodes"]) == (status, verdict, 2)
    assert (row["before"], row["after"]) == (pytest.approx(PUBLISHED), pytest.approx(rate))
    assert (row["ratio_low"], row["ratio_high"], row["paired"]) == (None, None, True)
    assert row["ratio"] == pytest.approx(rate / PUBLISHED - 1)


def test_the_missing_interval_is_explained(call_trueup: Any, tmp_path: Path) -> None:
    results = measured(tmp_path, 0.8 * PUBLISHED)
    done = call_trueup("compare", "last", "published", "--results", results)
    text = " ".join(done.out.split())
    assert text.startswith("Worse: Devito floating-point rate fell by 20.0 % on all 2 nodes")
    assert "A published row is one value: how much it varies is not known" in text
    assert "setting changed" not in text


def test_a_run_without_a_preset_has_no_published_row(call_trueup: Any, tmp_path: Path) -> None:
    results = made.write(tmp_path, [made.record(10.0)])
    for name, asked in (("published", "a preset"), ("megatron-1t", "the preset megatron-1t")):
        done = call_trueup("compare", "last", name, "--results", results)
        assert (done.status, done.out) == (1, "")
        assert f"was measured with {asked}, so none has the work of a published row" in done.err


def test_a_preset_without_a_row_for_the_run_is_named(call_trueup: Any, tmp_path: Path) -> None:
    results = measured(tmp_path, PUBLISHED, launcher="slurm")
    done = call_trueup("compare", "last", "published", "--results", results)
    assert (done.status, "devito-article is compared with nothing: 2 of its 2" in done.err) == (
        1,
        True,
    )
