"""Checks whether a subscription can take a deployment: core quota, and restrictions of sizes.

Both checks take Azure's answer unchanged; this module sends no request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from trueup_node.errors import TrueupError
from trueup_node.reading import is_count

from .catalog import Catalog, sold_vcpus
from .parameters import Parameters

# Names of usages beside those of families: all cores of a region, and those of spot.
ALL_CORES, SPOT_CORES = "cores", "lowPriorityCores"


@dataclass(frozen=True)
class Need:
    """Cores of one quota: its name in the usages, None where no source says it; how many, and of
    which sizes."""

    name: str | None
    vcpus: int
    sizes: Sequence[str]


class Quota(NamedTuple):
    """A need compared with the subscription's quota.

    Attributes:
        limit, used: of the subscription; None where its answer has no such quota.
        missing: how many cores; None where that cannot be said.
    """

    need: Need
    limit: int | None
    used: int | None
    missing: int | None

    def problem(self) -> str | None:
        """The problem with the quota, in a sentence; None if the quota is enough."""
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


def needs(parameters: Parameters, catalog: Catalog) -> list[Need]:
    """The cores that a deployment takes, by quota. A size with fewer cores than it is sold with
    counts all that it is sold with."""
    nodes = parameters.nodes
    counts = {"nodes.size": nodes.count}
    cores: dict[str | None, int] = {}
    sizes: dict[str | None, list[str]] = {}
    for path, size in parameters.sizes().items():
        vcpus = (sold_vcpus(size) or catalog.sizes[size]["vcpus"]) * counts.get(path, 1)
        spot = path == "nodes.size" and nodes.spot
        names = [SPOT_CORES] if spot else [catalog.quota(size), ALL_CORES]
        for name in names:
            cores[name] = cores.get(name, 0) + vcpus
            sizes.setdefault(name, []).append(size)
    return [Need(name, cores[name], tuple(dict.fromkeys(sizes[name]))) for name in cores]


def held_against(required: Sequence[Need], usages: Sequence[Mapping[str, Any]]) -> list[Quota]:
    """Each need with the subscription's quota.

    Args:
        required: as ``needs`` returns them.
        usages: ``value`` of Microsoft.Compute/locations/REGION/usages.

    Raises:
        TrueupError: a usage that has not the documented members.
    """
    usage_by_name = {}
    for number, usage in enumerate(usages, 1):
        name = usage.get("name") if isinstance(usage, Mapping) else None
        value = name.get("value") if isinstance(name, Mapping) else None
        if not isinstance(value, str) or not all(
            is_count(usage.get(member)) for member in ("limit", "currentValue")
        ):
            raise TrueupError(f"Azure's list of usages: entry {number} is not as documented")
        usage_by_name[_folded(value)] = (usage["limit"], usage["currentValue"])
    quotas = []
    for need in required:
        limit, used = usage_by_name.get(_folded(need.name or ""), (None, None))
        missing = None if limit is None else max(0, need.vcpus - (limit - used))
        quotas.append(Quota(need, limit, used, missing))
    return quotas


def _folded(name: str) -> str:
    """A name without case and blanks, which lists of Azure's write differently."""
    return "".join(name.split()).casefold()


def restrictions(parameters: Parameters, skus: Sequence[Mapping[str, Any]]) -> list[str]:
    """Restrictions on the sizes of a deployment, a sentence each.

    Args:
        parameters: of the deployment.
        skus: ``value`` of Microsoft.Compute/skus, of this region or of all.

    Raises:
        TrueupError: a SKU that has not the documented members.
    """
    problems = []
    for path, size in parameters.sizes().items():
        rows = [sku for sku in skus if _is(sku, size) and _in(sku, parameters.region)]
        if not rows:
            problems.append(f"{size} is not offered in {parameters.region} to this subscription")
        for row in rows:
            problems += _restricted(row, size, parameters)
            problems += _unable(row, size, parameters, node=path == "nodes.size")
    return list(dict.fromkeys(problems))


def _is(row: Mapping[str, Any], size: str) -> bool:
    if not isinstance(row, Mapping) or not isinstance(row.get("name"), str):
        raise TrueupError("Azure's list of SKUs: an entry has no name, as documented")
    kind = str(row.get("resourceType", "")).casefold()
    return kind == "virtualmachines" and row["name"].casefold() == size.casefold()


def _in(row: Mapping[str, Any], region: str) -> bool:
    return region in [str(location).casefold() for location in row.get("locations") or ()]


def _restricted(row: Mapping[str, Any], size: str, parameters: Parameters) -> list[str]:
    problems = []
    offered = [
        str(zone) for info in row.get("locationInfo") or () for zone in info.get("zones") or ()
    ]
    if parameters.zone and parameters.zone not in offered:
        suffix = f"; it is in {', '.join(sorted(offered))}" if offered else ", which has none of it"
        problems.append(f"{size} is not in zone {parameters.zone} of {parameters.region}{suffix}")
    for restriction in row.get("restrictions") or ():
        reason = restriction.get("reasonCode") or "no reason given"
        info = restriction.get("restrictionInfo") or {}
        if restriction.get("type") == "Zone":
            if parameters.zone and parameters.zone in [
                str(zone) for zone in info.get("zones") or ()
            ]:
                problems.append(
                    f"{size} is restricted in zone {parameters.zone} of {parameters.region}"
                    f" ({reason})"
                )
        else:
            problems.append(f"{size} is restricted in {parameters.region} ({reason})")
    return problems


def _unable(row: Mapping[str, Any], size: str, parameters: Parameters, *, node: bool) -> list[str]:
    """Requested features that the size lacks; a capability that is not listed is not judged."""
    able = {
        str(capability.get("name")): str(capability.get("value")).casefold()
        for capability in row.get("capabilities") or ()
    }
    wrong = {
        "cannot start with Trusted Launch": parameters.security == "trusted_launch"
        and able.get("TrustedLaunchDisabled") == "true",
        "is not sold as spot": node
        and parameters.nodes.spot
        and able.get("LowPriorityCapable") == "false",
        "takes no capacity reservation": node
        and bool(parameters.nodes.reservation)
        and able.get("CapacityReservationSupported") == "false",
        # Every adapter of a template has it.
        "has no accelerated networking": able.get("AcceleratedNetworkingEnabled") == "false",
        "takes no Premium SSD": node
        and parameters.nodes.os_disk == "Premium_LRS"
        and able.get("PremiumIO") == "false",
    }
    return [f"{size} {problem}" for problem, holds in wrong.items() if holds]
