"""The figure that stands for a case, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import units

if TYPE_CHECKING:
    from ..figures.views import Headline


def figure_text(headline: Headline) -> str:
    """ "bus bandwidth 308.00 GB/s at 1 GiB, below the judged size (16 GiB)"."""
    measure = headline.measure
    unit_name = measure.shown or units.DISPLAYED.get(measure.unit, "")
    unit = "" if unit_name == "1" else unit_name
    value = units.in_unit(headline.value, unit_name)
    return f"{measure.label} {value} {unit}".rstrip() + place_text(headline)


def place_text(headline: Headline) -> str:
    """Where a figure was measured: " at 16 GiB", ", gpu3, slowest of 8"; "" for the whole case."""
    words = "" if headline.message_bytes is None else f" at {units.size_of(headline.message_bytes)}"
    if headline.judged_bytes is not None:
        words += f", below the judged size ({units.size_of(headline.judged_bytes)})"
    if headline.device is not None:
        words += f", {headline.device}"
        worst = "slowest" if headline.measure.unit != "1" else "worst"
        words += f", {worst} of {headline.devices}" if headline.devices > 1 else ""
    return words
