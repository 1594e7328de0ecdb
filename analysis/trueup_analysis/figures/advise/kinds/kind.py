"""What a kind of work is made of."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol

from trueup.cases import Case
from trueup.errors import BadInput
from trueup.options import Option

from ..backtest import expected, factor
from ..estimates import Assumption, Estimate, Evidence, Range, Refusal
from ..knowledge import Knowledge, number

_GIB: Final = 2**30

Ask = Mapping[str, Any]
# By its name, an assumption's value instead of its own.
Assumed = Mapping[str, float]


@dataclass(frozen=True)
class Point:
    """One known result, or with no rate one that is asked for.

    Attributes:
        label: which one, for a reader.
        size, nodes: what it ran on; the size as the catalog's.
        rate: what is predicted, in the kind's unit.
        traits: what else a prediction needs to know of it.
    """

    label: str
    size: str
    nodes: int
    rate: float = 0.0
    traits: Mapping[str, Any] = field(default_factory=dict)
    evidence: Evidence | None = None
    # Results of another condition say nothing of it.
    condition: str = ""


@dataclass(frozen=True)
class Prediction:
    """A rate from known points, which of them, what they have not seen, and whether what else was
    asked for is held (None: nothing says so)."""

    rate: float
    evidence: tuple[Evidence, ...]
    beyond: str = ""
    notes: tuple[str, ...] = ()
    held: bool | None = None
    units: int = 1


class Tells(Protocol):
    """What has known results, each of which others predict."""

    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def points(self) -> Callable[[Knowledge], Sequence[Point]]: ...
    @property
    def predict(self) -> Callable[[Point, Sequence[Point], Knowledge], Prediction | None]: ...


@dataclass(frozen=True)
class Kind:
    """One kind of work.

    Attributes:
        name, title: as it is asked for and shown.
        options: what is asked; a required one has no default.
        unit: of the rates of its points.
        points: the known results.
        predict: the rate of a point from others; None where they say nothing of it.
        need: what the work of an ask takes.
        tool: whose log tells of such work, by the name of its parser.
        logged: what the work of a log took, or what it answers of the kind's questions.
        assumptions: what is taken for granted of any ask.
        unasked: the terms that say nothing of such work.
        silent: where nothing known says how long it takes, what to measure.
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


class Work(Protocol):
    """The file of a kind, as a module; one that has any has ``ASSUMPTIONS``, ``UNASKED`` and
    ``silent`` too."""

    __name__: str

    @property
    def OPTIONS(self) -> Sequence[Option]: ...  # noqa: N802 WHY: a module's constant
    def points(self, known: Knowledge, /) -> Sequence[Point]: ...
    def predict(
        self, target: Point, others: Sequence[Point], known: Knowledge, /
    ) -> Prediction | None: ...
    def need(self, ask: Ask, assumed: Assumed, known: Knowledge, /) -> Need: ...
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
    )


class Place(NamedTuple):
    """The fewest nodes that can do it, None where no number can, and why so many cannot."""

    least: int | None
    why: Callable[[int], str]
    # The part of their room that the work fills, by nodes.
    part: Callable[[int], float] = lambda _: 1.0


def _plain(size: str, nodes: int) -> Point:
    return Point("", size, nodes)


@dataclass(frozen=True)
class Need:
    """What a piece of work asks of a machine.

    Attributes:
        work: in the unit of the kind's rates times seconds; of a service, all of its term.
        memory: bytes of all nodes together.
        room: the bytes that a node of the catalog's row has for it; None where it is no machine
            for this kind.
        words: what takes the memory, in the plural, for a refusal.
        unsaid: what a log leaves open, as a sentence.
        filled: the part of the memory that the work must fill for its known rates to hold.
        term: hours of a service, whose nodes are paid for all of them; 0 of work with an end.
        spare: the share of its term that nodes of a service are not there.
        asked: the point to predict for a size and a number of nodes.
        fit: which nodes of a size can do it, where memory and room do not say so; None where it is
            no machine for this kind.
    """

    work: Range
    memory: float
    room: Callable[[Mapping[str, str]], float | None]
    words: str
    unsaid: str = ""
    filled: float = 0.0
    term: float = 0.0
    spare: float = 0.0
    asked: Callable[[str, int], Point] = _plain
    fit: Callable[[str], Place | None] | None = None

    def place(self, size: str, row: Mapping[str, str]) -> Place | None:
        if self.fit:
            return self.fit(size)
        room = self.room(row)
        if not room:
            return None
        return Place(
            math.ceil(self.memory / room),
            lambda nodes: _too_large(self, room * nodes),
            lambda nodes: self.memory / (room * nodes),
        )


