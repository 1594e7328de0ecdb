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


def _peak(size: str, knowledge: Knowledge) -> float | None:
    """FP64 peak of a node, with tensor cores where it has GPUs, flop/s."""
    row = knowledge.sizes[size]
    gpus = number(row, "gpus")
    if gpus:
        each = number(row, "gpu_peak_fp64_tensor_gflops_each")
        return None if each is None else gpus * each * 1e9
    gflops = number(row, "peak_fp64_gflops")
    return None if gflops is None else gflops * 1e9


def points(knowledge: Knowledge) -> list[Point]:
    """HPL's rate on all nodes, flop/s; a Top500 system by the size in its name."""
    known_points = []
    for row in knowledge.results("HPL", "rmax"):
        named = _NAMED.search(row["system"])
        size = f"Standard_{named['size']}" if named else row["system"]
        if size in knowledge.sizes and row["nodes"]:
            known_points.append(
                Point(
                    label=f"{row['system']} x {row['nodes']}",
                    size=size,
                    nodes=int(row["nodes"]),
                    rate=float(row["value"]) * _UNITS[row["unit"]],
                    evidence=Evidence(PUBLISHED, row["source"]),
                )
            )
    known_points += [
        Point(record.evidence.source, record.size, record.nodes, record.value, {}, record.evidence)
        for record in knowledge.own("hpl", "hpl_rate")
    ]
    return known_points


def predict(target: Point, peers: Sequence[Point], knowledge: Knowledge) -> Prediction | None:
    """The share of the peak that others reach: of the same size, else GPUs of GPUs and CPUs of
    CPUs."""
    peak = _peak(target.size, knowledge)
    gpus = bool(number(knowledge.sizes[target.size], "gpus"))
    alike = [
        (peer, peer.rate / (peer_peak * peer.nodes))
        for peer in peers
        if (peer_peak := _peak(peer.size, knowledge))
        and bool(number(knowledge.sizes[peer.size], "gpus")) == gpus
    ]
    same = [pair for pair in alike if pair[0].size == target.size]
    used = same or alike
    if peak is None or not used:
        return None
    share = math.exp(math.fsum(math.log(peer_share) for _, peer_share in used) / len(used))
    evidence = tuple(dict.fromkeys(peer.evidence for peer, _ in used if peer.evidence))
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
    """The part of a node's memory for the matrix, bytes: the GPUs' where it has some."""
    gpus = number(row, "gpus")
    if gpus and row["gpu_fraction"] != "1":
        return None
    memory = number(row, "gpu_memory_gib" if gpus else "memory_gib")
    return memory and (gpus or 1) * memory * _GIB * _FOR_MATRIX
