"""CFD, weather and other codes that memory bandwidth bounds: a run of yours on another machine.

The catalog has no rate of such a code. What a machine does follows from one run that you measured:
times the geometric mean of the ratios of memory bandwidth (as documented and as STREAM reaches it,
catalog/vm_sizes.csv) and of cores, since such codes gain less than bandwidth and more than cores.
How far that is off is what it is off for Devito, the bandwidth-bound code whose published results
on several sizes the catalog has.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any, Final

from trueup_node.errors import BadInput
from trueup_node.options import Option

from ..estimates import Assumption, Evidence, Range
from ..knowledge import Knowledge, number
from ..points import Point, Prediction, evidence_of
from . import stencil
from .kind import Ask, Assumed, Need

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_node.cases import Case


_GIB: Final = 2**30
_HOUR: Final = 3600
# Of a node's memory, for the case; the rest is the system's and MPI's. Ours, not measured.
_FOR_CASE: Final = 0.85
_EFFICIENCY: Final = 0.93

OPTIONS: Final = (
    Option("hours", "How long your run took.", type="float", required=True, least=1e-3),
    Option("on_size", "The VM size that it ran on.", type="str", required=True),
    Option("on_nodes", "How many nodes it ran on.", 1, least=1),
    Option("memory_gib", "Memory of the run on all nodes, GiB.", type="float", required=True),
)
ASSUMPTIONS: Final = (
    Assumption(
        "doubling_efficiency",
        _EFFICIENCY,
        0.8,
        1.0,
        "1",
        "of twice the nodes over InfiniBand (ours: less where few cells are left to a core, more"
        " where the case then fits into the caches)",
    ),
)
RESTS: Final = (
    "Answers rest on one run of yours, and on how well published results of Devito follow the same"
    " rule: no result of OpenFOAM, Fluent, STAR-CCM+ or WRF is known here."
)
points = stencil.points


def predict(target: Point, peers: Sequence[Point], knowledge: Knowledge) -> Prediction | None:
    """The rate of your run by bandwidth and cores; of a published result that of the others."""
    base: Point | None = target.traits.get("base")
    efficiency = target.traits.get("efficiency", _EFFICIENCY)
    bases = [base] if base else [peer for peer in peers if peer.nodes == target.nodes] or peers
    rates = [
        each.rate * ratio * _scaling(target.nodes / each.nodes, efficiency)
        for each in bases
        if (ratio := _ratio(target.size, each.size, knowledge)) is not None
    ]
    if not rates:
        return None
    beyond = []
    if base and target.size != base.size:
        sizes = (knowledge.sizes[target.size]["series"], knowledge.sizes[base.size]["series"])
        beyond.append(
            f"no result of your code on {sizes[0]}: that of {sizes[1]} by memory bandwidth and"
            " cores."
        )
    if base and target.nodes != base.nodes:
        beyond.append(f"your run has {base.nodes} nodes.")
    model = Evidence("model", "memory bandwidth and cores, catalog/vm_sizes.csv")
    known = (Evidence("our record", "your run"),) if base else evidence_of(bases)
    own = base is not None and (target.size, target.nodes) == (base.size, base.nodes)
    evidence = known if own else (*known, model)
    return Prediction(statistics.geometric_mean(rates), evidence, " ".join(beyond))


def _scaling(nodes: float, efficiency: float) -> float:
    return float(nodes ** (1 + math.log2(efficiency)))


def _ratio(size: str, base: str, knowledge: Knowledge) -> float | None:
    """Of one node over one of another size; None where a figure is missing."""
    if size == base:
        return 1.0
    rows = [knowledge.sizes[name] for name in (size, base)]
    bandwidths, cores = (
        [number(row, column) for row in rows] for column in ("memory_bandwidth_gbps", "vcpus")
    )
    if not all(bandwidths) or not all(cores):
        return None
    return math.sqrt(
        (bandwidths[0] or 1) / (bandwidths[1] or 1) * (cores[0] or 1) / (cores[1] or 1)
    )


def need(ask: Ask, assumed: Assumed, knowledge: Knowledge) -> Need:
    size = next(
        (name for name in knowledge.sizes if name.lower() == str(ask["on_size"]).lower()), None
    )
    if size is None or not number(knowledge.sizes[size], "memory_bandwidth_gbps"):
        raise BadInput(
            f"on_size {ask['on_size']}: the catalog has no memory bandwidth of it; give the size of"
            " a run on HBv2, HBv3, HBv4, HBv5 or HX"
        )
    base = Point("your run", size, ask["on_nodes"], rate=1 / (ask["hours"] * _HOUR))
    held = ask["memory_gib"] * _GIB

    def target_point(name: str, nodes: int) -> Point:
        traits = {"base": base, "efficiency": assumed["doubling_efficiency"]}
        return Point("", name, nodes, traits=traits)

    return Need(
        work=Range(1.0, 1.0, 1.0),
        memory=held,
        room=_room,
        words="meshes and fields",
        # A checkpoint is not larger than that.
        state=held,
        asked=target_point,
    )


def logged(_: Case) -> dict[str, Any]:
    raise BadInput("no log of such a code is read: give hours, on_size, on_nodes and memory_gib")


def _room(row: Mapping[str, str]) -> float | None:
    memory = number(row, "memory_gib")
    bound = number(row, "memory_bandwidth_gbps") and not number(row, "gpus")
    return memory * _GIB * _FOR_CASE if memory and bound else None
