"""How figures of High-Performance Linpack are shown."""

from __future__ import annotations

from ...view import Measure, Peak, Timed, View, Work, rate, seconds

_PEAK = Peak(
    "peak_fp64_gflops",
    1e9,
    parameter="gpus",
    value="0",
    nodes=True,
    otherwise=Peak("gpu_peak_fp64_tensor_gflops_each", 1e9, gpus=True),
)

VIEW = View(
    title="High-Performance Linpack",
    headlines=(rate("hpl_rate", "floating-point rate", "TFLOP/s", peak=_PEAK),),
    figures=(
        seconds("hpl_time", "time to solve", "s"),
        Measure("hpl_residual", "scaled residual", "1", "lower", "", grows=False),
    ),
    identity=("n",),
    apart=("program", "n", "nb", "gpus"),
    work=(Work("PFLOP", "pflop", "hpl_rate", 1e15),),
    method="HPL solves a dense system of N linear equations in fp64, and the rate is"
    " 2/3 N^3 + 3/2 N^2 operations over the time to solve it. Making the matrix, checking the"
    " residual are not in it.",
    layouts=True,
    timed=Timed("hpl_time"),
    spread=("gpus",),
)
