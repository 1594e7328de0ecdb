"""The states of a machine's scratch disks, and the plan for each state: one table, TABLE.

Nothing here reads or changes anything. A state that is not in the table is a refusal with its
reason. Only these may be written to:

- Blank disks: of the chosen models, without partition, signature, md superblock, mount, swap,
  holder, a program that writes to them, or a byte that is not zero in the blocks that are sampled.
- With ``wipe_unsigned``, disks that are blank but for such bytes (``Kind.UNSIGNED``), where no disk
  holds anything of ours. A signature is never overwritten.
- Remains of an array that has lost a member, where the marker (``Marker``) proves that this
  program made that very array on this machine and has found it whole since the machine booted:
  then a member is lost and not late.
- A file system on an array that the marker proves our own and that is blank.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace
from typing import Callable, NamedTuple

# Names of arrays that the images' own services make: setup_nvme.sh of azhpc-images makes
# /dev/md128, azure-vm-utils the other.
MAKERS = {"128": "Azure's setup_nvme.sh", "azure-ephemeral-md": "azure-ephemeral-disk-setup"}
# States of an array that runs and has lost no member (md(4), array_state).
WORKING = ("clean", "active", "active-idle", "write-pending", "readonly")
# Values of sysfs for the level of this program's arrays: for one that does not run, perhaps its
# number, or nothing.
LEVELS = ("raid0", "0", "")
EMPTY = "`wipefs --all` and then `blkdiscard --zeroout`"


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
    # Disks that are blank but for bytes that nothing names may be taken: the machine was made for
    # the run.
    wipe_unsigned: bool

    def permissions(self) -> str:
        """Owner, group and mode of the file system's root, as in "root:root 1777"."""
        return f"{self.owner}:{self.group} {int(self.mode, 8):04o}"


class Signature(NamedTuple):
    """The result of wipefs(8) on a device."""

    type: str
    uuid: str = ""
    label: str = ""


class Superblock(NamedTuple):
    """mdadm's result on a member of an array. The UUID has 32 hexadecimal digits."""

    uuid: str
    label: str
    level: str
    devices: int


@dataclass(frozen=True)
class Device:
    """A block device, its signatures and its users."""

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
    # Of a device without signature: where there is content.
    content: str = ""
    # Of the same: why that cannot be told.
    unread: str = ""


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


class Marker(NamedTuple):
    """That this program made an array, on this machine."""

    array: str
    # Whether it has been whole since the machine booted.
    this_boot: bool


@dataclass(frozen=True)
class Machine:
    """All that a decision needs."""

    disks: tuple[Device, ...]
    arrays: tuple[Array, ...] = ()
    # The source mounted at the mount point: a device's name, or another source as it is.
    mounted: str = ""
    # Owner, group and mode there, as Settings.permissions() writes them.
    permissions: str = ""
    marker: Marker | None = None


@dataclass(frozen=True)
class Plan:
    """The steps that are due. With problems there are none."""

    state: str
    disks: tuple[str, ...] = ()
    # Arrays of our own to stop first, and members of our own to take the superblock from.
    stop: tuple[str, ...] = ()
    forget: tuple[str, ...] = ()
    # Those of the disks whose content without a signature is overwritten.
    unsigned: tuple[str, ...] = ()
    # The device that has or gets the file system; empty for an array that is to be made.
    device: str = ""
    mounted: bool = False
    steps: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    # The UUID of the whole array, where the marker proves it our own.
    array: str = ""


# ---- deciding -----------------------------------------------------------------------------------


class Kind(enum.Enum):
    """The kinds of disks."""

    BLANK = "blank"
    UNSIGNED = "blank but for content without a signature"
    FILE_SYSTEM = "our file system"
    MEMBER = "a member of an array of ours"
    OTHER = "another's"


class DiskState(NamedTuple):
    """The observed state, for the rows of the table."""

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
        superblocks = self.superblocks
        same = len({(block.uuid, block.devices) for block in superblocks}) == 1
        return same and superblocks[0].devices == len(superblocks)

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
        """Users of this program's arrays, a part of a sentence each."""
        return tuple(words for array in self.arrays for words in _uses(array.device))


class Row(NamedTuple):
    """A state of the machine, and its plan."""

    state: str
    holds: Callable[[DiskState], object]
    plan: Callable[[DiskState], Plan]


