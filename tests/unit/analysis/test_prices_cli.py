"""trueup prices and trueup sizes: what rows of the Retail Prices API mean, and the user's file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from emulated_cloud import Cloud, Reply, serving
from helpers import parametrized
from trueup_analysis.figures import price_list

SIZE, REGION = "Standard_B16als_v2", "australiacentral"
# What a live query of one size returned on 2026-07-29: product, SKU, type, term, price.
CAPTURED = (
    ("Basv2 Series Cloud Services", "B16als v2 Low Priority", "Consumption", "", 0.299),
    ("Virtual Machines Basv2 Series", "B16als v2 Low Priority", "Consumption", "", 0.135),
    ("Virtual Machines Basv2 Series", "B16als v2", "Consumption", "", 0.673),
    ("Virtual Machines Basv2 Series", "B16als v2", "Reservation", "1 Year", 3478.0),
    ("Virtual Machines Basv2 Series", "B16als v2", "Reservation", "3 Years", 6721.0),
    ("Virtual Machines Basv2 Series Windows", "B16als v2", "Consumption", "", 0.747),
    ("Virtual Machines Basv2 Series Windows", "B16als v2", "DevTestConsumption", "", 0.673),
    ("Virtual Machines Basv2 Series", "B16als v2 Spot", "Consumption", "", 0.6057),
    ("Virtual Machines Basv2 Series Windows", "B16als v2 Spot", "Consumption", "", 0.6723),
    ("Virtual Machines Basv2 Series Windows", "B16als v2 Spot", "DevTestConsumption", "", 0.6057),
    ("Basv2 Series Cloud Services", "B16als v2", "Consumption", "", 0.747),
    ("Virtual Machines Basv2 Series Windows", "B16als v2 Low Priority", "Consumption", "", 0.299),
    ("Virtual Machines Basv2 Series Windows", "B16als v2 Low Priority", "DevTest", "", 0.135),
)
MEANT = {
    ("linux", "lowpriority"): 0.135,
    ("linux", "payg"): 0.673,
    ("linux", "1y"): 3478 / 8760,
    ("linux", "3y"): 6721 / 26280,
    ("linux", "savings1y"): 0.49129,
    ("linux", "savings3y"): 0.34323,
    ("linux", "spot"): 0.6057,
    ("windows", "payg"): 0.747,
    ("windows", "spot"): 0.6723,
    ("windows", "lowpriority"): 0.299,
}


def item(product: str, sku: str, kind: str, term: str, price: float, **more: Any) -> dict[str, Any]:
    """A row as the API has it; of its service the query's columns said nothing."""
    plans = {}
    if sku == "B16als v2" and kind == "Consumption" and product.endswith("Series"):
        plans = {
            "savingsPlan": [
                {"unitPrice": 0.34323, "retailPrice": 0.34323, "term": "3 Years"},
                {"unitPrice": 0.49129, "retailPrice": 0.49129, "term": "1 Year"},
            ]
        }
    return {
        "armSkuName": SIZE,
        "armRegionName": REGION,
        "serviceName": "Virtual Machines",
        "productName": product,
        "skuName": sku,
        "meterName": sku,
        "type": kind,
        "retailPrice": price,
        "unitOfMeasure": "1 Hour",
        "tierMinimumUnits": 0.0,
        **({"reservationTerm": term} if term else {}),
        "effectiveStartDate": "2024-05-01T00:00:00Z",
        "currencyCode": "USD",
        **plans,
        **more,
    }


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """The emulated cloud, with the rows of the live query in pages of five."""
    cloud = Cloud()
    cloud.prices.rows, cloud.prices.page_rows = [item(*row) for row in CAPTURED], 5
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    monkeypatch.setenv("no_proxy", "localhost")
    with serving(cloud, tmp_path):
        yield cloud


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "data" / "prices.csv"
    monkeypatch.setenv("TRUEUP_PRICES", str(path))
    monkeypatch.delenv("TRUEUP_CATALOG", raising=False)
    return path


@pytest.fixture
def refresh(call_trueup: Any, cloud: Cloud, own: Path) -> Callable[..., Any]:
    del own

    def run(*more: str) -> Any:
        named = ("--region", REGION, "--size", SIZE)
        return call_trueup("prices", "refresh", *named, "--url", cloud.url, *more)

    return run


def kept(path: Path) -> dict[tuple[str, str], float]:
    rows = csv.DictReader(io.StringIO(path.read_text()))
    return {(row["os"], row["offer"]): float(row["usd_per_hour"]) for row in rows}


def test_thirteen_rows_of_one_size_are_ten_prices(refresh: Any, own: Path) -> None:
    done = refresh()
    assert done.status == 0, done.err
    assert kept(own) == pytest.approx(MEANT)
    # Two of cloud services, and three for development and test (one with a type of no document).
    assert [done.err.count(word) for word in ("2 rows left out", "DevTest")] == [2, 1]


def test_a_busy_server_is_asked_again(refresh: Any, cloud: Cloud, own: Path) -> None:
    wait = {"Retry-After": "0"}
    cloud.faults["prices"] = [Reply(status, None, wait) for status in (429, 503, 500)]
    assert (refresh().status, len(kept(own))) == (0, 10)


@parametrized("change")
def test_a_row_that_is_not_as_documented_keeps_the_file(
    refresh: Any, cloud: Cloud, own: Path, change: dict[str, Any]
) -> None:
    refresh()
    before = own.read_bytes()
    cloud.prices.rows[7] = {**cloud.prices.rows[7], **change}
    done = refresh()
    assert (done.status, own.read_bytes() == before, done.out) == (1, True, "")
    assert "Traceback" not in done.err


