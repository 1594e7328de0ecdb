"""Training of a dense transformer, whole, by LoRA or by QLoRA: operations over a GPU's share of its
BF16 peak.

Operations of a token: ``6 N`` (forward, and backward twice), and ``12 l h s`` of attention where
layers and hidden size are given (module trueup_node.benchmarks.megatron.flops, formula megatron).
LoRA and QLoRA compute no gradients of the frozen weights: ``4 N``. States are sharded over all
GPUs, activations are computed anew but for the input of each layer.
Published rates that count the forward pass twice are taken at three quarters.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from trueup_node.errors import BadInput
from trueup_node.options import Option

from ...models import known
from .. import outside
from ..estimates import FAR, NEAR, PUBLISHED, Assumption, Evidence, around
from ..knowledge import Knowledge, number
from ..points import Point, Prediction
from .kind import Ask, Assumed, Need, logged_figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_node.cases import Case

# How published benchmarks count: three passes, or four.
_COUNTED: Final = {"DeepSpeed Megatron ": 3 / 4, "Megatron-Bridge ": 1.0}
_RATES: Final = ("throughput_per_gpu", "model_tflops_per_gpu")
_GIB: Final = 2**30
# Forward, and backward for weights and for data; of each a multiplication and an addition.
_PASSES: Final = 3

FULL, LORA, QLORA = "full", "lora", "qlora"
_METHODS: Final = {LORA: "LoRA", QLORA: "QLoRA"}
OPTIONS: Final = (
    Option(
        "model", "A dense model, by a name such as llama-3.1-8b or its config.json.", type="str"
    ),
    Option("parameters_billion", "Parameters of the model, in 10^9.", type="float", least=1e-3),
    Option(
        "tokens_billion", "Tokens to train on, in 10^9.", type="float", required=True, least=1e-6
    ),
    Option(
        "method",
        "full: all parameters; lora: adapters beside BF16 weights; qlora: beside 4-bit weights.",
        FULL,
        choices=(FULL, LORA, QLORA),
    ),
    Option("lora_rank", "Rank of the adapters, which stand at every linear layer.", 16, least=1),
    Option("sequence_length", "Tokens of a sample.", 2048, least=1),
    Option("micro_batch", "Samples that a GPU works on at once.", 1, least=1),
    Option(
        "layers", "Decoder layers; with hidden_size, attention is counted.", type="int", least=1
    ),
    Option("hidden_size", "Hidden size.", type="int", least=1),
)


# The role training installs PyTorch of CUDA 13.
CUDA_13: Final = True
# Of a trained parameter, beside BF16 weights: BF16 gradients 2 bytes, FP32 weights 4, two moments 8
# (Rajbhandari et al., ZeRO, arXiv 1910.02054, section 3).
_TRAINED: Final = 14.0
_BF16: Final = 2.0
# NF4 with double quantisation: 4 bits and 0.127 (Dettmers et al., QLoRA, arXiv 2305.14314).
_NF4: Final = 4.127 / 8
# A checkpoint has no gradients: BF16 weights, FP32 weights and two moments.
_KEPT: Final = 14.0
# Operations of a token over 2 N: forward, backward for data, and for weights that are trained.
_OPERATIONS: Final = {FULL: 3.0, LORA: 2.0, QLORA: 2.0}
# QLoRA took 1.39 times the time of LoRA (S. Raschka, "Practical tips for finetuning LLMs", 2023).
_UNPACKING: Final = {FULL: 1.0, LORA: 1.0, QLORA: 1.39}
# Of a decoder whose shape is not given: hidden size over layers, and MLP over hidden size
# (Llama 3.1: 128 and 3.5 at 8B, 102 and 3.5 at 70B).
_ASPECT: Final = 128.0
_MLP: Final = 3.5
_VOCABULARY: Final = 128256
# Bytes of activations of a layer, by token and hidden size: all of the layer that is computed anew
# (Korthikanti et al., arXiv 2205.05198: 34 without the part of attention), and the input of each.
_LAYER: Final = 34.0
_INPUT: Final = 2.0
# Logits in BF16 and FP32.
_LOGITS: Final = 6.0
ASSUMPTIONS: Final = (
    Assumption(
        "usable_memory",
        0.9,
        0.8,
        0.95,
        "1",
        "of the GPUs' memory; the rest is the driver's, NCCL's and fragments (ours, not measured)",
    ),
    Assumption(
        "adapter_efficiency",
        1.0,
        0.7,
        1.0,
        "1",
        "the share of the peak with LoRA over that of full training (ours, not measured)",
    ),
)


def points(knowledge: Knowledge) -> list[Point]:
    """Model flop/s of all GPUs, published and our own."""
    known_points = []
    for metric in _RATES:
        for start, counted in _COUNTED.items():
            for row in knowledge.results(start, metric):
                size = row["system"]
                if size in knowledge.sizes and row["nodes"] and row["cores_or_gpus"]:
                    known_points.append(
                        Point(
                            label=f"{row['benchmark']}, {row['cores_or_gpus']} GPUs",
                            size=size,
                            nodes=int(row["nodes"]),
                            rate=float(row["value"]) * 1e12 * counted * int(row["cores_or_gpus"]),
                            traits={"gpus": int(row["cores_or_gpus"])},
                            evidence=Evidence(PUBLISHED, row["source"], _day(row["source"])),
                        )
                    )
    for result in outside.trained(knowledge):
        outside_row = result.row
        known_points.append(
            Point(
                label=f"{outside_row.publisher}: {outside_row.model}, {outside_row.count} GPUs",
                size=result.size,
                nodes=result.nodes,
                rate=result.rate,
                traits={
                    "gpus": outside_row.count,
                    "publisher": outside_row.publisher,
                    "elsewhere": True,
                },
                evidence=result.evidence,
                condition="FP8" if outside_row.precision == "fp8" else "",
            )
        )
    for record in knowledge.own("megatron", "train_flops_megatron"):
        gpus = record.case.gpus
        if gpus:
            rate, traits = record.value * gpus, {"gpus": gpus}
            known_points.append(
                Point(
                    record.evidence.source, record.size, record.nodes, rate, traits, record.evidence
                )
            )
    return known_points


def _day(source: str) -> str:
    days = re.findall(r"\d{4}-\d{2}-\d{2}", source)
    return days[-1] if days else ""


def predict(target: Point, peers: Sequence[Point], knowledge: Knowledge) -> Prediction | None:
    """The share of the peak that others reach: those of the same size, else all of them."""
    peak = knowledge.bf16_peak(target.size)
    if peak is None:
        return None
    model = knowledge.sizes[target.size]["gpu_model"]
    same = _of_size(target.size, peers)
    used = same or list(peers)
    if not used:
        return None
    shares = sorted(
        peer.rate / peer.traits["gpus"] / (knowledge.bf16_peak(peer.size) or math.nan)
        for peer in used
    )
    middle = len(shares) // 2
    share = shares[middle] if len(shares) % 2 else (shares[middle - 1] + shares[middle]) / 2
    beyond = []
    method = target.traits.get("method", FULL)
    if method != FULL:
        beyond.append(f"no result of {_METHODS[method]}: the share of the peak of full training.")
    if not same:
        beyond.append(f"no training result of a {model}: the share of the peak of other GPUs.")
    gpus = int(target.nodes * (number(knowledge.sizes[target.size], "gpus") or 0))
    most = max(peer.traits["gpus"] for peer in used)
    if gpus > most:
        beyond.append(f"no result has more than {most} GPUs.")
    evidence = tuple(dict.fromkeys(peer.evidence for peer in used if peer.evidence))
    if not same:
        evidence += (Evidence("model", f"{share:.0%} of the BF16 peak of a {model}"),)
    # Other GPUs are tested by the back-test, other methods and more GPUs are not.
    is_tested = method == FULL and gpus <= most
    distance = (NEAR if same else FAR) if is_tested else ""
    return Prediction(peak * share * gpus, evidence, " ".join(beyond), distance)


def _of_size(size: str, peers: Sequence[Point]) -> list[Point]:
    """Results of the size itself, else those of its GPU in other machines."""
    same = [peer for peer in peers if peer.size == size]
    return [peer for peer in same if not peer.traits.get("elsewhere")] or same


class Shape(NamedTuple):
    """Layers and hidden size of a decoder, the given ones or those of its parameters."""

    layers: float
    hidden: float


def shape(ask: Ask) -> Shape:
    """``N = 12 l h^2`` parameters at the usual aspect, where the ask does not say them."""
    layers, hidden = ask["layers"], ask["hidden_size"]
    parameters = ask["parameters_billion"] * 1e9
    if layers and hidden:
        return Shape(layers, hidden)
    if hidden:
        return Shape(parameters / (12 * hidden**2), hidden)
    if layers:
        return Shape(layers, math.sqrt(parameters / (12 * layers)))
    layers = (parameters / (12 * _ASPECT**2)) ** (1 / 3)
    return Shape(layers, _ASPECT * layers)


def adapters(form: Shape, rank: int) -> float:
    """Parameters of adapters at every linear layer: two thin matrices beside each of the four of
    attention and the three of the MLP."""
    attention, mlp = 4 * 2 * form.hidden, 3 * (1 + _MLP) * form.hidden
    return form.layers * rank * (attention + mlp)


def states(ask: Ask) -> tuple[float, float]:
    """Bytes of weights, gradients and optimizer, and of a checkpoint."""
    parameters = ask["parameters_billion"] * 1e9
    if ask["method"] == FULL:
        return parameters * (_BF16 + _TRAINED), parameters * _KEPT
    trained = adapters(shape(ask), ask["lora_rank"])
    each = _BF16 if ask["method"] == LORA else _NF4
    return parameters * each + trained * (_BF16 + _TRAINED), trained * _KEPT


def activations(ask: Ask) -> float:
    """Bytes of a GPU: the input of each layer, one layer computed anew, and the logits."""
    form = shape(ask)
    tokens = float(ask["sequence_length"] * ask["micro_batch"])
    layers = _INPUT * form.layers + _LAYER
    return tokens * (form.hidden * layers + _VOCABULARY * _LOGITS)


def _shaped(ask: Ask, knowledge: Knowledge) -> Ask:
    """With parameters, layers and hidden size of the model, where one is named.

    Raises:
        BadInput: neither a model nor its parameters are given, or both, or a mixture of experts.
    """
    if bool(ask["model"]) == bool(ask["parameters_billion"]):
        raise BadInput("give either model (a name, a config.json) or parameters_billion")
    if not ask["model"]:
        return ask
    model = known.find(ask["model"], knowledge.folder).model
    if model.experts:
        raise BadInput(f"{model.name} is a mixture of experts: no result of training one is known")
    figures = {"parameters_billion": model.parameters / 1e9, "layers": model.layers}
    return {**ask, **figures, "hidden_size": model.hidden}


def need(ask: Ask, assumed: Assumed, knowledge: Knowledge) -> Need:
    ask = _shaped(ask, knowledge)
    parameters, method = ask["parameters_billion"] * 1e9, ask["method"]
    each = 2 * _OPERATIONS[method] * _UNPACKING[method] * parameters
    if ask["layers"] and ask["hidden_size"]:
        attention = 12 * ask["layers"] * ask["hidden_size"] * ask["sequence_length"]
        each += attention * _OPERATIONS[method] / _PASSES
    if method != FULL:
        each /= assumed["adapter_efficiency"]
    held, state = states(ask)
    beside, share = activations(ask), assumed["usable_memory"]

    def room(row: Mapping[str, str]) -> float:
        gpus = number(row, "gpus") or 0.0
        return float(max(share * _memory(row) - gpus * beside, 0.0))

    def target_point(size: str, nodes: int) -> Point:
        return Point("", size, nodes, traits={"method": method})

    gib = beside / _GIB
    return Need(
        work=around(each * ask["tokens_billion"] * 1e9, 1.0),
        memory=held,
        room=room,
        words=f"{_WORDS[method]} (beside {gib:.1f} GiB of activations a GPU)",
        state=state,
        asked=target_point,
    )


_WORDS: Final = {
    FULL: "weights, gradients and optimizer",
    LORA: "weights and adapters",
    QLORA: "4-bit weights and adapters",
}


def logged(case: Case) -> Need:
    """The iterations that the log has, at the rate and time of its typical one."""
    each = logged_figure(case, "train_flops_megatron") * logged_figure(case, "step_time")
    count, held = (str(case.parameters.get(name, "")) for name in ("iterations", "parameters"))
    if not count.isdecimal() or not case.gpus:
        raise BadInput("the log does not say how many iterations ran on how many GPUs")
    unsaid = "" if held.isdecimal() else "The log does not say its parameters: fit was not checked."
    parameters = float(held or 0)
    share = ASSUMPTIONS[0].value
    return Need(
        work=around(each * case.gpus * int(count), 1.0),
        memory=parameters * (_BF16 + _TRAINED),
        room=lambda row: share * _memory(row),
        words=_WORDS[FULL],
        unsaid=unsaid,
        state=parameters * _KEPT,
    )


def _memory(row: Mapping[str, str]) -> float:
    """Of the whole GPUs of a node, bytes; 0 without any."""
    if row["gpu_fraction"] != "1":
        return 0.0
    return (number(row, "gpus") or 0) * (number(row, "gpu_memory_gib") or 0) * _GIB
