"""An option declared once: its argument spec, its help and what is refused."""

from __future__ import annotations

from typing import Any

from helpers import parametrized
from trueup.options import (
    ModuleOption,
    Option,
    RoleOption,
    module_spec,
    refusals,
    unwritable,
)

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


def test_the_spec_is_the_modules_part() -> None:
    assert module_spec(OPTIONS) == {
        "repeats": {"type": "int", "default": 5},
        "n": {"type": "int", "default": 64},
        "fraction": {"type": "float", "default": 0.8},
        "counts": {"type": "list", "elements": "int", "default": [1]},
        "key": {"type": "str", "no_log": True},
        "price": {"type": "float", "default": -1.0},
        "stores": {"type": "str", "choices": ["a", "b"], "required": True},
    }


def test_the_help_says_the_range() -> None:
    assert [one.described() for one in OPTIONS[:4]] == [
        "Repeats: 3 or more.",
        "Order: a multiple of 16, 64 or more, 1024 or less.",
        "Part of the memory: 0 or more, 0.95 or less.",
        "Ranks: 1 or more, not empty.",
    ]
    assert [one.described() for one in OPTIONS[4:6]] == ["Key of the server.", "US$; -1: any."]


@parametrized(("values", "wanted"))
def test_what_is_out_of_range_is_refused(values: dict[str, Any], wanted: list[str]) -> None:
    assert refusals(OPTIONS, values, "x_") == wanted


def test_what_a_dictionary_holds_is_declared_too() -> None:
    size = Option("size", "Bytes.", type="int", required=True, least=0, most=2**31 - 1)
    cases = Option("cases", "Cases.", [], fields=(size,))
    assert cases.spec()["options"] == {"size": {"type": "int", "required": True}}
    wrong = {"cases": [{"size": 8}, {"size": -1}]}
    limits = "it must be 0 or more, 2147483647 or less"
    assert refusals([cases], wrong, "x_") == [f"x_cases: size is -1: {limits}"]
    assert refusals([cases], {"cases": [{"size": 8}]}, "x_") == []


def test_what_holds_itself_or_stands_in_many_places_is_looked_at_once() -> None:
    inner: list[Any] = ["a\0b"]
    inner.append(inner)
    assert str(unwritable({"x": inner}, "v")).startswith(r"v.x[0] holds '\x00'")
    # YAML's aliases make 2^60 places of one text.
    for _ in range(60):
        inner = [inner, inner]
    assert str(unwritable(inner, "v")).endswith("remove it")
    inner = ["well"]
    inner.append(inner)
    assert unwritable(inner, "v") is None