def estimates(
    kind: Kind, need: Need, known: Knowledge, most_nodes: int
) -> list[Estimate | Refusal]:
    """Every size that could be for the kind, on 1, 2, 4, ... and the most nodes; a service on as
    many as it takes. More than one node of other work are tried where they have InfiniBand; where
    no result speaks of a choice, there is none."""
    every = known.once((kind.name, "points"), lambda: kind.points(known))
    made = _Maker(kind, need, known, every)
    found: list[Estimate | Refusal] = []
    for size, row in known.sizes.items():
        place = None if size in known.withheld else need.place(size, row)
        if place is None:
            continue
        if need.term:
            found += _service(made, size, place, most_nodes)
            continue
        for nodes in sorted({*(2**power for power in range(most_nodes.bit_length())), most_nodes}):
            if place.least is None or nodes < place.least:
                found.append(Refusal(size, nodes, place.why(nodes), place.least))
            elif nodes == 1 or number(row, "rdma_nics"):
                one = made.estimate(size, nodes, place.part(nodes))
                found += [one] if one else []
    return found


def _service(made: _Maker, size: str, place: Place, most_nodes: int) -> list[Estimate | Refusal]:
    """The service on as many nodes as are expected to hold its rate, and on as many as hold it at
    the slow end too; servers side by side share nothing, so that twice the nodes serve twice as
    much."""
    term = made.need.term * 3600 * (1 - made.need.spare)
    if place.least is None or place.least > most_nodes:
        return [Refusal(size, most_nodes, place.why(most_nodes), place.least)]
    one = made.estimate(size, place.least, 1.0)
    if one is None:
        what = made.need.asked(size, place.least).condition
        reason = f"it fits, but no result tells its rate ({what}): measure it once, and ask again"
        return [Refusal(size, place.least, reason, None, unknown=True)]
    counts = {
        place.least * math.ceil(seconds / term * (1 - 1e-9))
        for seconds in (one.seconds.value, one.seconds.high)
    }
    few = [nodes for nodes in sorted(counts) if nodes <= most_nodes]
    if not few:
        reason = f"the rate takes {min(counts)} nodes; at most {most_nodes} are allowed"
        return [Refusal(size, most_nodes, reason, min(counts))]
    return [found for nodes in few if (found := made.estimate(size, nodes, 1.0)) is not None]


class _Maker(NamedTuple):
    """Estimates of one need."""

    kind: Kind
    need: Need
    known: Knowledge
    every: Sequence[Point]

    def estimate(self, size: str, nodes: int, part: float) -> Estimate | None:
        """None where no result speaks of it.

        Args:
            part: of the room of these nodes, what the work fills.
        """
        asked, need = self.need.asked(size, nodes), self.need
        alike = [one for one in self.every if one.condition == asked.condition]
        wide = self.known.once(
            (self.kind.name, asked.condition), lambda: factor(self.kind, alike, self.known)
        )
        made = None if wide is None else self.kind.predict(asked, alike, self.known)
        if made is None or wide is None:
            return None
        if part < need.filled:
            small = f"{need.words} fill {part:.1%} of what is there for them, results more."
            made = replace(made, beyond=" ".join(filter(None, (made.beyond, small))))
        seconds = need.work.by(expected(made, wide).under(1))
        return Estimate(
            *(size, nodes, seconds, made.evidence, made.beyond),
            notes=made.notes,
            held=made.held,
            units=made.units,
        )


def evidence_of(used: Iterable[Point]) -> tuple[Evidence, ...]:
    return tuple(dict.fromkeys(one.evidence for one in used if one.evidence))


class Near(NamedTuple):
    """A rate, the points that it is from, and the least and the most place of all."""

    rate: float
    used: list[Point]
    least: float
    most: float


def between(place: float, points: Iterable[Point], place_of: Callable[[Point], float]) -> Near:
    """The rate on the line between the two nearest places, both axes logarithmic; outside of all as
    much as the nearest. Of several points at a place it is their geometric mean.

    Args:
        points: at least one; places and rates are above 0.
    """
    found: dict[float, list[Point]] = {}
    for one in points:
        found.setdefault(place_of(one), []).append(one)
    least, most = min(found), max(found)
    nearest = min(max(place, least), most)
    below = max(one for one in found if one <= nearest)
    above = min(one for one in found if one >= nearest)
    low, high = (
        statistics.geometric_mean(one.rate for one in found[end]) for end in (below, above)
    )
    if below == above:
        return Near(low, found[below], least, most)
    part = math.log(place / below) / math.log(above / below)
    return Near(low ** (1 - part) * high**part, found[below] + found[above], least, most)


def logged_figure(case: Case, name: str) -> float:
    """What stands for a figure of a log.

    Raises:
        BadInput: the log does not have it.
    """
    value = case.plain(name)
    if value is None:
        raise BadInput(f"the log has no {name}, from which its work would follow")
    return value


def _too_large(need: Need, room: float) -> str:
    return f"{need.words} take {need.memory / _GIB:.0f} GiB; {room / _GIB:.0f} GiB are for them"
