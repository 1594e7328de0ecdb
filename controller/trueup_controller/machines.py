"""Names of an inventory that are one machine, which would count as several nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trueup_node.node.machine import OF_VM

if TYPE_CHECKING:
    from collections.abc import Mapping


class Compared(NamedTuple):
    """The result of a comparison.

    Attributes:
        refused: the reason by name, for each name that cannot be used beside the others.
        warnings: sentences on names that may be used, and not together.
    """

    refused: dict[str, str]
    warnings: list[str]


def compare(machines: Mapping[str, str | None], controller: str | None) -> Compared:
    """Look for one machine under several names.

    All names of an Azure VM are refused, and so are those of any other machine but the controller
    itself: labs and tests give that one several names.

    Args:
        machines: the word of ``node.machine.machine_word`` by name; None is not compared.
        controller: that of the controller.
    """
    by_machine: dict[str, list[str]] = {}
    for name, machine in sorted(machines.items()):
        if machine is not None:
            by_machine.setdefault(machine, []).append(name)
    refused: dict[str, str] = {}
    warnings = []
    for machine, names in by_machine.items():
        if len(names) == 1:
            continue
        together, count = " and ".join(names), len(names)
        if machine == controller:
            warnings.append(
                f"{together} are this controller, one machine under {count} names: each name is"
                " measured by itself, and no case runs over two of them."
            )
        else:
            kind = "Azure VM" if machine.startswith(OF_VM) else "machine"
            reason = (
                f"{together} are one {kind}, and would count as {count} nodes: keep one of the"
                " names in the inventory, or give each its own machine (ansible_host)."
            )
            refused.update(dict.fromkeys(names, reason))
    return Compared(refused, warnings)
