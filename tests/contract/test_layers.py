"""Imports run downwards: a file imports what stands in its own layer or below, never above.

Every import counts, also one inside a function, one for type checking only, and one of the module's
own name. Files are grouped by what they are called below their package; a folder is one name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Layers = Sequence[Sequence[str]]

# The lowest first. Names in one row may import each other.
ANALYSIS: Layers = (
    (
        *("units", "catalog", "contract", "notify", "labelled", "parsers", "rooms"),
        *("retail", "retail_meters", "spot"),
    ),
    (
        *("load", "packed", "records", "published", "cases", "read"),
        *("decoding", "front", "selection", "store"),
    ),
    ("figures",),
    ("sheets",),
    ("tables",),
    ("render",),
    ("report",),
    ("commands",),
    ("cli",),
    ("__main__",),
)
# A case is started (run) on a machine that is known (node).
MODULE_UTILS: Layers = (
    ("bounded_http", "errors", "suggest", "quantity"),
    ("printable", "redaction", "rest"),
    ("record", "reading", "view", "options", "plan", "cases", "serving"),
    ("health",),
    ("node",),
    ("run",),
    ("benchmarks",),
    ("sites", "vm"),
)
# The controller's half: plugins and analysis import it, and it imports the node's half.
CONTROLLER: Layers = (
    (
        *("acceptance", "actions", "background", "benchmark_roles", "check_mode_writes"),
        "evidence",
        *("download_failures", "forecast", "gate", "host_names", "known_faults", "lab"),
        *("launch_nodes", "machines", "morning", "package_failures", "project"),
        *("removed_options", "role_folders", "typed"),
        *("settings", "sizes", "system", "systemd"),
    ),
    ("azure", "desktops", "plans", "sites"),
    ("repair",),
    ("family", "new_machine", "plan_loader", "terminal"),
    ("planning",),
    ("drivers", "presets"),
    ("dryrun",),
    ("host_dryrun",),
)
PACKAGES = {
    "trueup_analysis": ANALYSIS,
    "trueup_controller": CONTROLLER,
    "trueup_node": MODULE_UTILS,
}
# What the files of each package may not import at all.
STRANGERS = {
    "trueup_node": (
        "trueup_analysis",
        "trueup_controller",
        "plugins",
        "library",
        "ansible.plugins",
    ),
    "trueup_controller": ("trueup_analysis", "plugins", "library", "ansible.plugins"),
    "trueup_analysis": ("plugins", "library", "ansible"),
}
FOLDERS = {
    "trueup_analysis": "analysis/trueup_analysis",
    "trueup_controller": "controller/trueup_controller",
    "trueup_node": "module_utils/trueup_node",
}


def imports(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that a file of ``package`` ("a.b") imports. ``from a import
    b`` gives "a.b", whether b is a module or a name in one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: -(node.level - 1) or None] if node.level else []
            start = [*parts, *filter(None, [node.module])]
            yield from ((node.lineno, ".".join([*start, name.name])) for name in node.names)


def problems(files: Mapping[str, str], package: str, layers: Layers) -> list[str]:
    """What breaks the order; ``files``: path below the package -> text."""
    places = {name: place for place, names in enumerate(layers) for name in names}
    found = []
    for path, source in sorted(files.items()):
        *folders, file = path.removesuffix(".py").split("/")
        own = [*folders, file][0]
        if own == "__init__" or own not in places:
            found += [f"{path}: no layer; name it in {Path(__file__).name}"] * (own != "__init__")
        for line, name in imports(source, ".".join([package, *folders])):
            if name.startswith(STRANGERS[package]):
                found.append(f"{path}:{line} imports {name}")
            base, _, rest = name.partition(".")
            other = rest.split(".")[0]
            if base == package and places.get(other, 0) > places.get(own, 0):
                found.append(f"{path}:{line} imports {other}, which stands above {own}")
            if _another_tools(own, folders, rest):
                found.append(f"{path}:{line} imports {name}, another benchmark's room")
    return found


def _another_tools(own: str, folders: Sequence[str], rest: str) -> bool:
    """Whether a file of benchmarks/<tool>/ imports from another tool's room."""
    room, _, inside = rest.partition(".")
    rooms = {path.name for path in (ROOT / FOLDERS["trueup_node"] / "benchmarks").iterdir()}
    tool = inside.split(".")[0]
    return own == room == "benchmarks" and tool in rooms and [tool] != list(folders[1:2])


def files_of(package: str) -> dict[str, str]:
    folder = ROOT / FOLDERS[package]
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*.py")
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_run_downwards(package: str) -> None:
    assert problems(files_of(package), package, PACKAGES[package]) == []
