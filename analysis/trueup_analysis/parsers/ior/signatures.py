"""Marks that identify IOR's output."""

from __future__ import annotations

import re

MARKS = ("MPI Coordinated Test", "bwMaxMIB", "bw(MiB/s)", "Max(MiB)", "Max (MiB)", "Max Write: ")
BANNER = re.compile(r"\s*IOR-(?P<version>\d\S*): MPI Coordinated Test of Parallel I/O\s*")
# Of the table of each repetition, in words (2 to 4) and CSV (4).
HEADER = re.compile(r"\s*access(?:,|\s+)bw\(MiB/s\).*")
SUMMARY = re.compile(r"\s*Operation\s+Max ?\(MiB\)\s+Min ?\(MiB\)\s+Mean ?\(MiB\).*")
BEST = re.compile(
    r"\s*Max (?P<operation>Write|Read):\s+(?P<rate>\S+) MiB/sec \((?P<decimal>\S+) MB/sec\)\s*"
)
RUN = (
    r"\s*IOR-\d\S*: MPI Coordinated Test",
    r"\s*(?:(?:Run )?[Ff]inished\s*:|Max (?:Read|Write):)",
)


def recognises(text: str) -> bool:
    """Whether this is an output of IOR."""
    if '"bwMaxMIB"' in text:
        return True
    patterns = (BANNER, HEADER, SUMMARY, BEST)
    return any(pattern.fullmatch(line) for line in text.splitlines() for pattern in patterns)
