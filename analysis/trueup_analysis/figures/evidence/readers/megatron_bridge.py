"""Megatron-Bridge: its performance summaries (performance-summary*.md), training on DGX."""

from __future__ import annotations

import re
from typing import Final

from .. import names
from ..rows import MODEL_FLOPS, TRAINING
from .reading import Reader, Reading, number, tables

_LAYOUT: Final = ("TP", "PP", "CP", "VP", "EP")
_TERA: Final = 1e12
_VERSION: Final = re.compile(r"(\d\d\.\d\d(?:\.\d\d)?) NeMo Container")
# Of the first table: numbers outside of parentheses.
_FLOPS: Final = "Model TFLOP / sec / GPU"


def read(reading: Reading) -> None:
    for name, text in reading.tree.texts(reading.tree.matching(r"(.*/)?performance-summary.*\.md")):
        for headings, rows in tables(text):
            version = _VERSION.search(headings)
            if version is None or not rows or _FLOPS not in rows[0]:
                continue
            for row in rows:
                _add(reading, f"{name}, {headings}", row, headings, version[1])


def _add(reading: Reading, where: str, row: dict[str, str], headings: str, version: str) -> None:
    system = row.get("System") or headings.rpartition("System: ")[2]
    hardware = reading.hardware(system)
    if hardware is None:
        return
    model = row.get("Model") or headings.rpartition("Model: ")[2]
    rate, gpus = number(row[_FLOPS]), number(row.get("#-GPUs", ""))
    if not rate or not gpus:
        reading.skipped["no rate"] += 1
        return
    task = re.search(r"(SFT|LoRA|Pre-Training) Performance", headings)
    layout = [f"{key.lower()}{row[key]}" for key in _LAYOUT if row.get(key, "n/a") != "n/a"]
    layout += [f"gbs{row['GBS']}"] if row.get("GBS") else []
    reading.add(
        where,
        {MODEL_FLOPS: (rate * _TERA, "flop/s")},
        kind=TRAINING,
        publisher="NVIDIA",
        engine="Megatron-Bridge",
        version=version,
        scenario=task[1].lower() if task else "",
        model=names.model(model),
        # Tables without this column (25.09) have a note on the granularity of FP8.
        precision=names.precision(row.get("Precision", "FP8")),
        hardware=hardware,
        count=round(gpus),
        parallelism=" ".join(layout),
        tokens_in=number(row.get("Sequence Length", "")) or 0.0,
    )


READER: Final = Reader(
    "megatron-bridge",
    "NVIDIA-NeMo/Megatron-Bridge",
    "Megatron-Bridge: training by model, number of GPUs, precision and parallelism",
    "Apache-2.0",
    read,
)
