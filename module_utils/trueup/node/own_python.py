"""What a node needs for a role's own environment of pinned packages (role pinned_venv)."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

from ..plan import Asked, Look
from .pythons import DEFAULT, Need, interpreter, lacks, numbers, of_system, probe


def programs(asked: Asked, need: Need) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts."""
    prefix = asked.options["prefix"]
    return {**probe(asked, need), "folders": [prefix, f"{prefix}/venv"]}


def venv(asked: Asked) -> Mapping[str, Any]:
    """The environment's folder, as program_facts has it."""
    found: Mapping[str, Any] = asked.found["folders"][f"{asked.options['prefix']}/venv"]
    return found


def environment(
    asked: Asked, role: str, need: Need, requirements: Sequence[str], folder: str = ""
) -> Dict[str, Any]:
    """What role pinned_venv is given: with the Python, its name where there is none, and
    ``to_install``, what role python is given first.

    Args:
        role: whose ``files`` hold the requirements.
        requirements: names of these.
        folder: that of ``venv``; the role's prefix where nothing is given.
    """
    python = interpreter(asked, need)
    options = asked.options
    return {
        "path": f"{folder or options['prefix']}/venv",
        "python": python.path if python else options["python"],
        "to_install": python.to_install if python else {},
        "requirements": [f"roles/{role}/files/{name}" for name in requirements],
        "find_links": options["pip_find_links"],
        "no_index": options["pip_no_index"],
    }


def environment_look(made: Mapping[str, Any]) -> Look:
    """Whether an ``environment`` is there and holds what is pinned."""
    return Look("pinned_venv", {name: made[name] for name in made if name != "to_install"})


def lacking(asked: Asked, role: str, need: Need, *, mebibytes: int = 0) -> List[str]:
    """What keeps the role from making one, a sentence each.

    Args:
        role: whose variables a sentence names.
        mebibytes: space below the role's prefix.
    """
    found = [] if interpreter(asked, need) else _without(asked, role, need)
    space = asked.found["folders"][asked.options["prefix"]]
    free = space["free_bytes"] // 1024**2
    # An installation that is there needs no more space; one of the site's own, linked there, does.
    if free < mebibytes and (venv(asked)["link"] or not venv(asked)["there"]):
        found.append(
            f"{free} MiB are free in {space['path']} and {mebibytes} are needed: set {role}_prefix"
        )
    return found


def _without(asked: Asked, role: str, need: Need) -> List[str]:
    """Why there is no Python, by the one that was named."""
    named = asked.options["python"]
    mend = f"set {role}_python" + (
        ", or python_standalone_url to a build" if named == DEFAULT else ""
    )
    python = asked.found["python"]
    if python is None:
        return [f"no {named} on this node: {mend}"]
    found = []
    if not need.takes(python["version"]):
        has = ".".join(str(part) for part in python["version"][:2])
        found.append(f"Python {has} is not the {need} {need.wants}: {mend}")
    path, missing = python["path"], lacks(python, need)
    if python["missing"]:
        found.append(f"{path} has no venv module (package python3-venv)")
    if "Python.h" in missing:
        found.append(f"{path} has no headers (package python3-dev or python3-devel)")
    return found


def too_old_glibc(asked: Asked, role: str, needs: Mapping[str, str]) -> List[str]:
    """Why pins have no wheel for the node's system, a sentence; none where they have, where wheels
    of the site's own are given, and where the system's glibc is not known.

    Args:
        role: whose variables a sentence names.
        needs: ``oldest``, the oldest glibc with which all wheels run, and ``pin``, which says so.
    """
    node = asked.node
    versions: Mapping[str, str] = asked.catalog("python.yml")["glibc"]
    version = of_system(versions, node)
    if asked.options["pip_find_links"] or version is None:
        return []
    if numbers(version) >= numbers(needs["oldest"]):
        return []
    system = f"{node.get('distribution')} {node.get('distribution_version')}"
    text = (
        f"{system} has glibc {version}, and {needs['pin']} has no wheel for one older than"
        f" {needs['oldest']}: take a newer system, or give wheels that were built for it"
        f" ({role}_pip_find_links)"
    )
    return [text]


def pip_source(find_links: str, no_index: bool) -> List[str]:
    """Where pip takes packages from, as its arguments: a folder or page, and whether only there."""
    return [
        *(["--no-index"] if no_index else []),
        *([f"--find-links={find_links}"] if find_links else []),
    ]
