"""Marks that identify the output of trueup's program for copying to Blob storage."""

from __future__ import annotations

MARKS = ("trueup",)
DRIVER_PREFIX = "trueup-blob_copy "


def recognises(text: str) -> bool:
    """Whether this is the output of trueup's program for copying to Blob storage."""
    begin = DRIVER_PREFIX.rstrip()
    return text.startswith(begin) or f"\n{begin}" in text
