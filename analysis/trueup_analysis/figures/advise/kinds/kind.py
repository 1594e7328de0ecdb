"""What a kind of work is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

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


@dataclass(frozen=True)
class Prediction:
    """A rate from known points, which of them, and what they have not seen."""

    rate: float
    evidence: tuple[Evidence, ...]
    beyond: str = ""


@dataclass(frozen=True)
class Kind:
    """One kind of work.

    Attributes:
        name, title: as it is asked for and shown.
        options: what is asked; a required one has no default.
        unit: of the rates of its points.
        assumptions: what is taken for granted for an ask.
        points: the known results.
        predict: the rate of a point from others; None where they say nothing of it.
        need: what the work of an ask takes.
        tool: whose log tells of such work, by the name of its parser.
        logged: what the work of a log took.
    """

    name: str
    title: str
    options: Sequence[Option]
    unit: str
    assumptions: Callable[[Ask], Sequence[Assumption]]
    points: Callable[[Knowledge], Sequence[Point]]
    predict: Callable[[Point, Sequence[Point], Knowledge], Prediction | None]
    need: Callable[[Ask, Assumed], Need]
    tool: str
    logged: Callable[[Case], Need]


@dataclass(frozen=True)
class Need:
    """What a piece of work asks of a machine.

    Attributes:
        work: in the unit of the kind's rates times seconds.
        memory: bytes of all nodes together.
        room: the bytes that a node of the catalog's row has for it; None where it is no machine
            for this kind.
        words: what takes the memory, in the plural, for a refusal.
        unsaid: what a log leaves open, as a sentence.
        filled: the part of the memory that the work must fill for its known rates to hold.
    """

    work: Range
    memory: float
    room: Callable[[Mapping[str, str]], float | None]
    words: str
    unsaid: str = ""
    filled: float = 0.0


def estimates(
    kind: Kind, need: Need, known: Knowledge, most_nodes: int
) -> list[Estimate | Refusal]:
    """Every size that could be for the kind, on 1, 2, 4, ... and the most nodes. More than one node
    are tried where they have InfiniBand; where no result speaks of a choice, there is none."""
    every = kind.points(known)
    wide = factor(kind, every, known)
    found: list[Estimate | Refusal] = []
    for size, row in known.sizes.items():
        room = need.room(row)
        if not room or size in known.withheld:
            continue
        least = math.ceil(need.memory / room)
        for nodes in sorted({*(2**power for power in range(most_nodes.bit_length())), most_nodes}):
            if nodes < least:
                found.append(Refusal(size, nodes, _too_large(need, room * nodes), least))
                continue
            if wide is None or (nodes > 1 and not number(row, "rdma_nics")):
                continue
            made = kind.predict(Point("", size, nodes), every, known)
            if made is not None:
                part = need.memory / (room * nodes)
                if part < need.filled:
                    small = f"{need.words} fill {part:.1%} of what is there for them, results more."
                    made = replace(made, beyond=" ".join(filter(None, (made.beyond, small))))
                seconds = need.work.by(expected(made, wide).under(1))
                found.append(Estimate(size, nodes, seconds, made.evidence, made.beyond))
    return found


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
