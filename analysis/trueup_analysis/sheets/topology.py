"""From NCCL topology layouts and findings to sheets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup_node.node.nccl_topology import gpu_masks
from trueup_node.node.topology import format_cpu_list, mask_words

from .. import units
from .sheet import Column, Sheet, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup_node.node.nccl_topology import Finding, Layout


def findings(faults: Sequence[Finding], source: str, expected: Layout, size: str) -> Sheet:
    """Faults of a file, one row per place. The effect of a fault on NCCL stands once, below."""
    errors = sum(finding.severity == "error" for finding in faults)
    warnings = len(faults) - errors
    verdict = (
        f"{units.plural(errors, 'error')}, {units.plural(warnings, 'warning')}"
        if faults
        else "nothing is wrong"
    )
    notes: dict[str, None] = {}
    for finding in faults:
        notes[f"{finding.effect[:1].upper()}{finding.effect[1:]}. ({finding.kind})"] = None
    return Sheet(
        title=f"{size} ({expected.name}): {verdict}",
        columns=[
            Column("severity", "severity", words=True),
            Column("line", "line", units.count),
            *worded("where", "kind"),
            Column("problem", "what is wrong", words=True),
            Column("effect"),
            Column("mend", "mend", words=True),
        ],
        rows=[vars(finding) for finding in faults],
        notes=list(notes),
        facts={
            "kind": "topology_findings",
            "source": source,
            "size": size,
            "layout": expected.name,
            "errors": errors,
            "warnings_count": warnings,
        },
    )


def layout(gpu_layout: Layout, size: str) -> list[Sheet]:
    """A size's GPUs in PCI order with the devices beside each, and how to place ranks by them."""
    masks = gpu_masks(gpu_layout)
    rows = [
        {
            "gpu": pair.number,
            "gpu_bus_id": pair.gpu,
            "nic_bus_id": pair.nic,
            "hca": None if pair.nic is None else f"mlx5_ib{pair.number}",
            "numa_node": numa.node,
            "cores": format_cpu_list(numa.cores),
            "mask": masks[pair.number],
            "affinity": mask_words(numa.cores, gpu_layout.width),
            "bridge": bridge.bus_id,
        }
        for numa in gpu_layout.numa
        for bridge in numa.bridges
        for pair in bridge.pairs
    ]
    by_node = [str(row["gpu"]) for row in rows]
    per_node = len(rows) // len(gpu_layout.numa)
    used = ", ".join(
        f"{context.replace('_', ' ')} {'yes' if yes else 'no'}"
        for context, yes in gpu_layout.used.items()
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
        title=f"{size} ({gpu_layout.name}): {len(rows)} GPUs, {len(gpu_layout.numa)} NUMA nodes",
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
            f"Topology file {gpu_layout.file}; used: {used}: {gpu_layout.why}.",
            f"Source: {gpu_layout.source} ({gpu_layout.date}).",
        ],
        facts={
            "kind": "topology",
            "size": size,
            "layout": gpu_layout.name,
            "file": gpu_layout.file,
            "masks": masks,
            "cuda_visible_devices": ",".join(by_node),
            "used": dict(gpu_layout.used),
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
