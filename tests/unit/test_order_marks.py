"""A byte order mark changes no figure, wherever it stands in an output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trueup_analysis import rooms
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data"


def parser(tool: str) -> Any:
    return getattr(rooms.part(tool, "output"), f"parse_{tool}")


@pytest.mark.parametrize("before", ["[1,0]<stdout>:", " ", "node1: "])
def test_a_drivers_line_that_something_stands_before_is_not_passed_over(before: str) -> None:
    """Devito's own log, which stands above it, has the same figures rounded to 0.01 s."""
    text = (DATA / "devito" / "driver_openmp.log").read_text()
    with pytest.raises(ParseError, match="something stands before 'trueup-devito'"):
        parser("devito")(text.replace("trueup-devito {", before + "trueup-devito {"))
