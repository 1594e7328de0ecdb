"""How figures of dcgmi diag and dcgmproftester are shown."""

from __future__ import annotations

from ...view import Chart, Measure, View, rate, seconds

_RATE = rate("dcgm_diagnostic_rate", "matrix products of each GPU", "TFLOP/s", grows=False)
_TO_HOST = rate("dcgm_gpu_to_host", "GPU to host", "GB/s", grows=False)
_TO_GPU = rate("dcgm_host_to_gpu", "host to GPU", "GB/s", grows=False)
_BOTH = rate("dcgm_both_ways", "both ways", "GB/s", grows=False)
_LATENCY = seconds("dcgm_gpu_to_host_latency", "GPU to host, latency", "us", grows=False)
_LOAD = rate("dcgm_stress_rate", "load of the tensor cores of each GPU", "TFLOP/s", grows=False)
_RETAINED = Measure("dcgm_stress_retained", "rate at the end", "1", "higher", "%", grows=False)
_FAILED = Measure("dcgm_tests_failed", "failed tests", "1", "lower", "", grows=False)

VIEW = View(
    title="GPU diagnostics (DCGM)",
    headlines=(_RATE, _BOTH, _LOAD, _FAILED),
    figures=(_TO_HOST, _TO_GPU, _BOTH, _LATENCY, _RETAINED, _FAILED),
    apart=("level", "test"),
    charts=(
        Chart("rows", (_RATE,), "device", "Matrix products of each GPU"),
        Chart("rows", (_LOAD,), "device", "Thermal stress of each GPU"),
        Chart("rows", (_TO_HOST, _TO_GPU, _BOTH), "device", "Copies of each GPU"),
    ),
    method="NVIDIA's dcgmi diag runs the tests of its level on all GPUs at once, each of which"
    " passes or fails by DCGM's own limits, and dcgmproftester loads the tensor cores of all GPUs"
    " with products of fp16 matrices and prints a rate each second of a stress case. The"
    " diagnostic's rate is of products of small matrices in mixed precision, which load the GPU:"
    " its peak is not in it, nor is the first second in the rates of stress.",
    resource="gpus",
    scales=False,
)
