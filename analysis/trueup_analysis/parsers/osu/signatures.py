"""Marks that identify the output of MPI micro-benchmarks."""

from __future__ import annotations

import re

from trueup_node.reading import Signature

# One-sided tests have the MPI function in the place of "MPI": ``# OSU MPI_Get-CUDA latency Test``.
BANNER = re.compile(
    r"\s*# OSU (?:(?P<kind>[A-Z]+(?:[-/][A-Z0-9]+)*) )?(?P<test>\S.*?) Test"
    r"(?: v?(?P<version>[\d.]+))?\s*"
)
BENCHMARKING = re.compile(r"\s*# Benchmarking (?P<test>\w[\w-]*)\s*")
SIGNATURE = Signature(
    marks=("# OSU ", "# Benchmarking "),
    lines=(BANNER,),
    # "# Benchmarking ..." alone is a heading of any page.
    forms=((re.compile(r"(?m)^[ \t]*# Benchmarking \w[\w-]*[ \t]*$"), "#repetitions"),),
    run=(r"\s*# (?:OSU [A-Z]\S* \S.* Test\b|Benchmarking \w)", r"$^"),
)
