"""The answer of ``trueup model``: sizes, layouts, number of nodes and cost for a load within a
service level, best first."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.errors import BadInput

from ..advise.estimates import Range
from ..prices import LIST_OFFER
from . import basis as of_basis
from . import curves as of_curves
from . import layouts, operators, results
from .basis import Basis
from .curves import Level
from .layouts import Held
from .roofline import Gpu, Layout, Speed, Work, gpu_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..advise.knowledge import Knowledge
    from ..prices import Book, Quote
    from .config import ModelConfig

MOST_CHOICES: Final = 5
_HOUR: Final = 3600
_MILLION: Final = 1e6
# Of 114 times per token in evidence.csv 9 of 10 lie within this factor of the predicted one.
_TIMES: Final = 1.80
# At the low end a first token comes so many times later still: aiconfigurator's time over that of
# the roofline, whose prompts do not queue in vLLM's scheduler (docs/guides/model.md).
_LATER: Final = 2.6
# 512 nodes of eight GPUs are more than any service of one model here.
_MOST_NODES: Final = 512


class Ask(NamedTuple):
    """A load and its service level.

    Attributes:
        rate: requests/s.
        sizes: VM sizes to look at; empty: all with GPUs that the role vllm installs for.
        region: empty: where each size is cheapest.
        names: of the model in records, beside that of its folder.
        most_nodes: a size that needs more is refused.
    """

    work: Work
    rate: float
    level: Level
    sizes: Sequence[str] = ()
    region: str = ""
    offer: str = LIST_OFFER
    names: Sequence[str] = ()
    most_nodes: int = _MOST_NODES


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One size with one layout.

    Attributes:
        rate: requests/s asked for.
        capacity: requests/s of a node within the level; at the low end times are longer too, so
            that fewer requests in flight hold it.
        is_sure: the level is held at the low end.
        limit: speed of a group at its capacity; speed: at the load asked for.
        quote: price of a node; None where the catalog has none.
    """

    size: str
    held: Held
    gpu: Gpu
    basis: Basis
    rate: float
    capacity: Range
    is_sure: bool
    limit: Speed
    speed: Speed
    curve: Sequence[Speed]
    region: str = ""
    quote: Quote | None = None

    def _nodes_at(self, capacity: float) -> int:
        """Nodes whose servers hold the load. A division's last digit must not buy another one."""
        servers = math.ceil(self.rate / (capacity * self.layout.nodes) - 1e-9)
        return servers * self.layout.nodes

    @property
    def nodes(self) -> int:
        """Expected for the load."""
        return self._nodes_at(self.capacity.value)

    @property
    def low_nodes(self) -> int:
        """At the high end of the rate."""
        return self._nodes_at(self.capacity.high)

    @property
    def high_nodes(self) -> int:
        """At the low end of the rate."""
        return self._nodes_at(self.capacity.low)

    @property
    def layout(self) -> Layout:
        return self.held.layout

    @property
    def usd_per_hour(self) -> float:
        """Of all nodes; NaN without a price."""
        return self.quote.usd_per_hour * self.nodes if self.quote else math.nan

    def usd_per_million(self, ask: Ask, nodes: int | None = None) -> float:
        """US$ per million tokens, in and out, at the load asked for."""
        if self.quote is None:
            return math.nan
        tokens = ask.rate * (ask.work.tokens_in + ask.work.tokens_out) * _HOUR
        return self.quote.usd_per_hour * (nodes or self.nodes) * _MILLION / tokens


@dataclass(frozen=True)
class Answer:
    """
    Attributes:
        choices: cheapest first, at the low end of each rate; those without a price last.
        refused: sizes that cannot do it, and why.
        notes: sentences on evidence that could not be used.
    """

    ask: Ask
    choices: Sequence[Choice]
    refused: Mapping[str, str]
    notes: Sequence[str] = field(default=())


class Fitting(NamedTuple):
    """The layout of the fewest GPUs on a size; None where none fits, and why."""

    size: str
    held: Held | None
    reason: str


def memory(model: ModelConfig, ask: Ask, knowledge: Knowledge) -> list[Fitting]:
    """Each size with the layout of the fewest GPUs a server."""
    fittings = []
    for size in sizes_for(knowledge, ask.sizes):
        gpu = gpu_of(size, knowledge)
        if gpu is None:
            fittings.append(Fitting(size, None, _NO_DATASHEET))
            continue
        held, reason = _held(model, ask, size, gpu, knowledge)
        smallest = min(held, key=lambda each: (each.fit.devices, each.layout.tensor), default=None)
        fittings.append(Fitting(size, smallest, "" if smallest else reason))
    return fittings


