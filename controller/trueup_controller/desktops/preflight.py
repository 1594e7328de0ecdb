"""Whether a Windows host can be configured, and warnings for its owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trueup_node.plan import sentences

# Azure's price for Windows beside the size itself: Windows rows of catalog/prices.csv less the
# Linux ones, of every size that has both (eastus).
USD_PER_VCPU_HOUR = 0.046
# The licence type of a host of Azure Virtual Desktop, which is billed at the Linux rate
# (azure.microsoft.com/pricing/details/virtual-desktop).
_CLIENT = "Windows_Client"


def problems(
    node: Mapping[str, Any], name: str, roles: Sequence[str], cluster: Sequence[str]
) -> list[str]:
    """Why the host cannot be configured, a sentence each with the fix.

    Args:
        node: the fact ``trueup_node``.
        name: its name in the inventory.
        roles: the roles that it is to get.
        cluster: those of them that its groups bring (trueup_cluster).
    """
    wrong = {
        f"Configuring a Windows host ({', '.join(roles)}) needs an administrator, and the user of"
        f" {name} is none: connect as a member of the host's group Administrators"
        " (ansible_user).": bool(roles) and node["privilege"] is None,
        f"{name} is a Windows host, and {', '.join(cluster)} of its groups is for Linux nodes:"
        " take it out of these groups (trueup_cluster).": bool(cluster),
    }
    return sentences(wrong)


def surcharge(node: Mapping[str, Any]) -> float | None:
    """US$ an hour that the host costs beside the rate of its size without a system; 0 with the
    licence type of Azure Virtual Desktop, None where neither is known."""
    if node.get("licence_type") == _CLIENT:
        return 0.0
    vcpus = (node.get("catalog") or {}).get("vcpus")
    if node.get("metadata_status") != "ok" or vcpus is None:
        return None
    return float(vcpus * USD_PER_VCPU_HOUR)


def warnings(node: Mapping[str, Any]) -> list[str]:
    """Warnings for the reader about a host that can be configured."""
    more = surcharge(node)
    if not more:
        return []
    has = node.get("licence_type") or "none"
    text = (
        f"its licence type is {has} and not {_CLIENT}: Azure bills Windows beside the size,"
        f" {USD_PER_VCPU_HOUR:g} US$ per vCPU and hour, {more:.3f} US$ an hour for"
        f" {node['vm_size']}. Where its users have a licence for Azure Virtual Desktop, `az vm"
        f" update --license-type {_CLIENT}` ends that"
    )
    return [text]
