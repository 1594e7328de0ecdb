"""Marks that identify the output of HPL-MxP."""

from __future__ import annotations

from trueup_node.reading import Signature

SIGNATURE = Signature(
    marks=("HPL MxP Result",),
    forms=(("HPL MxP Result",),),
    run=(r".*\*{4,} HPL MxP Result +\*{4,}", r".*LU GFLOPS = "),
)
