"""An option declared once: its argument spec, its help and what is refused."""

from __future__ import annotations

from typing import Any

from helpers import parametrized
from trueup_node.options import ModuleOption, Option, RoleOption, refusals

OPTIONS = (
    Option("repeats", "Repeats.", 5, least=3),
    Option("n", "Order.", 64, least=64, most=1024, multiple_of=16),
    Option("fraction", "Part of the memory.", 0.8, most=0.95),
    Option("counts", "Ranks.", [1], elements="int", least=1, filled=True),
    Option("key", "Key of the server.", secret=True),
    Option("price", "US$; -1: any.", -1.0, least=None),
    RoleOption("stores", "Kinds.", ["a"], choices=("a", "b")),
    ModuleOption("stores", "The kind.", required=True, choices=("a", "b")),
)


@parametrized(("values", "wanted"))
def test_what_is_out_of_range_is_refused(values: dict[str, Any], wanted: list[str]) -> None:
    assert refusals(OPTIONS, values, "x_") == wanted
