"""From reference architectures to sheets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from .. import units
from ..figures.advise.architectures import HOURS_A_MONTH
from .sheet import Column, Sheet, price, short_size, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..figures.advise.architectures import Line, Priced

_MONTH: Final = f"A month has {HOURS_A_MONTH:g} hours, and every VM runs in all of them."
_LEAST: Final = (
    "At least: the catalog has prices of VMs alone, pay as you go. Storage, disks, network and"
    " licences bill too."
)
_COSTS: Final = [Column("usd_per_hour", "US$/h\nat least", price)]


def overview(architectures: Sequence[Priced]) -> Sheet:
    """All architectures, one row each."""
    rows = [
        {
            "name": priced.architecture.name,
            "title": priced.architecture.title,
            "machines": "; ".join(_machines(line) for line in priced.lines if line.size),
            **_usd(priced.usd_per_hour),
            "region": priced.region,
            "recipe": priced.architecture.recipe or "none",
            "unsaid": len(priced.architecture.unsaid),
            "sources": "; ".join(map(str, priced.architecture.sources)),
        }
        for priced in architectures
    ]
    return Sheet(
        title="Reference architectures",
        columns=[
            *worded("name", "title", "machines"),
            *_COSTS,
            Column("usd_per_month", "US$/month\nat least", units.money),
            *worded("region", "recipe"),
            *unshown("unsaid", "sources"),
        ],
        rows=rows,
        notes=[
            _LEAST,
            _MONTH,
            "recipe: for `trueup azure plan RECIPE` and provision; none: provision cannot make it.",
            "trueup advise architecture NAME says more, also what its source does not say.",
        ],
        name="advise-architectures",
        facts={"kind": "advise_architectures", "currency": "USD", "hours_a_month": HOURS_A_MONTH},
    )


def architecture(priced: Priced) -> list[Sheet]:
    """One architecture: its roles with prices, then all that is to be known beside them."""
    sheets = [_roles(priced), _known(priced)]
    outdated = priced.outdated
    if outdated:
        sheets.append(
            Sheet(
                title="What the source says that is not so",
                columns=worded("says", "wrong", "instead"),
                rows=[msgspec.structs.asdict(text) for text in outdated],
                name="advise-architecture-outdated",
                facts={"kind": "advise_architecture_outdated"},
            )
        )
    return sheets


def _roles(priced: Priced) -> Sheet:
    reference = priced.architecture
    rows = [_row(line) for line in priced.lines]
    least = f"{price(priced.usd_per_hour)} US$ an hour"
    month = f"{price(priced.usd_per_hour * HOURS_A_MONTH)} US$ a month"
    notes = [f"Total: at least {least}, {month}, in {priced.region}.", _LEAST, _MONTH]
    if priced.unpriced:
        notes.append(f"No price: {', '.join(priced.unpriced)}.")
    if any(line.role.system == "windows" and line.price for line in priced.lines):
        notes.append(
            "Windows Server: the price is that of Linux; the licence bills beside it, unless one's"
            " own is brought."
        )
    if reference.recipe:
        notes.append(f"Recipe: {reference.recipe} (trueup azure plan {reference.recipe}).")
    else:
        notes.append("Recipe: none; provision cannot make it.")
    if reference.service:
        notes.append(f"The source uses {reference.service} (docs/guides/advise_services.md).")
    notes += [
        f"Price: {source}, as of {dated}."
        for source, dated in dict.fromkeys(
            (line.price.source, line.price.dated) for line in priced.lines if line.price
        )
    ]
    return Sheet(
        title=reference.title,
        columns=[
            *worded("role"),
            Column("size", "size", short_size, words=True),
            Column("count", "count", units.count),
            Column("usd_each", "US$/h\neach", price),
            Column("usd_per_hour", "US$/h", price),
            Column("usd_per_month", "US$/month", price),
            Column("said_by", "size, count\nnamed by", words=True),
            Column("source_size", "source's\nsize", short_size, words=True),
            *worded("note"),
            *unshown("system", "size_by", "count_by", "price_date", "price_age", "price_source"),
        ],
        rows=rows,
        notes=notes,
        name="advise-architecture",
        facts={
            "kind": "advise_architecture",
            "name": reference.name,
            "region": priced.region,
            "recipe": reference.recipe,
            "service": reference.service,
            "currency": "USD",
            "hours_a_month": HOURS_A_MONTH,
            "usd_per_hour": priced.usd_per_hour,
            "unpriced": priced.unpriced,
        },
    )


def _row(line: Line) -> dict[str, Any]:
    role = line.role
    of_size = "Microsoft's successor" if line.instead and line.size else role.size_by
    named_by = dict.fromkeys(by or "nobody" for by in (of_size, role.count_by))
    return {
        "role": role.role,
        "size": line.size,
        "count": role.count,
        "usd_each": line.price.usd_per_hour if line.price else None,
        **_usd(line.usd_per_hour),
        "said_by": ", ".join(named_by),
        "source_size": role.size if line.instead else "",
        "note": role.note,
        "system": role.system,
        "size_by": role.size_by,
        "count_by": role.count_by,
        "price_date": line.price.date if line.price else "",
        "price_age": line.price.age if line.price else "",
        "price_source": line.price.source if line.price else "",
    }


def _known(priced: Priced) -> Sheet:
    reference = priced.architecture
    texts_by_topic = (
        ("the source does not say", reference.unsaid),
        ("provision does not make", reference.by_hand),
        ("the recipe differs", reference.differs),
        ("bills, and has no price here", [", ".join(reference.bills)]),
        ("source", [str(source) for source in reference.sources]),
    )
    return Sheet(
        title="What is to be known",
        columns=worded("about", "what"),
        rows=[{"about": about, "what": text} for about, texts in texts_by_topic for text in texts],
        name="advise-architecture-notes",
        facts={"kind": "advise_architecture_notes"},
    )


def _usd(per_hour: float | None) -> dict[str, float | None]:
    """An hour's price, and a month's."""
    month = None if per_hour is None else per_hour * HOURS_A_MONTH
    return {"usd_per_hour": per_hour, "usd_per_month": month}


def _machines(line: Line) -> str:
    count = "" if line.role.count is None else f"{line.role.count} x "
    return f"{count}{short_size(line.size)}"
