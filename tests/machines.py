"""Machines for tests: compact descriptions become trees as /sys and /proc have them."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

from trueup_node.node.topology import (
    Topology,
    format_cpu_list,
    mask_words,
    parse_cpu_list,
    read_topology,
)

DATA = Path(__file__).parent / "data" / "machines"
_SHARED = tempfile.TemporaryDirectory()
AZURE_CHASSIS_TAG = "7783-7084-3265-9085-8269-3286-77"


def description(name: str) -> dict[str, Any]:
    """The description of the machine ``name``."""
    loaded: dict[str, Any] = json.loads((DATA / name / "machine.json").read_text())
    return loaded


def build(machine: dict[str, Any], root: Path) -> Path:
    """Write the machine's ``root/sys`` and ``root/proc``, and return ``root``."""
    _cpus(machine, root / "sys" / "devices" / "system")
    _pci(machine, root / "sys" / "bus" / "pci" / "devices")
    _infiniband(machine, root / "sys" / "class" / "infiniband")
    _nvme(machine, root / "sys" / "class" / "nvme")
    _nvidia_driver(machine, root)
    if machine.get("azure_chassis"):
        _write(root / "sys" / "class" / "dmi" / "id" / "chassis_asset_tag", AZURE_CHASSIS_TAG)
    if "memory_kib" in machine:
        _write(root / "proc" / "meminfo", f"MemTotal:       {machine['memory_kib']} kB")
    return root


@functools.cache
def root_of(name: str) -> Path:
    """The trees of a described machine, built once and removed at the end; not to be written to."""
    return build(description(name), Path(_SHARED.name) / name)


@functools.cache
def topology_of(name: str) -> Topology:
    """The topology that a described machine shows."""
    return read_topology(str(root_of(name) / "sys"))


def _cpus(machine: dict[str, Any], folder: Path) -> None:
    nodes = [parse_cpu_list(cpus) for cpus in machine["numa"]]
    everything = sorted(cpu for node in nodes for cpu in node)
    _write(folder / "cpu" / "online", format_cpu_list(everything))
    cores = [parse_cpu_list(core) for core in machine.get("smt_siblings", [])]
    siblings = {cpu: core for core in cores for cpu in core}
    groups = [parse_cpu_list(group) for group in machine.get("l3", [])]
    group_of = {cpu: group for group in groups for cpu in group}
    for cpu in everything:
        own = folder / "cpu" / f"cpu{cpu}"
        core = format_cpu_list(siblings.get(cpu, (cpu,)))
        _write(own / "topology" / "core_cpus_list", core)
        if cpu in group_of:
            shared = {"0": core, "1": core, "2": core, "3": format_cpu_list(group_of[cpu])}
            shapes = ("1 Data 32", "1 Instruction 32", "2 Unified 512")
            for index, shape in enumerate((*shapes, f"3 Unified {machine['l3_kib_each']}")):
                level, kind, size = shape.split()
                cache = own / "cache" / f"index{index}"
                _write(cache / "level", level)
                _write(cache / "type", kind)
                _write(cache / "size", f"{size}K")
                _write(cache / "shared_cpu_list", shared[str(index)])
    if machine.get("numa_shown", True):
        for number, node in enumerate(nodes):
            own = folder / "node" / f"node{number}"
            _write(own / "cpulist", format_cpu_list(node))
            _write(own / "cpumap", mask_words(node, max(everything) + 1))
            if "memory_kib" in machine:
                share = machine["memory_kib"] // len(nodes)
                _write(own / "meminfo", f"Node {number} MemTotal:       {share} kB")


def _pci(machine: dict[str, Any], folder: Path) -> None:
    for device in machine.get("pci", []):
        _write(folder / device["address"] / "vendor", device["vendor"])
        _write(folder / device["address"] / "class", device["class"])


def _infiniband(machine: dict[str, Any], folder: Path) -> None:
    for device in machine.get("infiniband", []):
        port = folder / device["device"] / "ports" / "1"
        _write(port / "rate", device["rate"])
        _write(port / "state", device["state"])
        _write(port / "phys_state", device.get("phys_state", "5: LinkUp"))
        _write(port / "link_layer", device["link_layer"])
        place = folder / device["device"] / "device"
        if "pci" in device:
            pci = folder.parents[1] / "bus" / "pci" / "devices" / device["pci"]
            pci.mkdir(parents=True, exist_ok=True)
            place.symlink_to(Path("../../../bus/pci/devices", device["pci"]))
            for name in ("current_link_speed", "current_link_width"):
                if name in device:
                    _write(pci / name, device[name])
        _write(place / "numa_node", str(device["numa_node"]))


def _nvidia_driver(machine: dict[str, Any], root: Path) -> None:
    driver = machine.get("nvidia_driver")
    if driver is None:
        return
    version = driver["version"]
    text = (
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build"
        "  (dvs-builder@example)  \nGCC version:  gcc version 13.3.0"
    )
    _write(root / "proc" / "driver" / "nvidia" / "version", text)
    for module in driver["modules"]:
        _write(root / "sys" / "module" / module / "refcnt", "0")
    _write(root / "sys" / "module" / "nvidia" / "version", version)


def _nvme(machine: dict[str, Any], folder: Path) -> None:
    for number, disk in enumerate(machine.get("nvme", [])):
        controller = folder / f"nvme{number}"
        _write(controller / "model", disk["model"].ljust(40))
        space = disk.get("namespace", f"nvme{number}n1")
        _write(controller / space / "size", str(disk["size_bytes"] // 512))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
