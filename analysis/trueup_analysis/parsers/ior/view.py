"""How figures of IOR are shown."""

from __future__ import annotations

from trueup_node.view import Chart, View, rate

_WRITE = rate("ior_write_bandwidth", "write", "GB/s")
_READ = rate("ior_read_bandwidth", "read", "GB/s")
_WRITES = rate("ior_write_rate", "writes", "operations/s")
_READS = rate("ior_read_rate", "reads", "operations/s")

VIEW = View(
    title="File system bandwidth (IOR)",
    headlines=(_WRITE, _READ),
    figures=(_WRITES, _READS),
    identity=("aggregate_bytes", "block"),
    apart=("api", "access", "transfer", "block", "segments"),
    charts=(Chart("rows", (_WRITE, _READ), "case", "Write and read bandwidth"),),
    method="MPI processes write files and read them back in transfers of one size; the bandwidth is"
    " all bytes over the time from the first opening to the last closing, the mean of the"
    " repetitions. Flushing to the disks is not in it unless it was asked for (-e), and reads may"
    " come from the cache of the node that wrote.",
)
