"""The attack by damaged outputs (`make torture`) in little, and that it notices damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torture import mutations
from torture.mutations import ANY, STRUCTURE, Reading, Recording, judged, mutated_outputs
from trueup.errors import ParseError

TESTS = Path(__file__).parent.parent


def test_some_hundred_damaged_outputs_give_their_figures_or_an_error() -> None:
    tally = mutated_outputs(400, seed=9)
    assert (tally.tried, tally.losses) == (400, [])


def test_every_parser_that_is_flooded_is_attacked() -> None:
    rooms = TESTS.parent / "module_utils" / "trueup"
    found = {path.parent.name for path in rooms.glob("benchmarks/*/output.py")}
    attacked = {one.tool for one in mutations.recordings() if one.right}
    assert attacked == found | {"lscpu", "nvidia_smi"}


def test_the_same_number_of_a_seed_is_the_same_damage() -> None:
    chosen = mutations.recordings()
    weights = [float(number) for number in range(1, len(chosen) + 1)]
    one, two = (mutations.damaged(chosen, weights, 3, 5) for _ in range(2))
    assert (one, one != mutations.damaged(chosen, weights, 3, 6)) == (two, True)


def reading(value: float, *said: str) -> Reading:
    return Reading({("rate", None, None, None): (value, "1/s", 3)}, frozenset(said))


def refuse(_text: str) -> Any:
    message = "no"
    raise ParseError(message)


@pytest.mark.parametrize(
    ("kind", "got", "verdict"),
    [
        ("line lost", reading(1.0), "same"),
        ("line lost", Reading({}, frozenset()), "fewer"),
        ("line lost", reading(2.0), "wrong: ('rate', None, None, None) is (2.0, '1/s', 3)"),
        ("line lost", reading(2.0, "a part is missing"), "said"),
        ("digit", reading(2.0), "other"),
        ("digit", reading(-2.0), "wrong: ('rate', None, None, None) is -2.0"),
        ("huge", reading(float("inf")), "wrong: ('rate', None, None, None) is inf"),
        ("huge", reading(float("nan")), "wrong: ('rate', None, None, None) is nan"),
    ],
)
def test_what_becomes_of_damage_is_told(kind: str, got: Reading, verdict: str) -> None:
    one = Recording("tool/file", "text", lambda _text: got, reading(1.0), ["text"])
    assert judged(one, kind, "damaged")[: len(verdict)] == verdict


def test_only_parse_errors_refuse() -> None:
    one = Recording("tool/file", "text", refuse, reading(1.0), ["text"])
    assert judged(one, "digit", "") == "refused"
    broken = Recording("tool/file", "text", int, reading(1.0), ["text"])
    assert judged(broken, "digit", "²")[:17] == "wrong: ValueError"
    refused = Recording("tool/file", "text", lambda _text: reading(1.0), None, ["text"])
    assert judged(refused, "line lost", "") == "wrong: figures of what is refused"


@pytest.mark.parametrize("kind", [*STRUCTURE, *ANY])
def test_each_damage_changes_a_text(kind: str) -> None:
    text = "rate [GB/s], time\nrow: 1.5e+02 20.5 3 MB/s\n" * 5
    one = Recording("tool/file", text, refuse, None, text.splitlines(keepends=True))
    made = {
        {**STRUCTURE, **ANY}[kind](one, mutations.random.Random(number)) for number in range(40)
    }
    assert len(made - {text}) >= 1
