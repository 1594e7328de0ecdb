"""From advice on services and storage to sheets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..figures.advise.answers import named
from .sheet import Column, Sheet, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..figures.advise.access import Storage
    from ..figures.advise.services import Advice, Correction, Statement

_RULES: Final = (
    "Limits and billing are of the sources. Which one fits is trueup's own rule of thumb, not tried"
    " on Azure."
)
_NOTHING: Final = "No rule of thumb speaks of these needs; data and access say how data is reached."


def storage(advised: Storage, *, explain: bool) -> Sheet:
    """The storage services for the machines of an answer."""
    sheet = advice("Storage", advised.found, explain=explain, prices=advised.prices)
    note = f"For {named(advised.choice)}. {advised.local} Its price is not in the US$ above."
    if advised.needs.data_tb is not None and not advised.prices:
        note += " No price of storage is known; give yours (usd_per_tib_month)."
    return replace(sheet, notes=[note, *sheet.notes])


def advice(
    title: str,
    options: Sequence[Advice],
    *,
    explain: bool,
    prices: Mapping[str, float] | None = None,
) -> Sheet:
    """Services that fit, in order, then those that only exceed a limit; with ``explain`` the rest
    and the sources too.

    Args:
        prices: US$ a TiB and month by the name of a level.
    """
    listed = [
        option
        for option in options
        if explain or option.advised or (option.rank and option.refused)
    ]
    rest = len(options) - len(listed)
    return Sheet(
        title=title,
        columns=[
            Column("rank", "rank"),
            Column("name", "name", words=True),
            Column("why", "why (trueup's rule of thumb)", words=True),
            Column("refused", "exceeds", words=True),
            Column("against", "against", words=True),
            Column("effort", "effort", words=True),
            Column("billing", "billed", words=True),
            Column("levels", "level", words=True),
            *(worded("sources") if explain else unshown("sources")),
            *unshown("service", "advised", "manages", "notes", "ended"),
        ],
        rows=[_row(option, prices or {}, explain=explain) for option in listed],
        notes=[
            _RULES,
            *([] if listed else [_NOTHING]),
            *([f"{rest} others: --explain."] * bool(rest)),
        ],
        name=f"advise-{title.lower()}",
        facts={"kind": f"advise_{title.lower()}"},
    )


def _row(option: Advice, prices: Mapping[str, float], *, explain: bool) -> dict[str, Any]:
    levels = [
        f"{each.name}: {each.tib:g} TiB, {each.mb_s:g} MB/s"
        + (f", {each.tib * prices[each.name]:,.2f} US$ a month" if each.name in prices else "")
        + (f" ({each.refused})" * bool(each.refused))
        for each in option.levels
    ]
    return {
        "rank": option.rank if option.advised else None,
        "service": option.service,
        "name": option.name,
        "advised": option.advised,
        "why": option.why,
        "refused": _said(option.refused, explain=True),
        "against": _said(option.against, explain=explain),
        "effort": option.effort,
        "billing": option.billing,
        "levels": "; ".join(levels),
        "manages": ", ".join(option.manages),
        "notes": _said(option.notes, explain=True),
        "ended": _said(option.ended, explain=True),
        "sources": "; ".join(map(str, option.sources)),
    }


def _said(some: Sequence[Statement], *, explain: bool) -> str:
    return "; ".join(
        f"{statement.text} [{statement.source}]" if explain else statement.text
        for statement in some
    )


def corrections(mistakes: Sequence[Correction]) -> Sheet:
    """Wrong statements of articles, corrected."""
    rows = [
        {**msgspec.structs.asdict(mistake), "source": str(mistake.source)} for mistake in mistakes
    ]
    return Sheet(
        title="What articles say that is not so",
        columns=[
            *worded("article", "place", "says", "wrong", "since", "instead"),
            *unshown("source"),
        ],
        rows=rows,
        name="advise-corrections",
        facts={"kind": "advise_corrections"},
    )
