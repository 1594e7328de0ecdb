"""The kinds of work that advice is given for, one file each.

A kind has its options (``OPTIONS``), its known results (``points``), and a prediction of an unknown
result from the known ones (``predict``). From the three follow its estimates, and the back-test
that says how wide their ranges must be. A sizing has no time: its machines or storage follow from
limits.
"""

from __future__ import annotations

from typing import Final

from ..points import Tells
from . import cfd, desktops, eda, md, mlperf, serving, stencil, training
from .kind import Kind, kind
from .sizing import Sizing

KINDS: Final[dict[str, Kind]] = {
    work_kind.name: work_kind
    for work_kind in (
        kind(stencil, "Finite differences (Devito, acoustic)", unit="flop/s", tool="devito"),
        kind(cfd, "CFD, weather and other codes bound by memory bandwidth", unit="1/s", tool=""),
        kind(
            training,
            "Training and fine-tuning of a dense transformer (full, LoRA, QLoRA)",
            unit="flop/s",
            tool="megatron",
        ),
        kind(serving, "Serving of a language model (vLLM)", unit="tokens/s", tool="vllm"),
        kind(md, "Molecular dynamics (GROMACS)", unit="atom-steps/s", tool="gromacs"),
    )
}
SIZINGS: Final[dict[str, Sizing]] = {
    sizing.name: sizing for sizing in (eda.SIZING, desktops.SIZING)
}
Sized = eda.Eda | desktops.Desktops
# The subjects of a back-test; that of CFD has the results of the stencil.
TOLD: Final[dict[str, Tells]] = {
    **{name: each for name, each in KINDS.items() if each.tool},
    eda.TELLS.name: eda.TELLS,
    mlperf.TELLS.name: mlperf.TELLS,
}
