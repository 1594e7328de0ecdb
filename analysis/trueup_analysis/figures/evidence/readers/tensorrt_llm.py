"""TensorRT-LLM: the tables of its performance overview (perf-overview.md).

A table has a row for each pair of lengths and a column for each GPU and parallelism. Figures are
output tokens a second of all GPUs at the greatest load.
"""

from __future__ import annotations

import re
from typing import Final

from .. import names
from ..rows import OUTPUT_RATE, SERVING
from .reading import Reader, Reading, number, tables

_COLUMN: Final = re.compile(
    r"(?P<gpu>.+?)\s*(?:<br/?>)\s*(?P<layout>[TPE\d,]+)\s*\((?P<bits>\w+)\)"
)
_GPUS: Final = re.compile(r"\d+ GPUs?")
_RANKS: Final = re.compile(r"[TP]P(\d+)")
_LENGTHS: Final = "Sequence Length (ISL/OSL)"
_PAIR: Final = re.compile(r"([\d,]+)\s*/\s*([\d,]+)")
# Tables whose columns name a number of GPUs are of this one.
_NUMBERED: Final = "RTX PRO 6000 Blackwell Server Edition"


def read(reading: Reading) -> None:
    for name, text in reading.tree.texts(reading.tree.matching(r"(.*/)?perf-overview.*\.md")):
        for headings, rows in tables(text):
            if rows and _LENGTHS in rows[0]:
                model = names.model(headings.rpartition(" > ")[2])
                for row in rows:
                    _add(reading, f"{name}, {headings}", row, model)


def _add(reading: Reading, where: str, row: dict[str, str], model: str) -> None:
    pair = _PAIR.fullmatch(row[_LENGTHS])
    if pair is None:
        reading.skipped["no pair of lengths"] += 1
        return
    for column, cell in row.items():
        match, value = _COLUMN.fullmatch(column.replace("**", "")), number(cell)
        if match is None or not value:
            continue
        name = _NUMBERED if _GPUS.fullmatch(match["gpu"].strip()) else match["gpu"]
        hardware = reading.hardware(name)
        if hardware is None:
            continue
        ranks = 1
        for count in _RANKS.findall(match["layout"]):
            ranks *= int(count)
        reading.add(
            where,
            {OUTPUT_RATE: (value, "tokens/s")},
            publisher="NVIDIA",
            kind=SERVING,
            engine="TensorRT-LLM",
            scenario="offline",
            model=model,
            precision=names.precision(match["bits"]),
            hardware=hardware,
            count=ranks,
            parallelism=match["layout"].lower().replace(",", " "),
            tokens_in=number(pair[1]),
            tokens_out=number(pair[2]),
        )


READER: Final = Reader(
    "tensorrt-llm",
    "NVIDIA/TensorRT-LLM",
    "TensorRT-LLM: greatest rate by model, GPU, parallelism and lengths",
    "Apache-2.0",
    read,
)
