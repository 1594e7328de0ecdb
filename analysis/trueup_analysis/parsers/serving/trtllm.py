"""trtllm-bench: the report that ``throughput`` and ``latency`` print, and that of ``--report_json``
(tensorrt_llm/bench/dataclasses/reporting.py, 0.17 to 1.2)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from .schema import Draft, Figure, at, number, printed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_node.reading import Line

_CLIENT: Final = "trtllm-bench"
_ENGINE: Final = "tensorrt-llm"
_ROW: Final = re.compile(r"([^:\t]{2,60}?)[ \t]{0,40}:\s*(\S.*)?")
_STATISTIC: Final = re.compile(r"\[(TPOT|TTFT|Latency)\] (\w+) *: *(\d[\d.]*)")
_MILLISECONDS: Final = 1e-3
# By label in lower case without its unit: the figure and its factor.
_FIGURES: Final = {
    "number of requests": ("requests_completed", 1.0),
    "average input length": ("mean_input_length", 1.0),
    "average output length": ("mean_output_length", 1.0),
    "number of concurrent requests": ("concurrency", 1.0),
    "request throughput": ("request_throughput", 1.0),
    "total output throughput": ("output_token_throughput", 1.0),
    "token throughput": ("output_token_throughput", 1.0),
    "total token throughput": ("total_token_throughput", 1.0),
    "total latency": ("duration", _MILLISECONDS),
}
_MEANS: Final = {
    "average request latency": "e2el",
    "average time-to-first-token [ttft]": "ttft",
    "average time-per-output-token [tpot]": "tpot",
}
_PARAMETERS: Final = {
    "model": "model",
    "tensorrt llm version": "engine_version",
    "tensorrt-llm version": "engine_version",
    "tp size": "tensor_parallel",
    "pp size": "pipeline_parallel",
    "ep size": "expert_parallel",
    "max runtime batch size": "max_batch_size",
}
_PRECISION: Final = ("quantization", "dtype")
_LATENCY_OF: Final = {"TPOT": "tpot", "TTFT": "ttft", "Latency": "e2el"}
_STATISTIC_OF: Final = {"minimum": "min", "maximum": "max", "average": "mean"}


def read_text(lines: Sequence[Line]) -> Draft:
    """The report as it is printed.

    Raises:
        ParseError: a second one, or a figure that is none.
    """
    draft = Draft(_CLIENT, _ENGINE)
    seen: dict[str, str] = {}
    each: Figure | None = None
    for line in lines:
        statistic, row = _STATISTIC.fullmatch(line.strip()), _ROW.fullmatch(line.strip())
        if statistic is not None:
            _statistic(draft, statistic, line)
        elif row is not None:
            label = re.sub(r" \([^)]*\)$", "", row[1]).lower()
            text = row[2] or ""
            seen.setdefault(label, text)
            if label == "per gpu output throughput":
                each = printed(text, line)
            else:
                _row(draft, label, text, line)
    _finish(draft, seen, each)
    return draft


def _statistic(draft: Draft, match: re.Match[str], line: Line) -> None:
    kind = _STATISTIC_OF.get(match[2].lower(), match[2].lower())
    figure = _figure(draft, match[3], line).times(_MILLISECONDS)
    # The mean stands among the rates too.
    take = draft.same if kind == "mean" else draft.latency
    take(_LATENCY_OF[match[1]], kind, figure)


def _figure(draft: Draft, text: str, line: Line) -> Figure:
    """A figure, of which the tool prints four decimals."""
    if not re.search(r"\.\d{4}$", text):
        draft.unverified.append(f"{text} has not four decimals: it may be cut off")
    return printed(text, line)


def _row(draft: Draft, label: str, text: str, line: Line) -> None:
    if label in _FIGURES:
        name, factor = _FIGURES[label]
        is_count = name == "requests_completed"
        figure = printed(text, line) if is_count else _figure(draft, text, line)
        draft.put(name, figure.times(factor))
    elif label in _MEANS:
        draft.same(_MEANS[label], "mean", _figure(draft, text, line).times(_MILLISECONDS))
    elif label in _PARAMETERS:
        draft.say(_PARAMETERS[label], text)
    elif "throughput" in label or "speed" in label:
        draft.unknown(label, text)


def read_json(data: Mapping[str, Any]) -> Draft:
    """The report of ``--report_json``."""
    draft = Draft(_CLIENT, _ENGINE)
    for path, name, factor in (
        ("request_info.num_requests", "requests_completed", 1.0),
        ("request_info.avg_num_concurrent_requests", "concurrency", 1.0),
        ("request_info.avg_input_length", "mean_input_length", 1.0),
        ("request_info.avg_output_length", "mean_output_length", 1.0),
        ("performance.total_latency_ms", "duration", _MILLISECONDS),
        ("performance.request_throughput_req_s", "request_throughput", 1.0),
        ("performance.system_output_throughput_tok_s", "output_token_throughput", 1.0),
        ("performance.system_total_throughput_tok_s", "total_token_throughput", 1.0),
    ):
        draft.put(name, number(at(data, path), factor))
    _latencies(draft, data)
    for path, name in (
        ("engine.model", "model"),
        ("engine.version", "engine_version"),
        ("world_info.tp_size", "tensor_parallel"),
        ("world_info.pp_size", "pipeline_parallel"),
        ("world_info.ep_size", "expert_parallel"),
        ("world_info.max_batch_size", "max_batch_size"),
    ):
        draft.say(name, at(data, path))
    engine = at(data, "engine") or {}
    each = number(at(data, "performance.output_throughput_per_gpu_tok_s"))
    _finish(draft, {name: str(engine.get(name)) for name in _PRECISION}, each)
    return draft


def _latencies(draft: Draft, data: Mapping[str, Any]) -> None:
    for path, name in (
        ("performance.request_latency_percentiles_ms", "e2el"),
        ("streaming_metrics.ttft_percentiles", "ttft"),
        ("streaming_metrics.tpot_percentiles", "tpot"),
    ):
        for key, value in (at(data, path) or {}).items():
            kind = _STATISTIC_OF.get(key, key)
            if re.fullmatch(r"mean|min|max|p\d{1,2}", kind):
                draft.latency(name, kind, number(value, _MILLISECONDS))
    for path, name in (
        ("performance.avg_request_latency_ms", "e2el"),
        ("streaming_metrics.avg_ttft_ms", "ttft"),
        ("streaming_metrics.avg_tpot_ms", "tpot"),
    ):
        draft.same(name, "mean", number(at(data, path), _MILLISECONDS))


def _finish(draft: Draft, seen: Mapping[str, str], each: Figure | None) -> None:
    """The precision, the lengths as parameters, and the GPUs by the rate of each."""
    for name in _PRECISION:
        draft.say("precision", seen.get(name))
    for name in ("input_length", "output_length"):
        length = draft.figures.get(f"mean_{name}")
        draft.say(name, None if length is None else length.value)
    total = draft.figures.get("output_token_throughput")
    if each is not None and total is not None and each.value > 0:
        count = total.value / each.value
        slack = count * (each.slack / each.value + total.slack / max(total.value, each.value))
        draft.gpus = Figure(count, slack, each.line)
    draft.tool_version = draft.parameters.get("engine_version")
