"""Results of modules of ansible.windows, as plans read them (action windows_facts)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trueup_node.errors import BadInput

_HIVE = re.compile(r"(HK(?:CC|CR|CU|LM|U)):?\\(.+)", re.IGNORECASE)
# win_group_membership.ps1, ansible.windows 3.3.0.
_NO_GROUP = "Could not find local group "


def provider_path(path: str) -> str:
    """A registry key as ansible.windows takes it: ``HKLM:\\SOFTWARE\\...``.

    Raises:
        BadInput: it does not begin with a hive.
    """
    match = _HIVE.fullmatch(path.rstrip("\\"))
    if match is None:
        raise BadInput(f"registry key {path}: it begins with no hive, such as HKLM:\\")
    return f"{match[1].upper()}:\\{match[2]}"


def registry_key(response: Mapping[str, Any]) -> dict[str, Any] | None:
    """A key from win_reg_stat's result: ``values`` by name with ``type`` and ``data``, and the
    names of its ``keys``; None where the key is not there.

    The data of REG_MULTI_SZ is a list; that of REG_EXPAND_SZ is not expanded, as it is set.
    """
    if not response.get("exists"):
        return None
    values = {
        str(name): {"type": value["type"], "data": value["raw_value"]}
        for name, value in (response.get("properties") or {}).items()
        # A value without data, which GetValue cannot tell from one that is not there.
        if value is not None
    }
    return {"values": values, "keys": list(response.get("sub_keys") or [])}


def service(response: Mapping[str, Any]) -> dict[str, Any] | None:
    """A service from win_service_info's result: ``state`` (started, stopped, ...) and
    ``start_mode`` (auto, delayed, manual, disabled); None where there is none."""
    for row in response.get("services") or []:
        return {"state": row["state"], "start_mode": row["start_mode"]}
    return None


def file(response: Mapping[str, Any]) -> dict[str, Any] | None:
    """A path from win_stat's result: ``size`` in bytes, ``is_dir``, and ``sha256`` if requested;
    None where nothing is there."""
    stat = response["stat"]
    if not stat["exists"]:
        return None
    facts = {"size": stat.get("size"), "is_dir": bool(stat["isdir"])}
    return {**facts, "sha256": stat["checksum"]} if "checksum" in stat else facts


def group_members(response: Mapping[str, Any]) -> list[str]:
    """The members of a local group, from win_group_membership's result in check mode for adding
    one: that one is among them, at the end."""
    added = [str(name) for name in response.get("added") or []]
    members = [str(name) for name in response.get("members") or []]
    return members[: len(members) - len(added)]


def no_such_group(response: Mapping[str, Any]) -> bool:
    """Whether it failed because there is no such local group."""
    return bool(response.get("failed")) and str(response.get("msg", "")).startswith(_NO_GROUP)
