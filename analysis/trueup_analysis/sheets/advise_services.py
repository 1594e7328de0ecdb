"""From advice on services and storage to sheets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..figures.advise.answers import named
from .sheet import Column, Sheet, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..figures.advise.access import Storage
    from ..figures.advise.services import Advice, Correction, Said

_RULES: Final = (
    "Limits and billing are of the sources. Which one fits is trueup's own rule of thumb, not tried"
    " on Azure."
)
_NOTHING: Final = "No rule of thumb speaks of these needs; data and access say how data is reached."


def storage(found: Storage, *, explain: bool) -> Sheet:
    """What the machines of an answer may reach their data by."""
    made = advice("Storage", found.found, explain=explain, prices=found.prices)
    here = f"For {named(found.choice)}. {found.local} Its price is not in the US$ above."
    if found.needs.data_tb is not None and not found.prices:
        here += " No price of storage is known; give yours (usd_per_tib_month)."
    return replace(made, notes=[here, *made.notes])


def advice(
    title: str,
    found: Sequence[Advice],
    *,
    explain: bool,
    prices: Mapping[str, float] | None = None,
) -> Sheet:
    """What fits, in order, then what would fit and exceeds a limit; with ``explain`` the rest and
    the sources too.

    Args:
        prices: US$ a TiB and month by the name of a level.
    """
    shown = [one for one in found if explain or one.advised or (one.rank and one.refused)]
    rest = len(found) - len(shown)
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
        rows=[_row(one, prices or {}, explain=explain) for one in shown],
        notes=[
            _RULES,
            *([] if shown else [_NOTHING]),
            *([f"{rest} others: --explain."] * bool(rest)),
        ],
        name=f"advise-{title.lower()}",
        facts={"kind": f"advise_{title.lower()}"},
    )


def _row(one: Advice, prices: Mapping[str, float], *, explain: bool) -> dict[str, Any]:
    levels = [
        f"{each.name}: {each.tib:g} TiB, {each.mb_s:g} MB/s"
        + (f", {each.tib * prices[each.name]:,.2f} US$ a month" if each.name in prices else "")
        + (f" ({each.refused})" * bool(each.refused))
        for each in one.levels
    ]
    return {
        "rank": one.rank if one.advised else None,
        "service": one.service,
        "name": one.name,
        "advised": one.advised,
        "why": one.why,
        "refused": _said(one.refused, explain=True),
        "against": _said(one.against, explain=explain),
        "effort": one.effort,
        "billing": one.billing,
        "levels": "; ".join(levels),
        "manages": ", ".join(one.manages),
        "notes": _said(one.notes, explain=True),
        "ended": _said(one.ended, explain=True),
        "sources": "; ".join(map(str, one.sources)),
    }


def _said(some: Sequence[Said], *, explain: bool) -> str:
    return "; ".join(f"{one.text} [{one.source}]" if explain else one.text for one in some)


def corrections(found: Sequence[Correction]) -> Sheet:
    """What articles say that is not so."""
    rows = [{**vars(one), "source": str(one.source)} for one in found]
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
