"""A host's facts for Slurm: its cgroups, plugins, ids and names. Nothing is changed."""

from __future__ import annotations

import os
import pwd
import re
import socket
from typing import Any, Iterable, List, Optional, Sequence, Tuple

from . import tools

# cgroup version 1: controllers of Slurm's proctrack/cgroup and task/cgroup (cgroup.conf(5)).
_CONTROLLERS = ("cpuset", "devices", "freezer", "memory")
# linux/capability.h
_CAP_SYS_NICE = 23
_PLUGINS = {"mpi_pmix", "cgroup_v1", "cgroup_v2"}
_LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


def look(module: Any, folder: str) -> dict[str, Any]:
    """A host's facts, as the fact ``trueup_slurm`` has them.

    Args:
        module: the AnsibleModule.
        folder: where Slurm's plugins are, or will be.
    """
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as stream:
        kind, reason = cgroup(stream.read())
    plugins = {name[:-3] for name in _entries(folder) if name.endswith(".so")}
    library = any("libnvidia-ml.so.1" in _entries(directory) for directory in _LIBRARIES)
    return {
        "hostname": socket.gethostname().split(".")[0],
        "cgroup": kind,
        "cgroup_why": reason,
        "may_bind": _may_bind(),
        "plugins": sorted(plugins & _PLUGINS),
        "nvml": "gpu_nvml" in plugins and library,
        "version": _version(module),
        "slurm_uid": _uid(),
    }


def unresolved(names: Iterable[str]) -> List[str]:
    """The hosts' names that are not known here."""
    return [name for name in names if not _resolves(name)]


def cgroup(mounts: str) -> Tuple[str, str]:
    """``v1``, ``v2`` or ``none``, and why it is none, by the text of /proc/self/mounts."""
    old, unified = _mounted(mounts)
    if unified and unified[-1][0] == "/sys/fs/cgroup":
        if unified[-1][1] == "rw":
            return "v2", ""
        return "none", "cgroup version 2 is mounted read-only"
    if any(_controllers(mount_point) for mount_point, _ in unified):
        return "none", "cgroup versions 1 and 2 share the controllers"
    if not any(name in old for name in _CONTROLLERS):
        return "none", "no cgroups are mounted"
    lacking = [name for name in _CONTROLLERS if old.get(name) != "rw"]
    if lacking:
        return "none", f"cgroup version 1, not writable: {', '.join(lacking)}"
    return "v1", ""


def _mounted(mounts: str) -> Tuple[dict[str, str], List[Tuple[str, str]]]:
    """The controllers of version 1, and the places of version 2; each with ``rw`` or ``ro``."""
    old: dict[str, str] = {}
    unified = []
    for line in mounts.splitlines():
        _, mount_point, kind, options = line.split()[:4]
        words = options.split(",")
        if kind == "cgroup":
            old.update(dict.fromkeys(words, words[0]))
        elif kind == "cgroup2":
            unified.append((mount_point, words[0]))
    return old, unified


def _controllers(mount_point: str) -> List[str]:
    try:
        with open(os.path.join(mount_point, "cgroup.controllers"), encoding="ascii") as stream:
            return stream.read().split()
    except OSError:
        return []


def _may_bind() -> bool:
    """Whether a daemon started by root here may set the CPUs of another user's processes."""
    with open("/proc/1/status", encoding="ascii", errors="replace") as stream:
        for line in stream:
            if line.startswith("CapBnd:"):
                return bool(int(line.split()[1], 16) >> _CAP_SYS_NICE & 1)
    return True


def _version(module: Any) -> Optional[str]:
    """Three numbers; None where there is no Slurm."""
    for program in ("slurmd", "slurmctld", "slurmdbd", "scontrol"):
        response = tools.ask(module, [program, "-V"], folders=["/usr/sbin", "/sbin"])
        match = re.search(r"(?<![0-9])[0-9]+\.[0-9]+\.[0-9]+", response.output)
        if match:
            return match.group()
    return None


def _entries(folder: str) -> Sequence[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _uid() -> Optional[int]:
    try:
        return pwd.getpwnam("slurm").pw_uid
    except KeyError:
        return None


def _resolves(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except OSError:
        return False
