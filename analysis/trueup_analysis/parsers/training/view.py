"""How figures of other training programs than Megatron are shown."""

from __future__ import annotations

from dataclasses import replace

from trueup_node.benchmarks.megatron.view import VIEW as _MEGATRON
from trueup_node.view import Measure

_OWN = {
    *("sample_throughput", "token_throughput", "device_token_throughput", "train_flops_printed"),
    *("loss_first", "loss_last"),
}
_FIGURES = {each.metric: each for each in _MEGATRON.figures if each.metric in _OWN}

VIEW = replace(
    _MEGATRON,
    title="Training (torchtitan, NeMo, nanoGPT and others)",
    headlines=(
        *_MEGATRON.headlines,
        _FIGURES["device_token_throughput"],
        _FIGURES["token_throughput"],
    ),
    figures=(
        *_FIGURES.values(),
        Measure("mfu_printed", "share of the peak, as printed", "1", "higher", "%", grows=False),
    ),
    charts=(),
    identity=("model",),
    apart=("framework", "model", "sequence_length", "micro_batch"),
    work=_MEGATRON.work[:2],
    method="Times and rates are those that the program prints, the median over the logged"
    " iterations after the warm-up; rates of all GPUs are computed where the log has their number."
    " The first quarter of the logged lines (2 to 4 of them) is not in it; start-up, evaluation and"
    " checkpoints are where the program counts them.",
    spread=(),
    grows=("global_batch",),
)
