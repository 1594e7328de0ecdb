"""Marks that identify the output of trueup's program for matrix products."""

from __future__ import annotations

MARKS = ("trueup",)
OUR_TOOL = "trueup-gemm"


def recognises(text: str) -> bool:
    """Whether this is the output of trueup's matrix-product program."""
    return f'"tool": "{OUR_TOOL}"' in text
