"""Marks that identify the output of trueup's program for matrix products."""

from __future__ import annotations

from ...reading import Signature

OUR_TOOL = "trueup-gemm"
SIGNATURE = Signature(
    marks=("trueup",),
    forms=((f'"tool": "{OUR_TOOL}"',),),
)
