"""``trueup read``: parsers found by themselves, and texts that nobody wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from trueup.errors import BadInput
from trueup_analysis.read import read, tools

DATA = Path(__file__).resolve().parents[2] / "data"


def test_every_parser_with_a_tool_name_is_found() -> None:
    assert {"devito", "stream"} <= set(tools())


@pytest.mark.parametrize(
    ("path", "tool", "name"),
    [
        ("devito/openmp.log", "devito", "run_time"),
        ("stream/stream510.txt", "stream", "triad_rate"),
        ("stream/kernel_streaming.json", "stream", "triad_rate"),
    ],
)
def test_the_tool_is_found_out_and_read(path: str, tool: str, name: str) -> None:
    text = (DATA / path).read_text(encoding="utf-8")
    reading = read(text, source=path)
    assert (reading.source, reading.tool) == (path, tool)
    assert name in {row["name"] for row in reading.rows}
    assert read(text, source=path, tool=tool) == reading


@pytest.mark.parametrize(
    ("text", "tool", "message"),
    [
        ("hello", None, "x: no known tool's output; say which with --tool"),
        ("", None, "x is empty"),
        (" \n", "devito", "x is empty"),
        ("hello", "hpc", "no parser for 'hpc'; there are blob_copy, devito, fio, gemm"),
        ("hello", "devito", "x: "),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: str, tool: str | None, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(text, source="x", tool=tool)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_killed_run_is_refused() -> None:
    text = (DATA / "devito" / "killed.log").read_text(encoding="utf-8")
    with pytest.raises(BadInput, match=r"^killed\.log: "):
        read(text, source="killed.log", tool="devito")
