"""From NCCL topology layouts and findings to sheets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup.node.nccl_topology import gpu_masks
from trueup.node.topology import format_cpu_list, mask_words

from .. import units
from .sheet import Column, Sheet, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup.node.nccl_topology import Finding, Layout


def findings(found: Sequence[Finding], source: str, wanted: Layout, size: str) -> Sheet:
    """What is wrong with a file, a row a place. What NCCL does with a fault stands once, below."""
    errors = sum(finding.severity == "error" for finding in found)
    warnings = len(found) - errors
    verdict = (
        f"{units.plural(errors, 'error')}, {units.plural(warnings, 'warning')}"
        if found
        else "nothing is wrong"
    )
    notes: dict[str, None] = {}
    for finding in found:
        notes[f"{finding.effect[:1].upper()}{finding.effect[1:]}. ({finding.kind})"] = None
    return Sheet(
        title=f"{size} ({wanted.name}): {verdict}",
        columns=[
            Column("severity", "severity", words=True),
            Column("line", "line", units.count),
            *worded("where", "kind"),
            Column("problem", "what is wrong", words=True),
            Column("effect"),
            Column("mend", "mend", words=True),
        ],
        rows=[vars(finding) for finding in found],
        notes=list(notes),
        facts={
            "kind": "topology_findings",
            "source": source,
            "size": size,
            "layout": wanted.name,
            "errors": errors,
            "warnings_count": warnings,
        },
    )


def layout(shown: Layout, size: str) -> list[Sheet]:
    """A size's GPUs in PCI order with what is beside each, and how to place ranks by it."""
    masks = gpu_masks(shown)
    rows = [
        {
            "gpu": pair.number,
            "gpu_bus_id": pair.gpu,
            "nic_bus_id": pair.nic,
            "hca": None if pair.nic is None else f"mlx5_ib{pair.number}",
            "numa_node": numa.node,
            "cores": format_cpu_list(numa.cores),
            "mask": masks[pair.number],
            "affinity": mask_words(numa.cores, shown.width),
            "bridge": bridge.bus_id,
        }
        for numa in shown.numa
        for bridge in numa.bridges
        for pair in bridge.pairs
    ]
    by_node = [str(row["gpu"]) for row in rows]
    per_node = len(rows) // len(shown.numa)
    used = ", ".join(
        f"{context.replace('_', ' ')} {'yes' if yes else 'no'}"
        for context, yes in shown.used.items()
    )
    commands = {
        "srun, one rank a GPU in this order": (
            f"srun --ntasks-per-node={len(rows)} --cpu-bind=mask_cpu:{','.join(masks)}"
        ),
        "mpirun, ranks by NUMA node": (
            f"CUDA_VISIBLE_DEVICES={','.join(by_node)} mpirun --map-by ppr:{per_node}:numa"
        ),
    }
    table = Sheet(
        title=f"{size} ({shown.name}): {len(rows)} GPUs, {len(shown.numa)} NUMA nodes",
        columns=[
            Column("gpu", "GPU", units.count),
            Column("gpu_bus_id", "bus id", words=True),
            Column("nic_bus_id", "NIC", words=True),
            Column("hca", "device", words=True),
            Column("numa_node", "NUMA", units.count),
            Column("cores", "cores", words=True),
            Column("mask", "CPU mask", words=True),
            *unshown("affinity", "bridge"),
        ],
        rows=sorted(rows, key=lambda row: int(str(row["gpu"]))),
        notes=[
            "GPU numbers hold with CUDA_DEVICE_ORDER=PCI_BUS_ID.",
            f"Topology file {shown.file}; used: {used}: {shown.why}.",
            f"Source: {shown.source} ({shown.date}).",
        ],
        facts={
            "kind": "topology",
            "size": size,
            "layout": shown.name,
            "file": shown.file,
            "masks": masks,
            "cuda_visible_devices": ",".join(by_node),
            "used": dict(shown.used),
        },
    )
    # A column of figures is never folded, so that a command can be copied whole.
    return [
        table,
        *(
            Sheet(title=title, columns=[Column("command", "")], rows=[{"command": command}])
            for title, command in commands.items()
        ),
    ]
