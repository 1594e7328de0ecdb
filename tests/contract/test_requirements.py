"""The pinned requirements keep their promises, and node code stays within what a node has."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements"
# What roles install with pip on a node.
NODE_PINS = sorted(ROOT.glob("roles/**/files/requirements*.txt"))
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)")
NODE_PYTHON = (3, 9)
# The files that run on the nodes, with the node's own Python.
NODE_FILES = sorted(
    path
    for folder in ("module_utils", "library")
    for path in (ROOT / folder).rglob("*.py")
    if "__pycache__" not in path.parts
)
# What the controller alone runs, and the packages of its own that each needs.
CONTROLLER_FILES = {
    "controller/trueup_controller/azure/login.py": {"azure", "knack", "requests"},
    "controller/trueup_controller/azure/selection.py": {"jmespath"},
}


def pins(name: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return each pinned distribution's version and hashes, from requirements/`name`."""
    text = (REQUIREMENTS / name).read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        match = PIN.match(line)
        if match:
            hashes = frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})(?=\s|$)", line))
            found[canonicalize_name(match["name"])] = (match["version"], hashes)
    return found


def asked(name: str) -> set[str]:
    """Return the distributions that requirements/`name` asks for, without included files."""
    lines = (REQUIREMENTS / name).read_text(encoding="utf-8").splitlines()
    return {
        canonicalize_name(Requirement(line).name)
        for line in lines
        if line.strip() and not line.startswith(("#", "-"))
    }


@pytest.mark.parametrize("name", ["controller.txt", "azure.txt", "test.txt"])
def test_every_requirement_is_pinned_with_hashes(name: str) -> None:
    text = (REQUIREMENTS / name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", " "))]
    assert [line for line in lines if not PIN.match(line)] == []
    assert len(lines) == len(pins(name))
    assert [pin for pin, (_, hashes) in pins(name).items() if not hashes] == []


@pytest.mark.parametrize(
    "path", sorted(filter(Path.is_file, REQUIREMENTS.glob("*"))) + NODE_PINS, ids=lambda p: p.name
)
def test_no_requirement_file_names_a_package_index(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"index-url|find-links|trusted-host|\w+://\S*", text) == []


@pytest.mark.parametrize("path", NODE_PINS, ids=lambda path: path.name)
def test_what_roles_install_is_pinned_with_hashes(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines != []
    assert [line for line in lines if "==" not in line or "--hash=sha256:" not in line] == []


@pytest.mark.parametrize(
    ("less", "more"), [("controller.txt", "azure.txt"), ("azure.txt", "test.txt")]
)
def test_one_environment_is_another_and_more(less: str, more: str) -> None:
    small, large = pins(less), pins(more)
    assert {name: large.get(name) for name in small} == small
    assert len(large) > len(small)


def test_everything_asked_for_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = {
        canonicalize_name(Requirement(line).name) for line in project["project"]["dependencies"]
    }
    built_with = {
        canonicalize_name(Requirement(line).name) for line in project["build-system"]["requires"]
    }
    assert needed <= asked("controller.in")
    assert built_with <= asked("controller.in")
    assert asked("controller.in") - set(pins("controller.txt")) == set()
    assert asked("azure.in") - set(pins("azure.txt")) == set()
    assert asked("test.in") - set(pins("test.txt")) == set()


@pytest.mark.parametrize("path", NODE_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_node_code_is_python_39_and_needs_only_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=NODE_PYTHON)
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            imported.add(node.module.partition(".")[0])
    more = CONTROLLER_FILES.get(path.relative_to(ROOT).as_posix(), set())
    # Programs that are sent to VMs have bounded_http, itself of the standard library, beside them.
    assert imported - sys.stdlib_module_names - {"ansible", "bounded_http"} == more


def test_no_module_imports_what_the_controller_alone_runs() -> None:
    names = [Path(path).stem for path in CONTROLLER_FILES]
    wrong = [
        (path.name, name)
        for path in NODE_FILES
        for name in names
        if path.parent.name != "azure" and f"azure.{name}" in path.read_text(encoding="utf-8")
    ]
    assert wrong == []


def test_no_address_of_an_index_hides_in_the_makefile_or_ci() -> None:
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", ".ci/run"))
    assert re.findall(r"https?://\S+|--(?:extra-)?index-url", text) == []
