"""Floating-point operations of one training iteration of a GPT-like model, by the formulas that the
field prints rates with, and the meaning of a rate or a step time.

Three counts, which differ by up to a third for the same run:

- **article**: ``96 B s l h^2 (1 + s/(6h) + V/(16 l h))``. Four passes: forward, backward (two),
  and the forward pass once more, since activations are recomputed. Source: D. Narayanan et al.,
  "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC21, arXiv
  2104.04473, equation 3; repeated by "Azure empowers easy-to-use, high-performance, and hyperscale
  model training using DeepSpeed" (2022-07-26) under the name FLOPs/GPU. In it B is the batch of one
  iteration: with the global batch, the count is that of all GPUs, and is divided by their number
  here; with the micro batch it is that of one GPU. The logits are not recomputed, which is why V
  stands over 16 and not over 12.
- **megatron**: ``72 B s l h^2 (1 + s/(6h) + V/(12 l h))``. The same model without recomputation,
  three passes ("model FLOPs"): equation 3 with a factor of 3 in place of 4 for the
  layers. Megatron-DeepSpeed of July 2022 (commit 1f19913ca43ac32e4bb1aec5efababdd29240fd8,
  megatron/training.py) multiplies the whole of equation 3 by 3/4 where nothing is recomputed, and
  so counts three quarters of the logits; where activations are recomputed it prints the article's.
- **megatron_lm**: the rate that Megatron-LM itself prints as ``throughput per GPU (TFLOP/s/GPU)``:
  three passes, and half of the attention scores, since the causal mask leaves half of them; with
  grouped queries, SwiGLU and any size of the feed-forward part. Source: NVIDIA/Megatron-LM, branch
  core_r0.16.0, commit ddc0d6774783b032ddceacc5714e653651daecb9, megatron/training/training.py,
  ``num_floating_point_operations``, for dense models with multi-head or grouped attention.

B: samples of one iteration; s: sequence length; l: layers; h: hidden size; V: vocabulary, padded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Dict, Optional

from ...errors import BadInput

_PASSES = 3  # forward, and backward for weights and for data
_OPERATIONS = 2  # a multiplication and an addition
_MOST = 10**9


@dataclass(frozen=True)
class Model:
    """A model of decoder layers, all alike.

    Attributes:
        layers: l.
        hidden_size: h.
        sequence_length: s, tokens of one sample.
        vocabulary_size: V, padded as the program pads it.
        attention_heads: needed by megatron_lm only where query_groups is given.
        ffn_hidden_size: of the feed-forward part; None means 4 h.
        query_groups: of grouped-query attention; None means one a head.
        gated: the feed-forward part has a third matrix (SwiGLU).
        tied: input and output embedding are one matrix.
        learned_positions: a learned embedding for each position, as in GPT-2 and GPT-3.
    """

    layers: int
    hidden_size: int
    sequence_length: int
    vocabulary_size: int
    attention_heads: Optional[int] = None
    ffn_hidden_size: Optional[int] = None
    query_groups: Optional[int] = None
    gated: bool = False
    tied: bool = True
    learned_positions: bool = True

    def __post_init__(self) -> None:
        """Refuse impossible models.

        Raises:
            BadInput: naming the number that is wrong.
        """
        for name in (
            *("layers", "hidden_size", "sequence_length", "vocabulary_size", "attention_heads"),
            *("ffn_hidden_size", "query_groups"),
        ):
            number = getattr(self, name)
            if number is not None and not 1 <= number <= _MOST:
                raise BadInput(f"{name} {number} is not a whole number from 1 to {_MOST}")
        heads, groups = self.attention_heads, self.query_groups
        if heads is not None and self.hidden_size % heads:
            raise BadInput(
                f"hidden_size {self.hidden_size} cannot be divided among {heads} attention_heads"
            )
        if groups is not None and heads is None:
            raise BadInput(f"query_groups {groups} needs attention_heads, which are not given")
        if groups is not None and heads is not None and heads % groups:
            raise BadInput(f"query_groups {groups} does not divide attention_heads {heads}")

    @property
    def plain(self) -> bool:
        """Whether the closed formulas hold: full attention, a feed-forward part of 4 h."""
        return (
            self.ffn_hidden_size in (None, 4 * self.hidden_size)
            and self.query_groups in (None, self.attention_heads)
            and not self.gated
        )


def article_flops(model: Model, batch: int) -> float:
    """Operations of one iteration over ``batch`` samples, activations recomputed (96 B s l h^2
    ...).

    Raises:
        BadInput: the model is not of the kind that the formula is for, or a batch below 1.
    """
    return _closed(model, batch, passes=_PASSES + 1)


def megatron_flops(model: Model, batch: int) -> float:
    """Operations of one iteration over ``batch`` samples without recomputation (72 B s l h^2 ...).

    Raises:
        BadInput: as article_flops.
    """
    return _closed(model, batch, passes=_PASSES)


def _closed(model: Model, batch: int, *, passes: int) -> float:
    if not model.plain:
        raise BadInput(
            "the formulas of the Megatron paper are for attention without groups and a"
            " feed-forward part of 4 x hidden_size without a gate: take megatron_lm"
        )
    size, length, layers = model.hidden_size, model.sequence_length, model.layers
    # The logits are computed in three passes, whatever is recomputed: 6 B s h V.
    logits = model.vocabulary_size / (passes * 4 * layers * size)
    factor = 1 + length / (6 * size) + logits
    return 24.0 * passes * _batch(batch) * length * layers * size * size * factor


def megatron_lm_flops(model: Model, batch: int) -> float:
    """Operations of one iteration over ``batch`` samples as Megatron-LM counts them for its own
    ``throughput per GPU``.

    Raises:
        BadInput: a batch below 1.
    """
    size, tokens = model.hidden_size, _batch(batch) * model.sequence_length
    shared = 1.0
    if model.query_groups is not None and model.attention_heads is not None:
        shared = model.query_groups / model.attention_heads
    ffn = model.ffn_hidden_size or 4 * size
    layer = (
        (3 if model.gated else 2) * ffn * size  # feed-forward
        + (2 + 2 * shared) * size * size  # queries, output; keys, values
        + size * model.sequence_length  # scores and values, half of each under the causal mask
    )
    total = model.layers * layer + size * model.vocabulary_size
    return float(_PASSES * _OPERATIONS) * tokens * total


FORMULAS: Dict[str, Callable[[Model, int], float]] = {
    "article": article_flops,
    "megatron": megatron_flops,
    "megatron_lm": megatron_lm_flops,
}


def parameters(model: Model) -> int:
    """The model's parameters: matrices, biases and layer norms of a GPT-2-like model (with a gate
    or groups: of the matrices alone, as those models have no biases and RMS norms).

    For plain models with learned positions and tied embeddings this is 12 l h^2 (1 + 13/(12h) +
    (V+s)/(12lh)), equation 2 of the Megatron paper, and the final norm's 2 h.
    """
    size, layers = model.hidden_size, model.layers
    embeddings = model.vocabulary_size * size * (1 if model.tied else 2)
    if model.learned_positions:
        embeddings += model.sequence_length * size
    ffn = model.ffn_hidden_size or 4 * size
    if model.plain:
        return layers * (12 * size * size + 13 * size) + embeddings + 2 * size
    heads = model.attention_heads or 1
    groups = model.query_groups or heads
    attention = 2 * size * size + 2 * size * size * groups // heads
    feed_forward = (3 if model.gated else 2) * ffn * size
    return layers * (attention + feed_forward + 2 * size) + embeddings + size


def rate(flops: float, seconds: float, gpus: int) -> float:
    """flop/s of each GPU.

    Raises:
        BadInput: a time or a number of GPUs that is not positive, or a rate beyond all numbers.
    """
    return _quotient(flops, _positive("step time", seconds), _count(gpus), "step time")


def seconds_for(flops: float, rate_per_gpu: float, gpus: int) -> float:
    """The step time that a rate (flop/s of each GPU) means.

    Raises:
        BadInput: a rate or a number of GPUs that is not positive, or a time beyond all numbers.
    """
    return _quotient(flops, _positive("rate", rate_per_gpu), _count(gpus), "rate")


def _quotient(flops: float, by: float, gpus: int, name: str) -> float:
    """flops / (by x gpus), where it is a number above 0."""
    quotient = flops / gpus / by
    if not (math.isfinite(quotient) and quotient > 0):
        raise BadInput(f"{name} {by:g} is too small or too large to compute with")
    return quotient


def _batch(batch: int) -> int:
    if batch < 1:
        raise BadInput(f"a batch of {batch} samples is none")
    if batch > _MOST**2:
        raise BadInput(f"a batch of more than {_MOST**2} samples is none")
    return batch


def _count(gpus: int) -> int:
    if gpus < 1:
        raise BadInput(f"{gpus} GPUs compute nothing")
    if gpus > _MOST:
        raise BadInput(f"more than {_MOST} GPUs are none")
    return gpus


def _positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise BadInput(f"{name} {value:g} is not a positive number")
    return value
