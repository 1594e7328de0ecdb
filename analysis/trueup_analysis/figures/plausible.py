"""Figures that could not be verified, against the least that a VM size must reach.

That is no verdict: a fragment does not say enough of its case. It says whether the figures are of
the size's order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trueup_node.quantity import Quantity

from .. import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup_node.cases import Figure
    from trueup_node.health.expectations import Expectation, Expectations

    from ..read import Reading

_SILENT: Final = (None, "", "unknown", "none")
# A rate of messages this much smaller than the judged ones still tells the order of the size's.
_SMALLEST: Final = 64
# Beyond this share of a limit the figures are of another order.
_OFF: Final = 2.0


def against_sizes(reading: Reading, sizes: Sequence[str], expectations: Expectations) -> str | None:
    """A sentence on the best figure of a reading beside the mildest limit that may hold for it on
    any of some sizes; None where no limit may."""
    candidates = [
        (size, item, row)
        for size in sizes
        for item in expectations.of(size, reading.tool)
        if _may_hold(item, reading) and (row := _best(item, reading)) is not None
    ]
    # Limits of exactly such a case say more than those that hold for some.
    candidates = [each for each in candidates if _holds(each[1], reading)] or candidates
    if not candidates:
        return None
    size, item, row = min(candidates, key=lambda each: _lack(each[1], each[2]))
    unit = item.expected.unit
    at_size = "" if row.message_bytes is None else f" at {units.size_of(row.message_bytes)}"
    measured = f"{_text(row.value, item)} {unit}{at_size}"
    limit = f"the {item.expected.value:g} {unit} that {size} must reach"
    if item.message_bytes not in (None, row.message_bytes):
        limit += f" at {units.size_of(item.message_bytes or 0)}"
    lack = _lack(item, row)
    if lack <= 1:
        return f"{measured} {'is within' if item.comparison == 'at_most' else 'reaches'} {limit}"
    side = "above" if item.comparison == "at_most" else "below"
    factor = f"{lack:.0f} times" if lack >= _OFF else f"{1 - 1 / lack:.0%}"
    return f"{measured} is {factor.replace('%', ' %')} {side} {limit}"


def _may_hold(item: Expectation, reading: Reading) -> bool:
    """Whether nothing that the reading says excludes an expectation."""
    counts = reading.resources
    if item.comparison == "exactly" or not (item.expected.base > 0):
        return False
    for name, allowed in item.parameters.items():
        value = reading.parameters.get(name)
        if value not in _SILENT and value not in (*allowed, *item.unsure.get(name, ())):
            return False
    return counts.get("nodes") is None or item.fits(counts["nodes"])


def _holds(item: Expectation, reading: Reading) -> bool:
    """Whether an expectation allows all parameters that the reading has."""
    return all(
        name not in reading.parameters or reading.parameters[name] in allowed
        for name, allowed in item.parameters.items()
    )


def _best(item: Expectation, reading: Reading) -> Figure | None:
    """The row at the judged message size, else the best one of nearly such messages."""
    rows = [
        row
        for row in reading.figures
        if (row.name, row.unit) == (item.metric, item.expected.base_unit) and row.value > 0
    ]
    if item.message_bytes is not None:
        at_size = [row for row in rows if row.message_bytes == item.message_bytes]
        least = item.message_bytes / _SMALLEST
        rows = at_size or [row for row in rows if (row.message_bytes or 0) >= least]
    return min(rows, key=lambda row: _lack(item, row), default=None)


def _lack(item: Expectation, row: Figure) -> float:
    """By which factor a figure misses the limit; below 1 it meets it."""
    ratio = float(item.expected.base / row.value)
    return 1 / ratio if item.comparison == "at_most" else ratio


def _text(value: float, item: Expectation) -> str:
    return units.measure(Quantity(value, item.expected.base_unit).to(item.expected.unit).value)
