"""What the house may cost at most (docs/dev/architecture.md).

A number here only ever goes down: after a change that lowers one, write what `make house` says.
What would raise one belongs into a typed function with tests.
"""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import entered
import house
import pytest

# By place: expressions, characters of the longest, ifs, statements.
MOST = {
    "vars": (21, 107, 2, 0),
    "all YAML": (908, 173, 12, 2),
    "templates": (41, 56, 0, 16),
    "python": (0, 0, 0, 0),
}
MOST_COMPLEX = 18
# 95 of 100 functions have no more.
MOST_COMPLEX_P95 = 12
# Files in which a function runs, for one log of NCCL and one record of Devito.
MOST_ENTERED = {"read": 17, "cost": 26, "report": 51}


@pytest.fixture(scope="module")
def checkout() -> house.House:
    return house.checkout(Path(__file__).parent.parent.parent)


def test_jinja_does_not_grow(checkout: house.House) -> None:
    now = house.jinja_by_place(checkout)
    names = ("expressions", "longest", "ifs", "statements")
    assert {
        f"{where}: {name}": f"{is_now}, at most {most}"
        for where, caps in MOST.items()
        for name, is_now, most in zip(names, astuple(now[where]), caps)
        if is_now > most
    } == {}


def test_no_function_is_more_complex_than_the_worst_one(checkout: house.House) -> None:
    assert [found for found in house.complexities(checkout) if found[0] > MOST_COMPLEX] == []


def test_most_functions_are_simple(checkout: house.House) -> None:
    counts = [count for count, _ in house.complexities(checkout)]
    assert counts[int(0.95 * len(counts))] <= MOST_COMPLEX_P95


@pytest.mark.parametrize("room", house.ROOMS)
def test_names_hold_no_empty_words(checkout: house.House, room: str) -> None:
    wording = house.wording(checkout, room)
    assert wording.empty_percent < 2
    assert wording.whats_per_thousand < 2


def test_module_utils_holds_the_node_s_half(checkout: house.House) -> None:
    assert house.controller_only(checkout) == {}


def test_every_task_name_begins_with_a_plain_verb(checkout: house.House) -> None:
    names = house.task_names(checkout)
    assert [name for name in names if house.begin_with([name], house.PLAIN_VERBS) == 0] == []


def test_a_command_enters_few_files() -> None:
    counts = {name: len(files) for name, files in entered.entered().items()}
    assert {name: count for name, count in counts.items() if count > MOST_ENTERED[name]} == {}
