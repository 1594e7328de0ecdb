r"""The role windows_gpu, planned: NVIDIA's GRID driver and the graphics policies of a Windows host.

The driver is chosen as in gpu_grid (``grid_driver``, ``grid_source``). A change of a driver or
policy is noted in the registry (``HKLM:\SOFTWARE\trueup``), so that a later run knows whether the
host was restarted since.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueup_node.errors import BadInput
from trueup_node.plan import Plan, PlanInputs, sentences

from ..plans import grid_driver, grid_source
from ..system import catalog_of
from . import authenticode
from .registry import Value, changes, data_of

# Policies of Remote Desktop, and its settings that are none.
_POLICIES = r"HKLM:\SOFTWARE\Policies\Microsoft\Windows NT\Terminal Services"
_STATIONS = r"HKLM:\SYSTEM\CurrentControlSet\Control\Terminal Server\WinStations"
_NOTES, _CHANGED_AT = r"HKLM:\SOFTWARE\trueup", "windows_gpu_changed_at"
# The role's own values in the two keys; undeclared ones are removed.
_OWNED = {
    _POLICIES: (
        "bEnumerateHWBeforeSW",
        "AVCHardwareEncodePreferred",
        "AVC444ModePreferred",
        "HEVCHardwareEncodePreferred",
        "ImageQuality",
        "fEnableRemoteFXAdvancedRemoteApp",
        # Not configured is on.
        "fEnableWddmDriver",
    ),
    _STATIONS: ("DWMFRAMEINTERVAL",),
}
# Milliseconds between frames that give 60 a second; without the value there are 30.
_INTERVAL_OF_60 = 15
# Users of the host cannot write there, as they can in Windows' temporary folder.
_FOLDER = r"C:\Program Files\trueup"
# How NVIDIA's installer ends (Azure's extension for its drivers, resources and codes).
# A restart is due after 1 and 3010; here it is due after each change.
_INSTALLED = (0, 1, 3010)
_FAILURES = {
    100: "it found no GPU that it is for, or failed",
    240: "it did not end in time",
    840: "it did not end in time",
}


def asks(_: PlanInputs) -> dict[str, dict[str, Any]]:
    """Which driver works here, and which policies there are."""
    keys = [*_OWNED, _NOTES]
    return {"windows_gpu_facts": {"settle_seconds": 0}, "windows_facts": {"registry": keys}}


def plan(inputs: PlanInputs) -> Plan:
    """The driver and the policies of a host.

    Values: ``kept``, the version of the driver that works here and stays (empty where none does);
    ``changes``, whether anything is to change; ``driver``, the arguments of ``address`` and
    windows_gpu_driver; ``registry``, the due items as windows_settings takes them; ``expected`` for
    windows_gpu_facts.
    """
    refused = _refused(inputs)
    if refused:
        return Plan(refused=refused)
    options, state, registry = inputs.options, inputs.found["trueup_gpu"], inputs.found["registry"]
    kept_version, version = _kept(inputs), options["version"]
    missing = not kept_version and state["kernel_module"] != version
    due = changes(_declared(inputs), registry, _OWNED)
    changed_at = data_of(registry, _NOTES, _CHANGED_AT) or ""
    if missing or due:
        changed_at = state["asked_at"]
        note = Value(_NOTES, _CHANGED_AT, "string", changed_at)
        due.append({**note.as_item(), "state": "present"})
    return Plan(
        values={
            "kept": kept_version,
            "changes": bool(due),
            "driver": {"missing": missing, **_driver(inputs)},
            "registry": due,
            "expected": {
                "driver_version": kept_version or version,
                "gpus": inputs.node["gpu_count_expected"] or 0,
                "gpu_memory_gib": catalog_of(inputs.node).get("gpu_memory_gib"),
                "booted_after": changed_at,
                "changes": bool(due),
            },
        }
    )


def _declared(inputs: PlanInputs) -> list[Value]:
    """The values of the policies. Without AVC hardware encoding a client that cannot
    take HEVC would get none."""
    video = inputs.options["video"]
    numbers = {
        "bEnumerateHWBeforeSW": 1,
        "AVCHardwareEncodePreferred": 1,
        **({"AVC444ModePreferred": 1, "ImageQuality": 2} if video == "avc444" else {}),
        **({"HEVCHardwareEncodePreferred": 1} if video == "hevc" else {}),
        **({"fEnableRemoteFXAdvancedRemoteApp": 1} if _serves_remoteapp(inputs) else {}),
    }
    declared = [Value(_POLICIES, name, "dword", data) for name, data in numbers.items()]
    return [*declared, Value(_STATIONS, "DWMFRAMEINTERVAL", "dword", _INTERVAL_OF_60)]


def _driver(inputs: PlanInputs) -> dict[str, Any]:
    options, version = inputs.options, inputs.options["version"]
    documented = inputs.data["documented"].get(version) or {}
    sha256 = options["manifest_sha256"]
    manifest, is_remote = grid_source.manifest_path(options["manifest"], sha256)
    file = f"{_FOLDER}\\{version}.exe"
    return {
        "branch": options["branch"],
        "version": version,
        "system": system_of(inputs.node),
        "unlisted_allowed": options["unlisted_os_allowed"],
        "url": options["url"] or documented.get("url", ""),
        "sha256": options["checksums"].get(version, "").lower(),
        "manifest": {
            "url": options["manifest"] if is_remote else "",
            "path": str(manifest),
            "sha256": sha256,
        },
        "taken": str(grid_source.kept(f"{version}-windows.exe")),
        "pin": str(grid_source.kept(f"{version}-windows.sha256")),
        "file": file,
        "installer": [file, "-s", "-noreboot"],
    }


def system_of(node: Mapping[str, Any]) -> str:
    """A host's Windows in the words of Azure's manifest: ``Windows 11 25H2``, ``Windows Server
    2025``; as the node says it where that is none of these."""
    says = str(node["os"] or "")
    server = re.search(r"Windows Server (20\d\d)\b", says)
    if server:
        return f"Windows Server {server[1]}"
    client = re.search(r"Windows (1\d)\b.{0,100}\b(\d\dH[12])\b", says)
    return f"Windows {client[1]} {client[2]}" if client else says


def address(driver: Mapping[str, Any]) -> str:
    """Where a plan's ``driver`` is; of one that is in no address of the plan, by the manifest,
    which is on the controller.

    Raises:
        BadInput: the manifest cannot be read, is another one, or has no such driver.
    """
    url: str = driver["url"]
    if url:
        return url
    manifest = driver["manifest"]
    text = grid_source.read_manifest(Path(manifest["path"]), manifest["sha256"])
    return grid_driver.choose_for_windows(
        grid_driver.parse_manifest(text, "Windows"),
        branch=driver["branch"],
        version=driver["version"],
        system=driver["system"],
        unlisted_allowed=driver["unlisted_allowed"],
    ).url


def pinned(driver: Mapping[str, Any], url: str) -> tuple[str, bool]:
    """The sha256 that a driver's file must have, and whether the controller has to download it
    first to learn that. Both are empty for an address that is taken at its word.

    Raises:
        BadInput: the download is no program of NVIDIA's, or the pin is no sha256.
    """
    pin, taken = Path(driver["pin"]), Path(driver["taken"])
    if driver["sha256"] or not url.startswith(grid_source.MICROSOFT):
        return driver["sha256"], False
    if pin.is_file():
        sha256 = pin.read_text(encoding="ascii", errors="replace").strip()
        if re.fullmatch(r"[0-9a-f]{64}", sha256) is None:
            raise BadInput(f"{pin} holds no sha256: remove it, so that the driver is taken again")
        return sha256, False
    if taken.is_file():
        return authenticode.sha256_of(taken), False
    return "", True


def ended(status: int, driver: Mapping[str, Any]) -> str:
    """Why the installer has failed, by its exit status; empty where it has not."""
    if status in _INSTALLED:
        return ""
    reason = _FAILURES.get(status, "see C:\\Windows\\INF\\setupapi.dev.log on the host")
    return f"NVIDIA's installer of driver {driver['version']} ended with status {status}: {reason}"


def _works(inputs: PlanInputs) -> str:
    """The version of the driver that names GPUs here; empty where none does."""
    state = inputs.found["trueup_gpu"]
    return str(state["user_space"]) if state["gpus"] else ""


def _kept(inputs: PlanInputs) -> str:
    return _works(inputs) if inputs.options["working_driver"] == "keep" else ""


def _refused(inputs: PlanInputs) -> list[str]:
    node, options = inputs.node, inputs.options
    if node.get("system") != "windows" or node["family"] != "nv_a10_v5":
        size = node["vm_size"] or "this machine"
        host = f"{size} is of the family {node['family']} and runs {node['os']}"
        return [f"windows_gpu: {host}, and the role is for NV A10 v5 with Windows."]
    wrong = {
        "windows_gpu: this host shows no NVIDIA GPU: see Device Manager, or redeploy the VM.": (
            not inputs.found["trueup_gpu"]["gpus_on_pci"]
        ),
        "windows_gpu: RemoteApp takes no HEVC: set windows_gpu_video to avc444 or avc420, or serve"
        " desktops alone (avd_session_host_groups).": (
            options["video"] == "hevc" and _serves_remoteapp(inputs)
        ),
    }
    return [
        *sentences(wrong),
        *_unfit(inputs),
        *grid_driver.refusals(options["branch"], options["version"], "windows_gpu"),
    ]


def _serves_remoteapp(inputs: PlanInputs) -> bool:
    groups = inputs.variables.get("avd_session_host_groups") or []
    return any(group["type"] == "RemoteApp" for group in groups)


def _unfit(inputs: PlanInputs) -> list[str]:
    """Problems of the present driver, and of the requested one."""
    options, version = inputs.options, inputs.options["version"]
    works, keeps = _works(inputs), options["working_driver"] == "keep"
    has = works or inputs.found["trueup_gpu"]["kernel_module"] or ""
    is_microsofts = options["url"].startswith(grid_source.MICROSOFT) or not options["url"]
    is_known = is_microsofts or version in options["checksums"]
    page = inputs.data["documented"].get(version) or {}
    systems, system = page.get("systems", []), system_of(inputs.node)
    is_due = not (keeps and works) and has != version
    is_unlisted = page and system not in systems and not options["unlisted_os_allowed"]
    return sentences(
        {
            f"windows_gpu: driver {has} is installed here, of a GRID release before 18, which the"
            " hosts of NV A10 v5 take no longer (code 43): set windows_gpu_working_driver to"
            f" replace, and {version} is installed over it.": (
                has and keeps and grid_driver.is_too_old(has)
            ),
            f"windows_gpu: no sha256 is known for driver {version}, and windows_gpu_url is not"
            " Microsoft's host: put the sha256 into windows_gpu_checksums.": not is_known,
            f"windows_gpu: GRID {options['branch']} is not for {system} by Microsoft's page"
            f" ({', '.join(systems)}): choose windows_gpu_branch and windows_gpu_version of the"
            " manifest (docs/guides/windows_gpu.md), or set windows_gpu_unlisted_os_allowed where"
            " NVIDIA supports it.": is_due and is_unlisted,
            f"windows_gpu: driver {version} is GRID {page.get('branch')} by Microsoft's page, and"
            f" windows_gpu_branch is {options['branch']}: correct the one that is wrong.": (
                page and page["branch"] != options["branch"]
            ),
        }
    )
