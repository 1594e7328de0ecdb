"""Azure's published manifest of GPU drivers: which GRID driver an operating system gets.

The manifest is NvidiaGPU/resources.json of github.com/Azure/azhpc-extensions: OS -> Version (an
operating system, such as Ubuntu 22.x, or 2016/10 for all of Windows that are current) -> Driver
(Type GRID) -> Version (Num, vGPUVersion, DirLink or FwLink, SupportedOSVersions), newest first. No
Ansible, files or network in here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from trueup_node.errors import BadInput, ParseError

if TYPE_CHECKING:
    from collections.abc import Sequence

# os-release's ID -> the manifest's name.
_NAMES = {
    "ubuntu": "Ubuntu",
    "almalinux": "RHEL/CentOS",
    "centos": "RHEL/CentOS",
    "rhel": "RHEL/CentOS",
    "rocky": "RHEL/CentOS",
}

# The manifest's name for every Windows but Server 2012 R2.
_WINDOWS = "2016/10"

# The oldest GRID release that hosts of the A10 take, and the branch of its drivers.
_OLDEST_RELEASE, _OLDEST_BRANCH = 18, 570


class GridDriver(NamedTuple):
    """A driver of the manifest.

    Attributes:
        os_name: as the manifest names it, ``Ubuntu``, ``RHEL/CentOS`` or ``2016/10`` (Windows).
        os_major: the major version of the operating system that its entry is for; 0 for Windows.
        version: version of the driver, e.g. ``570.211.01``.
        branch: vGPU (GRID) release, e.g. ``18.6``.
        url: where it is, preferably not behind a redirect.
        supported: the manifest's text on supported operating systems.
    """

    os_name: str
    os_major: int
    version: str
    branch: str
    url: str
    supported: str


def parse_manifest(text: str, system: str = "Linux") -> tuple[GridDriver, ...]:
    """The GRID drivers for ``Linux`` or ``Windows``, in the manifest's order.

    Raises:
        ParseError: not JSON, or without a GRID driver for that in this structure.
    """
    try:
        drivers = [
            _driver(entry, row)
            for system_entry in json.loads(text)["OS"]
            if system_entry["Name"] == system
            for entry in system_entry["Version"]
            if system == "Linux" or entry["Name"] == _WINDOWS
            for driver in entry["Driver"]
            if driver["Type"] == "GRID"
            for row in driver["Version"]
        ]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ParseError(
            f"the driver manifest is not as expected: {type(error).__name__} {error}"
        ) from error
    if not drivers:
        raise ParseError(f"the driver manifest has no GRID driver for {system}")
    return tuple(drivers)


def _driver(entry: dict[str, Any], row: dict[str, Any]) -> GridDriver:
    return GridDriver(
        os_name=entry["Name"],
        os_major=0 if entry["Name"] == _WINDOWS else int(entry["Version"].split(".")[0]),
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
    documented: Sequence[str] = (),
    unlisted_allowed: bool = False,
) -> GridDriver:
    """The driver of a branch for an operating system.

    The entry of the system's own major version counts. Where there is none (Ubuntu 24), that of the
    newest older one does, if the driver's supported systems name this one (``24.04``), or
    ``documented`` does: the systems of the driver by Microsoft's page, as ``RHEL/CentOS 9.6``.

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
    words = rf"(?<![\d.]){re.escape(distribution_version)}(?![\d.])"
    is_named = re.search(words, driver.supported) or f"{name} {distribution_version}" in documented
    if driver.os_major != major and not is_named and not unlisted_allowed:
        more = f", and by Microsoft's page {', '.join(documented)}" if documented else ""
        raise BadInput(
            f"GRID {branch} is not for {system} by the driver manifest "
            f"({driver.supported}{more}): install one of these systems, or set "
            "gpu_grid_unlisted_os_allowed where NVIDIA supports it"
        )
    return _of_version(driver, version, "gpu_grid")


def choose_for_windows(
    drivers: tuple[GridDriver, ...],
    *,
    branch: str,
    version: str,
    system: str,
    unlisted_allowed: bool = False,
) -> GridDriver:
    """The driver of a branch for a Windows, such as ``Windows 11 24H2`` or ``Windows Server 2025``.

    Raises:
        BadInput: there is none, it is for other systems, or its version is not the one expected.
    """
    driver = next((row for row in drivers if row.branch == branch), None)
    named = [row for row in drivers if system in row.supported.split(", ")]
    if driver is None or not (driver in named or unlisted_allowed):
        is_new = [row for row in named if not is_too_old(row.version)]
        offered = ", ".join(f"{row.branch} ({row.version})" for row in is_new) or "none"
        raise BadInput(
            f"the driver manifest has no GRID {branch} for {system} (it has {offered}): choose one "
            "of them as windows_gpu_branch, with its windows_gpu_version, or set "
            "windows_gpu_unlisted_os_allowed where NVIDIA supports it"
        )
    return _of_version(driver, version, "windows_gpu")


def _of_version(driver: GridDriver, version: str, role: str) -> GridDriver:
    if driver.version != version:
        raise BadInput(
            f"GRID {driver.branch} is driver {driver.version} by the manifest, and {role}_version "
            f"is {version}: correct the one that is wrong"
        )
    return driver


def is_too_old(version: str) -> bool:
    """Whether a driver is of a branch before R570, which is GRID 18."""
    return int(version.partition(".")[0]) < _OLDEST_BRANCH


def refusals(release: str, version: str, role: str = "gpu_grid") -> list[str]:
    """Why a release cannot work on an A10, a sentence each; ``role`` has the two as options.

    Source: MicrosoftDocs/azure-compute-docs, pages on GPU drivers of N-series VMs, 2026-05-06.
    """
    if re.fullmatch(r"[0-9]+\.[0-9]+", release) is None:
        return [f"{role}_branch is {release}: give a vGPU release in quotes, such as '18.6'."]
    if re.fullmatch(r"[0-9]+(\.[0-9]+){1,2}", version) is None:
        return [f"{role}_version is {version}: give a driver's version, such as 570.211.01."]
    if float(release) < _OLDEST_RELEASE or is_too_old(version):
        reason = f"GRID {release} with driver {version} does not work on NV A10 v5"
        needs = "whose hosts take 18 (R570) or newer"
        return [f"{reason}, {needs}: leave {role}_branch and {role}_version at their defaults."]
    return []
