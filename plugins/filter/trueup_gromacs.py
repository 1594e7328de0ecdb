"""Filter of the role gromacs: the layouts that a node is measured in."""

from __future__ import annotations

from typing import Any

from trueup.benchmarks.gromacs import case as gromacs

DOCUMENTATION = r"""
name: trueup_gromacs
short_description: Layouts of GROMACS
description:
  - C(gromacs_layouts) takes a node's cores, and returns the ranks and threads that are worth a run.
"""


def gromacs_layouts(
    cores: int, *, numa: int, l3_groups: int, gpus: int, pme: str, water_box: float
) -> list[dict[str, int]]:
    """As ``trueup.benchmarks.gromacs.case.layouts``; values of templates may be text."""
    return gromacs.layouts(
        int(cores),
        numa=int(numa),
        l3_groups=int(l3_groups),
        gpus=int(gpus),
        pme=pme,
        water_box=float(water_box),
    )


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {"gromacs_layouts": gromacs_layouts}
