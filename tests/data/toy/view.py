"""How figures of the toy benchmark are shown."""

from __future__ import annotations

from ...view import Chart, Measure, View, Work

_RATE = Measure("zero_copy_rate", "zeros copied", "byte/s", "higher", "GB/s")
VIEW = View(
    title="Copies of zeros (dd)",
    headlines=(_RATE,),
    figures=(),
    apart=("mib",),
    charts=(Chart("rows", (_RATE,), "case", "Rates"),),
    work=(Work("TB", "tb", "zero_copy_rate", 1e12),),
    method="dd copies zeros from the kernel to nowhere. Nothing else is in it.",
)
