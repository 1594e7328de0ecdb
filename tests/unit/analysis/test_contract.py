"""The user's contract: own prices, discounts and currency over public prices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import parametrized
from trueup_analysis import contract
from trueup_analysis.figures import meters, prices
from trueup_node.errors import BadInput

SIZE = "Standard_HB120rs_v3"
FULL: dict[str, Any] = {
    "contract": 1,
    "name": "EA 2026",
    "as_of": "2026-11-01",
    "currency": "EUR",
    "usd_per_unit": 1.25,
    "discounts": [
        {"percent": 50, "sizes": ["Standard_HB120-*"], "offers": ["payg"], "regions": ["eastus"]},
        {"percent": 10, "sizes": ["standard_hb120*"]},
        {"percent": 20, "items": ["address"]},
    ],
    "prices": [{"size": SIZE, "region": "eastus", "per_hour": 2.0}],
    "services": [{"item": "anf:Ultra", "region": "eastus", "unit": "GiB-hour", "price": 0.0004}],
}


@pytest.fixture
def user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRUEUP_PRICES", str(tmp_path / "prices.csv"))
    monkeypatch.delenv("TRUEUP_CATALOG", raising=False)
    monkeypatch.delenv("TRUEUP_CONTRACT", raising=False)
    return tmp_path / "contract.yml"


def written(path: Path, document: Any) -> Path:
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path


def quotes(agreed: Path | None = None) -> prices.Book:
    return prices.Book(prices.read_all(None, agreed), None)


def usd(book: prices.Book, size: str, region: str) -> float:
    quote = book.find(size, region, "linux", "payg")
    assert quote is not None
    return quote.usd_per_hour


def test_prices_of_the_contract_and_discounts_lie_over_the_public_ones(user_file: Path) -> None:
    public = quotes()
    agreed = quotes(written(user_file.with_name("mine.yml"), FULL))
    # Its own price in euros; the first discount that fits; the next one elsewhere; none.
    assert usd(agreed, SIZE, "eastus") == pytest.approx(2.0 * 1.25)
    assert usd(agreed, "Standard_HB120-16rs_v3", "eastus") == pytest.approx(
        usd(public, "Standard_HB120-16rs_v3", "eastus") * 0.5
    )
    assert usd(agreed, SIZE, "westeurope") == pytest.approx(usd(public, SIZE, "westeurope") * 0.9)
    assert usd(agreed, "Standard_ND96asr_v4", "eastus") == usd(
        public, "Standard_ND96asr_v4", "eastus"
    )
    own = agreed.find(SIZE, "eastus", "linux", "payg")
    assert own is not None
    assert (own.date, own.source) == ("2026-11-01", "your contract EA 2026, EUR at 1.25 US$")
    less = agreed.find(SIZE, "westeurope", "linux", "payg")
    assert less is not None
    assert "less 10 % (your contract EA 2026" in less.source


def test_services_have_contract_prices_too(user_file: Path) -> None:
    mine = written(user_file.with_name("mine.yml"), FULL)
    found = meters.Meters(meters.read_all(None, mine), prices.day_of_reading())
    public = meters.Meters(meters.read_all(), prices.day_of_reading())
    files, address = found.find("anf:Ultra", "eastus"), found.find("address", "eastus")
    listed = public.find("address", "eastus")
    assert files is not None
    assert files.usd == pytest.approx(0.0004 * 1.25)
    assert address is not None
    assert listed is not None
    assert address.usd == pytest.approx(listed.usd * 0.8)
    assert public.find("anf:Ultra", "eastus") is None


def test_a_contract_holds_for_every_command_that_prices(
    user_file: Path, call_trueup: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def price(*more: str) -> float:
        done = call_trueup("azure", "plan", "gromacs-hbv3", "--format", "json", *more)
        costs = next(
            table for table in json.loads(done.out)["tables"] if table["title"] == "What it costs"
        )
        return float(costs["rows"][0]["usd_per_hour"])

    public = price()
    document = {**FULL, "prices": [], "discounts": [{"percent": 25, "sizes": ["*"]}]}
    mine = written(user_file.with_name("mine.yml"), document)
    assert price("--contract", str(mine)) == pytest.approx(public * 0.75)
    monkeypatch.setenv("TRUEUP_CONTRACT", str(mine))
    assert price() == pytest.approx(public * 0.75)
    monkeypatch.delenv("TRUEUP_CONTRACT")
    written(user_file, document)
    assert price() == pytest.approx(public * 0.75)
    advised = call_trueup(
        *("advise", "stencil", "grid=256x256x256", "steps=100", "region=eastus", "offers=payg"),
        *("--explain", "--contract", str(mine)),
    )
    assert (
        advised.status,
        "less 25 % (your contract EA 2026" in " ".join(advised.out.split()),
    ) == (0, True)


@parametrized(("change", "word"))
def test_a_wrong_contract_is_one_sentence(
    user_file: Path, call_trueup: Any, change: dict[str, Any], word: str
) -> None:
    mine = written(user_file.with_name("mine.yml"), {**FULL, **change})
    with pytest.raises(BadInput) as refused:
        contract.read(mine)
    assert (str(mine) in str(refused.value), word in str(refused.value)) == (True, True)
    done = call_trueup("prices", "show", "--size", SIZE, "--contract", str(mine))
    assert (done.status, done.out, done.err.count("\n"), "Traceback" in done.err) == (
        *(1, "", 1),
        False,
    )


@pytest.mark.parametrize("content", ["- 1\n", "", "a: [1\n", "contract: 1\n"])
def test_a_file_that_is_no_contract_is_one_sentence(user_file: Path, content: str) -> None:
    user_file.write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match=r"contract\.yml"):
        contract.read(user_file)


def test_a_contract_that_is_not_there_is_one_sentence(user_file: Path, call_trueup: Any) -> None:
    done = call_trueup("prices", "show", "--contract", str(user_file))
    assert (done.status, str(user_file) in done.err, done.err.count("\n")) == (1, True, 1)
