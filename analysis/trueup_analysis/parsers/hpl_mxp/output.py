"""Parser of NVIDIA's HPL-MxP (HPC benchmarks container 23 to 25).

Its result is a block: residual with ``PASSED`` or ``FAILED``, ``N = 380000, NB = 4096, NPROW = 4,
NPCOL = 2, SLOPPY-TYPE = 2``, ``GFLOPS = 8.7877e+05, per GPU =  109846.77`` (the solution with its
refinement in double precision) and ``LU GFLOPS = ...`` (the factorisation alone).
"""

from __future__ import annotations

import re

from trueup_node.reading import Line, lines_of
from trueup_node.record import Metric

from ...labelled import Labelled, only

TOOL = "hpl_mxp"
_NUMBER = r"(\d\.\d{4}e\+\d\d)"
_RESIDUAL = re.compile(r"\s*\|\|Ax-b\|\|_oo / .* = +(\S+) \.{3,} (PASSED|FAILED)\s*")
_PROBLEM = re.compile(
    r"\s*N = (\d{1,9}), NB = (\d{1,6}), NPROW = (\d{1,5}), NPCOL = (\d{1,5})(?:, .*)?"
)
# Old versions explain the rate behind it: "------ The HPL-MxP performance to report".
_EACH = r"per GPU = +(\d{1,12}\.\d\d)\s*(?:-{3,} .*)?"
_WHOLE = re.compile(rf"\s*GFLOPS = {_NUMBER}, {_EACH}")
_LU = re.compile(rf"\s*LU GFLOPS = {_NUMBER}, {_EACH}")
_GFLOPS = 1e9
# A rate has five digits.
_ROUNDED = 1e-4


def parse_hpl_mxp(text: str) -> Labelled:
    """Read one result.

    Raises:
        ParseError: a line is missing or stands twice, or a rate is not that of a GPU times GPUs.
    """
    lines = [line for line in lines_of(text) if " = " in line]
    _, residual = only(lines, _RESIDUAL, "||Ax-b||_oo / ...")
    _, problem = only(lines, _PROBLEM, "N = ..., NB = ...")
    gpus = int(problem[3]) * int(problem[4])
    passed = residual[2] == "PASSED"
    return Labelled(
        rows=(
            _rate("mxp_rate", *only(lines, _WHOLE, "GFLOPS = ..."), gpus),
            _rate("mxp_lu_rate", *only(lines, _LU, "LU GFLOPS = ..."), gpus),
        ),
        parameters={
            "n": problem[1],
            "nb": problem[2],
            "grid": f"{problem[3]}x{problem[4]}",
        },
        checks={"residual": passed},
        reasons={"residual": f"the residual {residual[1]} is above the threshold"},
        gpu_count=gpus,
    )


def _rate(name: str, line: Line, match: re.Match[str], gpus: int) -> Metric:
    whole, each = float(match[1]), float(match[2])
    if abs(each * gpus - whole) > _ROUNDED * whole + 0.01 * gpus:
        raise line.error(f"{match[2]} of a GPU times {gpus} GPUs is not {match[1]}")
    return Metric(name, whole * _GFLOPS, "flop/s", "higher")
