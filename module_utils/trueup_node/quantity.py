"""Figures with a unit: bytes and bits, and other things that differ, cannot be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .errors import BadInput

# Unit as sources write it -> the base unit of records, and how many of these it is.
UNITS: Final = {
    "1": ("1", 1.0),
    "%": ("1", 0.01),
    "s": ("s", 1.0),
    "ms": ("s", 1e-3),
    "us": ("s", 1e-6),
    "byte": ("byte", 1.0),
    "KiB": ("byte", 1024.0),
    "GB": ("byte", 1e9),
    "GiB": ("byte", 1024.0**3),
    "byte/s": ("byte/s", 1.0),
    "MB/s": ("byte/s", 1e6),
    "GB/s": ("byte/s", 1e9),
    "TB/s": ("byte/s", 1e12),
    "bit/s": ("bit/s", 1.0),
    "Gb/s": ("bit/s", 1e9),
    "flop/s": ("flop/s", 1.0),
    "GFLOP/s": ("flop/s", 1e9),
    "TFLOP/s": ("flop/s", 1e12),
    "PFLOP/s": ("flop/s", 1e15),
    "point/s": ("point/s", 1.0),
    "GPts/s": ("point/s", 1e9),
    "1/s": ("1/s", 1.0),
    "Hz": ("Hz", 1.0),
    "MHz": ("Hz", 1e6),
}


@dataclass(frozen=True)
class Quantity:
    """A figure in a unit.

    Attributes:
        value: the figure in ``unit``.
        unit: one of the units that are known here.
    """

    value: float
    unit: str

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise BadInput(f"{self.unit!r} is no known unit; there are {', '.join(UNITS)}")

    @property
    def base_unit(self) -> str:
        """The unit of records: byte/s for GB/s, bit/s for Gb/s."""
        return UNITS[self.unit][0]

    @property
    def base(self) -> float:
        """The figure in the base unit."""
        return self.value * UNITS[self.unit][1]

    def to(self, unit: str) -> Quantity:
        """The same in another unit of the same kind.

        Raises:
            BadInput: the units measure different things, such as GB/s and Gb/s.
        """
        other = Quantity(1.0, unit)
        if other.base_unit != self.base_unit:
            message = f"{self.unit} and {unit} measure different things and cannot be compared"
            raise BadInput(message)
        return Quantity(self.base / other.base, unit)
