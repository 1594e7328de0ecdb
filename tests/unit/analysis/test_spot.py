"""Spot prices and eviction rates of Resource Graph, kept in the user's files."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emulated_cloud import SUBSCRIPTION, Cloud, serving
from trueup_analysis import spot
from trueup_controller.azure import manager
from trueup_controller.azure.login import Login
from trueup_node.errors import BadInput, TrueupError

SIZE, REGION = "Standard_HB120rs_v3", "eastus"
_TYPES = {
    "price": "microsoft.compute/skuspotpricehistory/ostype/location",
    "rate": "microsoft.compute/skuspotevictionrate/location",
}


def graph_row(kind: str, region: str, properties: dict[str, Any]) -> dict[str, Any]:
    """A row as the documented queries show it: sku.name in lower case."""
    name = SIZE.lower()
    system = f"/ostype/{properties['osType']}" if kind == "price" else ""
    return {
        "id": f"/{_TYPES[kind].split('/')[1]}/{name}{system}/location/{region}",
        "type": _TYPES[kind],
        "location": region,
        "sku": {"name": name},
        "properties": properties,
    }


def history(region: str, *usd: Any, system: str = "linux") -> dict[str, Any]:
    prices = [{"priceUSD": each, "effectiveDate": "2026-11-01T00:00:00Z"} for each in usd]
    return graph_row("price", region, {"osType": system, "spotPrices": prices})


def rate(region: str, band: str) -> dict[str, Any]:
    return graph_row("rate", region, {"evictionRate": band})


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    cloud = Cloud()
    cloud.graph.quota = False
    cloud.tables["spotresources"] = [
        *(history("eastus", 0.9, "1.2", 0.4), history("eastus", 5.0, system="windows")),
        *(rate("eastus", "5-10"), rate("westus3", "20+"), history("westeurope", 9.0)),
    ]
    with serving(cloud, tmp_path):
        monkeypatch.setattr(
            *(manager, "sign_in"),
            lambda names: Login(cloud.url, cloud.token(), tuple(names) or (SUBSCRIPTION,)),
        )
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "authority.pem"))
        monkeypatch.setenv("no_proxy", "localhost")
        monkeypatch.setenv("TRUEUP_PRICES", str(tmp_path / "own" / "prices.csv"))
        monkeypatch.delenv("TRUEUP_CATALOG", raising=False)
        yield cloud


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def asked(call_trueup: Any) -> Any:
    places = ("--region", "eastus", "--region", "westus3", "--region", "centralus")
    return call_trueup("prices", "spot", "--size", SIZE, *places)


def test_prices_and_rates_are_kept_and_shown(
    cloud: Cloud, call_trueup: Any, tmp_path: Path
) -> None:
    del cloud
    done = asked(call_trueup)
    assert done.status == 0, done.err
    prices = rows_of(tmp_path / "own" / "prices.csv")
    assert [(row["region"], row["os"], row["offer"], row["usd_per_hour"]) for row in prices] == [
        ("eastus", "linux", "spot", "0.9"),
        ("eastus", "windows", "spot", "5"),
    ]
    assert (prices[0]["size"], prices[0]["source"]) == (SIZE, spot.SOURCE)
    assert prices[0]["notes"] == "0.4 to 1.2 in 3 prices"
    rates = spot.read_evictions(tmp_path / "own" / spot.FILE)
    assert {key: (each.low, each.high) for key, each in rates.items()} == {
        (SIZE.lower(), "eastus"): (5.0, 10.0),
        (SIZE.lower(), "westus3"): (20.0, 40.0),
    }
    assert rates[SIZE.lower(), "eastus"].per_hour == pytest.approx(0.075)
    assert f"centralus: no eviction rate of {SIZE}" in done.err


def test_a_second_answer_replaces_the_rate_and_keeps_the_others(
    cloud: Cloud, call_trueup: Any, tmp_path: Path
) -> None:
    asked(call_trueup)
    cloud.tables["spotresources"] = [rate("eastus", "0-5"), history("eastus", 0.8)]
    assert asked(call_trueup).status == 0
    rates = spot.read_evictions(tmp_path / "own" / spot.FILE)
    assert {key[1]: each.high for key, each in rates.items()} == {"eastus": 5.0, "westus3": 40.0}


@pytest.mark.parametrize(
    ("row", "word"),
    [
        (rate("eastus", "seldom"), "'seldom'"),
        (rate("eastus", ""), "without evictionRate"),
        (history("eastus"), "no spotPrices"),
        (history("eastus", "free"), "no spotPrices"),
        (graph_row("price", "eastus", {"osType": "linux", "prices": []}), "no spotPrices"),
    ],
)
def test_a_changed_form_is_one_sentence_and_writes_nothing(
    cloud: Cloud, call_trueup: Any, tmp_path: Path, row: dict[str, Any], word: str
) -> None:
    cloud.tables["spotresources"] = [history("westus3", 1.0), row]
    done = asked(call_trueup)
    assert (done.status, done.out, (tmp_path / "own").exists()) == (1, "", False)
    assert (word in done.err, "Traceback" in done.err) == (True, False)


def test_nothing_known_is_said(cloud: Cloud, call_trueup: Any, tmp_path: Path) -> None:
    cloud.tables["spotresources"] = []
    done = asked(call_trueup)
    assert (done.status, (tmp_path / "own").exists()) == (1, False)
    assert "has no spot prices of these sizes" in done.err


@pytest.mark.parametrize("band", ["5 - 10", "5-10%", "10-15", "0-5", "20+", "20+ %"])
def test_bands_in_every_known_form(band: str) -> None:
    row = {"skuName": SIZE.lower(), "location": "eastus", "evictionRate": band}
    [found] = spot.evictions([row], [SIZE], "2026-11-30")
    assert (found.size, found.low <= found.high) == (SIZE, True)


def test_a_row_without_a_size_is_named() -> None:
    with pytest.raises(TrueupError, match="without skuName"):
        spot.evictions([{"location": "eastus", "evictionRate": "0-5"}], [SIZE], "2026-11-30")


def test_a_broken_file_of_rates_is_named(tmp_path: Path) -> None:
    path = tmp_path / spot.FILE
    path.write_text(f"{','.join(spot.COLUMNS)}\n{SIZE},eastus,50,5,2026-11-30,me\n")
    with pytest.raises(BadInput, match=r"spot_evictions.csv:2: 50 to 5"):
        spot.read_evictions(path)
