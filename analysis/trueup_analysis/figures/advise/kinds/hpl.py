"""Dense linear equations as HPL solves them: ``2/3 n^3 + 2 n^2`` operations."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from trueup.errors import BadInput
from trueup.options import Option

from ..estimates import PUBLISHED, Evidence, around
from ..knowledge import Knowledge, number
from .kind import Ask, Assumed, Need, Point, Prediction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup.cases import Case


_UNITS: Final = {"GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15}
_NAMED: Final = re.compile(r"\((?P<size>[A-Za-z0-9_]+)\)$")
_GIB: Final = 2**30
_BYTES: Final = 8
_FOR_MATRIX: Final = 0.8
# Published runs fill the memory; a smaller matrix keeps cores waiting. Ours, not measured.
_FILLED: Final = 0.3

OPTIONS: Final = (Option("order", "Order n of the matrix.", type="int", required=True, least=1000),)


def _peak(size: str, known: Knowledge) -> float | None:
    """FP64 peak of a node, with tensor cores where it has GPUs, flop/s."""
    row = known.sizes[size]
    gpus = number(row, "gpus")
    if gpus:
        each = number(row, "gpu_peak_fp64_tensor_gflops_each")
        return None if each is None else gpus * each * 1e9
    whole = number(row, "peak_fp64_gflops")
    return None if whole is None else whole * 1e9


def points(known: Knowledge) -> list[Point]:
    """What HPL reached on all nodes, flop/s; a Top500 system by the size in its name."""
    found = []
    for row in known.results("HPL", "rmax"):
        named = _NAMED.search(row["system"])
        size = f"Standard_{named['size']}" if named else row["system"]
        if size in known.sizes and row["nodes"]:
            found.append(
                Point(
                    label=f"{row['system']} x {row['nodes']}",
                    size=size,
                    nodes=int(row["nodes"]),
                    rate=float(row["value"]) * _UNITS[row["unit"]],
                    evidence=Evidence(PUBLISHED, row["source"]),
                )
            )
    found += [
        Point(one.evidence.source, one.size, one.nodes, one.value, {}, one.evidence)
        for one in known.own("hpl", "hpl_rate")
    ]
    return found


def predict(target: Point, others: Sequence[Point], known: Knowledge) -> Prediction | None:
    """The share of the peak that others reach: of the same size, else GPUs of GPUs and CPUs of
    CPUs."""
    peak = _peak(target.size, known)
    gpus = bool(number(known.sizes[target.size], "gpus"))
    alike = [
        (one, one.rate / (whole * one.nodes))
        for one in others
        if (whole := _peak(one.size, known)) and bool(number(known.sizes[one.size], "gpus")) == gpus
    ]
    same = [pair for pair in alike if pair[0].size == target.size]
    used = same or alike
    if peak is None or not used:
        return None
    share = math.exp(math.fsum(math.log(part) for _, part in used) / len(used))
    evidence = tuple(dict.fromkeys(one.evidence for one, _ in used if one.evidence))
    beyond = ""
    if not same:
        beyond = f"no HPL result of this size: {share:.0%} of its peak, as others reach."
        evidence += (Evidence("model", "FP64 peak, catalog/vm_sizes.csv"),)
    return Prediction(peak * target.nodes * share, evidence, beyond)


def need(ask: Ask, _assumed: Assumed, _: Knowledge) -> Need:
    return _of(ask["order"])


def logged(case: Case) -> Need:
    order = str(case.parameters.get("n", ""))
    if not order.isdecimal():
        raise BadInput("the log has not one order n of its matrix")
    return _of(int(order))


def _of(order: int) -> Need:
    return Need(
        work=around(2 / 3 * order**3 + 2 * order**2, 1.0),
        memory=order**2 * _BYTES,
        room=_room,
        words="elements of the matrix",
        filled=_FILLED,
    )


def _room(row: Mapping[str, str]) -> float | None:
    """Of a node's memory what the matrix may take, bytes: the GPUs' where it has some."""
    gpus = number(row, "gpus")
    if gpus and row["gpu_fraction"] != "1":
        return None
    memory = number(row, "gpu_memory_gib" if gpus else "memory_gib")
    return memory and (gpus or 1) * memory * _GIB * _FOR_MATRIX
