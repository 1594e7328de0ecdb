"""Verdict and summary of 600 nodes of 459 figures, beside SuperBench's diagnosis and summary.

Both judge the same figures and name the same nodes, save the one whose driver differs: SuperBench
compares numbers alone. ``TRUEUP_SUPERBENCH=FOLDER`` (superbench_files.py) runs it; else its
recorded row is shown.

    make bench ARGS="-k fleet"
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from operator import add
from typing import TYPE_CHECKING

import pytest
import superbench_files as superbench
from measure import command, plain, row, spend, trueup
from synthetic import FAULTS, NOISY_PAIR, large_fleet, node

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Bench

DRIVER = "wrong driver"
SLOW_GPU = "cold GPU"
BOTH = "health and its summary, 600 nodes, {}"
RULES = {"all": "rules on all metrics", "own": "its own test rules"}
# By how the records are kept and by SuperBench's rules: our command, which judges and sums up,
# beside its two; and verdict beside diagnosis.
PROMISES = {
    ("packed", "all"): (0.047, 0.065),
    ("packed", "own"): (0.07, 0.115),
    ("folder", "all"): (0.08, 0.11),
    ("folder", "own"): (0.11, 0.19),
}
# Beside a plain reader: ratio and MB.
PLAIN_PROMISES = {"packed": (2.0, 340), "folder": (7.2, 400)}


@dataclass(frozen=True)
class Files:
    """The same fleet for both."""

    sources: dict[str, Path]
    superbench: Path


@pytest.fixture(scope="module", name="files")
def _files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("fleet")
    records = list(large_fleet())
    for number, record in enumerate(records):
        run = folder / "results" / record["run_id"]
        run.mkdir(parents=True, exist_ok=True)
        (run / f"{record['benchmark']}.{number}.json").write_text(json.dumps(record))
    superbench.write(records, folder)
    packed = folder / "fleet.parquet"
    spend(trueup("pack", folder / "results", "-o", packed))
    return Files({"packed": packed, "folder": folder / "results"}, folder)


def planted() -> str:
    """The failing nodes as the command names them; the slow GPU is an outlier, no failure."""
    failing = [number for number, fault in FAULTS.items() if fault != SLOW_GPU]
    return "fail: " + ", ".join(node(number) for number in sorted(failing))


@pytest.mark.parametrize("kind", PLAIN_PROMISES)
def test_health_beside_a_plain_reader(bench: Bench, files: Files, kind: str) -> None:
    source = files.sources[kind]
    figure = f"health, 600 nodes, {kind}"
    ours = command(trueup("health", source), statuses=(1,))
    promise, megabytes = PLAIN_PROMISES[kind]
    by_side = bench.compare(
        figure, ours, *plain(kind, source), promise=promise, most_megabytes=megabytes
    )
    assert planted() in by_side[figure][0].err


def test_health_and_summary_beside_superbench(bench: Bench, files: Files) -> None:
    if not superbench.FOLDER:
        bench.not_measured("TRUEUP_SUPERBENCH names no folder", *map(BOTH.format, PLAIN_PROMISES))
    sides = {}
    for kind, source in files.sources.items():
        sides[f"health {kind}"] = command(trueup("health", source), statuses=(1,))
        sides[f"both {kind}"] = command(trueup("health", "--summary", source), statuses=(1,))
    for rules in RULES:
        steps = superbench.steps(files.superbench, own_rules=rules == "own")
        sides[f"diagnosis {rules}"], sides[f"summary {rules}"] = steps
    by_side = bench.measure(sides)

    theirs = f"superbench {superbench.commit()}"
    rows = [
        row(
            BOTH.format(kind),
            f"{theirs}, {RULES[rules]}",
            by_side[f"both {kind}"],
            [*map(add, by_side[f"diagnosis {rules}"], by_side[f"summary {rules}"])],
            promise=promised[0],
            most_megabytes=PLAIN_PROMISES[kind][1],
        )
        for (kind, rules), promised in PROMISES.items()
    ]
    # And the verdicts alone.
    for (kind, rules), (_, promise) in PROMISES.items():
        pair = by_side[f"health {kind}"], by_side[f"diagnosis {rules}"]
        name = f"{theirs} diagnosis, {RULES[rules]}"
        rows.append(row(f"health, 600 nodes, {kind}", name, *pair, promise=promise))
    bench.judge(*rows)
    assert planted() in by_side["health packed"][0].err
    # It compares numbers: a driver's version is none.
    faulty = {number for number, fault in FAULTS.items() if fault != DRIVER} | {NOISY_PAIR[0]}
    assert superbench.defective(files.superbench) == {node(number) for number in faulty}
