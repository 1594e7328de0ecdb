"""Marks that identify a Devito operator's output."""

from __future__ import annotations

MARKS = ("trueup", "Operator `")
DRIVER_PREFIX = "trueup-devito "


def recognises(text: str) -> bool:
    """Whether this is the output of a Devito operator."""
    return DRIVER_PREFIX + "{" in text or "Operator `" in text
