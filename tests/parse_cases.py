"""Outputs of tools as golden cases, tests/data/parsed/<tool>.cases: a text, as lines of a recording
(tests/data) or of another case that differ, and all that its parser gives, or its error.

    PYTHONPATH=tests python tests/parse_cases.py       writes the results of all cases anew

A difference that this makes is read first.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import plan_cases
from trueup_analysis import rooms
from trueup_analysis.read import Reading, read_runs
from trueup_node.errors import BadInput, ParseError

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"
FOLDER = DATA / "parsed"
Case = dict[str, Any]
# Beyond it a member is shown by its checksum.
_LONG = 1500
_SKIPPED = {"rows"}
_SKIPPED_OF_A_READING = {"figures"}


@functools.cache
def recording(name: str) -> str:
    """A file of tests/data."""
    return (DATA / name).read_bytes().decode("utf-8")


def edited(text: str, edits: Sequence[Any]) -> str:
    """A text with other lines: of each edit the first line, how many go, and those that come."""
    lines = text.split("\n")
    for first, count, more in reversed(edits):
        lines[first : first + count] = more
    return "\n".join(lines)


def text_of(case: Case, texts: dict[str, str]) -> str:
    """The text of a case; ``texts`` has those of the cases before it."""
    if "whole" in case:
        return str(case["whole"])
    base = recording(case["file"]) if "file" in case else texts[case["text of"]]
    return edited(base, case.get("edits", []))


def result_of(tool: str, case: Case, text: str) -> str:
    """What a parser, or `trueup read`, makes of a text."""
    try:
        if case["call"] == "parse":
            output = getattr(rooms.part(tool, "output"), f"parse_{tool}")(text)
            return "\n".join(shown(output)) + "\n"
        readings, reasons = read_runs(text, **case["more"])
    except (ParseError, BadInput) as error:
        return f"{type(error).__name__}: {error}\n"
    lines = [line for reading in readings for line in ("-- a run", *shown(reading))]
    return "\n".join([*lines, *(f"refused: {reason}" for reason in reasons)]) + "\n"


def shown(output: Any) -> list[str]:
    """The figures of an output and its members, a line each."""
    members = {
        field.name: getattr(output, field.name)
        for field in dataclasses.fields(output)
        if field.name not in (_SKIPPED_OF_A_READING if isinstance(output, Reading) else _SKIPPED)
    }
    for name in ("parameters", "checks", "warnings", "unverified", "node_count", "gpu_count"):
        members[name] = getattr(output, name, None)
    rows = output.rows if isinstance(output, Reading) else [m.as_row() for m in output.metrics()]
    figures = [" ".join(f"{name}={value}" for name, value in row.items()) for row in rows]
    return [*(f"{name}: {_short(value)}" for name, value in sorted(members.items())), *figures]


def _short(value: Any) -> str:
    text = " ".join(repr(_ordered(value)).split())
    return text if len(text) < _LONG else hashlib.sha256(text.encode()).hexdigest()[:16]


def _ordered(value: Any) -> Any:
    """The value with its sets and mappings in an order."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: _ordered(member) for name, member in vars(value).items()}
    if isinstance(value, dict):
        return {name: _ordered(value[name]) for name in sorted(value, key=str)}
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return [_ordered(item) for item in value] if isinstance(value, (list, tuple)) else value


def checked(tool: str, cases: Sequence[Case]) -> list[Case]:
    """The cases with the results of today's code."""
    texts: dict[str, str] = {}
    whole: dict[str, str] = {}
    results = []
    for case in cases:
        name = case["name"]
        texts[name] = text_of(case, texts)
        whole[name] = result_of(tool, case, texts[name])
        before = whole.get(case.get("of", ""), "")
        gives = plan_cases.difference(before, whole[name]) if before else whole[name]
        results.append({**case, "gives": gives})
    return results


TOOLS = tuple(sorted(path.stem for path in FOLDER.glob("*.cases")))

if __name__ == "__main__":
    for each in TOOLS:
        plan_cases.write(FOLDER, each, checked(each, plan_cases.read(FOLDER, each)))
