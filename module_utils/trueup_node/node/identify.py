"""Identify a node: from metadata, sysfs, the catalog, and the output of tools.

Nothing here runs a command or asks the network. Names, serial numbers, tags and addresses of the
machine, its owner and its network are not read at all; of its id a hash is published (``machine``).
The name of Azure's physical host below it is published.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..suggest import nearest
from .affinity import layouts
from .gpu_support import is_amd, nvidia_gpus
from .infiniband import read_port
from .mpi import BY_GPUS
from .mpi import fact as fact_of_mpi
from .nvidia_smi import Gpu
from .sysfs import entries, text_of
from .topology import Topology, format_cpu_list

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .lscpu import Lscpu
    from .metadata import Metadata
    from .mpi import Mpi

# DMI chassis asset tag of every Azure VM, "MSFT AZURE VM" in ASCII codes; cloud-init goes by it too
# (github.com/canonical/cloud-init, issue 2911).
_AZURE_CHASSIS_TAG = "7783-7084-3265-9085-8269-3286-77"
# Azure's local disks; its remote disks show as "MSFT NVMe Accelerator".
_LOCAL_NVME_MODEL = "Microsoft NVMe Direct Disk"
_SECTOR_BYTES = 512
_GIB = 1024**3
# Memory that the kernel reserves, and documents that round up: ND96amsr_A100_v4 shows 1771.8 of
# 1900 GiB (0.93), the other described sizes 0.98 or more. GPUs are within 2 % of the catalog.
LEAST_MEMORY = 0.9
# Azure's HPC images list their components in this file, a JSON object of component to version
# (Azure/azhpc-images, utils/utilities.sh, 2026-07-29).
_HPC_IMAGE_COMPONENTS = "/opt/azurehpc/component_versions.txt"
# Where roles put things, and where they download and unpack them.
_FREE_SPACE_OF = ("/", "/opt", "/tmp", "/var")  # noqa: S108 (only asked how much is free)
_NVIDIA = "0x10de"
# PCI classes 0300 (VGA) and 0302 (3D controller); NVSwitches are bridges (0680).
_DISPLAY_CLASSES = ("0x0300", "0x0302")
# Operating systems of nodes; plays and plans tell the two apart by these names.
LINUX, WINDOWS = "linux", "windows"


class Identity(NamedTuple):
    """Which VM size this is, and how we know."""

    vm_size: str | None
    family: str
    region: str | None
    zone: str | None
    offer: str | None
    image: str | None
    azure: bool
    metadata_status: str
    catalog: Mapping[str, Any] | None
    warnings: tuple[str, ...]
    licence_type: str | None = None


@dataclass(frozen=True)
class Observed:
    """The machine's own facts; a None or empty member could not be found out."""

    topology: Topology | None
    lscpu: Lscpu | None
    gpus: Sequence[Gpu]
    infiniband: Sequence[Mapping[str, Any]]
    nvme: Sequence[Mapping[str, Any]]
    memory_bytes: int | None
    os_release: Mapping[str, str]
    kernel: str
    architecture: str
    privilege: str | None = None
    container: bool = False
    secure_boot: bool | None = None
    hpc_image: Mapping[str, str] | None = None
    free_bytes: Mapping[str, int] = field(default_factory=dict)
    programs: Mapping[str, str | None] = field(default_factory=dict)
    mpi: Mpi | None = None
    machine: str | None = None
    physical_host: str | None = None
    cpu_quota: str | None = None
    hcoll: str = BY_GPUS
    warnings: Sequence[str] = field(default_factory=tuple)


