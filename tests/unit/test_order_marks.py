"""A byte order mark changes no figure, wherever it stands in an output."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from typing import Any

import pytest
from trueup.errors import ParseError, TrueupError
from trueup.run import output_buffer
from trueup_analysis.decoding import decoded
from trueup_analysis.read import logs, marks, tools

DATA = Path(__file__).parent.parent / "data"
MARK = "\ufeff"


def parser(tool: str) -> Any:
    return getattr(importlib.import_module(f"trueup.benchmarks.{tool}.output"), f"parse_{tool}")


def readable(tool: str) -> dict[str, str]:
    """The recorded outputs of a tool that its parser reads, by file name."""
    found = {}
    for path in sorted((DATA / tool).iterdir()):
        try:
            text = path.read_text(encoding="utf-8")
            parser(tool)(text)
        except (OSError, UnicodeDecodeError, TrueupError):
            continue
        found[path.name] = text
    return found


def marked(text: str) -> list[str]:
    """Before the output, twice as two programs leave it, and before each line of files that were
    put together."""
    lines = text.splitlines(keepends=True)
    return [MARK + text, 2 * MARK + text, "".join(MARK + line for line in lines)]


@pytest.mark.parametrize("tool", tools())
def test_trueup_read_and_a_node_take_the_same_text(tool: str) -> None:
    outputs = readable(tool)
    assert len(outputs) > 1
    for text in outputs.values():
        plain = decoded(io.BytesIO(text.encode()), "a", marks(), logs())[0]
        for each in marked(text):
            raw = each.encode()
            assert decoded(io.BytesIO(raw), "a", marks(), logs())[0] == plain
            assert output_buffer.of_file(io.BytesIO(raw)).text == text


@pytest.mark.parametrize("tool", tools())
def test_a_parser_reads_the_same_lines(tool: str) -> None:
    parse = parser(tool)
    for name, text in readable(tool).items():
        if not name.endswith(".json"):
            assert [parse(each) == parse(text) for each in marked(text)] == [True] * 3, name


@pytest.mark.parametrize("before", ["[1,0]<stdout>:", " ", "node1: "])
def test_a_drivers_line_that_something_stands_before_is_not_passed_over(before: str) -> None:
    """Devito's own log, which stands above it, has the same figures rounded to 0.01 s."""
    text = (DATA / "devito" / "driver_openmp.log").read_text()
    with pytest.raises(ParseError, match="something stands before 'trueup-devito'"):
        parser("devito")(text.replace("trueup-devito {", before + "trueup-devito {"))
