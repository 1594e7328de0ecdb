"""How the facts of NCCL's log are shown."""

from __future__ import annotations

from trueup_node.view import Measure, View

_WARNINGS = Measure("nccl_warnings", "warnings", "1", "lower", "", grows=False)

VIEW = View(
    title="NCCL's log",
    headlines=(_WARNINGS,),
    method="NCCL's log says which network and which way each pair of ranks uses; the figure counts"
    " its different warnings. A bandwidth is not in it.",
    scales=False,
)
