"""What the emulated subscription may have: sizes by region, their quota, and what is restricted.

Sizes and quota's names are those of the catalog; zones, limits and capabilities are made up, and
the same for each region. What a machine takes is counted from the resources that are there.
"""

from __future__ import annotations

import csv
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from . import windows
from .replies import SUBSCRIPTION, Refused
from .resources import at, squeezed

if TYPE_CHECKING:
    from .cloud import Cloud
    from .resources import Document

CATALOG = Path(__file__).resolve().parents[3] / "catalog"
ZONES = ("1", "2", "3")
# Vcpus of each quota, unless cloud.limits says otherwise.
LIMIT = 4800
CORES, SPOT = "cores", "lowPriorityCores"
_SOLD = re.compile(r"Standard_[A-Z]+(\d+)(-\d+)?([a-z]*)")
# publisher, offer: the skus that a source names (facts of the HPC images, 2026-07).
IMAGES = {
    ("microsoft-dsvm", "ubuntu-hpc"): ("2404", "2204", "2204-v100", "2404-rocm", "2204-rocm"),
    ("almalinux", "almalinux-hpc"): ("9-hpc-gen2", "8_10-hpc-gen2", "8_10-hpc-v100-gen2"),
    ("azure-hpc", "azurelinux-hpc"): ("3", "3-fips", "3-v100", "3-v100-fips"),
    # Multi-session Windows.
    ("microsoftwindowsdesktop", "windows-11"): ("win11-24h2-avd", "win11-25h2-avd"),
    ("microsoftwindowsdesktop", "office-365"): ("win11-25h2-avd-m365",),
}


@functools.lru_cache(maxsize=1)
def facts() -> Document:
    return dict(yaml.safe_load((CATALOG / "azure.yml").read_text(encoding="utf-8")))


