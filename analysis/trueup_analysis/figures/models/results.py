"""Known results of serving as the roofline sees them: published ones, others' (evidence.csv) and
the user's records. Each is a point that the back-test predicts from the others."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.benchmarks.vllm.case import PROFILES

from ..advise import nearby, outside
from ..advise.estimates import PUBLISHED, Evidence
from ..advise.points import Point, Prediction, evidence_of
from ..evidence import names, rows
from . import known
from .facts import slug
from .roofline import Layout, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trueup_node.cases import Case

    from ..advise.knowledge import Knowledge
    from ..evidence.rows import Result, Row
    from .config import ModelConfig

NAME, UNIT = "serving", "tokens/s"
_LLAMA, _DEEPSEEK = "llama-3.1-8b", "deepseek-r1"
# Of prompts whose tokens a prefix cache holds for the most part, results tell nothing of others.
_CACHED: Final = 0.5
# Engines that keep the KV cache of FP8 weights in FP8 (ModelOpt's checkpoints).
_FP8_CACHE: Final = re.compile(r"tensorrt", re.IGNORECASE)
# Requests at a time at most where a result has as many as its engine takes: vLLM's default for
# large GPUs, and of trtllm-bench (tensorrt_llm/bench/build/tuning.py, 2025).
_USUAL_IN_FLIGHT: Final = 1024.0
_MOST_IN_FLIGHT: Final = {"tensorrt-llm": 4096.0}
_RANKS: Final = re.compile(r"\btp(\d+)")
# Results of pipelines are left out: no layout here has stages.
_PIPELINE: Final = re.compile(r"\bpp([2-9]|\d\d)")
# Parameters of a record that name its model.
_NAMES: Final = ("recipe", "served_model_name", "model_id", "model")
_LENGTHS: Final = re.compile(r"conc (?P<flight>\d+)(?:, (?:ISL/OSL )?(?P<tokens>\d{3,})\b)?")
# The walkthrough's benchmark, where a row does not say its tokens.
_WALKTHROUGH: Final = 1024.0


def condition(model: ModelConfig, work: Work) -> str:
    """Results of another condition say nothing of it."""
    kind = "mixture of experts" if model.experts else "dense"
    is_cached = work.cached >= _CACHED * work.tokens_in
    return f"{kind}, {'prefix cache' if is_cached else 'no prefix cache'}"


def point(
    size: str,
    model: ModelConfig,
    layout: Layout,
    work: Work,
    in_flight: float,
    rate: float = 0.0,
    label: str = "",
    evidence: Evidence | None = None,
    **more: Any,
) -> Point:
    """
    Args:
        in_flight: requests at a time of one group.
        rate: requests/s of one group; 0 of a question.
        more: groups, nodes, publisher, program and scenario, where they are not the usual ones.
    """
    groups, nodes = more.pop("groups", 1), more.pop("nodes", 1)
    traits = {
        "model": model,
        "layout": layout,
        "work": work,
        "in_flight": in_flight,
        "groups": groups,
        **more,
    }
    total = rate * groups * (work.tokens_in + work.tokens_out)
    return Point(label, size, nodes, total, traits, evidence, condition(model, work))


def predict(target: Point, peers: Sequence[Point], knowledge: Knowledge) -> Prediction | None:
    """Tokens a second by the roofline and the nearest results; None where no datasheet of its GPU
    is in the catalog, or there is no result."""
    basis = nearby.tell(target, peers, knowledge)
    if basis is None:
        return None
    work: Work = target.traits["work"]
    tokens = (work.tokens_in + work.tokens_out) * target.traits["groups"]
    evidence = evidence_of(basis.used)
    return Prediction(tokens / basis.seconds, evidence, distance=basis.distance, doubt=basis.doubt)


class Serving(NamedTuple):
    """The subject of a back-test (kind.Tells)."""

    name: str
    unit: str
    points: Callable[[Knowledge], Sequence[Point]]
    predict: Callable[[Point, Sequence[Point], Knowledge], Prediction | None]


def points(knowledge: Knowledge) -> list[Point]:
    """Tokens a second of all engines."""
    return [
        *_llama_profiles(knowledge),
        *_walkthrough(knowledge),
        *_outside(knowledge),
        *records(knowledge, partial(_model_of, knowledge)),
    ]


TELLS: Final = Serving(NAME, UNIT, points, predict)


def _llama_profiles(knowledge: Knowledge) -> Iterator[Point]:
    """The article's three profiles: rates of prompts and answers, lengths of the benchmarker's."""
    model = known.of_recipe(_LLAMA).model
    figures = {
        metric: {
            (row["system"], row["configuration"]): float(row["value"])
            for row in knowledge.results("vLLM Llama-3.1-8B-Instruct FP16", metric)
        }
        for metric in ("prompt_throughput", "kv_cache_hit_rate")
    }
    prompts, hits = figures.values()
    for row in knowledge.results("vLLM Llama-3.1-8B-Instruct FP16", "generation_throughput"):
        key = (row["system"], row["configuration"])
        profile = PROFILES.get(row["configuration"].partition(",")[0])
        is_known = row["system"] in knowledge.sizes and key in prompts and key in hits
        if not is_known or profile is None or profile.outputs is None:
            continue
        answers, length = float(row["value"]), profile.outputs.middle
        tokens_in = round(prompts[key] / answers * length)
        work = Work(tokens_in, round(length), round(tokens_in * hits[key] / 100))
        label = f"{model.name} BF16, {row['configuration'].partition(', HF')[0]}"
        yield point(
            *(row["system"], model, Layout(1), work, float(profile.max_concurrency)),
            *(answers / length, label, Evidence(PUBLISHED, row["source"])),
        )


def _walkthrough(knowledge: Knowledge) -> Iterator[Point]:
    """Published rows that say how many requests were in flight: Llama on one GPU, DeepSeek R1 with
    tensor parallel ranks on all GPUs."""
    for start, name, precision in (
        ("vLLM Llama-3.1-8B-FP8", _LLAMA, "fp8"),
        ("SGLang DeepSeek-R1", _DEEPSEEK, None),
    ):
        model = known.of_recipe(name, precision=precision).model
        for row in knowledge.results(start, "output_throughput"):
            match = _LENGTHS.search(row["configuration"])
            if not match or row["system"] not in knowledge.sizes:
                continue
            tokens = round(float(match["tokens"] or _WALKTHROUGH))
            layout = Layout(1 if precision else int(row["cores_or_gpus"]))
            days = re.findall(r"\d{4}-\d{2}-\d{2}", row["source"])
            yield point(
                *(row["system"], model, layout, Work(tokens, tokens), float(match["flight"])),
                *(float(row["value"]) / tokens, f"{row['benchmark']}, {row['configuration']}"),
                Evidence(PUBLISHED, row["source"], days[-1] if days else ""),
                nodes=int(row["nodes"]),
            )


def _outside(knowledge: Knowledge) -> Iterator[Point]:
    """Results of evidence.csv whose prompts' and answers' lengths are stated, without speculation
    and without pipeline parallelism."""
    by_name = names.models(knowledge.folder)
    for result in outside.results(knowledge):
        row = result.row
        size, figures = outside.size_of(row.hardware, knowledge), by_name.get(row.model)
        is_complete = row.tokens_in and row.tokens_out and rows.OUTPUT_RATE in result.figures
        if (
            row.kind == rows.SERVING
            and size is not None
            and figures is not None
            and is_complete
            and row.scenario in ("", "offline")
            and not _PIPELINE.search(row.parallelism)
        ):
            yield _of_row(result, size, figures, knowledge)


def _of_row(result: Result, size: str, figures: Mapping[str, str], knowledge: Knowledge) -> Point:
    row, rate = result.row, result.figures[rows.OUTPUT_RATE]
    has_small_cache = row.precision in ("fp8", "fp4") and bool(_FP8_CACHE.search(row.engine))
    model = knowledge.once(
        ("evidence model", row.model, row.precision, has_small_cache),
        lambda: known.of_published(row.model, figures, row.precision, 1 if has_small_cache else 2),
    )
    devices = _devices(row, model, size, knowledge)
    servers = max(1, row.count // devices)
    if row.concurrency:
        # With fewer requests in flight than servers, the others wait.
        servers = min(servers, math.ceil(row.concurrency))
    most = _MOST_IN_FLIGHT.get(row.engine.lower(), _USUAL_IN_FLIGHT)
    in_flight = row.concurrency / servers if row.concurrency else most
    work = Work(round(row.tokens_in), round(row.tokens_out))
    lengths = f"{work.tokens_in} in, {work.tokens_out} out, {in_flight:.0f} in flight"
    return point(
        *(size, model, Layout(devices), work, max(1.0, in_flight)),
        rate / row.tokens_out / servers,
        f"{row.publisher}: {row.model} {row.precision}, {devices} GPUs, {lengths}",
        outside.evidence_of(row),
        groups=servers,
        nodes=math.ceil(row.count / int(knowledge.sizes[size]["gpus"] or 1)),
        publisher=row.publisher,
        program=row.engine.lower().partition(" ")[0],
        scenario=row.scenario,
    )


def _devices(row: Row, model: ModelConfig, size: str, knowledge: Knowledge) -> int:
    """GPUs of one server: as stated, else the fewest that hold the weights."""
    if ranks := _RANKS.search(row.parallelism):
        return min(row.count, int(ranks[1]))
    memory = float(knowledge.sizes[size]["gpu_memory_gib"] or 0) * 2**30 * nearby.SHARE
    devices = 1
    while devices < row.count and devices * memory < model.weight_bytes:
        devices *= 2
    return min(row.count, devices)


def records(
    knowledge: Knowledge, model_of: Callable[[Case], ModelConfig | None]
) -> Iterator[Point]:
    """The user's records of models that ``model_of`` knows, with as many requests in flight as
    rate and latencies imply (Little's law), else as the client had."""
    for record in knowledge.own("vllm", "request_throughput"):
        case, model = record.case, model_of(record.case)
        is_changed = "quantization" in str(case.parameters.get("server_arguments"))
        if model is None or is_changed or (load := _load(case)) is None:
            continue
        work, seconds = load
        tensor = int(case.parameters.get("tensor_parallel") or 1)
        usual = max(1, (case.gpus or tensor) // tensor)
        groups = int(case.parameters.get("data_parallel") or usual)
        rate = record.value / groups
        if seconds is None:
            flight = str(case.parameters.get("max_concurrency"))
            if not flight.isdecimal() or case.parameters.get("ramp_up_start"):
                continue
            in_flight = float(flight) / groups
        else:
            in_flight = rate * seconds
        yield point(
            *(record.size, model, Layout(tensor), work, max(1.0, in_flight), rate),
            *(record.evidence.source, record.evidence),
            groups=groups,
            nodes=record.nodes,
        )


def _load(case: Case) -> tuple[Work, float | None] | None:
    """Tokens of a request, and its seconds where the record holds them."""
    figures = [case.plain(name) for name in ("requests_completed", "input_tokens", "output_tokens")]
    if not all(figures):
        return None
    requests, tokens_in, tokens_out = (float(figure or 0) for figure in figures)
    each_in, each_out = max(1, round(tokens_in / requests)), max(1, round(tokens_out / requests))
    cached = round(each_in * min(0.99, case.plain("prefix_cache_hit_rate") or 0.0))
    ttft, tpot = (case.plain(name, "median") for name in ("ttft", "tpot"))
    seconds = None if ttft is None or tpot is None else ttft + (each_out - 1) * tpot
    return Work(each_in, each_out, cached), seconds


def names_of(case: Case) -> set[str]:
    """The names that a record has for its model."""
    return {slug(str(case.parameters[name])) for name in _NAMES if case.parameters.get(name)}


def _model_of(knowledge: Knowledge, case: Case) -> ModelConfig | None:
    """Of a recipe's model."""
    for name in _NAMES:
        if value := case.parameters.get(name):
            named = known.called(str(value), knowledge.folder)
            if named is not None:
                return named.model
    return None
