"""Needs of hosts of an inventory that are not met, before any of them is asked.

A host is known by facts that Ansible has cached of it, or by the size that the inventory gives
(trueup_vm_size), with the image that the catalog pins. No clock, network or Ansible in here.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from trueup_node.errors import BadInput
from trueup_node.node.identify import is_windows

from trueup_controller import family
from trueup_controller.removed_options import removal_refusals
from trueup_controller.settings import PREFIX, problems

from . import dryrun, new_machine, presets
from .dryrun import Missing
from .planning import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

# Of a machine of the catalog, where nobody says how large its system disk is.
_DISK_GIB = 128


class Inventory(NamedTuple):
    """An inventory as Ansible lists it.

    Attributes:
        hostvars: variables of each host, by name.
        groups: the hosts of each group, those of its children among them.
        facts: cached facts of hosts, by name.
    """

    hostvars: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, list[str]]
    facts: Mapping[str, Mapping[str, Any]]


class HostNeeds(NamedTuple):
    """The dry run of a host.

    Attributes:
        host: its name.
        known_by: facts, or its size; empty where it is not known.
        missing: needs that are not met.
        notes: checks that could not be made, and roles that it does without.
    """

    host: str
    known_by: str
    missing: list[Missing]
    notes: list[str]


@dataclass(frozen=True, kw_only=True)
class _Host(dryrun.Work):
    """Work for one host; ``groups`` are those that it is in, or joins."""

    node: Mapping[str, Any]
    groups: tuple[str, ...]

    def roles(self) -> list[str]:
        return [*self._family["roles"], *self.cluster_roles()]

    def cluster_roles(self) -> list[str]:
        return family.roles_of_groups(self.lists["trueup_cluster"], self.groups)

    def benchmarks(self) -> list[str]:
        named = self.variables.get("trueup_benchmarks")
        chosen = named if isinstance(named, list) else self._family["benchmarks"]
        return [str(name) for name in chosen]

    @property
    def _family(self) -> Mapping[str, Any]:
        families = self.lists["trueup_families"]
        return family.family_lists(families, self.groups, has_gpu=self.node["has_gpu"])


def hosts(
    inventory: Inventory,
    sizes: Mapping[str, Mapping[str, Any]],
    images: Sequence[Mapping[str, Any]],
    environment: Mapping[str, str],
    project: Path,
) -> list[HostNeeds]:
    """The dry run of each host, by name.

    Args:
        inventory: the hosts.
        sizes: the catalog's rows by size.
        images: rows of catalog/azure.yml, those of pinned images.
        environment: the controller's variables.
        project: the folder with roles/ and catalog/.
    """
    nodes = {}
    for name, variables in inventory.hostvars.items():
        cached = inventory.facts.get(name, {}).get("trueup_node")
        nodes[name] = (
            (cached, "facts") if isinstance(cached, dict) else _by_size(variables, sizes, images)
        )
    known_nodes = {name: node for name, (node, _) in nodes.items() if node}
    host_needs = []
    for name in sorted(nodes):
        node, known_by = nodes[name]
        if not node:
            text = (
                "neither facts nor a size of the catalog is known: run"
                " playbooks/identify.yml, or set trueup_vm_size"
            )
            host_needs.append(HostNeeds(name, "", [Missing("plan", text)], []))
            continue
        missing, notes = _of_host(name, known_nodes, inventory, images, environment, project)
        host_needs.append(HostNeeds(name, known_by, missing, notes))
    return host_needs


def _by_size(
    variables: Mapping[str, Any],
    sizes: Mapping[str, Mapping[str, Any]],
    images: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any] | None, str]:
    """A new machine of the size that the inventory gives, and that size; none where it gives none
    of the catalog's, or no image is pinned for it."""
    vm_size = str(variables.get("trueup_vm_size") or "")
    size = next((name for name in sizes if name.lower() == vm_size.lower()), "")
    image = _image(sizes.get(size, {}).get("family"), images)
    if not image:
        return None, ""
    node = new_machine.of_image(size, sizes, image, disk_gib=_DISK_GIB)
    return new_machine.with_catalog(node, size, sizes[size]), size