@parametrized("change")
def test_a_page_that_cannot_be_trusted_writes_nothing(
    refresh: Any, cloud: Cloud, own: Path, change: Any
) -> None:
    cloud.faults["prices"] = [lambda reply: Reply(200, {**reply.document, **change})]
    done = refresh()
    assert (done.status, own.exists(), done.err.count("\n")) == (1, False, 1)


@parametrized("fault")
def test_no_answer_writes_nothing(refresh: Any, cloud: Cloud, own: Path, fault: Any) -> None:
    cloud.strike({"path": "/retail/", **fault})
    done = refresh()
    assert (done.status, own.exists(), done.err.count("\n")) == (1, False, 1)


def test_two_prices_of_one_thing_are_none(refresh: Any, cloud: Cloud, own: Path) -> None:
    cloud.prices.rows.append(item(*CAPTURED[2][:4], 0.7))
    done = refresh()
    assert (done.status, own.exists(), "0.673 and 0.7" in done.err) == (1, False, True)


@parametrized(("change", "offer"))
def test_what_is_no_price_an_hour_is_left_out_and_said(
    refresh: Any, cloud: Cloud, own: Path, change: dict[str, Any], offer: str
) -> None:
    cloud.prices.rows[2] = {**cloud.prices.rows[2], **change}
    done = refresh()
    assert (done.status, ("linux", offer) in kept(own)) == (0, False)
    assert "left out" in done.err


def test_a_row_of_another_size_is_left_out_and_said(refresh: Any, cloud: Cloud, own: Path) -> None:
    page = {"BillingCurrency": "USD", "Items": [item(*CAPTURED[2], armSkuName="Standard_B2ts_v2")]}
    cloud.faults["prices"] = [Reply(200, page)]
    done = refresh()
    assert (done.status, own.exists()) == (1, False)
    assert "rows left out: of another size or region" in done.err


def test_the_newest_price_counts_everywhere(call_trueup: Any, own: Path) -> None:
    own.parent.mkdir()
    row = "Standard_HB120rs_v3,eastus,linux,payg,9.99,2099-01-01,by hand,\n"
    own.write_text(f"size,region,os,offer,usd_per_hour,as_of_date,source,notes\n{row}")
    found = call_trueup("sizes", "--family", "hbv3", "--region", "eastus", "--format", "json")
    [sheet] = json.loads(found.out)["tables"]
    told = {one["size"]: one["usd_per_hour"] for one in sheet["rows"]}
    assert (told["Standard_HB120rs_v3"], told["Standard_HB120-16rs_v3"]) == (9.99, 3.6)
    changed = call_trueup("prices", "diff", "--format", "csv")
    [only] = csv.DictReader(io.StringIO(changed.out))
    assert (only["earlier_usd_per_hour"], float(only["change"])) == ("3.6", pytest.approx(1.775))


def test_an_own_file_that_is_broken_is_named(call_trueup: Any, own: Path) -> None:
    own.parent.mkdir()
    own.write_text("size,region\nA,b\n")
    done = call_trueup("prices", "show")
    assert (done.status, str(own) in done.err) == (1, True)


def test_a_file_that_cannot_be_written(refresh: Any, own: Path) -> None:
    own.parent.write_text("a file, and no folder")
    done = refresh()
    assert (done.status, "Traceback" in done.err) == (1, False)


# ---- lists --------------------------------------------------------------------------------------

TODAY = date(2026, 11, 23)


def size_row(name: str, **more: str) -> dict[str, str]:
    columns = ("family", "vcpus", "memory_gib", "gpus", "gpu_model", "gpu_memory_gib", "status")
    columns += ("rdma_nics", "rdma_gbps_per_nic", "nvme_disks", "gpu_fraction")
    return {"size": name, **dict.fromkeys(columns, ""), **more}


SIZES = [
    size_row("A", family="nd", gpus="8", gpu_model="H100", rdma_nics="8", memory_gib="1900"),
    size_row("B", family="nc", gpus="1", gpu_model="H100-NVL", rdma_nics="0", memory_gib="320"),
    size_row("C", family="old", gpus="1", gpu_model="V100", status="retired 2025-09-30"),
    size_row("D", family="nv", gpus="1", gpu_model="A10", gpu_fraction="1/6"),
]


@parametrized(("needs", "names"))
def test_sizes_with_what_is_needed(needs: dict[str, Any], names: str) -> None:
    found = price_list.sizes(SIZES, price_list.Needs(**needs), [], price_list.PriceQuery(), TODAY)
    assert "".join(one["size"] for one in found) == names
    assert all(one["usd_per_hour"] != one["usd_per_hour"] for one in found)


def test_what_is_closed_to_new_subscriptions_is_said_with_the_status() -> None:
    rows = [
        size_row("E", status="retires 2028-11-15", closed_since="2026-07"),
        size_row("F", closed_since="2026-07"),
        size_row("G", status="old"),
        size_row("H"),
    ]
    found = price_list.sizes(rows, price_list.Needs(), [], price_list.PriceQuery(), TODAY)
    assert [one["status"] for one in found] == [
        "retires 2028-11-15, closed to new subscriptions since 2026-07",
        "closed to new subscriptions since 2026-07",
        "old",
        "unknown",
    ]


@parametrized("argv")
def test_what_cannot_be_had_is_one_sentence(
    call_trueup: Any, own: Path, argv: tuple[str, ...]
) -> None:
    done = call_trueup(*argv)
    assert (done.status, done.out, done.err.count("\n"), own.exists()) == (1, "", 1, False)
