"""Marks that identify HPL's output."""

from __future__ import annotations

import re

from ...reading import Signature, without

_NOT_AI = without(r"^[ \t]*HPL_AI +W")
_TABLE = re.compile(
    r"(?m)^[ \t]*(?:HPL_Tflops=|T/V[ \t]+(?:SWP[ \t]+)?N[ \t]+NB[ \t]+P[ \t]+Q[ \t]+Time)"
)
SIGNATURE = Signature(
    marks=("HPLinpack", "HPC Challenge", "HPL_Tflops", "T/V", "||Ax-b||"),
    forms=(
        ("High-Performance Linpack benchmark", _NOT_AI),
        ("||Ax-b||_oo/(eps*(||A||_oo*", _NOT_AI),
        ("HPC Challenge Benchmark version",),
        (_TABLE, _NOT_AI),
    ),
    run=(
        r"\s*(?:HPLinpack|HPL-NVIDIA +v?\d|HPL-AI|HPC Challenge Benchmark version)",
        r"\s*End of Tests",
    ),
)