_NO_DATASHEET: Final = "the catalog has no datasheet of its GPU, or it has a share of one"


def _held(
    model: ModelConfig, ask: Ask, size: str, gpu: Gpu, knowledge: Knowledge
) -> tuple[list[Held], str]:
    row = knowledge.sizes[size]
    has_fabric = bool(int(row["rdma_nics"] or 0))
    return layouts.fitting(model, size, int(row["gpus"]), gpu, ask.work, has_fabric=has_fabric)


def sizes_for(knowledge: Knowledge, sizes: Sequence[str]) -> list[str]:
    """The sizes named, or all with GPUs that are advised for the role vllm.

    Raises:
        BadInput: a named size is not of the catalog, is not advised, or has no GPU.
    """
    if sizes:
        knowledge.require(sizes, knowledge.without_cuda_13)
        for size in sizes:
            if not int(knowledge.sizes[size]["gpus"] or 0):
                raise BadInput(f"{size} has no GPU: the role vllm serves a recipe for CPUs there")
        return list(dict.fromkeys(sizes))
    return [
        size
        for size, row in knowledge.sizes.items()
        if int(row["gpus"] or 0) and size not in knowledge.without_cuda_13
    ]


def answer(
    model: ModelConfig,
    ask: Ask,
    knowledge: Knowledge,
    book: Book,
    *,
    document: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda _text: None,
) -> Answer:
    """The choices with their prices.

    Args:
        document, progress: as of ``plans``.
    """
    planned = plans(model, ask, knowledge, document=document, progress=progress)
    choices = []
    for choice in planned.choices:
        region, quote = _price(choice.size, ask, book)
        choices.append(replace(choice, region=region, quote=quote))
    return replace(planned, choices=sorted(choices, key=_rank))


def plans(
    model: ModelConfig,
    ask: Ask,
    knowledge: Knowledge,
    *,
    document: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda _text: None,
) -> Answer:
    """Each size with its best layout, without prices.

    Args:
        document: the model's config.json, for aiconfigurator; None: it is not asked.
        progress: is told the current step.
    """
    choices, refused, notes = [], {}, []
    program = operators.program() if document else ""
    tables: dict[str, Mapping[Layout, list[Speed]]] = {}
    for size in sizes_for(knowledge, ask.sizes):
        gpu = gpu_of(size, knowledge)
        if gpu is None:
            refused[size] = _NO_DATASHEET
            continue
        gpus = int(knowledge.sizes[size]["gpus"])
        held, reason = _held(model, ask, size, gpu, knowledge)
        if not held:
            refused[size] = reason
            continue
        nearest = [_nearest(model, ask, size, gpu, each, knowledge) for each in held]
        is_measured = any(basis.kind != of_basis.ROOFLINE for _, basis in nearest)
        table: Mapping[Layout, list[Speed]] = {}
        if not is_measured and program and document and gpu.model in operators.SYSTEMS:
            key = f"{gpu.model} x {gpus}"
            if key not in tables:
                progress(f"asking {operators.PROGRAM} about {key}")
                try:
                    tables[key] = operators.curves(
                        program, document, gpu.model, gpus, ask.work, ask.level
                    )
                except BadInput as error:
                    notes.append(f"{error}: the roofline speaks of {gpu.model}")
                    tables[key] = {}
            table = tables[key]
        choice = _of_size(ask, size, gpu, held, nearest, table)
        if isinstance(choice, str):
            refused[size] = choice
        else:
            choices.append(choice)
    return Answer(ask, choices, refused, notes)


def _nearest(
    model: ModelConfig, ask: Ask, size: str, gpu: Gpu, held: Held, knowledge: Knowledge
) -> tuple[list[Speed], Basis]:
    """The curve of a layout by the roofline and the evidence nearest to it."""
    curve = of_curves.of_roofline(model, gpu, held.layout, ask.work, held.sequences)
    basis = of_basis.of_records(model, ask.names, size, knowledge)
    if basis is None:
        limit = of_curves.best(curve, ask.level) or curve[0]
        target = results.point(size, model, held.layout, ask.work, limit.in_flight)
        basis = of_basis.of_nearest(target, knowledge)
    return of_curves.scaled(curve, basis.rate, 1 / basis.rate), basis


