"""How figures of AzCopy are shown."""

from __future__ import annotations

from trueup_node.view import View, Work, rate

_RATE = rate("copy_rate", "rate", "GB/s")

VIEW = View(
    title="Copies to and from Blob storage (AzCopy)",
    headlines=(_RATE,),
    identity=("transfers",),
    work=(Work("TB", "tb", "copy_rate", 1e12),),
    method="AzCopy's bytes over the elapsed time of the job, in which it also lists files and waits"
    " for throttled requests. Starting the program is not in it.",
    scales=False,
)
