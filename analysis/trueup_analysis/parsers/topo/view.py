"""How the connections of GPUs are shown."""

from __future__ import annotations

from trueup_node.view import Chart, Measure, View

_LINKS = Measure("topo_gpu_nvlinks", "NVLinks to a GPU", "1", "higher", "", grows=False)
_PAIRS = Measure("topo_nvlinks", "NVLinks of a pair", "1", "higher", "", grows=False)
_GPUS = Measure("topo_gpus", "GPUs", "1", "none", "", grows=False)

VIEW = View(
    title="Connections of GPUs (nvidia-smi topo)",
    headlines=(_LINKS, _GPUS),
    figures=(_PAIRS,),
    charts=(Chart("matrix", (_PAIRS,), "device", "NVLinks from GPU to GPU"),),
    method="nvidia-smi lists how each two GPUs and network adapters are connected, and which cores"
    " are near a GPU; a GPU counts by the most NVLinks that it shares with another one. Whether"
    " the links are active or carry errors is not in it.",
    resource="gpus",
    scales=False,
)