def decide(settings: Settings, machine: Machine) -> Plan:
    """The plan for such a machine. Reads and changes nothing.

    The first row of the table that holds decides. Where none does, nothing is done.
    """
    chosen = tuple(disk for disk in machine.disks if disk.model.startswith(settings.models))
    judged = [_judge(settings, machine, disk) for disk in chosen]
    # Beside this program's own disks such a disk may be a damaged part of their array.
    free = {Kind.UNSIGNED} if {kind for kind, _ in judged} <= {Kind.BLANK, Kind.UNSIGNED} else set()
    observed = DiskState(
        settings,
        machine,
        chosen,
        tuple(kind for kind, _ in judged),
        tuple(problem for kind, problem in judged if problem and kind not in free),
        tuple(_our_arrays(settings, machine)),
    )
    for row in TABLE:
        if row.holds(observed):
            return row.plan(observed)
    return _refused(
        observed, f"{words(observed.names)} are in no state that is known: leave them alone."
    )


def _is_mounted_by_another(observed: DiskState) -> bool:
    mounted = observed.machine.mounted
    return bool(mounted) and not _is_ours(observed.settings, observed.machine, mounted)


def _mounted_by_another(observed: DiskState) -> Plan:
    """Something else is mounted at the mount point: the plan keeps it or refuses."""
    settings, machine, mounted = observed.settings, observed.machine, observed.machine.mounted
    theirs = [array for array in machine.arrays if not is_our_label(settings, array.label)]
    below = next((a.members for a in theirs if a.device.name == mounted), ())
    below = tuple(below or (mounted,))
    local = set(below) <= set(observed.names)
    if local and settings.existing == "keep":
        return Plan("kept", below, device=mounted)
    mend = "Choose another nvme_scratch_mount_point."
    if local:
        mend = "Set nvme_scratch_existing to keep to leave it as it is."
    holder = _array_words(machine, mounted) or f"{mounted}, which something else made"
    return _refused(observed, f"{settings.mount_point} is the mount point of {holder}. {mend}")


def _wrong_number(observed: DiskState) -> str:
    """Why there are too many disks, or too few; empty where their number may be."""
    settings, chosen = observed.settings, observed.chosen
    expected = len(chosen) if settings.expected_disks is None else settings.expected_disks
    if len(chosen) == expected or (len(chosen) < expected and settings.fewer_disks_allowed):
        return ""
    listing = f"{len(chosen)} ({', '.join(disk.name for disk in chosen)})" if chosen else "none"
    mend = "redeploy the VM, or set nvme_scratch_fewer_disks_allowed"
    if len(chosen) > expected:
        mend = "narrow nvme_scratch_models, or correct the catalog"
    return (
        f"expected {expected} disks of the model(s) {', '.join(settings.models)},"
        f" found {listing}: {mend}."
    )


def _strange_arrays(observed: DiskState) -> list[str]:
    """Arrays with our label that this program does not make, or over disks that are not chosen."""
    other_disks = {disk.name for disk in observed.machine.disks} - set(observed.names)
    return [
        array.device.name
        for array in observed.arrays
        if array.level not in LEVELS or other_disks & set(array.members)
    ]


def _strange(observed: DiskState) -> Plan:
    arrays_text = ", ".join(
        _array_words(observed.machine, name) for name in _strange_arrays(observed)
    )
    return _refused(
        observed, f"this role made no such array: {arrays_text}. Stop it, or rename it."
    )


def _is_on_some(observed: DiskState) -> bool:
    """Whether some of several disks hold an intact file system of ours: alone, or as an array."""
    single = observed.of(Kind.FILE_SYSTEM) and len(observed.names) > 1
    return bool(single or (observed.whole and len(observed.superblocks) < len(observed.names)))


def _on_some(observed: DiskState) -> Plan:
    intact = words(observed.of(Kind.FILE_SYSTEM) or observed.of(Kind.MEMBER))
    problem = (
        f"{intact} hold(s) an intact scratch file system, but {words(observed.names)} are here:"
    )
    mend = f"save what is in it, unmount it, then have it made over all disks by {EMPTY}"
    return _refused(observed, f"{problem} {mend} on {intact}.")


def _running(observed: DiskState) -> list[Array]:
    """The whole array, where it runs."""
    return [a for a in observed.arrays if observed.whole and _runs(a, observed.names)]


def _whole_runs(observed: DiskState) -> Plan:
    plan = Plan(
        "ready", observed.names, device=_running(observed)[0].device.name, array=observed.proven
    )
    return _with_file_system(observed, plan)


def _used(observed: DiskState) -> Plan:
    problem = f"an array of ours is not whole, and in use: {', '.join(observed.used)}."
    return _refused(observed, f"{problem} End what uses it, unmount it, then run again.")


def _assembled(observed: DiskState) -> Plan:
    stale = tuple(array.device.name for array in observed.arrays)
    steps = (*(f"stop {name}" for name in stale), f"assemble the array of {words(observed.names)}")
    return Plan("assemble", observed.names, stop=stale, steps=steps, array=observed.proven)