def identify(
    metadata: Metadata,
    *,
    given_size: str | None,
    catalog: Mapping[str, Mapping[str, Any]],
    azure_chassis: bool,
) -> Identity:
    """Decide the size and the family.

    A size given by hand wins over metadata. The family is the catalog's; ``unknown`` for a size
    that the catalog lacks and for an Azure machine that does not say its size; else ``local``.

    Args:
        metadata: the metadata service's answer.
        given_size: the size given by hand, if any.
        catalog: size, as Azure spells it, to its row.
        azure_chassis: the machine's DMI data say that it is an Azure VM.
    """
    warnings: list[str] = []
    azure = metadata.status == "ok" or azure_chassis
    size = given_size or metadata.vm_size
    spelling = {name.lower(): name for name in catalog}
    if given_size and metadata.vm_size and given_size.lower() != metadata.vm_size.lower():
        warnings.append(
            f"the size given by hand, {given_size}, is used; metadata says {metadata.vm_size}"
        )
    row: Mapping[str, Any] | None = None
    if size:
        row = catalog.get(spelling.get(size.lower(), ""))
        size = spelling.get(size.lower(), size)
    if row is not None:
        family = str(row["family"])
    elif size:
        family = "unknown"
        warnings.append(_unknown_size(size, list(catalog)))
    elif azure:
        family = "unknown"
        warnings.append("this Azure VM did not say its size; give it as trueup_vm_size")
    else:
        family = "local"
    if metadata.status == "unusable":
        taken = "; this is taken for a machine outside Azure" if family == "local" else ""
        warnings.insert(0, f"the instance metadata service gave {metadata.detail}{taken}")
    elif metadata.detail and metadata.status == "ok":
        warnings.append(
            f"the instance metadata service gave {metadata.detail}: no plain word, and not used"
        )
    return Identity(
        vm_size=size or None,
        family=family,
        region=metadata.region,
        zone=metadata.zone,
        offer=metadata.offer,
        image=metadata.image,
        azure=azure,
        metadata_status=metadata.status,
        catalog=row,
        warnings=tuple(warnings),
        licence_type=metadata.licence_type,
    )


def _unknown_size(size: str, known_sizes: Sequence[str]) -> str:
    if not known_sizes:
        return f"size {size} was not looked up: no catalog was given"
    near = nearest(size, known_sizes, cutoff=0.8)
    hint = f"; the nearest in it is {near}" if near else ""
    return f"size {size} is not in the catalog of {len(known_sizes)} sizes{hint}"


def describe(identity: Identity, observed: Observed) -> dict[str, Any]:
    """The fact ``trueup_node``: JSON types, units in the names, None for unknown members."""
    topology, lscpu = observed.topology, observed.lscpu
    counted = _counted(identity, observed)
    warnings = [*identity.warnings, *observed.warnings]
    expected = (identity.catalog or {}).get("vcpus")
    if topology is not None and expected is not None and expected != len(topology.cpus):
        warnings.append(
            f"{identity.vm_size} has {expected} vCPUs, this machine shows {len(topology.cpus)}"
        )
    warnings += _unlike_the_catalog(identity, observed)
    if is_amd(identity.catalog or {}):
        warnings.append(
            f"{identity.vm_size} has AMD GPUs: no role, benchmark or check looks at them"
        )
    return {
        "vm_size": identity.vm_size,
        "family": identity.family,
        "azure": identity.azure,
        "metadata_status": identity.metadata_status,
        "region": identity.region,
        "zone": identity.zone,
        "offer": identity.offer,
        "image": identity.image,
        "licence_type": identity.licence_type,
        "machine": observed.machine,
        "physical_host": observed.physical_host,
        "system": LINUX,
        "os": observed.os_release.get("PRETTY_NAME"),
        "distribution": observed.os_release.get("ID"),
        "distribution_version": observed.os_release.get("VERSION_ID"),
        "package_manager": package_manager(observed.os_release),
        "kernel": observed.kernel,
        "architecture": observed.architecture,
        "cpu_model": None if lscpu is None else lscpu.model,
        "sockets": None if lscpu is None else lscpu.sockets,
        **_described_cpus(topology),
        "cpu_quota": observed.cpu_quota,
        "memory_bytes": observed.memory_bytes,
        "gpus": [
            {"name": gpu.name, "pci": gpu.pci, "memory_bytes": gpu.memory_bytes}
            for gpu in observed.gpus
        ],
        "infiniband": [dict(device) for device in observed.infiniband],
        **counted,
        "nvme": [dict(disk) for disk in observed.nvme],
        "privilege": observed.privilege,
        "container": observed.container,
        "secure_boot": observed.secure_boot,
        "hpc_image": None if observed.hpc_image is None else dict(observed.hpc_image),
        "free_bytes": dict(observed.free_bytes),
        "programs": dict(observed.programs),
        "mpi": fact_of_mpi(
            observed.mpi,
            devices=[str(port["device"]) for port in _ports(observed)],
            has_gpu=counted["has_gpu"],
            rdma_expected=counted["rdma_count_expected"],
            hcoll_is=observed.hcoll,
        ),
        "catalog": None if identity.catalog is None else dict(identity.catalog),
        "warnings": warnings,
    }


