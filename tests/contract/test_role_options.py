"""What follows from the options that benchmarks declare is what stands in the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from role_options import ROOT, declared, files

DECLARED = list(declared())


def test_rooms_declare_options() -> None:
    assert {"gemm", "stream"} <= {tool for _, tool, _ in DECLARED}


@pytest.mark.parametrize(("path", "text"), list(files()), ids=lambda item: str(item)[-40:])
def test_roles_follow_from_the_declarations(path: Path, text: str) -> None:
    """Stale? ``make options`` writes them."""
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(("role", "tool", "options"), DECLARED)
def test_an_option_is_named_by_hand_in_no_role(role: str, tool: str, options: tuple) -> None:
    """A role's tasks may use where things are put; what is measured is its plan's business."""
    folder = ROOT / "roles" / role
    paths = [*folder.glob("tasks/*.yml"), *folder.glob("vars/*.yml")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    used = {one.name for one in options if re.search(rf"\b{role}_{one.name}\b", text)}
    measured = {one.name for one in options if one.name in {"repeats", "timeout_seconds"}}
    assert used & measured == set()
