"""Marks that identify the output of programs that measure GPU copies."""

from __future__ import annotations

import re

from ...reading import Signature

MATRIX_OF_PEERS = re.compile(r"(?m)^[ \t]*Unidirectional P2P=Enabled Bandwidth\b.* Matrix \(GB/s\)")
MATRIX_OF_NVBANDWIDTH = re.compile(
    r"(?m)^[ \t]*memcpy (?:CE|SM|local) .*PU\(column\) bandwidth \(GB/s\)"
)
OUR_TOOL = "trueup-gpu-copy"
OUR_MARK = f"[{OUR_TOOL} "
SIGNATURE = Signature(
    marks=(
        "trueup",
        "nvbandwidth",
        "PU(column) bandwidth",
        "CUDA Bandwidth Test",
        "bandwidthTest",
        "P2P=Enabled Bandwidth",
    ),
    forms=(
        (OUR_MARK,),
        (f'"tool": "{OUR_TOOL}"',),
        ("nvbandwidth Version",),
        ('{"nvbandwidth"',),
        (re.compile(r'(?m)^[ \t]*"nvbandwidth"\s*:'),),
        (MATRIX_OF_NVBANDWIDTH,),
        ("[CUDA Bandwidth Test]",),
        ("bandwidthTest-",),
        (MATRIX_OF_PEERS,),
    ),
    run=(
        r"\s*(?:(nvbandwidth Version)|(\[CUDA Bandwidth Test\])|(\[P2P \(Peer-to-Peer\) GPU))",
        r"\s*(?:SUM |Performance can vary|Result = |NOTE: The CUDA Samples)",
    ),
)
