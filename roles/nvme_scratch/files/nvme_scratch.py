"""One XFS file system over a node's local NVMe disks: made, found again, or made anew.

Azure's local disks come back empty after a deallocation. This program runs at each boot before the
mount unit (trueup-nvme-scratch.service), and where the role applies it. It leaves a file system
with the expected UUID, over all local disks as RAID 0, or on the disk itself where there is one.

    nvme_scratch [--config FILE | --settings JSON]            do it
    nvme_scratch [--config FILE | --settings JSON] --wait     the same at boot: disks may come late
    nvme_scratch [--config FILE | --settings JSON] --check    say what it would do

It prints one JSON object. Exit status 0: done, or nothing to do. 1: refused or failed, and why
stands in `problems`; nothing has been changed when it refused.

What it may write to: disks of the chosen models that carry no partition, signature, mount, swap or
holder and are not open elsewhere; and members of an array of the role's own name that has lost a
member, since their content cannot be read any more. Everything else is a refusal that names it.
"""

from __future__ import annotations

import argparse
import fcntl
import grp
import json
import os
import pwd
import re
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable

CONFIG = "/etc/trueup/nvme_scratch.json"
LOCK = "/run/trueup-nvme-scratch.lock"
# Where a new file system is mounted for a moment, to set the permissions of its root.
ASIDE = "/run/trueup-nvme-scratch"
SECTOR_BYTES = 512

Run = Callable[..., str]


class Failed(Exception):
    """A command failed, or the machine is not as it must be; one sentence."""


@dataclass(frozen=True)
class Settings:
    """The configuration file."""

    models: tuple[str, ...]
    mount_point: str
    uuid: str
    array: str
    chunk_kib: int
    owner: str
    group: str
    mode: str
    expected_disks: int | None
    fewer_disks_allowed: bool
    existing: str
    wait_seconds: int

    def permissions(self) -> str:
        """Owner, group and mode of the file system's root, as in "root:root 1777"."""
        return f"{self.owner}:{self.group} {int(self.mode, 8):04o}"


@dataclass(frozen=True)
class Signature:
    """What wipefs(8) finds on a device."""

    type: str
    uuid: str = ""
    label: str = ""


@dataclass(frozen=True)
class Device:
    """A block device and what is on it."""

    name: str
    model: str = ""
    bytes: int = 0
    signatures: tuple[Signature, ...] = ()
    partitions: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    swap: bool = False
    holders: tuple[str, ...] = ()
    busy: bool = False
    # Of a member of an array: how many members its superblock says there are.
    raid_devices: int = 0


@dataclass(frozen=True)
class Array:
    """A kernel md device, running or not."""

    device: Device
    label: str
    level: str
    state: str
    raid_devices: int
    members: tuple[str, ...]


@dataclass(frozen=True)
class Machine:
    """All that a decision needs."""

    disks: tuple[Device, ...]
    arrays: tuple[Array, ...] = ()
    # What is mounted at the mount point: a device's name, or another source as it is.
    mounted: str = ""
    # Owner, group and mode there, as Settings.permissions() writes them.
    permissions: str = ""


@dataclass(frozen=True)
class Plan:
    """What is to be done. With problems, nothing is."""

    state: str
    disks: tuple[str, ...] = ()
    # Arrays of our own to stop first, and members of our own to take the superblock from.
    stop: tuple[str, ...] = ()
    forget: tuple[str, ...] = ()
    # The device that has or gets the file system; empty for an array that is to be made.
    device: str = ""
    mounted: bool = False
    steps: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


# ---- deciding -----------------------------------------------------------------------------------


def decide(settings: Settings, machine: Machine) -> Plan:
    """What is to be done on such a machine. Reads and changes nothing."""
    chosen = [disk for disk in machine.disks if disk.model.startswith(settings.models)]
    names = tuple(disk.name for disk in chosen)
    if machine.mounted and not _is_ours(settings, machine, machine.mounted):
        return _mounted_by_another(settings, machine, names)
    problems = tuple(filter(None, (_wrong_with(settings, machine, disk) for disk in chosen)))
    if problems:
        return _refused(names, *problems)
    wrong = _wrong_number(settings, chosen)
    if wrong:
        return _refused(names, wrong)
    if not chosen:
        return Plan("none")
    return _over(settings, machine, chosen)


