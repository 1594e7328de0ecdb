"""Azure's published manifest of GPU drivers: which Linux GRID driver an operating system gets.

The manifest is NvidiaGPU/resources.json of github.com/Azure/azhpc-extensions: OS -> Version (an
operating system, such as Ubuntu 22.x) -> Driver (Type GRID) -> Version (Num, vGPUVersion, DirLink
or FwLink, SupportedOSVersions), newest first. No Ansible, files or network in here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from ..errors import BadInput, ParseError

# os-release's ID -> the manifest's name.
_NAMES = {
    "ubuntu": "Ubuntu",
    "almalinux": "RHEL/CentOS",
    "centos": "RHEL/CentOS",
    "rhel": "RHEL/CentOS",
    "rocky": "RHEL/CentOS",
}


@dataclass(frozen=True)
class GridDriver:
    """A driver of the manifest.

    Attributes:
        os_name: as the manifest names it, ``Ubuntu`` or ``RHEL/CentOS``.
        os_major: the major version of the operating system that its entry is for.
        version: version of the driver, e.g. ``570.211.01``.
        branch: vGPU (GRID) release, e.g. ``18.6``.
        url: where it is, preferably not behind a redirect.
        supported: what the manifest says of supported operating systems, in words.
    """

    os_name: str
    os_major: int
    version: str
    branch: str
    url: str
    supported: str


def parse_manifest(text: str) -> tuple[GridDriver, ...]:
    """The GRID drivers for Linux, in the manifest's order.

    Raises:
        ParseError: not JSON, or without a GRID driver for Linux in this structure.
    """
    try:
        found = [
            _driver(entry, row)
            for system in json.loads(text)["OS"]
            if system["Name"] == "Linux"
            for entry in system["Version"]
            for driver in entry["Driver"]
            if driver["Type"] == "GRID"
            for row in driver["Version"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ParseError(
            f"the driver manifest is not as expected: {type(error).__name__} {error}"
        ) from error
    if not found:
        raise ParseError("the driver manifest has no GRID driver for Linux")
    return tuple(found)


def _driver(entry: dict[str, Any], row: dict[str, Any]) -> GridDriver:
    return GridDriver(
        os_name=entry["Name"],
        os_major=int(entry["Version"].split(".")[0]),
        version=row["Num"],
        branch=row["vGPUVersion"],
        url=row.get("DirLink") or row["FwLink"],
        supported=row.get("SupportedOSVersions", "").strip(),
    )


def choose(
    drivers: tuple[GridDriver, ...],
    *,
    branch: str,
    version: str,
    distribution: str,
    distribution_version: str,
    unlisted_allowed: bool = False,
) -> GridDriver:
    """The driver of a branch for an operating system.

    The entry of the system's own major version counts. Where there is none (Ubuntu 24), that of the
    newest older one does, if the driver's supported systems name this one (``24.04``).

    Raises:
        BadInput: there is none, it is for other systems, or its version is not the one expected.
    """
    system = f"{distribution} {distribution_version}"
    name = _NAMES.get(distribution)
    major = int(re.split(r"\D", distribution_version + ".")[0] or 0)
    mine = [row for row in drivers if row.os_name == name and row.os_major <= major]
    of_branch = [row for row in mine if row.branch == branch]
    if not of_branch:
        offered = ", ".join(dict.fromkeys(row.branch for row in mine)) or "none"
        raise BadInput(
            f"the driver manifest has no GRID {branch} for {system} (it has {offered}): choose "
            "one of them as gpu_grid_branch, with its gpu_grid_version"
        )
    driver = max(of_branch, key=lambda row: row.os_major)
    named = re.search(rf"(?<![\d.]){re.escape(distribution_version)}(?![\d.])", driver.supported)
    if driver.os_major != major and not named and not unlisted_allowed:
        raise BadInput(
            f"GRID {branch} is not for {system} by the driver manifest "
            f"({driver.supported}): install one of these systems, or set "
            "gpu_grid_unlisted_os_allowed where NVIDIA supports it"
        )
    if driver.version != version:
        raise BadInput(
            f"GRID {branch} is driver {driver.version} by the manifest, and gpu_grid_version is "
            f"{version}: correct the one that is wrong"
        )
    return driver


def refusals(branch: str, *, kernel: str, cuda_needed: bool) -> list[str]:
    """Why a branch cannot work on an A10 with this kernel, a sentence each.

    Source: MicrosoftDocs/azure-compute-docs, pages on GPU drivers for Linux and the NVads A10 v5.
    """
    match = re.fullmatch(r"(\d+)\.(\d+)", branch)
    if match is None:
        return [f"gpu_grid_branch is {branch}: give a vGPU release in quotes, such as '18.6'."]
    major = int(match.group(1))
    found = []
    if major < 17:
        found.append(
            f"GRID {branch} does not know the NV A10 v5, which needs 17 or newer: "
            "set gpu_grid_branch to '18.6'."
        )
    if branch == "17.5" and cuda_needed:
        found.append(
            "GRID 17.5 breaks CUDA on the A10: set gpu_grid_branch to '18.6', or where nothing "
            "uses CUDA gpu_grid_cuda_needed to false."
        )
    running = tuple(int(part) for part in re.findall(r"\d+", kernel)[:2])
    if major in (16, 17) and running >= (6, 11):
        found.append(
            f"GRID {branch} does not work on kernel {kernel}, which is 6.11 or newer: set "
            "gpu_grid_branch to '18.6', or boot an older kernel."
        )
    return found
