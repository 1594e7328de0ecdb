"""What a node needs for a role's own environment of pinned packages (role pinned_venv)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

from ..plan import Asked


def programs(asked: Asked) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts."""
    prefix = asked.options["prefix"]
    return {
        "python": asked.options["python"],
        "imports": ["venv", "ensurepip"],
        "folders": [prefix, f"{prefix}/venv"],
    }


def venv(asked: Asked) -> Mapping[str, Any]:
    """The environment's folder, as program_facts has it."""
    found: Mapping[str, Any] = asked.found["folders"][f"{asked.options['prefix']}/venv"]
    return found


def lacking(
    asked: Asked, role: str, *, oldest: str, newest: str = "", wants: str, mebibytes: int
) -> List[str]:
    """What keeps the role from making one, a sentence each.

    Args:
        role: whose variables a sentence names.
        oldest, newest: of Python, such as 3.10; no newest is any.
        wants: who wants it: "that Devito needs".
        mebibytes: space below the role's prefix.
    """
    python = asked.found["python"]
    if python is None:
        return [f"no {asked.options['python']} on this node"]
    found = []
    version = python["version"][:2]
    if version < _numbers(oldest) or (newest and version > _numbers(newest)):
        span = f"not one of {oldest} to {newest}" if newest else f"older than the {oldest}"
        has = ".".join(str(part) for part in version)
        found.append(f"Python {has} is {span} {wants}: set {role}_python")
    if python["missing"]:
        found.append(f"{python['path']} has no venv module (package python3-venv)")
    space = asked.found["folders"][asked.options["prefix"]]
    free = space["free_bytes"] // 1024**2
    # An installation that is there needs no more space; one of the site's own, linked there, does.
    if free < mebibytes and (venv(asked)["link"] or not venv(asked)["there"]):
        found.append(
            f"{free} MiB are free in {space['path']} and {mebibytes} are needed: set {role}_prefix"
        )
    return found


def pins(names: Sequence[str], folder: str) -> List[str]:
    """``name==version`` of everything that the requirements files in ``folder`` pin."""
    texts = [Path(folder, name).read_text(encoding="utf-8") for name in names]
    return [pin for text in texts for pin in re.findall(r"(?m)^[A-Za-z0-9_.-]+==[^ ]+", text)]


def pip_source(find_links: str, no_index: bool) -> List[str]:
    """Where pip takes packages from, as its arguments: a folder or page, and whether only there."""
    return [
        *(["--no-index"] if no_index else []),
        *([f"--find-links={find_links}"] if find_links else []),
    ]


def _numbers(version: str) -> List[int]:
    return [int(part) for part in version.split(".")]
