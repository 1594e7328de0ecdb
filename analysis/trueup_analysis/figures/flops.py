"""The operations of a training step, and the meaning of a rate or a step time: ``trueup flops``.

The formulas are those of trueup_node.flops, which the nodes' records use as well. Published
figures and datasheet peaks stand in the catalog.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trueup_node.benchmarks.megatron import flops
from trueup_node.errors import BadInput
from trueup_node.suggest import nearest

from .. import catalog

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PUBLISHED = "DeepSpeed Megatron "
_TERA = 1e12
_MOST = 10**9
# The published rows name sequence length and micro batch in words.
_LENGTH = re.compile(r"\bseq (\d+)")
_MICRO_BATCH = re.compile(r"\bmicro-batch (\d+)")


@dataclass(frozen=True)
class Count:
    """One formula's view of a step.

    Attributes:
        formula: article, megatron or megatron_lm.
        flops: operations of one iteration on all GPUs.
        rate: flop/s of each GPU, None where neither a rate nor a time is given.
        seconds: of one iteration, None likewise.
        samples_per_second, tokens_per_second: of all GPUs, None likewise.
        share_of_peak: of the rate, None where no peak is given.
    """

    formula: str
    flops: float
    rate: float | None = None
    seconds: float | None = None
    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    share_of_peak: float | None = None


@dataclass(frozen=True)
class Published:
    """A published rate and the figures that follow from it.

    Attributes:
        rate: flop/s of each GPU, as published, by the article's formula.
        assumed: figures that the source lacks and that were assumed for the step time.
    """

    system: str
    model: str
    gpus: int
    sequence_length: int
    micro_batch: int | None
    rate: float
    peak: float
    seconds: float | None
    samples_per_second: float | None
    tokens_per_second: float | None
    megatron_rate: float
    source: str
    assumed: str


def count(
    model: flops.Model,
    *,
    micro_batch: int,
    gpus: int = 1,
    global_batch: int | None = None,
    seconds: float | None = None,
    rate: float | None = None,
    rate_by: str = "article",
    peak: float | None = None,
) -> list[Count]:
    """The step by each formula that holds for the model.

    Args:
        model: the trained model.
        micro_batch: samples of each GPU in an iteration, where global_batch is not given.
        gpus: how many.
        global_batch: samples of one iteration on all GPUs.
        seconds: the time of an iteration. rate: flop/s of each GPU by the formula ``rate_by``; at
            most one of the two.
        peak: flop/s of one GPU.

    Raises:
        BadInput: an impossible value, or both a time and a rate.
    """
    _check(seconds, rate, peak, {"micro-batch": micro_batch, "gpus": gpus})
    batch = micro_batch * gpus if global_batch is None else global_batch
    if rate_by not in flops.FORMULAS:
        raise BadInput(f"there is no formula {rate_by}; there are {', '.join(flops.FORMULAS)}")
    work = {
        name: formula(model, batch)
        for name, formula in flops.FORMULAS.items()
        if model.plain or name == "megatron_lm"
    }
    if rate is not None:
        if rate_by not in work:
            raise BadInput(f"the formula {rate_by} does not hold for this model; take megatron_lm")
        seconds = flops.seconds_for(work[rate_by], rate, gpus)
    if seconds is None:
        return [Count(name, done) for name, done in work.items()]
    counts = []
    for name, done in work.items():
        reached = flops.rate(done, seconds, gpus)
        share = None if peak is None else reached / peak
        if share is not None and not 0 < share < math.inf:
            raise BadInput(f"peak {peak:g} is too small or too large to compute with")
        samples = batch / seconds
        tokens = batch * model.sequence_length / seconds
        counts.append(Count(name, done, reached, seconds, samples, tokens, share))
    return counts


def _check(
    seconds: float | None, rate: float | None, peak: float | None, counts: Mapping[str, int]
) -> None:
    if seconds is not None and rate is not None:
        raise BadInput("a step time and a rate are two ways to say one thing; give one of them")
    for name, number in counts.items():
        if not 0 < number <= _MOST:
            raise BadInput(f"{name} {number} is not a positive number up to {_MOST}")
    if peak is not None and not 0 < peak < math.inf:
        raise BadInput(f"peak {peak:g} is not a positive number")


def peak_of_size(size: str, folder: Path) -> tuple[float, str]:
    """BF16 peak (dense, flop/s) of one GPU of a VM size, and the GPU's name, from the catalog.

    Raises:
        BadInput: an unknown size, one without whole GPUs, or a GPU without a datasheet peak.
    """
    sizes = {row["size"].lower(): row for _, row in catalog.rows(folder / "vm_sizes.csv")}
    row = sizes.get(size.lower())
    if row is None:
        near = nearest(size, (size_row["size"] for size_row in sizes.values()))
        hint = "" if near is None else f" (did you mean {near}?)"
        raise BadInput(f"the size {size} is not in the catalog{hint}; give --peak with its TFLOP/s")
    model = row["gpu_model"]
    if not model:
        raise BadInput(f"the size {size} has no GPU")
    if row["gpu_fraction"] != "1":
        message = f"the size {size} has a share of a {model} ({row['gpu_fraction']}); give --peak"
        raise BadInput(message)
    peak = _peaks(folder).get(model)
    if peak is None:
        message = f"no datasheet peak of a {model} is in the catalog; give --peak with its TFLOP/s"
        raise BadInput(message)
    return peak, model


def vocabulary(folder: Path) -> int:
    """The padded vocabulary that the articles' models are counted with (catalog/training.yml)."""
    size: int = _models(folder)[1]
    return size


