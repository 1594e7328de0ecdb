"""What the house may cost at most (docs/dev/architecture.md).

A number here only ever goes down: after a change that lowers one, write what `make house` says.
What would raise one belongs into a typed function with tests.
"""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

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


def test_wording_is_counted() -> None:
    source = (
        '"""What it is."""\n\n\ndef found(rows, one):\n    whole = [row for row in rows]  # text\n'
    )
    checkout = house.House(Path(), {"library/a.py": source})
    assert house.wording(checkout, "library") == house.Wording(5, 3, 5, 1)


def test_every_task_name_begins_with_a_plain_verb(checkout: house.House) -> None:
    names = house.task_names(checkout)
    assert [name for name in names if house.begin_with([name], house.PLAIN_VERBS) == 0] == []


def test_jinja_is_counted_where_it_stands() -> None:
    task = {"name": "Check {{ a }}", "when": ["b if c else d", True], "vars": {"x": "{{ 1\n+ 2 }}"}}
    assert house.jinja(house.texts([task])) == house.Jinja(3, 13, 1, 0)
    source = 'EXAMPLES = "{{ shown }}"\nTEXT = "{{ evaluated }}{% if x %}"\n'
    assert house.jinja(house.python_texts(source)) == house.Jinja(1, 9, 0, 1)


def test_a_functions_branches_are_counted() -> None:
    source = (
        "def f(a):\n"
        "    if a and a > 1:\n"
        "        return [b for b in a if b]\n"
        "    return 1 if a else 2\n"
    )
    checkout = house.House(Path(), {"library/a.py": source, "tests/b.py": source})
    assert house.complexities(checkout) == [(6, "library/a.py:1 f")]


def test_an_option_is_counted_in_the_files_of_its_benchmark() -> None:
    files = {
        "module_utils/trueup/benchmarks/gemm/output.py": "repeats = 1",
        "module_utils/trueup/benchmarks/fio/output.py": "repeats = 1",
        "library/gemm_bench.py": "repeats",
        "roles/gemm/defaults/main.yml": "gemm_repeats: 5",
        "roles/gemm/tasks/benchmark.yml": "x: '{{ gemm_repeats }}'",
        "playbooks/health.yml": "x: '{{ gemm_repeats }}'",
    }
    assert house.files_that_name_an_option(house.House(Path(), files)) == {"gemm_repeats": 5}


def test_names_of_tasks_in_blocks_are_found() -> None:
    tasks = [
        {"name": "Install, then check", "block": [{"name": "See whether", "loop": [{"name": "x"}]}]}
    ]
    names = list(house.names_of_tasks(tasks))
    assert names == ["Install, then check", "See whether"]
    assert house.begin_with(names, house.STYLE_VERBS) == 1
