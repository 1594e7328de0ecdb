"""How figures of HPCG are shown."""

from __future__ import annotations

from trueup_node.view import View, Work, rate, seconds

_RATING = rate("hpcg_rating", "rating", "GFLOP/s")
_BANDWIDTH = rate("hpcg_bandwidth", "modelled bandwidth", "GB/s")
_SPMV = rate("hpcg_spmv_rate", "SpMV", "GFLOP/s")
_MG = rate("hpcg_mg_rate", "multigrid", "GFLOP/s")
_TIME = seconds("hpcg_time", "time", "s")

VIEW = View(
    title="Conjugate gradients (HPCG)",
    headlines=(_RATING,),
    figures=(_BANDWIDTH, _SPMV, _MG, _TIME),
    identity=("local_grid",),
    apart=("local_grid", "process_grid"),
    work=(Work("PFLOP", "pflop", "hpcg_rating", 1e15),),
    method="HPCG solves a sparse linear system by conjugate gradients with a multigrid"
    " preconditioner; the rating counts a tenth of the time of setup and of optimisation for each"
    " set of iterations, and the bandwidth is by HPCG's model of its traffic. The verification"
    " before the timed sets is not in it.",
)
