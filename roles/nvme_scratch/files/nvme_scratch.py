"""One XFS file system over a node's local NVMe disks: made, found again, or made anew.

Azure's local disks come back empty after a deallocation. This program runs at each boot before the
mount unit (trueup-nvme-scratch.service), and where the role applies it. It leaves a file system
with the expected UUID, over all local disks as RAID 0, or on the disk itself where there is one.

    nvme_scratch [--config FILE | --settings JSON]            do it
    nvme_scratch [--config FILE | --settings JSON] --wait     the same at boot: disks may come late
    nvme_scratch [--config FILE | --settings JSON] --check    say what it would do

It prints one JSON object. Exit status 0: done, or nothing to do. 1: refused or failed, and why
stands in `problems`; nothing has been changed when it refused.

What it may write to is one table, TABLE below; what it does not know is a refusal that says why:

- Blank disks: of the chosen models, without partition, signature, md superblock, mount, swap,
  holder, a program that writes to them, or a byte that is not zero in the blocks that are sampled.
- What is left of an array that has lost a member, where the marker (MARKER) proves that this
  program made that very array on this machine and has found it whole since the machine booted:
  then a member is lost and not late.
- A file system on an array that the marker proves our own and that is blank.
"""

from __future__ import annotations

import argparse
import enum
import fcntl
import grp
import json
import os
import pwd
import re
import stat
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
ROOT = "/"
# Which array this program made: its UUID, the machine and the boot in which it was last whole. On
# the OS disk, which a deallocation leaves as it is.
MARKER = "var/lib/trueup/nvme_scratch.json"
# Content is looked for in the first and the last MiB, and in blocks at even distances.
EDGE_BYTES = 2**20
BLOCK_BYTES = 4096
BLOCKS = 512
# What the images' own services call their arrays: setup_nvme.sh of azhpc-images makes /dev/md128,
# azure-vm-utils the other.
MAKERS = {"128": "Azure's setup_nvme.sh", "azure-ephemeral-md": "azure-ephemeral-disk-setup"}
# States of an array that runs and has lost no member (md(4), array_state).
WORKING = ("clean", "active", "active-idle", "write-pending", "readonly")
# What sysfs shows as the level of an array of ours: of one that does not run, perhaps its number,
# or nothing.
LEVELS = ("raid0", "0", "")
# Among those who write to devices: who may write to any.
EVERY = "every device"
EMPTY = "`wipefs --all` and then `blkdiscard --zeroout`"

Run = Callable[..., str]


class Failed(Exception):
    """A command failed, or the machine is not as it must be; one sentence."""


class Missing(Failed):
    """A program is not installed."""


class Ended(Failed):
    """A command ended with another status than 0."""

    def __init__(self, argv: tuple[str, ...], status: int, said: str) -> None:
        """``said``: what it wrote as errors, or else as output."""
        last = " / ".join(said.splitlines()[-3:])
        super().__init__(f"{' '.join(argv)} ended with status {status}: {last}")
        self.status = status
        self.said = said


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
class Superblock:
    """What mdadm finds on a member of an array. The UUID has 32 hexadecimal digits."""

    uuid: str
    label: str
    level: str
    devices: int


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
    superblock: Superblock | None = None
    # Why mdadm does not tell whether there is a superblock.
    unexamined: str = ""
    # Who has it open for writing.
    writers: tuple[str, ...] = ()
    # Of a device without signature: where there is content, or why that cannot be told.
    content: str = ""


@dataclass(frozen=True)
class Array:
    """A kernel md device, running or not."""

    device: Device
    label: str
    level: str
    state: str
    raid_devices: int
    members: tuple[str, ...]
    uuid: str = ""


@dataclass(frozen=True)
class Marker:
    """That this program made an array, on this machine."""

    array: str
    # Whether it has been whole since the machine booted.
    this_boot: bool


@dataclass(frozen=True)
class Machine:
    """All that a decision needs."""

    disks: tuple[Device, ...]
    arrays: tuple[Array, ...] = ()
    # What is mounted at the mount point: a device's name, or another source as it is.
    mounted: str = ""
    # Owner, group and mode there, as Settings.permissions() writes them.
    permissions: str = ""
    marker: Marker | None = None


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
    # The UUID of the whole array, where the marker proves it our own.
    array: str = ""


