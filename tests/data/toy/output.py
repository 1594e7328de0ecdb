"""What dd prints (coreutils 8.32 to 9.5): the last line of its standard error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional

from ...errors import ParseError
from ...record import Metric
from .signatures import LINE

TOOL = "toy"


@dataclass(frozen=True)
class ToyOutput:
    """A copy by dd: bytes and seconds."""

    copied_bytes: int
    seconds: float
    tool_version: Optional[str] = None
    warnings: List[str] = field(default_factory=list)
    parameters: Dict[str, str] = field(default_factory=dict)
    checks: Dict[str, bool] = field(default_factory=dict)

    def metrics(self) -> List[Metric]:
        """The rate, in byte/s."""
        return [Metric("zero_copy_rate", self.copied_bytes / self.seconds, "byte/s", "higher")]


def parse_toy(text: str) -> ToyOutput:
    """Read it.

    Raises:
        ParseError: no such line, or more than one.
    """
    found = LINE.findall(text)
    if len(found) != 1:
        raise ParseError(f"dd: {len(found)} lines say what was copied; one is expected")
    return ToyOutput(int(found[0][0]), float(found[0][1]))
