"""Which prices may rank, and how the age of an old one is said."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_analysis import cli
from trueup_analysis.figures import price_list
from trueup_analysis.figures.prices import Book, day_of_reading, standing

SIZE = "Standard_HB120rs_v3"
DAY = date(2026, 11, 29)
AGE = "164 days old on 2026-11-29"
ROOT = Path(__file__).resolve().parents[3]


def row(usd: float, as_of: str, notes: str = "", **more: Any) -> dict[str, Any]:
    return {
        "size": SIZE,
        "region": "eastus",
        "os": "linux",
        "offer": "spot",
        "usd_per_hour": usd,
        "as_of_date": as_of,
        "source": "a table",
        "notes": notes,
        **more,
    }


@parametrized(("as_of", "notes", "refusal", "days", "age"))
def test_a_price_ranks_with_a_date_and_is_old_after_90_days(
    as_of: str, notes: str, refusal: str, days: float, age: str
) -> None:
    found = standing(as_of, notes, DAY)
    assert (found.refusal, found.age) == (refusal, age)
    assert found.age_days == pytest.approx(days, nan_ok=True)


@parametrized(("price", "reason"))
def test_a_price_that_may_not_rank_counts_nowhere(price: dict[str, Any], reason: str) -> None:
    book = Book([price], None, DAY)
    assert book.find(SIZE, "eastus", "linux", "spot") is None
    assert reason in book.why_not(SIZE, "eastus", "linux", "spot")
    wanted = price_list.PriceQuery(SIZE, offer="spot")
    assert price_list.lowest([price], wanted, DAY) == {}
    dear = row(3.0, "2026-06-18", region="westus3")
    assert price_list.lowest([price, dear], wanted, DAY) == dear


@pytest.mark.parametrize("seconds", ["soon", "9" * 30, "1.5"])
def test_a_day_that_is_none_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seconds: str
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", seconds)
    monkeypatch.setattr("sys.argv", ["trueup", "sizes", "--family", "hbv3"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr().err
    assert (ended.value.code != 0, said.count("\n"), "SOURCE_DATE_EPOCH is" in said) == (
        True,
        1,
        True,
    )


def test_without_a_day_it_is_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert abs((day_of_reading() - datetime.now(UTC).date()).days) <= 1


COMMANDS = {
    "sizes": ("sizes", "--family", "hbv3"),
    "advise": ("advise", "stencil", "grid=512x512x512", "steps=1000"),
    "advise desktops": ("advise", "desktops", "users=20"),
    "cost": ("cost", "catalog/reference_results.csv", "--region", "eastus"),
    "azure plan": ("azure", "plan", "devito-hbv3"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_with_prices_says_their_age(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795953600")
    texts = []
    for _ in range(2):
        monkeypatch.setattr("sys.argv", ["trueup", *COMMANDS[name]])
        with pytest.raises(SystemExit):
            cli.main()
        found = capsys.readouterr()
        texts.append(" ".join((found.out + found.err).split()))
    assert (AGE in texts[0], "unknown date" in texts[0]) == (True, False)
    if name != "azure plan":  # its expiry counts from the minute
        assert texts[0] == texts[1]
