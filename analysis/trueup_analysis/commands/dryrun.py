"""``trueup dryrun``: needs of an inventory's hosts that are not met."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from trueup_controller.project import FOLDER, require_roles
from trueup_node.errors import BadInput

from .interface import Common, examples, option, say_all, taking

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup dryrun -i inventory.yml",
        "ansible-playbook -i inventory.yml playbooks/identify.yml   # caches facts for it",
    )
    + "\n\nExit status: 0 nothing is missing; 1 something is, or a known error.",
)
@taking(common=Common)
def dryrun(
    *,
    inventory: Annotated[Path, option("PATH", "The inventory.", "--inventory", "-i")],
    common: Common,
) -> None:
    """Plan every role and benchmark of each host of an inventory, and name in one list all that is
    missing: variables, secrets, programs, reboots. No host is asked: each is known by facts that
    Ansible has cached, or by trueup_vm_size of the inventory."""
    from trueup_controller import host_dryrun

    from ..figures import azure, prices
    from ..sheets import dryrun as sheets
    from .judged import listed

    require_roles("trueup dryrun")
    held = listed(inventory, "--inventory")
    hostvars = held.get("_meta", {}).get("hostvars", {})
    groups = {name: _hosts_of(name, held) for name in held if name != "_meta"}
    names = sorted({*hostvars, *(host for hosts in groups.values() for host in hosts)})
    if not names:
        raise BadInput(f"--inventory {inventory} names no host")
    facts = {name: _facts(name) for name in names}
    azure_catalog = azure.known(prices.read_all(common.catalog), common.catalog)
    host_plans = host_dryrun.hosts(
        host_dryrun.Inventory({name: hostvars.get(name, {}) for name in names}, groups, facts),
        azure_catalog.sizes,
        [*azure_catalog.facts["images"], *azure_catalog.facts["windows_images"]],
        os.environ,
        FOLDER,
    )
    common.write([sheets.hosts(host_plans)])
    say_all([f"{plan.host}: {note}" for plan in host_plans for note in plan.notes])
    raise typer.Exit(any(plan.missing for plan in host_plans))


def _hosts_of(group: str, held: dict[str, dict[str, list[str]]]) -> list[str]:
    """The hosts of a group and of its children."""
    below = held.get(group, {})
    inner = [host for child in below.get("children", ()) for host in _hosts_of(child, held)]
    return list(dict.fromkeys([*below.get("hosts", ()), *inner]))


def _facts(host: str) -> dict[str, object]:
    """Facts of a host that Ansible has cached (ansible.cfg: JSON files); none where it has not.

    Raises:
        BadInput: the file is damaged.
    """
    folder = Path(os.environ.get("ANSIBLE_CACHE_PLUGIN_CONNECTION") or FOLDER / ".cache/facts")
    path = folder / host
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadInput(f"cached facts {path} cannot be read: {error}") from error
    return read if isinstance(read, dict) else {}
