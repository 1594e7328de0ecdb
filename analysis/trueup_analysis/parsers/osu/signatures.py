"""Marks that identify the output of MPI micro-benchmarks."""

from __future__ import annotations

import re

MARKS = ("# OSU ", "# Benchmarking ")
# One-sided tests have the MPI function in the place of "MPI": ``# OSU MPI_Get-CUDA latency Test``.
BANNER = re.compile(
    r"\s*# OSU (?:(?P<kind>[A-Z]+(?:[-/][A-Z0-9]+)*) )?(?P<test>\S.*?) Test"
    r"(?: v?(?P<version>[\d.]+))?\s*"
)
BENCHMARKING = re.compile(r"\s*# Benchmarking (?P<test>\w[\w-]*)\s*")
RUN = (r"\s*# (?:OSU [A-Z]\S* \S.* Test\b|Benchmarking \w)", r"$^")


def recognises(text: str) -> bool:
    """Whether this is an output of OSU's or Intel's MPI benchmarks."""
    return any(BANNER.fullmatch(line) or BENCHMARKING.fullmatch(line) for line in text.splitlines())
