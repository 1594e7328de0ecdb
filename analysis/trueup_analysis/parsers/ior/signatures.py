"""Marks that identify IOR's output."""

from __future__ import annotations

import re

from trueup_node.reading import Signature

BANNER = re.compile(r"\s*IOR-(?P<version>\d\S*): MPI Coordinated Test of Parallel I/O\s*")
# Of the table of each repetition, in words (2 to 4) and CSV (4).
HEADER = re.compile(r"\s*access(?:,|\s+)bw\(MiB/s\).*")
SUMMARY = re.compile(r"\s*Operation\s+Max ?\(MiB\)\s+Min ?\(MiB\)\s+Mean ?\(MiB\).*")
BEST = re.compile(
    r"\s*Max (?P<operation>Write|Read):\s+(?P<rate>\S+) MiB/sec \((?P<decimal>\S+) MB/sec\)\s*"
)
SIGNATURE = Signature(
    marks=("MPI Coordinated Test", "bwMaxMIB", "bw(MiB/s)", "Max(MiB)", "Max (MiB)", "Max Write: "),
    forms=(('"bwMaxMIB"',),),
    lines=(BANNER, HEADER, SUMMARY, BEST),
    run=(
        r"\s*IOR-\d\S*: MPI Coordinated Test",
        r"\s*(?:(?:Run )?[Ff]inished\s*:|Max (?:Read|Write):)",
    ),
)