def _mounted_by_another(settings: Settings, machine: Machine, names: tuple[str, ...]) -> Plan:
    """What something else made stands at the mount point: it is kept, or this is refused."""
    theirs = [array for array in machine.arrays if not _is_our_label(settings, array.label)]
    below = next((a.members for a in theirs if a.device.name == machine.mounted), ())
    below = tuple(below or (machine.mounted,))
    local = set(below) <= set(names)
    if local and settings.existing == "keep":
        return Plan("kept", below, device=machine.mounted)
    what = _array_words(machine, machine.mounted) or machine.mounted
    mend = "Choose another nvme_scratch_mount_point."
    if local:
        mend = "Set nvme_scratch_existing to keep to leave it as it is."
    problem = f"{settings.mount_point} is the mount point of {what}, which something else made."
    return _refused(names, f"{problem} {mend}")


def _over(settings: Settings, machine: Machine, chosen: list[Device]) -> Plan:
    """The plan for disks that are blank or our own."""
    names = tuple(disk.name for disk in chosen)
    arrays = _our_arrays(settings, machine)
    members = [disk for disk in chosen if _array_uuid(settings, disk)]
    single = [disk for disk in chosen if _has_our_file_system(settings, disk)]
    complete = members if _is_complete(settings, members) else []
    problem = _on_some(single, complete, names)
    if problem:
        return _refused(names, problem)
    if single:
        return _with_file_system(settings, machine, Plan("ready", names, device=names[0]))
    if complete and len(names) > 1:
        return _complete(settings, machine, names, arrays)
    return _made_anew(chosen, names, arrays)


def _on_some(single: list[Device], array: list[Device], names: tuple[str, ...]) -> str:
    """Why disks are not used of which some hold an intact file system of ours: alone, or as an
    array of fewer; empty where none does."""
    if not (single and len(names) > 1) and not (array and len(array) < len(names)):
        return ""
    intact = ", ".join(disk.name for disk in single or array)
    problem = f"{intact} hold(s) an intact scratch file system, but {_words(names)} are here:"
    mend = "save what is in it, unmount it, then have it made over all disks by `wipefs --all`"
    return f"{problem} {mend} on {intact}."


def _is_complete(settings: Settings, members: list[Device]) -> bool:
    """Whether the disks are all members of one array of ours."""
    arrays = {_array_uuid(settings, disk) for disk in members}
    return len(arrays) == 1 and members[0].raid_devices == len(members)


def _complete(
    settings: Settings, machine: Machine, names: tuple[str, ...], arrays: list[Array]
) -> Plan:
    """The plan for an array of ours whose members are all there: it runs, or is assembled."""
    running = [array for array in arrays if _runs(array, names)]
    if running:
        plan = Plan("ready", names, device=running[0].device.name)
        return _with_file_system(settings, machine, plan)
    stale = tuple(array.device.name for array in arrays)
    steps = (*(f"stop {name}" for name in stale), f"assemble the array of {_words(names)}")
    return Plan("assemble", names, stop=stale, steps=steps)


def _made_anew(chosen: list[Device], names: tuple[str, ...], arrays: list[Array]) -> Plan:
    """The plan for disks that are blank, or what is left of an array that lost a member."""
    mounted = [a.device for a in arrays if a.device.mounts]
    if mounted:
        where = ", ".join(mounted[0].mounts)
        problem = f"the array {mounted[0].name} has lost a member and is still mounted at {where}:"
        return _refused(names, f"{problem} end what uses it, unmount it, then run again.")
    stop = tuple(array.device.name for array in arrays)
    forget = tuple(disk.name for disk in chosen if disk.signatures)
    steps = _steps(stop, forget, names)
    state = "rebuild" if forget or stop else "make"
    device = "" if len(names) > 1 else names[0]
    return Plan(state, names, stop=stop, forget=forget, device=device, steps=steps)


