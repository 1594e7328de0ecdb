"""Slices of a GPU: their licences in ``nvidia-smi -q``, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_node.errors import ParseError
from trueup_node.node.vgpu import judge, parse_licences

DATA = Path(__file__).parent.parent / "data" / "nvidia_smi"
LICENSED = (DATA / "q_a10_licensed.txt").read_text()


@parametrized(("file", "found"))
def test_the_licence_of_each_gpu(file: str, found: dict[str, str | None]) -> None:
    assert parse_licences((DATA / file).read_text()) == found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", None),
        ("Driver Version : 570.211.01\n", None),
        # Cut within the block, and a block without its state before the next one.
        (LICENSED[: LICENSED.index("        License Status")], 19),
        (LICENSED.replace("        License Status", "        Licence"), 19),
        (LICENSED.replace("00000003", "00000002"), 31),
        (LICENSED.replace("GPU 00000002:00:00.0", "GPU 00:0"), 9),
    ],
)
def test_an_output_that_is_not_so_is_no_answer(text: str, line: int | None) -> None:
    with pytest.raises(ParseError) as raised:
        parse_licences(text)
    assert raised.value.line_number == line


@parametrized(("device", "gib", "names"))
def test_what_is_wrong_with_a_slice(
    device: dict[str, Any], gib: float | None, names: list[str]
) -> None:
    assert [(one["name"], one["reboot"]) for one in judge([device], gib)] == [
        (name, False) for name in names
    ]
