"""Limits and kernel settings in force: compared with those wanted, and put in force.

``wanted`` may hold ``login`` (limits by name, as ulimit shows them), ``manager`` (systemd's
defaults by property), ``sysctl`` (by name), ``sunrpc_tcp_slots``, ``nfs_read_ahead_kib``,
``transparent_hugepages`` and ``services_off``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable

from .sysfs import text_of

Run = Callable[..., str]

# ulimit's letters.
LETTERS = {"memlock": "l", "stack": "s", "nofile": "n"}
# A user that every system has, with limits as any other's.
LOGIN = "nobody"
UNLIMITED = str(2**64 - 1)


def read_login(run: Run, names: list[str]) -> dict[str, str]:
    """Limits of a new login as PAM gives them: one word, or two where soft and hard differ."""
    script = "; ".join(f"ulimit -S{LETTERS[name]}; ulimit -H{LETTERS[name]}" for name in names)
    lines = run("su", "-s", "/bin/bash", LOGIN, "-c", script).split()
    limits = {}
    for name, soft, hard in zip(names, lines[::2], lines[1::2]):
        limits[name] = soft if soft == hard else f"{soft} (hard: {hard})"
    return limits


def read_manager(run: Run, names: list[str]) -> dict[str, str]:
    """Default limits of systemd's services."""
    text = run("systemctl", "show", *(f"--property={name}" for name in names))
    limits = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {name: "infinity" if value == UNLIMITED else value for name, value in limits.items()}


def sysctl_path(root: str, name: str) -> Path:
    """The file of a setting; a dot in an interface's name is written as a slash (sysctl(8))."""
    return Path(root, "proc/sys", name.translate(str.maketrans("./", "/.")))


def read_hugepages(root: str) -> str:
    """The chosen word among "always [madvise] never"; empty where the kernel has none."""
    chosen = re.search(
        r"\[(\w+)\]", text_of(Path(root, "sys/kernel/mm/transparent_hugepage/enabled"))
    )
    return chosen.group(1) if chosen else ""


def nfs_devices(root: str) -> list[str]:
    """Device numbers of the NFS mounts, column DEV of the kernel's list."""
    rows = [line.split() for line in text_of(Path(root, "proc/fs/nfsfs/volumes")).splitlines()]
    if not rows:
        return []
    column = rows[0].index("DEV")
    return sorted({row[column] for row in rows[1:]})


def services_on(run: Run, units: list[str]) -> list[str]:
    """Those of the units that are there and run or start at boot."""
    if not units:
        return []
    property_option = "--property=Id,LoadState,ActiveState,UnitFileState"
    text = run("systemctl", "show", property_option, "--", *units)
    active_units = []
    for block in text.strip().split("\n\n"):
        row = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        on = row.get("ActiveState") in ("active", "activating", "reloading")
        if row.get("LoadState") == "loaded" and (on or row.get("UnitFileState") == "enabled"):
            active_units.append(row["Id"])
    return sorted(set(active_units))


def compare(limits: dict[str, Any], run: Run, root: str = "/") -> dict[str, tuple[str, str]]:
    """The differences: a name such as "sysctl vm.zone_reclaim_mode" to (expected, actual)."""
    pairs: dict[str, tuple[str, str]] = {}
    for kind, label, read in (("login", "login", read_login), ("manager", "systemd", read_manager)):
        if limits.get(kind):
            actual = read(run, list(limits[kind]))
            for name, value in limits[kind].items():
                pairs[f"{label} {name}"] = (value, actual.get(name, "nothing"))
    pairs.update(_of_kernel(limits, root))
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _of_kernel(limits: dict[str, Any], root: str) -> dict[str, tuple[str, str]]:
    """The same for settings that the kernel shows in files: (expected, actual)."""
    pairs: dict[str, tuple[str, str]] = {}
    for name, value in (limits.get("sysctl") or {}).items():
        text = " ".join(text_of(sysctl_path(root, name)).split())
        pairs[f"sysctl {name}"] = (str(value), text or "no such setting")
    slots = text_of(sysctl_path(root, "sunrpc.tcp_slot_table_entries"))
    # Where sunrpc is not loaded yet, modprobe.d sets it when it is.
    if limits.get("sunrpc_tcp_slots") and slots:
        pairs["sysctl sunrpc.tcp_slot_table_entries"] = (str(limits["sunrpc_tcp_slots"]), slots)
    if limits.get("nfs_read_ahead_kib"):
        for device in nfs_devices(root):
            text = text_of(Path(root, "sys/class/bdi", device, "read_ahead_kb"))
            expected = str(limits["nfs_read_ahead_kib"])
            pairs[f"NFS read-ahead {device}"] = (expected, text or "no such device")
    if limits.get("transparent_hugepages"):
        found_word = read_hugepages(root) or "no transparent huge pages in this kernel"
        pairs["transparent huge pages"] = (limits["transparent_hugepages"], found_word)
    return pairs


def sentences(differences: dict[str, tuple[str, str]]) -> list[str]:
    """Differences, in the order of their names."""
    return [
        f"{name}: expected {expected}, found {actual}."
        for name, (expected, actual) in sorted(differences.items())
    ]


def enforce(differences: dict[str, tuple[str, str]], run: Run, root: str = "/") -> list[str]:
    """Apply the limits that need no reboot. A new login reads its limits by itself.

    Returns:
        Why files could not be written, a sentence each.
    """
    complaints = []
    for name, (expected, _) in differences.items():
        path = _file_of(name, root)
        if path:
            try:
                path.write_text(expected + "\n")
            except OSError as error:
                complaints.append(f"{path}: {error.strerror}.")
    if any(name.startswith("systemd ") for name in differences):
        run("systemctl", "daemon-reexec")
    if differences:
        run("udevadm", "control", "--reload")
    return complaints


def _file_of(name: str, root: str) -> Path | None:
    """The kernel's file of a difference; None where it has none."""
    kind, _, rest = name.partition(" ")
    if kind == "sysctl":
        return sysctl_path(root, rest)
    if name == "transparent huge pages":
        return Path(root, "sys/kernel/mm/transparent_hugepage/enabled")
    if name.startswith("NFS read-ahead "):
        return Path(root, "sys/class/bdi", name.rpartition(" ")[2], "read_ahead_kb")
    return None