def _steps(
    stop: tuple[str, ...], forget: tuple[str, ...], names: tuple[str, ...]
) -> tuple[str, ...]:
    several, over = len(names) > 1, _words(names)
    return (
        *(f"stop the array {name}" for name in stop),
        *([f"forget the lost array on {_words(forget)}"] if forget else []),
        *([f"make RAID 0 over {over}"] if several else []),
        f"make an XFS file system {'over' if several else 'on'} {over}",
    )


def _with_file_system(settings: Settings, machine: Machine, plan: Plan) -> Plan:
    """The plan for the device: its file system is there, is to be made, or is not ours."""
    devices = {d.name: d for d in (*machine.disks, *(a.device for a in machine.arrays))}
    device = devices[plan.device]
    if _has_our_file_system(settings, device):
        elsewhere = [path for path in device.mounts if path != settings.mount_point]
        if elsewhere and settings.mount_point not in device.mounts:
            problem = f"our file system on {device.name} is mounted at {elsewhere[0]}: unmount it."
            return _refused(plan.disks, problem)
        mounted = settings.mount_point in device.mounts
        wrong = mounted and machine.permissions != settings.permissions()
        step = f"set {settings.permissions()} instead of {machine.permissions}"
        return replace(plan, mounted=mounted, steps=(step,) if wrong else ())
    problem = _content(device)
    if problem:
        problem = (
            f"our array {device.name} has {problem}, which something else put there, or this role"
            " for another mount point: set that back, or unmount it and `wipefs --all` it."
        )
        return _refused(plan.disks, problem)
    return Plan(
        "make", plan.disks, device=plan.device, steps=(f"make an XFS file system on {device.name}",)
    )


def _refused(names: tuple[str, ...], *problems: str) -> Plan:
    return Plan("refused", names, problems=problems)


def _wrong_with(settings: Settings, machine: Machine, disk: Device) -> str:
    """Why the disk must not be used, as a sentence; empty when it is blank or our own."""
    what = []
    ours = bool(_array_uuid(settings, disk)) or _has_our_file_system(settings, disk)
    if disk.partitions:
        what.append(f"the partition(s) {', '.join(disk.partitions)}")
    if disk.signatures and not ours:
        what.append(_content(disk))
    what += _held_by_others(settings, machine, disk)
    if disk.mounts and not _has_our_file_system(settings, disk):
        what.append(f"a mount at {', '.join(disk.mounts)}")
    if disk.swap:
        what.append("swap in use")
    if disk.busy and not what and not ours:
        what.append("a program that holds it open")
    if not what:
        return ""
    return (
        f"/dev/{disk.name} ({disk.model.strip()}, {disk.bytes} bytes) has {' and '.join(what)}:"
        " nothing was changed. Save what is needed, then empty it (wipefs --all), or leave the disk"
        " out (nvme_scratch_models)."
    )


def _held_by_others(settings: Settings, machine: Machine, disk: Device) -> list[str]:
    """The devices on the disk that are no array of ours."""
    ours = [array.device.name for array in _our_arrays(settings, machine)]
    foreign = [name for name in disk.holders if name not in ours]
    return [_array_words(machine, name) or f"the device {name} on it" for name in foreign]


def _content(device: Device) -> str:
    return ", ".join(
        f"a signature of {signature.type}" + (f" ({signature.label})" if signature.label else "")
        for signature in device.signatures
    )


def _array_words(machine: Machine, name: str) -> str:
    for array in machine.arrays:
        if array.device.name == name:
            label = f" {array.label}" if array.label else ""
            members = ", ".join(array.members)
            return f"the array /dev/{name}{label} ({array.level or array.state} of {members})"
    return ""


def _wrong_number(settings: Settings, chosen: list[Device]) -> str:
    """Why there are too many disks, or too few; empty where their number may be."""
    wanted = len(chosen) if settings.expected_disks is None else settings.expected_disks
    if len(chosen) == wanted or (len(chosen) < wanted and settings.fewer_disks_allowed):
        return ""
    found = f"{len(chosen)} ({', '.join(disk.name for disk in chosen)})" if chosen else "none"
    mend = "redeploy the VM, or set nvme_scratch_fewer_disks_allowed"
    if len(chosen) > wanted:
        mend = "narrow nvme_scratch_models, or correct the catalog"
    return (
        f"expected {wanted} disks of the model(s) {', '.join(settings.models)},"
        f" found {found}: {mend}."
    )


