"""The parts of a kind of work."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from trueup_node.cases import Case
from trueup_node.errors import BadInput
from trueup_node.options import Option

from ..backtest import expected, width
from ..estimates import Assumption, Estimate, Range, Refusal
from ..knowledge import Knowledge, number
from ..points import Point, Prediction

_GIB: Final = 2**30

Ask = Mapping[str, Any]
# By its name, an assumption's value instead of its own.
Assumed = Mapping[str, float]


@dataclass(frozen=True)
class Kind:
    """One kind of work.

    Attributes:
        name, title: as it is asked for and shown.
        options: its questions; a required one has no default.
        unit: of the rates of its points.
        points: the known results.
        predict: the rate of a point from others; None where they say nothing of it.
        need: the demands of the work of an ask.
        tool: whose log tells of such work, by the name of its parser.
        logged: the demands of a log's work, or the kind's options as the log has them.
        assumptions: figures that are taken for granted of any ask.
        unasked: the terms that say nothing of such work.
        silent: the measurement to make where nothing known says how long it takes.
        rests: what answers rest on, where that is not the results of its tool.
        cuda_13: whether its role runs programs of CUDA 13 on GPUs.
    """

    name: str
    title: str
    options: Sequence[Option]
    unit: str
    points: Callable[[Knowledge], Sequence[Point]]
    predict: Callable[[Point, Sequence[Point], Knowledge], Prediction | None]
    need: Callable[[Ask, Assumed, Knowledge], Need]
    tool: str
    logged: Callable[[Case], Need | dict[str, Any]]
    assumptions: tuple[Assumption, ...] = ()
    unasked: tuple[str, ...] = ()
    silent: Callable[[Ask, Knowledge], str] | None = None
    rests: str = ""
    cuda_13: bool = False


class Work(Protocol):
    """The file of a kind, as a module; one that has any has ``ASSUMPTIONS``, ``UNASKED``,
    ``RESTS``, ``CUDA_13`` and ``silent`` too."""

    __name__: str

    @property
    def OPTIONS(self) -> Sequence[Option]: ...  # noqa: N802 WHY: a module's constant
    def points(self, knowledge: Knowledge, /) -> Sequence[Point]: ...
    def predict(
        self, target: Point, peers: Sequence[Point], knowledge: Knowledge, /
    ) -> Prediction | None: ...
    def need(self, ask: Ask, assumed: Assumed, knowledge: Knowledge, /) -> Need: ...
    def logged(self, case: Case, /) -> Need | dict[str, Any]: ...


def kind(of: Work, title: str, *, unit: str, tool: str) -> Kind:
    """The kind that a file describes, by the file's name."""
    return Kind(
        name=of.__name__.rpartition(".")[2],
        title=title,
        options=of.OPTIONS,
        unit=unit,
        points=of.points,
        predict=of.predict,
        need=of.need,
        tool=tool,
        logged=of.logged,
        assumptions=getattr(of, "ASSUMPTIONS", ()),
        unasked=getattr(of, "UNASKED", ()),
        silent=getattr(of, "silent", None),
        rests=getattr(of, "RESTS", ""),
        cuda_13=getattr(of, "CUDA_13", False),
    )


class Candidate(NamedTuple):
    """The fewest nodes that can do it, None where no number can, and why so many cannot."""

    least: int | None
    why: Callable[[int], str]


def _plain(size: str, nodes: int) -> Point:
    return Point("", size, nodes)


@dataclass(frozen=True)
class Need:
    """The demands of a piece of work on a machine.

    Attributes:
        work: in the unit of the kind's rates times seconds; of a service, all of its term.
        memory: bytes of all nodes together.
        room: the bytes that a node of the catalog's row has for it; None where it is no machine
            for this kind.
        words: the contents of the memory, in the plural, for a refusal.
        unsaid: facts that a log leaves open, as a sentence.
        term: hours of a service, whose nodes are paid for all of them; 0 of work with an end.
        asked: the point to predict for a size and a number of nodes.
        state: bytes of a checkpoint; 0 where they are not known, or there are none.
        served: of a service, its estimates and refusals.
    """

    work: Range
    memory: float
    room: Callable[[Mapping[str, str]], float | None]
    words: str
    unsaid: str = ""
    term: float = 0.0
    asked: Callable[[str, int], Point] = _plain
    state: float = 0.0
    served: Callable[[], list[Estimate | Refusal]] | None = None

    def place(self, row: Mapping[str, str]) -> Candidate | None:
        room = self.room(row)
        if not room:
            return None
        return Candidate(
            math.ceil(self.memory / room),
            lambda nodes: _too_large(self, room * nodes),
        )


