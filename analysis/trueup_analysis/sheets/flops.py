"""From operation counts to sheets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import units
from .sheet import Column, Sheet, unshown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup_node.benchmarks.megatron.flops import Model

    from ..figures.flops import Count, Published

_WORDS = {
    "article": "article (recomputing)",
    "megatron": "Megatron (no recomputing)",
    "megatron_lm": "Megatron-LM's log (causal)",
}
_NOTES = (
    "article: 96 B s l h^2 (1 + s/(6h) + V/(16lh)), activations recomputed (arXiv 2104.04473,"
    " equation 3; DeepSpeed on Azure, 2022). Megatron: 72 B s l h^2 (1 + s/(6h) + V/(12lh)),"
    " without. Megatron-LM's log: without, and half of the attention scores (causal mask)."
)
_PUBLISHED_NOTE = (
    "Rates are by the article's formula, which counts recomputed activations; without recomputing"
    " is the same run by 72 B s l h^2 (1 + s/(6h) + V/(12lh)). Step time, samples and tokens follow"
    " from the rate; the article does not print them. Its vocabulary is assumed (51200). For 530B"
    " it gives no micro batch, so no step time."
)
_PEAK_NOTE = "Peak: 312 TFLOP/s, BF16 and FP16 of an A100, dense (NVIDIA's datasheet)."


_SHAPE = ("layers", "hidden_size", "sequence_length", "vocabulary_size")


def _tera(value: Any) -> str:
    return units.UNKNOWN if value is None else units.measure(value / 1e12)


def counts(
    formulas: Sequence[Count],
    model: Model,
    *,
    batch: int,
    gpus: int,
    parameters: int,
    peak: float | None,
) -> Sheet:
    """One formula a row."""
    rows = [{**vars(item), "name": _WORDS[item.formula]} for item in formulas]
    heads = "" if peak is None else f" Peak of a GPU: {peak / 1e12:g} TFLOP/s."
    return Sheet(
        title=(
            f"One training step: {model.layers} layers, hidden {model.hidden_size},"
            f" {parameters / 1e9:.4g} billion parameters, sequence {model.sequence_length},"
            f" batch {batch} on {units.plural(gpus, 'GPU')}"
        ),
        columns=[
            Column("formula"),
            Column("name", "formula", words=True, data=False),
            Column("flops", "PFLOP a step", lambda value: units.measure(value / 1e15)),
            Column("rate", "TFLOP/s a GPU", _tera),
            Column("share_of_peak", "% of peak", units.percent_figure),
            Column("seconds", "step, s", units.seconds),
            Column("samples_per_second", "samples/s", units.measure),
            Column("tokens_per_second", "tokens/s", units.measure),
        ],
        rows=rows,
        notes=[_NOTES + heads],
        facts={
            "kind": "flops",
            **{name: getattr(model, name) for name in _SHAPE},
            "global_batch": batch,
            "gpus": gpus,
            "parameters": parameters,
            "peak": peak,
        },
    )


def published(rates: Sequence[Published]) -> Sheet:
    """One published rate a row."""
    rows = [{**vars(item), "share_of_peak": item.rate / item.peak} for item in rates]
    return Sheet(
        title="Published training rates and what they imply (DeepSpeed on Azure, 2022-07-26)",
        columns=[
            Column("model", "model", words=True),
            Column("system", "size", words=True),
            Column("gpus", "GPUs", units.count),
            Column("sequence_length", "sequence", units.count),
            Column("micro_batch", "micro batch", units.count),
            Column("rate", "TFLOP/s a GPU", _tera),
            Column("peak"),
            Column("share_of_peak", "% of peak", units.percent_figure),
            Column("megatron_rate", "without recomputing", _tera),
            Column("seconds", "step, s", units.seconds),
            Column("samples_per_second", "samples/s", units.measure),
            Column("tokens_per_second", "tokens/s", units.measure),
            *unshown("source", "assumed"),
        ],
        rows=rows,
        notes=[_PUBLISHED_NOTE, _PEAK_NOTE],
        facts={"kind": "flops_published"},
    )
