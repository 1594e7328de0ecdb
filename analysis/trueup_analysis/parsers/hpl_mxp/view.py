"""How figures of HPL-MxP are shown."""

from __future__ import annotations

from trueup_node.view import View, Work, rate

_RATE = rate("mxp_rate", "rate", "TFLOP/s")
_LU = rate("mxp_lu_rate", "factorisation", "TFLOP/s")

VIEW = View(
    title="Linear equations in mixed precision (HPL-MxP)",
    headlines=(_RATE,),
    figures=(_LU,),
    identity=("n",),
    apart=("n", "nb", "grid"),
    work=(Work("PFLOP", "pflop", "mxp_rate", 1e15),),
    method="HPL-MxP factorises a dense matrix in low precision and refines the solution in double"
    " precision; operations are counted as HPL counts them. The precision of the factorisation is"
    " not in it.",
    resource="gpus",
)
