"""How figures of SuperBench are shown."""

from __future__ import annotations

from trueup_node.view import Chart, Measure, View, rate

_FAILED = Measure("superbench_failed", "failed benchmarks", "1", "lower", "", grows=False)
_RAN = Measure("superbench_benchmarks", "benchmarks", "1", "none", "", grows=False)
_BUSBW = rate("sb_nccl_bw_allreduce_busbw", "all-reduce bus bandwidth", "GB/s", grows=False)
_NVLINK = rate(
    "sb_nccl_bw_nvlink_allreduce_busbw", "all-reduce bus bandwidth, NVLink", "GB/s", grows=False
)
_BF16 = rate("sb_gemm_flops_bf16_tc_flops", "BF16", "TFLOP/s", grows=False)
_H2D = rate("sb_mem_bw_h2d_bw", "host to GPU", "GB/s", grows=False)
_IB = rate("sb_ib_loopback_ib_write_bw", "InfiniBand loopback", "GB/s", grows=False)

VIEW = View(
    title="Node validation (SuperBench)",
    headlines=(_FAILED, _RAN),
    figures=(_BUSBW, _NVLINK, _BF16, _H2D, _IB),
    charts=(
        Chart(
            "lines", (_BUSBW, _NVLINK), "message_bytes", "Bus bandwidth over message size", log=True
        ),
        Chart("rows", (_H2D,), "device", "Copies from the host to each GPU"),
    ),
    method="SuperBench runs its benchmarks one after the other on each node, and its summary has"
    " their figures and whether each ended well. SuperBench's own baselines and rules are not in"
    " it.",
    scales=False,
)
