"""How figures of fio are shown."""

from __future__ import annotations

from ...view import Chart, View, Work, latency, rate

_READ = rate("read_bandwidth", "read bandwidth", "GB/s")
_WRITE = rate("write_bandwidth", "write bandwidth", "GB/s")
_READ_IOPS = rate("read_iops", "read I/O rate", "IOPS")
_WRITE_IOPS = rate("write_iops", "write I/O rate", "IOPS")
_READ_LATENCY = latency("read_latency", "read latency", "ms")
_WRITE_LATENCY = latency("write_latency", "write latency", "ms")
# Operations of files. A cached stat was answered by the client of a shared file system.
_FILES = (
    rate("create_rate", "file creates", "operations/s"),
    rate("stat_rate", "file stats", "operations/s"),
    rate("cached_stat_rate", "file stats, cached", "operations/s"),
    rate("delete_rate", "file deletes", "operations/s"),
)

VIEW = View(
    title="Storage (fio)",
    headlines=(_READ, _WRITE, *_FILES),
    figures=(
        _WRITE,
        _READ_IOPS,
        _WRITE_IOPS,
        *_READ_LATENCY,
        *_WRITE_LATENCY,
        *latency("create_latency", "create latency", "us"),
        *latency("stat_latency", "stat latency", "us"),
        *latency("cached_stat_latency", "cached stat latency", "us"),
        *latency("delete_latency", "delete latency", "us"),
    ),
    identity=("workload", "job"),
    apart=("workload", "direct", "filesystem", "directory", "block_bytes", "jobs", "iodepth"),
    charts=(
        Chart("rows", (_READ, _WRITE), "case", "Bandwidth of each workload"),
        Chart("rows", (_READ_IOPS, _WRITE_IOPS), "case", "I/O rate of each workload"),
        Chart(
            "rows",
            (_READ_LATENCY[0], _WRITE_LATENCY[0]),
            "case",
            "Latency of each workload",
            statistics=("median", "p99"),
        ),
        Chart("rows", _FILES, "case", "Rate of operations of files"),
        Chart("lines", (_READ, _WRITE), "block_bytes", "Bandwidth over block size", log=True),
    ),
    # Data moved: read and written.
    work=(Work("TB", "tb", "read_bandwidth", 1e12, also=("write_bandwidth",)),),
    method="fio runs all processes of a workload at once for a given time (metadata workloads: one"
    " operation of each file), and bandwidth and I/O rate are of all processes together, latencies"
    " from the issue of an I/O to its completion. Laying out the files is not in it, and the page"
    " cache only where direct is false.",
)
