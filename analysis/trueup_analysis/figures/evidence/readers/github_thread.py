"""Threads of GitHub: tables of serving results in an issue or a pull request.

Input: JSON files, each with ``repository``, ``number``, ``title`` and ``comments``, a list
of objects with ``created_at`` and ``body`` as GitHub's API has them. Two forms of table are read: a
row for each load (ISL, OSL, Concurrency; a heading "... for MODEL on N GPU"), and a column for each
load (``conc=8``; a line "**Config:** model | engine | precision | TP=8 | GPU").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from trueup_node.errors import BadInput

from .. import names
from ..rows import OUTPUT_RATE, SERVING, TPOT, TTFT
from .reading import Reader, Reading, documents, number, tables

_MILLI: Final = 1e-3
_HEADING: Final = re.compile(r"for (?P<model>\S+) on (?:(?P<count>\d+)x? )?(?P<gpu>[A-Za-z0-9 -]+)")
_CONFIG: Final = re.compile(r"^\**Config:?\**:?\s*(.+)$", re.MULTILINE)
_LENGTHS: Final = re.compile(r"(\d+)k/(\d+)k")
_KIB: Final = 1024
_PER_GPU: Final = "Output tput/GPU (tok/s)"


class _Setup(NamedTuple):
    model: str
    engine: str
    version: str
    precision: str
    ranks: int
    gpu: str
    tokens_in: float
    tokens_out: float
    concurrency: float
    layout: str


def read(reading: Reading) -> None:
    for name, document in documents(reading.tree, r"(.*/)?[^/]*\.json"):
        if not isinstance(document, Mapping) or not isinstance(document.get("comments"), list):
            raise BadInput(f"{name} is no thread: it needs repository, number and comments")
        thread = f"{document.get('repository')}#{document.get('number')}"
        title = str(document.get("title") or "")
        for comment in document["comments"]:
            body, day = str(comment.get("body") or ""), str(comment.get("created_at"))[:10]
            _read_comment(reading, thread, title, body, day)


def _read_comment(reading: Reading, thread: str, title: str, body: str, day: str) -> None:
    setup = _setup(body, title)
    for headings, rows in tables(body):
        columns = set(rows[0])
        if {"ISL", "OSL", "Concurrency", "Req Tput (RPS)"} <= columns:
            for row in rows:
                _add_load(reading, thread, headings, row, day)
        elif "Metric" in columns and setup is not None:
            _add_columns(reading, thread, setup, rows, day)


def _add_load(
    reading: Reading, thread: str, headings: str, row: Mapping[str, str], day: str
) -> None:
    match = _HEADING.search(headings)
    hardware = match and reading.hardware(match["gpu"].partition(" (")[0])
    tokens_out, rate = number(row["OSL"]), number(row["Req Tput (RPS)"])
    if not match or not hardware or not tokens_out or not rate:
        return
    figures = {OUTPUT_RATE: (rate * tokens_out, "tokens/s")}
    for metric in (TTFT, TPOT):
        if latency := number(row.get(f"{metric.upper()} (ms)", "")):
            figures[metric] = (latency * _MILLI, "s")
    reading.add(
        f"{thread}, {headings}",
        figures,
        repository=thread,
        publisher=thread.partition("/")[0],
        commit="",
        date=day,
        kind=SERVING,
        engine="sglang" if "SGLANG" in headings.upper() else "vllm",
        model=names.model(match["model"]),
        hardware=hardware,
        count=int(match["count"] or 1),
        tokens_in=number(row["ISL"]),
        tokens_out=tokens_out,
        concurrency=number(row["Concurrency"]),
    )


def _setup(body: str, title: str) -> _Setup | None:
    """The configuration that a comment states in one line."""
    match = _CONFIG.search(body)
    if match is None:
        return None
    parts = [part.strip(" *") for part in match[1].split("|")]
    values = dict(re.findall(r"(\w+)=(\d+)", match[1]))
    every = " ".join((match[1], title))
    gpus = [name for name in ("H100", "H200", "MI300X") if name in every.upper()]
    concurrency = values.get("Concurrency") or "0"
    engine, _, version = (parts[1] if len(parts) > 1 else "").partition(" ")
    if not gpus or "TP" not in values:
        return None
    return _Setup(
        model=names.model(parts[0]),
        engine=engine.lower(),
        version=version,
        precision=names.precision(match[1]),
        ranks=int(values["TP"]),
        gpu=gpus[0],
        tokens_in=float(values.get("ISL", 0)),
        tokens_out=float(values.get("OSL", 0)),
        concurrency=float(concurrency),
        layout=" ".join(f"{name.lower()}{values[name]}" for name in ("TP", "EP") if name in values),
    )


def _add_columns(
    reading: Reading, thread: str, setup: _Setup, rows: list[dict[str, str]], day: str
) -> None:
    by_metric = {row["Metric"]: row for row in rows}
    if _PER_GPU not in by_metric:
        return
    hardware = reading.hardware(setup.gpu)
    for column in by_metric[_PER_GPU]:
        load = _load(column, setup)
        rate = number(by_metric[_PER_GPU][column])
        if column == "Metric" or load is None or not rate or hardware is None:
            continue
        tokens_in, tokens_out, concurrency = load
        figures = {OUTPUT_RATE: (rate * setup.ranks, "tokens/s")}
        for metric in (TTFT, TPOT):
            latency = number(by_metric.get(f"Mean {metric.upper()} (ms)", {}).get(column, ""))
            if latency:
                figures[metric] = (latency * _MILLI, "s")
        reading.add(
            f"{thread}, {column}",
            figures,
            repository=thread,
            publisher=thread.partition("/")[0].removesuffix("AI"),
            commit="",
            date=day,
            kind=SERVING,
            engine=setup.engine,
            version=setup.version,
            model=setup.model,
            precision=setup.precision,
            hardware=hardware,
            count=setup.ranks,
            parallelism=setup.layout,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            concurrency=concurrency,
        )


def _load(column: str, setup: _Setup) -> tuple[float, float, float] | None:
    """Tokens in and out and requests in flight of a column: conc=8, or 1k/8k."""
    if match := re.fullmatch(r"conc ?= ?(\d+)", column):
        return setup.tokens_in, setup.tokens_out, float(match[1])
    if match := _LENGTHS.fullmatch(column):
        return float(match[1]) * _KIB, float(match[2]) * _KIB, setup.concurrency
    return None


READER: Final = Reader(
    "github-thread",
    "github.com",
    "Serving results in issues and pull requests of GitHub, saved as JSON of its API",
    "figures of each thread's author",
    read,
)
