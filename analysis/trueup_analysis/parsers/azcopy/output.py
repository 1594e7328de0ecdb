"""Parser of the summary with which AzCopy (10.x) ends a job.

``Elapsed Time (Minutes): 27.4721``, counts of transfers, ``TotalBytesTransferred:
48585824404`` and ``Final Job Status: CompletedWithErrors``. Older versions say ``Total Number of
Bytes Transferred``, and the summary of ``azcopy sync`` counts ``Copy Transfers``, of which none is
skipped. The rate is the bytes over the elapsed time, with what the job listed and
waited for.
"""

from __future__ import annotations

import re
from collections import Counter

from trueup_node.reading import lines_of
from trueup_node.record import Metric

from ...labelled import Labelled, only

TOOL = "azcopy"
_ELAPSED = re.compile(r"\s*Elapsed Time \(Minutes\): (\d{1,7}\.\d{1,4})\s*")
_BYTES = re.compile(
    r"\s*(?:TotalBytesTransferred|Total Number of Bytes Transferred): (\d{1,18})\s*"
)
_TOTAL = re.compile(r"\s*Total Number [oO]f (Copy )?Transfers: (\d{1,12})\s*")
_COUNT = re.compile(r"\s*Number of (?:\w+ )?Transfers (Completed|Failed|Skipped): (\d{1,12})\s*")
_STATUS = re.compile(r"\s*Final Job Status: (\w+)\s*")
_MINUTE = 60.0


def parse_azcopy(text: str) -> Labelled:
    """Read the summary of one job.

    Raises:
        ParseError: a line is missing or stands twice, counts do not add up, or the status does not
            go with them.
    """
    lines = [line for line in lines_of(text) if ": " in line]
    elapsed_line, elapsed = only(lines, _ELAPSED, "Elapsed Time (Minutes)")
    bytes_line, transferred = only(lines, _BYTES, "TotalBytesTransferred")
    total_line, total = only(lines, _TOTAL, "Total Number of Transfers")
    status_line, status = only(lines, _STATUS, "Final Job Status")
    counts: Counter[str] = Counter()
    for line in lines:
        if match := _COUNT.fullmatch(line):
            counts[match[1]] += int(match[2])
    if total[1]:
        counts["Skipped"] += 0
    if set(counts) != {"Completed", "Failed", "Skipped"}:
        raise total_line.error("the transfers completed, failed and skipped are not all there")
    if sum(counts.values()) > int(total[2]):
        raise total_line.error(f"{sum(counts.values())} transfers ended, and there are {total[2]}")
    failed = counts["Failed"] > 0
    if (status[1] == "Completed") and failed:
        raise status_line.error(f"the status is Completed, and {counts['Failed']} transfers failed")
    seconds = float(elapsed[1]) * _MINUTE
    if seconds <= 0:
        raise elapsed_line.error("the job took no time")
    if int(transferred[1]) == 0:
        raise bytes_line.error("the job transferred nothing, so it has no rate")
    return Labelled(
        rows=(
            Metric("copy_rate", int(transferred[1]) / seconds, "byte/s", "higher"),
            Metric("copy_time", seconds, "s", "none"),
            Metric("copied_bytes", float(transferred[1]), "byte", "none"),
        ),
        parameters={"transfers": total[2]},
        checks={
            "no_transfer_failed": not failed,
            "job_completed": status[1].startswith("Completed"),
        },
        reasons={
            "no_transfer_failed": f"{counts['Failed']} of {total[2]} transfers failed",
            "job_completed": f"the job ended as {status[1]}",
        },
    )
