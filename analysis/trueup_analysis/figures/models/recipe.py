"""A vLLM recipe for a model and a layout, in the form of catalog/vllm_recipes.yml, from the facts
that its config.json holds."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from trueup_controller.plans import vllm_recipes
from trueup_node.errors import BadInput

from .facts import facts, slug
from .known import recipe as known_recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .config import ModelConfig
    from .roofline import Layout, Work

GIB: Final = 1024**3
# vLLM's own default for GPUs of 70 GiB and more; smaller ones get 2048 (vLLM 0.32.0).
_BATCHED_TOKENS: Final = 8192
_SMALL_BATCHED_TOKENS: Final = 2048
# CUDA's context, NCCL's buffers and CUDA graphs of one GPU. Ours, not measured.
_FIXED_GIB: Final = 2.0
# Recipes of the catalog whose kernels are pinned for the same vLLM.
_KERNELS_OF, _FP8_KERNELS_OF = "llama-3.1-8b", "deepseek-r1-h200"


def max_length(model: ModelConfig, work: Work) -> int:
    """Longest sequence to serve: twice the request's, at most the model's.

    Raises:
        BadInput: the request is longer than the model's longest sequence.
    """
    tokens = work.tokens_in + work.tokens_out
    if model.max_length and tokens > model.max_length:
        raise BadInput(
            f"a request of {tokens} tokens is longer than the longest sequence of {model.name},"
            f" {model.max_length}"
        )
    usual = max(8192, math.ceil(2 * tokens / 1024) * 1024)
    return min(usual, model.max_length) if model.max_length else usual


def batched_tokens(layout: Layout, gpu_memory_bytes: float) -> int:
    """Tokens of a step. Groups that share experts gather the tokens of all of them."""
    is_small = gpu_memory_bytes < 70 * GIB or (layout.expert and layout.data > 1)
    return _SMALL_BATCHED_TOKENS if is_small else _BATCHED_TOKENS


def workspace_gib(model: ModelConfig, layout: Layout, tokens: int, sequences: int) -> float:
    """Memory of a GPU beside weights and KV cache: a fixed part, the largest step's activations,
    and the words' scores of all sequences in FP32, twice. Ours, not measured."""
    widest = max(
        (matrix.rows for matrix in model.loaded if matrix.can_shrink and not matrix.routed),
        default=model.hidden,
    )
    activations = tokens * (4 * model.hidden + 3 * widest / layout.tensor) * 2
    if model.experts:
        gathered = tokens * (layout.data if layout.expert else 1)
        activations += gathered * model.experts_met * model.hidden * 3
    scores = sequences * model.vocabulary * 8
    return math.ceil(2 * (_FIXED_GIB + (activations + scores) / GIB)) / 2


def of_layout(
    model: ModelConfig,
    layout: Layout,
    work: Work,
    *,
    gpu_model: str,
    gpu_memory_bytes: float,
    sequences: int,
    model_id: str = "",
) -> dict[str, Any]:
    """A validated recipe.

    Args:
        sequences: most requests at a time of one group (max-num-seqs).
        model_id: on Hugging Face.
    """
    tokens = batched_tokens(layout, gpu_memory_bytes)
    gpu_word = gpu_model.partition("-")[0]
    recipe = {
        "model": model_id or model.name,
        "device": "cuda",
        "gpu_models": [gpu_word],
        "nodes": layout.nodes,
        "gpus": layout.tensor * layout.data,
        "tensor_parallel": layout.tensor,
        "data_parallel_per_node": layout.data,
        "expert_parallel": layout.expert,
        "max_model_len": max_length(model, work),
        "memory_share": 0.9,
        "facts": facts(model),
        "workspace_gib": workspace_gib(model, layout, tokens, sequences),
        "why": "ours, not measured: CUDA, NCCL, graphs, activations of a step, scores",
        "arguments": {"max-num-seqs": sequences, "max-num-batched-tokens": tokens},
        "environment": {"VLLM_LOGGING_LEVEL": "INFO"},
        "kernels": _kernels(model),
        "source": f"trueup model, from {model.name}",
        "date": "2026",
        "measured": "no: counted and computed",
    }
    return vllm_recipes.validate(slug(model_id or model.name), recipe)


def _kernels(model: ModelConfig) -> list[Mapping[str, Any]]:
    has_blocks = model.quantization.name == "fp8"
    return _pinned(_FP8_KERNELS_OF if has_blocks else _KERNELS_OF)


@cache
def _pinned(name: str) -> list[Mapping[str, Any]]:
    kernels: list[Mapping[str, Any]] = known_recipe(name)["kernels"]
    return kernels
