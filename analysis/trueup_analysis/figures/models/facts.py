"""The facts of a vLLM recipe (catalog/vllm_recipes.yml), counted from a model's config.json."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import ModelConfig


def slug(name: str) -> str:
    """A recipe's name: lower case, digits, dots, dashes."""
    text = re.sub(r"[^a-z0-9._-]+", "-", name.rsplit("/", 1)[-1].lower()).strip("-._")
    return text or "model"


def facts(model: ModelConfig) -> dict[str, Any]:
    """A recipe's facts."""
    routed = model.expert_parameters
    width = model.expert_bytes / routed if routed else model.quantization.least_width
    # The fit multiplies all parameters by the width: round so that no byte is lost.
    width = math.floor(width * 1e4) / 1e4
    total = model.weight_bytes + model.absorbed_bytes
    attention = (
        {"kv_lora_rank": model.latent, "qk_rope_head_dim": model.rope}
        if model.latent
        else {"kv_heads": model.kv_heads, "head_dim": model.head_dim}
    )
    sliding = [cache for cache in model.caches if cache.window]
    windows = (
        {"sliding_layers": sliding[0].layers, "sliding_window": sliding[0].window}
        if sliding
        else {}
    )
    return {
        "parameters": model.parameters,
        "expert_parameters": routed,
        "active_parameters": model.active_parameters,
        "bytes_per_parameter": width,
        "other_bytes": max(0, math.ceil(total - model.parameters * width)),
        "layers": model.layers,
        "hidden": model.hidden,
        **({"experts": model.experts} if model.experts else {}),
        **attention,
        **windows,
        "kv_bytes": 2,
        "source": f"counted from {model.name} ({model.architecture})".removesuffix(" ()"),
    }
