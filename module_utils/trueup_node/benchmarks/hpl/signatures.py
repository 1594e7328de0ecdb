"""Marks that identify HPL's output."""

from __future__ import annotations

import re

MARKS = ("HPLinpack", "HPC Challenge", "HPL_Tflops", "T/V", "||Ax-b||")
RUN = (r"\s*(?:HPLinpack|HPL-NVIDIA|HPL-AI|HPC Challenge Benchmark version)", r"\s*End of Tests")
_TABLE = re.compile(
    r"(?m)^[ \t]*(?:HPL_Tflops=|T/V[ \t]+(?:SWP[ \t]+)?N[ \t]+NB[ \t]+P[ \t]+Q[ \t]+Time)"
)


def recognises(text: str) -> bool:
    """Whether this is an output of HPL or hpcc, whole or damaged."""
    return (
        "High-Performance Linpack benchmark" in text
        or "||Ax-b||_oo/(eps*(||A||_oo*" in text
        or "HPC Challenge Benchmark version" in text
        or bool(_TABLE.search(text))
    )
