"""Evidence that an answer rests on: the user's records, published results of the same model and
GPU, operator times of aiconfigurator, else the roofline alone."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ..advise.estimates import PUBLISHED as PUBLISHED_RESULT
from ..advise.kinds import serving
from ..evidence import names
from ..evidence import rows as evidence_rows
from ..evidence.near import Configuration, near
from .facts import slug
from .roofline import Layout, Work, gpu_of, sequences, speed, step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trueup_node.cases import Case

    from ..advise.engines import Engine, Load
    from ..advise.kinds.kind import Point
    from ..advise.knowledge import Knowledge
    from ..evidence.rows import Result
    from .config import ModelConfig
    from .roofline import Gpu

RECORDS, PUBLISHED = "your records", "published results"
OPERATORS, ROOFLINE = "aiconfigurator", "roofline"
TRUST: Final = (RECORDS, PUBLISHED, OPERATORS, ROOFLINE)
# How many times fewer, and more, requests than predicted an engine may serve. Records and results
# of the same model and GPU vary by setup; those of the roofline are the spread of
# docs/guides/model.md. Ours.
_SPREAD: Final = {RECORDS: 1.15, PUBLISHED: 1.4, OPERATORS: 1.5, ROOFLINE: 2.0}
_OVER_NODES: Final = 2.0
# Same model: parameters within this share; same precision: bytes of a parameter likewise.
_ALIKE: Final = 0.02
_WIDTH_ALIKE: Final = 0.15
# Parameters of a record that name its model.
_NAMES: Final = ("recipe", "served_model_name", "model_id", "model")
# Results of evidence.csv that count, the most alike.
_MOST_NEAR: Final = 6
# Layouts that the roofline speaks of: "tp8", "tp8 ep1", "tp2 x4".
_PARALLEL: Final = re.compile(r"tp(?P<tensor>\d+)(?: ep1)?(?: x(?P<servers>\d+))?")
# Memory that engines take, by their defaults, and their workspace; requests of a full engine.
_SHARE: Final = 0.92
_WORKSPACE: Final = 3 * 2**30
_MOST_FLIGHT: Final = 1024
# Results on prompts from the prefix cache tell nothing of others.
_CACHED: Final = 0.5


class Basis(NamedTuple):
    """Evidence of one size.

    Attributes:
        kind: one of TRUST.
        source: records, publication or program.
        rate: measured requests/s over those of the roofline; 1 without a measurement.
        low, high: factors of the rate between which it is expected.
    """

    kind: str
    source: str
    rate: float
    low: float
    high: float


def of_roofline() -> Basis:
    spread = _SPREAD[ROOFLINE]
    return Basis(ROOFLINE, "the GPU's datasheet", 1.0, 1 / spread, spread)


def over_nodes(basis: Basis) -> Basis:
    """The same with a wider range: no evidence is of a server over several nodes."""
    return basis._replace(low=basis.low / _OVER_NODES, high=basis.high * _OVER_NODES)


def of_operators(version: str) -> Basis:
    spread = _SPREAD[OPERATORS]
    return Basis(OPERATORS, f"aiconfigurator {version}", 1.0, 1 / spread, spread)


def of_results(
    model: ModelConfig,
    size: str,
    work: Work,
    knowledge: Knowledge,
    model_names: Sequence[str] = (),
) -> Basis | None:
    """From the user's records of this model on this size, else from published results of this model
    on this GPU.

    Args:
        model_names: beside the name of its folder.
    """
    slugs = {slug(name) for name in (model.name, *model_names) if name}
    if ratios := list(_recorded(model, slugs, size, knowledge)):
        return _of_ratios(RECORDS, ratios)
    ratios = [*_published(model, size, knowledge), *_near(model, slugs, size, work, knowledge)]
    return _of_ratios(PUBLISHED, ratios) if ratios else None


def _published(model: ModelConfig, size: str, knowledge: Knowledge) -> Iterator[tuple[float, str]]:
    """Of reference_results.csv: a model of as many parameters and the same precision."""
    gpu_model = knowledge.sizes[size]["gpu_model"]
    for point in knowledge.once(("model", "points"), lambda: serving.points(knowledge)):
        is_near = knowledge.sizes[point.size]["gpu_model"] == gpu_model
        is_published = point.evidence is not None and point.evidence.kind == PUBLISHED_RESULT
        if is_near and is_published and _is_of(model, point.traits["engine"]):
            source = point.evidence.source if point.evidence else ""
            for ratio in _ratio(model, point, knowledge):
                yield ratio, source


def _near(
    model: ModelConfig, slugs: set[str], size: str, work: Work, knowledge: Knowledge
) -> Iterator[tuple[float, str]]:
    """Of evidence.csv: the results of this model on this GPU whose requests are most alike."""
    gpu, gpu_model = gpu_of(size, knowledge), knowledge.sizes[size]["gpu_model"]
    rows = knowledge.once(("evidence",), lambda: evidence_rows.read(knowledge.folder))
    for name in sorted(set(map(names.model, slugs))):
        target = Configuration(
            name, gpu_model, tokens_in=work.tokens_in, tokens_out=work.tokens_out
        )
        alike = [
            each.result
            for each in near(rows, target, most=len(rows))
            if each.result.row.hardware == gpu_model
            and each.result.row.precision in ("", precision(model))
        ]
        tested = ((result, measured_over_computed(model, gpu, result)) for result in alike if gpu)
        usable = [(result.row, ratio) for result, ratio in tested if ratio]
        for row, ratio in usable[:_MOST_NEAR]:
            yield ratio, f"{row.repository} ({row.engine}, {row.date})"


def precision(model: ModelConfig) -> str:
    """Of the weights, in the words of evidence.csv."""
    narrowest = model.quantization.least_width
    if narrowest > 1:
        return "bf16"
    if narrowest == 1:
        return "fp8"
    return "fp4" if model.quantization.name in ("mxfp4", "modelopt") else "int4"


def measured_over_computed(model: ModelConfig, gpu: Gpu, result: Result) -> float | None:
    """Requests/s of a published result over those of the roofline for its layout and load; None
    where it does not say them, or they are not those of tensor parallel ranks."""
    row, layout = result.row, _PARALLEL.fullmatch(result.row.parallelism)
    rate = result.figures.get(evidence_rows.OUTPUT_RATE)
    if layout is None or not rate or not row.tokens_in or not row.tokens_out:
        return None
    tensor = int(layout["tensor"])
    servers = int(layout["servers"] or max(1, row.count // tensor))
    work = Work(round(row.tokens_in), round(row.tokens_out))
    ranks = Layout(tensor)
    room = gpu.memory_bytes * _SHARE - model.weight_bytes / tensor - _WORKSPACE
    most = sequences(room, model, ranks, work)
    in_flight = row.concurrency / servers if row.concurrency else min(_MOST_FLIGHT, most)
    if most < 1 or in_flight < 1 or model.heads % tensor:
        return None
    in_flight = min(in_flight, most)
    computed = speed(step(model, gpu, ranks, work, in_flight), work, in_flight)
    return rate / row.tokens_out / servers / computed.requests_per_second


def _recorded(
    model: ModelConfig, slugs: set[str], size: str, knowledge: Knowledge
) -> Iterator[tuple[float, str]]:
    """Measured over computed requests/s of each record of this model on this size, at as many
    requests in flight as its rate and latencies imply (Little's law)."""
    gpu = gpu_of(size, knowledge)
    for record in knowledge.own("vllm", "request_throughput"):
        case = record.case
        named = {slug(str(case.parameters[name])) for name in _NAMES if case.parameters.get(name)}
        load = _load(case)
        if gpu is None or record.size != size or slugs.isdisjoint(named) or load is None:
            continue
        work, seconds = load
        layout = Layout(int(case.parameters.get("tensor_parallel") or 1))
        rate = record.value / int(case.parameters.get("data_parallel") or 1)
        in_flight = max(1.0, rate * seconds)
        computed = speed(step(model, gpu, layout, work, in_flight), work, in_flight)
        yield rate / computed.requests_per_second, record.evidence.source


def _load(case: Case) -> tuple[Work, float] | None:
    """Tokens of a request and its seconds; None where the record does not hold them."""
    figures = [case.plain(name) for name in ("requests_completed", "input_tokens", "output_tokens")]
    times = [case.plain(name, "median") for name in ("ttft", "tpot")]
    if not all(figures) or None in times:
        return None
    requests, tokens_in, tokens_out = (float(figure or 0) for figure in figures)
    ttft, tpot = (float(seconds or 0) for seconds in times)
    each_in, each_out = round(tokens_in / requests), round(tokens_out / requests)
    cached = round(each_in * min(0.99, case.plain("prefix_cache_hit_rate") or 0.0))
    return Work(max(1, each_in), max(1, each_out), cached), ttft + (each_out - 1) * tpot


def _of_ratios(kind: str, ratios: list[tuple[float, str]]) -> Basis:
    logs = sorted(math.log(ratio) for ratio, _ in ratios)
    middle = math.fsum(logs) / len(logs)
    least, spread = math.log(_SPREAD[kind]), max(abs(log - middle) for log in logs)
    wide = max(least, spread)
    sources = "; ".join(dict.fromkeys(source for _, source in ratios))
    return Basis(kind, sources, math.exp(middle), math.exp(-wide), math.exp(wide))


def _is_of(model: ModelConfig, engine: Engine) -> bool:
    width = model.weight_bytes / model.parameters
    return (
        abs(engine.model.parameters / model.parameters - 1) <= _ALIKE
        and abs(engine.model.width / width - 1) <= _WIDTH_ALIKE
    )


def _ratio(model: ModelConfig, point: Point, knowledge: Knowledge) -> Iterator[float]:
    """Measured over computed requests/s, where the roofline speaks of that setup: one node, a
    prefix cache that holds less than half."""
    engine: Engine = point.traits["engine"]
    load: Load = point.traits["load"]
    gpu = gpu_of(point.size, knowledge)
    if gpu is None or engine.nodes > 1 or load.cached >= _CACHED:
        return
    if model.heads % engine.devices:
        return
    tokens_in = max(1, round(load.tokens_in))
    work = Work(tokens_in, max(1, round(load.tokens_out)), round(tokens_in * load.cached))
    layout = Layout(engine.devices)
    times = step(model, gpu, layout, work, load.in_flight)
    computed = speed(times, work, load.in_flight).requests_per_second
    measured = point.rate / load.tokens / point.traits["engines"]
    yield measured / computed
