"""Functions of trueup as filters, for plays."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

import yaml
from ansible.plugins.action import ActionBase
from trueup_controller import family, gate, lab, project, sizes, systemd
from trueup_controller.plans import rdma
from trueup_controller.plans.devito import fastest
from trueup_controller.sites import cyclecloud_variables
from trueup_node import record as records
from trueup_node.health import node_verdicts
from trueup_node.node import identify, nccl_topology, own_python

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
name: trueup_filters
short_description: Functions of trueup, for plays
description:
  - C(trueup_run_id) gives the id of a new run, or of the run to resume.
  - C(trueup_sizes) takes the path of C(vm_sizes.csv) and returns what nodes need of it, by size.
  - C(trueup_family) takes the families' lists, a node's groups and whether it has GPUs, and returns
    its C(roles), its C(benchmarks), and whether it is C(listed).
  - C(trueup_roles_of_groups) takes roles with their groups and a node's groups, and returns its
    roles.
  - C(trueup_benchmark_names) takes the folder of the roles and returns those that are benchmarks.
  - C(trueup_benchmark_roles) takes the fact C(trueup_node), the node's benchmarks and its family's
    roles, and returns the roles that are still to be configured.
  - C(trueup_chosen) takes roles, the tags that run, those that are skipped and tags that mean all
    of them, and returns the roles that are meant.
  - C(trueup_steps) takes roles and the node's name, and returns the items of a loop over them.
  - C(trueup_changes_due) takes the plans of roles, and returns whether one of them has C(changes).
  - C(trueup_groups) takes the fact C(trueup_node), the shared file systems to mount, a node's
    groups and those of trueup_join_groups, and returns the groups that it joins.
  - C(trueup_health_benchmarks) takes the fact C(trueup_node) and returns what health measures.
  - C(trueup_lost) takes what roles need and the roles that failed, and returns each role that
    cannot be had with the failed one.
  - C(trueup_skipped_for) takes that and names, and returns those that are lost with their reasons.
  - C(trueup_skips) takes the plans of roles, the fact C(trueup_node) and its family's lists, and
    returns all that is skipped on the node.
  - C(trueup_skips_of) takes the plan of a benchmark and its name, and returns what is skipped of it
    as a whole.
  - C(trueup_failed_benchmark) takes what the failed task of a benchmark returned and its name, and
    returns it as an item of what is skipped.
  - C(trueup_skip_lines) takes what is skipped and returns lines for a reader.
  - C(trueup_without) takes names and what is skipped, and returns the names that are left.
  - C(trueup_node_summary) takes the fact C(trueup_node) and returns one line for a reader, and
    one for each warning.
  - C(trueup_verdict) takes the JSON of C(trueup health), a node's name and the benchmarks that were
    to be measured on it, and returns its C(verdict), its C(findings), what is C(unmeasured) and
    whether it C(ends) there; with C(later) what was not measured ends no node.
  - C(trueup_health_findings) takes the same JSON and returns the findings on all nodes.
  - C(trueup_slurm_update) takes what Slurm shows of a node, its verdict and its name in Slurm, and
    returns the arguments of the C(scontrol) that is due.
  - C(trueup_slurm_down) takes what Slurm shows of all nodes and their names, and returns a sentence
    for each that cannot run jobs.
  - C(trueup_devito_fastest) takes the cases of the role's plan, the results folder, the run and the
    node, and says which of the layouts that are recorded won; empty where none is.
  - C(trueup_command) takes the Python of this Ansible and returns the argv of C(trueup).
  - C(trueup_rdma_expected) takes the fact C(trueup_node) and the path of C(topologies.yml), and
    returns the parameter C(expected) of the module M(ib_facts) - rate and number from the size's
    row of the catalog, NUMA nodes by PCI address from its layout. What neither says is left out.
  - C(trueup_pip_source) takes the folder or page of wheels and whether no index is asked, and
    returns pip's arguments.
  - C(trueup_systemd_command) writes an argv as a unit's C(ExecStart).
  - C(trueup_systemd_environment) writes a mapping as a unit's C(Environment),
    C(trueup_systemd_environment_file) one as the file of C(EnvironmentFile).
  - C(trueup_cyclecloud_problems) takes the variables C(cyclecloud_*) and returns why they cannot be
    meant.
  - C(trueup_cyclecloud_arguments) takes the same and returns the parameters of the module
    M(cyclecloud_nodes).
  - C(trueup_cyclecloud_hosts) takes the nodes that the module returned and the variables, and
    returns what the inventory is told.
  - C(trueup_lab_set) takes the hosts of the lab and returns the set of packages that is installed
    unless another one is chosen.
  - C(trueup_lab) takes Ansible's facts of the machine, the packages by set, those that releases do
    not offer, and the chosen set, and returns what is C(wanted) and what is C(left_out).
  - C(trueup_lab_packages) takes that, what dpkg-query printed, whether the user is C(root) and
    whether C(sudo) asks no password, and whether this is check mode; it returns what is C(missing),
    whether it is to C(install), and what to C(report).
"""


