"""Marks that identify lines of NCCL's log (NCCL_DEBUG=INFO or WARN)."""

from __future__ import annotations

MARKS = ("NCCL INFO ", "NCCL WARN ")
# These lines stand between those of other tools, whose output it is.
IS_BESIDE = True


def recognises(text: str) -> bool:
    """Whether a text holds lines of NCCL's log."""
    return any(mark in text for mark in MARKS)
