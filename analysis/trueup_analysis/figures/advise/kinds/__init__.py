"""The kinds of work that advice is given for, one file each.

A kind says what it asks (``OPTIONS``), which results are known of it (``points``), and how one that
is not known follows from those that are (``predict``). From the three follow its estimates, and the
back-test that says how wide their ranges must be. A sizing has no time: its machines or storage
follow from limits.
"""

from __future__ import annotations

from typing import Final

from . import desktops, eda, hpl, md, serving, stencil, training
from .kind import Kind, Tells, kind
from .sizing import Sizing

KINDS: Final[dict[str, Kind]] = {
    one.name: one
    for one in (
        kind(stencil, "Finite differences (Devito, acoustic)", unit="flop/s", tool="devito"),
        kind(training, "Training of a dense transformer", unit="flop/s", tool="megatron"),
        kind(serving, "Serving of a language model (vLLM)", unit="tokens/s", tool="vllm"),
        kind(md, "Molecular dynamics (GROMACS)", unit="atom-steps/s", tool="gromacs"),
        kind(hpl, "Dense linear equations (HPL)", unit="flop/s", tool="hpl"),
    )
}
SIZINGS: Final[dict[str, Sizing]] = {one.name: one for one in (eda.SIZING, desktops.SIZING)}
Sized = eda.Eda | desktops.Desktops
# What a back-test is made of.
TOLD: Final[dict[str, Tells]] = {**KINDS, eda.TELLS.name: eda.TELLS}
