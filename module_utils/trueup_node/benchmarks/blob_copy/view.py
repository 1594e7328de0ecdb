"""How figures of copies to Blob storage are shown."""

from __future__ import annotations

from ...view import Chart, Measure, View, Work, rate, seconds

# A row without a device is of all copies together.
_RATE = rate("upload_rate", "upload rate", "Gb/s")

VIEW = View(
    title="Copies to Azure Blob",
    headlines=(_RATE,),
    figures=(
        seconds("upload_time", "upload time", "s"),
        seconds("verify_time", "time to compare checksums", "s"),
        Measure("retries", "requests repeated", "1", "lower", ""),
        Measure("throttled", "requests throttled", "1", "lower", ""),
    ),
    apart=("program", "copies", "cap_bits_per_second", "size_bytes", "data"),
    charts=(Chart("rows", (_RATE,), "device", "Upload rate of each copy"),),
    work=(Work("TB", "tb", "upload_rate", 8e12),),
    method="Several files are copied to a container at once, each by a process of its own below a"
    " bandwidth cap, and the rate is the bytes sent, each counted once, over the time from the"
    " first copy's start to the last one's commit. Making the files, reading checksums back, and"
    " what an interrupted run had already sent are not in it.",
)