def _image(of: Any, images: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next((row for row in images if of in row["families"] and row.get("system")), {})


def _of_host(
    name: str,
    nodes: Mapping[str, Mapping[str, Any]],
    inventory: Inventory,
    images: Sequence[Mapping[str, Any]],
    environment: Mapping[str, str],
    project: Path,
) -> tuple[list[Missing], list[str]]:
    """Needs of a host that are not met, and notes."""
    node = nodes[name]
    try:
        variables = _variables(name, node, inventory, project)
    except BadInput as error:
        return [Missing("preset", str(error))], []
    joined = variables.get("trueup_join_groups")
    within = [group for group, names in inventory.groups.items() if name in names]
    mounts = variables.get("shared_storage_mounts") or []
    joins = family.groups_of(node, mounts, within, joined if isinstance(joined, list) else [])
    host = _Host(
        environment=environment,
        project=project,
        variables=variables,
        node=node,
        groups=tuple(dict.fromkeys([*within, *joins])),
    )
    trueup_variables = {key: value for key, value in variables.items() if key.startswith(PREFIX)}
    wrong = problems(trueup_variables) + removal_refusals(variables, project / "catalog")
    missing = [Missing("plan", text) for text in wrong]
    missing += [Missing("plan", text) for text in _of_node(name, host)]
    machine = _machine(name, nodes, host, inventory, images)
    plans, notes = dryrun.plans_of(machine, [*host.roles(), *host.benchmarks()], project)
    benchmarks = dryrun.needed(plans, host.benchmarks(), variables)
    missing += dryrun.lacking(plans, benchmarks)
    missing += dryrun.of_drivers(host, plans)
    if "vllm" in host.benchmarks():
        missing += dryrun.endpoints(host, plans.get("vllm"))
    skipped = [each for planned_role in plans.values() for each in planned_role.plan.skipped]
    notes += [
        f"without {subject}: {reason}" for subject, reason in skipped if subject not in benchmarks
    ]
    return list(dict.fromkeys(missing)), list(dict.fromkeys(notes))


def _variables(
    name: str, node: Mapping[str, Any], inventory: Inventory, project: Path
) -> dict[str, Any]:
    """The host's variables, with those of its preset.

    Raises:
        BadInput: there is no such preset, or it is for other sizes.
    """
    host_variables = {**inventory.hostvars[name], "inventory_hostname": name}
    variables = dryrun.rendered(host_variables, inventory.groups)
    preset = str(variables.get("trueup_preset") or "")
    if not preset:
        return variables
    chosen = presets.read(preset, project / "catalog")
    machine = presets.Machine(str(node.get("vm_size") or ""), int(node.get("cores") or 1))
    scale = float(variables.get("trueup_preset_scale", 1.0))
    applied = presets.applied(preset, chosen, machine, values=variables, scale=scale)
    return {**variables, **applied.variables}


def _of_node(name: str, host: _Host) -> Iterator[str]:
    """Why the host cannot be configured or measured at all, as the play's preflight says it."""
    yield from family.node_problems(
        host.node,
        name=name,
        roles=host.roles(),
        benchmarks=host.benchmarks(),
        known_benchmarks=family.benchmark_names(str(host.project / "roles")),
        mpi=str(host.variables.get("trueup_mpi") or ""),
        cluster=host.cluster_roles(),
    )


def _machine(
    name: str,
    nodes: Mapping[str, Mapping[str, Any]],
    host: _Host,
    inventory: Inventory,
    images: Sequence[Mapping[str, Any]],
) -> Machine:
    """The host with the answers of a new machine of its family's image. A host without an HPC image
    is asked itself: nothing is known of its programs."""
    image = _image(host.node["family"], images)
    if host.node["hpc_image"] is None and not is_windows(host.node):
        image = {}
    facts = {
        other: {"trueup_node": node, "ansible_facts": {"trueup_node": node}}
        for other, node in nodes.items()
    }
    return Machine(
        node=host.node,
        answer=functools.partial(
            new_machine.answer, host.node, new_machine.with_paths(image, host.variables)
        ),
        host=name,
        hosts=list(nodes),
        hostvars={
            other: {**inventory.hostvars[other], **facts.get(other, {})}
            for other in inventory.hostvars
        },
        groups=inventory.groups,
        variables={
            **host.variables,
            "trueup_node": host.node,
            "trueup_family_roles": [
                role for role in host.roles() if role not in host.cluster_roles()
            ],
            "trueup_cluster_roles": host.cluster_roles(),
            "trueup_plan": host.benchmarks(),
        },
        secrets=host.secrets(),
    )
