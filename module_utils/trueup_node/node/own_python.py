"""Requirements of a role's own environment of pinned packages (role pinned_venv)."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

from ..plan import Look, PlanInputs
from .pythons import DEFAULT, Need, interpreter, lacks, numbers, of_system, probe


def programs(inputs: PlanInputs, need: Need) -> Dict[str, Any]:
    """Preflight's question to the node, as arguments of program_facts."""
    prefix = inputs.options["prefix"]
    return {**probe(inputs, need), "folders": [prefix, f"{prefix}/venv"]}


def venv(inputs: PlanInputs) -> Mapping[str, Any]:
    """The environment's folder, as program_facts has it."""
    folder: Mapping[str, Any] = inputs.found["folders"][f"{inputs.options['prefix']}/venv"]
    return folder


def environment(
    inputs: PlanInputs, role: str, need: Need, requirements: Sequence[str], folder: str = ""
) -> Dict[str, Any]:
    """Arguments of role pinned_venv: with the Python, its name where there is none, and
    ``to_install``, the arguments of role python, which runs first.

    Args:
        role: whose ``files`` hold the requirements.
        requirements: names of these.
        folder: that of ``venv``; the role's prefix where nothing is given.
    """
    python = interpreter(inputs, need)
    options = inputs.options
    return {
        "path": f"{folder or options['prefix']}/venv",
        "python": python.path if python else options.get("python", DEFAULT),
        "to_install": python.to_install if python else {},
        "requirements": [f"roles/{role}/files/{name}" for name in requirements],
        "find_links": options["pip_find_links"],
        "no_index": options["pip_no_index"],
    }


def environment_look(venv_settings: Mapping[str, Any]) -> Look:
    """Whether an ``environment`` is there with its pinned packages."""
    return Look(
        "pinned_venv", {name: venv_settings[name] for name in venv_settings if name != "to_install"}
    )


def lacking(inputs: PlanInputs, role: str, need: Need, *, mebibytes: int = 0) -> List[str]:
    """Problems that keep the role from making one, a sentence each.

    Args:
        role: whose variables a sentence names.
        mebibytes: space below the role's prefix.
    """
    problems = [] if interpreter(inputs, need) else _without(inputs, role, need)
    space = inputs.found["folders"][inputs.options["prefix"]]
    free = space["free_bytes"] // 1024**2
    # An installation that is there needs no more space; one of the site's own, linked there, does.
    if free < mebibytes and (venv(inputs)["link"] or not venv(inputs)["there"]):
        problems.append(
            f"{free} MiB are free in {space['path']} and {mebibytes} are needed: set {role}_prefix"
        )
    return problems


def _without(inputs: PlanInputs, role: str, need: Need) -> List[str]:
    """Why there is no Python, by the one that was named."""
    named = inputs.options.get("python", DEFAULT)
    by_name = [f"{role}_python"] if "python" in inputs.options else []
    build = ["python_standalone_url to a build"] if named == DEFAULT else []
    mend = f"set {', or '.join(by_name + build)}"
    python = inputs.found["python"]
    if python is None:
        return [f"no {named} on this node: {mend}"]
    problems = []
    if not need.takes(python["version"]):
        has = ".".join(str(number) for number in python["version"][:2])
        problems.append(f"Python {has} is not the {need} {need.wants}: {mend}")
    path, missing = python["path"], lacks(python, need)
    if python["missing"]:
        problems.append(f"{path} has no venv module (package python3-venv)")
    if "Python.h" in missing:
        problems.append(f"{path} has no headers (package python3-dev or python3-devel)")
    return problems


def too_old_glibc(inputs: PlanInputs, role: str, needs: Mapping[str, str]) -> List[str]:
    """Why pins have no wheel for the node's system, a sentence; none where they have, where wheels
    of the site's own are given, and where the system's glibc is not known.

    Args:
        role: whose variables a sentence names.
        needs: ``oldest``, the oldest glibc with which all wheels run, and ``pin``, which says so.
    """
    node = inputs.node
    versions: Mapping[str, str] = inputs.catalog("python.yml")["glibc"]
    version = of_system(versions, node)
    if inputs.options["pip_find_links"] or version is None:
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
