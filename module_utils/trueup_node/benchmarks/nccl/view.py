"""How figures of nccl-tests are shown."""

from __future__ import annotations

from ...view import Chart, View, rate, seconds

# Bus bandwidth is the rate of the busiest link, whatever the number of ranks (nccl-tests
# doc/PERFORMANCE.md), so it does not grow with them.
_BUS = rate("busbw", "bus bandwidth", "GB/s", grows=False)
_ALGORITHM = rate("algbw", "algorithm bandwidth", "GB/s", grows=False)
_TIME = seconds("time", "time", "us", grows=False)

VIEW = View(
    title="NCCL collectives",
    headlines=(_BUS,),
    figures=(_ALGORITHM, _TIME),
    identity=("operation",),
    apart=("operation",),
    charts=(Chart("lines", (_BUS,), "message_bytes", "Bus bandwidth over message size", log=True),),
    method="nccl-tests times each collective at each message size, out of place, over several"
    " iterations after a warm-up; algorithm bandwidth is message size / time, and bus bandwidth is"
    " that times the share of the data that crosses the busiest link. Start-up of the job and"
    " loading of data are not in it.",
    resource="gpus",
    spread=("gpus_per_node",),
)
