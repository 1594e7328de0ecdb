"""How figures of MPI micro-benchmarks are shown."""

from __future__ import annotations

from trueup_node.view import Chart, Measure, View, rate, seconds

_BANDWIDTH = rate("mpi_bandwidth", "bandwidth", "GB/s", grows=False)
_LATENCY = seconds("mpi_latency", "latency", "us", grows=False)
_MESSAGES = rate("mpi_message_rate", "messages", "messages/s", grows=False)
_OVERLAP = Measure(
    "mpi_overlap", "communication hidden by computation", "1", "higher", "%", grows=False
)

VIEW = View(
    title="MPI micro-benchmarks (OSU, IMB)",
    headlines=(_BANDWIDTH, _LATENCY),
    figures=(_MESSAGES, _OVERLAP),
    identity=("test",),
    apart=("suite", "test"),
    charts=(
        Chart("lines", (_BANDWIDTH,), "message_bytes", "Bandwidth over message size", log=True),
        Chart("lines", (_LATENCY,), "message_bytes", "Latency over message size", log=True),
    ),
    method="MPI processes exchange messages of one size many times; latency is the mean time of one"
    " exchange, one way for point-to-point tests, and bandwidth that of a window of messages."
    " Starting the processes and the first iterations are not in it.",
    scales=False,
)
