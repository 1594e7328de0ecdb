"""VM sizes that are not to be advised, and the successors that Microsoft names."""

from __future__ import annotations

import calendar
from datetime import date
from typing import TYPE_CHECKING, Final

from trueup_node.errors import BadInput
from trueup_node.node.gpu_support import UNDOCUMENTED, lacks_driver

from .sizes import gpu_fraction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Ours: a machine that is gone within a year is no place for new work.
MONTHS: Final = 12
_YEAR: Final = 12


def ended(status: str, today: date) -> bool:
    """Whether a status such as "retired 2025-09-30" or "retires 2027-05-31" is past."""
    end = _end(status)
    return end is not None and end <= today


def advisable(row: Mapping[str, str], today: date, *, months: int = MONTHS) -> str:
    """Why a size of catalog/vm_sizes.csv is not to be advised, with the series that Microsoft names
    in its place; empty where nothing speaks against it.

    It is not advised when it is retired, when it retires within ``months``, when a new
    subscription cannot deploy it, when no page of Microsoft lists it, and when no role installs a
    driver for its GPUs. A size that is
    called old, or extended, stays.

    Raises:
        BadInput: its status or closed_since is no date.
    """
    status, reasons = row.get("status") or "", []
    end = _end(status)
    if end is not None and end <= today:
        reasons.append(f"it retired on {end}")
    elif end is not None and end <= _later(today, months):
        reasons.append(f"it retires on {end}, within {months} months")
    closed = row.get("closed_since") or ""
    if closed and _month(closed) <= today:
        also = f", and it retires on {end}" if end is not None and not reasons else ""
        reasons.append(f"new subscriptions cannot deploy it since {closed}{also}")
    if not reasons:
        return lacks_driver(row) or ("no page of Microsoft lists it" * (status == UNDOCUMENTED))
    named = row["successors"].split(";") if row.get("successors") else []
    return "; ".join([*reasons, _instead(named)])


def successors(
    row: Mapping[str, str], rows: Sequence[Mapping[str, str]], today: date
) -> list[Mapping[str, str]]:
    """The catalog's sizes of the series that Microsoft names in a size's place, which have at least
    its cores, memory and GPUs (a third of a GPU is a third) and may be advised: in Microsoft's
    order of series, then the fewest cores, then the least memory."""
    named, least = (row.get("successors") or "").split(";"), _measures(row)
    candidates = [
        other
        for other in rows
        if other["series"] in named
        and all(has >= needed for has, needed in zip(_measures(other), least, strict=True))
        and not advisable(other, today)
    ]
    return sorted(
        candidates, key=lambda candidate: (named.index(candidate["series"]), *_measures(candidate))
    )


def _measures(row: Mapping[str, str]) -> tuple[float, float, float]:
    """Cores, GiB of memory and GPUs; 0 where the catalog says nothing."""
    cores, memory, gpus = (float(row[name] or 0) for name in ("vcpus", "memory_gib", "gpus"))
    return cores, memory, gpus * gpu_fraction(row)


def _end(status: str) -> date | None:
    verb, _, day = status.partition(" ")
    if verb not in ("retired", "retires"):
        return None
    try:
        return date.fromisoformat(day)
    except ValueError as error:
        raise BadInput(f"vm_sizes.csv: status {status!r} has no date such as 2027-05-31") from error


def _month(text: str) -> date:
    try:
        return date.fromisoformat(f"{text}-01")
    except ValueError as error:
        raise BadInput(f"vm_sizes.csv: closed_since {text!r} is no month") from error


def _later(today: date, months: int) -> date:
    """The same day some months later, the month's last where it has no such day."""
    year, month = divmod(today.year * _YEAR + today.month - 1 + months, _YEAR)
    return date(year, month + 1, min(today.day, calendar.monthrange(year, month + 1)[1]))


def _instead(names: Sequence[str]) -> str:
    if not names:
        return "no source names a successor"
    *earlier, last = names
    return f"Microsoft names {', '.join(earlier)}{' or ' if earlier else ''}{last} instead"