def devito_fastest(cases: list[dict[str, Any]], results: str, run: str, host: str) -> str:
    """As ``trueup_controller.plans.devito.fastest``, over the run's records."""
    run_entries = records.read_records(os.path.join(os.path.expanduser(results), run), host)
    good_records = [
        record for _, record, _ in run_entries if record is not None and record["outcome"] == "ok"
    ]
    return fastest(cases, good_records, host)


def run_id(results: str, resume: str) -> str:
    """As ``record.run_of``, where records of the run will be written."""
    gate.require_callback(ActionBase)
    return records.run_of(results, resume)


def rdma_expected(node: dict[str, Any], path: str) -> dict[str, Any]:
    """As ``rdma.expected_of``, with the layouts at ``path``."""
    return rdma.expected_of(node, _layouts(path))


# Each of a play's 600 hosts asks for the same file, which does not change meanwhile.
@functools.lru_cache(maxsize=1)
def _layouts(path: str) -> dict[str, nccl_topology.Layout]:
    return nccl_topology.read_layouts(
        yaml.safe_load(project.file(path).read_text(encoding="utf-8"))
    )


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "trueup_benchmark_names": family.benchmark_names,
            "trueup_benchmark_roles": family.benchmark_roles,
            "trueup_changes_due": family.changes_due,
            "trueup_chosen": family.chosen,
            "trueup_command": project.command,
            "trueup_cyclecloud_arguments": cyclecloud_variables.arguments,
            "trueup_cyclecloud_hosts": cyclecloud_variables.hosts,
            "trueup_cyclecloud_problems": cyclecloud_variables.problems,
            "trueup_devito_fastest": devito_fastest,
            "trueup_failed_benchmark": family.failed_benchmark,
            "trueup_family": family.family_lists,
            "trueup_groups": family.groups_of,
            "trueup_health_benchmarks": family.health_benchmarks,
            "trueup_health_findings": node_verdicts.findings,
            "trueup_lab": lab.wanted,
            "trueup_lab_packages": lab.packages,
            "trueup_lab_set": lab.default_set,
            "trueup_lost": family.lost_roles,
            "trueup_node_summary": identify.summary,
            "trueup_pip_source": own_python.pip_source,
            "trueup_rdma_expected": rdma_expected,
            "trueup_roles_of_groups": family.roles_of_groups,
            "trueup_run_id": run_id,
            "trueup_sizes": sizes.read_sizes,
            "trueup_skip_lines": family.skip_lines,
            "trueup_skipped_for": family.skipped_on_node,
            "trueup_skips": family.skips,
            "trueup_skips_of": family.skips_of,
            "trueup_slurm_down": node_verdicts.slurm_down,
            "trueup_slurm_update": node_verdicts.slurm_update,
            "trueup_steps": family.steps,
            "trueup_systemd_command": systemd.command,
            "trueup_systemd_environment": systemd.environment,
            "trueup_systemd_environment_file": systemd.environment_file,
            "trueup_verdict": node_verdicts.node_verdict,
            "trueup_without": family.without,
        }
