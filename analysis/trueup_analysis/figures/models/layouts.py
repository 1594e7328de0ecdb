"""Layouts of a model on a VM size: which fit, and how much KV cache they have room for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trueup_controller.plans import vllm_recipes

from . import recipe as of_recipe
from .roofline import Gpu, Layout, Work, sequences

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .config import ModelConfig

# Requests at a time of one group, at most: vLLM's default for large GPUs.
MOST_SEQUENCES: Final = 1024
_TENSOR: Final = (1, 2, 4, 8)


@dataclass(frozen=True)
class Held:
    """A layout that fits.

    Attributes:
        recipe: for the role vllm.
        fit: bytes over all GPUs of one server.
        sequences: most requests of a group at a time, by the room for their KV cache.
    """

    layout: Layout
    recipe: Mapping[str, Any]
    fit: vllm_recipes.Fit
    sequences: int


def possible(model: ModelConfig, gpus: int) -> Iterator[Layout]:
    """All layouts that use every GPU of a node. A dense model's groups are data parallel ranks; a
    mixture's are servers, or share the experts."""
    for tensor in _TENSOR:
        if gpus % tensor or model.heads % tensor:
            continue
        side_by_side = gpus // tensor
        if model.experts and side_by_side > 1:
            yield Layout(tensor, servers=side_by_side)
            yield Layout(tensor, data=side_by_side, expert=True)
        else:
            yield Layout(tensor, data=side_by_side)
            if model.experts and tensor > 1:
                yield Layout(tensor, expert=True)


def fitting(
    model: ModelConfig, size: str, gpus: int, gpu: Gpu, work: Work, *, has_fabric: bool
) -> tuple[list[Held], str]:
    """The layouts that fit a node; where none does, those of a mixture over several nodes. Without
    any, why the largest does not fit.

    Args:
        has_fabric: the size has InfiniBand between nodes.
    """
    held, reason = [], ""
    for layout in possible(model, gpus):
        fits, misfit = _held(model, size, gpus, gpu, work, layout)
        reason = misfit or reason
        held += [fits] if fits else []
    if held or not (model.experts and has_fabric):
        return held, reason
    for tensor in _TENSOR:
        if gpus % tensor or model.heads % tensor:
            continue
        wide = Layout(tensor, data=gpus // tensor, expert=True)
        fits, misfit = _held(model, size, gpus, gpu, work, wide)
        more = _more_nodes(model, size, gpus, gpu, work, wide)
        if more:
            fits, _ = _held(model, size, gpus, gpu, work, wide._replace(nodes=more))
            held += [fits] if fits else []
    return held, reason


def _recipe(model: ModelConfig, gpu: Gpu, work: Work, layout: Layout, most: int) -> dict[str, Any]:
    return of_recipe.of_layout(
        model,
        layout,
        work,
        gpu_model=gpu.model,
        gpu_memory_bytes=gpu.memory_bytes,
        sequences=most,
    )


def _machine(size: str, gpus: int, gpu: Gpu, nodes: int) -> vllm_recipes.Machine:
    return vllm_recipes.Machine(
        name=size,
        nodes=nodes,
        gpus=gpus,
        gpu_memory_bytes=int(gpu.memory_bytes),
        gpu_model=gpu.model,
    )


def _held(
    model: ModelConfig, size: str, gpus: int, gpu: Gpu, work: Work, layout: Layout
) -> tuple[Held | None, str]:
    plan = _recipe(model, gpu, work, layout, MOST_SEQUENCES)
    fit = vllm_recipes.fit(plan, _machine(size, gpus, gpu, layout.nodes))
    if not fit.fits or fit.available_bytes is None:
        reason = fit.reason.partition(" fit: ")[2].partition(". The smallest")[0]
        return None, reason.partition(". No ")[0]
    free = fit.available_bytes - fit.needed_bytes + fit.kv_cache_bytes
    most = min(MOST_SEQUENCES, sequences(free / fit.devices, model, layout, work))
    return Held(layout, plan, fit, max(1, most)), ""


def _more_nodes(
    model: ModelConfig, size: str, gpus: int, gpu: Gpu, work: Work, layout: Layout
) -> int | None:
    plan = _recipe(model, gpu, work, layout, MOST_SEQUENCES)
    return vllm_recipes.fit(plan, _machine(size, gpus, gpu, 1)).more_nodes