def withheld_from(kind: Kind, knowledge: Knowledge) -> Mapping[str, str]:
    """By size, why it is not advised for work of a kind."""
    return knowledge.without_cuda_13 if kind.cuda_13 else knowledge.withheld


def estimates(
    kind: Kind, need: Need, knowledge: Knowledge, most_nodes: int
) -> list[Estimate | Refusal]:
    """Every size that could be for the kind, on 1, 2, 4, ... and the most nodes; a service on as
    many as it takes. More than one node of other work are tried where they have InfiniBand; where
    no result speaks of a choice, there is none."""
    if need.served:
        return need.served()
    every = knowledge.once((kind.name, "points"), lambda: kind.points(knowledge))
    maker = _Maker(kind, need, knowledge, every)
    withheld = withheld_from(kind, knowledge)
    outcomes: list[Estimate | Refusal] = []
    for size, row in knowledge.sizes.items():
        placement = None if size in withheld else need.place(row)
        if placement is None:
            continue
        # Nodes without InfiniBand are never advised together.
        least = placement.least if placement.least == 1 or number(row, "rdma_nics") else None
        for nodes in sorted({*(2**power for power in range(most_nodes.bit_length())), most_nodes}):
            if placement.least is None or nodes < placement.least:
                outcomes.append(Refusal(size, nodes, placement.why(nodes), least))
            elif nodes == 1 or number(row, "rdma_nics"):
                estimate = maker.estimate(size, nodes)
                outcomes += [estimate] if estimate else []
    return outcomes


class _Maker(NamedTuple):
    """Estimates of one need."""

    kind: Kind
    need: Need
    known: Knowledge
    every: Sequence[Point]

    def estimate(self, size: str, nodes: int) -> Estimate | None:
        """None where no result speaks of it."""
        target, need = self.need.asked(size, nodes), self.need
        alike = [point for point in self.every if point.condition == target.condition]
        wide = self.known.once(
            (self.kind.name, target.condition), lambda: width(self.kind, alike, self.known)
        )
        prediction = None if wide is None else self.kind.predict(target, alike, self.known)
        if prediction is None or wide is None:
            return None
        seconds = need.work.by(expected(prediction, wide).under(1))
        return Estimate(size, nodes, seconds, prediction.evidence, prediction.beyond)


class Near(NamedTuple):
    """A rate, the points that it is from, and the least and the most place of all."""

    rate: float
    used: list[Point]
    least: float
    most: float


def between(position: float, points: Iterable[Point], place_of: Callable[[Point], float]) -> Near:
    """The rate on the line between the two nearest places, both axes logarithmic; outside of all as
    much as the nearest. Of several points at a place it is their geometric mean.

    Args:
        points: at least one; places and rates are above 0.
    """
    by_position: dict[float, list[Point]] = {}
    for point in points:
        by_position.setdefault(place_of(point), []).append(point)
    least, most = min(by_position), max(by_position)
    nearest = min(max(position, least), most)
    below = max(known_position for known_position in by_position if known_position <= nearest)
    above = min(known_position for known_position in by_position if known_position >= nearest)
    low, high = (
        statistics.geometric_mean(point.rate for point in by_position[end])
        for end in (below, above)
    )
    if below == above:
        return Near(low, by_position[below], least, most)
    fraction = math.log(position / below) / math.log(above / below)
    return Near(
        low ** (1 - fraction) * high**fraction, by_position[below] + by_position[above], least, most
    )


def logged_figure(case: Case, name: str) -> float:
    """The value of a figure of a log.

    Raises:
        BadInput: the log does not have it.
    """
    value = case.plain(name)
    if value is None:
        raise BadInput(f"the log has no {name}, from which its work would follow")
    return value


def _too_large(need: Need, room: float) -> str:
    return f"{need.words} take {need.memory / _GIB:.0f} GiB; {room / _GIB:.0f} GiB are for them"
