"""How GEMM figures are shown."""

from __future__ import annotations

from ...view import Chart, Peak, View, Work, rate

_BF16 = rate(
    "gemm_bf16",
    "bf16 rate of each GPU",
    "TFLOP/s",
    grows=False,
    peak=Peak("gpu_peak_bf16_gflops_each", 1e9),
)
_FP8 = rate("gemm_fp8", "fp8 rate of each GPU", "TFLOP/s", grows=False)
_TF32 = rate("gemm_tf32", "tf32 rate of each GPU", "TFLOP/s", grows=False)
# cuBLAS multiplies fp64 on the tensor cores of an A100 and later.
_FP64 = rate(
    "gemm_fp64",
    "fp64 rate of each GPU",
    "TFLOP/s",
    grows=False,
    peak=Peak("gpu_peak_fp64_tensor_gflops_each", 1e9),
)


def _work(precision: str) -> Work:
    """GPUs that ran one after the other do not add up to the node's rate."""
    unit, key = f"PFLOP in {precision}", f"pflop_in_{precision}"
    return Work(unit, key, f"gemm_{precision}", 1e15, parameter="gpus_at_once", value="all")


VIEW = View(
    title="GEMM",
    headlines=(_BF16, _FP8, _TF32, _FP64),
    figures=(_FP8, _TF32, _FP64),
    apart=("n", "n_fp64", "gpus_at_once"),
    charts=(Chart("rows", (_BF16, _FP8, _TF32, _FP64), "device", "Rate of each GPU"),),
    work=(
        _work("bf16"),
        _work("fp64"),
    ),
    method="Each GPU multiplies square matrices of random numbers after a warm-up, in repeats of"
    " about 0.2 s that CUDA events time, and a product of n x n matrices counts as 2 n^3"
    " operations. Making the matrices, copying them to the GPU and checking the product are not"
    " in it.",
    resource="gpus",
    scales=False,
)