def summary(node: Mapping[str, Any]) -> str:
    """One line with the contents of the fact ``trueup_node``, and one for each warning."""
    gib = (node["memory_bytes"] or 0) / _GIB
    line = (
        f"{node['family']}: {node['vm_size'] or 'no Azure size'},"
        f" {node['cpu_model'] or 'unnamed CPU'}, {node['cores'] or 'unknown'} cores"
    )
    if is_windows(node):
        line += f", {gib:.1f} GiB, {len(node['gpus'])} GPU(s), {node['os']} ({node['kernel']})"
    else:
        line += (
            f" in {len(node['numa'])} NUMA node(s) and {len(node['l3_groups'])} L3 group(s),"
            f" {gib:.1f} GiB, {len(node['gpus'])} GPU(s), {len(node['infiniband'])} RDMA"
            f" device(s), {len(node['nvme'])} NVMe disk(s)"
        )
    return "\n".join([line, *(f"Warning: {warning}" for warning in node["warnings"])])


def is_windows(node: Mapping[str, Any]) -> bool:
    """Whether the fact ``trueup_node`` is that of a Windows host."""
    return node.get("system") == WINDOWS


def _counted(identity: Identity, observed: Observed) -> dict[str, Any]:
    """How many GPUs and InfiniBand devices are found, how many the size has by the catalog (None
    where that says nothing), and whether the machine has any by either of them.

    A machine without drivers shows none, which the roles mend. GPUs are NVIDIA's. The Ethernet
    function of accelerated networking is an RDMA device too, and not counted.
    """
    row = identity.catalog or {}
    counts: dict[str, Any] = {}
    for name, count, expected in (
        ("gpu", len(observed.gpus), nvidia_gpus(row)),
        ("rdma", len(_ports(observed)), row.get("rdma_nics")),
    ):
        counts[f"has_{name}"] = bool(count or expected)
        counts[f"{name}_count"] = count
        counts[f"{name}_count_expected"] = expected
    return counts


def _ports(observed: Observed) -> list[Mapping[str, Any]]:
    return [device for device in observed.infiniband if device["link_layer"] == "InfiniBand"]


def _unlike_the_catalog(identity: Identity, observed: Observed) -> list[str]:
    """Devices that the size has by the catalog and the machine does not show."""
    row = identity.catalog or {}
    ports = _ports(observed)
    # A machine without drivers shows none of them, which the roles fix; some of them is a fault.
    columns = {
        "gpus": ("GPUs", len(observed.gpus)),
        "rdma_nics": ("InfiniBand devices", len(ports)),
        "nvme_disks": ("local NVMe disks", sum(1 for disk in observed.nvme if disk["local"])),
    }
    counts = [
        f"{identity.vm_size} has {row[name]} {noun}, this machine shows {number}"
        for name, (noun, number) in columns.items()
        if row.get(name) is not None and 0 < number != row[name]
    ]
    return counts + _slower_or_smaller(str(identity.vm_size), row, ports, observed)


