"""The kinds of work that advice is given for, one file each.

A kind says what it asks (``OPTIONS``), which results are known of it (``points``), and how one that
is not known follows from those that are (``predict``). From the three follow its estimates, and the
back-test that says how wide their ranges must be. A sizing has no time: its machines or storage
follow from limits.
"""

from __future__ import annotations

from typing import Final

from . import desktops, eda, hpl, md, serving, stencil, training
from .kind import Kind, Tells
from .sizing import Sizing

KINDS: Final[dict[str, Kind]] = {
    one.name: one for one in (stencil.KIND, training.KIND, serving.KIND, md.KIND, hpl.KIND)
}
SIZINGS: Final[dict[str, Sizing]] = {one.name: one for one in (eda.SIZING, desktops.SIZING)}
Sized = eda.Eda | desktops.Desktops
# What a back-test is made of.
TOLD: Final[dict[str, Tells]] = {**KINDS, eda.TELLS.name: eda.TELLS}
