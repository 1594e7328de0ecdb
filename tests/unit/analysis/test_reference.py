"""Published tables, their corrections, and this run beside them."""

from __future__ import annotations

from pathlib import Path

import made
import pytest
from trueup_analysis.figures.reference import compare, own, storage
from trueup_analysis.load import load
from trueup_node.errors import BadInput

REFERENCE = Path(__file__).resolve().parents[3] / "catalog" / "reference_results.csv"


def test_this_run_stands_at_the_same_resource(tmp_path: Path) -> None:
    records = [made.record(100 / n, threads=n) for n in (8, 16, 64)]
    found = compare(load([REFERENCE]), own(load([made.write(tmp_path, records)])))
    table = {row["resource"]: row for row in found[0].table}
    assert list(table) == [8, 16, 32, 64, 96, 120]
    assert [row["cores"] for row in table.values()] == [8, 16, 32, 64, 96, 120]
    mine = {at: row["mine_seconds"] for at, row in table.items() if "mine_seconds" in row}
    assert mine == pytest.approx({8: 12.5, 16: 6.25, 64: 1.5625})
    assert ["published_seconds" in row for row in table.values()] == [False, *[True] * 5]
    assert any("compare speed-up and efficiency" in note for note in found[0].notes)
    assert ["mine_seconds" in row for row in found[1].table] == [False] * 4


def test_published_rates_of_storage_are_complete_and_in_the_right_unit() -> None:
    found = storage(REFERENCE, None)
    assert len(found.table) == 13
    rates = {row["configuration"]: row["low"] for row in found.table if row["latency"] == "2 ms"}
    assert rates["AMLFS Ultra (500 MB/s/TiB) 32TB"] == 195000
    assert rates["ANF regular volume 32TB"] == 90000
    (through,) = (row for row in found.table if row["what"] == "throughput")
    assert (through["low"], through["high"], through["unit"]) == (10e9, 12e9, "byte/s")
    # Ten clients of 30 Gb/s are the ceiling.
    assert through["high"] < 10 * 30e9 / 8
    # Those that the article cites from another have no number of clients in it.
    said = {row["configuration"]: row["clients"] for row in found.table}
    assert (said["ANF Large Volume (cited article)"], said["ANF LV 500TB Ultra"]) == (None, 10)
    assert found.mine == []
    assert ["it must be GB/s" in note for note in found.notes] == [True]


def test_own_figures_of_a_share_stand_apart_and_those_of_a_disk_are_left_out(
    tmp_path: Path,
) -> None:
    records = []
    for kind in ("nfs4", "xfs"):
        record = made.record()
        record.update(benchmark="fio", case=f"metadata_stat-{kind}")
        record["parameters"] = {"directory": "/mnt", "filesystem": kind, "filesystem_source": "s"}
        record["metrics"] = [
            {"name": "stat_rate", "value": 5000.0, "unit": "1/s", "direction": "higher"}
        ]
        records.append(record)
    found = storage(REFERENCE, load([made.write(tmp_path, records)]))
    assert [(row["case"], row["figure"], row["value"]) for row in found.mine] == [
        ("metadata_stat-nfs4", "stat_rate", 5000.0)
    ]
    assert "is another load" in found.notes[1]


def test_a_row_of_storage_that_is_not_understood_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "reference_results.csv"
    path.write_text(
        REFERENCE.read_text().replace(",throughput,10-12,GB/s,", ",throughput,10,TB/s,")
    )
    with pytest.raises(BadInput, match="throughput, 10 'TB/s' is not known for EDA storage"):
        storage(path, None)
