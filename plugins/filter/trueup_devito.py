"""Filters that lay out Devito's sweep over nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DOCUMENTATION = r"""
name: trueup_devito
short_description: Devito's sweep over nodes
description:
  - C(devito_node_sweep) takes node names and gives the cases of a sweep over them, few nodes first.
  - C(most_ranks) gives of layouts that use the whole node the one of most ranks.
"""


def devito_node_sweep(
    nodes: Sequence[str],
    *,
    hosts: Sequence[str],
    counts: Sequence[int | str],
    launchers: Sequence[str],
    layouts: Sequence[Mapping[str, Any]],
    mpi_modes: Sequence[str],
    shape: str,
    scaling: str,
) -> list[dict[str, Any]]:
    """A case for each number of nodes, layout, launcher and halo exchange, in this order.

    Without ``counts``: 1, 2, 4, 8, ... and all nodes. One rank alone exchanges nothing, so it has
    one case. In a weak series the first extent of ``shape`` grows with the nodes.
    """
    total = len(nodes)
    if not total:
        message = "devito_nodes is empty: there is nothing to measure together"
        raise AnsibleFilterError(message)
    if not re.fullmatch(r"[0-9]+x[0-9]+x[0-9]+", shape):
        message = f"the shape of the sweep over nodes, {shape!r}, is not like 256x256x256"
        raise AnsibleFilterError(message)
    odd = [count for count in counts if not str(count).isdigit()]
    if odd:
        message = f"devito_node_counts has {odd[0]!r}, which is no number of nodes"
        raise AnsibleFilterError(message)
    wanted = sorted({int(count) for count in counts}) or [
        *(2**power for power in range(total.bit_length()) if 2**power < total),
        total,
    ]
    wrong = [count for count in wanted if not 1 <= count <= total]
    if wrong:
        message = (
            f"devito_node_counts has {wrong[0]}, and devito_nodes has {total} nodes: counts are"
            " from 1 to that"
        )
        raise AnsibleFilterError(message)
    first, *others = (int(extent) for extent in shape.split("x"))
    cases = []
    for count in wanted:
        extents = [first * count if scaling == "weak" else first, *others]
        for layout in layouts:
            several = count * int(layout["ranks"]) > 1
            for launcher in launchers:
                cases += [
                    {
                        "nodes": list(nodes[:count]),
                        "hosts": list(hosts[:count]),
                        "shape": "x".join(map(str, extents)),
                        "launcher": launcher,
                        "mpi": mode if several else "off",
                        **{name: layout[name] for name in ("ranks", "threads_per_rank", "binding")},
                    }
                    for mode in (mpi_modes if several else mpi_modes[:1])
                ]
    return cases


def most_ranks(layouts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The layout that uses most cores, and of those the one of most ranks."""
    return dict(
        max(
            layouts,
            key=lambda layout: (
                int(layout["ranks"]) * int(layout["threads_per_rank"]),
                int(layout["ranks"]),
            ),
        )
    )


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {"devito_node_sweep": devito_node_sweep, "most_ranks": most_ranks}
