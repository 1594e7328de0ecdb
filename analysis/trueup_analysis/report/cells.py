"""What several sections of the report write alike."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from ..render.html import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .cases import Case

__all__ = ["NOT_AZURE", "layout_text", "moment", "ratio", "unique", "where", "words"]

NOT_AZURE: Final = "not an Azure size"


def where(cases: Sequence[Case]) -> str:
    """The node that all of the cases ran on, else their number and kind."""
    nodes = {node for case in cases for node in case.machine.nodes.split("+")}
    return min(nodes) if len(nodes) == 1 else f"{len(nodes):,} nodes of {cases[0].machine.kind}"


def layout_text(layout: Any) -> str:
    text = str(layout)
    return text.replace("x", " × ", 1) if text else UNKNOWN


def ratio(value: float | None, reference: float | None) -> float:
    return value / reference if value and reference else math.nan


def words(value: Any, missing: str = UNKNOWN) -> str:
    """Text of a frame's cell; what is missing or empty becomes ``missing``."""
    return value if isinstance(value, str) and value else missing


def moment(stamp: str) -> str:
    return stamp.replace("T", " ").removesuffix("Z")


def unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
