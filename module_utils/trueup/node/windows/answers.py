"""What modules of ansible.windows answer, as plans read it (action windows_facts)."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional

from ...errors import BadInput

_HIVE = re.compile(r"(HK(?:CC|CR|CU|LM|U)):?\\(.+)", re.IGNORECASE)
# win_group_membership.ps1, ansible.windows 3.3.0.
_NO_GROUP = "Could not find local group "


def provider_path(path: str) -> str:
    """A registry key as ansible.windows takes it: ``HKLM:\\SOFTWARE\\...``.

    Raises:
        BadInput: it does not begin with a hive.
    """
    found = _HIVE.fullmatch(path.rstrip("\\"))
    if found is None:
        raise BadInput(f"registry key {path}: it begins with no hive, such as HKLM:\\")
    return f"{found[1].upper()}:\\{found[2]}"


def registry_key(answer: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """What win_reg_stat says of a key: ``values`` by name with ``type`` and ``data``, and the names
    of its ``keys``; None where the key is not there.

    The data of REG_MULTI_SZ is a list; that of REG_EXPAND_SZ is not expanded, as it is set.
    """
    if not answer.get("exists"):
        return None
    values = {
        str(name): {"type": value["type"], "data": value["raw_value"]}
        for name, value in (answer.get("properties") or {}).items()
        # A value without data, which GetValue cannot tell from one that is not there.
        if value is not None
    }
    return {"values": values, "keys": list(answer.get("sub_keys") or [])}


def service(answer: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """What win_service_info says of a service by its name: ``state`` (started, stopped, ...) and
    ``start_mode`` (auto, delayed, manual, disabled); None where there is none."""
    for one in answer.get("services") or []:
        return {"state": one["state"], "start_mode": one["start_mode"]}
    return None


def file(answer: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """What win_stat says of a path: ``size`` in bytes, ``is_dir``, and ``sha256`` where that was
    asked for; None where nothing is there."""
    stat = answer["stat"]
    if not stat["exists"]:
        return None
    found = {"size": stat.get("size"), "is_dir": bool(stat["isdir"])}
    return {**found, "sha256": stat["checksum"]} if "checksum" in stat else found


def group_members(answer: Mapping[str, Any]) -> List[str]:
    """The members of a local group, by what win_group_membership in check mode says when it is told
    to add one: that one is among them as it says, at the end."""
    added = [str(name) for name in answer.get("added") or []]
    members = [str(name) for name in answer.get("members") or []]
    return members[: len(members) - len(added)]


def no_such_group(answer: Mapping[str, Any]) -> bool:
    """Whether it failed because there is no such local group."""
    return bool(answer.get("failed")) and str(answer.get("msg", "")).startswith(_NO_GROUP)
