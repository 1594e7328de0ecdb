"""Marks that identify the matrix of nvidia-smi topo -m."""

from __future__ import annotations

import re

from trueup_node.reading import Signature

# How two devices are connected; older drivers say SOC for SYS and PSB for PIX of one board.
LINK = r"(?:NV\d{1,3}|SYS|SOC|NODE|PHB|PXB|PSB|PIX|C2C|X)"
_FIRST = re.compile(rf"(?m)^[ \t]*GPU0[ \t]+X(?:[ \t]+(?:{LINK}|[\d,-]+|N/A)|[ \t]*$)")
SIGNATURE = Signature(
    marks=("GPU0",),
    forms=((_FIRST,),),
    run=(r"[ \t]+GPU0(?:\s|$)", r"[ \t]*(?:GPU|NIC)\d+[ \t]|[ \t]*\w+[ \t]*=|[ \t]*NIC\d+:"),
)
