"""How figures of gpu-burn are shown."""

from __future__ import annotations

from trueup_node.view import Chart, Measure, View, rate

_RATE = rate("burn_rate", "rate", "TFLOP/s", grows=False)
_FAULTY = Measure("burn_faulty_gpus", "faulty GPUs", "1", "lower", "", grows=False)

VIEW = View(
    title="GPU stress (gpu-burn)",
    headlines=(_RATE,),
    figures=(_FAULTY,),
    charts=(Chart("rows", (_RATE,), "device", "Rate of each GPU"),),
    method="gpu-burn multiplies matrices on all GPUs at the same time and compares the results with"
    " the first ones. The time before a GPU's first report is not in it.",
    scales=False,
)
