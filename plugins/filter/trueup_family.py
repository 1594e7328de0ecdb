"""What a node gets and what it has to do without, for plays: trueup.node.family as filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trueup.node import family, identify

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
name: trueup_family
short_description: Roles and benchmarks of a node, as data
description:
  - C(trueup_family) takes the families' lists, a node's groups and whether it has GPUs, and returns
    its C(roles), its C(benchmarks), and whether it is C(listed).
  - C(trueup_roles_of_groups) takes roles with their groups and a node's groups, and returns its
    roles.
  - C(trueup_benchmark_names) takes the folder of the roles and returns those that are benchmarks.
  - C(trueup_benchmark_roles) takes the fact C(trueup_node), the node's benchmarks and its family's
    roles, and returns the roles that are still to be configured.
  - C(trueup_chosen) takes roles, the tags that run, those that are skipped and tags that mean all
    of them, and returns the roles that are meant.
  - C(trueup_tolerated) takes the roles that failed, one more and its failure, and returns all of
    them, or fails where the variables are wrong.
  - C(trueup_steps) takes roles and the node's name, and returns the items of a loop over them.
  - C(trueup_changes_due) takes the plans of roles, and returns whether one of them has C(changes).
  - C(trueup_health_benchmarks) takes the fact C(trueup_node) and returns what health measures.
  - C(trueup_lost) takes what roles need and the roles that failed, and returns each role that
    cannot be had with the failed one.
  - C(trueup_skipped_for) takes that and names, and returns those that are lost with their reasons.
  - C(trueup_skips) takes the plans of roles, the fact C(trueup_node) and its family's lists, and
    returns all that is skipped on the node.
  - C(trueup_skips_of) takes the plan of a benchmark and its name, and returns what is skipped of it
    as a whole.
  - C(trueup_skip_lines) takes what is skipped and returns lines for a reader.
  - C(trueup_without) takes names and what is skipped, and returns the names that are left.
  - C(trueup_node_summary) takes the fact C(trueup_node) and returns one line for a reader, and
    one for each warning.
"""


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "trueup_benchmark_names": family.benchmark_names,
            "trueup_benchmark_roles": family.benchmark_roles,
            "trueup_changes_due": family.changes_due,
            "trueup_chosen": family.chosen,
            "trueup_failed_benchmark": family.failed_benchmark,
            "trueup_family": family.family_lists,
            "trueup_health_benchmarks": family.health_benchmarks,
            "trueup_lost": family.lost_roles,
            "trueup_node_summary": identify.summary,
            "trueup_roles_of_groups": family.roles_of_groups,
            "trueup_skip_lines": family.skip_lines,
            "trueup_skipped_for": family.skipped_on_node,
            "trueup_skips": family.skips,
            "trueup_skips_of": family.skips_of,
            "trueup_steps": family.steps,
            "trueup_tolerated": family.tolerated,
            "trueup_without": family.without,
        }
