"""Hosts of a cluster, and the plan of the role slurm on each."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

from role_plans import asked, node
from trueup_controller.plans.slurm import plan as slurm
from trueup_node.plan import PlanInputs

SECRETS = {
    "munge_key": base64.b64encode(bytes(range(64))).decode(),
    "database_password": "Correct-Horse-4711",
}
HEALTH = "/etc/slurm/prolog.d/10-trueup-health"
LOOK = {
    "cgroup": "v2",
    "cgroup_why": "",
    "may_bind": True,
    "plugins": ["cgroup_v2", "mpi_pmix"],
    "nvml": False,
    "version": "22.05.8",
    "slurm_uid": 64030,
}


def on(family: str, system: str = "debian-12", /, **changes: Any) -> dict[str, Any]:
    sizes = {"cpus": 4, "cores": 4, "sockets": 1, "memory_bytes": 16 * 1024**3}
    return {**node(family, system), **sizes, **changes}


def host(part: str, of: dict[str, Any] | None, **look: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {} if of is None else {"trueup_node": of}
    if look or of is not None:
        facts["trueup_slurm"] = {**LOOK, **look}
    return {"part": part, "ansible_facts": facts}


HOSTS = {
    "head": host("controller", on("local"), hostname="head"),
    "db": host("accounting", on("local"), hostname="db"),
    "hb": host("compute", on("hbv3"), hostname="hb"),
    "nd": host("compute", on("ndv4"), hostname="nd"),
    "in": host("login", on("local"), hostname="in"),
}


def of(name: str, hosts: dict[str, Any], secrets: dict[str, str], **options: Any) -> PlanInputs:
    """What the role is asked on one of the hosts."""
    groups: dict[str, list[str]] = {}
    for each, variables in hosts.items():
        groups.setdefault(f"slurm_{variables['part']}", []).append(each)
    mine = hosts[name]
    given = asked("slurm", mine["ansible_facts"].get("trueup_node", {}), **options)
    options = {key: value for key, value in given.options.items() if key not in SECRETS}
    return replace(
        given, options=options, secrets=secrets, host=name, hostvars=hosts, groups=groups
    )


def values(
    name: str, hosts: dict[str, Any] = HOSTS, found: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """Of a host, as its tasks are given it; or what was refused."""
    what = of(name, hosts, SECRETS, **options)
    cluster = slurm(replace(what, found={"wanted": "cluster"})).as_result()["cluster"]
    planned = slurm(replace(what, found={"cluster": cluster, **(found or {})}))
    return {"refused": planned.refused} if planned.refused else planned.as_result()


def contents(result: dict[str, Any]) -> dict[str, str | None]:
    return {file["path"]: file.get("content") for file in result["files"]}


def there(result: dict[str, Any]) -> list[str]:
    return [path for path, content in contents(result).items() if content]
