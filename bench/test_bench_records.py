"""Commands over 100,000 synthetic records (1.3 million figures), beside a plain reader of the same.

make bench ARGS="-k packed"
make bench ARGS="-k folder"
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec
import pytest
from measure import command, plain, spend, trueup
from synthetic import CASES_A_RUN, ORDERS, SIZES, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Bench
    from measure import Word

RECORDS = int(os.environ.get("TRUEUP_BENCH_RECORDS", "100000"))
SWEEPS = min(len(SIZES) * len(ORDERS), RECORDS // CASES_A_RUN)
COMMANDS = {
    "health": ["health"],
    "cost": ["cost", "--all"],
    "scaling": ["scaling", "--all"],
    "list": ["list", "--all", "--every-record"],
    "list as CSV": ["list", "--all", "--format", "csv"],
    "report": ["report", "--all"],
}
# Ratio and MB of a packed file, and of a folder.
PROMISES = {
    "health": ((1.4, 400), (5.0, 430)),
    "cost": ((1.4, 400), (5.0, 500)),
    "scaling": ((2.2, 400), (6.0, 510)),
    "list": ((2.6, 420), (5.0, 450)),
    "list as CSV": ((2.5, 420), (5.0, 450)),
    "report": ((7.5, 600), (10.0, 600)),
}
# Exit statuses: nothing in these records has an expectation.
STATUSES = {"health": (2,)}


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder, one file a record."""
    results = tmp_path_factory.mktemp("synthetic") / "results"
    for number in range(RECORDS):
        synthetic_record = record(number)
        run = results / str(synthetic_record["run_id"])
        run.mkdir(parents=True, exist_ok=True)
        (run / f"{synthetic_record['case']}.{number}.json").write_bytes(
            msgspec.json.encode(synthetic_record)
        )
    return results


@pytest.fixture(scope="module", name="packed")
def _packed(folder: Path) -> Iterator[Path]:
    """The same records in one packed file."""
    packed = folder.parent / "synthetic.parquet"
    spend(trueup("pack", folder, "-o", packed))
    yield packed
    packed.unlink()


def judge(bench: Bench, name: str, kind: str, source: Path, promised: tuple[float, int]) -> None:
    """One command beside the plain reader, with a check of its output."""
    figure = f"{name}, {RECORDS:,} records, {kind}"
    words: list[Word] = [*COMMANDS[name], source]
    if name == "report":
        words += ["--output", source.parent / "report"]
    ours = command(trueup(*words), statuses=STATUSES.get(name, (0,)))
    promise, megabytes = promised
    by_side = bench.compare(
        figure, ours, *plain(kind, source), promise=promise, most_megabytes=megabytes
    )
    out = by_side[figure][0].out
    if name == "scaling":
        assert out.count("Strong scaling over cores") == SWEEPS
    elif name == "cost":
        assert out.count("Cost of one run of each case") == 1
    elif name.startswith("list"):
        assert len(out.splitlines()) > RECORDS


@pytest.mark.parametrize("name", PROMISES)
def test_a_command_of_a_packed_file(bench: Bench, packed: Path, name: str) -> None:
    judge(bench, name, "packed", packed, PROMISES[name][0])


@pytest.mark.parametrize("name", PROMISES)
def test_a_command_of_a_folder(bench: Bench, folder: Path, name: str) -> None:
    judge(bench, name, "folder", folder, PROMISES[name][1])
