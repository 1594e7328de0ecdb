"""Each role's defaults equal its argument specification, for every entry point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
ROLES = sorted(
    path.parent.parent.name for path in (ROOT / "roles").glob("*/meta/argument_specs.yml")
)
LONGEST_TASK_FILE = 60
MOST_TASKS = 20


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def entry_points(role: str) -> dict[str, Any]:
    specs: dict[str, Any] = read(ROOT / "roles" / role / "meta" / "argument_specs.yml")
    return specs["argument_specs"]


def test_every_role_has_a_specification() -> None:
    assert sorted(path.name for path in (ROOT / "roles").iterdir()) == ROLES
    assert {"devito", "stream"} <= set(ROLES)


def test_no_roles_name_is_the_prefix_of_anothers() -> None:
    pairs = [(a, b) for a in ROLES for b in ROLES if a != b and b.startswith(a)]
    assert pairs == []


@pytest.mark.parametrize("role", ROLES)
def test_the_defaults_equal_the_specification(role: str) -> None:
    defaults = read(ROOT / "roles" / role / "defaults" / "main.yml")
    for entry in entry_points(role).values():
        options = entry["options"]
        assert {name: option["default"] for name, option in options.items()} == defaults
        assert [name for name, option in options.items() if not option.get("description")] == []
        assert [name for name in options if not name.startswith(f"{role}_")] == []


@pytest.mark.parametrize("role", ROLES)
def test_every_default_has_a_comment(role: str) -> None:
    lines = (ROOT / "roles" / role / "defaults" / "main.yml").read_text().splitlines()
    bare = []
    commented = False
    for line in lines:
        if line.startswith("#"):
            commented = True
        elif not line.strip():
            commented = False
        elif line[0].isalpha() and not commented:
            bare.append(line)
    assert bare == []


@pytest.mark.parametrize("role", ROLES)
def test_a_role_stays_small(role: str) -> None:
    files = sorted((ROOT / "roles" / role / "tasks").glob("*.yml"))
    tasks = [task for path in files for task in read(path)]
    assert {
        p.name: n for p in files if (n := len(p.read_text().splitlines())) > LONGEST_TASK_FILE
    } == {}
    assert len(tasks) <= MOST_TASKS
