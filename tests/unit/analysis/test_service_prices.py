"""Prices of everything beside VMs: the meters of the Retail Prices API, and what they cost."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from emulated_cloud import Cloud, Reply, serving
from helpers import parametrized
from trueup_analysis.figures import meters
from trueup_controller.azure import cost
from trueup_node.errors import BadInput

REGION, SIZE = "eastus", "Standard_HB120rs_v3"
# serviceName, productName, skuName, meterName, unitOfMeasure, tierMinimumUnits, retailPrice, region
METERS = (
    ("Storage", "Standard SSD Managed Disks", "E10 LRS", "E10 LRS Disk", "1/Month", 0, 9.6, REGION),
    (
        "Storage",
        "Standard SSD Managed Disks",
        "E10 LRS",
        "E10 LRS Disk Mount",
        *("1/Month", 0),
        1.2,
        REGION,
    ),
    (
        "Storage",
        "Standard SSD Managed Disks",
        "E10 LRS",
        "E10 LRS Disk Operations",
        *("10K", 0),
        0.002,
        REGION,
    ),
    (
        "Storage",
        "Standard SSD Managed Disks",
        "E10 ZRS",
        "E10 ZRS Disk",
        "1/Month",
        0,
        14.4,
        REGION,
    ),
    (
        "Storage",
        "Premium SSD Managed Disks",
        "P30 LRS",
        "P30 LRS Disk",
        "1/Month",
        0,
        122.88,
        REGION,
    ),
    (
        "Storage",
        "General Block Blob v2",
        "Hot LRS",
        "Hot LRS Data Stored",
        "1 GB/Month",
        0,
        0.02,
        REGION,
    ),
    (
        "Storage",
        "General Block Blob v2",
        "Hot LRS",
        "Hot LRS Data Stored",
        *("1 GB/Month", 51200),
        0.019,
        REGION,
    ),
    (
        "Azure NetApp Files",
        "Azure NetApp Files",
        "Ultra",
        "Ultra Capacity",
        *("1 GiB/Hour", 0),
        0.0005,
        REGION,
    ),
    (
        "Azure NetApp Files",
        "Azure NetApp Files",
        "Standard",
        "Standard Capacity",
        *("1 Hour", 0),
        0.0002,
        REGION,
    ),
    ("NAT Gateway", "NAT Gateway", "Standard", "Standard Gateway", "1 Hour", 0, 0.045, "Global"),
    (
        "NAT Gateway",
        "NAT Gateway",
        "Standard",
        "Standard Data Processed",
        *("1 GB", 0),
        0.045,
        "Global",
    ),
    (
        "Virtual Network",
        "IP Addresses",
        "Standard",
        "Standard IPv4 Static Public IP",
        *("1 Hour", 0),
        0.005,
        "Global",
    ),
    ("Azure Bastion", "Azure Bastion", "Standard", "Standard Gateway", "1 Hour", 0, 0.29, REGION),
    (
        "Bandwidth",
        "Rtn Preference: MGN",
        "Standard",
        "Standard Data Transfer Out",
        *("1 GB", 0),
        0.0,
        REGION,
    ),
    (
        "Bandwidth",
        "Rtn Preference: MGN",
        "Standard",
        "Standard Data Transfer Out",
        *("1 GB", 100),
        0.087,
        REGION,
    ),
    (
        "Bandwidth",
        "Bandwidth - Routing Preference: Internet",
        "Standard",
        "Standard Data Transfer Out",
        *("1 GB", 100),
        0.08,
        REGION,
    ),
)
KEPT = {
    ("disk:E10", REGION, 0.0): 9.6,
    ("disk:P30", REGION, 0.0): 122.88,
    ("blob:hot-lrs", REGION, 0.0): 0.02,
    ("blob:hot-lrs", REGION, 51200.0): 0.019,
    ("anf:Ultra", REGION, 0.0): 0.0005,
    ("anf:Standard", REGION, 0.0): 0.0002,
    ("nat", "global", 0.0): 0.045,
    ("nat-data", "global", 0.0): 0.045,
    ("address", "global", 0.0): 0.005,
    ("bastion:Standard", REGION, 0.0): 0.29,
    ("egress", REGION, 0.0): 0.0,
    ("egress", REGION, 100.0): 0.087,
}


def item(*cells: Any, **more: Any) -> dict[str, Any]:
    service, product, sku, meter, unit, least, price, region = cells
    return {
        "currencyCode": "USD",
        "serviceName": service,
        "productName": product,
        "skuName": sku,
        "meterName": meter,
        "unitOfMeasure": unit,
        "tierMinimumUnits": float(least),
        "retailPrice": price,
        "armRegionName": region,
        "armSkuName": "",
        "type": "Consumption",
        "effectiveStartDate": "2024-05-01T00:00:00Z",
        **more,
    }


VM = item(
    *("Virtual Machines", "Virtual Machines HBrsv3 Series", "HB120rs v3", "HB120rs v3"),
    *("1 Hour", 0, 3.6, REGION),
    armSkuName=SIZE,
)


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    cloud = Cloud()
    cloud.prices.rows = [VM, *(item(*cells) for cells in METERS)]
    cloud.prices.page_rows = 3
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    monkeypatch.setenv("no_proxy", "localhost")
    monkeypatch.setenv("TRUEUP_PRICES", str(tmp_path / "own" / "prices.csv"))
    monkeypatch.delenv("TRUEUP_CATALOG", raising=False)
    with serving(cloud, tmp_path):
        yield cloud


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "own" / meters.FILE


@pytest.fixture
def refresh(call_trueup: Any, cloud: Cloud) -> Callable[[], Any]:
    return lambda: call_trueup("prices", "refresh", "--region", REGION, "--url", cloud.url)


def kept(path: Path) -> dict[tuple[str, str, float], float]:
    with path.open(encoding="utf-8") as stream:
        return {
            (row["item"], row["region"], float(row["from_units"])): float(row["usd"])
            for row in csv.DictReader(stream)
        }


def test_meters_of_a_region_are_kept_by_the_rules_of_the_api(refresh: Any, own: Path) -> None:
    done = refresh()
    assert (done.status, kept(own)) == (0, KEPT), done.err
    # Mount, operations and zone redundancy of the disk.
    assert "3 rows left out: services: of another meter" in done.err
    missing = next(
        line for line in done.err.splitlines() if "no price of" in line and "anf" in line
    )
    assert "anf:Premium" in missing
    assert "amlfs:AMLFS-Durable-Premium-250" in missing


def test_a_busy_api_is_asked_again_in_the_midst_of_pages(
    refresh: Any, cloud: Cloud, own: Path
) -> None:
    wait = {"Retry-After": "0"}
    fine: Callable[[Reply], Reply] = lambda reply: reply  # noqa: E731 WHY: one of a list of faults
    cloud.faults["prices"] = [fine, Reply(429, None, wait), fine, Reply(429, None, wait)]
    assert (refresh().status, kept(own)) == (0, KEPT)


@parametrized(("index", "change", "lacks"))
def test_a_changed_schema_is_named_and_nothing_is_written(
    refresh: Any, cloud: Cloud, own: Path, index: int, change: dict[str, Any], lacks: str
) -> None:
    assert cloud.prices.rows is not None
    cloud.prices.rows[index] = {**cloud.prices.rows[index], **change}
    done = refresh()
    assert (done.status, own.exists(), own.with_name("prices.csv").exists()) == (1, False, False)
    assert f"it lacks {lacks}" in done.err
    assert "Traceback" not in done.err


@parametrized(("change", "reason"))
def test_a_row_that_is_no_price_of_today_is_left_out_and_counted(
    refresh: Any, cloud: Cloud, own: Path, change: dict[str, Any], reason: str
) -> None:
    assert cloud.prices.rows is not None
    cloud.prices.rows[1] = {**cloud.prices.rows[1], **change}
    done = refresh()
    assert (done.status, ("disk:E10", REGION, 0.0) in kept(own)) == (0, False)
    assert f"1 rows left out: services: {reason}" in done.err


def test_an_expired_price_of_a_vm_does_not_count(refresh: Any, cloud: Cloud, own: Path) -> None:
    assert cloud.prices.rows is not None
    cloud.prices.rows.append({**VM, "retailPrice": 1.0, "effectiveEndDate": "2025-01-31T00:00:00Z"})
    assert refresh().status == 0
    assert "3.6" in own.with_name("prices.csv").read_text(encoding="utf-8")


def test_two_prices_of_one_item_are_none(refresh: Any, cloud: Cloud, own: Path) -> None:
    assert cloud.prices.rows is not None
    cloud.prices.rows.append({**cloud.prices.rows[1], "retailPrice": 9.7})
    done = refresh()
    assert (done.status, own.exists(), "9.6 and 9.7" in done.err) == (1, False, True)


# ---- tariffs ------------------------------------------------------------------------------------

TODAY = date(2026, 11, 30)


def row(name: str, usd: float, unit: str = "hour", **more: Any) -> dict[str, Any]:
    base = {"item": name, "region": REGION, "unit": unit, "from_units": 0.0, "usd": usd}
    return {**base, "as_of_date": "2026-11-01", "source": "a table", "notes": "", **more}


@pytest.mark.parametrize(("units", "usd"), [(50, 0.0), (100, 0.0), (150, 4.35), (10435, 898.745)])
def test_traffic_bills_by_steps(units: float, usd: float) -> None:
    steps = [
        row("egress", 0.087, "GB", from_units=100.0),
        row("egress", 0.083, "GB", from_units=10335.0),
    ]
    tariff = meters.Meters(steps, TODAY).find("egress", REGION)
    assert tariff is not None
    assert tariff.total(units) == pytest.approx(usd)


def test_the_newest_and_the_region_s_own_count_and_a_fixture_never() -> None:
    rows = [
        row("nat", 0.04, region="global"),
        row("nat", 0.05, as_of_date="2026-10-01"),
        row("nat", 0.06),
        row("nat", 0.01, as_of_date="2026-11-29", notes="use only as a test fixture"),
    ]
    found = meters.Meters(rows, TODAY)
    usd = [found.find("nat", region) for region in (REGION, "westus3")]
    assert [tariff and tariff.usd for tariff in usd] == [0.06, 0.04]


def test_a_month_has_730_hours() -> None:
    tariff = meters.Meters([row("disk:E10", 9.6, "month")], TODAY).per_hour("disk:E10", REGION)
    assert tariff is not None
    assert tariff.usd == pytest.approx(9.6 / 730)


@parametrized(("sku", "gib", "named"))
def test_a_disk_bills_by_its_tier(sku: str, gib: float, named: str) -> None:
    assert cost.disk_item(sku, gib) == named


@parametrized(("change", "word"))
def test_a_row_that_cannot_be_is_named(tmp_path: Path, change: dict[str, str], word: str) -> None:
    path = tmp_path / "service_prices.csv"
    cells = {**row("nat", 0.04), "from_units": "0", "usd": "0.04", **change}
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(cells))
        writer.writeheader()
        writer.writerow(cells)
    with pytest.raises(BadInput, match=f"service_prices.csv:2.*{word}"):
        meters.read(path)