def published(folder: Path) -> list[Published]:
    """The headline rates of "DeepSpeed on Azure" from catalog/reference_results.csv, with the step
    time that they imply.

    Raises:
        BadInput: the catalog lacks the models or the peak of their GPUs.
    """
    models, words = _models(folder)
    published_rates = []
    for _, row in catalog.rows(folder / "reference_results.csv"):
        name = row["benchmark"].removeprefix(_PUBLISHED)
        if row["metric"] != "throughput_per_gpu" or name not in models:
            continue
        published_rates.append(_published(row, models[name], words, folder))
    if not published_rates:
        raise BadInput(f"{folder / 'reference_results.csv'} holds no {_PUBLISHED.strip()} rows")
    return published_rates


def _published(
    row: Mapping[str, str], model: Mapping[str, int], words: int, folder: Path
) -> Published:
    configuration = row["configuration"]
    length = _LENGTH.search(configuration)
    if length is None:
        message = f"the published row {row['benchmark']} {configuration} names no sequence length"
        raise BadInput(message)
    micro = _MICRO_BATCH.search(configuration)
    shape = flops.Model(
        layers=model["layers"],
        hidden_size=model["hidden_size"],
        sequence_length=int(length[1]),
        vocabulary_size=words,
        attention_heads=model["attention_heads"],
    )
    gpus, rate = int(row["cores_or_gpus"]), float(row["value"]) * _TERA
    assumed = f"vocabulary {words}"
    # The ratio of the formulas does not depend on the batch.
    megatron = rate * flops.megatron_flops(shape, 1) / flops.article_flops(shape, 1)
    seconds = samples = tokens = None
    if micro is not None:
        batch = int(micro[1]) * gpus
        seconds = flops.seconds_for(flops.article_flops(shape, batch), rate, gpus)
        samples = batch / seconds
    else:
        samples = rate * gpus / flops.article_flops(shape, 1)
        assumed += "; the micro batch is not published, so no step time"
    tokens = samples * shape.sequence_length
    return Published(
        system=row["system"],
        model=row["benchmark"].removeprefix(_PUBLISHED),
        gpus=gpus,
        sequence_length=shape.sequence_length,
        micro_batch=None if micro is None else int(micro[1]),
        rate=rate,
        peak=peak_of_size(row["system"], folder)[0],
        seconds=seconds,
        samples_per_second=samples,
        tokens_per_second=tokens,
        megatron_rate=megatron,
        source=row["source"],
        assumed=assumed,
    )


def _peaks(folder: Path) -> dict[str, float]:
    return {
        row["system"]: float(row["value"]) * _TERA
        for _, row in catalog.rows(folder / "reference_results.csv")
        if (row["benchmark"], row["configuration"]) == ("datasheet peak", "BF16 tensor dense")
    }


def _models(folder: Path) -> tuple[Mapping[str, Mapping[str, int]], int]:
    path = folder / "training.yml"
    data = catalog.document(path)
    try:
        return data["models"], int(data["vocabulary"]["padded"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error
