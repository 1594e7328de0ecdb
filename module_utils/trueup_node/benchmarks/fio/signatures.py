"""Marks that identify fio's output."""

from __future__ import annotations

import re

MARKS = ('"fio version"', '"jobname"', ": (groupid=", "Starting ")
RUN = (r"\s*(?:(\S[^:]*: \(g=0\): rw=)|(fio-\d)|(\S[^:]*: \(groupid=0, jobs=))", r"\s*Disk stats")
_WORDS = re.compile(r"^[ \t]*\S[^\n:]{0,200}: \(groupid=\d+, jobs=\d+\): err=", re.MULTILINE)


def recognises(text: str) -> bool:
    """Whether this is fio's output, JSON or words, whole or damaged."""
    if _WORDS.search(text):
        return True
    return '"fio version"' in text or ('"jobname"' in text and '"total_ios"' in text)
