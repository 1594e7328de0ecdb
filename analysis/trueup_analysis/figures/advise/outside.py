"""Results that others published, as points of the kinds of work."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ... import catalog
from ..evidence import rows
from .engines import Engine, Load, Model, of_recipe
from .estimates import PUBLISHED, Evidence
from .knowledge import number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..evidence.rows import Result, Row
    from .knowledge import Knowledge

_BYTES: Final = {"bf16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5, "int4": 0.5}
_GIB: Final = 2**30
# Of a GPU's memory: vLLM's usual share, less what CUDA and activations take.
_USABLE: Final = 0.9
# Engines that keep the KV cache of FP8 weights in FP8 (ModelOpt's checkpoints).
_FP8_CACHE: Final = re.compile(r"tensorrt", re.IGNORECASE)
# Requests at a time at most where a result has as many as its engine takes.
_MOST_IN_FLIGHT: Final = 1024.0
_RANKS: Final = re.compile(r"\b[tp]p(\d+)")
_ANY: Final = "llama-3.1-8b"
# Operations of a token for each parameter: forward, and twice backward.
_PASSES: Final = 6
_SHORT: Final = 8192


class Served(NamedTuple):
    """A published rate of output tokens, and its setup.

    Attributes:
        rate: output tokens/s of all engines.
    """

    row: Row
    size: str
    nodes: int
    engine: Engine
    engines: int
    load: Load
    rate: float
    evidence: Evidence


class Trained(NamedTuple):
    """A published rate of pre-training a dense model.

    Attributes:
        rate: model flop/s of all GPUs.
    """

    row: Row
    size: str
    nodes: int
    rate: float
    evidence: Evidence


def trained(knowledge: Knowledge) -> Iterator[Trained]:
    """Results of pre-training in BF16 and FP8. A rate of tokens counts six operations for each
    parameter of the model, without attention: of long samples it is left out."""
    by_name = models(knowledge)
    for result in results(knowledge):
        row, size = result.row, size_of(result.row.hardware, knowledge)
        figures = by_name.get(row.model)
        if (
            row.kind != rows.TRAINING
            or not row.scenario.startswith("pre-training")
            or row.precision not in ("", "bf16", "fp8")
            or size is None
            or figures is None
            or figures["experts"]
        ):
            continue
        short = row.tokens_in <= _SHORT
        tokens = result.figures.get(rows.TRAINED_PER_GPU, 0.0) if short else 0.0
        each = result.figures.get(rows.MODEL_FLOPS) or tokens * _PASSES * int(figures["parameters"])
        if each:
            gpus = int(number(knowledge.sizes[size], "gpus") or 1)
            nodes = math.ceil(row.count / gpus)
            yield Trained(row, size, nodes, each * row.count, evidence_of(row))


def evidence_of(row: Row) -> Evidence:
    commit = f"@{row.commit}" if row.commit else ""
    return Evidence(PUBLISHED, f"{row.publisher}: {row.repository}{commit}", row.date)


def size_of(gpu: str, knowledge: Knowledge) -> str | None:
    """The catalog's size with the most of these GPUs; None where it has none."""
    return knowledge.once(("size of", gpu), lambda: _size_of(gpu, knowledge))


def _size_of(gpu: str, knowledge: Knowledge) -> str | None:
    having = [
        (-(number(row, "gpus") or 0), size)
        for size, row in knowledge.sizes.items()
        if row["gpu_model"] == gpu and row["gpu_fraction"] == "1"
    ]
    return min(having)[1] if having else None


def models(knowledge: Knowledge) -> Mapping[str, Mapping[str, str]]:
    """The figures of published models, by name."""
    path = catalog.find("evidence_models.csv", knowledge.folder)
    return knowledge.once(
        "evidence models",
        lambda: {row["model"]: row for _, row in catalog.rows(path, "model", "parameters")},
    )


def results(knowledge: Knowledge) -> Sequence[Result]:
    return knowledge.once("evidence", lambda: rows.results(rows.read(knowledge.folder)))


