"""The tables that SGLang prints (sglang/bench_serving.py, bench_offline_throughput.py), and those
of its kin: a label, a colon and a figure on each line, latencies in sections."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .schema import Draft, printed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup_node.reading import Line

_TITLE: Final = re.compile(r"={1,60} (Serving|Offline Throughput) Benchmark Result ={1,60}")
_ROW: Final = re.compile(r"([^:]{1,60}):(?: +(\S.*))?")
_STATISTIC: Final = re.compile(
    r"(Mean|Median|Std|Min|Max|P\d{1,2}(?:\.\d{1,3})?) (TTFT|TPOT|ITL|E2EL|E2E Latency) \(ms\)"
)
# By label in lower case, without "(req/s)" and "(tok/s)".
_FIGURES: Final = {
    "successful requests": "requests_completed",
    "failed requests": "requests_failed",
    "benchmark duration (s)": "duration",
    "total input tokens": "input_tokens",
    "total generated tokens": "output_tokens",
    "request throughput": "request_throughput",
    "request goodput": "request_goodput",
    "input token throughput": "input_token_throughput",
    "output token throughput": "output_token_throughput",
    "peak output token throughput": "peak_output_token_throughput",
    "peak concurrent requests": "peak_concurrent_requests",
    "total token throughput": "total_token_throughput",
    "total throughput": "total_token_throughput",
    "concurrency": "concurrency",
}
_PARAMETERS: Final = {
    "backend": "backend",
    "traffic request rate": "request_rate",
    "request rate configured (rps)": "request_rate",
    "max request concurrency": "max_concurrency",
    "max reqeuest concurrency": "max_concurrency",
    "maximum request concurrency": "max_concurrency",
}


def read_table(lines: Sequence[Line]) -> Draft:
    """The one table of a text.

    Raises:
        ParseError: a second table, or a figure that is none.
    """
    titles = [line for line in lines if _TITLE.fullmatch(line.strip())]
    if len(titles) > 1:
        raise titles[1].error("a second table: two runs in one output")
    offline = bool(titles) and "Offline" in titles[0]
    draft = Draft("sglang bench_offline_throughput" if offline else "sglang bench_serving")
    # Without its title the table begins at its first row.
    body = lines[titles[0].number :] if titles else lines
    closing = next((n for n, line in enumerate(body) if re.fullmatch(r"\s*={20,}\s*", line)), None)
    for line in body[:closing]:
        _row(draft, line)
    if closing is None or not titles:
        draft.unverified.append("no title or no closing line of =: rows may be missing")
    if offline:
        draft.say("engine", "sglang")  # its backend is a way into the engine
    draft.say("engine", draft.parameters.get("backend"))
    draft.warnings.append("the figures of the printed table are rounded to 0.01")
    return draft


def _row(draft: Draft, line: Line) -> None:
    text = line.strip()
    if not text or (text.startswith("--") and text.endswith("--")):
        return
    match = _ROW.fullmatch(text)
    if match is None:
        draft.unknown(text, "a line")
        return
    label, value = match[1], match[2] or ""
    statistic = _STATISTIC.fullmatch(label)
    short = re.sub(r" \((?:req|tok|tokens)/s\)$", "", label).lower()
    if statistic is not None:
        name = "e2el" if statistic[2].startswith("E2E") else statistic[2].lower()
        draft.latency(name, statistic[1].lower(), printed(value, line).times(1e-3))
    elif short in _FIGURES:
        draft.put(_FIGURES[short], printed(value, line))
    elif short in _PARAMETERS:
        draft.say(_PARAMETERS[short], value)
    else:
        draft.unknown(label, value)
