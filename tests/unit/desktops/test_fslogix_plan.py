"""The role fslogix, planned. Names, keys, types and data are typed in from Microsoft's reference as
the project's facts on Windows have it (FSLogix installation, Profile container values)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import role_plans
from trueup_controller.desktops import fslogix
from trueup_controller.desktops.fslogix import plan
from trueup_node.plan import PlanInputs

PROFILES = r"HKLM:\SOFTWARE\FSLogix\Profiles"
APPS = r"HKLM:\SOFTWARE\FSLogix\Apps"
RECORD = r"HKLM:\SOFTWARE\trueup\fslogix"
SHARE = r"\\stnx.file.core.windows.net\profiles"
NEWEST = "3.26.826.17182"
HOST = {
    "system": "windows",
    "family": "nv_a10_v5",
    "vm_size": "Standard_NV12ads_A10_v5",
    "os": "Windows 11 Enterprise multi-session 25H2",
}
RUNS = {"state": "started", "start_mode": "auto"}
NOTHING = {"frxsvc": None, "frxccds": None}
SIMPLE = {"Enabled": 1, "VHDLocations": [SHARE]}
# Dictionaries of fslogix_settings.
PARTS = ("profiles", "odfc", "apps", "logging", "cloud_cache", "object_specific")


def ask(
    registry: dict[str, Any] | None = None,
    services: dict[str, Any] | None = None,
    /,
    keys: dict[str, str] | None = None,
    node: dict[str, Any] | None = None,
    **options: Any,
) -> PlanInputs:
    """The role on a host of which windows_facts found this; by default a fresh one."""
    parts = {name: options.pop(name) for name in PARTS if name in options}
    options = {"defender_exclusions": False, "settings": parts, **options}
    found = {"registry": registry or {}, "services": services or NOTHING}
    asked = role_plans.asked("fslogix", HOST if node is None else node, found, **options)
    return replace(asked, secrets={"storage_keys": keys or {}})


def key(**values: Any) -> dict[str, Any]:
    """A key as windows_facts has it: numbers are DWORD, lists MULTI_SZ."""
    types = {int: "REG_DWORD", str: "REG_SZ", list: "REG_MULTI_SZ"}
    shown = {name: {"type": types[type(one)], "data": one} for name, one in values.items()}
    return {"values": shown, "keys": []}


def installed(version: str = NEWEST, **keys: dict[str, Any]) -> dict[str, Any]:
    return {APPS: key(InstallVersion=version), **keys}


def values(asked: PlanInputs) -> dict[str, Any]:
    planned = plan(asked)
    assert planned.refused == []
    return planned.as_result()


# ---- what is written ----------------------------------------------------------------------------


# ---- what is refused ----------------------------------------------------------------------------


# ---- what it needs besides ----------------------------------------------------------------------


# ---- storage keys -------------------------------------------------------------------------------


# ---- verified -----------------------------------------------------------------------------------


def test_stopped_services_are_started_where_nothing_is_installed() -> None:
    stopped = {"state": "stopped", "start_mode": "manual"}
    there = installed(**{PROFILES: key(Enabled=1, VHDLocations=[SHARE])})
    result = values(ask(there, {"frxsvc": stopped, "frxccds": RUNS}, profiles=SIMPLE))
    assert result["settings"]["services"] == [
        {"name": "frxsvc", "state": "started", "start_mode": "auto"}
    ]
    assert fslogix.RECORD == RECORD
