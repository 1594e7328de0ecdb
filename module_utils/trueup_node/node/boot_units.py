"""systemd's units that a node should have: services that jobs rely on, and the mounts of its boot.

A unit counts as missing if the node itself is set to start it, and it does not run. No list of the
controller is needed: an enabled service, a line of /etc/fstab and an enabled mount unit say so.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from . import tools
from .watched_log import Count

# Of Slurm, users, clocks, storage, licences and Azure's agent, by all names that distributions use.
_SERVICES = (
    *("munge", "slurmd", "sssd", "chrony", "chronyd", "autofs", "beegfs-client", "lnet"),
    *("nvidia-gridd", "walinuxagent", "waagent"),
)
# fstab's lines are wanted by the first two, unless they say noauto or x-systemd.automount.
_BOOT = {"local-fs.target", "remote-fs.target", "multi-user.target"}
_PROPERTIES = (
    *("Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "Where"),
    *("ConditionResult", "ConditionTimestampMonotonic", "WantedBy", "RequiredBy"),
)


def look(module: Any) -> Optional[List[Count]]:
    """The units that are missing, by entry of catalog/faults and unit; None without systemd.

    Args:
        module: the AnsibleModule, as ``tools.ask`` takes it.
    """
    services = [f"{name}.service" for name in _SERVICES]
    # Without --all a pattern finds no unit that is inactive.
    argv = ["systemctl", "show", "--all", f"--property={','.join(_PROPERTIES)}", "--"]
    response = tools.ask(module, [*argv, *services, "*.mount"])
    return missing(response.output) if response.ok else None


def missing(text: str) -> List[Count]:
    """The missing units of the output of ``systemctl show`` for _PROPERTIES."""
    rows = {(name, unit) for name, unit in map(_judged, _units(text)) if name}
    return [Count(name, unit, 1) for name, unit in sorted(rows)]


def _units(text: str) -> Iterator[Mapping[str, str]]:
    for block in text.split("\n\n"):
        yield dict(line.partition("=")[::2] for line in block.splitlines())


def _judged(unit: Mapping[str, str]) -> Tuple[str, str]:
    """The entry of a missing unit, and its name; of a mount its path. Empty where it is well."""
    values: Dict[str, str] = {name: unit.get(name, "") for name in _PROPERTIES}
    state = values["ActiveState"]
    if values["LoadState"] != "loaded" or _is_skipped(values):
        return "", ""
    if values["Id"].endswith(".mount"):
        is_of_boot = _BOOT & {*values["WantedBy"].split(), *values["RequiredBy"].split()}
        is_gone = state in ("inactive", "failed") and not values["Where"].startswith("/snap/")
        return ("mount_missing", values["Where"]) if is_of_boot and is_gone else ("", "")
    is_dead = state == "failed" or values["SubState"] == "auto-restart"
    if is_dead or (state == "inactive" and values["UnitFileState"].startswith("enabled")):
        return "service_not_running", values["Id"]
    return "", ""


def _is_skipped(values: Mapping[str, str]) -> bool:
    """Whether systemd looked at the unit's conditions, and left it out by them."""
    return values["ConditionResult"] == "no" and values["ConditionTimestampMonotonic"] != "0"
