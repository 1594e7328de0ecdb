"""Time of serving from first principles: bytes read and operations of each step at the shares of
the datasheet's rates that engines reach, messages between GPUs, and a fixed time of each layer.

One GPU group (tensor parallel ranks) works on a batch. A step of decoding reads the weights once
and the KV cache of every sequence; a prompt is multiplied at the tensor cores' rate. With ``b``
sequences in flight, each answer of ``n`` tokens takes ``n`` steps and the prompts of the ``b - 1``
others that arrive meanwhile.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..advise.knowledge import Knowledge
    from .config import ModelConfig

# Shares of the datasheet's rates, and fixed times. Chosen by hand beside operator times that NVIDIA
# measured with vLLM on A100, H100 and H200 (aiconfigurator 0.12.0) and beside the results of
# evidence.csv; not fitted. What they miss stands in docs/guides/model.md.
MEMORY_SHARE: Final = 0.85
TENSOR_SHARE: Final = 0.53
TENSOR_SHARE_8: Final = 0.42
LINK_SHARE: Final = 0.6
LAYER_SECONDS: Final = 18e-6
STEP_SECONDS: Final = 0.8e-3
# A message between GPUs, of which a layer has two.
MESSAGE_SECONDS: Final = 20e-6
_MOST_OF_A_NODE: Final = 8
# The same between nodes.
_FABRIC_SECONDS: Final = 60e-6
# Routing, and the experts' small kernels, of a layer with experts.
EXPERT_SECONDS: Final = 1e-4
# The all-to-all of experts, of which a layer with experts has two.
EXCHANGE_SECONDS: Final = 40e-6
_ACTIVATION_BYTES: Final = 2
# Tokens of a step that holds prompts: vLLM's own default for large GPUs.
BATCHED_TOKENS: Final = 8192
# Bytes/s in one direction of a GPU (datasheets of NVIDIA's GPUs, their NVL forms, and of MI300X).
_LINKS: Final[Mapping[str, float]] = {
    "NVLink3 bridge": 300e9,
    "NVLink4 bridge": 300e9,
    "NVLink3": 300e9,
    "NVLink4": 450e9,
    "NVLink (1.8 TB/s)": 900e9,
    "Infinity Fabric": 448e9,
}
# PCIe 4.0 x16, where GPUs have no link of their own.
_PCIE: Final = 25e9
# GPUs whose tensor cores multiply FP8, at twice the rate of BF16 (their datasheets).
_FP8: Final = re.compile(r"H[12]00|MI300X|GB[23]00|RTX-PRO-6000")
# And FP4, at four times the rate of BF16 at least.
_FP4: Final = re.compile(r"GB[23]00|RTX-PRO-6000")
# What matrix products reach of the peak, over what they do on H100: 620 of 1307 and 720 of 989
# TFLOP/s in BF16 (SemiAnalysis, "MI300X vs H100 vs H200 Benchmark", 2024-12-22).
_PRODUCTS: Final = {"MI300X-192GB": 0.65}


class Gpu(NamedTuple):
    """Rates of one GPU: bytes/s and flop/s, of its link to the others of a node, and of its
    adapter to other nodes; seconds of a message to the others."""

    model: str
    memory_bytes: float
    bandwidth: float
    flops: float
    flops_8: float
    link: float
    fabric: float = 0.0
    flops_4: float = 0.0
    message: float = MESSAGE_SECONDS


class Layout(NamedTuple):
    """How GPUs share a model.

    Attributes:
        tensor: tensor parallel ranks of a group.
        data: groups that share the experts, or serve side by side behind one API.
        expert: experts are spread over all groups.
        servers: independent servers on a node, each of ``tensor`` x ``data`` GPUs.
        nodes: of one server.
    """

    tensor: int
    data: int = 1
    expert: bool = False
    servers: int = 1
    nodes: int = 1

    @property
    def groups(self) -> int:
        """Batches side by side on a node, or on all nodes of a server that takes several."""
        return self.data * self.servers * self.nodes

    @property
    def words(self) -> str:
        parts = [f"tensor {self.tensor}"]
        parts += [f"data {self.data}"] * (self.data > 1)
        parts += ["expert"] * self.expert
        text = ", ".join(parts)
        return f"{self.servers} servers of {text}" if self.servers > 1 else text


class Work(NamedTuple):
    """Tokens of a request.

    Attributes:
        cached: of the prompt, those that the prefix cache holds.
    """

    tokens_in: int
    tokens_out: int
    cached: int = 0


class Step(NamedTuple):
    """Seconds of a group: ``decode`` of a step for its batch, ``prefill`` of a prompt alone,
    ``shared`` of a prompt in steps that are full of prompts, of which each takes ``prompts``."""

    decode: float
    prefill: float
    shared: float
    prompts: float


class Speed(NamedTuple):
    """Speed of one group at a load.

    Attributes:
        in_flight: requests at a time.
        requests_per_second: that it completes.
        ttft, tpot: seconds, means.
    """

    in_flight: float
    requests_per_second: float
    ttft: float
    tpot: float


def gpu_of(size: str, knowledge: Knowledge) -> Gpu | None:
    """None where the size has no whole GPUs or the catalog no datasheet of them."""
    row = knowledge.sizes[size]
    peak, bandwidth = knowledge.bf16_peak(size), knowledge.gpu_bandwidth(size)
    if peak is None or bandwidth is None or not row["gpu_memory_gib"]:
        return None
    name = row["gpu_model"]
    interconnect = row["gpu_interconnect"]
    link = next((rate for form, rate in _LINKS.items() if interconnect.startswith(form)), _PCIE)
    flops = peak * _PRODUCTS.get(name, 1.0)
    return Gpu(
        model=name,
        memory_bytes=float(row["gpu_memory_gib"]) * 1024**3,
        bandwidth=bandwidth,
        flops=flops,
        flops_8=flops * (2 if _FP8.match(name) else 1),
        flops_4=flops * (4 if _FP4.match(name) else 1),
        link=link,
        fabric=float(row["rdma_gbps_per_nic"] or 0) * 1e9 / 8,
        # Without a switch between the GPUs a message takes two steps.
        message=MESSAGE_SECONDS * (1 if interconnect[:2] == "NV" and link > _PCIE else 2),
    )


def step(model: ModelConfig, gpu: Gpu, layout: Layout, work: Work, batch: float) -> Step:
    """Times of one group with ``batch`` sequences in flight."""
    context = work.tokens_in + work.tokens_out / 2
    decode, fresh = _decode(model, gpu, layout, batch, context), work.tokens_in - work.cached
    prompts = min(batch, BATCHED_TOKENS / max(1, fresh))
    alone, shared = (
        _prefill(model, gpu, layout, max(1, fresh), many) for many in (1, max(1, prompts))
    )
    return Step(decode, alone, shared, prompts)


def _decode(model: ModelConfig, gpu: Gpu, layout: Layout, batch: float, context: float) -> float:
    memory = gpu.bandwidth * MEMORY_SHARE
    weights = _weights_read(model, layout, batch) / memory
    multiplied = 2 * model.multiplied_parameters * batch / layout.tensor / _flops(model, gpu)
    cache = batch * model.kv_bytes(context) / _kv_parts(model, layout) / memory
    fixed = STEP_SECONDS + model.layers * LAYER_SECONDS + model.expert_layers * EXPERT_SECONDS
    return max(weights, multiplied) + cache + fixed + _messages(model, gpu, layout, batch)


def _prefill(model: ModelConfig, gpu: Gpu, layout: Layout, each: float, prompts: float) -> float:
    """Seconds of a prompt of ``each`` tokens in a step of so many prompts."""
    head, tokens = model.vocabulary * model.hidden, each * prompts
    operations = 2 * (model.multiplied_parameters - head) * tokens / layout.tensor
    weights = _weights_read(model, layout, tokens) / (gpu.bandwidth * MEMORY_SHARE)
    multiplied = max(operations / _flops(model, gpu), weights)
    attention = _attention(model, each) / layout.tensor / (gpu.flops * TENSOR_SHARE)
    fixed = STEP_SECONDS + model.layers * LAYER_SECONDS
    step_seconds = multiplied + fixed + _messages(model, gpu, layout, tokens)
    return step_seconds / prompts + attention


def _attention(model: ModelConfig, tokens: float) -> float:
    """Operations of the scores and the weighted values of a prompt: each token sees the ones
    before it, at most a window of them."""
    dims = (model.latent_query or model.head_dim) + model.value_dim
    return sum(
        cache.layers * 2 * model.heads * dims * tokens * min(tokens / 2, cache.window or tokens)
        for cache in model.caches
    )


def _flops(model: ModelConfig, gpu: Gpu) -> float:
    peak = {8: gpu.flops_8, 4: gpu.flops_4}.get(model.quantization.compute, 0.0)
    if peak > gpu.flops:
        return peak * TENSOR_SHARE_8
    return gpu.flops * TENSOR_SHARE


def _weights_read(model: ModelConfig, layout: Layout, batch: float) -> float:
    """Bytes that a GPU reads in a step: all weights but the input table, and of the experts those
    that some token of the batch meets."""
    table = model.vocabulary * model.hidden * 2
    dense = (model.weight_bytes - model.expert_bytes - table * (not model.is_tied)) / layout.tensor
    if not model.experts:
        return dense
    groups = layout.data * layout.nodes if layout.expert else 1
    unmet = math.pow(1 - model.experts_met / model.experts, max(1.0, batch * groups))
    return dense + model.expert_bytes * (1 - unmet) / (layout.tensor * groups)


def _kv_parts(model: ModelConfig, layout: Layout) -> int:
    """Ranks that share the KV cache. The latent vector of MLA is on each of them."""
    return 1 if model.latent else min(layout.tensor, model.kv_heads)


def _messages(model: ModelConfig, gpu: Gpu, layout: Layout, tokens: float) -> float:
    """Seconds of a step for all messages between the GPUs."""
    size, link = tokens * model.hidden * _ACTIVATION_BYTES, gpu.link * LINK_SHARE
    seconds = 0.0
    if layout.tensor > 1:
        ranks, is_wide = layout.tensor, layout.tensor > _MOST_OF_A_NODE
        slowest = gpu.fabric * LINK_SHARE if is_wide and gpu.fabric else link
        reduced = 2 * (ranks - 1) / ranks * size / slowest
        latency = gpu.message + _FABRIC_SECONDS * is_wide
        seconds += 2 * model.layers * (latency + reduced)
    if layout.expert and layout.tensor * layout.data > 1:
        is_wide = layout.nodes > 1 and gpu.fabric > 0
        link = (gpu.fabric if is_wide else gpu.link) * LINK_SHARE
        latency = EXCHANGE_SECONDS + _FABRIC_SECONDS * is_wide
        sent = (
            size
            * min(model.experts_met, layout.tensor * layout.data * layout.nodes)
            / layout.tensor
        )
        seconds += 2 * model.expert_layers * (latency + sent / link)
    return seconds


def speed(times: Step, work: Work, in_flight: float) -> Speed:
    """Speed at ``in_flight`` requests of a group. The prompts of the requests that arrive while one
    is answered delay its tokens."""
    others = (in_flight - 1) * times.shared
    mixed = min(in_flight / times.prompts, work.tokens_out)
    seconds = (
        times.prefill
        + others
        + (work.tokens_out - mixed) * times.decode
        + mixed * min(times.decode, times.shared * times.prompts)
    )
    busy = in_flight * times.shared / seconds
    # A prompt waits for half of another prompt, as often as one is being worked on, and for a step.
    wait = busy * times.prefill / (2 * max(0.05, 1 - busy)) + times.decode / 2
    ttft = times.prefill + wait + times.decode
    tpot = max(0.0, seconds - ttft) / max(1, work.tokens_out - 1)
    return Speed(in_flight, in_flight / seconds, ttft, tpot)


def sequences(room_bytes: float, model: ModelConfig, layout: Layout, work: Work) -> int:
    """Sequences whose KV cache fits the room of one group's GPUs."""
    each = model.kv_bytes(work.tokens_in + work.tokens_out) / _kv_parts(model, layout)
    return math.floor(room_bytes / each)
