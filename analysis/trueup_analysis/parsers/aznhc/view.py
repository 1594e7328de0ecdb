"""How the verdicts and figures of AzNHC are shown."""

from __future__ import annotations

from trueup_node.view import Chart, Measure, View, rate

_FAILED = Measure("nhc_failed", "failed checks", "1", "lower", "", grows=False)
_NCCL = rate("nhc_nccl_busbw", "NCCL bus bandwidth", "GB/s", grows=False)
_LOOPBACK = rate("nhc_nccl_loopback_busbw", "NCCL over InfiniBand", "GB/s", grows=False)
_WRITE = rate("nhc_ib_write_bandwidth", "write bandwidth", "Gb/s", grows=False)

VIEW = View(
    title="Azure's node health checks (AzNHC)",
    headlines=(_NCCL, _WRITE, _FAILED),
    figures=(_LOOPBACK,),
    charts=(Chart("rows", (_WRITE,), "device", "Write bandwidth of each adapter"),),
    method="AzNHC runs Azure's checks of one node in the order of its configuration and ends at the"
    " first failure. Checks that its configuration lacks are not in it.",
    scales=False,
)
