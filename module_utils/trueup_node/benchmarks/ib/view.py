"""How figures of perftest are shown."""

from __future__ import annotations

from ...view import Chart, Peak, View, Work, latency, rate

_LINK = Peak("rdma_gbps_per_nic", 1e9, parameter="kind", value="infiniband")
_WRITE = rate("ib_write_bandwidth", "write bandwidth", "Gb/s", grows=False, peak=_LINK)
_READ = rate("ib_read_bandwidth", "read bandwidth", "Gb/s", grows=False, peak=_LINK)
_LATENCY, _P99 = latency("ib_send_latency", "send latency", "us")

VIEW = View(
    title="RDMA (perftest)",
    headlines=(_WRITE, _READ, _LATENCY),
    figures=(_P99,),
    apart=("test", "role", "device", "gdr"),
    charts=(
        Chart("lines", (_WRITE, _READ), "message_bytes", "Bandwidth over message size", log=True),
        Chart(
            "lines",
            (_LATENCY,),
            "message_bytes",
            "Latency over message size",
            log=True,
            statistics=("median", "p99"),
        ),
        Chart("rows", (_WRITE, _READ), "device", "Bandwidth of each adapter"),
        Chart("matrix", (_WRITE,), "node", "Write bandwidth from node to node"),
        Chart("matrix", (_LATENCY,), "node", "Send latency from node to node"),
    ),
    # An adapter that sends to itself moves nothing for anyone.
    work=(Work("TB", "tb", "ib_write_bandwidth", 8e12, parameter="role", value="client"),),
    method="perftest sends messages of one size from one end to the other, one adapter at a time:"
    " bandwidth is the average of the iterations in one direction, latency half the time of a send"
    " and its answer. Making the connection and several adapters at once are not in it, and of an"
    " adapter that sends to itself nor is the fabric.",
    scales=False,
)
