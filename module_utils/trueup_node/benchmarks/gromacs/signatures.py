"""Marks that identify a log of mdrun."""

from __future__ import annotations

import re

MARKS = ("trueup", "GROMACS", "Gromacs version", "mdrun on ", "A V E R A G E S", "(ns/day)")
RUN = (r"\s*:-\) GROMACS", r"\s*(?:Finished mdrun|GROMACS reminds you)")
DRIVER_PREFIX = "trueup-gromacs "
_MARKS = (
    *("GROMACS version:", "Gromacs version:", "mdrun on rank 0", "mdrun on node 0"),
    *(DRIVER_PREFIX + "{", "A V E R A G E S"),
)
_RATE = re.compile(r"(?m)^[ \t]*(?:\(\S+\)[ \t]+)*\(ns/day\).*\n[ \t]*Performance:[ \t]+\d")


def recognises(text: str) -> bool:
    """Whether this is a log of mdrun, whole or damaged, or the end of one."""
    return any(mark in text for mark in _MARKS) or _RATE.search(text) is not None