def _not_proven(observed: DiskState) -> Plan:
    """Part of an array of ours is here, and nothing says that the rest is lost and not late."""
    members, devices = (
        observed.of(Kind.MEMBER),
        max(block.devices for block in observed.superblocks),
    )
    reason = "it has not been whole since this machine booted, so that a disk may be late"
    if not observed.proven:
        reason = "nothing proves that this machine made it"
    problem = (
        f"{words(members)} hold(s) a part of a scratch array of {devices} disk(s), and {reason}:"
    )
    mend = "Run again once all disks are there; or deallocate and start the VM; or empty them"
    return _refused(observed, f"{problem} nothing was changed. {mend} by {EMPTY}.")


def _made(observed: DiskState) -> Plan:
    """The plan for disks that are blank, or the remains of an array that lost a member."""
    names, forget = observed.names, observed.of(Kind.MEMBER)
    stop = tuple(array.device.name for array in observed.arrays)
    device = "" if len(names) > 1 else names[0]
    unsigned = observed.of(Kind.UNSIGNED)
    lost = [f"overwrite the content of {words(unsigned)}, which no signature names"]
    return Plan(
        "rebuild" if forget or stop else "make",
        names,
        stop=stop,
        forget=forget,
        unsigned=unsigned,
        device=device,
        steps=(*(lost if unsigned else []), *_steps(stop, forget, names)),
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
    Row("disks without a signature", lambda s: s.of(Kind.UNSIGNED), _made),
)


def _steps(
    stop: tuple[str, ...], forget: tuple[str, ...], names: tuple[str, ...]
) -> tuple[str, ...]:
    several, over = len(names) > 1, words(names)
    return (
        *(f"stop the array {name}" for name in stop),
        *([f"forget the lost array on {words(forget)}"] if forget else []),
        *([f"make RAID 0 over {over}"] if several else []),
        f"make an XFS file system {'over' if several else 'on'} {over}",
    )


def _with_file_system(observed: DiskState, plan: Plan) -> Plan:
    """The plan for the device: its file system is there, is to be made, or is not ours."""
    settings, machine = observed.settings, observed.machine
    devices = {d.name: d for d in (*machine.disks, *(a.device for a in machine.arrays))}
    device = devices[plan.device]
    if _has_our_file_system(settings, device):
        elsewhere = [path for path in device.mounts if path != settings.mount_point]
        if elsewhere and settings.mount_point not in device.mounts:
            problem = f"our file system on {device.name} is mounted at {elsewhere[0]}: unmount it."
            return _refused(observed, problem)
        mounted = settings.mount_point in device.mounts
        wrong = mounted and machine.permissions != settings.permissions()
        step = f"set {settings.permissions()} instead of {machine.permissions}"
        return replace(plan, mounted=mounted, steps=(step,) if wrong else ())
    held = (signatures_in(device), device.content, device.unread, *_uses(device))
    problem = ", ".join(filter(None, held))
    if problem:
        problem = (
            f"our array {device.name} has {problem}, which something else put there, or this role"
            " for another mount point, or it is of a file system that was not finished: set that"
            f" back, or unmount it and empty it by {EMPTY}."
        )
        return _refused(observed, problem)
    if not plan.array:
        problem = f"our array {device.name} has no file system, and nothing proves that this"
        return _refused(observed, f"{problem} machine made it: remove it, and empty its disks.")
    return replace(plan, state="make", steps=(f"make an XFS file system on {device.name}",))


def _refused(observed: DiskState, *problems: str) -> Plan:
    return Plan("refused", observed.names, problems=problems)


def _judge(settings: Settings, machine: Machine, disk: Device) -> tuple[Kind, str]:
    """A disk's kind; a sentence where it is another's, or has content without a signature."""
    kind = Kind.BLANK
    if _has_our_file_system(settings, disk):
        kind = Kind.FILE_SYSTEM
    elif _is_our_member(settings, disk):
        kind = Kind.MEMBER
    claims = _of_others(settings, machine, disk, kind)
    content = disk.content if kind is Kind.BLANK else ""
    if not (claims or content):
        return kind, ""
    mend = f"empty it ({EMPTY}), or leave the disk out (nvme_scratch_models)."
    if not (claims or settings.wipe_unsigned):
        mend += " On a machine that was made for the run, set nvme_scratch_wipe_unsigned."
    sentence = (
        f"/dev/{disk.name} ({disk.model.strip()}, {disk.bytes} bytes) has"
        f" {' and '.join(filter(None, (*claims, content)))}: nothing was changed. Save what is"
        f" needed, then {mend}"
    )
    return (Kind.OTHER if claims or not settings.wipe_unsigned else Kind.UNSIGNED), sentence


