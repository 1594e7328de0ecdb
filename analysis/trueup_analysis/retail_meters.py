"""Meters of the Retail Prices API beside those of VMs: disks, file systems, Blob, network.

Sources of the names: infracost/infracost (internal/resources/azure, internal/providers/terraform/
azure) for disks, Blob storage, NAT gateway, addresses and Bastion; tvanroo/AzFilesOptimizer
(its list of URLs of the API) for Azure NetApp Files. Traffic bills on the meters of Microsoft's
network, product "Rtn Preference: MGN"; NAT gateways and addresses have the region Global. No
public source has a row of Azure Managed Lustre: its tiers are told by the number in the meter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.errors import TrueupError

from .catalog import METER_COLUMNS
from .retail import PATH, VERSION, in_force, page_rows, source_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from trueup_node import rest

_GLOBAL: Final = "global"
# Unit of the API: unit of catalog/service_prices.csv.
_HOURS: Final = {"1 Hour": "hour"}
_MONTHS: Final = {"1/Month": "month", "1 /Month": "month"}
_GB: Final = {"1 GB": "GB"}
_STORED: Final = {"1 GB/Month": "GB-month"}
# Of capacity that bills by the hour: sources have it as both.
_CAPACITY: Final = {"1 GiB/Hour": "GiB-hour", "1 Hour": "GiB-hour"}


class _Rule(NamedTuple):
    """The meters of an item.

    Attributes:
        item: with the groups of ``meter`` in it.
        service, product: patterns that hold for the whole name.
        units: by the API's unit.
        tiered: whether a price by volume is taken.
    """

    item: str
    service: str
    product: str
    meter: str
    units: Mapping[str, str]
    tiered: bool = False

    def of(self, row: Mapping[str, Any]) -> str:
        """The item of a row; empty where it is another meter."""
        names = ((self.service, "serviceName"), (self.product, "productName"))
        if not all(re.fullmatch(pattern, row[name]) for pattern, name in names):
            return ""
        match = re.fullmatch(self.meter, row["meterName"])
        return self.item.format(*match.groups()) if match else ""


_RULES: Final = (
    _Rule(
        *("disk:{}", "Storage", "(?:Standard|Premium) SSD Managed Disks"),
        *(r"([EP]\d+) (?:LRS )?Disks?", _MONTHS),
    ),
    _Rule(
        *("blob:hot-lrs", "Storage", "General Block Blob v2", "Hot LRS Data Stored", _STORED),
        tiered=True,
    ),
    _Rule(
        *("anf:{}", "Azure NetApp Files", "Azure NetApp Files"),
        *(r"(Standard|Premium|Ultra) Capacity", _CAPACITY),
    ),
    _Rule(
        *("amlfs:AMLFS-Durable-Premium-{}", ".*", ".*Managed Lustre.*"),
        *(r".*\b(40|125|250|500)\b.*Capacity.*", {"1 GiB/Hour": "GiB-hour"}),
    ),
    _Rule("nat", "NAT Gateway", ".*", "Standard Gateway(?: Hours)?", _HOURS),
    _Rule("nat-data", "NAT Gateway", ".*", "Standard Data Processed", _GB),
    _Rule(
        *("address", "Virtual Network", "IP Addresses", "Standard IPv4 Static Public IP", _HOURS)
    ),
    _Rule("bastion:Standard", "Azure Bastion", ".*", "Standard Gateway", _HOURS),
    _Rule(
        *("egress", "Bandwidth", "Rtn Preference: MGN", "Standard Data Transfer Out", _GB),
        tiered=True,
    ),
)
_OWN: Final = "armRegionName eq '{region}'"
_SHARED: Final = f"({_OWN} or armRegionName eq 'Global')"
_DISKS: Final = " or ".join(
    f"productName eq '{name}'"
    for name in ("Standard SSD Managed Disks", "Premium SSD Managed Disks", "General Block Blob v2")
)
_QUERIES: Final = (
    f"{_OWN} and serviceName eq 'Storage' and ({_DISKS})",
    f"{_OWN} and serviceName eq 'Azure NetApp Files'",
    f"{_OWN} and contains(productName, 'Managed Lustre')",
    f"{_SHARED} and (serviceName eq 'NAT Gateway' or serviceName eq 'Azure Bastion')",
    f"{_SHARED} and serviceName eq 'Virtual Network' and productName eq 'IP Addresses'",
    f"{_OWN} and serviceName eq 'Bandwidth' and productName eq 'Rtn Preference: MGN'",
)
# Every item has one; those of disks are too many to name.
ITEMS: Final = (
    *("blob:hot-lrs", "anf:Standard", "anf:Premium", "anf:Ultra"),
    *(f"amlfs:AMLFS-Durable-Premium-{rate}" for rate in (40, 125, 250, 500)),
    *("nat", "nat-data", "address", "bastion:Standard", "egress"),
)


def fetch(
    server: rest.Client,
    region: str,
    day: str,
    tell: Callable[[str], None] = lambda _text: None,
) -> tuple[list[dict[str, str]], Counter[str]]:
    """The service prices of a region as of ``day``, and how many rows were left out by reason.

    Raises:
        TrueupError: no answer, one that is not as documented, or two prices of one item; then
            nothing is taken.
    """
    left_out: Counter[str] = Counter()
    rows: dict[tuple[str, str, float], dict[str, str]] = {}
    for number, condition in enumerate(_QUERIES, 1):
        tell(f"asking {server.NAME} for services in {region}: question {number} of {len(_QUERIES)}")
        query = {"api-version": VERSION, "$filter": condition.format(region=region)}
        documents, _ = server.pages(PATH, query)
        for row in (row for page in documents for row in page_rows(page, server.url)):
            new = _price(row, region, day, source_of(server), left_out)
            if new is None:
                continue
            key = (new["item"], new["region"], float(new["from_units"]))
            if rows.setdefault(key, new)["usd"] != new["usd"]:
                raise TrueupError(
                    f"{server.url} has two prices of {new['item']} in {new['region']}:"
                    f" {rows[key]['usd']} and {new['usd']}; none was taken"
                )
    return [rows[key] for key in sorted(rows)], left_out


def _price(
    row: Mapping[str, Any], region: str, day: str, source: str, left_out: Counter[str]
) -> dict[str, str] | None:
    """The row of service_prices.csv that a row of the API is; None, counted, where it is none."""
    rule, item = next(((rule, item) for rule in _RULES if (item := rule.of(row))), (None, ""))
    if rule is None:
        left_out["services: of another meter"] += 1
        return None
    place = str(row["armRegionName"]).lower()
    free = row["retailPrice"] == 0 and not (rule.tiered and row["tierMinimumUnits"] == 0)
    reasons = {
        f"services: of type {row['type']}": row["type"] != "Consumption",
        f"services: in the unit {row['unitOfMeasure']}": row["unitOfMeasure"] not in rule.units,
        "services: of a volume tier": bool(row["tierMinimumUnits"]) and not rule.tiered,
        "services: with a price of 0, which is unknown and not free": free,
        "services: of another region": place not in (region, _GLOBAL),
        "services: not in force today": not in_force(row, day),
    }
    if reason := next((reason for reason, holds in reasons.items() if holds), ""):
        left_out[reason] += 1
        return None
    figures = (f"{row['tierMinimumUnits']:.10g}", f"{row['retailPrice']:.10g}")
    since = str(row.get("effectiveStartDate") or "")[:10]
    note = f"{row['meterName']}, in force since {since}" if since else row["meterName"]
    cells = (item, place, rule.units[row["unitOfMeasure"]], *figures, day, source, note)
    return dict(zip(METER_COLUMNS, cells, strict=True))


def absent(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """The items without a price; of disks that there is none at all."""
    priced = {row["item"] for row in rows}
    disks = [] if any(item.startswith("disk:") for item in priced) else ["disks"]
    return [*disks, *(item for item in ITEMS if item not in priced)]
