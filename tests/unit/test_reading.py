"""What parsers share: numbered lines, and the JSON that our own programs print."""

from __future__ import annotations

import math
from typing import Any

import pytest
from trueup_node.errors import ParseError
from trueup_node.reading import Line, decoded, is_count, is_number, lines_of, only, unique


def refusal(line: str) -> tuple[str, int | None, str]:
    with pytest.raises(ParseError) as caught:
        decoded(Line(line, 7), "ours ", "the line", version=2, role="toy")
    return str(caught.value).split(" (line")[0], caught.value.line_number, caught.value.line


def test_a_number_without_end_is_refused() -> None:
    with pytest.raises(ParseError, match="4000 digits"):
        lines_of("7" * 4000)


def test_a_second_line_of_its_kind_is_refused() -> None:
    lines = lines_of("a 1\nb\na 2")
    assert only(lines, "b", "twice") == ["b"]
    assert only(lines, "c", "twice") == []
    with pytest.raises(ParseError, match=r"twice \(line 3"):
        only(lines, "a", "twice")


def test_an_objects_names_are_unique() -> None:
    assert unique([("a", 1), ("b", 2)]) == {"a": 1, "b": 2}
    with pytest.raises(ValueError, match="'b' stands twice"):
        unique([("a", 1), ("b", 2), ("b", 2)])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('ours {"format": 2', "the line is cut off or damaged"),
        ('ours {"format": 2, "format": 2}', "the line is cut off or damaged ('format' stands"),
        ("ours " + "[" * 100_000, "the line is cut off or damaged"),
        ('ours {"format": 3}', "the line is not of format 2: run the role toy again"),
        ("ours [2]", "the line is not of format 2: run the role toy again"),
    ],
)
def test_a_line_of_ours_that_is_none_is_refused(line: str, message: str) -> None:
    said, number, shown = refusal(line)
    assert (said[: len(message)], number, shown) == (message, 7, line)


@pytest.mark.parametrize(
    ("value", "count", "number"),
    [
        *[(0, True, True), (7, True, True), (-1, False, True), (1.0, False, True)],
        *[(True, False, False), ("1", False, False), (None, False, False)],
        (math.nan, False, True),
    ],
)
def test_counts_and_numbers(value: Any, count: bool, number: bool) -> None:
    assert (is_count(value), is_number(value)) == (count, number)
