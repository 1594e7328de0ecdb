"""Marks that identify the output of HPL-MxP, and of HPL-AI as it was called before."""

from __future__ import annotations

import re

from trueup_node.reading import Signature

SIGNATURE = Signature(
    marks=("HPL MxP Result", "HPL_AI"),
    forms=(("HPL MxP Result",), (re.compile(r"(?m)^[ \t]*HPL_AI +W"),)),
    run=(
        r"(.*\*{4,} HPL MxP Result +\*{4,})|(\s*HPL_AI +W)",
        r".*LU GFLOPS = |\|\|Ax-b\|\|_oo/",
    ),
)
