"""Commands over a store of a year: 365 days of 600 nodes with 462 figures each.

Beside a plain reader of the days, or of the figure, that the command needs. 1.3 GB of disk.
On two cores with nothing else to do: two days compared in 3.1 s, one figure of the year in 5.2 s,
all figures in 82 s with 641 MB at most.

make bench ARGS="-k year"
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
import year
from measure import command, python, trueup

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Bench

DAYS = int(os.environ.get("TRUEUP_BENCH_DAYS", str(year.DAYS)))
MEGABYTES = 1000
_READ_DAYS = """
import pyarrow.parquet, sys
for path in sys.argv[1:]:
    pyarrow.parquet.read_table(path, use_threads=False)
"""
_READ_FIGURE = """
import pathlib, pyarrow.parquet, sys
for path in pathlib.Path(sys.argv[1]).iterdir():
    pyarrow.parquet.read_table(
        path, columns=["node", "value"], filters=[("figure", "==", sys.argv[2])], use_threads=False
    )
"""
_READ_ALL = """
import pathlib, pyarrow.parquet, sys
for path in pathlib.Path(sys.argv[1]).iterdir():
    pyarrow.parquet.read_table(path, use_threads=False)
"""


@pytest.fixture(scope="module", name="store")
def _store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("year") / "store"
    year.write(folder, DAYS)
    yield folder
    shutil.rmtree(folder)


def test_two_days_of_a_year_are_compared(bench: Bench, store: Path) -> None:
    days = [year.day_name(number) for number in (0, DAYS - 1)]
    by_side = bench.compare(
        f"compare two days of {DAYS}, 600 nodes",
        command(trueup("compare", *days, "--results", store), statuses=(1,)),
        "pyarrow reads the two days",
        command(python(_READ_DAYS, *(store / f"{day}.parquet" for day in days))),
        promise=3.6,
        most_megabytes=MEGABYTES,
    )
    assert "nvidia_driver 570.86 to 580.17" in by_side[next(iter(by_side))][0].out


def test_the_history_of_one_figure(bench: Bench, store: Path) -> None:
    by_side = bench.compare(
        f"history of a figure over {DAYS} days, 600 nodes",
        command(trueup("history", store, "--figure", "triad_rate")),
        "pyarrow reads the figure",
        command(python(_READ_FIGURE, store, "triad_rate")),
        promise=1.3,
        most_megabytes=MEGABYTES,
    )
    assert f"over {DAYS} runs" in by_side[next(iter(by_side))][0].out


def test_the_history_of_all_figures(bench: Bench, store: Path) -> None:
    by_side = bench.compare(
        f"history of all figures over {DAYS} days, 600 nodes",
        command(trueup("history", store), statuses=(1,)),
        "pyarrow reads all days",
        command(python(_READ_ALL, store)),
        promise=5.0,
        most_megabytes=MEGABYTES,
    )
    out = by_side[next(iter(by_side))][0].out
    assert ("nvme3n1" in out, "nvidia_driver 570.86 to 580.17" in out) == (True, True)
