"""What a parser must stand: a damaged output gives the right figures or an error."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.errors import ParseError


def changed(text: str, pattern: str, replacement: str, count: int = 1) -> str:
    """With ``count`` matches of the pattern replaced (0: all, and there is one)."""
    result, found = re.subn(pattern, replacement, text, count=count, flags=re.MULTILINE)
    assert found == (count or max(found, 1))
    return result


def refuses(parse: Callable[[str], Any], *outputs: tuple[str, str]) -> Callable[..., None]:
    """Tests: an output, and a part of the error that it gives."""

    @pytest.mark.parametrize(("text", "message"), outputs)
    def test(text: str, message: str) -> None:
        with pytest.raises(ParseError, match=re.escape(message)):
            parse(text)

    return test


def damaged(text: str, data: st.DataObject, *kinds: str) -> str:
    """The text, ``cut``, or with a line ``lost`` or ``doubled``, or two ``swapped`` (or
    ``neighbours``)."""
    kind = data.draw(st.sampled_from(kinds))
    if kind == "cut":
        return text[: data.draw(st.integers(0, len(text)))]
    lines = text.splitlines(keepends=True)
    places = st.integers(0, len(lines) - 1)
    one = data.draw(places)
    if kind == "lost":
        del lines[one]
    elif kind == "doubled":
        lines.insert(one, lines[one])
    else:
        two = (one + 1) % len(lines) if kind == "neighbours" else data.draw(places)
        lines[one], lines[two] = lines[two], lines[one]
    return "".join(lines)


def same_or_refused(read: Callable[[str], Any], text: str, right: Any) -> bool:
    """Whether the text gives these figures, or an error."""
    try:
        return bool(read(text) == right)
    except ParseError:
        return True


def stands(
    read: Callable[[str], Any], texts: Sequence[str], *kinds: str, examples: int = 60
) -> Callable[..., None]:
    """A test: each of the outputs, damaged so, gives its own figures or an error."""

    @settings(max_examples=examples, deadline=None)
    @given(text=st.sampled_from(texts), data=st.data())
    def test(text: str, data: st.DataObject) -> None:
        assert same_or_refused(read, damaged(text, data, *kinds), read(text)) is True

    return test


def mutations(text: str, each: int, seed: int = 15) -> Iterator[tuple[str, str]]:
    """Kind and text of damaged outputs, ``each`` of a kind, always the same ones: ``cut`` anywhere,
    a line ``lost``, two ``swapped``, the lines of two ranks ``mixed``, a ``digit`` changed (of
    these twice as many), or the ``last digit`` of a number."""
    chance = random.Random(seed)
    lines = text.splitlines(keepends=True)
    for _ in range(each):
        yield "cut", text[: chance.randrange(len(text))]
        one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
        yield "lost", "".join([*lines[:one], *lines[one + 1 :]])
        swapped = list(lines)
        swapped[one], swapped[two] = lines[two], lines[one]
        yield "swapped", "".join(swapped)
        yield "mixed", "".join(_mixed(lines, chance))
    digits = [place for place, char in enumerate(text) if char.isdigit()]
    for place in chance.sample(digits, min(2 * each, len(digits))):
        other = chance.choice([digit for digit in "0123456789" if digit != text[place]])
        last = not re.match(r"\.?\d", text[place + 1 : place + 3])
        yield "last digit" if last else "digit", f"{text[:place]}{other}{text[place + 1 :]}"


def _mixed(lines: Sequence[str], chance: random.Random) -> Iterator[str]:
    """The same lines twice, as two ranks would write them into one file."""
    ranks = [list(lines), list(lines)]
    while any(ranks):
        rank = chance.choice([rank for rank in ranks if rank])
        count = chance.choice((1, 2, 5, 50))
        yield from rank[:count]
        del rank[:count]
