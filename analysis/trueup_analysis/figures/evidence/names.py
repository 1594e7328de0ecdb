"""Names that publications give to GPUs, models and precisions, and trueup's own for them."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from ... import catalog

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# GPUs that Azure rents, by patterns of their names; the first match counts. An accelerator that
# matches none is skipped by its name.
_GPUS: Final = {
    "H200-SXM5-141GB": r"(?!.*nvl|.*virtual).*\bh200\b.*|h200.*sxm.*",
    "H100-NVL-94GB": r".*h100.*nvl.*",
    "H100-SXM5-80GB": r"(?!.*pcie|.*nvl|.*virtual|.*gh200).*h100.*",
    "A100-SXM4-80GB": r".*a100.*sxm.*80.*",
    "A100-SXM4-40GB": r".*a100.*sxm.*40.*",
    "MI300X-192GB": r"(?!.*mi3[125][05]x).*mi300x.*",
    "RTX-PRO-6000-BSE-96GB": r".*rtx.?(pro)? ?6000.*blackwell.*server.*|rtx pro 6000.*",
    "GB200 (Blackwell)": r".*\bgb200\b.*",
    "GB300 (Blackwell Ultra)": r".*\bgb300\b.*",
    "A10-24GB": r".*\ba10\b.*",
    "T4-16GB": r".*\bt4\b.*",
}
# The names of evidence_models.csv, by patterns of a publication's.
_MODELS: Final = {
    "deepseek-r1": r"(deepseek-ai/)?deepseek-?r1(-0528)?(-fp[48])?|dsr1|deepseek-?v3(\.1)?.*",
    "llama-2-7b": r"llama-?2-?7b(.*chat.*|-hf)?",
    "llama-2-70b": r"llama-?2-?70b(-99(\.9)?)?(.*chat.*)?",
    "llama-3.1-8b": r"(meta-)?llama[- ]?3([._]?1)?[-_ ]?8b(-instruct)?(-edge)?(-fp8)?",
    "llama-3.1-70b": r"(meta-)?llama[- ]?3([._]?[13])?[-_ ]?70b(-instruct)?(-fp8.*)?|llama70b",
    "llama-3.1-405b": r"(meta-)?llama[- ]?3[._]?1[-_ ]?405b(-instruct)?(-fp8.*)?",
    "llama-4-scout": r"llama[- ]?4[- ]scout.*",
    "llama-4-maverick": r"llama[- ]?4[- ]maverick.*",
    "mistral-7b": r"mistral-7b(-instruct)?(-v0\.3)?",
    "mistral-small-24b": r"mistral-small-24b(-instruct)?(-2501)?",
    "mixtral-8x7b": r"mixtral-?8x7b.*",
    "mixtral-8x22b": r"mixtral-?8x22b.*",
    "phi-4": r"phi-4",
    **{
        f"qwen2.5-{size}": rf"qwen2\.5-(coder-)?{size}(-instruct)?(-fp8.*|-awq|-gptq.*)?"
        for size in ("7b", "32b", "72b")
    },
    "qwen3-8b": r"qwen3[-_]8b(-fp8|-awq)?",
    "qwen3-14b": r"qwen3[-_]14b(-fp8|-awq)?",
    "qwen3-coder-480b-a35b": r"qwen3-coder-480b-a35b.*",
    "qwen3-30b-a3b": r"qwen3[-_]30b[-_]a3b.*",
    "qwen3-235b-a22b": r"qwen3[-_]235b[-_]a22b.*",
    "qwen3-32b": r"qwen3[-_]32b.*",
    "qwen3-0.6b": r"qwen3[-_]0\.6b.*",
    "gpt-oss-20b": r"gpt[-_ ]?oss[-_ ]?20b.*",
    "gpt-oss-120b": r"gpt[-_ ]?oss[-_ ]?120b.*|gptoss",
}
_PRECISIONS: Final = {
    "fp8": r".*fp8.*",
    "fp4": r".*fp4.*",
    "int4": r".*(int4|w4a16|awq|gptq).*",
    "int8": r".*(int8|w8a8).*",
    "bf16": r".*(bf16|bfloat16|fp16|float16).*",
}


def gpu(name: str) -> str | None:
    """A GPU as vm_sizes.csv calls it; None where Azure rents no such."""
    return _first(_GPUS, " ".join(name.split()))


def model(name: str) -> str:
    """A model by the name of evidence_models.csv, another as it is called, in lower case."""
    short = re.sub(r"\s*\(.*\)$", "", name.strip())
    short = re.sub(r"^[\w.-]+/(?=[\w.-]+$)", "", short)
    return _first(_MODELS, short) or short.lower()


@cache
def models(folder: Path) -> Mapping[str, Mapping[str, str]]:
    """The figures of published models, by name: evidence_models.csv of a catalog."""
    path = catalog.find("evidence_models.csv", folder)
    return {row["model"]: row for _, row in catalog.rows(path, "model", "parameters")}


def precision(name: str) -> str:
    """Of weights; "" where the name says none."""
    return _first(_PRECISIONS, name) or ""


def _first(patterns: dict[str, str], name: str) -> str | None:
    lower = name.lower()
    return next(
        (known_name for known_name, pattern in patterns.items() if re.fullmatch(pattern, lower)),
        None,
    )
