"""SGLang's cookbook: results of ``bench_serving`` in its pages (autoregressive/**.md).

A page states its "Test Environment" (hardware, model, tensor parallelism, version) first.
Tokens of a request are the totals over the requests that succeeded.
"""

from __future__ import annotations

import re
from typing import Final

from .. import names
from ..rows import OUTPUT_RATE, SERVING, TPOT, TTFT
from .reading import Reader, Reading

_RESULT: Final = re.compile(
    r"^=+ Serving Benchmark Result =+$(.*?)^={20,}$", re.MULTILINE | re.DOTALL
)
_LINE: Final = re.compile(r"^([A-Z][^:\n]{1,60}):[ \t]+([\d.]+)[ \t]*$", re.MULTILINE)
_ENVIRONMENT: Final = re.compile(
    r"^[-* ]*(hardware|model|tensor parallelism|sglang version)\**:\s*(.+)$",
    re.MULTILINE | re.IGNORECASE,
)
_GPUS: Final = re.compile(r"(\d+) ?[x×]|[(\uff08](\d+)x?")
_MILLI: Final = 1e-3
_LEAST: Final = 8


def read(reading: Reading) -> None:
    tree = reading.tree
    for name, text in tree.texts(tree.matching(r"(.*/)?autoregressive/.*\.md")):
        for match in _RESULT.finditer(text):
            before = {
                key.lower(): value for key, value in _ENVIRONMENT.findall(text[: match.start()])
            }
            figures = {key.strip(): float(value) for key, value in _LINE.findall(match[1])}
            _add(reading, name, before, figures)


def _add(
    reading: Reading, where: str, environment: dict[str, str], figures: dict[str, float]
) -> None:
    named = environment.get("hardware", "").strip()
    gpus = _GPUS.search(named)
    if "," in named or gpus is None:
        reading.skipped["no single hardware, or no number of GPUs"] += 1
        return
    words = re.sub(r"\d+ ?[x×] ?|[(\uff08].*|\bGPUs?\b", "", named)
    hardware = reading.hardware(words)
    if hardware is None:
        return
    requests = figures.get("Successful requests", 0.0)
    rate, limit = (
        figures.get("Output token throughput (tok/s)"),
        figures.get("Max request concurrency"),
    )
    if requests < _LEAST or not rate:
        reading.skipped["fewer than eight requests, or no rate"] += 1
        return
    if figures.get("Total input vision tokens"):
        reading.skipped["pictures among the prompts"] += 1
        return
    measured = {OUTPUT_RATE: (rate, "tokens/s")}
    for metric in (TTFT, TPOT):
        if latency := figures.get(f"Median {metric.upper()} (ms)"):
            measured[metric] = (latency * _MILLI, "s")
    count, model = int(gpus[1] or gpus[2]), environment.get("model", "")
    tensor = re.match(r"\d+", environment.get("tensor parallelism", ""))
    reading.add(
        where,
        measured,
        publisher="SGLang",
        kind=SERVING,
        engine="sglang",
        version=environment.get("sglang version", "").strip()[:40],
        model=names.model(model.partition("(")[0]) if model else "not said",
        precision=names.precision(model),
        hardware=hardware,
        count=count,
        parallelism=f"tp{tensor[0]}" if tensor else "",
        tokens_in=round(figures.get("Total input tokens", 0.0) / requests, 1),
        tokens_out=round(figures.get("Total generated tokens", 0.0) / requests, 1),
        concurrency=limit or 0.0,
    )


READER: Final = Reader(
    "sglang-cookbook",
    "sgl-project/sgl-cookbook",
    "SGLang's cookbook: serving by model, GPU, lengths and requests in flight",
    "Apache-2.0",
    read,
)
