"""Marks that identify lines of NCCL's log (NCCL_DEBUG=INFO or WARN)."""

from __future__ import annotations

from trueup_node.reading import Signature

SIGNATURE = Signature(
    marks=("NCCL INFO ", "NCCL WARN "),
    forms=(("NCCL INFO ",), ("NCCL WARN ",)),
    # These lines stand between the lines of other tools.
    is_beside=True,
)