def served(knowledge: Knowledge) -> Iterator[Served]:
    """Results of serving whose prompts' and answers' lengths are stated, without speculation."""
    by_name = models(knowledge)
    for result in results(knowledge):
        row, rate = result.row, result.figures.get(rows.OUTPUT_RATE)
        size, figures = size_of(row.hardware, knowledge), by_name.get(row.model)
        if (
            row.kind != rows.SERVING
            or size is None
            or figures is None
            or not rate
            or not row.tokens_in
            or not row.tokens_out
            or row.scenario not in ("", "offline")
        ):
            continue
        cache = bool(_FP8_CACHE.search(row.engine))
        model = knowledge.once(
            ("evidence model", row.model, row.precision, cache),
            partial(_model, figures, row),
        )
        devices = _devices(row, model, size, knowledge)
        engines = max(1, row.count // devices)
        if row.concurrency:
            # With fewer requests in flight than engines, the others wait.
            engines = min(engines, math.ceil(row.concurrency))
        engine = _engine(model, row, devices, size, knowledge)
        flight = row.concurrency / engines if row.concurrency else _MOST_IN_FLIGHT
        load = Load(row.tokens_in, row.tokens_out, 0.0, max(1.0, flight))
        each = int(number(knowledge.sizes[size], "gpus") or 1)
        nodes = math.ceil(row.count / each)
        yield Served(row, size, nodes, engine, engines, load, rate, evidence_of(row))


def _model(figures: Mapping[str, str], row: Row) -> Model:
    like = of_recipe(_ANY).recipe
    facts: dict[str, Any] = {
        "parameters": int(figures["parameters"]),
        "active_parameters": int(figures["active_parameters"]),
        "expert_parameters": int(figures["expert_parameters"] or 0),
        "experts": int(figures["experts"] or 0),
        "other_bytes": 0,
        "bytes_per_parameter": _BYTES[row.precision or figures["precision"]],
        "layers": int(figures["layers"]),
        "kv_bytes": 1 if row.precision == "fp8" and _FP8_CACHE.search(row.engine) else 2,
        "source": figures["source"],
    }
    for name in ("kv_heads", "head_dim", "kv_lora_rank", "qk_rope_head_dim"):
        if figures[name]:
            facts[name] = int(figures[name])
    active = float(figures["active_parameters"])
    return Model(row.model, {**like, "facts": facts}, active, own=True)


def _devices(row: Row, model: Model, size: str, knowledge: Knowledge) -> int:
    """GPUs of one engine: as stated, else the fewest that hold the weights."""
    if ranks := [int(count) for count in _RANKS.findall(row.parallelism)]:
        return min(row.count, math.prod(ranks))
    memory = (number(knowledge.sizes[size], "gpu_memory_gib") or 0.0) * _GIB * _USABLE
    devices = 1
    while devices < row.count and devices * memory < model.parameters * model.width:
        devices *= 2
    return min(row.count, devices)


def _engine(model: Model, row: Row, devices: int, size: str, knowledge: Knowledge) -> Engine:
    facts = model.recipe["facts"]
    weights = model.parameters * model.width
    if "kv_lora_rank" in facts:
        # Every rank of MLA keeps the whole cache.
        each = facts["layers"] * (facts["kv_lora_rank"] + facts["qk_rope_head_dim"])
        token = float(each * facts["kv_bytes"] * devices)
    else:
        each = 2 * facts["layers"] * facts["kv_heads"] * facts["head_dim"]
        token = float(each * facts["kv_bytes"])
    memory = (number(knowledge.sizes[size], "gpu_memory_gib") or 0.0) * _GIB * _USABLE * devices
    gpus = int(number(knowledge.sizes[size], "gpus") or 1)
    return Engine(
        model=model,
        nodes=math.ceil(devices / gpus),
        devices=devices,
        weights=weights,
        token=token,
        # A result shows that one request fits.
        room=max(memory - weights, token * (row.tokens_in + row.tokens_out)),
        each=max(1, gpus // devices),
    )
