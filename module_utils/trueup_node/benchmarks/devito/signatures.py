"""Marks that identify a Devito operator's output."""

from __future__ import annotations

from ...reading import Signature

DRIVER_PREFIX = "trueup-devito "
SIGNATURE = Signature(
    marks=("trueup", "Operator `"),
    forms=((DRIVER_PREFIX + "{",), ("Operator `",)),
)
