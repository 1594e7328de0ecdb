"""How figures of copies from, to and between GPUs are shown."""

from __future__ import annotations

from ...view import Chart, Peak, View, Work, rate

_H2D = rate("h2d_bandwidth", "host to device", "GB/s", grows=False)
_D2H = rate("d2h_bandwidth", "device to host", "GB/s", grows=False)
# Bytes copied count once, and the memory reads and writes each: half of its bandwidth is the most.
_D2D = rate(
    "d2d_bandwidth", "within the device", "GB/s", grows=False, peak=Peak("gpu_hbm_gbps_each", 0.5e9)
)
_P2P = rate("p2p_bandwidth", "device to device", "GB/s", grows=False)

VIEW = View(
    title="GPU memory copy bandwidth",
    headlines=(_H2D, _D2H, _D2D, _P2P),
    figures=(_D2H, _D2D, _P2P),
    apart=("tool", "peers", "binding"),
    charts=(
        Chart("rows", (_H2D, _D2H), "device", "Bandwidth between host and each GPU"),
        Chart("rows", (_D2D,), "device", "Bandwidth within each GPU's memory"),
        Chart("matrix", (_P2P,), "device", "Bandwidth from GPU to GPU"),
    ),
    # One GPU after the other: their rate at the same time is another figure.
    work=(Work("TB", "tb", "h2d_bandwidth", 1e12, together=False),),
    method="nvbandwidth, a test of the CUDA samples or a PyTorch program copies from pinned host"
    " memory to one GPU after the other and back, within its memory, and from each GPU to each"
    " other one, and bytes copied count once. Pageable host memory and copies of several GPUs at"
    " the same time are not in it.",
    resource="gpus",
    scales=False,
)