def _is_our_label(settings: Settings, label: str) -> bool:
    return label.rpartition(":")[2] == settings.array


def _our_arrays(settings: Settings, machine: Machine) -> list[Array]:
    return [array for array in machine.arrays if _is_our_label(settings, array.label)]


def _array_uuid(settings: Settings, disk: Device) -> str:
    """The array of ours that the disk is a member of, and of nothing else; else empty."""
    if len(disk.signatures) != 1 or disk.signatures[0].type != "linux_raid_member":
        return ""
    signature = disk.signatures[0]
    return signature.uuid if _is_our_label(settings, signature.label) else ""


def _has_our_file_system(settings: Settings, device: Device) -> bool:
    found = [(signature.type, signature.uuid) for signature in device.signatures]
    return found == [("xfs", settings.uuid)]


def _is_ours(settings: Settings, machine: Machine, name: str) -> bool:
    devices = (*machine.disks, *(a.device for a in machine.arrays))
    return any(d.name == name and _has_our_file_system(settings, d) for d in devices)


def _runs(array: Array, names: tuple[str, ...]) -> bool:
    working = array.state in ("clean", "active", "active-idle", "write-pending", "readonly")
    return working and array.level == "raid0" and set(array.members) == set(names)


def _words(names: tuple[str, ...]) -> str:
    return ", ".join(names)


# ---- reading ------------------------------------------------------------------------------------


def read_machine(settings: Settings, run: Run, root: str = "/") -> Machine:
    """The NVMe disks and md arrays as sysfs, procfs, wipefs and mdadm show them."""
    mounts = _read_mounts(Path(root, "proc/self/mountinfo"))
    system = _System(root, run, mounts, _read_swaps(Path(root, "proc/swaps")))
    block = Path(root, "sys/block")
    names = sorted((p.name for p in block.iterdir()), key=_numbered) if block.is_dir() else []
    disks = tuple(
        system.device(name, look=_text(block / name / "device/model").startswith(settings.models))
        for name in names
        if re.fullmatch(r"nvme[0-9]+n[0-9]+", name)
    )
    arrays = tuple(
        system.array(name)
        for name in names
        if re.fullmatch(r"md.+", name) and (block / name / "md").is_dir()
    )
    here = [number for number, places in mounts.items() if settings.mount_point in places]
    if not here:
        return Machine(disks, arrays)
    by_number = {_text(block / name / "dev"): name for name in names}
    mounted = by_number.get(here[-1], f"a file system ({here[-1]})")
    place = Path(root, settings.mount_point.lstrip("/"))
    return Machine(disks, arrays, mounted, _read_permissions(place))


@dataclass(frozen=True)
class _System:
    """Where devices are read: sysfs below ``root``, mounts by device number, names that swap."""

    root: str
    run: Run
    mounts: dict[str, tuple[str, ...]]
    swaps: frozenset[str]

    def device(self, name: str, *, look: bool) -> Device:
        """One device; its content only where ``look``."""
        folder = Path(self.root, "sys/block", name)
        parts = sorted((p.parent.name for p in folder.glob("*/partition")), key=_numbered)
        numbers = [_text(folder / part / "dev") for part in ("", *parts)]
        signatures = _read_signatures(self.run, name) if look else ()
        member = any(s.type == "linux_raid_member" for s in signatures)
        holders = [p.name for part in ("", *parts) for p in (folder / part).glob("holders/*")]
        return Device(
            name=name,
            model=_text(folder / "device/model"),
            bytes=int(_text(folder / "size") or 0) * SECTOR_BYTES,
            signatures=signatures,
            partitions=tuple(parts),
            mounts=tuple(place for number in numbers for place in self.mounts.get(number, ())),
            swap=bool(self.swaps & {name, *parts}),
            holders=tuple(sorted(holders)),
            busy=look and _is_busy(Path(self.root, "dev", name)),
            raid_devices=_read_raid_devices(self.run, name) if member else 0,
        )

    def array(self, name: str) -> Array:
        """One md array."""
        block = Path(self.root, "sys/block", name)
        label = _export(self.run("mdadm", "--detail", "--export", f"/dev/{name}", check=False))
        state = _text(block / "md/array_state")
        return Array(
            device=self.device(name, look=state not in ("", "clear", "inactive")),
            label=label.get("MD_NAME", ""),
            level=_text(block / "md/level"),
            state=state,
            raid_devices=int(_text(block / "md/raid_disks") or 0),
            members=tuple(sorted(p.name for p in (block / "slaves").glob("*"))),
        )


