"""The CPU time that a process may use: the quota of its control groups (cgroups(7))."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, Optional, Tuple

from .sysfs import text_of

NO_QUOTA = "none"


def cpu_quota(procfs_root: str = "/proc", sysfs_root: str = "/sys") -> Optional[str]:
    """``none``, or the lowest quota of this process's control groups as ``1.5 cores``; None where
    the kernel does not name them.

    Args:
        procfs_root: where the machine's procfs stands.
        sysfs_root: the same of sysfs.
    """
    groups = text_of(Path(procfs_root, "self", "cgroup")).splitlines()
    if not groups:
        return None
    mount = Path(sysfs_root, "fs", "cgroup")
    shares = [share for group in groups for share in _shares(mount, group)]
    if not shares:
        return NO_QUOTA
    lowest = f"{min(shares):.4g}"
    return f"{lowest} core" + ("" if lowest == "1" else "s")


def _shares(mount: Path, group: str) -> Iterator[float]:
    """The quotas of a group and of those above it, in cores.

    Args:
        group: a line of /proc/PID/cgroup: hierarchy, controllers and path.
    """
    fields = group.split(":", 2)
    if len(fields) != len(("hierarchy", "controllers", "path")):
        return
    hierarchy, controllers, path = fields
    names: Tuple[str, ...]
    if hierarchy == "0":
        folder, names = mount, ("cpu.max",)
    elif "cpu" in controllers.split(","):
        folder, names = mount / "cpu", ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    else:
        return
    # In a container the path may be that of the host, which is not mounted there.
    parts = [part for part in Path(path).parts if part not in {"/", ".."}]
    for depth in range(len(parts) + 1):
        text = " ".join(text_of(folder.joinpath(*parts[:depth], name)) for name in names)
        quota, _, period = text.partition(" ")
        # "max" and -1 are no quota.
        if quota.isdecimal() and period.isdecimal() and int(quota) and int(period):
            yield int(quota) / int(period)
