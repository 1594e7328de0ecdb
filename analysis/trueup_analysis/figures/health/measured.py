"""The cases to judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup_node.health.verdicts import latest

from ...cases import read_cases
from ...selection import run_ids

if TYPE_CHECKING:
    from trueup_node.cases import Case

    from ...load import Loaded


def cases(loaded: Loaded, *, as_size: str | None = None) -> list[Case]:
    """The last case of each kind on each node (a repaired node is judged by its newest result).

    Args:
        loaded: the records.
        as_size: the size that every record is judged as, instead of its own.
    """
    return latest(read_cases(loaded, as_size=as_size), run_ids(loaded))
