"""Which sizes are not advised any more, of made rows and of the catalog's."""

from __future__ import annotations

import csv
from datetime import date

import pytest
from helpers import ROOT, parametrized
from trueup_analysis.figures.lifecycle import advisable, ended
from trueup_node.errors import BadInput

TODAY = date(2026, 11, 23)
with (ROOT / "catalog" / "vm_sizes.csv").open(encoding="utf-8", newline="") as _stream:
    SIZES = {row["size"]: row for row in csv.DictReader(_stream)}


@parametrized(("size", "reason"))
def test_the_catalogs_sizes_today(size: str, reason: str) -> None:
    assert advisable(SIZES[size], TODAY) == reason


@pytest.mark.parametrize(
    ("status", "closed", "today", "months", "reason"),
    [
        ("retires 2027-05-31", "", date(2026, 5, 30), 12, ""),
        ("retires 2027-05-31", "", date(2026, 5, 31), 12, "it retires on 2027-05-31, within 12"),
        ("retires 2027-02-28", "", date(2026, 8, 31), 6, "it retires on 2027-02-28, within 6"),
        ("retires 2027-03-01", "", date(2026, 8, 31), 6, ""),
        ("retires 2027-05-31", "", date(2027, 5, 31), 12, "it retired on 2027-05-31"),
        ("", "2026-07", date(2026, 6, 30), 12, ""),
        ("", "2026-07", date(2026, 7, 1), 12, "new subscriptions cannot deploy it since 2026-07;"),
    ],
)
def test_the_day_decides(status: str, closed: str, today: date, months: int, reason: str) -> None:
    found = advisable({"status": status, "closed_since": closed}, today, months=months)
    assert found[: len(reason)] == reason
    assert bool(found) == bool(reason)
    assert ended(status, today) == ("retired on" in reason)


def test_both_reasons_and_no_successor_are_said() -> None:
    row = {"status": "retires 2027-01-01", "closed_since": "2026-07"}
    assert advisable(row, TODAY) == (
        "it retires on 2027-01-01, within 12 months; new subscriptions cannot deploy it since"
        " 2026-07; no source names a successor"
    )


@pytest.mark.parametrize(
    "row", [{"status": "retires soon"}, {"status": "retired"}, {"closed_since": "July"}]
)
def test_a_date_that_is_none_is_refused(row: dict[str, str]) -> None:
    with pytest.raises(BadInput, match=r"vm_sizes\.csv: "):
        advisable(row, TODAY)
