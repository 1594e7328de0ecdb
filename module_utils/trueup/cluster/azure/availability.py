"""Whether a subscription may have a deployment: quota of cores, and what is restricted where.

Both take an answer of Azure's as it came; nothing is asked in here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ...errors import TrueupError
from ...reading import is_count
from .catalog import Catalog, sold_vcpus
from .parameters import Parameters

# Names of usages beside those of families: all cores of a region, and those of spot.
ALL_CORES, SPOT_CORES = "cores", "lowPriorityCores"


@dataclass(frozen=True)
class Need:
    """Cores of one quota: its name in the usages, None where no source says it; how many, and of
    which sizes."""

    name: Optional[str]
    vcpus: int
    sizes: Sequence[str]


class Quota(NamedTuple):
    """A need held against what the subscription has.

    Attributes:
        limit, used: of the subscription; None where its answer has no such quota.
        missing: how many cores; None where that cannot be said.
    """

    need: Need
    limit: Optional[int]
    used: Optional[int]
    missing: Optional[int]

    def problem(self) -> Optional[str]:
        """What stands against it, in a sentence; None where it is enough."""
        sizes, vcpus = ", ".join(self.need.sizes), self.need.vcpus
        if self.need.name is None:
            return f"the quota of {sizes} ({vcpus} vCPUs) is not known by name, and was not checked"
        if self.limit is None or self.used is None:
            return f"the subscription's answer has no quota {self.need.name!r} ({sizes})"
        if not self.missing:
            return None
        return (
            f"{self.missing} vCPUs of quota {self.need.name!r} are missing: {vcpus} are needed for"
            f" {sizes}, {self.limit - self.used} of {self.limit} are free"
        )


def needs(made: Parameters, catalog: Catalog) -> List[Need]:
    """The cores that a deployment takes, by quota. A size with fewer cores than it is sold with
    counts all that it is sold with."""
    nodes = made.nodes
    counts = {"nodes.size": nodes.count}
    cores: Dict[Optional[str], int] = {}
    sizes: Dict[Optional[str], List[str]] = {}
    for place, size in made.sizes().items():
        vcpus = (sold_vcpus(size) or catalog.sizes[size]["vcpus"]) * counts.get(place, 1)
        spot = place == "nodes.size" and nodes.spot
        names = [SPOT_CORES] if spot else [catalog.quota(size), ALL_CORES]
        for name in names:
            cores[name] = cores.get(name, 0) + vcpus
            sizes.setdefault(name, []).append(size)
    return [Need(name, cores[name], tuple(dict.fromkeys(sizes[name]))) for name in cores]


def held_against(wanted: Sequence[Need], usages: Sequence[Mapping[str, Any]]) -> List[Quota]:
    """Each need with what the subscription has of it.

    Args:
        wanted: as ``needs`` returns them.
        usages: ``value`` of Microsoft.Compute/locations/REGION/usages.

    Raises:
        TrueupError: a usage that has not the documented members.
    """
    known = {}
    for number, one in enumerate(usages, 1):
        name = one.get("name") if isinstance(one, Mapping) else None
        value = name.get("value") if isinstance(name, Mapping) else None
        if not isinstance(value, str) or not all(
            is_count(one.get(member)) for member in ("limit", "currentValue")
        ):
            raise TrueupError(f"Azure's list of usages: entry {number} is not as documented")
        known[_folded(value)] = (one["limit"], one["currentValue"])
    found = []
    for need in wanted:
        limit, used = known.get(_folded(need.name or ""), (None, None))
        missing = None if limit is None else max(0, need.vcpus - (limit - used))
        found.append(Quota(need, limit, used, missing))
    return found


def _folded(name: str) -> str:
    """A name without case and blanks, which lists of Azure's write differently."""
    return "".join(name.split()).casefold()


def restrictions(made: Parameters, skus: Sequence[Mapping[str, Any]]) -> List[str]:
    """What stands against the sizes of a deployment, a sentence each.

    Args:
        made: what is deployed.
        skus: ``value`` of Microsoft.Compute/skus, of this region or of all.

    Raises:
        TrueupError: a SKU that has not the documented members.
    """
    found = []
    for place, size in made.sizes().items():
        rows = [one for one in skus if _is(one, size) and _in(one, made.region)]
        if not rows:
            found.append(f"{size} is not offered in {made.region} to this subscription")
        for row in rows:
            found += _restricted(row, size, made)
            found += _unable(row, size, made, node=place == "nodes.size")
    return list(dict.fromkeys(found))


def _is(row: Mapping[str, Any], size: str) -> bool:
    if not isinstance(row, Mapping) or not isinstance(row.get("name"), str):
        raise TrueupError("Azure's list of SKUs: an entry has no name, as documented")
    kind = str(row.get("resourceType", "")).casefold()
    return kind == "virtualmachines" and row["name"].casefold() == size.casefold()


def _in(row: Mapping[str, Any], region: str) -> bool:
    return region in [str(one).casefold() for one in row.get("locations") or ()]


def _restricted(row: Mapping[str, Any], size: str, made: Parameters) -> List[str]:
    found = []
    offered = [
        str(zone) for info in row.get("locationInfo") or () for zone in info.get("zones") or ()
    ]
    if made.zone and made.zone not in offered:
        there = f"; it is in {', '.join(sorted(offered))}" if offered else ", which has none of it"
        found.append(f"{size} is not in zone {made.zone} of {made.region}{there}")
    for one in row.get("restrictions") or ():
        why = one.get("reasonCode") or "no reason given"
        info = one.get("restrictionInfo") or {}
        if one.get("type") == "Zone":
            if made.zone and made.zone in [str(zone) for zone in info.get("zones") or ()]:
                found.append(f"{size} is restricted in zone {made.zone} of {made.region} ({why})")
        else:
            found.append(f"{size} is restricted in {made.region} ({why})")
    return found


def _unable(row: Mapping[str, Any], size: str, made: Parameters, *, node: bool) -> List[str]:
    """What the size cannot do of what is asked of it; a capability that is not listed says
    nothing."""
    able = {
        str(one.get("name")): str(one.get("value")).casefold()
        for one in row.get("capabilities") or ()
    }
    wrong = {
        "cannot start with Trusted Launch": made.security == "trusted_launch"
        and able.get("TrustedLaunchDisabled") == "true",
        "is not sold as spot": node
        and made.nodes.spot
        and able.get("LowPriorityCapable") == "false",
        "takes no capacity reservation": node
        and bool(made.nodes.reservation)
        and able.get("CapacityReservationSupported") == "false",
        # Every adapter of a template has it.
        "has no accelerated networking": able.get("AcceleratedNetworkingEnabled") == "false",
        "takes no Premium SSD": node
        and made.nodes.os_disk == "Premium_LRS"
        and able.get("PremiumIO") == "false",
    }
    return [f"{size} {what}" for what, holds in wrong.items() if holds]
