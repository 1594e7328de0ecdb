"""The records that ``trueup health`` judges, and the nodes that it expects in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from trueup_node.errors import BadInput

from .. import catalog
from ..selection import Selection, is_record, moment, select
from .records import RESULTS, load_all, load_results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..load import Loaded

# A list of names needs no Ansible to read it.
_INI: Final = set("[]=:{},")


def judged(
    sources: Sequence[Path] | None, chosen: Selection, *, max_age: str | None
) -> tuple[Loaded, bool]:
    """The records that are judged, and whether these are whole runs: records that are named one by
    one are judged by themselves, and nobody is missed.

    Raises:
        BadInput: nothing can be read, or no run is as chosen.
    """
    if max_age and (chosen.run or chosen.since or chosen.every_run):
        raise typer.BadParameter("--max-age chooses the runs: not with --run, --since or --all")
    named = [Path(source) for source in sources or [RESULTS]]
    are_whole_runs = not all(map(is_record, named))
    if max_age:
        return _of_age(
            load_all(named, may_be_empty=are_whole_runs), chosen, max_age
        ), are_whole_runs
    return load_results(named, chosen, may_be_empty=are_whole_runs), are_whole_runs


def _of_age(loaded: Loaded, chosen: Selection, max_age: str) -> Loaded:
    """The records of at most that age; the expected nodes of the last run in any case.

    Raises:
        BadParameter: the age is none.
    """
    try:
        since = moment(max_age, datetime.now(UTC))
    except BadInput as error:
        raise typer.BadParameter(str(error), param_hint="--max-age") from error
    recent = select(loaded, replace(chosen, since=since), may_be_empty=True)
    held = {str(run["run_id"]) for run in recent.runs}
    last = [run for run in loaded.runs[-1:] if str(run["run_id"]) not in held]
    return replace(recent, runs=[*recent.runs, *last])


def nodes_of(path: Path) -> list[str]:
    """The nodes that a file names: one a line, or any inventory that Ansible reads.

    Raises:
        BadInput: it cannot be read, or names none.
    """
    if path.is_file():
        try:
            lines = catalog.text(path).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"--nodes {path} cannot be read: {error}") from error
        names = [line.split("#")[0].strip() for line in lines]
        plain = not any(" " in name or _INI & set(name) for name in names)
        if plain and path.suffix not in {".yml", ".yaml", ".json"} and not os.access(path, os.X_OK):
            nodes = [name for name in names if name]
            if not nodes:
                raise BadInput(f"--nodes {path} names no node")
            return list(dict.fromkeys(nodes))
    elif not path.exists():
        raise BadInput(f"--nodes {path} does not exist")
    elif not path.is_dir():
        # Ansible would read a device without an end.
        raise BadInput(f"--nodes {path} is neither a file nor a folder")
    return _hosts(path)


def _hosts(path: Path) -> list[str]:
    groups = listed(path, "--nodes")
    hosts = {
        name for group, held in groups.items() if group != "_meta" for name in held.get("hosts", ())
    }
    if not hosts:
        raise BadInput(f"--nodes {path} names no node")
    return sorted(hosts)


def listed(path: Path, option: str) -> dict[str, Any]:
    """An inventory as ansible-inventory lists it.

    Args:
        path: the inventory.
        option: the option that names it, for messages.

    Raises:
        BadInput: it cannot be read.
    """
    if not path.exists():
        raise BadInput(f"{option} {path} does not exist")
    program = Path(sys.executable).with_name("ansible-inventory")
    try:
        completed = subprocess.run(  # noqa: S603 WHY: Ansible's own reader of inventories, no shell
            [str(program), "--inventory", str(path), "--list"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"},
        )
        groups: dict[str, Any] = json.loads(completed.stdout)
    except OSError as error:
        raise BadInput(
            f"{option} {path} is an inventory, and {program} cannot be run: {error.strerror}"
        ) from error
    except ValueError as error:
        reason = " ".join(completed.stderr.split()) or "it printed no JSON"
        raise BadInput(f"{option} {path} is no inventory that Ansible reads: {reason}") from error
    return groups
