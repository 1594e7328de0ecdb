"""How figures are written for people, whatever the format: display units and rounding.

An unknown figure is a dash here; a format may write a word for it.
"""

from __future__ import annotations

import json
import math
import numbers
import unicodedata
from typing import TYPE_CHECKING, Any, Final

from trueup_node.quantity import UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN: Final = "-"
# The field's units for the base units in which records hold rates, 1e9 of one each.
DISPLAYED: Final = {
    "byte/s": "GB/s",
    "bit/s": "Gb/s",
    "flop/s": "GFLOP/s",
    "point/s": "GPts/s",
}
_GIGA: Final = 1e9
_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB")
# Characters that a terminal obeys rather than shows: controls, formats (bidirectional overrides),
# surrogates, line separators.
_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Two decimals are finer than 0.1 % from here on; no measurement here is finer than that.
_TWO_DECIMALS_FROM: Final = 10
_MONEY_TWO_DECIMALS_FROM: Final = 100
_PLAIN_FROM, _PLAIN_BELOW = 1e-4, 1e6


def is_missing(value: Any) -> bool:
    """Whether a value stands for "unknown": None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def known(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with None for missing values."""
    return {name: None if is_missing(value) else value for name, value in row.items()}


def text(value: Any) -> str:
    """Text from data, safe for a terminal: control characters are shown as ``?``."""
    if is_missing(value):
        return UNKNOWN
    printable = str(value)
    if printable.isascii() and printable.isprintable():
        return printable
    return "".join("?" if unicodedata.category(char) in _UNSAFE else char for char in printable)


def escaped(json_text: str) -> str:
    """JSON whose texts hold no character that a terminal or an editor obeys: each stands as
    ``\\uXXXX``, which is the same to a program."""
    if json_text.isascii():
        return json_text
    unsafe = {char for char in set(json_text) if unicodedata.category(char) in _UNSAFE} - {"\n"}
    return json_text.translate({ord(char): json.dumps(char)[1:-1] for char in unsafe})


def number(value: Any) -> float | None:
    """A record's parameter or system entry as a number; None where it is missing or something
    else.
    """
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def count(value: Any) -> str:
    """A whole number."""
    integer = number(value)
    return UNKNOWN if integer is None else str(int(integer))


def plural(number: int, noun: str, many: str = "") -> str:
    """ "1 record", "2,000 records"."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def fixed(value: Any, digits: int) -> str:
    """A number with that many decimals; one too long for a column in powers of ten."""
    if is_missing(value):
        return UNKNOWN
    number = float(value)
    return f"{number:.{digits}f}" if abs(number) < _GIGA else f"{number:.{digits}e}"


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


def scaled(value: float, unit: str) -> float:
    """A figure in base units as the number that is printed, before rounding."""
    return value / _GIGA if unit in DISPLAYED else value


def scaled_to(value: float, unit: str) -> float:
    """A figure in base units as the number that is printed in ``unit``."""
    return value / UNITS[unit][1] if unit in UNITS else value


def in_unit(value: Any, unit: str) -> str:
    """A measured figure as the number that is printed below its ``unit``: two decimals from 10 on,
    else four significant digits.
    """
    return UNKNOWN if is_missing(value) else measure(scaled_to(float(value), unit))


def size_of(count: int) -> str:
    """A message size: "8 B", "16 GiB"; one that is no whole number of a larger unit in bytes."""
    for power in range(len(_BINARY) - 1, 0, -1):
        quotient, rest = divmod(count, 1024**power)
        if quotient and not rest:
            return f"{quotient:,} {_BINARY[power]}"
    return f"{count:,} B"


def measure(value: Any, unit: str = "1") -> str:
    """A measured figure in its display unit (``DISPLAYED``), whose name is not added: two decimals
    from 10 on, else four significant digits.
    """
    if is_missing(value):
        return UNKNOWN
    number = scaled(float(value), unit)
    return fixed(number, 2) if abs(number) >= _TWO_DECIMALS_FROM else significant(number, 4)


def seconds(value: Any) -> str:
    """A time in s."""
    return measure(value, "s")


def span(low: Any, high: Any, unit: str = "1") -> str:
    """The least and the greatest measurement: "1.200 to 1.310"."""
    ends = measure(low, unit), measure(high, unit)
    return UNKNOWN if UNKNOWN in ends else f"{ends[0]} to {ends[1]}"


def percent(value: Any, digits: int = 0) -> str:
    """A fraction as a percentage: "46 %"."""
    return UNKNOWN if is_missing(value) else f"{100 * float(value):.{digits}f} %"


def percent_figure(value: Any) -> str:
    """A fraction as the figure below a heading in %: "46.2"."""
    return UNKNOWN if is_missing(value) else f"{100 * float(value):.1f}"


def money(value: Any) -> str:
    """US$ with four significant digits, two decimals from 100 on."""
    if is_missing(value):
        return UNKNOWN
    number = float(value)
    return fixed(number, 2) if abs(number) >= _MONEY_TWO_DECIMALS_FROM else significant(number, 4)


# Names of metrics in CSV, JSON and other formats end in their base unit.
_UNIT_WORDS: Final = {
    "s": "seconds",
    "byte": "bytes",
    "byte/s": "bytes_per_second",
    "bit/s": "bits_per_second",
    "flop/s": "flop_per_second",
    "1/s": "per_second",
}


def in_words(unit: str) -> str:
    """A base unit as the end of a name: "bytes_per_second"."""
    return _UNIT_WORDS.get(unit) or unit.replace("/", "_per_")


def of_words(words: str) -> str:
    """The base unit of which ``in_words`` made these words."""
    units_by_words = {text: unit for unit, text in _UNIT_WORDS.items()}
    return units_by_words.get(words) or words.replace("_per_", "/")


# Units at the end of a column's name, the longest first.
_KEY_UNITS: Final = (
    ("bytes_per_second", "byte/s"),
    ("bits_per_second", "bit/s"),
    ("flop_per_second", "flop/s"),
    ("points_per_second", "point/s"),
    ("per_second", "1/s"),
    ("mb_s", "MB/s"),
    ("seconds", "s"),
    ("minutes", "min"),
    ("hours", "h"),
    ("days", "d"),
    ("bytes", "byte"),
    ("gib", "GiB"),
    ("tib", "TiB"),
    ("gbps_per_nic", "Gb/s"),
    ("flop", "flop"),
    ("per_usd", "1/US$"),
)
_SYMBOLS: Final = {"pflop": "PFLOP", "tb": "TB"}


def unit_of(key: str) -> str | None:
    """The unit that the name of a column in CSV and JSON states: "s" of ``run_seconds``,
    "US$/million output tokens" of ``usd_per_million_output_tokens``; None where it states none."""
    before, is_money, rest = f"_{key}_".partition("_usd_")
    if is_money and not before.endswith("_per"):
        per = rest.removeprefix("per_").removesuffix("_").replace("_", " ")
        return f"US$/{_SYMBOLS.get(per, per)}" if rest.startswith("per_") else "US$"
    return next((unit for end, unit in _KEY_UNITS if f"_{key}".endswith(f"_{end}")), None)