def _slower_or_smaller(
    size: str, row: Mapping[str, Any], ports: Sequence[Mapping[str, Any]], observed: Observed
) -> list[str]:
    """Devices that differ from the size's: links, memory, GPUs, NUMA nodes."""
    differences = []
    rate, memory, gpu_memory = (
        row.get(name) for name in ("rdma_gbps_per_nic", "memory_gib", "gpu_memory_gib")
    )
    for port in ports:
        # A link that is down runs at no rate worth naming.
        if port.get("state") not in {None, "ACTIVE"}:
            differences.append(f"{port['device']} is {port['state']}, not ACTIVE")
        elif rate is not None and port.get("rate_gbps") not in {None, rate}:
            runs = f"{port['device']} runs at {port['rate_gbps']:g} Gb/s"
            differences.append(f"{runs}, {size} has {rate:g} Gb/s")
    if memory is not None and observed.memory_bytes is not None:
        gib = observed.memory_bytes / _GIB
        if gib < memory * LEAST_MEMORY:
            differences.append(
                f"{size} has {memory:g} GiB of memory, this machine shows {gib:.1f} GiB"
            )
    for gpu in observed.gpus:
        gib = (gpu.memory_bytes or 0) / _GIB
        if gpu_memory is not None and gib and abs(gib / gpu_memory - 1) > 1 - LEAST_MEMORY:
            shows = f"GPU {gpu.pci} ({gpu.name}) shows {gib:.1f} GiB"
            differences.append(f"{shows}, those of {size} have {gpu_memory:g} GiB")
    nodes = row.get("numa_nodes")
    if nodes is not None and observed.topology is not None and len(observed.topology.numa) != nodes:
        shows = f"this machine shows {len(observed.topology.numa)}"
        differences.append(f"{size} has {nodes} NUMA nodes, {shows}")
    return differences


def package_manager(os_release: Mapping[str, str]) -> str | None:
    """``apt`` or ``dnf``, by os-release(5): the system's own ID or one it is like; else None."""
    names = {os_release.get("ID", ""), *os_release.get("ID_LIKE", "").split()}
    if names & {"debian", "ubuntu"}:
        return "apt"
    # Azure Linux names nothing that it is like. Its HPC image has dnf beside tdnf.
    of_dnf = {"rhel", "fedora", "centos", "almalinux", "rocky", "azurelinux"}
    return "dnf" if names & of_dnf else None


def _described_cpus(topology: Topology | None) -> dict[str, Any]:
    if topology is None:
        return {
            "cpus": None,
            "cpu_list": None,
            "cores": None,
            "numa": [],
            "l3_groups": [],
            "last_level_cache_bytes": None,
            "layouts": [],
        }
    return {
        "cpus": len(topology.cpus),
        "cpu_list": format_cpu_list(topology.cpus),
        "cores": len(topology.cores),
        "numa": [
            {
                "node": node,
                "cpus": format_cpu_list(cpus),
                "memory_bytes": topology.numa_memory_bytes.get(node),
            }
            for node, cpus in sorted(topology.numa.items())
        ],
        "l3_groups": [format_cpu_list(cpus) for cpus in topology.l3_groups],
        "last_level_cache_bytes": topology.last_level_cache_bytes,
        "layouts": [
            {
                "ranks": layout.ranks,
                "threads_per_rank": layout.threads_per_rank,
                "binding": layout.binding,
            }
            for layout in layouts(topology)
        ],
    }


def is_azure_chassis(sysfs_root: str) -> bool:
    """Whether the machine's DMI data say that it is an Azure VM (readable without root)."""
    tag = text_of(Path(sysfs_root, "class", "dmi", "id", "chassis_asset_tag"))
    return tag == _AZURE_CHASSIS_TAG


