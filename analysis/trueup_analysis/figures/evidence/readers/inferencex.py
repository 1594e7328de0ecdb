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
    metrics, gpus = row["metrics"], row.get("num_decode_gpu") or row.get("decode_tp")
    if hardware is None:
        return
    if not isinstance(metrics, dict) or not gpus or not metrics.get("output_tput_per_gpu"):
        reading.skipped["no rate of output tokens"] += 1
        return
    figures = {OUTPUT_RATE: (metrics["output_tput_per_gpu"] * gpus, "tokens/s")}
    for metric in (TTFT, TPOT):
        if metrics.get(f"median_{metric}"):
            figures[metric] = (metrics[f"median_{metric}"], "s")
    layout = [f"tp{row.get('decode_tp')}", f"ep{row.get('decode_ep')}"]
    layout += ["dp-attention"] if row.get("decode_dp_attention") else []
    layout += [row["spec_method"]] if row.get("spec_method") not in (None, "none") else []
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
        tokens_in=row["isl"],
        tokens_out=row["osl"],
        concurrency=row["conc"],
    )


READER: Final = Reader(
    "inferencex",
    "SemiAnalysisAI/InferenceX-app",
    "InferenceX: serving by model, GPU, lengths and requests in flight (JSON of its API)",
    "GPL-3.0 (program)",
    read,
)
