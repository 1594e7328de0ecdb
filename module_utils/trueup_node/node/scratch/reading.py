"""The scratch disks of a machine, as sysfs, procfs, wipefs(8) and mdadm(8) show them."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Callable, NamedTuple

from .states import WORKING, Array, Device, Machine, Marker, Settings, Signature, Superblock, digits

SECTOR_BYTES = 512
ROOT = "/"
# The kernel's names of possible scratch disks: a whole namespace of an NVMe controller.
DISKS = "nvme[0-9]+n[0-9]+"
# Which array this program made: its UUID, the machine and the boot in which it was last whole. On
# the OS disk, which a deallocation leaves as it is.
MARKER = "var/lib/trueup/nvme_scratch.json"
# Content is looked for in the first and the last MiB, and in blocks at even distances.
EDGE_BYTES = 2**20
BLOCK_BYTES = 4096
BLOCKS = 512
# Among those who write to devices: who may write to any.
EVERY = "every device"

Run = Callable[..., str]


class Failed(Exception):
    """A command failed, or the machine is not as it must be; one sentence."""


class Missing(Failed):
    """A program is not installed."""


class Ended(Failed):
    """A command ended with another status than 0."""

    def __init__(self, argv: tuple[str, ...], status: int, message: str) -> None:
        """``message``: the program's error output, or else its output."""
        last = " / ".join(message.splitlines()[-3:])
        super().__init__(f"{' '.join(argv)} ended with status {status}: {last}")
        self.status = status
        self.said = message


def run_command(*argv: str, check: bool = True) -> str:
    """Standard output of a command that is asked nothing."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    try:
        done = subprocess.run(
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
        if re.fullmatch(DISKS, name)
    )
    arrays = tuple(
        system.array(name)
        for name in names
        if re.fullmatch(r"md.+", name) and (block / name / "md").is_dir()
    )
    machine = Machine(disks, arrays, marker=_read_marker(root))
    mounted_numbers = [
        number for number, places in mounts.items() if settings.mount_point in places
    ]
    if not mounted_numbers:
        return machine
    by_number = {_text(block / name / "dev"): name for name in names}
    mounted = by_number.get(mounted_numbers[-1], f"a file system ({mounted_numbers[-1]})")
    mount_path = Path(root, settings.mount_point.lstrip("/"))
    try:
        permissions = _read_permissions(mount_path)
    except OSError as error:
        raise Failed(
            f"{settings.mount_point}, where {mounted} is mounted, cannot be read"
            f" ({error.strerror}): a disk below it may be lost. End what uses it, unmount it, and"
            " run this again."
        ) from None
    return replace(machine, mounted=mounted, permissions=permissions)


class _System(NamedTuple):
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
        content, unread = _read_content(Path(self.root, "dev", device.name), device)
        return replace(device, content=content, unread=unread)

    def device(self, name: str, *, look: bool) -> Device:
        """A device; its signatures only where ``look``."""
        folder = Path(self.root, "sys/block", name)
        parts = sorted((p.parent.name for p in folder.glob("*/partition")), key=_numbered)
        numbers = [_text(folder / partition / "dev") for partition in ("", *parts)]
        signatures = _read_signatures(self.run, name) if look else ()
        holders = [
            p.name for partition in ("", *parts) for p in (folder / partition).glob("holders/*")
        ]
        return Device(
            name=name,
            model=_text(folder / "device/model"),
            bytes=int(_text(folder / "size") or 0) * SECTOR_BYTES,
            signatures=signatures,
            partitions=tuple(parts),
            mounts=tuple(
                mount_point for number in numbers for mount_point in self.mounts.get(number, ())
            ),
            swap=bool(self.swaps & {name, *parts}),
            holders=tuple(sorted(holders)),
            busy=look and _is_busy(Path(self.root, "dev", name)),
            # By its path and by its number it is the same program.
            writers=tuple(
                dict.fromkeys(
                    who
                    for key in (f"/dev/{name}", numbers[0], EVERY)
                    for who in self.writers.get(key, ())
                )
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
            uuid=digits(label.get("MD_UUID", "")),
        )


def _read_swaps(path: Path) -> frozenset[str]:
    return frozenset(Path(line.split()[0]).name for line in _text(path).splitlines()[1:])


def _read_mounts(path: Path) -> dict[str, tuple[str, ...]]:
    """Device number to mount points; proc(5) writes blanks as octal."""
    places: dict[str, tuple[str, ...]] = {}
    for line in _text(path).splitlines():
        number, mount_point = line.split()[2], line.split()[4]
        mount_point = re.sub(
            r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), mount_point
        )
        places[number] = (*places.get(number, ()), mount_point)
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
    fields = _export(text)
    uuid, count = digits(fields.get("MD_UUID", "")), fields.get("MD_DEVICES", "")
    if not uuid or not re.fullmatch("[0-9]+", count) or not fields.get("MD_LEVEL"):
        return None, f"mdadm says of {path} what cannot be read: {text.strip()[:200]!r}"
    return Superblock(uuid, fields.get("MD_NAME", ""), fields["MD_LEVEL"], int(count)), ""


def _read_content(path: Path, device: Device) -> tuple[str, str]:
    """Where a device without signature has a byte that is not zero, among the sampled blocks; and
    why that cannot be told."""
    inner = range(0, device.bytes, max(BLOCK_BYTES, device.bytes // BLOCKS))
    last = max(0, device.bytes - EDGE_BYTES)
    blocks = [(0, EDGE_BYTES), (last, EDGE_BYTES)]
    blocks += [(at - at % BLOCK_BYTES, BLOCK_BYTES) for at in inner if EDGE_BYTES <= at < last]
    content = ""
    try:
        with path.open("rb", buffering=0) as stream:
            for start, most in blocks:
                block = os.pread(stream.fileno(), most, start)
                if len(block) < min(most, device.bytes - start) or not block:
                    return content, f"no content to be read at byte {start}"
                if not content and block.count(0) < len(block):
                    at = start + len(block) - len(block.lstrip(b"\0"))
                    content = f"content without a signature, at byte {at}"
    except OSError as error:
        return content, f"content that cannot be read ({error.strerror})"
    return content, ""


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

    The file's type is read only below /dev: elsewhere an unreachable file server would block this.
    The link's mode says whether it is open for writing (proc(5)).
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
        marker = json.loads(_text(Path(root, MARKER)) or "{}")
        array, its_machine, its_boot = marker["array"], marker["machine"], marker["boot"]
    except (ValueError, KeyError, TypeError):
        return None
    is_valid = all(isinstance(text, str) and text for text in (array, its_machine, its_boot))
    if not is_valid or its_machine != machine:
        return None
    return Marker(array, bool(boot) and its_boot == boot)


def record(array: str) -> None:
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
    """As sysfs.text_of, which is not among the files that the node's program is made of."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _numbered(name: str) -> list[tuple[int, str]]:
    return [
        (int(token or 0), "") if token.isdecimal() else (0, token)
        for token in re.split(r"(\d+)", name)
    ]