def _rank(choice: Choice) -> tuple[bool, float, int, str]:
    """By the cost at the low end of the rate, so that a choice is not first because little is known
    of it."""
    usd = choice.usd_per_hour * choice.high_nodes / choice.nodes
    return (math.isnan(usd), 0.0 if math.isnan(usd) else round(usd, 4), choice.nodes, choice.size)


def _of_size(
    ask: Ask,
    size: str,
    gpu: Gpu,
    held: Sequence[Held],
    nearest: Sequence[tuple[list[Speed], Basis]],
    table: Mapping[Layout, list[Speed]],
) -> Choice | str:
    """The layout with the fewest nodes, at the low end of its rate too; of several one that results
    of the model speak of, then the one with the most room. A sentence where none holds the
    level."""
    candidates, misses = [], []
    # The program says nothing of the layouts that it leaves out.
    has_times = any(table.get(each.layout) for each in held)
    for each, (scaled, of_layout) in zip(held, nearest, strict=True):
        curve, basis = scaled, of_layout
        if has_times:
            points = table.get(each.layout, ())
            curve = [point for point in points if point.in_flight <= each.sequences]
            basis = of_basis.of_operators(operators.VERSION)
        if not curve:
            continue
        limit = of_curves.best(curve, ask.level)
        if limit is None:
            misses.append(min(curve, key=lambda point: (point.tpot, point.ttft)))
            continue
        groups = each.layout.groups
        basis = basis.over_nodes() if each.layout.nodes > 1 else basis
        times = basis.high if basis.kind == of_basis.RECORDS else max(basis.high, _TIMES)
        slow = of_curves.scaled(curve, basis.low, times)
        slow = [point._replace(ttft=point.ttft * _LATER) for point in slow]
        fast = of_curves.scaled(curve, basis.high, 1 / times)
        low, high = (of_curves.best(points, ask.level) for points in (slow, fast))
        ends = (low or min(slow, key=_flight), limit, high or limit)
        choice = Choice(
            size=size,
            held=each,
            gpu=gpu,
            basis=basis,
            rate=ask.rate,
            capacity=Range(
                *sorted(end.requests_per_second * groups / each.layout.nodes for end in ends)
            ),
            is_sure=low is not None,
            limit=limit,
            speed=limit,
            curve=curve,
        )
        per_group = ask.rate / (choice.nodes // each.layout.nodes * groups)
        candidates.append(replace(choice, speed=of_curves.at_rate(curve, per_group)))
    if candidates:
        best = min(candidates, key=_preferred)
        if best.nodes > ask.most_nodes:
            return f"{best.nodes} nodes would be needed, more than {ask.most_nodes}"
        return best
    nearest_miss = min(misses, key=lambda point: (point.tpot, point.ttft))
    return (
        f"misses the level with one request at a time: TTFT {nearest_miss.ttft * 1000:.0f} ms,"
        f" TPOT {nearest_miss.tpot * 1000:.1f} ms"
    )


def _flight(point: Speed) -> float:
    return point.in_flight


def _preferred(choice: Choice) -> tuple[int, int, bool, float]:
    is_rough = choice.basis.kind == of_basis.ROOFLINE
    return (choice.nodes, choice.high_nodes, is_rough, -choice.capacity.value)


def _price(size: str, ask: Ask, book: Book) -> tuple[str, Quote | None]:
    """Region and price: of the region asked for, else of the cheapest."""
    if ask.region:
        return ask.region, book.find(size, ask.region, "linux", ask.offer)
    quotes = {
        key[1]: quote
        for key, quote in book.quotes.items()
        if key[0] == size.lower() and key[2:] == ("linux", ask.offer)
    }
    if not quotes:
        return "", None
    region = min(quotes, key=lambda name: (quotes[name].usd_per_hour, name))
    return region, quotes[region]


def without_level(choice: Choice) -> Speed:
    """The group's highest rate, whatever the times."""
    return max(choice.curve, key=lambda point: point.requests_per_second)


def flags(choice: Choice) -> dict[str, Any]:
    """Flags of ``vllm serve`` that make the layout."""
    recipe, layout = choice.held.recipe, choice.layout
    groups = layout.data * layout.nodes
    return {
        "tensor-parallel-size": layout.tensor,
        **({"data-parallel-size": groups} if groups > 1 else {}),
        **({"enable-expert-parallel": True} if layout.expert else {}),
        "max-model-len": recipe["max_model_len"],
        "gpu-memory-utilization": recipe["memory_share"],
        "max-num-seqs": max(1, math.ceil(choice.limit.in_flight)),
        "max-num-batched-tokens": recipe["arguments"]["max-num-batched-tokens"],
    }
