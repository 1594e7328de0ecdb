"""Finite differences on a regular grid, as Devito's acoustic forward operator computes them.

Known rates are flop/s as Devito counts them. An update of one grid point at space order 8 takes 45
of them (Devito 4.8.23, 17.07 GFLOP/s at 0.38 GPts/s: tests/data/devito/serial.log). The published
article does not say its space order; a stencil is bound by memory, so its updates a second and not
its operations are taken to be those of another order.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any, Final

from trueup_node.errors import BadInput
from trueup_node.options import Option

from ..estimates import PUBLISHED, RECORD, Assumption, Evidence, around
from ..knowledge import Knowledge, number
from ..points import Point, Prediction, evidence_of
from .kind import Ask, Assumed, Need, between, logged_figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_node.cases import Case


_BENCHMARK: Final = "devito benchmark.py"
# Three time levels of the wavefield, the model and the damping of the absorbing layers.
_FIELDS: Final = 5
_BYTES: Final = 4
# Those of a checkpoint: two time levels, from which the third follows.
_KEPT_FIELDS: Final = 2
# Of a node's memory, for the fields; the rest is the system's, MPI's and Python's.
_FOR_FIELDS: Final = 0.8
_GIB: Final = 2**30
_DIMENSIONS: Final = 3
_PER_UPDATE: Final = 45.0
# Between orders 4 and 16.
_ORDERS: Final = 1.6

OPTIONS: Final = (
    Option("grid", "Points in x, y, z.", type="list", elements="int", required=True, least=8),
    Option("steps", "Time steps.", type="int", required=True, least=1),
    Option("space_order", "Order of the stencil in space.", 8, least=2, multiple_of=2),
    Option("nbl", "Absorbing boundary layers on each side, in points.", 10),
)


ASSUMPTIONS: Final = (
    Assumption(
        *(
            "flops_per_update",
            _PER_UPDATE,
            _PER_UPDATE / _ORDERS,
            _PER_UPDATE * _ORDERS,
            "flop",
        ),
        "Devito's own count at space order 8; 1.6 times less and more, since the published runs"
        " do not say their order",
    ),
)


def _cores(size: str, knowledge: Knowledge) -> float:
    return number(knowledge.sizes.get(size, {}), "vcpus") or math.nan


def points(knowledge: Knowledge) -> list[Point]:
    """Flop rates of Devito, published and our own (flop/s of all nodes)."""
    known_points = [
        Point(
            label=f"{row['nodes']} x {row['system']}, {row['configuration']}",
            size=row["system"],
            nodes=int(row["nodes"]),
            rate=float(row["value"]) * 1e9,
            traits={"series": row["configuration"]},
            evidence=Evidence(PUBLISHED, row["source"], _year(row["source"])),
        )
        for row in knowledge.results(_BENCHMARK, "throughput")
        if row["nodes"] and row["system"] in knowledge.sizes
    ]
    for record in knowledge.own("devito", "flop_rate", model="acoustic"):
        traits = {"series": record.case.run_id}
        known_points.append(
            Point(
                record.evidence.source,
                record.size,
                record.nodes,
                record.value,
                traits,
                record.evidence,
            )
        )
    return known_points


def _year(source: str) -> str:
    """The date at a source's end, as in "..., 2023-12-19)"."""
    words = source.rstrip(")").rpartition(", ")[2]
    return words if words[:4].isdigit() else ""


def predict(target: Point, peers: Sequence[Point], knowledge: Knowledge) -> Prediction | None:
    """The flop rate of a size on some nodes: of one node, from the same size or from those of its
    family by their cores; of more, times the speed-up of the series that ran on as many."""
    single = _one_node(target.size, [peer for peer in peers if peer.nodes == 1], knowledge)
    if single is None or target.nodes == 1:
        return single
    speedup = _speedup(target, peers)
    if speedup is None:
        return None
    return Prediction(
        single.rate * speedup.rate,
        tuple(dict.fromkeys(single.evidence + speedup.evidence)),
        " ".join(filter(None, (single.beyond, speedup.beyond))),
    )


