"""How figures of memory-bandwidth benchmarks are shown."""

from __future__ import annotations

from ...view import Chart, Peak, View, Work, rate

_PEAK = Peak("memory_bandwidth_gbps", 1e9)
_COPY = rate("copy_rate", "copy", "GB/s", peak=_PEAK)
_SCALE = rate("scale_rate", "scale", "GB/s", peak=_PEAK)
_ADD = rate("add_rate", "add", "GB/s", peak=_PEAK)
_TRIAD = rate("triad_rate", "triad", "GB/s", peak=_PEAK)

VIEW = View(
    title="Memory bandwidth (STREAM)",
    headlines=(_TRIAD,),
    figures=(_COPY, _SCALE, _ADD),
    apart=("stores", "threads", "binding"),
    charts=(Chart("rows", (_COPY, _SCALE, _ADD, _TRIAD), "case", "Rates of the four kernels"),),
    work=(Work("TB", "tb", "triad_rate", 1e12),),
    method="Pinned threads run copy, scale, add and triad over arrays of at least four times the"
    " last-level caches, and bytes are counted as STREAM counts them. Filling the arrays is not in"
    " it, nor is the reading of each line before regular stores write it.",
    grows=("array_elements", "array_bytes"),
    amount="array_elements",
)
