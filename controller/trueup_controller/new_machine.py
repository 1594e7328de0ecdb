"""The fact ``trueup_node`` of a machine that does not run yet, and what a role is asked there.

The size's row of catalog/vm_sizes.csv gives the hardware, the image the system. Roles are planned
by it before a machine is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trueup.node.identify import Observed, describe, identify
from trueup.node.metadata import Metadata
from trueup.node.nvidia_smi import Gpu

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trueup.node.topology import Topology

GIB = 1024**3
LOCAL_NVME = "Microsoft NVMe Direct Disk v2"
_LIKE = {"ubuntu": "debian", "almalinux": "rhel centos fedora"}


def os_release(system: str) -> dict[str, str]:
    """The members of /etc/os-release that decide, of a system such as ``ubuntu-24.04``."""
    name, _, version = system.partition("-")
    like = {"ID_LIKE": _LIKE[name]} if name in _LIKE else {}
    return {"ID": name, **like, "VERSION_ID": version}


def fresh(
    size: str | None,
    sizes: Mapping[str, Mapping[str, Any]],
    release: Mapping[str, str],
    *,
    free_bytes: int,
    topology: Topology | None = None,
) -> dict[str, Any]:
    """``trueup_node`` of a freshly deployed machine that has all that its size promises.

    Args:
        size: its size; None for a machine that is none of Azure's.
        sizes: the catalog's rows by size.
        release: /etc/os-release.
        free_bytes: on the system disk.
        topology: its cores; None where they are not known.
    """
    row = sizes.get(size or "", {})
    disk_bytes = int(float(row.get("nvme_gib_each") or 960) * GIB)
    observed = Observed(
        topology=topology,
        lscpu=None,
        gpus=[Gpu(None, f"000{n}:00:00.0", None) for n in range(row.get("gpus", 0))],
        infiniband=[],
        nvme=[
            {"device": f"nvme{n}n1", "model": LOCAL_NVME, "size_bytes": disk_bytes, "local": True}
            for n in range(row.get("nvme_disks", 0))
        ],
        memory_bytes=None,
        os_release=dict(release),
        kernel="6.8.0-1030-azure",
        architecture="x86_64",
        privilege="root",
        secure_boot=False,
        free_bytes=dict.fromkeys(("/", "/opt", "/tmp", "/var"), free_bytes),  # noqa: S108 WHY: names
        programs={},
    )
    identity = identify(
        Metadata("absent"), given_size=size, catalog=sizes, azure_chassis=size is not None
    )
    return describe(identity, observed)


def with_catalog(node: Mapping[str, Any], size: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the GPUs and NUMA nodes that the size's row promises."""
    gpus = [
        {"name": row.get("gpu_model"), "pci": f"000{n}:00:00.0"} for n in range(row.get("gpus", 0))
    ]
    numa = int(row.get("numa_nodes") or 1)
    each = int(row["vcpus"]) // numa
    ranges = [{"node": n, "cpus": f"{n * each}-{n * each + each - 1}"} for n in range(numa)]
    return {
        **node,
        "vm_size": size,
        "catalog": row,
        "gpus": gpus,
        **({} if gpus else {"numa": ranges}),
    }
