"""Marks that identify the output of HPL-MxP."""

from __future__ import annotations

MARKS = ("HPL MxP Result",)
RUN = (r".*\*{4,} HPL MxP Result +\*{4,}", r".*LU GFLOPS = ")


def recognises(text: str) -> bool:
    """Whether this is an output of NVIDIA's HPL-MxP."""
    return "HPL MxP Result" in text
