"""How figures of training runs are shown."""

from __future__ import annotations

from ...view import Chart, Measure, Peak, Timed, View, Work, rate, seconds

# Dense fp16 has the peak of bf16 (NVIDIA's datasheets of A100 and H100).
_PEAK = Peak(
    "gpu_peak_bf16_gflops_each",
    1e9,
    parameter="precision",
    value="bf16",
    otherwise=Peak("gpu_peak_bf16_gflops_each", 1e9, parameter="precision", value="fp16"),
)

_TOKENS = rate("token_throughput", "tokens trained", "tokens/s")

VIEW = View(
    title="Training",
    headlines=(seconds("step_time", "step time", "s"),),
    figures=(
        rate("sample_throughput", "samples trained", "samples/s"),
        _TOKENS,
        # As a share of the peak this is the MFU.
        rate("train_flops_megatron", "model FLOPs of each GPU", "TFLOP/s", grows=False, peak=_PEAK),
        rate(
            "train_flops_article",
            "FLOPs of each GPU, recomputation counted",
            "TFLOP/s",
            grows=False,
        ),
        rate("device_token_throughput", "tokens trained by each GPU", "tokens/s", grows=False),
        rate("train_flops_printed", "FLOPs of each GPU, as printed", "TFLOP/s", grows=False),
        rate("token_rate_clocked", "tokens trained, by the clock", "tokens/s"),
        seconds("checkpoint_save_time", "checkpoint, slowest rank", "s"),
        seconds("checkpoint_load_time", "checkpoint read, slowest rank", "s"),
        seconds("resume_time", "lost by a start from a checkpoint", "s"),
        Measure("iterations_redone", "iterations done twice", "1", "lower", "", grows=False),
        Measure("loss_first", "first loss", "1", "lower", "", grows=False),
        Measure("loss_last", "last loss", "1", "lower", "", grows=False),
    ),
    charts=(
        Chart(
            "lines",
            (_TOKENS,),
            "tokens_per_iteration",
            "Tokens/s over tokens of an iteration",
            log=True,
            along=("micro_batch", "global_batch", "sequence_length", "processes_per_node"),
        ),
    ),
    # Not the global batch: it grows with the nodes.
    identity=("model", "hidden_size"),
    apart=(
        "framework",
        "layers",
        "hidden_size",
        "sequence_length",
        "micro_batch",
        "precision",
        "zero_stage",
        "offload",
        "recompute",
        "transformer_engine",
    ),
    work=(
        Work("million samples", "million_samples", "sample_throughput", 1e6),
        Work("billion tokens", "billion_tokens", "token_throughput", 1e9),
        Work(
            "billion tokens by the clock", "billion_tokens_by_the_clock", "token_rate_clocked", 1e9
        ),
    ),
    method="Step time is the median over the logged iterations after the warm-up, and samples,"
    " tokens and the operations that a formula counts for them are over that time; TFLOP/s count"
    " three passes, nothing recomputed, unless the column says otherwise. Start-up, the first"
    " quarter of the logged lines (2 to 4 of them), evaluation and checkpoints are not in it; by"
    " the clock they are, from the first logged line to the last, with outages and what was done"
    " twice.",
    resource="gpus",
    timed=Timed("step_time", summed=True),
    spread=("processes_per_node", "tensor_parallel", "pipeline_parallel"),
    grows=("global_batch", "tokens_per_iteration"),
    batch=("micro_batch", "global_batch"),
)