# ---- deciding -----------------------------------------------------------------------------------


class Kind(enum.Enum):
    """What a disk is."""

    BLANK = "blank"
    FILE_SYSTEM = "our file system"
    MEMBER = "a member of an array of ours"
    OTHER = "another's"


@dataclass(frozen=True)
class Seen:
    """What the rows of the table ask."""

    settings: Settings
    machine: Machine
    chosen: tuple[Device, ...]
    kinds: tuple[Kind, ...]
    # Why disks are another's, a sentence each.
    problems: tuple[str, ...]
    # Arrays with our label.
    arrays: tuple[Array, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(disk.name for disk in self.chosen)

    def of(self, kind: Kind) -> tuple[str, ...]:
        """The disks of a kind."""
        return tuple(name for name, its in zip(self.names, self.kinds) if its is kind)

    @property
    def superblocks(self) -> list[Superblock]:
        """Those of the members of arrays of ours."""
        pairs = zip(self.chosen, self.kinds)
        return [d.superblock for d, kind in pairs if kind is Kind.MEMBER and d.superblock]

    @property
    def whole(self) -> bool:
        """Whether the members are all those of one array of ours."""
        found = self.superblocks
        same = len({(block.uuid, block.devices) for block in found}) == 1
        return same and found[0].devices == len(found)

    @property
    def proven(self) -> str:
        """The array of all members, where the marker says that it was made here; else empty."""
        marker, uuids = self.machine.marker, {block.uuid for block in self.superblocks}
        return marker.array if marker and uuids == {marker.array} else ""

    @property
    def lost(self) -> bool:
        """Whether the array is our own and a member was lost since the machine booted."""
        marker = self.machine.marker
        return bool(self.proven and marker and marker.this_boot)

    @property
    def used(self) -> tuple[str, ...]:
        """What uses arrays of ours, a part of a sentence each."""
        return tuple(words for array in self.arrays for words in _uses(array.device))


@dataclass(frozen=True)
class Row:
    """A state of the machine, and what is done in it."""

    state: str
    holds: Callable[[Seen], object]
    plan: Callable[[Seen], Plan]


def decide(settings: Settings, machine: Machine) -> Plan:
    """What is to be done on such a machine. Reads and changes nothing.

    The first row of the table that holds decides. Where none does, nothing is done.
    """
    chosen = tuple(disk for disk in machine.disks if disk.model.startswith(settings.models))
    judged = [_judge(settings, machine, disk) for disk in chosen]
    seen = Seen(
        settings,
        machine,
        chosen,
        tuple(kind for kind, _ in judged),
        tuple(problem for _, problem in judged if problem),
        tuple(_our_arrays(settings, machine)),
    )
    for row in TABLE:
        if row.holds(seen):
            return row.plan(seen)
    return _refused(seen, f"{_words(seen.names)} are in no state that is known: leave them alone.")


def _is_mounted_by_another(seen: Seen) -> bool:
    mounted = seen.machine.mounted
    return bool(mounted) and not _is_ours(seen.settings, seen.machine, mounted)


def _mounted_by_another(seen: Seen) -> Plan:
    """What something else made stands at the mount point: it is kept, or this is refused."""
    settings, machine, mounted = seen.settings, seen.machine, seen.machine.mounted
    theirs = [array for array in machine.arrays if not _is_our_label(settings, array.label)]
    below = next((a.members for a in theirs if a.device.name == mounted), ())
    below = tuple(below or (mounted,))
    local = set(below) <= set(seen.names)
    if local and settings.existing == "keep":
        return Plan("kept", below, device=mounted)
    mend = "Choose another nvme_scratch_mount_point."
    if local:
        mend = "Set nvme_scratch_existing to keep to leave it as it is."
    what = _array_words(machine, mounted) or f"{mounted}, which something else made"
    return _refused(seen, f"{settings.mount_point} is the mount point of {what}. {mend}")


def _wrong_number(seen: Seen) -> str:
    """Why there are too many disks, or too few; empty where their number may be."""
    settings, chosen = seen.settings, seen.chosen
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


def _strange_arrays(seen: Seen) -> list[str]:
    """Arrays with our label that this program does not make, or over disks that are not chosen."""
    there = {disk.name for disk in seen.machine.disks} - set(seen.names)
    return [
        array.device.name
        for array in seen.arrays
        if array.level not in LEVELS or there & set(array.members)
    ]


def _strange(seen: Seen) -> Plan:
    what = ", ".join(_array_words(seen.machine, name) for name in _strange_arrays(seen))
    return _refused(seen, f"this role made no such array: {what}. Stop it, or rename it.")


def _is_on_some(seen: Seen) -> bool:
    """Whether some of several disks hold an intact file system of ours: alone, or as an array."""
    single = seen.of(Kind.FILE_SYSTEM) and len(seen.names) > 1
    return bool(single or (seen.whole and len(seen.superblocks) < len(seen.names)))


def _on_some(seen: Seen) -> Plan:
    intact = _words(seen.of(Kind.FILE_SYSTEM) or seen.of(Kind.MEMBER))
    problem = f"{intact} hold(s) an intact scratch file system, but {_words(seen.names)} are here:"
    mend = f"save what is in it, unmount it, then have it made over all disks by {EMPTY}"
    return _refused(seen, f"{problem} {mend} on {intact}.")


def _running(seen: Seen) -> list[Array]:
    """The whole array, where it runs."""
    return [a for a in seen.arrays if seen.whole and _runs(a, seen.names)]


def _whole_runs(seen: Seen) -> Plan:
    plan = Plan("ready", seen.names, device=_running(seen)[0].device.name, array=seen.proven)
    return _with_file_system(seen, plan)


def _used(seen: Seen) -> Plan:
    problem = f"an array of ours is not whole, and in use: {', '.join(seen.used)}."
    return _refused(seen, f"{problem} End what uses it, unmount it, then run again.")


def _assembled(seen: Seen) -> Plan:
    stale = tuple(array.device.name for array in seen.arrays)
    steps = (*(f"stop {name}" for name in stale), f"assemble the array of {_words(seen.names)}")
    return Plan("assemble", seen.names, stop=stale, steps=steps, array=seen.proven)


def _not_proven(seen: Seen) -> Plan:
    """Part of an array of ours is here, and nothing says that the rest is lost and not late."""
    members, devices = seen.of(Kind.MEMBER), max(block.devices for block in seen.superblocks)
    why = "it has not been whole since this machine booted, so that a disk may be late"
    if not seen.proven:
        why = "nothing proves that this machine made it"
    problem = (
        f"{_words(members)} hold(s) a part of a scratch array of {devices} disk(s), and {why}:"
    )
    mend = "Run again once all disks are there; or deallocate and start the VM; or empty them"
    return _refused(seen, f"{problem} nothing was changed. {mend} by {EMPTY}.")


def _made(seen: Seen) -> Plan:
    """The plan for disks that are blank, or what is left of an array of ours that lost a member."""
    names, forget = seen.names, seen.of(Kind.MEMBER)
    stop = tuple(array.device.name for array in seen.arrays)
    device = "" if len(names) > 1 else names[0]
    return Plan(
        "rebuild" if forget or stop else "make",
        names,
        stop=stop,
        forget=forget,
        device=device,
        steps=_steps(stop, forget, names),
    )


TABLE = (
    Row("something else is mounted", _is_mounted_by_another, _mounted_by_another),
    Row("a disk is another's", lambda s: s.problems, lambda s: _refused(s, *s.problems)),
    Row("too few or many", _wrong_number, lambda s: _refused(s, _wrong_number(s))),
    Row("an array is not as we make it", _strange_arrays, _strange),
    Row("no disk", lambda s: not s.chosen, lambda _: Plan("none")),
    Row("intact on some of the disks", _is_on_some, _on_some),
    Row(
        "our file system on the only disk",
        lambda s: s.of(Kind.FILE_SYSTEM),
        lambda s: _with_file_system(s, Plan("ready", s.names, device=s.names[0])),
    ),
    Row("our whole array runs", _running, _whole_runs),
    Row("an array of ours in use", lambda s: s.used, _used),
    Row("our whole array", lambda s: s.whole, _assembled),
    Row("a lost array, proven our own", lambda s: s.superblocks and s.lost, _made),
    Row("a part of an array", lambda s: s.superblocks, _not_proven),
    Row("blank disks", lambda s: s.of(Kind.BLANK) == s.names, _made),
)


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


def _with_file_system(seen: Seen, plan: Plan) -> Plan:
    """The plan for the device: its file system is there, is to be made, or is not ours."""
    settings, machine = seen.settings, seen.machine
    devices = {d.name: d for d in (*machine.disks, *(a.device for a in machine.arrays))}
    device = devices[plan.device]
    if _has_our_file_system(settings, device):
        elsewhere = [path for path in device.mounts if path != settings.mount_point]
        if elsewhere and settings.mount_point not in device.mounts:
            problem = f"our file system on {device.name} is mounted at {elsewhere[0]}: unmount it."
            return _refused(seen, problem)
        mounted = settings.mount_point in device.mounts
        wrong = mounted and machine.permissions != settings.permissions()
        step = f"set {settings.permissions()} instead of {machine.permissions}"
        return replace(plan, mounted=mounted, steps=(step,) if wrong else ())
    problem = ", ".join(filter(None, (_signatures(device), device.content, *_uses(device))))
    if problem:
        problem = (
            f"our array {device.name} has {problem}, which something else put there, or this role"
            " for another mount point, or it is of a file system that was not finished: set that"
            f" back, or unmount it and empty it by {EMPTY}."
        )
        return _refused(seen, problem)
    if not plan.array:
        problem = f"our array {device.name} has no file system, and nothing proves that this"
        return _refused(seen, f"{problem} machine made it: remove it, and empty its disks.")
    return replace(plan, state="make", steps=(f"make an XFS file system on {device.name}",))


def _refused(seen: Seen, *problems: str) -> Plan:
    return Plan("refused", seen.names, problems=problems)


def _judge(settings: Settings, machine: Machine, disk: Device) -> tuple[Kind, str]:
    """What a disk is; a sentence where it is another's."""
    kind = Kind.BLANK
    if _has_our_file_system(settings, disk):
        kind = Kind.FILE_SYSTEM
    elif _is_our_member(settings, disk):
        kind = Kind.MEMBER
    what = [f"the partition(s) {', '.join(disk.partitions)}"] if disk.partitions else []
    if disk.unexamined:
        what.append(f"what cannot be told, since {disk.unexamined}")
    if kind is Kind.BLANK:
        what += filter(None, (_signatures(disk), _superblock_words(disk), disk.content))
        what += [f"{who} that writes to it" for who in disk.writers]
    what += _held_by_others(settings, machine, disk)
    if disk.mounts and kind is not Kind.FILE_SYSTEM:
        what.append(f"a mount at {', '.join(disk.mounts)}")
    if disk.swap:
        what.append("swap in use")
    if disk.busy and not what and kind is Kind.BLANK:
        what.append("a program that holds it open")
    if not what:
        return kind, ""
    return Kind.OTHER, (
        f"/dev/{disk.name} ({disk.model.strip()}, {disk.bytes} bytes) has {' and '.join(what)}:"
        f" nothing was changed. Save what is needed, then empty it ({EMPTY}), or leave the disk"
        " out (nvme_scratch_models)."
    )


def _uses(device: Device) -> list[str]:
    """What uses a device, a part of a sentence each."""
    return [
        *(f"{device.name} is mounted at {place}" for place in device.mounts),
        *(f"the device {name} is on {device.name}" for name in device.holders),
        *(f"{who} writes to {device.name}" for who in device.writers),
        *([f"{device.name} is swap"] if device.swap else []),
    ]


def _held_by_others(settings: Settings, machine: Machine, disk: Device) -> list[str]:
    """The devices on the disk that are no array of ours."""
    ours = [array.device.name for array in _our_arrays(settings, machine)]
    foreign = [name for name in disk.holders if name not in ours]
    return [_array_words(machine, name) or f"the device {name} on it" for name in foreign]


def _signatures(device: Device) -> str:
    return ", ".join(
        f"a signature of {one.type}" + (f" ({one.label}{_maker(one.label)})" if one.label else "")
        for one in device.signatures
    )


def _superblock_words(device: Device) -> str:
    found = device.superblock
    if not found:
        return ""
    return f"a superblock of the {found.level} {found.label or found.uuid} of {found.devices}"


def _maker(label: str) -> str:
    maker = MAKERS.get(label.rpartition(":")[2])
    return f", which {maker} made" if maker else ""


def _array_words(machine: Machine, name: str) -> str:
    for array in machine.arrays:
        if array.device.name == name:
            label = f" {array.label}" if array.label else ""
            what = f"{array.level or array.state} of {_words(array.members)}"
            maker = _maker(array.label) or ", which something else made"
            return f"the array /dev/{name}{label} ({what}){maker}"
    return ""


def _is_our_label(settings: Settings, label: str) -> bool:
    return label.rpartition(":")[2] == settings.array


def _our_arrays(settings: Settings, machine: Machine) -> list[Array]:
    return [array for array in machine.arrays if _is_our_label(settings, array.label)]


def _is_our_member(settings: Settings, disk: Device) -> bool:
    """Whether it is a member of an array as this program makes them, by wipefs and by mdadm, and
    nothing else."""
    block = disk.superblock
    if not block or len(disk.signatures) != 1:
        return False
    (found,) = disk.signatures
    same = found.type == "linux_raid_member" and _digits(found.uuid) == block.uuid
    labels = _is_our_label(settings, found.label) and _is_our_label(settings, block.label)
    return same and labels and block.level == "raid0"


def _digits(uuid: str) -> str:
    """A UUID without what wipefs and mdadm put between its digits."""
    return re.sub(r"[^0-9a-f]", "", uuid.lower())


def _has_our_file_system(settings: Settings, device: Device) -> bool:
    found = [(signature.type, signature.uuid) for signature in device.signatures]
    return found == [("xfs", settings.uuid)]


def _is_ours(settings: Settings, machine: Machine, name: str) -> bool:
    devices = (*machine.disks, *(a.device for a in machine.arrays))
    return any(d.name == name and _has_our_file_system(settings, d) for d in devices)


def _runs(array: Array, names: tuple[str, ...]) -> bool:
    return array.state in WORKING and array.level == "raid0" and set(array.members) == set(names)


def _words(names: tuple[str, ...]) -> str:
    return ", ".join(names)


# ---- reading ------------------------------------------------------------------------------------


def read_machine(
    settings: Settings, run: Run, root: str = "", *, needs_mdadm: bool = True
) -> Machine:
    """The NVMe disks and md arrays as sysfs, procfs, wipefs and mdadm show them.

    Without ``needs_mdadm``, it may be that mdadm is not installed yet: nothing is made then.
    """
    root = root or ROOT
    mounts = _read_mounts(Path(root, "proc/self/mountinfo"))
    swaps = _read_swaps(Path(root, "proc/swaps"))
    system = _System(root, run, mounts, swaps, _read_writers(root), needs_mdadm)
    block = Path(root, "sys/block")
    names = sorted((p.name for p in block.iterdir()), key=_numbered) if block.is_dir() else []
    disks = tuple(
        system.disk(name, look=_text(block / name / "device/model").startswith(settings.models))
        for name in names
        if re.fullmatch(r"nvme[0-9]+n[0-9]+", name)
    )
    arrays = tuple(
        system.array(name)
        for name in names
        if re.fullmatch(r"md.+", name) and (block / name / "md").is_dir()
    )
    machine = Machine(disks, arrays, marker=_read_marker(root))
    here = [number for number, places in mounts.items() if settings.mount_point in places]
    if not here:
        return machine
    by_number = {_text(block / name / "dev"): name for name in names}
    mounted = by_number.get(here[-1], f"a file system ({here[-1]})")
    place = Path(root, settings.mount_point.lstrip("/"))
    return replace(machine, mounted=mounted, permissions=_read_permissions(place))


@dataclass(frozen=True)
class _System:
    """Where devices are read: sysfs below ``root``, mounts by device number, names that swap."""

    root: str
    run: Run
    mounts: dict[str, tuple[str, ...]]
    swaps: frozenset[str]
    writers: dict[str, list[str]]
    needs_mdadm: bool

    def disk(self, name: str, *, look: bool) -> Device:
        """A disk; its content only where ``look``."""
        disk = self.device(name, look=look)
        if not look:
            return disk
        superblock, why_not = _examine(self.run, name, needed=self.needs_mdadm)
        disk = replace(disk, superblock=superblock, unexamined=why_not)
        return disk if superblock or disk.partitions else self.sampled(disk)

    def sampled(self, device: Device) -> Device:
        """The device, with where it has content where it has no signature."""
        if device.signatures:
            return device
        return replace(device, content=_read_content(Path(self.root, "dev", device.name), device))

    def device(self, name: str, *, look: bool) -> Device:
        """A device; its signatures only where ``look``."""
        folder = Path(self.root, "sys/block", name)
        parts = sorted((p.parent.name for p in folder.glob("*/partition")), key=_numbered)
        numbers = [_text(folder / part / "dev") for part in ("", *parts)]
        signatures = _read_signatures(self.run, name) if look else ()
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
            writers=tuple(
                who
                for key in (f"/dev/{name}", numbers[0], EVERY)
                for who in self.writers.get(key, ())
            ),
        )

    def array(self, name: str) -> Array:
        """One md array."""
        block = Path(self.root, "sys/block", name)
        label = _export(self.run("mdadm", "--detail", "--export", f"/dev/{name}", check=False))
        state = _text(block / "md/array_state")
        device = self.device(name, look=state not in ("", "clear", "inactive"))
        return Array(
            device=self.sampled(device) if state in WORKING else device,
            label=label.get("MD_NAME", ""),
            level=_text(block / "md/level"),
            state=state,
            raid_devices=int(_text(block / "md/raid_disks") or 0),
            members=tuple(sorted(p.name for p in (block / "slaves").glob("*"))),
            uuid=_digits(label.get("MD_UUID", "")),
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


def _examine(run: Run, name: str, *, needed: bool) -> tuple[Superblock | None, str]:
    """The superblock on a disk, or why that cannot be told. Neither: mdadm says there is none."""
    path = f"/dev/{name}"
    try:
        text = run("mdadm", "--examine", "--export", path)
    except Missing as error:
        return None, str(error) if needed else ""
    except Ended as error:
        of_it = [line for line in error.said.splitlines() if path in line]
        none = error.status == 1 and of_it == [f"mdadm: No md superblock detected on {path}."]
        return None, "" if none else str(error)
    except Failed as error:
        return None, str(error)
    found = _export(text)
    uuid, count = _digits(found.get("MD_UUID", "")), found.get("MD_DEVICES", "")
    if not uuid or not re.fullmatch("[0-9]+", count) or not found.get("MD_LEVEL"):
        return None, f"mdadm says of {path} what cannot be read: {text.strip()[:200]!r}"
    return Superblock(uuid, found.get("MD_NAME", ""), found["MD_LEVEL"], int(count)), ""


def _read_content(path: Path, device: Device) -> str:
    """Where a device without signature has a byte that is not zero, among the sampled blocks."""
    inner = range(0, device.bytes, max(BLOCK_BYTES, device.bytes // BLOCKS))
    last = max(0, device.bytes - EDGE_BYTES)
    blocks = [(0, EDGE_BYTES), (last, EDGE_BYTES)]
    blocks += [(at - at % BLOCK_BYTES, BLOCK_BYTES) for at in inner if EDGE_BYTES <= at < last]
    try:
        with path.open("rb", buffering=0) as stream:
            for start, most in blocks:
                block = os.pread(stream.fileno(), most, start)
                if len(block) < min(most, device.bytes - start) or not block:
                    return f"no content to be read at byte {start}"
                if block.count(0) < len(block):
                    at = start + len(block) - len(block.lstrip(b"\0"))
                    return f"content without a signature, at byte {at}"
    except OSError as error:
        return f"content that cannot be read ({error.strerror})"
    return ""


def _read_writers(root: str) -> dict[str, list[str]]:
    """Who has a device open for writing: by its path and by its number, as in "259:0".

    A program that opens it without O_EXCL leaves no other trace; a loop device over it neither.
    """
    writers: dict[str, list[str]] = {}
    for folder in Path(root, "proc").glob("[0-9]*"):
        try:
            links = list((folder / "fd").iterdir())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        except OSError:
            unseen = f"process {folder.name}, whose open files cannot be seen,"
            writers.setdefault(EVERY, []).append(unseen)
            continue
        who = f"the program {_text(folder / 'comm')} (process {folder.name})"
        for device in {device for link in links for device in _written_through(link)}:
            writers.setdefault(device, []).append(who)
    for path in Path(root, "sys/block").glob("loop*/loop/backing_file"):
        writers.setdefault(_text(path), []).append(f"the loop device {path.parents[1].name}")
    return writers


def _written_through(link: Path) -> tuple[str, ...]:
    """The device that a process may write to through an open file: its path, and its number.

    Only below /dev is asked what the file is: elsewhere a file server that is away would keep this
    waiting. The link's mode says whether it is open for writing (proc(5)).
    """
    try:
        path = os.readlink(link)
        if not path.startswith("/dev/") or not link.lstat().st_mode & stat.S_IWUSR:
            return ()
    except OSError:
        return ()  # closed meanwhile
    try:
        status = link.stat()
    except OSError:
        return (path,)
    if not stat.S_ISBLK(status.st_mode):
        return (path,)
    return (path, f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}")


def _identity(root: str) -> tuple[str, str]:
    """The machine and its boot. The UUID of the VM differs in each made from one image, and stays
    through a deallocation."""
    vm = _text(Path(root, "sys/class/dmi/id/product_uuid"))
    machine = vm or _text(Path(root, "etc/machine-id"))
    return machine, _text(Path(root, "proc/sys/kernel/random/boot_id"))


def _read_marker(root: str) -> Marker | None:
    """The marker, where it is whole and of this machine."""
    machine, boot = _identity(root)
    try:
        found = json.loads(_text(Path(root, MARKER)) or "{}")
        array, its_machine, its_boot = found["array"], found["machine"], found["boot"]
    except (ValueError, KeyError, TypeError):
        return None
    known = all(isinstance(one, str) and one for one in (array, its_machine, its_boot))
    if not known or its_machine != machine:
        return None
    return Marker(array, bool(boot) and its_boot == boot)


def _record(array: str) -> None:
    """Write the marker: the array is our own, and whole in this boot."""
    machine, boot = _identity(ROOT)
    path = Path(ROOT, MARKER)
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8") as stream:
        json.dump({"array": array, "machine": machine, "boot": boot}, stream)
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(path)


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
    except FileNotFoundError as error:
        raise Missing(f"{argv[0]} is not installed") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{argv[0]}: {error}") from error
    if check and done.returncode:
        raise Ended(argv, done.returncode, (done.stderr or done.stdout).strip())
    return done.stdout


def apply(settings: Settings, plan: Plan, run: Run) -> None:
    """Do what the plan says."""
    for name in plan.stop:
        run("mdadm", "--stop", f"/dev/{name}")
    if plan.state == "assemble":
        _assemble(settings, plan, run)
    if plan.state == "ready":
        if plan.array:
            _record(plan.array)
        if plan.steps:
            _set_permissions(settings, settings.mount_point)
    if plan.state not in ("make", "rebuild"):
        return
    for name in plan.forget:
        # Superblock by superblock, only of disks that the marker proves our own.
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
    if after.problems or after.state not in ("ready", "make") or not after.device:
        raise Failed(" ".join(after.problems) or "the assembled array does not run.")
    apply(settings, after, run)


def _create(settings: Settings, plan: Plan, run: Run) -> str:
    """Make the array, and record that it is our own; its device's name.

    Without --run, mdadm too refuses a disk with content.
    """
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
            _record(array.uuid)
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
                machine = read_machine(settings, run_command, needs_mdadm=False)
                plan = decide(settings, machine)
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
