"""Marks that identify the log of a training run."""

from __future__ import annotations

MARKS = ("trueup", " arguments ---", "padded vocab", "consumed samples:")
DRIVER_FIRST = "trueup gpt_driver begins"
DRIVER_PREFIX = "trueup-megatron "


def recognises(text: str) -> bool:
    """Whether this is the log of such a run."""
    return (
        # First, for they stand in the first line of an iteration, and the others nowhere in most.
        ("elapsed time per iteration (" in text and "consumed samples:" in text)
        or DRIVER_FIRST in text
        or DRIVER_PREFIX + "{" in text
    )
