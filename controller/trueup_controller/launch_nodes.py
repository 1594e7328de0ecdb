"""The launchers' names of nodes, and which of them may be used together."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from trueup_node.plan import PlanInputs
from trueup_node.run.launcher import pmix

# Facts that a record has once, whatever its nodes; cost and comparisons go by them.
_ONE = ("vm_size", "region", "offer")


def hosts(nodes: Sequence[str], hostvars: Mapping[str, Any]) -> list[str]:
    """Each node's ``slurm_node_name`` where the inventory gives it one, else its own name."""
    return [str(_known(node, hostvars).get("slurm_node_name") or node) for node in nodes]


def absent(
    nodes: Sequence[str],
    play_hosts: Container[str],
    hostvars: Mapping[str, Any],
    role: str = "",
) -> list[str]:
    """Hosts of the inventory among ``nodes`` that the play has lost or left out, on which
    preflight skipped ``role``, or of which a role failed while they were configured. A name that is
    no host of the inventory is nobody's to leave out.
    """
    return [
        node
        for node in nodes
        if node in hostvars
        and (
            node not in play_hosts
            or hostvars[node].get("trueup_failed_roles")
            or any(item["what"] == role for item in hostvars[node].get("trueup_skipped") or [])
        )
    ]


def one_machine(nodes: Sequence[str], hostvars: Mapping[str, Any]) -> str:
    """Names among the nodes of one case that are one machine, as a sentence; a machine that is not
    known differs from all."""
    by_machine: dict[str, str] = {}
    for node in nodes:
        facts = _known(node, hostvars).get("ansible_facts") or {}
        machine = (facts.get("trueup_node") or {}).get("machine")
        if not machine:
            continue
        other = by_machine.setdefault(str(machine), node)
        if other != node:
            return f"{other} and {node} are one machine, which a record would count as two nodes"
    return ""


def unlike(nodes: Sequence[str], hostvars: Mapping[str, Any]) -> str:
    """Why the nodes cannot be measured together: two are one machine, or they differ in a fact that
    a record has once for all of them; an unknown fact differs from nothing."""
    if same := one_machine(nodes, hostvars):
        return same
    for name in _ONE:
        by_node: dict[str, str] = {}
        for node in nodes:
            facts = _known(node, hostvars).get("ansible_facts") or {}
            value = (facts.get("trueup_node") or {}).get(name)
            if value:
                by_node[node] = str(value)
        if len(set(by_node.values())) > 1:
            listing = ", ".join(f"{node} {value}" for node, value in by_node.items())
            return f"nodes measured together differ in {name}, of which a record has one: {listing}"
    return ""


def launcher_arguments(launcher: str, inputs: PlanInputs) -> list[str]:
    """The launcher's arguments: the play's, and srun's --mpi."""
    return pmix(launcher, play_arguments(launcher, inputs.variables), inputs.node)


def play_arguments(launcher: str, variables: Mapping[str, Any]) -> list[str]:
    """More arguments of the launcher, as the play sets them."""
    names = {"mpirun": "trueup_mpirun_arguments", "slurm": "trueup_srun_arguments"}
    return list(variables.get(names.get(launcher, "")) or [])


def slurm_job(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The play's settings of a job of Slurm, as modules take them."""
    return {
        "job_directory": variables.get("trueup_job_directory") or None,
        "job_options": list(variables.get("trueup_job_options") or []),
    }


def without_job_directory(variables: Mapping[str, Any]) -> str:
    """Why no job of Slurm can be started, as a sentence without its full stop; empty where one
    can."""
    folder = str(variables.get("trueup_job_directory") or "")
    if folder.startswith("/"):
        return ""
    wanted = "the absolute path of a folder that all nodes share, for the job's output"
    return f"the launcher slurm needs trueup_job_directory, {wanted}, and not '{folder}'"


def _known(node: str, hostvars: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ansible's own ``get`` of a host that the inventory does not have fails as undefined."""
    if node not in hostvars:
        return {}
    variables: Mapping[str, Any] = hostvars[node]
    return variables
