"""Marks that identify ffmpeg's output."""

from __future__ import annotations

from ...reading import Signature

SIGNATURE = Signature(
    marks=("ffmpeg version",),
    forms=(("ffmpeg version ", "frames encoded"),),
)
