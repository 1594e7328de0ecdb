"""The answer of ``trueup model``: sizes, layouts, number of nodes and cost for a load within a
service level, best first."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.errors import BadInput

from ..prices import LIST_OFFER
from . import basis as of_basis
from . import curves as of_curves
from . import layouts, operators
from .basis import Basis
from .curves import Level
from .layouts import Held
from .roofline import Gpu, Layout, Speed, Work, gpu_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ..advise.knowledge import Knowledge
    from ..prices import Book, Quote
    from .config import ModelConfig

MOST_CHOICES: Final = 5
_HOUR: Final = 3600
_MILLION: Final = 1e6
# 512 nodes of eight GPUs are more than any service of one model here.
_MOST_NODES: Final = 512


class Ask(NamedTuple):
    """A load and its service level.

    Attributes:
        rate: requests/s.
        sizes: VM sizes to look at; empty: all with GPUs that the role vllm installs for.
        region: empty: where each size is cheapest.
        names: of the model in records, beside that of its folder.
    """

    work: Work
    rate: float
    level: Level
    sizes: Sequence[str] = ()
    region: str = ""
    offer: str = LIST_OFFER
    names: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One size with one layout.

    Attributes:
        nodes, low_nodes, high_nodes: for the load: expected, at the high and at the low end of the
            rate's range.
        capacity: requests/s of a node within the level.
        limit: speed of a group at its capacity; speed: at the load asked for.
        quote: price of a node; None where the catalog has none.
    """

    size: str
    region: str
    held: Held
    gpu: Gpu
    basis: Basis
    nodes: int
    low_nodes: int
    high_nodes: int
    capacity: float
    limit: Speed
    speed: Speed
    curve: Sequence[Speed]
    quote: Quote | None

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
    config: Path | None = None,
    progress: Callable[[str], None] = lambda _text: None,
) -> Answer:
    """
    Args:
        config: of the model, for aiconfigurator; None: it is not asked.
        progress: is told the current step.
    """
    choices, refused, notes = [], {}, []
    program = operators.program() if config is not None else ""
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
        evidence = of_basis.of_results(model, size, ask.work, knowledge, ask.names)
        table: Mapping[Layout, list[Speed]] = {}
        if evidence is None and program and config is not None and gpu.model in operators.SYSTEMS:
            key = f"{gpu.model} x {gpus}"
            if key not in tables:
                progress(f"asking {operators.PROGRAM} about {key}")
                try:
                    tables[key] = operators.curves(
                        program, config, gpu.model, gpus, ask.work, ask.level
                    )
                except BadInput as error:
                    notes.append(f"{error}: the roofline speaks of {gpu.model}")
                    tables[key] = {}
            table = tables[key]
        made = _of_size(model, ask, size, gpu, held, evidence, table, book)
        if isinstance(made, str):
            refused[size] = made
        else:
            choices.append(made)
    choices.sort(key=_rank)
    return Answer(ask, choices, refused, notes)


def _rank(choice: Choice) -> tuple[bool, float, int, str]:
    """By the cost at the low end of the rate, so that a choice is not first because little is known
    of it."""
    usd = choice.usd_per_hour * choice.high_nodes / choice.nodes
    return (math.isnan(usd), 0.0 if math.isnan(usd) else usd, choice.nodes, choice.size)


def _of_size(
    model: ModelConfig,
    ask: Ask,
    size: str,
    gpu: Gpu,
    held: Sequence[Held],
    evidence: Basis | None,
    table: Mapping[Layout, list[Speed]],
    book: Book,
) -> Choice | str:
    """The layout with the fewest nodes, then with the most room; a sentence where none holds the
    level."""
    region, quote = _price(size, ask, book)
    candidates, misses = [], []
    for each in held:
        for curve, evidence_of_node in _curves(model, ask, gpu, each, evidence, table):
            limit = of_curves.best(curve, ask.level)
            if limit is None:
                misses.append(min(curve, key=lambda point: (point.tpot, point.ttft)))
                continue
            groups = each.layout.groups
            capacity = limit.requests_per_second * groups
            nodes = _nodes(ask.rate, capacity, each.layout)
            is_wide = each.layout.nodes > 1
            basis = of_basis.over_nodes(evidence_of_node) if is_wide else evidence_of_node
            per_group = ask.rate / (nodes // each.layout.nodes * groups)
            candidates.append(
                Choice(
                    size=size,
                    region=region,
                    held=each,
                    gpu=gpu,
                    basis=basis,
                    nodes=nodes,
                    low_nodes=_nodes(ask.rate, capacity * basis.high, each.layout),
                    high_nodes=_nodes(ask.rate, capacity * basis.low, each.layout),
                    capacity=capacity / each.layout.nodes,
                    limit=limit,
                    speed=of_curves.at_rate(curve, per_group),
                    curve=curve,
                    quote=quote,
                )
            )
    if candidates:
        best = min(candidates, key=lambda choice: (choice.nodes, -choice.capacity))
        if best.nodes > _MOST_NODES:
            return f"{best.nodes} nodes would be needed, more than {_MOST_NODES}"
        return best
    nearest = min(misses, key=lambda point: (point.tpot, point.ttft))
    return (
        f"misses the level with one request at a time: TTFT {nearest.ttft * 1000:.0f} ms,"
        f" TPOT {nearest.tpot * 1000:.1f} ms"
    )


def _curves(
    model: ModelConfig,
    ask: Ask,
    gpu: Gpu,
    held: Held,
    evidence: Basis | None,
    table: Mapping[Layout, list[Speed]],
) -> Iterator[tuple[list[Speed], Basis]]:
    """The curve of a layout, and the evidence that it rests on."""
    layout = held.layout
    if evidence is None and table:
        # The program says nothing of the layouts that it leaves out.
        if points := [
            point for point in table.get(layout, ()) if point.in_flight <= held.sequences
        ]:
            yield points, of_basis.of_operators(operators.VERSION)
        return
    curve = of_curves.of_roofline(model, gpu, layout, ask.work, held.sequences)
    basis = evidence or of_basis.of_roofline()
    yield of_curves.scaled(curve, basis.rate, 1 / basis.rate), basis


def _nodes(rate: float, capacity: float, layout: Layout) -> int:
    """Nodes whose servers hold the rate. A division's last digit must not buy another one."""
    return math.ceil(rate / capacity - 1e-9) * layout.nodes


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
