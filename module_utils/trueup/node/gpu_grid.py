"""The role gpu_grid, planned: NVIDIA's GRID driver for the slices of an A10.

What Azure's manifest says of drivers is read in ``grid_driver``.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Dict, List, Tuple

from ..errors import BadInput
from ..plan import Asked, Plan, sentences
from . import grid_driver
from .system import free_of, headers, in_image, short_of

_MODPROBE = """\
# Written by trueup (role gpu_grid): nouveau would take the GPU before the GRID driver.
blacklist nouveau
blacklist lbm-nouveau
options nouveau modeset=0
"""
# Where the driver's libraries are; None for a system with neither apt nor dnf.
_LIBRARIES = {"apt": "/usr/lib/x86_64-linux-gnu", "dnf": "/usr/lib64", None: "/usr/lib64"}
_DOWNLOADS = "/var/tmp"  # noqa: S108 WHY: of the node, and the file's sha256 is compared


def programs(asked: Asked) -> Dict[str, Any]:
    """What the node is asked for, as arguments of program_facts."""
    return {"files": [_library(asked)]}


def plan(asked: Asked) -> Plan:
    """The driver of a node. Its address is in Azure's manifest, which is on the controller when it
    has been fetched: where a driver is to be installed the role plans again, with ``installing`` in
    ``asked.found``.

    Values: ``packages`` to build with, the ``library`` that is there when the driver is, and
    whether it is ``missing``; ``file``, its ``checksum`` (empty where nobody knows it),
    ``installer`` (an argv) and ``files`` as config_files takes them, that against nouveau first;
    ``manifest``, its path on the controller, and whether it ``is_fetched`` there; ``url``, empty
    before ``installing``.
    """
    refused = _refused(asked)
    if refused:
        return Plan(refused=refused)
    node, options = asked.node, asked.options
    version, container = options["version"], node["container"]
    file = f"{_DOWNLOADS}/NVIDIA-Linux-x86_64-{version}-grid-azure.run"
    sha256 = options["checksums"].get(version, "")
    licence = "".join(f"{name}={value}\n" for name, value in options["licence_settings"].items())
    manifest, is_remote = _manifest(asked)
    url = options["url"]
    if not url and asked.found.get("installing"):
        url = _address(asked, manifest)
    return Plan(
        values={
            # dkms is in EPEL on Enterprise Linux. A container has its host's kernel modules.
            "packages": ["gcc", "make", *([] if container else ["dkms", headers(node)])],
            "library": _library(asked),
            "missing": not asked.found["files"][_library(asked)],
            "file": file,
            "checksum": f"sha256:{sha256}" if sha256 else "",
            "installer": [
                *("sh", file, "--silent"),
                "--no-kernel-modules" if container else "--dkms",
                *options["installer_options"],
            ],
            "files": [
                {"path": "/etc/modprobe.d/trueup-gpu-grid.conf", "content": _MODPROBE},
                {
                    "path": "/etc/nvidia/gridd.conf",
                    "content": f"# Written by trueup (role gpu_grid).\n{licence}",
                },
            ],
            "manifest": str(manifest),
            "is_fetched": is_remote and not options["url"],
            "url": url,
        }
    )


def _library(asked: Asked) -> str:
    """Of the driver's own version: there when the installer has been through."""
    folder = _LIBRARIES[asked.node["package_manager"]]
    return f"{folder}/libnvidia-ml.so.{asked.options['version']}"


def _manifest(asked: Asked) -> Tuple[Path, bool]:
    """Where the manifest is on the controller, and whether it comes from elsewhere."""
    given: str = asked.options["manifest"]
    if "://" in given:
        return Path.home() / f".trueup-grid-{asked.options['manifest_sha256'][:12]}", True
    return Path(given).expanduser(), False


def _address(asked: Asked, manifest: Path) -> str:
    """Where the manifest says that the node's driver is.

    Raises:
        BadInput: the manifest cannot be read, is another one, or has no such driver.
    """
    node, options = asked.node, asked.options
    try:
        content = manifest.read_bytes()
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(str(error)) from error
    found, wanted = hashlib.sha256(content).hexdigest(), options["manifest_sha256"]
    if found != wanted.lower():
        raise BadInput(f"the driver manifest {manifest} has the sha256 {found}, expected {wanted}")
    return grid_driver.choose(
        grid_driver.parse_manifest(text),
        branch=options["branch"],
        version=options["version"],
        distribution=node["distribution"] or "",
        distribution_version=node["distribution_version"] or "",
        unlisted_allowed=options["unlisted_os_allowed"],
    ).url


def _refused(asked: Asked) -> List[str]:
    node, options, version = asked.node, asked.options, asked.options["version"]
    is_known = version in options["checksums"] or options["unverified_allowed"]
    needed = {"/": options["free_bytes"]}
    of_image = in_image(node, "NVIDIA")
    wrong = {
        f"gpu_grid: {node['vm_size'] or 'this machine'} is of the family {node['family']}, and the"
        " GRID driver is for nv_a10_v5: other GPUs get the role gpu_driver.": (
            node["family"] != "nv_a10_v5"
        ),
        "gpu_grid: this machine shows no NVIDIA GPU: see lspci -d 10de:, or redeploy the VM.": (
            not node["gpus"]
        ),
        "gpu_grid: Secure Boot is on, and the kernel modules of the driver, built on this node,"
        " carry no signature that it accepts: deploy the VM without Secure Boot.": (
            node["secure_boot"] and not node["container"]
        ),
        f"gpu_grid: no sha256 is known for driver {version}, and nobody publishes one: download it"
        " where you trust the way and put its sha256 into gpu_grid_checksums, or set"
        " gpu_grid_unverified_allowed to take download.microsoft.com at its word.": not is_known,
        f"gpu_grid: this Azure HPC image has NVIDIA's data-centre driver {of_image}, which an A10"
        " of this size cannot use: deploy the VM from an image of the distribution's"
        " own.": bool(of_image),
        f"gpu_grid: {free_of(node, '/')} bytes are free below / and the driver needs"
        f" {needed['/']}: make room.": short_of(node, needed),
    }
    of_branch = grid_driver.refusals(
        options["branch"], kernel=node["kernel"], cuda_needed=options["cuda_needed"]
    )
    return [*sentences(wrong), *of_branch]
