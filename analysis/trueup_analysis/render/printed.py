"""Figures as the report prints them: rounded as in ``units``, an unknown one as "unknown"."""

from __future__ import annotations

import math
from typing import Any, Final

from . import units

__all__ = ["UNKNOWN", "count", "measure", "money", "percent", "plural", "scaled", "seconds", "span"]

UNKNOWN: Final = "unknown"
# How many of a record's base unit make one of the unit that is printed: GB/s, GFLOP/s, GPts/s.
_SCALE: Final = {"byte/s": 1e9, "flop/s": 1e9, "point/s": 1e9}


def scaled(value: float, unit: str) -> float:
    """A figure in base units as the number that is printed, before rounding."""
    return value / _SCALE.get(unit, 1.0)


def measure(value: float | None, unit: str = "1") -> str:
    """Two decimals from 10 on, else four significant digits; in GB/s, GFLOP/s and GPts/s, whose
    names are not added.
    """
    if value is None or math.isnan(value):
        return UNKNOWN
    return units.seconds(scaled(value, unit))


def seconds(value: float | None) -> str:
    """A time in s."""
    return measure(value, "s")


def span(low: float | None, high: float | None, unit: str = "1") -> str:
    """The least and the greatest measurement, "1.20 to 1.31"."""
    ends = measure(low, unit), measure(high, unit)
    return UNKNOWN if UNKNOWN in ends else units.span(*ends)


def percent(fraction: float | None) -> str:
    """A fraction in percent with one decimal, without the sign."""
    return UNKNOWN if fraction is None or math.isnan(fraction) else f"{fraction * 100:.1f}"


def money(value: float | None, factor: float = 1.0) -> str:
    """US$; ``factor`` turns US$ per one of something into US$ per that many."""
    return UNKNOWN if value is None or math.isnan(value) else units.money(value * factor)


def count(value: Any) -> str:
    """A whole number."""
    return UNKNOWN if units.is_missing(value) else units.count(value)


def plural(number: int, noun: str, many: str = "") -> str:
    """ "1 record", "2 records"."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"
