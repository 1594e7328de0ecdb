"""llm-d's Benchmark Report, versions 0.1, 0.2 and 0.2.1, as YAML or JSON
(llmdbenchmark/analysis/benchmark_report/schema_v0_1.py, schema_v0_2.py)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from trueup_node.errors import ParseError

from .guidellm import WEIGHTED
from .schema import Draft, Figure, at, number, seconds_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_LATENCIES: Final = {
    "time_to_first_token": "ttft",
    "time_per_output_token": "tpot",
    "inter_token_latency": "itl",
    "request_latency": "e2el",
}
# Of load generators whose inter token latency is the mean of an answer, which the schema calls
# TPOT; their time per output token counts the first one too.
_MEAN_OF_ANSWER: Final = {"inter_token_latency": "tpot", "time_per_output_token": ""}
_LOADS_OF_ANSWERS: Final = ("aiperf", "guidellm")
_STATISTIC_OF: Final = {"stddev": "std", "p50": "median", "p0p1": "p0.1", "p99p9": "p99.9"}
_RATES: Final = {
    "requests_per_sec": "request_throughput",
    "input_tokens_per_sec": "input_token_throughput",
    "output_tokens_per_sec": "output_token_throughput",
    "total_tokens_per_sec": "total_token_throughput",
    "request_rate": "request_throughput",
    "input_token_rate": "input_token_throughput",
    "output_token_rate": "output_token_throughput",
    "total_token_rate": "total_token_throughput",
}
_PARALLEL: Final = {
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "dp": "data_parallel",
    "ep": "expert_parallel",
}


def read_report(data: Mapping[str, Any]) -> Draft:
    """One report.

    Raises:
        ParseError: it has no figures of requests, or a latency in no unit of time.
    """
    draft = Draft("llm-d benchmark report")
    version = str(data.get("version"))
    figures = at(data, "results.request_performance.aggregate") or data.get("metrics")
    if not isinstance(figures, dict):
        raise ParseError(
            f"the report (version {version}) has neither results.request_performance.aggregate"
            " nor metrics: this form is not known"
        )
    load = at(data, "scenario.load.standardized.tool") or at(data, "scenario.load.name")
    _latencies(draft, figures, load)
    slack = WEIGHTED if load == "guidellm" else 0.0
    for name, rate in _RATES.items():
        value = at(figures, f"throughput.{name}")
        figure = number(at(value, "mean") if isinstance(value, dict) else value)
        draft.put(rate, figure and figure._replace(slack=slack * figure.value))
    lacking = [name for name in ("version", "scenario") if name not in data]
    lacking += [name for name in ("latency", "throughput", "requests") if name not in figures]
    if lacking:
        draft.unverified.append(f"no {', '.join(lacking)}: the report may be cut off")
    _requests(draft, figures)
    draft.about = _duration(data)
    _settings_of_old(draft, data)
    _settings(draft, data)
    return draft


def _latencies(draft: Draft, figures: Mapping[str, Any], load: Any) -> None:
    latencies = {**_LATENCIES, **(_MEAN_OF_ANSWER if load in _LOADS_OF_ANSWERS else {})}
    for name, statistics in (figures.get("latency") or {}).items():
        if not latencies.get(name):
            draft.unknown(name, at(statistics, "mean"))
        elif isinstance(statistics, dict):
            _latency(draft, latencies[name], statistics)


def _requests(draft: Draft, figures: Mapping[str, Any]) -> None:
    total = number(at(figures, "requests.total"))
    lost = [number(at(figures, f"requests.{name}")) for name in ("failures", "incomplete")]
    draft.put("requests_failed", lost[0])
    if total is not None:
        completed = total.value - sum(figure.value for figure in lost if figure is not None)
        draft.put("requests_completed", Figure(completed))


def _duration(data: Mapping[str, Any]) -> Figure | None:
    """Of the run; version 0.2 writes it as ISO 8601 does: "PT49.97S"."""
    text = str(at(data, "run.time.duration"))
    match = re.fullmatch(r"PT(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9}(?:\.\d{1,18})?)S)?", text)
    if match is None:
        return number(at(data, "metrics.time.duration"))
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return Figure(hours * 3600 + minutes * 60 + seconds)


def _latency(draft: Draft, name: str, statistics: Mapping[str, Any]) -> None:
    unit = str(statistics.get("units"))
    factor = seconds_of(unit)
    if factor is None:
        raise ParseError(f"{name.upper()} is in {unit!r}, which is no unit of time")
    for key, value in statistics.items():
        kind = _STATISTIC_OF.get(key, str(key))
        if key not in ("units", "mode") and (figure := number(value)) is not None:
            draft.latency(name, kind, figure.times(factor))


def _settings_of_old(draft: Draft, data: Mapping[str, Any]) -> None:
    """The system and the load of version 0.1."""
    for path, name in (
        ("scenario.model.name", "model"),
        ("scenario.model.quantization", "precision"),
        ("scenario.load.name", "load"),
        ("scenario.load.args.qps_values", "request_rate"),
        ("scenario.load.args.max_concurrency", "max_concurrency"),
    ):
        draft.say(name, at(data, path))
    engines = at(data, "scenario.platform.engine")
    for engine in engines if isinstance(engines, list) else ():
        draft.say("engine", at(engine, "name"))
        draft.say("engine_version", at(engine, "version"))
    parts = at(data, "scenario.host.accelerator")
    _accelerators(draft, [(part, 1) for part in parts] if isinstance(parts, list) else [])


def _settings(draft: Draft, data: Mapping[str, Any]) -> None:
    """The system and the load of version 0.2."""
    stack = at(data, "scenario.stack")
    every = [at(part, "standardized") for part in stack] if isinstance(stack, list) else []
    engines = [part for part in every if at(part, "kind") == "inference_engine"]
    for engine in engines:
        draft.say("engine", at(engine, "tool"))
        draft.say("engine_version", at(engine, "tool_version"))
        draft.say("model", at(engine, "model.name"))
        draft.say("precision", at(engine, "model.quantization"))
    parts = [(at(engine, "accelerator"), at(engine, "replicas") or 1) for engine in engines]
    _accelerators(draft, parts)
    for path, name in (
        ("tool", "load"),
        ("rate_qps", "request_rate"),
        ("concurrency", "max_concurrency"),
        ("input_seq_len.value", "input_length"),
        ("output_seq_len.value", "output_length"),
    ):
        draft.say(name, at(data, f"scenario.load.standardized.{path}"))


def _accelerators(draft: Draft, parts: list[tuple[Any, Any]]) -> None:
    """The GPUs of all replicas, and the parallelism where every part has the same."""
    counts = [
        (count, times)
        for part, times in parts
        if isinstance(count := at(part, "count"), int) and isinstance(times, int)
    ]
    if counts and len(counts) == len(parts):
        draft.gpus = Figure(float(sum(count * times for count, times in counts)))
    for key, name in _PARALLEL.items():
        degrees = {str(at(part, f"parallelism.{key}")) for part, _ in parts}
        if len(degrees) == 1:
            draft.say(name, degrees.pop())
