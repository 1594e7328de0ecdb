"""Cost: node-hours, prices by date, and what has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import made
import pandas as pd
import pytest
from trueup.errors import BadInput
from trueup_analysis.cost import GIVEN, read_prices, table
from trueup_analysis.load import Loaded, load

ROOT = Path(__file__).resolve().parents[3]
PRICES = ROOT / "catalog" / "prices.csv"
SIZE = "Standard_HB120rs_v3"


def measured(tmp_path: Path, records: list[dict[str, Any]]) -> Loaded:
    return load([made.write(tmp_path, records)])


def prices(*rows: tuple[str, str, float, str]) -> pd.DataFrame:
    """Made prices of the size: region, offer, US$ an hour, date."""
    return pd.DataFrame(
        [
            {
                "size": SIZE,
                "region": region,
                "os": "linux",
                "offer": offer,
                "usd_per_hour": usd,
                "as_of_date": date,
                "source": f"made {date}",
                "notes": "",
            }
            for region, offer, usd, date in rows
        ]
    )


def test_the_catalogs_prices_are_all_read() -> None:
    read = read_prices(PRICES)
    assert len(read) == 748
    assert int((read["as_of_date"] == "").sum()) == 72
    assert float(read["usd_per_hour"].min()) > 0


def test_the_articles_cost_table_with_what_it_leaves_out() -> None:
    result = table(
        load([ROOT / "catalog" / "reference_results.csv"]),
        prices=read_prices(PRICES),
        region="eastus",
    )
    totals = result.totals
    assert [f"{value:.3f}" for value in totals["published_hours"]] == ["0.197", "0.086", "0.102"]
    assert [f"{value:.4f}" for value in totals["sum_run_hours"]] == ["0.1975", "0.0861", "0.1029"]
    assert [f"{value:.4f}" for value in totals["node_hours"]] == ["0.1975", "0.2588", "0.3250"]
    assert [f"{value:.1f}" for value in totals["underbilled"]] == ["1.0", "3.0", "3.2"]
    assert totals["usd"].to_list() == pytest.approx((totals["node_hours"] * 3.60).to_list())
    assert len(result.table) == 13
    assert set(result.table["price_date"]) == {"2026-06-18"}


def test_a_row_carries_all_that_a_price_depends_on(tmp_path: Path) -> None:
    loaded = measured(tmp_path, [made.record(36.0, node_count=2, nodes=["a", "b"])])
    row = table(loaded, prices=prices(("eastus", "payg", 3.6, "2026-06-18"))).table.iloc[0]
    assert row["node_hours"] == pytest.approx(0.02)
    assert row["usd_per_run"] == pytest.approx(0.072)
    assert row["usd_per_gflop"] == pytest.approx(0.072 / (made.WORK / 1e9))
    assert row["usd_per_gpt"] == pytest.approx(0.072 / (made.POINTS / 1e9))
    shown = ["vm_size", "region", "os", "offer", "currency", "price_date", "price_source", "n"]
    assert row[shown].to_list() == [
        SIZE, "eastus", "linux", "payg", "USD", "2026-06-18", "made 2026-06-18", 3,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("price_date", "usd"),
    [
        (None, 4.0),
        ("2026-06-18", 4.0),
        ("2026-06-17", 3.0),
        ("2024-01-01", 2.0),
        ("2023-12-31", None),
    ],
)
def test_the_newest_price_on_or_before_the_day_counts(
    tmp_path: Path, price_date: str | None, usd: float | None
) -> None:
    book = prices(
        ("eastus", "payg", 4.0, "2026-06-18"),
        ("eastus", "payg", 2.0, "2024-01-01"),
        ("eastus", "payg", 9.0, ""),
        ("eastus", "payg", 3.0, "2025-05-16"),
    )
    result = table(measured(tmp_path, [made.record()]), prices=book, price_date=price_date)
    found = result.table["usd_per_hour"].iloc[0]
    assert (None if pd.isna(found) else found) == usd
    assert (result.unknown == []) is (usd is not None)


def test_an_undated_price_counts_only_alone_and_is_said_to_be_undated(tmp_path: Path) -> None:
    loaded = measured(tmp_path, [made.record()])
    result = table(loaded, prices=prices(("eastus", "payg", 9.0, "")))
    assert result.table["usd_per_hour"].to_list() == [9.0]
    assert result.warnings == [
        f"Undated payg prices in eastus, to be taken as a hint (made ): {SIZE}."
    ]


@pytest.mark.parametrize(
    ("spot", "saving", "word"),
    [(0.9, 0.75, None), (3.6, None, "equals"), (4.0, None, "exceeds")],
)
def test_spot_is_a_saving_only_below_the_list_price(
    tmp_path: Path, spot: float, saving: float | None, word: str | None
) -> None:
    book = prices(("eastus", "payg", 3.6, "2026-06-18"), ("eastus", "spot", spot, "2026-06-18"))
    result = table(measured(tmp_path, [made.record()]), prices=book, offer="spot")
    found = result.table["saving"].iloc[0]
    assert (None if pd.isna(found) else found) == (
        None if saving is None else pytest.approx(saving)
    )
    expected = (
        []
        if word is None
        else [f"The spot price in eastus {word} the list price: no saving for {SIZE}."]
    )
    assert result.warnings == expected


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"vm_size": None}, {}, "A machine without an Azure size has no price"),
        ({"region": None}, {}, f"No price without a region for {SIZE}"),
        (
            {},
            {"region": "mars"},
            f"{SIZE} in mars (linux, payg) has no price; the table has it for",
        ),
        ({}, {"offer": "3y"}, f"{SIZE} in eastus (linux, 3y) has no price in any region"),
        ({"vm_size": "Standard_HB120rs_v33"}, {}, f"not in the price table (did you mean {SIZE}?)"),
    ],
)
def test_an_unknown_price_is_unknown_and_says_why(
    tmp_path: Path, changes: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    loaded = measured(tmp_path, [made.record(**changes)])
    result = table(loaded, prices=read_prices(PRICES), **options)
    assert result.table["usd_per_run"].isna().to_list() == [True]
    assert result.table["node_hours"].to_list() == pytest.approx([10 / 3600])
    assert [message in text for text in result.unknown] == [True]


def test_a_given_price_needs_no_size_and_says_where_it_is_from(tmp_path: Path) -> None:
    loaded = measured(tmp_path, [made.record(3600.0, vm_size=None, region=None, offer=None)])
    result = table(loaded, prices=read_prices(PRICES), price=3.60)
    row = result.table.iloc[0]
    assert (row["usd_per_run"], row["price_source"]) == (3.60, GIVEN)
    assert result.unknown == []


def test_priced_as_another_size_is_said_to_be_so(tmp_path: Path) -> None:
    loaded = measured(tmp_path, [made.record(3600.0, vm_size=None, region=None, offer=None)])
    result = table(loaded, prices=read_prices(PRICES), as_size=SIZE, region="eastus")
    assert result.table["usd_per_run"].to_list() == [3.60]
    assert result.warnings[0].startswith(f"Priced as {SIZE}, whatever machine ran it")


@pytest.mark.parametrize("price", [0.0, -1.0, float("nan"), float("inf")])
def test_a_price_that_is_none_is_refused(tmp_path: Path, price: float) -> None:
    with pytest.raises(BadInput, match=r"is not above zero"):
        table(measured(tmp_path, [made.record()]), prices=read_prices(PRICES), price=price)


def test_a_case_without_a_node_count_is_refused(tmp_path: Path) -> None:
    loaded = measured(tmp_path, [made.record()])
    cases = loaded.cases.assign(node_count=pd.array([pd.NA], dtype="Int64"))
    with pytest.raises(BadInput, match=r"does not say on how many nodes it ran"):
        table(Loaded(cases, loaded.metrics), prices=read_prices(PRICES))


def test_records_without_run_times_cannot_be_priced(tmp_path: Path) -> None:
    loaded = measured(tmp_path, [made.record(outcome="failed", reason="killed")])
    with pytest.raises(BadInput, match=r"none of 1 records is ok and holds a run time"):
        table(loaded, prices=read_prices(PRICES))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("size,region\n", "header lacks os, offer"),
        ("H\nS,r,linux,payg,cheap,2026-01-01,s,\n", "line 2: 'cheap' is not a price"),
        ("H\nS,r,linux,payg,0,2026-01-01,s,\n", "line 2: a price of 0.0 is not above zero"),
        ("H\nS,r,linux,payg,1,June,s,\n", "line 2: 'June' is not a date"),
    ],
)
def test_a_spoilt_price_table_is_refused_with_the_line(
    tmp_path: Path, text: str, message: str
) -> None:
    header = "size,region,os,offer,usd_per_hour,as_of_date,source,notes"
    path = tmp_path / "prices.csv"
    path.write_text(text.replace("H\n", header + "\n"), encoding="utf-8")
    with pytest.raises(BadInput, match=message):
        read_prices(path)


def test_a_price_date_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"'June' is not a date"):
        table(measured(tmp_path, [made.record()]), prices=prices(), price_date="June")