def _of_others(settings: Settings, machine: Machine, disk: Device, kind: Kind) -> list[str]:
    """Signs that a disk is another's, whatever its bytes are, a part of a sentence each."""
    claims = [f"the partition(s) {', '.join(disk.partitions)}"] if disk.partitions else []
    if disk.unexamined:
        claims.append(f"what cannot be told, since {disk.unexamined}")
    if kind is Kind.BLANK:
        claims += filter(None, (signatures_in(disk), _superblock_words(disk), disk.unread))
        claims += [f"{who} that writes to it" for who in disk.writers]
    claims += _held_by_others(settings, machine, disk)
    if disk.mounts and kind is not Kind.FILE_SYSTEM:
        claims.append(f"a mount at {', '.join(disk.mounts)}")
    if disk.swap:
        claims.append("swap in use")
    if disk.busy and not claims and kind is Kind.BLANK:
        claims.append("a program that holds it open")
    return claims


def _uses(device: Device) -> list[str]:
    """Users of a device, a part of a sentence each."""
    return [
        *(f"{device.name} is mounted at {mount_point}" for mount_point in device.mounts),
        *(f"the device {name} is on {device.name}" for name in device.holders),
        *(f"{who} writes to {device.name}" for who in device.writers),
        *([f"{device.name} is swap"] if device.swap else []),
    ]


def _held_by_others(settings: Settings, machine: Machine, disk: Device) -> list[str]:
    """The devices on the disk that are no array of ours."""
    ours = [array.device.name for array in _our_arrays(settings, machine)]
    foreign = [name for name in disk.holders if name not in ours]
    return [_array_words(machine, name) or f"the device {name} on it" for name in foreign]


def signatures_in(device: Device) -> str:
    """The signatures on a device, a part of a sentence."""
    return ", ".join(
        f"a signature of {signature.type}"
        + (f" ({signature.label}{_maker(signature.label)})" if signature.label else "")
        for signature in device.signatures
    )


def _superblock_words(device: Device) -> str:
    block = device.superblock
    if not block:
        return ""
    return f"a superblock of the {block.level} {block.label or block.uuid} of {block.devices}"


def _maker(label: str) -> str:
    maker = MAKERS.get(label.rpartition(":")[2])
    return f", which {maker} made" if maker else ""


def _array_words(machine: Machine, name: str) -> str:
    for array in machine.arrays:
        if array.device.name == name:
            label = f" {array.label}" if array.label else ""
            composition = f"{array.level or array.state} of {words(array.members)}"
            maker = _maker(array.label) or ", which something else made"
            return f"the array /dev/{name}{label} ({composition}){maker}"
    return ""


def is_our_label(settings: Settings, label: str) -> bool:
    return label.rpartition(":")[2] == settings.array


def _our_arrays(settings: Settings, machine: Machine) -> list[Array]:
    return [array for array in machine.arrays if is_our_label(settings, array.label)]


def _is_our_member(settings: Settings, disk: Device) -> bool:
    """Whether it is a member of an array as this program makes them, by wipefs and by mdadm, and
    nothing else."""
    block = disk.superblock
    if not block or len(disk.signatures) != 1:
        return False
    (signature,) = disk.signatures
    same = signature.type == "linux_raid_member" and digits(signature.uuid) == block.uuid
    labels = is_our_label(settings, signature.label) and is_our_label(settings, block.label)
    return same and labels and block.level == "raid0"


def digits(uuid: str) -> str:
    """A UUID without the separators that wipefs and mdadm put between its digits."""
    return re.sub(r"[^0-9a-f]", "", uuid.lower())


def _has_our_file_system(settings: Settings, device: Device) -> bool:
    signatures = [(signature.type, signature.uuid) for signature in device.signatures]
    return signatures == [("xfs", settings.uuid)]


def holds_none_of_others(settings: Settings, device: Device) -> bool:
    """Whether a device has no signature, or that of a file system of ours alone."""
    return not device.signatures or _has_our_file_system(settings, device)


def _is_ours(settings: Settings, machine: Machine, name: str) -> bool:
    devices = (*machine.disks, *(a.device for a in machine.arrays))
    return any(d.name == name and _has_our_file_system(settings, d) for d in devices)


def _runs(array: Array, names: tuple[str, ...]) -> bool:
    return array.state in WORKING and array.level == "raid0" and set(array.members) == set(names)


def words(names: tuple[str, ...]) -> str:
    return ", ".join(names)
