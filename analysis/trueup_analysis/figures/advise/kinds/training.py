"""Training of a dense transformer: operations over a GPU's share of its BF16 peak.

Operations of a token: ``6 N`` (forward, and backward twice), and ``12 l h s`` of attention where
layers and hidden size are given (module trueup_node.benchmarks.megatron.flops, formula megatron).
Published rates that count the forward pass twice are taken at three quarters.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trueup_node.errors import BadInput
from trueup_node.options import Option

from .. import outside
from ..estimates import PUBLISHED, Assumption, Evidence, around
from ..knowledge import Knowledge, number
from .kind import Ask, Assumed, Need, Point, Prediction, logged_figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_node.cases import Case

# How published benchmarks count: three passes, or four.
_COUNTED: Final = {"DeepSpeed Megatron ": 3 / 4, "Megatron-Bridge ": 1.0}
_RATES: Final = ("throughput_per_gpu", "model_tflops_per_gpu")
_GIB: Final = 2**30
# Forward, and backward for weights and for data; of each a multiplication and an addition.
_PASSES: Final = 3

OPTIONS: Final = (
    Option(
        "parameters_billion",
        "Parameters of the model, in 10^9.",
        type="float",
        required=True,
        least=1e-3,
    ),
    Option(
        "tokens_billion", "Tokens to train on, in 10^9.", type="float", required=True, least=1e-6
    ),
    Option("sequence_length", "Tokens of a sample.", 2048, least=1),
    Option(
        "layers", "Decoder layers; with hidden_size, attention is counted.", type="int", least=1
    ),
    Option("hidden_size", "Hidden size.", type="int", least=1),
)


# The role training installs PyTorch of CUDA 13.
CUDA_13: Final = True
ASSUMPTIONS: Final = (
    Assumption(
        "bytes_per_parameter",
        18.0,
        12.0,
        20.0,
        "byte",
        "BF16 weights and gradients, FP32 weights and Adam's two moments, sharded over all GPUs"
        " (2 + 4 + 12); activations are in memory_for_states",
    ),
    Assumption(
        "memory_for_states",
        0.6,
        0.4,
        0.8,
        "1",
        "of the GPUs' memory; the rest is for activations (ours, not measured)",
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
    if not same:
        beyond.append(f"no training result of a {model}: the share of the peak of other GPUs.")
    gpus = int(target.nodes * (number(knowledge.sizes[target.size], "gpus") or 0))
    most = max(peer.traits["gpus"] for peer in used)
    if gpus > most:
        beyond.append(f"no result has more than {most} GPUs.")
    evidence = tuple(dict.fromkeys(peer.evidence for peer in used if peer.evidence))
    if not same:
        evidence += (Evidence("model", f"{share:.0%} of the BF16 peak of a {model}"),)
    return Prediction(peak * share * gpus, evidence, " ".join(beyond))


def _of_size(size: str, peers: Sequence[Point]) -> list[Point]:
    """Results of the size itself, else those of its GPU in other machines."""
    same = [peer for peer in peers if peer.size == size]
    return [peer for peer in same if not peer.traits.get("elsewhere")] or same


def need(ask: Ask, assumed: Assumed, _: Knowledge) -> Need:
    parameters = ask["parameters_billion"] * 1e9
    each = _PASSES * 2 * parameters
    if ask["layers"] and ask["hidden_size"]:
        each += 12 * ask["layers"] * ask["hidden_size"] * ask["sequence_length"]
    return _of(each * ask["tokens_billion"] * 1e9, parameters, assumed)


def logged(case: Case) -> Need:
    """The iterations that the log has, at the rate and time of its typical one."""
    each = logged_figure(case, "train_flops_megatron") * logged_figure(case, "step_time")
    count, held = (str(case.parameters.get(name, "")) for name in ("iterations", "parameters"))
    if not count.isdecimal() or not case.gpus:
        raise BadInput("the log does not say how many iterations ran on how many GPUs")
    unsaid = "" if held.isdecimal() else "The log does not say its parameters: fit was not checked."
    usual = {assumption.name: assumption.value for assumption in ASSUMPTIONS}
    return replace(_of(each * case.gpus * int(count), float(held or 0), usual), unsaid=unsaid)


def _of(work: float, parameters: float, assumed: Assumed) -> Need:
    share = assumed["memory_for_states"]
    return Need(
        work=around(work, 1.0),
        memory=parameters * assumed["bytes_per_parameter"],
        room=lambda row: share * _memory(row),
        words="weights, gradients and optimizer",
    )


def _memory(row: Mapping[str, str]) -> float:
    """Of the whole GPUs of a node, bytes; 0 without any."""
    if row["gpu_fraction"] != "1":
        return 0.0
    return (number(row, "gpus") or 0) * (number(row, "gpu_memory_gib") or 0) * _GIB
