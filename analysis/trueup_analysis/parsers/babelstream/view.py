"""How figures of BabelStream are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup_node.view import Chart, View, rate

if TYPE_CHECKING:
    from trueup_node.view import Measure


def _rate(kernel: str) -> Measure:
    return rate(f"babel_{kernel}_rate", kernel, "GB/s", grows=False)


_TRIAD = _rate("triad")
_OTHERS = tuple(map(_rate, ("copy", "mul", "add", "dot", "nstream")))

VIEW = View(
    title="Memory bandwidth (BabelStream)",
    headlines=(_TRIAD, *_OTHERS),
    identity=("array_bytes", "array_size"),
    apart=("implementation", "precision", "array_bytes"),
    charts=(Chart("rows", (_TRIAD, *_OTHERS), "case", "Rates of the kernels"),),
    method="BabelStream runs copy, mul, add, triad and dot over three arrays in one programming"
    " model, on a CPU or one GPU; a rate is by the mean time of all repetitions but the first."
    " Filling the arrays and copying them to and from the device are not in it.",
    scales=False,
)
