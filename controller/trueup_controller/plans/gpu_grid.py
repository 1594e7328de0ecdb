"""The role gpu_grid, planned: NVIDIA's GRID driver for the slices of an A10.

``grid_driver`` reads Azure's manifest of drivers, ``grid_installer`` a downloaded installer.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueup_node.node import gpu_support
from trueup_node.plan import (
    Convergence,
    Look,
    Plan,
    PlanInputs,
    files_look,
    sentences,
    unit_look,
)

from ..system import catalog_of, free_of, headers, in_image, short_of
from . import grid_driver, grid_installer
from .grid_source import MICROSOFT, kept, manifest_path, read_manifest

_MODPROBE = """\
# Written by trueup (role gpu_grid): nouveau would take the GPU before the GRID driver.
blacklist nouveau
blacklist lbm-nouveau
options nouveau modeset=0
"""
# Where the driver's libraries are; None for a system with neither apt nor dnf.
_LIBRARIES = {"apt": "/usr/lib/x86_64-linux-gnu", "dnf": "/usr/lib64", None: "/usr/lib64"}
_LICENCE_FILE = "/etc/nvidia/gridd.conf"
# The file whole. It has no FeatureType, as Azure asks (MicrosoftDocs/azure-compute-docs, GPU driver
# set-up for Linux, NV series).
_LICENCE = """\
# Written by trueup (role gpu_grid).
IgnoreSP=FALSE
EnableUI=FALSE
"""
# Not /var/tmp, where a user of the node could put another file after the check.
_DOWNLOADS = "/var/cache"
# Lost power can leave the installer's files without content: a file counts once it is on disk.
_UNFINISHED = "/var/lib/trueup/gpu_grid.unfinished"
_WHOLE = (
    'mkdir -p "${0%/*}" && : > "$0" && sync "$0" "${0%/*}" && "$@"'
    ' && sync --file-system /usr /etc && rm "$0" && sync "${0%/*}"'
)


def programs(inputs: PlanInputs) -> dict[str, Any]:
    """The question to the node, as arguments of program_facts."""
    return {"files": [_library(inputs), _UNFINISHED]}


def asks(inputs: PlanInputs) -> dict[str, dict[str, Any]]:
    """Which driver works here already, if any does."""
    names = ("sysfs_root", "procfs_root")
    roots = {name: inputs.variables.get(f"trueup_{name}") for name in names}
    return {"gpu_facts": {**roots, "settle_seconds": 0}}


def plan(inputs: PlanInputs) -> Plan:
    """The driver of a node. Its address is in Azure's manifest, which is on the controller when it
    has been fetched: where a driver is to be installed the role plans again, with ``installing`` in
    ``inputs.found``; and where nobody gave the sha256 of the driver once more, with ``taken``, when
    the controller has downloaded it.

    Values: ``kept``, the version of the driver that works here and stays (empty where none does);
    ``packages`` to build with, the ``library`` that is there when the driver is, and whether it is
    ``missing``; ``file``, its ``sha256`` and ``checksum`` (empty where nobody knows it),
    ``installer`` (an argv) and ``files`` as config_files takes them, that against nouveau first;
    ``manifest``, its path on the controller, and whether it ``is_fetched`` there; ``url``, empty
    before ``installing``; ``taken``, where the controller downloads the driver to learn its sha256
    (empty where it need not), and ``pin``, the file that keeps it there; ``expected`` for
    gpu_facts.
    """
    refused = _refused(inputs)
    if refused:
        return Plan(refused=refused)
    node, options = inputs.node, inputs.options
    version, container, works = options["version"], node["container"], _kept(inputs)
    file = f"{_DOWNLOADS}/trueup-NVIDIA-Linux-x86_64-{version}-grid-azure.run"
    manifest, is_remote = manifest_path(options["manifest"], options["manifest_sha256"])
    url, taken, sha256 = options["url"], "", options["checksums"].get(version, "")
    files: dict[str, bool] = inputs.found["files"]
    if inputs.found.get("installing"):
        url = url or _address(inputs, manifest)
        sha256 = sha256 or _pinned(inputs, url)
        taken = "" if sha256 or not url.startswith(MICROSOFT) else str(_taken(version))
    return Plan(
        values={
            "kept": works,
            # dkms is in EPEL on Enterprise Linux. A container has its host's kernel modules.
            "packages": ["gcc", "make", *([] if container else ["dkms", headers(node)])],
            "library": _library(inputs),
            "missing": not works and (not files[_library(inputs)] or files[_UNFINISHED]),
            "file": file,
            "checksum": f"sha256:{sha256}" if sha256 else "",
            "sha256": sha256,
            "installer": [
                *("sh", "-c", _WHOLE, _UNFINISHED, "sh", file, "--silent"),
                "--no-kernel-modules" if container else "--dkms",
            ],
            "files": [
                {"path": "/etc/modprobe.d/trueup-gpu-grid.conf", "content": _MODPROBE},
                {"path": _LICENCE_FILE, "content": _LICENCE},
                {"path": _UNFINISHED, "state": "absent"},
            ],
            "manifest": str(manifest),
            "is_fetched": is_remote and not options["url"],
            "url": url,
            "taken": taken,
            "pin": str(_pin(version)),
            "expected": {
                "driver_version": works or version,
                "gpus": node["gpu_count_expected"] or 0,
                "gpu_memory_gib": catalog_of(node).get("gpu_memory_gib"),
                "secure_boot": bool(node["secure_boot"]),
            },
        }
    )


def convergence(planned: Mapping[str, Any], variables: Mapping[str, Any]) -> Convergence:
    """Whether the driver is installed, and licensed."""
    names = ("sysfs_root", "procfs_root")
    roots = {name: variables.get(f"trueup_{name}") for name in names}
    driver = Look(
        "gpu_facts",
        # The role waits for a licence that is not there yet.
        {"expected": planned["expected"], **roots, "settle_seconds": 0},
        wrong=lambda response: response["ansible_facts"]["trueup_gpu"]["problems"],
    )
    daemon = unit_look(unit="nvidia-gridd.service", files=[_LICENCE_FILE], lenient=True)
    return Convergence([files_look(planned["files"]), daemon, driver], has_work=planned["missing"])


def lacks_cuda_13(inputs: PlanInputs) -> list[str]:
    """For another role's plan: why a slice of an A10 cannot run programs built for CUDA 13, by the
    driver that works there or that it is to get. Empty for other nodes."""
    facts = inputs.hostvars.get(inputs.host, {}).get("ansible_facts") or {}
    works = (facts.get("trueup_gpu") or {}).get("user_space")
    version = str(works or inputs.variables.get("gpu_grid_version", gpu_support.GRID_DRIVER))
    reason = gpu_support.lacks_cuda_13(inputs.node, version)
    return [f"{reason} (docs/guides/configure.md)"] if reason else []


def _library(inputs: PlanInputs) -> str:
    """Of the driver's own version: there when the installer has been through."""
    folder = _LIBRARIES[inputs.node["package_manager"]]
    return f"{folder}/libnvidia-ml.so.{inputs.options['version']}"