def _read_swaps(path: Path) -> frozenset[str]:
    return frozenset(Path(line.split()[0]).name for line in _text(path).splitlines()[1:])


def _read_mounts(path: Path) -> dict[str, tuple[str, ...]]:
    """Device number to mount points; proc(5) writes blanks as octal."""
    places: dict[str, tuple[str, ...]] = {}
    for line in _text(path).splitlines():
        number, place = line.split()[2], line.split()[4]
        place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), place)
        places[number] = (*places.get(number, ()), place)
    return places


def _read_signatures(run: Run, name: str) -> tuple[Signature, ...]:
    text = run("wipefs", "--json", f"/dev/{name}")
    try:
        rows = json.loads(text)["signatures"] if text.strip() else []
        return tuple(
            Signature(row["type"], row.get("uuid") or "", row.get("label") or "") for row in rows
        )
    except (ValueError, KeyError, TypeError) as error:
        message = f"wipefs says of /dev/{name} what cannot be read: {text.strip()[:200]!r}"
        raise Failed(message) from error


def _read_raid_devices(run: Run, name: str) -> int:
    found = _export(run("mdadm", "--examine", "--export", f"/dev/{name}", check=False))
    return int(found.get("MD_DEVICES") or 0)


def _export(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _read_permissions(path: Path) -> str:
    status = path.stat()
    try:
        owner, group = path.owner(), path.group()
    except KeyError:
        owner, group = str(status.st_uid), str(status.st_gid)
    return f"{owner}:{group} {status.st_mode & 0o7777:04o}"


def _is_busy(path: Path) -> bool:
    """Whether the kernel refuses to open the device for one alone: mounted, held or in use."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL))
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _numbered(name: str) -> list[tuple[int, str]]:
    return [
        (int(part or 0), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)
    ]


# ---- doing --------------------------------------------------------------------------------------


def run_command(*argv: str, check: bool = True) -> str:
    """Standard output of a command that is asked nothing."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 (argv, no shell)
            argv,
            check=False,
            capture_output=True,
            text=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=600,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{argv[0]}: {error}") from error
    if check and done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise Failed(f"{' '.join(argv)} ended with status {done.returncode}: {' / '.join(said)}")
    return done.stdout


def apply(settings: Settings, plan: Plan, run: Run) -> None:
    """Do what the plan says."""
    for name in plan.stop:
        run("mdadm", "--stop", f"/dev/{name}")
    if plan.state == "assemble":
        _assemble(settings, plan, run)
    if plan.state == "ready" and plan.steps:
        _set_permissions(settings, settings.mount_point)
    if plan.state not in ("make", "rebuild"):
        return
    for name in plan.forget:
        # Superblock by superblock, only of disks that the decision calls our own.
        run("wipefs", "--all", f"/dev/{name}")
    device = plan.device
    if not device:
        device = _create(settings, plan, run)
    # -f where the array has just been made: what XFS may find there is of our own lost array. On
    # anything else its refusal to overwrite stays in force.
    force = [] if plan.device else ["-f"]
    run("mkfs.xfs", *force, "-q", "-m", f"uuid={settings.uuid}", f"/dev/{device}")
    _permit(settings, device, run)
    run("udevadm", "trigger", "--action=change", f"--sysname-match={device}", check=False)
    run("udevadm", "settle", "--timeout=30", check=False)


def _assemble(settings: Settings, plan: Plan, run: Run) -> None:
    """Start an array of ours whose members are all there, and make its file system if it has
    none."""
    disks = [f"/dev/{name}" for name in plan.disks]
    run("mdadm", "--assemble", f"/dev/md/{settings.array}", *disks)
    run("udevadm", "settle", "--timeout=30", check=False)
    after = decide(settings, read_machine(settings, run))
    if after.problems or after.state == "assemble":
        raise Failed(" ".join(after.problems) or "the assembled array does not run.")
    if after.state == "make":
        apply(settings, after, run)


def _create(settings: Settings, plan: Plan, run: Run) -> str:
    """Make the array; its device's name. Without --run, mdadm too refuses a disk with content."""
    run(
        "mdadm",
        "--create",
        f"/dev/md/{settings.array}",
        f"--name={settings.array}",
        # "any": the array is our own whatever the machine is called.
        "--homehost=any",
        "--metadata=1.2",
        "--level=0",
        f"--chunk={settings.chunk_kib}",
        f"--raid-devices={len(plan.disks)}",
        *(f"/dev/{name}" for name in plan.disks),
    )
    # Found by its members: the link under /dev/md waits for udev.
    for array in read_machine(settings, run).arrays:
        if _is_our_label(settings, array.label) and set(array.members) == set(plan.disks):
            return array.device.name
    raise Failed(f"mdadm made the array {settings.array}, but none runs over {_words(plan.disks)}")


def _permit(settings: Settings, device: str, run: Run) -> None:
    """Set owner and mode of the new file system's root."""
    os.makedirs(ASIDE, mode=0o700, exist_ok=True)
    run("mount", "-t", "xfs", f"/dev/{device}", ASIDE)
    try:
        _set_permissions(settings, ASIDE)
    finally:
        run("umount", ASIDE)
    os.rmdir(ASIDE)


def _set_permissions(settings: Settings, path: str) -> None:
    os.chown(path, pwd.getpwnam(settings.owner).pw_uid, grp.getgrnam(settings.group).gr_gid)
    os.chmod(path, int(settings.mode, 8))


def decide_when_settled(settings: Settings, run: Run, wait_seconds: int) -> Plan:
    """The plan once all disks are there, or when the time is over: disks may come late at boot.

    What is whole needs no waiting. Nothing is made over a disk too few before the time is over.
    """
    run("udevadm", "settle", "--timeout=30", check=False)
    deadline = time.monotonic() + wait_seconds
    while True:
        plan = decide(settings, read_machine(settings, run))
        whole = plan.state in ("ready", "assemble", "kept")
        counted = settings.expected_disks is not None and not plan.problems
        enough = counted and len(plan.disks) >= (settings.expected_disks or 0)
        if whole or enough or time.monotonic() >= deadline:
            return plan
        time.sleep(1)


def read_settings(text: str) -> Settings:
    """The configuration, complete and nothing else."""
    try:
        values: dict[str, Any] = json.loads(text)
        values["models"] = tuple(values["models"])
        settings = Settings(**values)
    except (ValueError, TypeError, KeyError) as error:
        raise Failed(f"the configuration cannot be read: {error}") from error
    if not settings.models or not all(settings.models):
        message = "the configuration chooses no model, or an empty one, which every disk would have"
        raise Failed(message)
    return settings


def main(argv: list[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", default=CONFIG)
    parser.add_argument("--settings", help="the configuration itself, as JSON")
    parser.add_argument("--check", action="store_true", help="say what would be done")
    parser.add_argument("--wait", action="store_true", help="give the disks time to appear")
    options = parser.parse_args(argv)
    plan, problems = Plan("failed"), []
    try:
        text = options.settings or Path(options.config).read_text(encoding="utf-8")
        settings = read_settings(text)
        with open(LOCK, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if options.check:
                plan = decide(settings, read_machine(settings, run_command))
            else:
                seconds = settings.wait_seconds if options.wait else 0
                plan = decide_when_settled(settings, run_command, seconds)
                if plan.state == "none":
                    models = ", ".join(settings.models)
                    raise Failed(f"there is no disk of the model(s) {models}, so nothing to mount")
                if not plan.problems:
                    apply(settings, plan, run_command)
        problems = list(plan.problems)
    except (Failed, OSError, KeyError) as error:
        problems = [str(error)]
    result = {
        "state": "failed" if problems and not plan.problems else plan.state,
        "disks": plan.disks,
        "device": plan.device,
        "mounted": plan.mounted,
        "steps": plan.steps,
        "problems": problems,
    }
    sys.stdout.write(json.dumps(result) + "\n")
    if problems:
        sys.stderr.write(" ".join(problems) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
