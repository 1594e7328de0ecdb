"""Of every parser: an error that names a line names the one that it shows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from trueup_analysis import rooms
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data"
PARSERS = {name: rooms.part(name, "output") for name in rooms.names()}
# As many lines of each recorded file are damaged in each way; few lines of HPL's say anything.
LINES = 6
MORE = {"hpl": 25}
# A log of which every line may be another program's: its one error is that there is none of NCCL's.
WITHOUT_LINES = {"nccl_log"}


def damaged(lines: list[str], number: int) -> list[str]:
    """A text in which that line was changed, lost, doubled, cut, or is another tool's."""
    before, line, after = lines[:number], lines[number], lines[number + 1 :]
    digits = line.translate(str.maketrans("0123456789", "1234567890"))
    ways = [[digits], [], [line, line], [line[: len(line) // 2]], ["# nothing of the kind"]]
    return ["\n".join([*before, *way, *after]) for way in ways]


def shown(tool: str, text: str) -> tuple[int, str, str] | None:
    """Of the error with which a text is answered: number and line, and the line of that number."""
    try:
        getattr(PARSERS[tool], f"parse_{tool}")(text)
    except ParseError as error:
        if error.line_number is not None:
            return error.line_number, error.line, text.splitlines()[error.line_number - 1]
    return None


@pytest.mark.parametrize("tool", sorted(PARSERS))
def test_an_error_shows_the_line_that_it_names(tool: str) -> None:
    chance = random.Random(14)
    found = []
    for path in sorted((DATA / tool).iterdir()):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        for number in chance.sample(range(len(lines)), min(MORE.get(tool, LINES), len(lines))):
            found += [shown(tool, text) for text in damaged(lines, number)]
    named = [each for each in found if each is not None]
    assert (len(named) > 0) is (tool not in WITHOUT_LINES)
    assert [
        (number, line, there)
        for number, line, there in named
        if line.strip() and not any(part.strip() in there for part in line.splitlines() if part)
    ] == []
