"""llm-d: benchmark results of its Prism dashboard (public/data/archive/llmd_results/*.json).

``throughput`` counts prompt and output tokens a second of all GPUs; latencies are milliseconds.
"""

from __future__ import annotations

import re
from typing import Any, Final

from .. import names
from ..rows import OUTPUT_RATE, SERVING, TPOT, TTFT
from .reading import Reader, Reading, documents

_MILLI: Final = 1e-3
_ENGINES: Final = re.compile(r"(\d+) TP(\d+)")


def read(reading: Reading) -> None:
    for name, document in documents(reading.tree, r"(.*/)?llm-d-benchmarks[^/]*\.json"):
        for index, row in enumerate(document if isinstance(document, list) else []):
            if isinstance(row, dict) and isinstance(row.get("metrics"), dict):
                _add(reading, f"{name}[{index}]", row)
            else:
                reading.skipped["no row of a benchmark"] += 1


def _add(reading: Reading, where: str, row: dict[str, Any]) -> None:
    metrics, load = row["metrics"], row.get("workload") or {}
    engines = _ENGINES.fullmatch(str(row.get("configuration")))
    if engines is None:
        reading.skipped["prefill and decode on different GPUs, or several nodes"] += 1
        return
    hardware = reading.hardware(str(row.get("hardware")))
    rate, tokens_out = metrics.get("request_rate"), load.get("output_tokens")
    if hardware is None:
        return
    if not rate or not tokens_out or not row.get("accelerator_count"):
        reading.skipped["no rate of requests"] += 1
        return
    figures = {OUTPUT_RATE: (rate * tokens_out, "tokens/s")}
    ttft, tpot = (metrics.get("ttft") or {}).get("p50"), metrics.get("tpot")
    figures |= {TTFT: (ttft * _MILLI, "s")} if ttft else {}
    figures |= {TPOT: (tpot * _MILLI, "s")} if tpot else {}
    day = str(row.get("timestamp"))[:8]
    reading.add(
        where,
        figures,
        date=f"{day[:4]}-{day[4:6]}-{day[6:]}" if day.isdecimal() else reading.tree.date,
        publisher="llm-d",
        kind=SERVING,
        engine=str((row.get("metadata") or {}).get("backend") or "vllm"),
        model=names.model(str(row.get("model"))),
        precision=names.precision(str((row.get("metadata") or {}).get("precision"))),
        hardware=hardware,
        count=row["accelerator_count"],
        parallelism=f"tp{engines[2]} x{engines[1]}",
        tokens_in=load.get("input_tokens") or 0,
        tokens_out=tokens_out,
        concurrency=load.get("concurrency") or 0,
    )


READER: Final = Reader(
    "llm-d",
    "llm-d/llm-d-prism",
    "llm-d: serving with vLLM by replicas, tensor parallelism and requests in flight",
    "Apache-2.0",
    read,
)
