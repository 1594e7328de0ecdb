"""Lines of trueup's own programs, each member changed and the line sealed anew, as a node that lies
or an older program writes them: figures that are finite, or one sentence."""

from __future__ import annotations

import copy
import json
import math
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from trueup_analysis import rooms
from trueup_node.errors import TrueupError
from trueup_node.reading import digest

DATA = Path(__file__).parents[1] / "data"
Seal = Callable[[dict[str, Any]], tuple[str, Any]]
STRANGE = (None, True, "x", "", -1, 0, 1e308, math.nan, math.inf, [], {}, [None], {"a": []})


def short(data: dict[str, Any]) -> tuple[str, Any]:
    return "sha256", digest(data)[:16]


def crc(data: dict[str, Any]) -> tuple[str, Any]:
    return "check", zlib.crc32(json.dumps(data, sort_keys=True).encode())


SEALED: list[tuple[str, Seal]] = [
    ("gpu_copy/pytorch_peers.json", short),
    ("gemm/a100_1gpu.json", short),
    ("blob_copy/resumed.txt", lambda data: ("digest", digest(data))),
    ("vllm/vllm032_driver_random.log", lambda data: ("sha256", digest(data))),
    ("megatron/gpt_driver_one.log", crc),
]


def parts(text: str) -> tuple[str, str, dict[str, Any], str]:
    """The text before the sealed line, its beginning, its object, and the text behind."""
    lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines):
        start = line.find("{")
        if start >= 0 and any(f'"{seal}"' in line for seal in ("sha256", "digest", "check")):
            return (
                "".join(lines[:at]),
                line[:start],
                json.loads(line[start:]),
                "".join(lines[at + 1 :]),
            )
    raise AssertionError("no sealed line")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each member; of a list its first and last one."""
    if isinstance(value, dict):
        members: Any = value.items()
    elif isinstance(value, list) and value:
        members = {0: value[0], len(value) - 1: value[-1]}.items()
    else:
        return
    for name, member in members:
        yield (*path, name)
        yield from places(member, (*path, name))


def changed(data: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    other = copy.deepcopy(data)
    parent: Any = other
    for step in path[:-1]:
        parent = parent[step]
    if value is STRANGE:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return other


def finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


@pytest.mark.parametrize(("name", "seal"), SEALED, ids=[name for name, _ in SEALED])
def test_a_sealed_line_of_any_members_is_figures_or_a_sentence(name: str, seal: Seal) -> None:
    tool = name.partition("/")[0]
    parse = getattr(rooms.part(tool, "output"), f"parse_{tool}")
    before, begin, data, behind = parts((DATA / name).read_text())
    member = seal({})[0]
    assert data.pop(member) == seal(data)[1]
    assert parse((DATA / name).read_text()).metrics()
    refused = 0
    for path in places(data):
        for value in (STRANGE, *STRANGE):
            other = changed(data, path, value)
            sealed = json.dumps({**other, member: seal(other)[1]})
            try:
                output = parse(f"{before}{begin}{sealed}\n{behind}")
                figures = output.metrics()
            except TrueupError:
                refused += 1
                continue
            assert all(finite(figure.value) for figure in figures), (path, value)
            assert all(isinstance(text, str) for text in output.parameters.values()), path
    assert refused > 100
