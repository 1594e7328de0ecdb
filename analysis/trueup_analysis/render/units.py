"""How figures are written in tables and sentences: display units and rounding. An unknown figure is
a dash."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

__all__ = [
    "UNKNOWN",
    "count",
    "counted",
    "fixed",
    "giga",
    "is_missing",
    "money",
    "percent",
    "seconds",
    "significant",
    "span",
    "text",
]

UNKNOWN = "-"
# Characters that a terminal obeys rather than shows: controls, formats (bidirectional overrides),
# line separators.
_UNSAFE = frozenset({"Cc", "Cf", "Zl", "Zp"})
# Two decimals are finer than 0.1 % from here on.
_TWO_DECIMALS_FROM = 10
_PLAIN_FROM, _PLAIN_BELOW = 1e-4, 1e6


def is_missing(value: Any) -> bool:
    """Whether a value stands for "unknown": None, NaN or pandas' NA."""
    # By name, because importing pandas for its NA would cost every command half a second.
    return (
        value is None
        or type(value).__name__ == "NAType"
        or (isinstance(value, float) and math.isnan(value))
    )


def text(value: Any) -> str:
    """Text from data, safe for a terminal: what a terminal would obey is shown as ``?``."""
    if is_missing(value):
        return UNKNOWN
    return "".join("?" if unicodedata.category(char) in _UNSAFE else char for char in str(value))


def count(value: Any) -> str:
    """A whole number."""
    return UNKNOWN if is_missing(value) else str(int(value))


def counted(number: int, things: str) -> str:
    """ "1 node", "2 nodes"."""
    return f"{number} {things.removesuffix('s') if number == 1 else things}"


def fixed(value: Any, digits: int) -> str:
    """A number with that many decimals."""
    return UNKNOWN if is_missing(value) else f"{float(value):.{digits}f}"


def significant(value: Any, digits: int = 3) -> str:
    """A number with that many significant digits; in powers of ten only below 0.0001 and from a
    million on."""
    if is_missing(value):
        return UNKNOWN
    number = float(value)
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    if not _PLAIN_FROM <= abs(number) < _PLAIN_BELOW:
        return f"{number:.{digits - 1}e}"
    rounded = float(f"{number:.{digits - 1}e}")
    return f"{rounded:.{max(0, digits - 1 - math.floor(math.log10(abs(rounded))))}f}"


def seconds(value: Any) -> str:
    """Seconds: two decimals from 10 s on, else four significant digits."""
    if is_missing(value):
        return UNKNOWN
    return fixed(value, 2) if abs(float(value)) >= _TWO_DECIMALS_FROM else significant(value, 4)


def span(low: str, high: str) -> str:
    """A range of two figures that are already written."""
    return UNKNOWN if UNKNOWN in (low, high) else f"{low} to {high}"


def giga(value: Any, digits: int = 2) -> str:
    """flop/s as GFLOP/s, point/s as GPt/s, byte/s as GB/s."""
    return UNKNOWN if is_missing(value) else fixed(float(value) / 1e9, digits)


def percent(value: Any, digits: int = 0) -> str:
    """A fraction as a percentage."""
    return UNKNOWN if is_missing(value) else f"{100 * float(value):.{digits}f} %"


def money(value: Any) -> str:
    """US$ with four significant digits, two decimals from 100 on."""
    if is_missing(value):
        return UNKNOWN
    return fixed(value, 2) if abs(float(value)) >= 100 else significant(value, 4)
