"""Serving of a language model: a rate of requests for a term.

The time of a request follows from first principles and the nearest results (module nearby): our
records, published tables, and results of others (module outside). Results on a prefix cache, and of
mixtures of experts, are conditions of their own.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.benchmarks.vllm.case import PROFILES
from trueup_node.errors import BadInput
from trueup_node.options import Option

from .. import nearby, outside
from ..engines import (
    PRECISIONS,
    Engine,
    Load,
    Model,
    engine_of,
    named,
    of_config,
    of_numbers,
    of_recipe,
)
from ..estimates import MODEL, PUBLISHED, RECORD, SAME, Assumption, Evidence, around
from ..evens import away
from ..knowledge import Knowledge, UserFigure, number
from ..stops import ASSUMED_EVICTIONS
from .kind import Ask, Assumed, Candidate, Need, Point, Prediction, logged_figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trueup_node.cases import Case

_HOUR: Final = 3600
_SILENT: Final = "no result of this size, model, lengths and rate tells it"
_LLAMA, _DEEPSEEK = "llama-3.1-8b", "deepseek-r1"
# Of prompts whose tokens a prefix cache holds for the most part, results tell nothing of others.
_CACHED: Final = 0.5
# Requests of the same kind: tokens in and out within this factor.
_ALIKE: Final = 1.25
_USUAL_FLIGHT: Final = 128
_FOUND: Final = 5.0
# Parameters of a record that name its model.
_NAMES: Final = ("recipe", "served_model_name", "model_id", "model")

OPTIONS: Final = (
    Option("model", "A vLLM recipe's name, or the path of a config.json.", type="str"),
    Option(
        "parameters_billion",
        "Parameters of the model, in 10^9.",
        type="float",
        least=1e-3,
        most=1e5,
    ),
    Option(
        "active_parameters_billion",
        "Parameters that a token meets, in 10^9; without it all.",
        type="float",
        least=1e-3,
    ),
    Option("layers", "Decoder layers.", type="int", least=1, most=10_000),
    Option("kv_heads", "Heads of keys and values.", type="int", least=1, most=10_000),
    Option("head_dim", "Size of a head.", type="int", least=1, most=100_000),
    Option("precision", f"Of the weights: {', '.join(PRECISIONS)}.", type="str"),
    Option("input_tokens", "Tokens of a prompt.", type="int", required=True, least=1, most=10**7),
    Option("output_tokens", "Tokens of an answer.", type="int", required=True, least=1, most=10**7),
    Option(
        "requests_per_second",
        "Requests a second that must be held.",
        type="float",
        required=True,
        least=1e-6,
        most=1e6,
    ),
    Option(
        "prefix_cached_share",
        "Share of a prompt's tokens that the prefix cache holds.",
        0.0,
        type="float",
        most=0.99,
    ),
    Option("ttft_ms", "Time to the first token to hold, ms.", type="float", least=1e-3),
    Option("tpot_ms", "Time of a further token to hold, ms.", type="float", least=1e-3),
    Option("most_nodes", "Nodes at most.", 64, least=1, most=1024),
    Option(
        "term_hours",
        "Hours that it serves; 730 are a month.",
        730.0,
        type="float",
        least=1,
        most=87600,
    ),
    Option(
        "restart_minutes",
        "Minutes until a node that failed or was taken away serves again (ours, not measured).",
        15.0,
        type="float",
        most=1440,
    ),
    *(
        Option(
            f"api_usd_per_million_{token_kind}",
            f"An API's price of a million {token_kind} tokens, US$.",
            type="float",
            most=1e6,
        )
        for token_kind in ("input", "output")
    ),
    Option(
        "reserved_usd_per_hour",
        "Price of a reserved node, US$ an hour; with one size in sizes.",
        type="float",
        least=1e-3,
    ),
)


# The terms that say nothing of a service.
UNASKED: Final = (
    *("deadline_hours", "checkpoint_seconds", "checkpoint_to", "checkpoint_tib", "idle_hours"),
)
# The role vllm installs PyTorch of CUDA 13.
CUDA_13: Final = True
ASSUMPTIONS: Final = (
    Assumption(
        *("in_flight", float(_USUAL_FLIGHT), 32.0, float(_USUAL_FLIGHT), "requests"),
        "at a time on one engine, 128 as in results; more than results had count as theirs",
    ),
    Assumption(
        *("engine_scaling", 1.0, 0.8, 1.0, "1"),
        "rate of an engine beside others on its node over its rate alone; no result has several"
        " (ours)",
    ),
)


class Heard(NamedTuple):
    """The latencies of a result: seconds (medians), at requests/s of one engine."""

    size: str
    engine: Engine
    load: Load
    rate: float
    seconds: Mapping[str, float]
    source: str


def _condition(engine: Engine, load: Load) -> str:
    model = "dense" if engine.model.dense else "mixture of experts"
    return f"{model}, {'prefix cache' if load.cached >= _CACHED else 'no prefix cache'}"


def points(knowledge: Knowledge) -> list[Point]:
    """Tokens a second of all engines, published and our own, of engines that are kept busy."""
    known_points = []
    for row_points in (*_llama_profiles(knowledge), *_walkthrough(knowledge)):
        known_points += row_points
    known_points += [_outside_point(result) for result in outside.served(knowledge)]
    return known_points + [
        _point(
            record.evidence.source, record.size, record.nodes, setup, record.value, record.evidence
        )
        for record in knowledge.own("vllm", "total_token_throughput")
        if _busy(record.case) and (setup := _told(record, knowledge))
    ]


def _point(
    label: str,
    size: str,
    nodes: int,
    setup: tuple[Engine, Load, int],
    rate: float,
    evidence: Evidence,
) -> Point:
    engine, load, engines = setup
    traits = {"engine": engine, "load": load, "engines": engines, "scaling": 1.0}
    condition = _condition(engine, load)
    return Point(label, size, nodes, rate, traits, evidence, condition)


def _outside_point(result: outside.Served) -> Point:
    row, load = result.row, result.load
    lengths = f"{load.tokens_in:.0f} in, {load.tokens_out:.0f} out, {load.in_flight:.0f} in flight"
    label = f"{row.publisher}: {row.model} {row.precision}, {result.engine.devices} GPUs, {lengths}"
    point = _point(
        label,
        result.size,
        result.nodes,
        (result.engine, load, result.engines),
        result.rate * load.tokens / load.tokens_out,
        result.evidence,
    )
    more = {
        "publisher": row.publisher,
        "program": row.engine.lower().partition(" ")[0],
        "scenario": row.scenario,
    }
    return replace(point, traits={**point.traits, **more})


def _llama_profiles(knowledge: Knowledge) -> Iterator[list[Point]]:
    """The article's three profiles: rates of prompts and answers, lengths of the benchmarker's."""
    model = of_recipe(_LLAMA)
    prompts = {
        (row["system"], row["configuration"]): float(row["value"])
        for row in knowledge.results("vLLM Llama-3.1-8B-Instruct FP16", "prompt_throughput")
    }
    hits = {
        (row["system"], row["configuration"]): float(row["value"]) / 100
        for row in knowledge.results("vLLM Llama-3.1-8B-Instruct FP16", "kv_cache_hit_rate")
    }
    for row in knowledge.results("vLLM Llama-3.1-8B-Instruct FP16", "generation_throughput"):
        key = (row["system"], row["configuration"])
        profile = PROFILES.get(row["configuration"].partition(",")[0])
        if row["system"] not in knowledge.sizes or profile is None or profile.outputs is None:
            continue
        if key not in prompts or key not in hits:
            continue
        answers, length = float(row["value"]), float(profile.outputs.middle)
        load = Load(prompts[key] / answers * length, length, hits[key], profile.max_concurrency)
        engine, _, _ = engine_of(model, row["system"], load, knowledge)
        if engine is not None:
            evidence = Evidence(PUBLISHED, row["source"])
            label = f"{model.name} BF16, {row['configuration'].partition(', HF')[0]}"
            rate = answers + prompts[key]
            yield [_point(label, row["system"], 1, (engine, load, 1), rate, evidence)]


_LENGTHS: Final = re.compile(r"conc (?P<flight>\d+)(?:, (?:ISL/OSL )?(?P<tokens>\d{3,})\b)?")
# The walkthrough's benchmark, where a row does not say its tokens.
_WALKTHROUGH: Final = 1024.0


def _walkthrough(knowledge: Knowledge) -> Iterator[list[Point]]:
    for row, load in _walkthrough_rows(knowledge, "output_throughput"):
        engine = _walkthrough_engine(row, load, knowledge)
        if engine is not None:
            evidence = Evidence(PUBLISHED, row["source"], _day(row["source"]))
            label = f"{row['benchmark']}, {row['configuration']}"
            rate = float(row["value"]) * load.tokens / load.tokens_out
            setup = (engine, load, 1)
            yield [_point(label, row["system"], int(row["nodes"]), setup, rate, evidence)]


def _walkthrough_rows(
    knowledge: Knowledge, metric: str
) -> Iterator[tuple[Mapping[str, str], Load]]:
    """Published rows that say how many requests were in flight, and their load."""
    for start in ("vLLM Llama-3.1-8B-FP8", "SGLang DeepSeek-R1"):
        for row in knowledge.results(start, metric):
            match = _LENGTHS.search(row["configuration"])
            if match and row["system"] in knowledge.sizes:
                tokens = float(match["tokens"] or _WALKTHROUGH)
                yield row, Load(tokens, tokens, 0.0, float(match["flight"]))


def _walkthrough_engine(row: Mapping[str, str], load: Load, knowledge: Knowledge) -> Engine | None:
    """The engine of a published row: Llama on one GPU, DeepSeek R1 with tensor parallel ranks on
    all GPUs, each of which has a part of the weights and all of the KV cache (MLA)."""
    if row["benchmark"].startswith("vLLM"):
        model = of_recipe(_LLAMA).at("fp8")
        return engine_of(model, row["system"], load, knowledge)[0]
    model, devices = of_recipe(_DEEPSEEK), int(row["cores_or_gpus"])
    engine, _, _ = engine_of(model, row["system"], load, knowledge)
    if engine is None:
        return None
    weights, token = model.parameters * model.width, engine.token * devices
    return engine._replace(
        nodes=int(row["nodes"]), devices=devices, weights=weights, token=token, each=1
    )


def _day(source: str) -> str:
    days = re.findall(r"\d{4}-\d{2}-\d{2}", source)
    return days[-1] if days else ""


def _busy(case: Case) -> bool:
    """All requests at once, or as many in flight as it was told: the server was not waiting."""
    parameters = case.parameters
    return (
        not parameters.get("ramp_up_start")
        and str(parameters.get("request_rate") or "inf") == "inf"
    )


def _told(record: UserFigure, knowledge: Knowledge) -> tuple[Engine, Load, int] | None:
    """Engine, load and number of engines of one of our records; None where it does not say them."""
    case, load, model = record.case, _load(record.case), _served(record.case, knowledge)
    if load is None or model is None or not case.gpus or _is_changed(case, model):
        return None
    engine, _, least = engine_of(model, record.size, load, knowledge)
    if engine is None or case.gpus % engine.devices or record.nodes % (least or 1):
        return None
    engines = case.gpus // engine.devices
    return engine, load._replace(in_flight=load.in_flight / engines), engines


def _load(case: Case) -> Load | None:
    requests, tokens_in, tokens_out = (
        case.plain(name) for name in ("requests_completed", "input_tokens", "output_tokens")
    )
    if not requests or not tokens_in or not tokens_out:
        return None
    flight = str(case.parameters.get("max_concurrency"))
    return Load(
        tokens_in / requests,
        tokens_out / requests,
        min(case.plain("prefix_cache_hit_rate") or 0.0, 0.99),
        float(flight) if flight.isdecimal() and int(flight) else requests,
    )


def _served(case: Case, knowledge: Knowledge) -> Model | None:
    called = (case.parameters.get(name) for name in _NAMES)
    models = (named(str(name), knowledge.folder) for name in called if name)
    return next((model for model in models if model), None)


def _is_changed(case: Case, model: Model) -> bool:
    """Served in another precision, or by other ranks, than its recipe."""
    usual = model.recipe["tensor_parallel"]
    ranks = case.parameters.get("tensor_parallel") or usual
    return ranks != usual or "quantization" in str(case.parameters.get("server_arguments"))


def predict(target: Point, peers: Sequence[Point], knowledge: Knowledge) -> Prediction | None:
    """Tokens a second: from results of the same size, model, lengths and ranks, our records
    before published ones; else from the nearest results (module nearby)."""
    alike = _alike(target, peers)
    basis = _of_alike(target, alike, knowledge) if alike else None
    basis = basis or nearby.tell(target, peers, knowledge)
    if basis is None:
        return None
    load, engines = target.traits["load"], target.traits["engines"]
    scaling = target.traits["scaling"] if target.traits["engine"].each > 1 else 1.0
    evidence = tuple(dict.fromkeys(point.evidence for point in basis.used if point.evidence))
    if basis.distance != SAME:
        evidence += (Evidence(MODEL, "shares of the datasheets' BF16 peak and bandwidth"),)
    notes, held = _latency(target, knowledge)
    return Prediction(
        rate=load.tokens / basis.seconds * engines * scaling,
        evidence=evidence,
        beyond=_beyond(target, peers, knowledge),
        notes=notes,
        held=held,
        units=engines,
        distance=basis.distance,
    )


def _alike(target: Point, peers: Sequence[Point]) -> list[Point]:
    same = [
        peer
        for peer in peers
        if peer.size == target.size
        and _is_alike(target, peer)
        and _reads_alike(target.traits["engine"], peer.traits["engine"])
    ]
    return [peer for peer in same if peer.evidence and peer.evidence.kind == RECORD] or same


def _of_alike(target: Point, alike: Sequence[Point], knowledge: Knowledge) -> nearby.Nearby | None:
    """As many times longer than computed as the results took, whose requests in flight are nearest
    to the number asked for."""
    used = _nearest(target, alike)
    question = nearby.seen(target, knowledge)
    computed = [nearby.seen(point, knowledge) for point in used]
    if question is None or not all(computed):
        return None
    logs = [
        math.log(_each(point) / sum(other.parts))
        for point, other in zip(used, computed, strict=True)
        if other
    ]
    seconds = math.exp(math.fsum(logs) / len(logs)) * sum(question.parts)
    return nearby.Nearby(seconds, used, SAME)


def _nearest(target: Point, points: Sequence[Point]) -> list[Point]:
    """Of a sweep, the results whose requests in flight are nearest to the number asked for."""
    in_flight = target.traits["load"].in_flight
    away = [abs(math.log(point.traits["load"].in_flight / in_flight)) for point in points]
    least = min(away, default=0.0) + math.log(_ALIKE)
    return [point for point, far in zip(points, away, strict=True) if far <= least]


def _each(point: Point) -> float:
    """Seconds that one engine takes for a request, all of them in flight counted."""
    tokens: float = point.traits["load"].tokens * point.traits["engines"]
    return tokens / point.rate


def _is_alike(point: Point, other: Point) -> bool:
    return (
        point.traits["engine"].model.is_like(other.traits["engine"].model)
        and point.traits["engine"].devices == other.traits["engine"].devices
        and _same_lengths(point.traits["load"], other.traits["load"])
    )


def _same_lengths(load: Load, other: Load) -> bool:
    return all(
        max(mine, theirs) / min(mine, theirs) <= _ALIKE
        for mine, theirs in (
            (load.tokens_in, other.tokens_in),
            (load.tokens_out, other.tokens_out),
        )
    )


def _beyond(target: Point, peers: Sequence[Point], knowledge: Knowledge) -> str:
    """How the target lies outside of the results of its condition."""
    phrases = [_other_gpus(target, peers, knowledge), _other_ranks(target, peers)]
    load = target.traits["load"]
    for what, value, seen in (
        ("tokens in", load.tokens_in, [peer.traits["load"].tokens_in for peer in peers]),
        ("tokens out", load.tokens_out, [peer.traits["load"].tokens_out for peer in peers]),
        # Any server finds a share of a few in a hundred.
        (
            "% of the prompt cached",
            max(load.cached * 100, _FOUND),
            [max(peer.traits["load"].cached * 100, _FOUND) for peer in peers],
        ),
    ):
        if not min(seen) / _ALIKE <= value <= max(seen) * _ALIKE:
            phrases.append(
                f"{value:g} {what}, where results have {min(seen):.0f} to {max(seen):.0f}"
            )
    words = "; ".join(filter(None, phrases))
    return f"{words}." if words else ""


def _other_gpus(target: Point, peers: Sequence[Point], knowledge: Knowledge) -> str:
    model: Model = target.traits["engine"].model
    gpu, bits = knowledge.sizes[target.size]["gpu_model"], f"{8 * model.width:g} bits"
    models = [peer.traits["engine"].model for peer in peers]
    gpus = [knowledge.sizes[peer.size]["gpu_model"] for peer in peers]
    phrases = [] if gpu in gpus else [f"no result of {gpu}"]
    if not any(model.is_like(other_model) for other_model in models):
        phrases.append(f"no result of this model at {bits}")
    elif gpu in gpus and not any(
        model.is_like(other_model) and gpu == where
        for other_model, where in zip(models, gpus, strict=True)
    ):
        phrases.append(f"no result of this model at {bits} on {gpu}")
    return "; ".join(phrases)


def _other_ranks(target: Point, peers: Sequence[Point]) -> str:
    engine: Engine = target.traits["engine"]
    peer_engines: list[Engine] = [peer.traits["engine"] for peer in peers]
    if engine.devices not in {peer_engine.devices for peer_engine in peer_engines}:
        return f"no result of an engine of {engine.devices} GPUs"
    of_model = [
        peer_engine
        for peer_engine in peer_engines
        if engine.model.is_like(peer_engine.model) and peer_engine.devices == engine.devices
    ]
    if of_model and not any(_reads_alike(engine, peer_engine) for peer_engine in of_model):
        return "results of this model have other parallel ranks (tensor parallel)"
    return ""


def _reads_alike(engine: Engine, other: Engine) -> bool:
    """The same weights and KV cache on each GPU, of the same number of them."""
    return math.isclose(engine.weights, other.weights, rel_tol=0.05) and math.isclose(
        engine.token, other.token, rel_tol=0.05
    )


def _latency(target: Point, knowledge: Knowledge) -> tuple[tuple[str, ...], bool | None]:
    """A sentence on each latency asked for, and whether all are held: by results at the rate that
    one engine gets, on the same size, model and lengths. A latency held at a higher rate is held
    here too; one missed at a lower rate is missed."""
    limits: Mapping[str, float] = target.traits.get("limits", {})
    notes, verdicts = [], []
    for name, limit in limits.items():
        rate = target.traits["asked"] / target.traits["engines"]
        words, held = f"{name.upper()} of {limit * 1000:g} ms was not judged: {_SILENT}", None
        for run in knowledge.once(("serving", "latency"), lambda: list(_heard(knowledge))):
            # A latency that is missed once is not held, whatever another result says.
            if held is False or name not in run.seconds or not _tells_of(run, target):
                continue
            verdict = run.seconds[name] <= limit
            if verdict == (run.rate >= rate) or math.isclose(run.rate, rate, rel_tol=0.01):
                held = verdict
                words = (
                    f"{name.upper()} of {limit * 1000:g} ms {'held' if held else 'missed'}:"
                    f" {run.seconds[name] * 1000:.4g} ms (median) at {run.rate:.3g} requests/s an"
                    f" engine, asked are {rate:.3g} ({run.source})"
                )
        notes.append(words)
        verdicts.append(held)
    if False in verdicts:
        return tuple(notes), False
    return tuple(notes), True if verdicts and None not in verdicts else None


def _tells_of(run: Heard, target: Point) -> bool:
    engine, load = target.traits["engine"], target.traits["load"]
    return (
        run.size == target.size
        and run.engine.devices == engine.devices
        and _reads_alike(run.engine, engine)
        and run.engine.model.is_like(engine.model)
        and _condition(run.engine, run.load) == target.condition
        and _same_lengths(run.load, load)
    )


def _heard(knowledge: Knowledge) -> Iterator[Heard]:
    rates = {
        (row["system"], row["benchmark"], row["configuration"]): float(row["value"])
        for row, _ in _walkthrough_rows(knowledge, "output_throughput")
    }
    for metric in ("median_tpot", "tpot"):
        for row, load in _walkthrough_rows(knowledge, metric):
            engine = _walkthrough_engine(row, load, knowledge)
            rate = rates.get((row["system"], row["benchmark"], row["configuration"]))
            if engine is not None and rate:
                seconds = {"tpot": float(row["value"]) / 1000}
                requests = rate / load.tokens_out
                yield Heard(row["system"], engine, load, requests, seconds, row["source"])
    for record in knowledge.own("vllm", "request_throughput"):
        setup = _told(record, knowledge)
        if setup:
            engine, load, engines = setup
            medians = {
                name: value
                for name in ("ttft", "tpot")
                if (value := record.case.plain(name, "median")) is not None
            }
            yield Heard(
                record.size, engine, load, record.value / engines, medians, record.evidence.source
            )


def _model(ask: Ask, knowledge: Knowledge) -> Model:
    precision, model = ask["precision"], ask["model"]
    if precision is not None and precision not in PRECISIONS:
        raise BadInput(f"precision {precision} is none of {', '.join(PRECISIONS)}")
    if model and model.endswith(".json"):
        return of_config(Path(model), ask)
    if model:
        if ask["parameters_billion"]:
            raise BadInput(f"{model} has its own parameters: give either of the two")
        return of_recipe(model, knowledge.folder).at(precision)
    if ask["parameters_billion"]:
        return of_numbers(ask)
    raise BadInput("no model is named: give model (a recipe, a config.json) or parameters_billion")


def need(ask: Ask, assumed: Assumed, knowledge: Knowledge) -> Need:
    if assumed["engine_scaling"] > 1:
        raise BadInput("engine_scaling is above 1: an engine is not faster beside others")
    if ask["reserved_usd_per_hour"] and len(ask["sizes"]) != 1:
        raise BadInput("reserved_usd_per_hour is the price of one size: name it with sizes")
    model = _model(ask, knowledge)
    load = Load(
        float(ask["input_tokens"]),
        float(ask["output_tokens"]),
        ask["prefix_cached_share"],
        assumed["in_flight"],
    )
    limits = {
        name: ask[f"{name}_ms"] / 1000 for name in ("ttft", "tpot") if ask[f"{name}_ms"] is not None
    }
    engines_by_size = {
        size: engine_of(model, size, load, knowledge)
        for size, row in knowledge.sizes.items()
        if number(row, "gpus") and size not in knowledge.without_cuda_13
    }
    rate = ask["requests_per_second"]

    def target_point(size: str, nodes: int) -> Point:
        engine = engines_by_size[size][0]
        assert engine is not None  # noqa: S101 (asked only where it fits)
        traits: dict[str, Any] = {
            "engine": engine,
            "load": load,
            "scaling": assumed["engine_scaling"],
            "engines": nodes // engine.nodes * engine.each,
            "limits": limits,
            "asked": rate,
        }
        return Point("", size, nodes, traits=traits, condition=_condition(engine, load))

    def fit(size: str) -> Candidate | None:
        if size not in engines_by_size:
            return None
        _, reason, least = engines_by_size[size]
        return Candidate(least, lambda _: f"{reason}; {_smallest(engines_by_size, knowledge)}")

    stops = 1 / ask["node_mtbf_hours"]
    if "spot" in ask["offers"]:
        stops += ask["spot_evictions_per_hour"] or ASSUMED_EVICTIONS
    return Need(
        work=around(rate * ask["term_hours"] * _HOUR * load.tokens, 1.0),
        memory=0.0,
        room=lambda _: None,
        words="weights and KV cache",
        term=ask["term_hours"],
        spare=away(stops, ask["restart_minutes"]),
        asked=target_point,
        fit=fit,
    )


def _smallest(
    engines_by_size: Mapping[str, tuple[Engine | None, str, int | None]], knowledge: Knowledge
) -> str:
    """The size that holds it with the least memory of GPUs, one node before several."""

    def weight(size: str) -> tuple[int, float, float, str]:
        row, nodes = knowledge.sizes[size], engines_by_size[size][2] or 1
        memory = (number(row, "gpus") or 0) * (number(row, "gpu_memory_gib") or 0)
        return nodes, nodes * memory, number(row, "memory_gib") or 0.0, size

    held = [size for size, (engine, _, _) in engines_by_size.items() if engine is not None]
    if not held:
        return "no size of the catalog holds it"
    least = min(held, key=weight)
    return f"the smallest that holds it: {engines_by_size[least][2]} x {least}"


def logged(case: Case) -> dict[str, Any]:
    """The load that a log tells, and the model where it is a recipe's."""
    requests = logged_figure(case, "requests_completed")
    each = {
        f"{name}_tokens": max(1, round(logged_figure(case, f"{name}_tokens") / requests))
        for name in ("input", "output")
    }
    return {**each, "requests_per_second": logged_figure(case, "request_throughput")}
