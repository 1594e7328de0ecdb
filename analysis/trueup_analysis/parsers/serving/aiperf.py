"""AIPerf and GenAI-Perf: the table on the console, ``profile_export_aiperf.json`` or
``..._genai_perf.json``, and the CSV of either.

Their inter token latency is the mean of one answer, (request latency - TTFT) / (tokens - 1), which
the schema calls TPOT. The time between single pieces is AIPerf's inter chunk latency.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Any, Final

from .schema import Draft, Figure, at, number, printed, seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trueup_node.reading import Line

_LATENCIES: Final = {
    "time to first token": "ttft",
    "inter token latency": "tpot",
    "request latency": "e2el",
}
# The mean of each is the figure.
_FIGURES: Final = {
    "request throughput": "request_throughput",
    "output token throughput": "output_token_throughput",
    "total token throughput": "total_token_throughput",
    "goodput": "request_goodput",
    "request goodput": "request_goodput",
    "request count": "requests_completed",
    "error request count": "requests_failed",
    "output sequence length": "mean_output_length",
    "input sequence length": "mean_input_length",
    "num output token": "mean_output_length",
    "num input token": "mean_input_length",
    "total output sequence length": "output_tokens",
    "total input sequence length": "input_tokens",
    "total osl": "output_tokens",
    "total isl": "input_tokens",
}
_STATISTIC_OF: Final = {"avg": "mean", "p50": "median", "value": "mean"}
_STATISTICS: Final = re.compile(r"mean|median|std|min|max|p\d{1,2}")
_ITL: Final = "inter token latency is the mean of an answer: it is called TPOT here"


# By parameter, its places in the settings of both tools' versions.
_SETTINGS: Final = {
    "model": ("models.items.0.name", "endpoint.model_names.0", "model_names.0", "model.0"),
    "max_concurrency": ("perf_analyzer.stimulus.concurrency", "loadgen.concurrency"),
    "request_rate": ("perf_analyzer.stimulus.request_rate", "loadgen.request_rate"),
    "input_length": (
        *("datasets.0.prompts.isl.mean", "input.prompt.input_tokens.mean"),
        *("input.synthetic_tokens.mean", "synthetic_input_tokens_mean"),
    ),
    "output_length": (
        *("datasets.0.prompts.osl.mean", "input.prompt.output_tokens.mean"),
        *("input.output_tokens.mean", "output_tokens_mean"),
    ),
    "engine": ("backend", "endpoint.backend"),
}


def read_table(lines: Sequence[Line]) -> Draft:
    """The table on the console; a name that is too long goes on in the next row.

    Raises:
        ParseError: a second table, or a figure that is none.
    """
    is_genai = any(re.search(r"GenAI-Perf|┃ +Statistic ", line) for line in lines)
    draft = _draft("genai-perf" if is_genai else "aiperf")
    for line in lines:
        # The first versions printed rates below the table.
        match = re.fullmatch(r"((?:Output token|Request) throughput \(per sec\)): ([\d.,]+)", line)
        if match is not None:
            _entry(draft, match[1], {"avg": match[2]}, line)
    for name, statistics, line in _entries(lines):
        _entry(draft, name, statistics, line)
    if not any(re.match(r"\s*[└╰]", line) for line in lines):
        draft.unverified.append("no closing line of the table: rows may be missing")
    return draft


def _entries(lines: Sequence[Line]) -> list[tuple[str, dict[str, str], Line]]:
    """The rows of the table: their whole names, and the texts by column."""
    columns: list[str] = []
    entries: list[tuple[str, dict[str, str], Line]] = []
    for line in lines:
        name, *values = [cell.strip() for cell in re.split(r"[┃│|]", line.strip())[1:-1]] or [""]
        if name in ("Metric", "Statistic"):
            columns = values
        elif columns and len(values) == len(columns) and any(values):
            entries.append((name, dict(zip(columns, values, strict=True)), line))
        elif entries and values and not any(values):
            title, statistics, first = entries[-1]
            entries[-1] = (f"{title} {name}", statistics, first)
        elif columns and len(values) > 1:
            raise line.error(f"the row has {len(values)} columns and its header {len(columns)}")
    return entries


def read_csv(lines: Sequence[Line]) -> Draft:
    """The CSV file: statistics of requests, and below an empty line single values."""
    draft = _draft("aiperf")
    columns: list[str] = []
    for line in lines:
        cells = next(csv.reader([line]), [])
        if not cells:
            columns = []
        elif cells[0] == "Metric" and len(cells) > 1:
            columns = cells[1:]
        elif columns and len(cells) == len(columns) + 1:
            _entry(draft, cells[0], dict(zip(columns, cells[1:], strict=True)), line)
    return draft


def read_json(data: Mapping[str, Any]) -> Draft:
    """The export of a profile."""
    is_genai = "aiperf_version" not in data and at(data, "input_config.perf_analyzer") is not None
    draft = _draft("genai-perf" if is_genai else "aiperf")
    draft.tool_version = data.get("aiperf_version")
    for name, metric in (data.get("records") or data).items():
        if isinstance(metric, dict) and "unit" in metric:
            figures = {key: value for key, value in metric.items() if key != "unit"}
            _take(draft, name.replace("_", " "), str(metric["unit"]), figures, number)
    if data.get("was_cancelled"):
        draft.unverified.append("the run was cancelled before its end")
    settings = data.get("input_config") or {}
    for name, paths in _SETTINGS.items():
        for path in paths:
            draft.say(name, at(settings, path))
    for phase in _phases(settings):
        draft.say("max_concurrency", phase.get("concurrency"))
        draft.say("request_rate", phase.get("rate"))
    return draft


def _phases(settings: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The phases that are measured, of AIPerf's newer settings."""
    phases = settings.get("phases")
    if isinstance(phases, dict):
        phases = list(phases.values())
    for phase in phases if isinstance(phases, list) else ():
        if isinstance(phase, dict) and "warmup" not in str(phase.get("name", "")):
            yield phase


def _draft(client: str) -> Draft:
    draft = Draft(client)
    draft.warnings.append(_ITL)
    return draft


def _entry(draft: Draft, title: str, statistics: Mapping[str, str], line: Line) -> None:
    """A row of text: a name with its unit, and its statistics."""
    match = re.fullmatch(r"(.*?) ?\(([^()]*)\)", " ".join(title.split()))
    name, unit = (match[1], match[2]) if match else (title, "")
    filled = {key: text for key, text in statistics.items() if text not in ("", "-", "N/A")}
    _take(draft, name.lower(), unit, filled, lambda text: printed(text, line))


def _take(
    draft: Draft,
    name: str,
    unit: str,
    statistics: Mapping[str, Any],
    read: Callable[[Any], Figure | None],
) -> None:
    factor = seconds_of(unit)
    named = {
        _STATISTIC_OF.get(key.lower(), key.lower()): value for key, value in statistics.items()
    }
    if name in _LATENCIES and factor is not None:
        for statistic in filter(_STATISTICS.fullmatch, named):
            figure = read(named[statistic])
            draft.latency(_LATENCIES[name], statistic, figure and figure.times(factor))
    elif name in _FIGURES and "user" not in unit:
        draft.put(_FIGURES[name], read(named["mean"]) if "mean" in named else None)
    elif name == "benchmark duration" and "mean" in named:
        # Newer rates are over a time that begins somewhat earlier.
        figure = read(named["mean"])
        draft.about = figure and figure.times(factor or 1.0)
    elif "mean" in named:
        draft.unknown(name, f"{named['mean']} {unit}")
