"""What `trueup health --format json` says of a node, for plays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trueup.cluster import verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
name: trueup_health
short_description: Verdicts of C(trueup health), for plays
description:
  - C(trueup_verdict) takes the JSON of C(trueup health), a node's name and the benchmarks that were
    to be measured on it, and returns its C(verdict), its C(findings), what is C(unmeasured) and
    whether it C(ends) there; with C(later) what was not measured ends no node.
  - C(trueup_health_findings) takes the same JSON and returns the findings on all nodes.
  - C(trueup_slurm_update) takes what Slurm shows of a node, its verdict and its name in Slurm, and
    returns the arguments of the C(scontrol) that is due.
  - C(trueup_slurm_down) takes what Slurm shows of all nodes and their names, and returns a sentence
    for each that cannot run jobs.
"""


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "trueup_health_findings": verdicts.findings,
            "trueup_slurm_down": verdicts.slurm_down,
            "trueup_slurm_update": verdicts.slurm_update,
            "trueup_verdict": verdicts.node_verdict,
        }