def read_gpus(sysfs_root: str) -> tuple[Gpu, ...]:
    """NVIDIA GPUs on the PCI bus, by address, whether or not a driver is there."""
    gpus = []
    # Addresses are hexadecimal with leading zeros, so they sort as text.
    devices = sorted(entries(Path(sysfs_root, "bus", "pci", "devices")), key=lambda path: path.name)
    for device in devices:
        display = text_of(device / "class")[:6] in _DISPLAY_CLASSES
        if display and text_of(device / "vendor") == _NVIDIA:
            gpus.append(Gpu(name=None, pci=device.name, memory_bytes=None))
    return tuple(gpus)


def read_infiniband(sysfs_root: str) -> list[dict[str, Any]]:
    """RDMA devices and the state of their first port (Azure's have one), by name.

    ``rate_gbps`` is in Gb/s as the link runs; ``link_layer`` tells InfiniBand from the Ethernet
    function of accelerated networking, which shows here too. ``numa_node`` is None where the
    machine does not say.
    """
    return [read_port(device) for device in entries(Path(sysfs_root, "class", "infiniband"))]


def read_nvme(sysfs_root: str) -> list[dict[str, Any]]:
    """NVMe disks (namespaces) by device name, with the model of their controller.

    ``local`` is true for Azure's local disks, whose content is lost when the VM is deallocated.
    """
    disks = []
    for controller in entries(Path(sysfs_root, "class", "nvme")):
        model = text_of(controller / "model")
        for space in entries(controller):
            # With multipath the controller's entry is nvme0c0n1, and the disk to use is nvme0n1.
            name = re.fullmatch(r"(nvme[0-9]+)(?:c[0-9]+)?(n[0-9]+)", space.name)
            if name is None:
                continue
            sectors = text_of(space / "size")
            disks.append(
                {
                    "device": name.group(1) + name.group(2),
                    "model": model or None,
                    "size_bytes": int(sectors) * _SECTOR_BYTES if sectors.isdecimal() else None,
                    "local": model.startswith(_LOCAL_NVME_MODEL),
                }
            )
    return disks


def read_memory_bytes(procfs_root: str) -> int | None:
    """Usable memory of the machine (MemTotal); None when it does not say."""
    match = re.search(
        r"^MemTotal:\s+([0-9]+) kB$", text_of(Path(procfs_root, "meminfo")), re.MULTILINE
    )
    return None if match is None else int(match.group(1)) * 1024


def read_secure_boot(sysfs_root: str) -> bool | None:
    """Whether the firmware checks signatures at boot; None where that is not known.

    An EFI variable's first four bytes are its attributes, and the fifth is SecureBoot's value
    (kernel.org Documentation/filesystems/efivarfs). A machine that booted without EFI has none.
    """
    firmware = Path(sysfs_root, "firmware")
    if not (firmware / "efi").is_dir():
        return False if firmware.is_dir() else None
    try:
        content = next(firmware.glob("efi/efivars/SecureBoot-*")).read_bytes()
    except (OSError, StopIteration):
        return None
    return bool(content[4]) if len(content) == 5 else None


def read_hpc_image(path: str = _HPC_IMAGE_COMPONENTS) -> dict[str, str] | None:
    """The components of an Azure HPC image, component to version; None on any other image."""
    try:
        components = json.loads(text_of(Path(path)))
    except ValueError:
        return None
    if not isinstance(components, dict):
        return None
    return {str(name): str(version) for name, version in components.items()}


def read_free_bytes(paths: Sequence[str] = _FREE_SPACE_OF) -> dict[str, int]:
    """Bytes that an ordinary user may still write to the file system of each path."""
    free = {}
    for path in paths:
        try:
            status = os.statvfs(path)
        except OSError:
            continue
        free[path] = status.f_bavail * status.f_frsize
    return free


def read_os_release(path: str = "/etc/os-release") -> dict[str, str]:
    """The assignments of os-release(5); empty when the file is not there."""
    values = {}
    for line in text_of(Path(path)).splitlines():
        name, separator, value = line.partition("=")
        if separator and re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
            try:
                values[name] = "".join(shlex.split(value))
            except ValueError:
                values[name] = value
    return values
