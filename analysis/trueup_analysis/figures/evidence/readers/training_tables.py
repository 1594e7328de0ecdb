"""torchtitan (benchmarks/*.md) and MaxText (configs/gpu/a3/*/README.md): training on Hopper."""

from __future__ import annotations

import re
from typing import Final

from .. import names
from ..rows import MODEL_FLOPS, TRAINED_PER_GPU, TRAINING
from .reading import Reader, Reading, number, tables

_CAPTION: Final = re.compile(
    r"(?P<model>Llama ?[\d.]+ \d+B)\b[^|]*?(?P<gpus>\d+) (?:GPUs|H[12]00s)", re.IGNORECASE
)
_TABLE: Final = re.compile(r"^(?:\*\*Table \d+\*\*|####) .*$", re.MULTILINE)
_RATES: Final = ("TPS/GPU", "Vanilla TP tokens/sec", "Async TP tokens/sec")
_GPU: Final = re.compile(r"_(h100|h200)_(\d{4})-?(\d\d)_(\w+)")
_USUAL_LENGTH: Final = 8192.0
_TERA: Final = 1e12
_EACH: Final = 8


def read_torchtitan(reading: Reading) -> None:
    tree = reading.tree
    for name, text in tree.texts(tree.matching(r"(.*/)?benchmarks/[^/]*_h[12]00_[^/]*\.md")):
        named = _GPU.search(name)
        if named is None:
            continue
        # Each table is read beneath its caption, which becomes a heading.
        every_run = "float8" if 'model.converters="quantize.linear.float8"' in text else ""
        marked = _TABLE.sub(lambda match: f"# {match[0].lstrip('#* ')}", text)
        day = f"{named[2]}-{named[3]}-01"
        for headings, rows in tables(marked):
            caption = _CAPTION.search(headings)
            nodes = "NUM_NODES" in rows[0]
            if caption is None and not nodes:
                continue
            for row in rows:
                gpus = (
                    _EACH * int(row["NUM_NODES"])
                    if nodes
                    else int(caption["gpus"])
                    if caption
                    else 0
                )
                model = caption["model"] if caption else "Llama 3.1 8B"
                _add(
                    reading,
                    f"{name}, {headings}",
                    row,
                    (model, gpus, named[1], day, named[4]),
                    f"{headings} {every_run}",
                )


def _add(
    reading: Reading,
    where: str,
    row: dict[str, str],
    setup: tuple[str, int, str, str, str],
    headings: str,
) -> None:
    model, gpus, gpu, day, publisher = setup
    hardware = reading.hardware(gpu)
    for column in _RATES:
        rate = number(row.get(column, ""))
        if not rate or hardware is None:
            continue
        first = next(iter(row))
        words = f"{headings} {row[first]}".lower()
        layout = row[first] if first != "NUM_NODES" else "fsdp"
        reading.add(
            where,
            {TRAINED_PER_GPU: (rate, "tokens/s")},
            publisher=publisher,
            date=day,
            kind=TRAINING,
            engine="torchtitan",
            model=names.model(model),
            precision="fp8" if "float8" in words and "none (bf" not in words else "bf16",
            hardware=hardware,
            count=gpus,
            parallelism=f"{layout}{', async tp' if column.startswith('Async') else ''}"[:80],
            # The H100s of these pages have 96 GB of HBM2e and 500 W.
            scenario="pre-training, 500 W" if gpu == "h100" else "pre-training",
            tokens_in=number(row.get("Sequence Length", "")) or _USUAL_LENGTH,
        )


def read_maxtext(reading: Reading) -> None:
    tree = reading.tree
    for name, text in tree.texts(tree.matching(r"(.*/)?configs/gpu/a3/[^/]*/README\.md")):
        for headings, rows in tables(text):
            for row in rows:
                match = re.match(r"(\d+)x A3 \(h100-80gb-8\)", row.get("Hardware", ""))
                rate = number(row.get("TFLOP/sec/chip", ""))
                if match and rate:
                    reading.add(
                        f"{name}, {headings}",
                        {MODEL_FLOPS: (rate * _TERA, "flop/s")},
                        publisher="Google",
                        kind=TRAINING,
                        engine="MaxText",
                        model=names.model(headings.rpartition(" > ")[2]),
                        hardware="H100-SXM5-80GB",
                        count=_EACH * int(match[1]),
                        scenario="pre-training",
                    )


TORCHTITAN: Final = Reader(
    "torchtitan",
    "pytorch/torchtitan",
    "torchtitan: training of Llama by number of GPUs and parallelism",
    "BSD-3-Clause",
    read_torchtitan,
)
MAXTEXT: Final = Reader(
    "maxtext",
    "AI-Hypercomputer/maxtext",
    "MaxText: training of Llama on H100 by number of nodes",
    "Apache-2.0",
    read_maxtext,
)