def _running(inputs: PlanInputs) -> str:
    """The version of the driver that names GPUs here; empty where none does."""
    state = inputs.found.get("trueup_gpu") or {}
    return str(state["user_space"]) if state.get("gpus") else ""


def _kept(inputs: PlanInputs) -> str:
    keeps = inputs.options["working_driver"] == "keep"
    return _running(inputs) if keeps else ""


def _taken(version: str) -> Path:
    return kept(f"{version}.run")


def _pin(version: str) -> Path:
    return kept(f"{version}.sha256")


def _pinned(inputs: PlanInputs, url: str) -> str:
    """The sha256 that the controller has learned from Microsoft's host; empty before that."""
    version = inputs.options["version"]
    if not url.startswith(MICROSOFT):
        return ""
    if _pin(version).is_file():
        return _pin(version).read_text(encoding="ascii").strip()
    if inputs.found.get("taken"):
        return grid_installer.sha256_of(_taken(version), version)
    return ""


def _address(inputs: PlanInputs, manifest: Path) -> str:
    """Where the manifest says that the node's driver is.

    Raises:
        BadInput: the manifest cannot be read, is another one, or has no such driver.
    """
    node, options = inputs.node, inputs.options
    return grid_driver.choose(
        grid_driver.parse_manifest(read_manifest(manifest, options["manifest_sha256"])),
        branch=options["branch"],
        version=options["version"],
        distribution=node["distribution"] or "",
        distribution_version=node["distribution_version"] or "",
        documented=inputs.data["documented"].get(options["version"], []),
        unlisted_allowed=options["unlisted_os_allowed"],
    ).url


def _refused(inputs: PlanInputs) -> list[str]:
    node, options, version = inputs.node, inputs.options, inputs.options["version"]
    is_microsofts = options["url"].startswith(MICROSOFT) or not options["url"]
    is_known = is_microsofts or version in options["checksums"]
    needed = {"/": options["free_bytes"]}
    of_image, running = in_image(node, "NVIDIA"), _running(inputs)
    wrong = {
        f"gpu_grid: {node['vm_size'] or 'this machine'} is of the family {node['family']}, and the"
        " GRID driver is for nv_a10_v5: other GPUs get the role gpu_driver.": (
            node["family"] != gpu_support.GRID_FAMILY
        ),
        "gpu_grid: this machine shows no NVIDIA GPU: see lspci -d 10de:, or redeploy the VM.": (
            not node["gpus"]
        ),
        "gpu_grid: Secure Boot is on, and the kernel modules of the driver, built on this node,"
        " carry no signature that it accepts: deploy the VM without Secure Boot.": (
            node["secure_boot"] and not node["container"]
        ),
        f"gpu_grid: no sha256 is known for driver {version}, and gpu_grid_url is not Microsoft's"
        " host: put the sha256 into gpu_grid_checksums.": not is_known,
        f"gpu_grid: this Azure HPC image has NVIDIA's data-centre driver {of_image}, which an A10"
        " of this size cannot use: deploy the VM from an image of the distribution's"
        " own.": bool(of_image),
        f"gpu_grid: driver {running} runs here, of a GRID release before 18, which the hosts of NV"
        " A10 v5 take no longer (code 43 on Windows): remove it (nvidia-uninstall --silent),"
        " reboot, and run again.": bool(running) and grid_driver.is_too_old(running),
        f"gpu_grid: {free_of(node, '/')} bytes are free below / and the driver needs"
        f" {needed['/']}: make room.": not running and short_of(node, needed),
    }
    return [*sentences(wrong), *grid_driver.refusals(options["branch"], version)]
