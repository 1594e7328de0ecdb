"""The role gpu_driver, planned: packages at one version, drop-ins, units, and the checks after.

``nvidia_driver`` reads a node's driver and finds the problems in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trueup_node.node.gpu_support import GRID_FAMILY, lacks_driver
from trueup_node.plan import (
    Convergence,
    Look,
    Plan,
    PlanInputs,
    Skipped,
    files_look,
    packages_look,
    sentences,
    unit_look,
)

from ..system import catalog_of, headers, in_image, release, short_of
from .cuda_repository import cuda_repository

_HEADER = "# Written by trueup (role gpu_driver).\n"
_MODPROBE = """\
# nouveau would take the GPUs before NVIDIA's driver; lbm-nouveau is its backport.
blacklist nouveau
blacklist lbm-nouveau
options nouveau modeset=0
"""
# Ubuntu's unit says --no-persistence-mode. Without it the driver is loaded anew for each program,
# seconds a GPU.
_PERSISTENCE = """\
[Service]
ExecStart=
ExecStart=/usr/bin/nvidia-persistenced --verbose --persistence-mode
"""
# openibd loads the RDMA modules anew, which unloads peermem or finds it loaded too early.
_OPENIBD = """\
[Service]
ExecStartPost=-/sbin/modprobe nvidia-peermem
"""
_MODULES_FILE = "/etc/modules-load.d/trueup-gpu-driver.conf"
_PERSISTENCE_FILE = "/etc/systemd/system/nvidia-persistenced.service.d/trueup.conf"
# From this branch on the fabric manager's package has no branch in its name (azhpc-images
# install_nvidia_fabric_manager.sh).
_UNBRANCHED = 580
_GIB = 1024**3
# Bytes, estimated and not measured: for the driver with the modules of dkms, and for downloads.
_SPACE = {"/": 3 * _GIB, "/var": _GIB}


def plan(inputs: PlanInputs) -> Plan:
    """The whole of a node's driver; skipped where there is no GPU.

    Values: ``kept`` (an image's driver is verified and not installed), ``build_packages``,
    ``repository`` and ``pins`` as the role vendor_packages takes them, ``files`` as config_files
    takes them, ``modules_file`` and the ``modules`` to load now, ``units`` with the ``files`` of
    ours that each reads at its start, ``expected`` as gpu_facts takes it.
    """
    node = inputs.node
    keeps_driver = inputs.options["from_image"] == "keep" and bool(in_image(node, "NVIDIA"))
    platform = inputs.data["platforms"].get(release(node), {})
    # Azure Linux's image gives the package's release too, 580.126.16-1.
    image_version = in_image(node, "NVIDIA").split("-")[0]
    target_version = (
        image_version if keeps_driver else inputs.options["version"] or platform.get("driver", "")
    )
    nvswitch = catalog_of(node).get("gpu_fabric") == "nvswitch"
    if not node["has_gpu"] and not lacks_driver(catalog_of(node)):
        reason = "no NVIDIA GPU on this node, and none by the catalog"
        return Plan(skipped=[Skipped("gpu_driver", reason)])
    refused = _refused(inputs, platform, target_version, keeps_driver=keeps_driver)
    if refused:
        return Plan(refused=refused)
    modules = _modules(inputs)
    return Plan(
        values={
            "kept": keeps_driver,
            "build_packages": [] if keeps_driver or node["container"] else _build_packages(inputs),
            "repository": {}
            if keeps_driver
            else inputs.options["repository"] or cuda_repository(inputs),
            "pins": []
            if keeps_driver
            else _pins(inputs, platform, target_version, nvswitch=nvswitch),
            "downgrade_allowed": inputs.options["downgrade_allowed"],
            "files": _files(inputs, modules),
            "modules_file": _MODULES_FILE,
            "modules": [] if node["container"] else modules,
            "units": _units(node, nvswitch=nvswitch),
            "expected": {
                "driver_version": target_version,
                "gpus": node["gpu_count_expected"] or 0,
                "fabric_manager": nvswitch,
                "peermem": node["has_rdma"],
                "persistence": True,
                "dcgm": True,
                "secure_boot": bool(node["secure_boot"]),
            },
        }
    )


def convergence(planned: Mapping[str, Any], variables: Mapping[str, Any]) -> Convergence:
    """Whether the driver is installed, and well."""
    node = variables["trueup_node"]
    build = [{"name": name, "version": "*"} for name in planned["build_packages"]]
    installed = packages_look(
        node,
        planned["pins"],
        repository=planned["repository"],
        downgrade_allowed=planned["downgrade_allowed"],
        replace_held=True,
    )
    modules = unit_look(
        name="gpu-driver-modules",
        reloaded=[planned["modules_file"]],
        command=["modprobe", "--all", *planned["modules"]],
        lenient=True,
    )
    units = [
        unit_look(
            unit=f"{unit['name']}.service",
            enabled=unit.get("enabled"),
            files=unit["files"],
            replaced=not planned["kept"],
            idle_gpus=True,
            lenient=True,
        )
        for unit in planned["units"]
    ]
    driver = Look(
        "gpu_facts",
        {
            "expected": planned["expected"],
            "sysfs_root": variables.get("trueup_sysfs_root", "/sys"),
            "procfs_root": variables.get("trueup_procfs_root", "/proc"),
        },
        lambda response: response["ansible_facts"]["trueup_gpu"]["problems"],
    )
    return Convergence(
        [
            *([packages_look(node, build, held=False)] if build else []),
            *([] if planned["kept"] else [installed]),
            files_look(planned["files"]),
            *([modules] if planned["modules"] else []),
            driver,
            *units,
        ]
    )


def _units(node: Mapping[str, Any], *, nvswitch: bool) -> list[dict[str, Any]]:
    """NVIDIA's units: ``name``, the ``files`` of ours that each reads at its start, and ``enabled``
    where it must be.

    Azure's HPC images disable the fabric manager at each shutdown, and another service of theirs
    starts it at boot (azhpc-images@8e9d055, setup_sku_customizations.sh).
    """
    manager: dict[str, Any] = {"name": "nvidia-fabricmanager", "files": []}
    if node["hpc_image"] is None:
        manager["enabled"] = True
    persistence = {"name": "nvidia-persistenced", "files": [_PERSISTENCE_FILE], "enabled": True}
    dcgm = {"name": "nvidia-dcgm", "files": [], "enabled": True}
    return [*([manager] if nvswitch else []), persistence, dcgm]


def _modules(inputs: PlanInputs) -> list[str]:
    return ["nvidia_peermem"] if inputs.node["has_rdma"] else []


def _build_packages(inputs: PlanInputs) -> list[str]:
    """Build packages of dkms. On Enterprise Linux dkms is in EPEL, which the node has to have."""
    more = [] if inputs.node["package_manager"] == "apt" else ["kernel-headers"]
    return [headers(inputs.node), *more, "dkms", "gcc", "make"]


def _pins(
    inputs: PlanInputs, platform: Mapping[str, str], driver_version: str, *, nvswitch: bool
) -> list[dict[str, Any]]:
    """The packages at their versions. ``-*`` is NVIDIA's packaging release, which differs between
    its packages (-1, -1ubuntu1, -1.el9)."""
    apt = inputs.node["package_manager"] == "apt"
    names = inputs.data["packages"][inputs.node["package_manager"]]
    release_of = f"{driver_version}-*"
    pins: list[dict[str, Any]] = []
    if apt:
        pinning = f"nvidia-driver-pinning-{driver_version}"
        pins.append({"name": pinning, "version": release_of, "first": True})
    of_driver = release_of if apt else f"3:{release_of}"
    pins += [{"name": name, "version": of_driver} for name in names["driver"]]
    if nvswitch:
        branch = driver_version.split(".", maxsplit=1)[0]
        old = names["fabric_manager_of_branch"].format(branch=branch)
        name = "nvidia-fabricmanager" if int(branch) >= _UNBRANCHED else old
        pins.append({"name": name, "version": release_of})
    dcgm = platform.get("dcgm", "")
    return pins + [{"name": name, "version": dcgm} for name in inputs.data["dcgm_packages"]]


def _files(inputs: PlanInputs, modules: list[str]) -> list[dict[str, str]]:
    """Drop-ins, each a file of our own."""
    for_all = inputs.options["profiling_for_all"]
    profiling = "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n" if for_all else ""
    contents = {
        "/etc/modprobe.d/trueup-gpu-driver.conf": _MODPROBE + profiling,
        _PERSISTENCE_FILE: _PERSISTENCE,
    }
    if modules:
        contents[_MODULES_FILE] = "\n".join([*modules, ""])
    if inputs.node["has_rdma"]:
        contents["/etc/systemd/system/openibd.service.d/trueup-peermem.conf"] = _OPENIBD
    return [{"path": path, "content": _HEADER + text} for path, text in contents.items()]


def _refused(
    inputs: PlanInputs, platform: Mapping[str, str], version: str, *, keeps_driver: bool
) -> list[str]:
    node = inputs.node
    manager, unsupported = inputs.options["fabric_manager_version"], lacks_driver(catalog_of(node))
    # A driver that names the GPUs is there already, and needs no more space.
    short = (
        [] if keeps_driver or any(gpu["name"] for gpu in node["gpus"]) else short_of(node, _SPACE)
    )
    sizes = ", ".join(f"{needed / _GIB:.2f} GB" for needed in _SPACE.values())
    wrong = {
        f"gpu_driver does not know {node['distribution']} {node['distribution_version']} (it knows"
        f" {', '.join(sorted(inputs.data['platforms']))}): take one of these systems.": (
            not keeps_driver and not platform
        ),
        f"gpu_driver_fabric_manager_version is {manager} and the driver is {version}: CUDA does not"
        " start unless they are equal; leave gpu_driver_fabric_manager_version empty.": (
            manager and manager != version
        ),
        "Secure Boot is on, and kernel modules that are built on the node, are not signed: they"
        " would not load. Switch Secure Boot off for this VM (az vm update --enable-secure-boot"
        " false, deallocated).": node["secure_boot"] and not keeps_driver,
        "gpu_driver needs root, and this node gives neither root nor sudo without a password.": (
            node["privilege"] is None
        ),
        f"The family {node['family']} has virtual GPUs, which need the GRID driver: use the role"
        " gpu_grid.": node["family"] == GRID_FAMILY,
        f"{node['vm_size']}: {unsupported}.": unsupported,
        f"On {', '.join(short)} less space is free than the driver takes ({sizes} on"
        f" {', '.join(_SPACE)}): free some or enlarge the disk.": short,
    }
    return sentences(wrong)
