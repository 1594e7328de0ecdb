"""Marks that identify a log of mdrun."""

from __future__ import annotations

MARKS = ("trueup", "GROMACS", "Gromacs version", "mdrun on ", "A V E R A G E S")
RUN = (r"\s*:-\) GROMACS", r"\s*Finished mdrun")
DRIVER_PREFIX = "trueup-gromacs "
_MARKS = (
    *("GROMACS version:", "Gromacs version:", "mdrun on rank 0", "mdrun on node 0"),
    *(DRIVER_PREFIX + "{", "A V E R A G E S"),
)


def recognises(text: str) -> bool:
    """Whether this is a log of mdrun, whole or damaged."""
    return any(mark in text for mark in _MARKS)
