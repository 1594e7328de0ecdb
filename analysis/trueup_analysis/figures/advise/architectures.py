"""Reference architectures of catalog/architectures.yml, with the catalog's prices.

A size that is not to be had any more stands beside the one that is advised in its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta
from trueup_controller.typed import Source, with_sources
from trueup_node.errors import BadInput
from trueup_node.suggest import did_you_mean

from ... import catalog
from .. import azure, lifecycle
from ..prices import LIST_OFFER, region_name
from .services import read_services

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from ..prices import Book, Quote

FILE: Final = "architectures.yml"
# A year's hours over its months.
HOURS_A_MONTH: Final = 8760 / 12
SaidBy = Literal["source", "trueup", ""]


class Role(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """VMs that do one thing.

    Attributes:
        size: as the source or trueup names it; empty where nobody does.
        count: None where nobody says it.
        size_by, count_by: "source" or "trueup"; empty where nobody says it.
        system: linux, windows (Windows Server) or avd (Windows desktops).
    """

    role: str
    size: str = ""
    count: Annotated[int, Meta(ge=1)] | None = None
    size_by: SaidBy = ""
    count_by: SaidBy = ""
    system: Literal["linux", "windows", "avd"] = "linux"
    note: str = ""

    def __post_init__(self) -> None:
        if bool(self.size) != bool(self.size_by) or (self.count is None) != (not self.count_by):
            raise ValueError("size_by and count_by say who names what stands")


class Outdated(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A wrong statement of a source."""

    says: str
    wrong: str
    instead: str


class Architecture(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One row of the catalog.

    Attributes:
        service: of services.yml, which the source uses; empty where it names none.
        recipe: from which ``provision`` makes it; empty where it cannot.
        bills: further resources that are billed, without a price.
        by_hand: parts that ``provision`` does not make; differs: differences of its recipe.
        unsaid: facts that the source does not state.
        outdated: its statements that are wrong (says, wrong, instead).
        sources: with the date on which each was read.
    """

    name: str
    title: str
    region: str
    service: str
    recipe: str
    roles: list[Role]
    bills: list[str]
    by_hand: list[str]
    differs: list[str]
    unsaid: list[str]
    outdated: list[Outdated]
    sources: list[Source]

    def __post_init__(self) -> None:
        if not self.recipe and not self.by_hand:
            raise ValueError("by_hand says why no recipe makes it")


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sources: dict[str, Source]
    architectures: list[Architecture]


class Line(NamedTuple):
    """A role as it is advised.

    Attributes:
        size: the source's, or its successor.
        instead: why it is not the source's size; empty where it is.
        price: of one VM; None where no size or no price is known.
    """

    role: Role
    size: str
    instead: str
    price: Quote | None

    @property
    def usd_per_hour(self) -> float | None:
        """Of all VMs of the role."""
        if self.price is None or self.role.count is None:
            return None
        return self.price.usd_per_hour * self.role.count


@dataclass(frozen=True)
class Priced:
    """An architecture in a region."""

    architecture: Architecture
    region: str
    lines: Sequence[Line] = field(default=())

    @property
    def usd_per_hour(self) -> float:
        """The sum of all known prices: a lower bound, since storage and the rest have none."""
        return sum(line.usd_per_hour or 0.0 for line in self.lines)

    @property
    def unpriced(self) -> list[str]:
        """Roles without a price."""
        return [line.role.role for line in self.lines if line.usd_per_hour is None]

    @property
    def outdated(self) -> list[Outdated]:
        """Wrong statements of the source, its closed sizes first."""
        sizes = {line.role.size: line for line in self.lines if line.instead}
        return [
            *(
                Outdated(says=size, wrong=line.instead, instead=line.size or "nothing is advised")
                for size, line in sizes.items()
            ),
            *self.architecture.outdated,
        ]


def chosen(name: str, architectures: Mapping[str, Architecture]) -> Architecture:
    """The architecture of this name.

    Raises:
        BadInput: there is none.
    """
    if name not in architectures:
        hint = did_you_mean(name, architectures) or f"; there are {', '.join(architectures)}"
        raise BadInput(f"there is no architecture {name!r}{hint}")
    return architectures[name]


def priced(
    architecture: Architecture,
    book: Book,
    sizes: Mapping[str, Mapping[str, str]],
    today: date,
    region: str | None = None,
) -> Priced:
    """The architecture with today's sizes and prices.

    Args:
        sizes: rows of vm_sizes.csv by size.
        region: instead of the architecture's own.

    Raises:
        BadInput: another region was asked for, and one of the sizes has no price there.
    """
    where = region_name(region or architecture.region)
    lines = [_line(role, book, sizes, today, where) for role in architecture.roles]
    lacking = list(dict.fromkeys(line.size for line in lines if line.size and not line.price))
    if region and lacking:
        raise BadInput(
            f"{architecture.name} cannot be priced in {region}: the price table has no price of"
            f" {', '.join(lacking)} there; its own region is {architecture.region}"
        )
    return Priced(architecture, where, lines)


def _line(
    role: Role, book: Book, sizes: Mapping[str, Mapping[str, str]], today: date, region: str
) -> Line:
    if not role.size:
        return Line(role, "", "", None)
    reason, size = lifecycle.advisable(sizes[role.size], today), role.size
    if reason:
        successors = lifecycle.successors(sizes[size], list(sizes.values()), today)
        size = successors[0]["size"] if successors else ""
    price = book.find(size, region, "linux", LIST_OFFER) if size else None
    return Line(role, size, reason, price)


def read(chosen_catalog: Path | None, sizes: Mapping[str, Any]) -> dict[str, Architecture]:
    """The architectures of a catalog by name.

    Raises:
        BadInput: the file cannot be read, or a row of it is not as its head says.
    """
    path = catalog.find(FILE, chosen_catalog)
    rows = with_sources(catalog.document(path), _File, str(path)).architectures
    services = {row.service for row in read_services(chosen_catalog).services}
    recipes = azure.recipes(chosen_catalog)
    for row in rows:
        named = [("size", role.size, sizes) for role in row.roles]
        for kind, name, names in (
            *named,
            ("service", row.service, services),
            ("recipe", row.recipe, recipes),
        ):
            if name and name not in names:
                hint = did_you_mean(name, names)
                raise BadInput(f"{path}: {row.name}: no {kind} {name!r}{hint}")
    return {row.name: row for row in rows}
