"""Marks that identify ffmpeg's output."""

from __future__ import annotations

MARKS = ("ffmpeg version",)


def recognises(text: str) -> bool:
    """Whether this is the output of an ffmpeg that says how much it encoded."""
    return "ffmpeg version " in text and "frames encoded" in text
