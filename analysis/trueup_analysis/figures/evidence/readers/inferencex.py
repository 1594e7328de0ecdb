"""InferenceX (former InferenceMAX): rows in the form of its dashboard's API, as JSON lists.

Format: packages/app/cypress/fixtures/api/benchmarks.json of SemiAnalysisAI/InferenceX-app. Rates
are tokens a second of one GPU, times are seconds.
"""

from __future__ import annotations

from typing import Any, Final

from .. import names
from ..rows import OUTPUT_RATE, SERVING, TPOT, TTFT
from .reading import Reader, Reading, documents

_PATTERN: Final = r"(.*/)?benchmarks[^/]*\.json|[^/]*\.json"
# Requests start and end, so that fewer are in flight than allowed; lengths vary by a tenth.
_AGREE: Final = 1.6
_NEEDED: Final = ("hardware", "framework", "model", "isl", "osl", "conc", "metrics", "date")


def read(reading: Reading) -> None:
    for name, document in documents(reading.tree, _PATTERN):
        rows = document if isinstance(document, list) else []
        for index, row in enumerate(rows):
            if isinstance(row, dict) and all(key in row for key in _NEEDED):
                _add(reading, f"{name}[{index}]", row)
            else:
                reading.skipped["no row of a benchmark"] += 1


def _add(reading: Reading, where: str, row: dict[str, Any]) -> None:
    if row.get("disagg") or row.get("is_multinode"):
        reading.skipped["prefill and decode on different GPUs, or several nodes"] += 1
        return
    hardware = reading.hardware(str(row["hardware"]))
    metrics = row["metrics"]
    if hardware is None:
        return
    if not isinstance(metrics, dict) or not metrics.get("output_tput_per_gpu"):
        reading.skipped["no rate of output tokens"] += 1
        return
    gpus = _gpus(row)
    if gpus is None:
        reading.skipped["rate, latency and requests in flight contradict each other"] += 1
        return
    figures = {OUTPUT_RATE: (metrics["output_tput_per_gpu"] * gpus, "tokens/s")}
    for metric in (TTFT, TPOT):
        if metrics.get(f"median_{metric}"):
            figures[metric] = (metrics[f"median_{metric}"], "s")
    layout = [f"tp{row.get('decode_tp')}", f"ep{row.get('decode_ep')}"]
    layout += ["dp-attention"] if row.get("decode_dp_attention") else []
    reading.add(
        where,
        figures,
        publisher="SemiAnalysis",
        date=str(row["date"])[:10],
        kind=SERVING,
        engine=str(row["framework"]),
        version=str(row.get("image") or "").rpartition(":")[2],
        model=names.model(str(row["model"])),
        precision=names.precision(str(row.get("precision"))),
        hardware=hardware,
        count=gpus,
        parallelism=" ".join(layout),
        scenario="" if row.get("spec_method") in (None, "none") else str(row["spec_method"]),
        tokens_in=row["isl"],
        tokens_out=row["osl"],
        concurrency=row["conc"],
    )


def _gpus(row: dict[str, Any]) -> int | None:
    """GPUs, such that the rate is that of the requests in flight over their time; None where no
    number gives it. Some rows count the expert parallel ranks of the same GPUs once more."""
    metrics = row["metrics"]
    ttft, tpot = (
        metrics.get(f"mean_{metric}") or metrics.get(f"median_{metric}") or 0.0
        for metric in (TTFT, TPOT)
    )
    seconds = ttft + row["osl"] * tpot
    for gpus in (row.get("num_decode_gpu"), row.get("decode_tp")):
        if gpus and seconds:
            rate = metrics["output_tput_per_gpu"] * gpus
            if 1 / _AGREE <= rate * seconds / (row["conc"] * row["osl"]) <= _AGREE:
                return int(gpus)
    return None


READER: Final = Reader(
    "inferencex",
    "SemiAnalysisAI/InferenceX-app",
    "InferenceX: serving by model, GPU, lengths and requests in flight (JSON of its API)",
    "GPL-3.0 (program)",
    read,
)
