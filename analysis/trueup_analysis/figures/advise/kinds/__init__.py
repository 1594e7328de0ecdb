"""The kinds of work that advice is given for, one file each.

A kind says what it asks (``OPTIONS``), which results are known of it (``points``), and how one that
is not known follows from those that are (``predict``). From the three follow its estimates, and the
back-test that says how wide their ranges must be.
"""

from __future__ import annotations

from typing import Final

from . import hpl, md, serving, stencil, training
from .kind import Kind

KINDS: Final[dict[str, Kind]] = {
    one.name: one for one in (stencil.KIND, training.KIND, serving.KIND, md.KIND, hpl.KIND)
}
