"""Marks that identify fio's output."""

from __future__ import annotations

MARKS = ('"fio version"', '"jobname"')


def recognises(text: str) -> bool:
    """Whether this is fio's JSON output, whole or damaged."""
    return '"fio version"' in text or ('"jobname"' in text and '"total_ios"' in text)
