"""Operation counts against sums over the model's own matrices, and published figures."""

from __future__ import annotations

import pytest
from helpers import parametrized
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.megatron.flops import (
    FORMULAS,
    Model,
    article_flops,
    megatron_flops,
    megatron_lm_flops,
    rate,
    seconds_for,
)
from trueup_node.errors import BadInput

GPT3 = Model(96, 12288, 512, 51200, 96)


def products(model: Model, batch: int, *, passes: int, scores: float = 1.0) -> float:
    """Every matrix product of a forward pass, times the passes; logits are never recomputed."""
    tokens = batch * model.sequence_length
    size, ffn = model.hidden_size, model.ffn_hidden_size or 4 * model.hidden_size
    heads = model.attention_heads or 1
    groups = model.query_groups or heads
    width = size // heads
    forward = 2 * tokens * size * (size + 2 * groups * width)  # queries, keys, values
    forward += 2 * tokens * size * size  # output
    forward += 2 * (2 * tokens * model.sequence_length * size) * scores  # scores, values
    forward += (3 if model.gated else 2) * 2 * tokens * size * ffn
    logits = 2 * tokens * size * model.vocabulary_size
    return passes * model.layers * forward + 3 * logits


models = st.builds(
    lambda layers, heads, width, length, words: Model(layers, heads * width, length, words, heads),
    st.integers(1, 200),
    st.integers(1, 128),
    st.sampled_from([32, 64, 128]),
    st.integers(1, 131072),
    st.integers(1, 300_000),
)


@settings(max_examples=60, deadline=None)
@given(model=models, batch=st.integers(1, 10_000))
def test_the_formulas_are_sums_over_the_matrices(model: Model, batch: int) -> None:
    assert article_flops(model, batch) == pytest.approx(products(model, batch, passes=4), rel=1e-12)
    assert megatron_flops(model, batch) == pytest.approx(
        products(model, batch, passes=3), rel=1e-12
    )
    assert megatron_lm_flops(model, batch) == pytest.approx(
        products(model, batch, passes=3, scores=0.5), rel=1e-12
    )


def test_groups_a_gate_and_another_size_are_counted_by_megatron_lm_alone() -> None:
    llama = Model(32, 4096, 8192, 128256, 32, 14336, 8, gated=True, tied=False)
    assert megatron_lm_flops(llama, 8) == pytest.approx(
        products(llama, 8, passes=3, scores=0.5), rel=1e-12
    )
    for formula in (article_flops, megatron_flops):
        with pytest.raises(BadInput, match="take megatron_lm"):
            formula(llama, 8)


@parametrized(("numbers", "said"))
def test_what_is_no_model_is_refused(numbers: tuple[int, ...], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Model(*numbers)


def test_no_batch_time_rate_or_gpus_are_refused() -> None:
    for formula in FORMULAS.values():
        with pytest.raises(BadInput, match="a batch of 0 samples is none"):
            formula(GPT3, 0)
        with pytest.raises(BadInput, match="a batch of more than 1000000000000000000 samples"):
            formula(GPT3, 10**320)
    with pytest.raises(BadInput, match="0 GPUs compute nothing"):
        rate(1.0, 1.0, 0)
    with pytest.raises(BadInput, match="more than 1000000000 GPUs are none"):
        rate(1.0, 1.0, 10**320)
    for value in (5e-324, 1e-309):
        with pytest.raises(BadInput, match="is too small or too large to compute with"):
            rate(1e15, value, 1)
        with pytest.raises(BadInput, match="is too small or too large to compute with"):
            seconds_for(1e15, value, 1)
    for value in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(BadInput, match="is not a positive number"):
            rate(1.0, value, 1)
        with pytest.raises(BadInput, match="is not a positive number"):
            seconds_for(1.0, value, 1)
