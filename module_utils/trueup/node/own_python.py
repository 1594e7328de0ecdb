"""What a node needs for a role's own environment of pinned packages (role pinned_venv)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..plan import Asked

# An image's own Python may be older than what a benchmark's packages are made for, and a newer one
# stand beside it (AlmaLinux 8 and 9: python3.12). Only a Python that was not chosen is replaced.
_DEFAULT = "python3"
_OTHERS = tuple(f"python3.{minor}" for minor in (12, 11, 13, 10))


def programs(asked: Asked) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts."""
    prefix = asked.options["prefix"]
    named = asked.options["python"]
    return {
        "python": named,
        "pythons": list(_OTHERS) if named == _DEFAULT else [],
        "imports": ["venv", "ensurepip"],
        "folders": [prefix, f"{prefix}/venv"],
    }


def venv(asked: Asked) -> Mapping[str, Any]:
    """The environment's folder, as program_facts has it."""
    found: Mapping[str, Any] = asked.found["folders"][f"{asked.options['prefix']}/venv"]
    return found


def chosen(asked: Asked, oldest: str, newest: str = "") -> Optional[Mapping[str, Any]]:
    """The Python that the environment is made with, as program_facts has it: the one named, or,
    where that is the default and does not do, the first other one that does; None where the named
    one is not there.

    Args:
        oldest, newest: of Python, such as 3.10; no newest is any.
    """
    named: Optional[Mapping[str, Any]] = asked.found["python"]
    known: List[Optional[Mapping[str, Any]]] = [named, *asked.found.get("pythons", [])]
    for python in known:
        if python and not python["missing"] and _within(python, oldest, newest):
            return python
    return named


def path(asked: Asked, oldest: str, newest: str = "") -> str:
    """Where it is; of one that is not there (yet, in check mode), its name."""
    python = chosen(asked, oldest, newest)
    return str(python["path"] if python else asked.options["python"])


def minor(asked: Asked, oldest: str, newest: str = "") -> List[int]:
    """Its version as two numbers; none where it is not there."""
    python = chosen(asked, oldest, newest)
    return list(python["version"][:2]) if python else []


def _within(python: Mapping[str, Any], oldest: str, newest: str) -> bool:
    version = list(python["version"][:2])
    return version >= _numbers(oldest) and (not newest or version <= _numbers(newest))


def lacking(
    asked: Asked, role: str, *, oldest: str, newest: str = "", wants: str, mebibytes: int
) -> List[str]:
    """What keeps the role from making one, a sentence each.

    Args:
        role: whose variables a sentence names.
        oldest, newest: as ``chosen`` takes them.
        wants: who wants it: "that Devito needs".
        mebibytes: space below the role's prefix.
    """
    python = chosen(asked, oldest, newest)
    if python is None:
        return [f"no {asked.options['python']} on this node"]
    found = []
    if not _within(python, oldest, newest):
        span = f"not one of {oldest} to {newest}" if newest else f"older than the {oldest}"
        has = ".".join(str(part) for part in python["version"][:2])
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
