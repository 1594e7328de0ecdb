"""Parser of NVIDIA's HPL-MxP (HPC benchmarks container 23 to 25).

Its result is a block: residual with ``PASSED`` or ``FAILED``, ``N = 380000, NB = 4096, NPROW = 4,
NPCOL = 2, SLOPPY-TYPE = 2``, ``GFLOPS = 8.7877e+05, per GPU =  109846.77`` (the solution with its
refinement in double precision) and ``LU GFLOPS = ...`` (the factorisation alone).

The container of 2021 (21.4) calls it HPL-AI and prints a row below ``T/V N NB P Q Time Gflops
FGMRES Gflops_IRS``. No page defines these columns. By published rows (Puget Systems, HPL-AI on RTX
3080Ti and 3090, 2021) Gflops is (2/3 N^3 + 3/2 N^2) flop / Time, FGMRES the seconds of the
refinement, and Gflops_IRS the same flop / (Time + FGMRES). A column between the last two is not
read. The container of 2020 prints no more than Gflops: it is not known whether that includes the
refinement, and it is refused.
"""

from __future__ import annotations

import re

from trueup_node.reading import Line, lines_of
from trueup_node.record import Metric

from ...labelled import Labelled, only

TOOL = "hpl_mxp"
_NUMBER = r"(\d\.\d{4}e\+\d\d)"
_RESIDUAL = re.compile(r"\s*\|\|Ax-b\|\|_oo ?/.*\) ?= +(\S+) \.{3,} (PASSED|FAILED)\s*")
_PROBLEM = re.compile(
    r"\s*N = (\d{1,9}), NB = (\d{1,6}), NPROW = (\d{1,5}), NPCOL = (\d{1,5})(?:, .*)?"
)
# Old versions explain the rate behind it: "------ The HPL-MxP performance to report".
_EACH = r"per GPU = +(\d{1,12}\.\d\d)\s*(?:-{3,} .*)?"
_WHOLE = re.compile(rf"\s*GFLOPS = {_NUMBER}, {_EACH}")
_LU = re.compile(rf"\s*LU GFLOPS = {_NUMBER}, {_EACH}")
_AI_ROW = re.compile(
    r"\s*HPL_AI +W\w+ +(\d{1,9}) +(\d{1,6}) +(\d{1,5}) +(\d{1,5}) +(\d{1,9}\.\d\d)"
    r" +(\d\.\d{3}e\+\d\d) +(\d{1,9}\.\d{5})(?: +\d+)? +(\d\.\d{3}e\+\d\d)\s*"
)
_GFLOPS = 1e9
# A rate has five digits.
_ROUNDED = 1e-4


def parse_hpl_mxp(text: str) -> Labelled:
    """Read one result.

    Raises:
        ParseError: a line is missing or stands twice, or figures do not fit together.
    """
    lines = [line for line in lines_of(text) if "= " in line or "HPL_AI" in line]
    _, residual = only(lines, _RESIDUAL, "||Ax-b||_oo / ...")
    if "HPL_AI" in text:
        line, problem = only(lines, _AI_ROW, "HPL_AI W... Time Gflops FGMRES Gflops_IRS")
        rows = _ai_rates(line, problem)
        gpus = int(problem[3]) * int(problem[4])
    else:
        _, problem = only(lines, _PROBLEM, "N = ..., NB = ...")
        gpus = int(problem[3]) * int(problem[4])
        rows = (
            _rate("mxp_rate", *only(lines, _WHOLE, "GFLOPS = ..."), gpus),
            _rate("mxp_lu_rate", *only(lines, _LU, "LU GFLOPS = ..."), gpus),
        )
    return Labelled(
        rows=rows,
        parameters={
            "n": problem[1],
            "nb": problem[2],
            "grid": f"{problem[3]}x{problem[4]}",
        },
        checks={"residual": residual[2] == "PASSED"},
        reasons={"residual": f"the residual {residual[1]} is above the threshold"},
        gpu_count=gpus,
    )


def _ai_rates(line: Line, row: re.Match[str]) -> tuple[Metric, ...]:
    n, seconds, refinement = int(row[1]), float(row[5]), float(row[7])
    flop = 2 / 3 * n**3 + 3 / 2 * n**2
    for gflops, time in ((row[6], seconds), (row[8], seconds + refinement)):
        rate = float(gflops) * _GFLOPS
        # Of rates four digits are printed, of times two decimals.
        if not flop / (time + 0.006) <= rate * 1.0005 or rate * 0.9995 * (time - 0.006) > flop:
            raise line.error(f"{gflops} Gflops are not (2/3 N^3 + 3/2 N^2) flop in {time:.2f} s")
    return (
        Metric("mxp_rate", float(row[8]) * _GFLOPS, "flop/s", "higher"),
        Metric("mxp_lu_rate", float(row[6]) * _GFLOPS, "flop/s", "higher"),
    )


def _rate(name: str, line: Line, match: re.Match[str], gpus: int) -> Metric:
    whole, each = float(match[1]), float(match[2])
    if abs(each * gpus - whole) > _ROUNDED * whole + 0.01 * gpus:
        raise line.error(f"{match[2]} of a GPU times {gpus} GPUs is not {match[1]}")
    return Metric(name, whole * _GFLOPS, "flop/s", "higher")
