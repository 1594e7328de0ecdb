"""Marks that identify the log of a training run."""

from __future__ import annotations

from ...reading import Signature

DRIVER_FIRST = "trueup gpt_driver begins"
DRIVER_PREFIX = "trueup-megatron "
SIGNATURE = Signature(
    marks=("trueup", " arguments ---", "padded vocab", "consumed samples:"),
    forms=(
        ("elapsed time per iteration (", "consumed samples:"),
        (DRIVER_FIRST,),
        (DRIVER_PREFIX + "{",),
    ),
)
