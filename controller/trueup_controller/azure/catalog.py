"""The catalog's data on Azure for a deployment: sizes, images, quota names, regions.

No YAML, files or network in here: the caller passes the parsed documents (catalog/azure.yml).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from trueup_node.errors import BadInput
from trueup_node.suggest import nearest

from ..typed import typed

_EARTH_KM = 6371.0
_SIZE = re.compile(r"Standard_[A-Z]+(\d+)(?:-\d+)?([a-z]*)", re.IGNORECASE)


class _Image(msgspec.Struct):
    image: str
    families: list[str]


class _Quota(msgspec.Struct):
    families: dict[str, str]
    sizes: dict[str, str]


class _Facts(msgspec.Struct):
    """catalog/azure.yml, whose head describes the members."""

    api_versions: dict[str, str]
    images: list[_Image]
    windows_images: list[_Image]
    quota: _Quota
    no_trusted_launch: list[str]
    secure_boot_off: list[str]
    vtpm_off: list[str]
    regions: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Catalog:
    """The catalog's data.

    Attributes:
        sizes: the rows of vm_sizes.csv by size, as ``trueup_controller.sizes`` reads them.
        facts: catalog/azure.yml.
        sold: by size in lower case, the regions that have a list price of it.
        builds: of Python that runs anywhere (catalog/python.yml): by architecture ``url`` and
            ``sha256``.
    """

    sizes: Mapping[str, Mapping[str, Any]]
    facts: Mapping[str, Any]
    sold: Mapping[str, frozenset[str]]
    builds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        typed(self.facts, _Facts, "catalog azure.yml")

    def size(self, name: str) -> str | None:
        """A size as Azure writes it; None where the catalog has none such."""
        lower = {size.lower(): size for size in self.sizes}
        return lower.get(name.lower())

    def near_size(self, name: str) -> str | None:
        """The size that may have been meant."""
        return nearest(name, self.sizes)

    def family(self, size: str) -> str:
        """Its family; empty where the size is not known."""
        return str(self.sizes.get(size, {}).get("family", ""))

    def image(self, size: str, of: str = "images") -> str | None:
        """The pinned image of a size's family; ``of`` is ``windows_images`` for Windows."""
        rows = (row for row in self.facts[of] if self.family(size) in row["families"])
        return next((str(row["image"]) for row in rows), None)

    def quota(self, size: str) -> str | None:
        """The name under which Azure counts a size's cores; None where no source says it."""
        quota = self.facts["quota"]
        name = quota["sizes"].get(size) or quota["families"].get(self.family(size))
        return None if name is None else str(name)

    def api_version(self, kind: str) -> str:
        """The pinned version of a type of resource.

        Raises:
            BadInput: none is.
        """
        try:
            return str(self.facts["api_versions"][kind])
        except KeyError:
            raise BadInput(f"catalog azure.yml: api_versions has no {kind}") from None

    def priced_regions(self) -> frozenset[str]:
        """Every region with a list price of some size."""
        return frozenset(region for regions in self.sold.values() for region in regions)

    def others(
        self, sizes: Sequence[str], region: str
    ) -> tuple[list[tuple[str, float]], list[str]]:
        """The other regions that have all of these sizes: regions with known coordinates and their
        distance in km, the nearest first; and the names of the rest."""
        every = [self.sold.get(size.lower(), frozenset()) for size in sizes]
        have = sorted(frozenset.intersection(*every) - {region}) if every else []
        origin = self.facts["regions"].get(region)
        located = [candidate for candidate in have if origin and candidate in self.facts["regions"]]
        far = [(candidate, _km(origin, self.facts["regions"][candidate])) for candidate in located]
        return sorted(far, key=lambda pair: pair[1]), [
            candidate for candidate in have if candidate not in located
        ]


def sold_vcpus(size: str) -> int | None:
    """The vCPUs that a size is sold with, which its name says first: 120 of HB120-16rs_v3."""
    match = _SIZE.match(size)
    return int(match[1]) if match else None


def takes_premium(size: str) -> bool:
    """Whether a size takes Premium SSDs: an s among the small letters after its vCPUs.

    Source: MicrosoftDocs/azure-compute-docs articles/virtual-machines/vm-naming-conventions.md.
    """
    match = _SIZE.match(size)
    return match is not None and "s" in match[2].lower()


def _km(first: Sequence[float], other: Sequence[float]) -> float:
    """The way over the ground between two places in degrees."""
    (north, east), (north2, east2) = (map(math.radians, point) for point in (first, other))
    haversine = (
        math.sin((north2 - north) / 2) ** 2
        + math.cos(north) * math.cos(north2) * math.sin((east2 - east) / 2) ** 2
    )
    return 2 * _EARTH_KM * math.asin(math.sqrt(haversine))
