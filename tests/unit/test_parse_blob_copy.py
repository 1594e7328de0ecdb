"""Outputs of trueup-blob-copy: recorded ones and what must be read from them, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.blob_copy.output import parse_blob_copy
from trueup_node.benchmarks.blob_copy.signatures import DRIVER_PREFIX, SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data" / "blob_copy"
EIGHT = (DATA / "eight_copies.txt").read_text()
SLOW = (DATA / "two_copies_progress.txt").read_text()
ROUGH = (DATA / "throttled.txt").read_text()


def values(text: str) -> dict[tuple[str, str | None], float]:
    return {(row.name, row.device): row.value for row in parse_blob_copy(text).metrics()}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the copies did not come to their end"),
        ("trueup-blob-copy: copy 0: 8 of 32 MiB, 95 Mb/s\n", "did not come to their end"),
        (EIGHT + EIGHT, "a second result line"),
        (EIGHT + "more\n", "text after the result line"),
        (EIGHT[:900], "cut off or damaged"),
        (EIGHT.replace('"format": 1', '"format": 2'), "not of format 1"),
        (EIGHT.replace('"bytes": 33554432', '"bytes": 33554433', 1), "was altered"),
        (EIGHT.replace('"digest": "', '"digest": "0'), "was altered"),
        (EIGHT.replace('"retries": 0', '"retries": 0, "retries": 0', 1), "'retries' stands twice"),
        (EIGHT.replace('"seconds": ', '"seconds": 1e999, "x": ', 1), "is not finite"),
        (DRIVER_PREFIX + "[]", "not of format 1"),
        (DRIVER_PREFIX + "null", "not of format 1"),
        (DRIVER_PREFIX + "[" * 100_000, "cut off or damaged"),
    ],
)
def test_damaged_output_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        parse_blob_copy(text)


def test_only_its_own_output_is_recognised() -> None:
    assert SIGNATURE.recognises(EIGHT) is True
    assert SIGNATURE.recognises(EIGHT[:300]) is True
    assert SIGNATURE.recognises("trueup-devito {}\n") is False
    assert SIGNATURE.recognises("") is False


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([EIGHT, SLOW, ROUGH]), st.data())
def test_any_damage_gives_the_same_figures_or_is_refused(text: str, data: st.DataObject) -> None:
    """The digest covers every figure; only what is no figure (progress, blanks) may change."""
    kind = data.draw(st.sampled_from(["cut", "drop", "swap", "byte"]))
    lines = text.splitlines(keepends=True)
    at = data.draw(st.integers(0, len(text) - 1))
    if kind == "cut":
        damaged = text[:at]
    elif kind == "byte":
        damaged = text[:at] + data.draw(st.characters(codec="ascii")) + text[at + 1 :]
    else:
        a = data.draw(st.integers(0, len(lines) - 1))
        b = data.draw(st.integers(0, len(lines) - 1))
        if kind == "drop":
            del lines[a]
        else:
            lines[a], lines[b] = lines[b], lines[a]
        damaged = "".join(lines)
    try:
        got = values(damaged)
    except ParseError:
        return
    assert got == values(text)