@functools.lru_cache(maxsize=1)
def sizes() -> dict[str, Document]:
    """By name in lower case: name, vcpus (as sold), family of quota, capabilities."""
    quota = facts()["quota"]
    found = {}
    with (CATALOG / "vm_sizes.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name = row["size"]
            sold = _SOLD.match(name)
            if not sold:
                continue
            family = quota["sizes"].get(name) or quota["families"].get(row["family"])
            able = {
                "vCPUs": sold[1],
                "vCPUsAvailable": row["vcpus"],
                "MemoryGB": row["memory_gib"],
                "RdmaEnabled": str(bool(row["rdma_nics"] and int(row["rdma_nics"]))),
                "AcceleratedNetworkingEnabled": "True",
                "LowPriorityCapable": "True",
                "PremiumIO": str("s" in sold[3]),
                "HyperVGenerations": "V2",
                "TrustedLaunchDisabled": str(name in facts()["no_trusted_launch"]),
            }
            if row["gpus"] not in ("", "0"):
                able["GPUs"] = row["gpus"]
            found[name.lower()] = {
                "name": name,
                "vcpus": int(sold[1]),
                "family": family or f"standard{row['series'].replace(' ', '')}Family",
                "capabilities": able,
                "retired": row["status"] == "retired",
            }
    return found


@functools.lru_cache(maxsize=1)
def quotes() -> dict[tuple[str, str, str, str], dict[str, str]]:
    """The catalog's newest row by size in lower case, region, system and offer."""
    with (CATALOG / "prices.csv").open(encoding="utf-8", newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["as_of_date"])
    return {(row["size"].lower(), row["region"], row["os"], row["offer"]): row for row in rows}


def price(size: str, location: str, *, spot: bool) -> float | None:
    """US$ an hour of a VM on Linux; None where the catalog has none."""
    row = quotes().get((size.lower(), location, "linux", "spot" if spot else "payg"))
    return float(row["usd_per_hour"]) if row else None


def locations() -> list[Document]:
    return [
        {
            "id": f"/subscriptions/{SUBSCRIPTION}/locations/{name}",
            "name": name,
            "displayName": name,
            "regionalDisplayName": name,
            "type": "Region",
            "metadata": {
                "regionType": "Physical",
                "latitude": str(place[0]),
                "longitude": str(place[1]),
            },
        }
        for name, place in facts()["regions"].items()
    ]


def restriction(cloud: Cloud, location: str, size: str) -> list[Document]:
    """As the list of SKUs has them; ``cloud.restricted`` holds (size, location, zone or none)."""
    found = []
    for one, where, zone in cloud.restricted:
        if one.lower() == size.lower() and where == location:
            info: Document = {"locations": [location]}
            if zone:
                info["zones"] = [zone]
            found.append(
                {
                    "type": "Zone" if zone else "Location",
                    "reasonCode": "NotAvailableForSubscription",
                    "values": [location],
                    "restrictionInfo": info,
                }
            )
    return found


def skus(cloud: Cloud, location: str) -> list[Document]:
    return [
        {
            "resourceType": "virtualMachines",
            "name": one["name"],
            "tier": "Standard",
            "size": one["name"].removeprefix("Standard_"),
            "family": one["family"],
            "locations": [where],
            "locationInfo": [{"location": where, "zones": list(ZONES), "zoneDetails": []}],
            "capabilities": [{"name": k, "value": v} for k, v in one["capabilities"].items()],
            "restrictions": restriction(cloud, where, one["name"]),
        }
        for where in ([location] if location else list(facts()["regions"]))
        for one in sizes().values()
        if not one["retired"]
    ]


def folded(name: str) -> str:
    return "".join(name.split()).lower()


def needs(size: str, count: int, *, spot: bool) -> dict[str, int]:
    """Vcpus by quota."""
    one = sizes()[size.lower()]
    names = [SPOT] if spot else [one["family"], CORES]
    return dict.fromkeys(names, one["vcpus"] * count)


def demand(kind: str, body: Document) -> tuple[str, str, int, bool] | None:
    """Location, size, count and whether spot, of what a resource takes; None of what is no
    machine. Members of a flexible set are machines themselves."""
    where = squeezed(str(body.get("location", "")))
    if kind.lower() == "microsoft.compute/virtualmachines":
        size = str(at(body, "properties", "hardwareProfile", "vmSize") or "")
        return where, size, 1, at(body, "properties", "priority") in ("Spot", "Low")
    if kind.lower() == "microsoft.compute/virtualmachinescalesets":
        size, count = str(at(body, "sku", "name") or ""), at(body, "sku", "capacity") or 0
        spot = at(body, "properties", "virtualMachineProfile", "priority") in ("Spot", "Low")
        return where, size, int(count), spot
    return None


def used(cloud: Cloud, location: str) -> dict[str, int]:
    """Vcpus that are taken, by folded name of quota."""
    found: dict[str, int] = {}
    for one in cloud.resources.values():
        asked = demand(one.kind, one.body)
        if (
            not asked
            or asked[0] != location
            or at(one.body, "properties", "orchestrationMode") == ("Flexible")
        ):
            continue
        for name, vcpus in needs(asked[1], asked[2], spot=asked[3]).items():
            found[folded(name)] = found.get(folded(name), 0) + vcpus
    return found


def limit(cloud: Cloud, location: str, name: str) -> int:
    for where in (location, ""):
        found = cloud.limits.get((where, folded(name)))
        if found is not None:
            return found
    return LIMIT


def usages(cloud: Cloud, location: str) -> list[Document]:
    taken = used(cloud, location)
    names = [CORES, SPOT, *dict.fromkeys(one["family"] for one in sizes().values())]
    return [
        {
            "unit": "Count",
            "currentValue": taken.get(folded(name), 0),
            "limit": limit(cloud, location, name),
            "name": {"value": name, "localizedValue": name},
        }
        for name in names
    ]


def refuse_size(cloud: Cloud, location: str, size: str, zone: str) -> None:
    """Refuse a size that a region or zone does not have, or not for this subscription."""
    known = sizes().get(size.lower())
    where = f"location '{location}'" + (f" zone '{zone}'" if zone else "")
    if location not in facts()["regions"]:
        said = f"The provided location '{location}' is not available for resource type."
        raise Refused(400, "LocationNotAvailableForResourceType", said)
    if not known:
        said = f"The value {size} provided for the VM size is not valid."
        raise Refused(400, "InvalidParameter", said, target="vmSize")
    stands = restriction(cloud, location, size)
    if (
        known["retired"]
        or (zone and zone not in ZONES)
        or any(
            one["type"] == "Location" or zone in one["restrictionInfo"]["zones"] for one in stands
        )
    ):
        said = f"The requested size for resource is currently not available in {where} zones ''"
        raise Refused(
            409,
            "SkuNotAvailable",
            f"{said} for subscription '{SUBSCRIPTION}': {known['name']}. Please try another size or"
            " deploy to a different location or zones.",
        )


def refuse_quota(cloud: Cloud, wanted: list[tuple[str, str, int, bool]]) -> None:
    """Refuse what goes beyond a quota, all of it together: (location, size, count, spot)."""
    more: dict[tuple[str, str], int] = {}
    for location, size, count, spot in wanted:
        for name, vcpus in needs(size, count, spot=spot).items():
            more[location, name] = more.get((location, name), 0) + vcpus
    for (location, name), vcpus in more.items():
        now, most = used(cloud, location).get(folded(name), 0), limit(cloud, location, name)
        if vcpus and now + vcpus > most:
            raise Refused(
                409,
                "QuotaExceeded",
                f"Operation could not be completed as it results in exceeding approved {name} Cores"
                f" quota. Additional details - Deployment Model: Resource Manager, Location:"
                f" {location}, Current Limit: {most}, Current Usage: {now}, Additional Required:"
                f" {vcpus}, (Minimum) New Limit Required: {now + vcpus}.",
            )


def refuse_image(image: Any) -> None:
    """Refuse an image that no source names, or that has no version."""
    words = {name: str((image or {}).get(name, "")) for name in ("publisher", "offer", "sku")}
    version = str((image or {}).get("version", ""))
    known = IMAGES.get((words["publisher"].lower(), words["offer"].lower()), ())
    if words["sku"] not in known or not (version == "latest" or re.fullmatch(r"[\d.]+", version)):
        said = ":".join([*words.values(), version])
        raise Refused(
            404,
            "PlatformImageNotFound",
            f"The platform image '{said}' is not available. Verify that all fields in the storage"
            " profile are correct.",
        )


def refuse_profile(cloud: Cloud, size: str, profile: Document) -> None:
    """Refuse what a VM, or a set's profile, asks of a size that it cannot do."""
    able = sizes()[size.lower()]["capabilities"]
    if cloud.launched and "securityProfile" not in profile:
        profile["securityProfile"] = {
            "securityType": "TrustedLaunch",
            "uefiSettings": {"secureBootEnabled": True, "vTpmEnabled": True},
        }
    kind = at(profile, "securityProfile", "securityType")
    if kind == "Standard" and not cloud.standard_security:
        raise Refused(
            400,
            "BadRequest",
            "The value 'Standard' is not available for property 'securityType' until the feature"
            " 'Microsoft.Compute/UseStandardSecurityType' is registered with the subscription.",
        )
    if kind == "TrustedLaunch" and able["TrustedLaunchDisabled"] == "True":
        said = f"The VM size '{size}' is not supported with security type 'TrustedLaunch'."
        raise Refused(400, "BadRequest", said)
    storage = profile.get("storageProfile") or {}
    for disk in (storage.get("osDisk") or {}, *(storage.get("dataDisks") or ())):
        sort = at(disk, "managedDisk", "storageAccountType") or ""
        if sort.startswith("Premium") and able["PremiumIO"] != "True":
            said = f"VM size {size} does not support the storage account type {sort} of disk."
            raise Refused(
                400, "InvalidParameter", f"Requested operation cannot be performed: {said}"
            )
    refuse_image(storage.get("imageReference"))
    windows.refuse(profile)
    spot = profile.get("priority") in ("Spot", "Low")
    if not spot and (profile.get("evictionPolicy") or profile.get("billingProfile")):
        said = "Eviction policy and max price can be set on VMs of priority Spot only."
        raise Refused(400, "OperationNotAllowed", said)
    if spot and profile.get("capacityReservation"):
        said = "Spot VMs cannot use a capacity reservation."
        raise Refused(400, "OperationNotAllowed", said)