def _one_node(size: str, peers: Sequence[Point], knowledge: Knowledge) -> Prediction | None:
    same = [peer for peer in peers if peer.size == size]
    if same:
        ours = [peer for peer in same if peer.evidence and peer.evidence.kind == RECORD]
        used = ours or same
        return Prediction(statistics.geometric_mean(peer.rate for peer in used), evidence_of(used))
    row = knowledge.sizes[size]
    family = [peer for peer in peers if knowledge.sizes[peer.size]["family"] == row["family"]]
    if len(family) > 1:
        return _between(_cores(size, knowledge), family, knowledge)
    bandwidth = number(row, "memory_bandwidth_gbps")
    if bandwidth is None or number(row, "gpus"):
        return None
    scaled = [
        (peer, peer.rate * bandwidth / theirs)
        for peer in peers
        if (theirs := number(knowledge.sizes[peer.size], "memory_bandwidth_gbps"))
    ]
    if not scaled:
        return None
    # The bandwidth of a family limits its best rate; fewer cores or more do not reach it.
    best = max(scaled, key=lambda pair: pair[1])
    beyond = (
        f"no result of {row['series']}: that of {knowledge.sizes[best[0].size]['series']} times the"
        " ratio of their memory bandwidths."
    )
    model = Evidence("model", "memory bandwidth, catalog/vm_sizes.csv")
    return Prediction(best[1], (*evidence_of([best[0]]), model), beyond)


def _between(cores: float, family: Sequence[Point], knowledge: Knowledge) -> Prediction | None:
    """On the line between the two nearest numbers of cores, both axes logarithmic; where there is
    none on one side, as much as the nearest."""
    if math.isnan(cores):
        return None
    rate, used, least, most = between(cores, family, lambda point: _cores(point.size, knowledge))
    beyond = ""
    if not least <= cores <= most:
        beyond = f"{cores:g} cores lie outside of the {least:g} to {most:g} seen."
    return Prediction(rate, evidence_of(used), beyond)


def _speedup(target: Point, peers: Sequence[Point]) -> Prediction | None:
    """Over one node, by the series of others that have one; between two numbers of nodes, and past
    the last, on the line through the nearest two, both axes logarithmic."""
    series: dict[Any, dict[int, Point]] = {}
    for peer in peers:
        series.setdefault((peer.traits["series"], peer.size), {})[peer.nodes] = peer
    speedups, used = [], []
    most = 0
    for members in series.values():
        if 1 not in members or len(members) < 2:
            continue
        counts = sorted(members)
        most = max(most, counts[-1])
        low = max(count for count in counts if count <= target.nodes)
        high = min((count for count in counts if count >= target.nodes), default=None)
        if high is None:
            low, high = counts[-2], counts[-1]
        ratio = {count: members[count].rate / members[1].rate for count in (low, high)}
        if low == high:
            speedups.append(ratio[low])
        else:
            fraction = math.log(target.nodes / low) / math.log(high / low)
            speedups.append(ratio[low] ** (1 - fraction) * ratio[high] ** fraction)
        used += [members[low], members[high]]
    if not speedups:
        return None
    beyond = ""
    if target.nodes > most:
        beyond = f"no series ran on more than {most} nodes."
    return Prediction(statistics.geometric_mean(speedups), evidence_of(used), beyond)


def need(ask: Ask, assumed: Assumed, _: Knowledge) -> Need:
    if len(ask["grid"]) != _DIMENSIONS:
        raise BadInput(f"grid has {len(ask['grid'])} lengths: it must be three, as 512x512x512")
    held = math.prod(length + 2 * ask["nbl"] for length in ask["grid"])
    # The work in operations is as uncertain as they are by update, unless that was given.
    doubt = 1.0 if "flops_per_update" in ask else _ORDERS
    return Need(
        work=around(held * ask["steps"] * assumed["flops_per_update"], doubt),
        memory=held * _FIELDS * _BYTES,
        room=_room,
        words=f"{_FIELDS} fields in single precision",
        state=held * _KEPT_FIELDS * _BYTES,
    )


def logged(case: Case) -> Need:
    work = logged_figure(case, "flop_rate") * logged_figure(case, "run_time")
    unsaid = "The log does not say its grid: whether its fields fit was not checked."
    return Need(around(work, 1.0), 0.0, _room, "fields", unsaid)


def _room(row: Mapping[str, str]) -> float | None:
    memory = number(row, "memory_gib")
    return memory * _GIB * _FOR_FIELDS if memory and not number(row, "gpus") else None
