"""Random histories of a machine's local disks, against real mdadm, wipefs, mkfs.xfs, udev and md.

    python3 histories.py FOLDER [--disks KIND] [--count N] [--seed S] [--seconds T] [--fault NAME]

It runs as root in a machine that may lose everything on its disks, and calls the program of the
role nvme_scratch, in FOLDER/trueup_scratch, in this process. Disks leave their bus and come back
under other names, other programs write, the machine boots, is deallocated and is another one,
tools fail, and the power goes between two commands. What the kernel counted as written or
discarded says whether a disk of another's has changed by a byte; a user's file must be read again.

Disks are of a KIND: ``nvme``, as QEMU has them on its PCI bus, or ``scsi``, over files in memory,
which a kernel without PCI (user-mode Linux) can take away and bring back much faster.

It prints a line a history that it got wrong, with its seed, and at the end how many there were,
what the program said in them and which rows of its table decided. Exit status 1: some were wrong.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODEL = "QEMU NVMe Ctrl"
WHERE = "/mnt/histories"
UUID = "c25b211f-add0-5772-b403-f6827eb1a18b"
EDGE = 2**20
STEPS = 9
SETTINGS = {
    "models": [MODEL],
    "mount_point": WHERE,
    "uuid": UUID,
    "array": "trueup-scratch",
    "chunk_kib": 512,
    "owner": "root",
    "group": "root",
    "mode": "1777",
    "existing": "refuse",
    "wipe_unsigned": False,
    "wait_seconds": 0,
}
# The emulated machine has no product_uuid, so that it is known by its machine-id.
BOOT, VM = "/proc/sys/kernel/random/boot_id", "/etc/machine-id"
FAKES = Path("/run/histories")
# linux/netlink.h and asm-generic/socket.h; the group to which udev passes on what it has done.
NETLINK_KOBJECT_UEVENT, SO_RCVBUFFORCE, UDEV_GROUP = 15, 33, 2
FAULTS = ("unsigned", "late", "unproven", "raid")
TOOLS = ("wipefs --json", "wipefs --all", "mdadm --examine", "mdadm --detail", "mdadm --create")
TOOLS += ("mdadm --assemble", "mdadm --stop", "mkfs.xfs", "mount", "umount")


class PowerFailure(BaseException):
    """The machine is off from one command to the next."""


class Wrong(Exception):
    """The program did what it must not."""


def sh(*argv: str, check: bool = True) -> str:
    """Standard output of a command of the world around the program."""
    done = subprocess.run(argv, check=False, capture_output=True, text=True)  # noqa: S603 (argv)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.returncode} {done.stderr.strip()[-300:]}")
    return done.stdout


class Settled:
    """Waits until udev has done with all that the kernel has said, without a program for that."""

    def __init__(self) -> None:
        kinds = (socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_KOBJECT_UEVENT)
        self.messages = socket.socket(*kinds)
        self.messages.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 2**23)
        self.messages.bind((0, UDEV_GROUP))
        self.messages.settimeout(10)
        self.last = 0
        sh("udevadm", "trigger", "--action=change", "--sysname-match=null")

    def __call__(self) -> None:
        queue = Path("/run/udev/queue")
        try:
            while self.last < int(Path("/sys/kernel/uevent_seqnum").read_text()):
                found = re.search(rb"\0SEQNUM=([0-9]+)\0", self.messages.recv(2**16))
                self.last = max(self.last, int(found[1]) if found else 0)
        except OSError:
            pass
        deadline = time.monotonic() + 60
        while queue.exists() and time.monotonic() < deadline:
            time.sleep(0.005)


def arrays() -> list[str]:
    return [path.parent.name for path in Path("/sys/block").glob("md*/md")]


def written(name: str) -> tuple[int, ...]:
    """What the kernel has written to and discarded on a disk since it came, in requests."""
    fields = Path(f"/sys/block/{name}/stat").read_text().split()
    # Documentation/block/stat.rst: write I/Os, write sectors; discard I/Os, discard sectors.
    return tuple(int(fields[at]) for at in (4, 6, 11, 13))


def look(name: str, start: int, size: int) -> bytes:
    """Bytes of a disk as they are on it."""
    with open(f"/dev/{name}", "rb", buffering=0) as stream:
        return os.pread(stream.fileno(), size, start)


def superblock(name: str) -> dict[str, Any]:
    """What md wrote on a disk (mdp_superblock_1 of linux/raid/md_p.h); empty where nothing."""
    block = look(name, 4096, 256)
    if block[:4] != b"\xfc\x4e\x2b\xa9":
        return {}
    level, devices = struct.unpack_from("<i", block, 72)[0], struct.unpack_from("<I", block, 92)[0]
    label = block[32:64].rstrip(b"\0").decode()
    return {"uuid": block[16:32].hex(), "label": label, "level": level, "devices": devices}


def is_our_file_system(name: str) -> bool:
    block = look(name, 0, 512)
    return block[:4] == b"XFSB" and block[32:48].hex() == UUID.replace("-", "")


def mounted_at(place: str) -> str:
    """The number of the device that is mounted there, as in "9:127", also of one that fails; empty
    where none is."""
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return next((line[2] for line in reversed(lines) if line[4] == place), "")


def fake(path: str, text: str) -> None:
    """Let a file of the kernel's say something else."""
    FAKES.mkdir(exist_ok=True)
    beside = FAKES / path.strip("/").replace("/", "-")
    beside.write_text(text + "\n")
    if not mounted_at(path):
        sh("mount", "--bind", str(beside), path)


class Nvme:
    """Three NVMe disks on the PCI bus, as QEMU has them."""

    names = "nvme[0-9]+n[0-9]+"
    bystander = ""

    def attached(self) -> dict[str, str]:
        """Serial number to name of each disk that is there."""
        found = Path("/sys/block").glob("nvme*n*")
        return {(path / "device/serial").read_text().strip(): path.name for path in found}

    def remove(self, name: str) -> None:
        Path(f"/sys/block/{name}/device/device/remove").write_text("1")

    def come(self, draw: random.Random) -> None:
        """All disks are there again; their names are as the kernel finds them."""
        draw.random()
        Path("/sys/bus/pci/rescan").write_text("1")
        deadline = time.monotonic() + 60
        while len(self.attached()) < 3 and time.monotonic() < deadline:
            time.sleep(0.1)

    def empty(self) -> None:
        for name in self.attached().values():
            sh("wipefs", "--all", "--quiet", f"/dev/{name}", check=False)
            sh("blkdiscard", "--zeroout", f"/dev/{name}")


class Scsi:
    """Three disks of the kernel's SCSI target over files in memory, and one of another model."""

    names = "sd[a-z]+"
    size = 336 * 2**20
    config = Path("/sys/kernel/config/target")
    files = Path("/run/histories-disks")

    def __init__(self) -> None:
        for module in ("configfs", "tcm_loop", "target_core_file", "sd_mod", "raid0", "raid1"):
            sh("modprobe", module)
        sh("mount", "-t", "configfs", "none", "/sys/kernel/config", check=False)
        self.files.mkdir()
        sh("mount", "-t", "tmpfs", "-o", "size=80%", "none", str(self.files))
        for number in range(4):
            # One host bus adapter each, in this order.
            group = self.config / f"loopback/naa.500140500000000{number}/tpgt_1"
            group.mkdir(parents=True)
            (group / "nexus").write_text(f"naa.500140500000001{number}")
            file = self.files / str(number)
            with file.open("wb") as stream:
                stream.truncate(self.size)
            store = self.config / f"core/fileio_{number}/disk"
            store.mkdir(parents=True)
            (store / "control").write_text(f"fd_dev_name={file},fd_dev_size={self.size}")
            (store / "wwn/product_id").write_text("Of another kind" if number == 3 else MODEL)
            (store / "enable").write_text("1")
            (group / "lun/lun_0").mkdir(parents=True)
            (group / "lun/lun_0/disk").symlink_to(store)

    def all(self) -> dict[str, str]:
        found = Path("/sys/block").glob("sd*")
        return {(path / "device").resolve().name.partition(":")[0]: path.name for path in found}

    @property
    def bystander(self) -> str:
        """A disk of another model; it never leaves."""
        return self.all()["3"]

    def attached(self) -> dict[str, str]:
        """Number of the disk to its name, of each that is there."""
        return {number: name for number, name in self.all().items() if number != "3"}

    def remove(self, name: str) -> None:
        Path(f"/sys/block/{name}/device/delete").write_text("1")

    def come(self, draw: random.Random) -> None:
        """All disks are there again, in any order, from which their names follow."""
        numbers = ["0", "1", "2"]
        random.Random(draw.random()).shuffle(numbers)  # noqa: S311 (a history is no secret)
        for number in numbers:
            Path(f"/sys/class/scsi_host/host{number}/scan").write_text("- - -")

    def empty(self) -> None:
        """Cut to nothing and made as long again: nothing of it is stored, so that it reads zero."""
        for number, name in self.attached().items():
            with (self.files / number).open("r+b") as stream:
                stream.truncate(0)
                stream.truncate(self.size)
                if os.fstat(stream.fileno()).st_blocks:
                    raise RuntimeError(f"disk {number} is not empty")
            sh("blockdev", "--flushbufs", f"/dev/{name}")
            Path(f"/sys/block/{name}/uevent").write_text("change")


class History:
    """One machine; ``draw`` decides all that happens."""

    real: Any
    reading: Any

    def __init__(self, program: Any, disks: Nvme | Scsi, settle: Settled, seed: int) -> None:
        self.program, self.disks, self.settle = program, disks, settle
        self.draw = random.Random(seed)  # noqa: S311 (a history is no secret)
        self.boots = self.files = 0
        self.theirs: set[str] = set()
        self.opened: dict[str, int] = {}
        # Of our arrays and file systems: a user's file in it, and the boot in which it was last met
        # whole.
        self.file_in: dict[str, str] = {}
        self.whole_in: dict[str, int] = {}
        # Of these the program's last run has left the file readable.
        self.read: set[str] = set()
        self.told: list[str] = []
        self.seen: collections.Counter[str] = collections.Counter()

    # ---- what happens ---------------------------------------------------------------------------

    def begin(self) -> None:
        fake(VM, f"vm-{self.draw.random()}")
        Path("/var/lib/trueup/nvme_scratch.json").unlink(missing_ok=True)
        self.deallocate()
        if self.draw.random() < 0.7:
            self.run(expected=3)
            self.a_user_writes()

    def attached(self) -> dict[str, str]:
        return self.disks.attached()

    def close_all(self) -> None:
        for handle in self.opened.values():
            os.close(handle)
        self.opened = {}

    def stop_all(self) -> None:
        self.close_all()
        for place in (WHERE, "/run/trueup-nvme-scratch"):
            while mounted_at(place):
                sh("umount", place)
        os.sync()
        self.settle()
        self.stop_arrays()

    def stop_arrays(self) -> None:
        for name in arrays():
            sh("mdadm", "--stop", f"/dev/{name}", check=False)

    def boot(self) -> None:
        self.boots += 1
        fake(BOOT, f"boot-{self.boots}-{self.draw.random()}")

    def come(self) -> None:
        self.disks.come(self.draw)
        self.settle()
        if len(self.attached()) != 3:
            raise RuntimeError(f"not all disks came: {self.attached()}")

    def deallocate(self) -> None:
        """All disks are new; the disk with the marker stays."""
        self.stop_all()
        self.come()
        self.stop_all()
        self.disks.empty()
        self.settle()
        if self.disks.bystander:
            sh("mdadm", "--zero-superblock", f"/dev/{self.disks.bystander}", check=False)
        self.theirs, self.file_in = set(), {}
        self.boot()

    def reboot(self, late: int = 0) -> None:
        """Disks come by themselves, so that udev assembles what is whole; some come late."""
        self.stop_all()
        for name in self.attached().values():
            self.disks.remove(name)
        self.settle()
        self.boot()
        self.come()
        for name in self.draw.sample(sorted(self.attached().values()), late):
            self.go(name)
        if late:
            self.stop_arrays()

    def go(self, name: str = "") -> None:
        """A disk leaves, with what is on it in use or not."""
        names = sorted(self.attached().values())
        if not names:
            return
        name = name or self.draw.choice(names)
        if self.draw.random() < 0.7:
            self.close_all()
            if mounted_at(WHERE):
                sh("umount", "--lazy", WHERE)
        self.disks.remove(name)
        handle = self.opened.pop(name, None)
        if handle is not None:
            os.close(handle)
        self.settle()

    def go_all(self, left: int) -> None:
        """All disks go but so many, and the program runs; twice, to find again what it made."""
        while len(self.attached()) > left:
            self.go()
        self.run(expected=self.draw.choice((None, 3)))
        self.a_user_writes()
        self.run()

    def lose_in_use(self) -> None:
        """A program has an array open that is not mounted, a disk leaves, and ours runs."""
        while mounted_at(WHERE):
            sh("umount", WHERE)
        for name in set(arrays()) - set(self.opened):
            self.opened[name] = os.open(f"/dev/{name}", os.O_RDWR)
        names = sorted(self.attached().values())
        if names:
            self.disks.remove(self.draw.choice(names))
            self.settle()
        self.run()

    def free(self) -> str:
        """A disk that no array holds, and that has no array's superblock and no file system of
        ours; empty where there is none."""
        names = [
            name
            for _, name in sorted(self.attached().items())
            if not self.ours(name) and not any(Path(f"/sys/block/{name}/holders").iterdir())
        ]
        return self.draw.choice(names) if names else ""

    def another_writes(self) -> None:
        name = self.free()
        if not name:
            return
        size = int(Path(f"/sys/block/{name}/size").read_text()) * 512
        step = max(4096, size // 512)
        at = self.draw.choice((0, 5000, EDGE - 1, size - 1, size - EDGE, 100 * step, 300 * step))
        with open(f"/dev/{name}", "r+b", buffering=0) as stream:
            stream.seek(at)
            stream.write(b"\x01")
            os.fsync(stream.fileno())
        self.theirs.add(self.serial(name))

    def another_opens(self) -> None:
        """A disk that is not ours, or any array."""
        name = self.draw.choice([self.free(), *arrays()])
        if name and name not in self.opened:
            self.opened[name] = os.open(f"/dev/{name}", os.O_RDWR)

    def another_formats(self) -> None:
        name = self.free()
        if name and self.is_idle(name):
            make = self.draw.choice(
                (("mkfs.ext4", "-q", "-F"), ("mkswap", "-q"), ("mkfs.xfs", "-qf"))
            )
            sh(*make, f"/dev/{name}")
            self.theirs.add(self.serial(name))

    def is_idle(self, name: str) -> bool:
        try:
            os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_EXCL))
        except OSError:
            return False
        return True

    def another_mounts(self) -> None:
        """At our mount point; only to read, so that the kernel has nothing to write."""
        name = self.free()
        if name and self.is_idle(name) and not mounted_at(WHERE):
            sh("mkfs.ext4", "-q", "-F", f"/dev/{name}")
            self.theirs.add(self.serial(name))
            Path(WHERE).mkdir(exist_ok=True)
            sh("mount", "-o", "ro", f"/dev/{name}", WHERE)

    def another_array(self) -> None:
        """As another administrator makes it, or a service of the images; of one level or another,
        with our name or another, whole or not, over our disks or partly over disks of others."""
        if Path("/dev/md/other").exists():
            return
        names = sorted({self.free() for _ in range(3)} - {""})[:2]
        names = [name for name in names if self.is_idle(name)]
        if not names:
            return
        level = self.draw.choice(("0", "1"))
        label = self.draw.choice(("trueup-scratch", "128", "data"))
        device = "/dev/md128" if label == "128" else "/dev/md/other"
        across, lacks = self.draw.random() < 0.5, self.draw.random() < 0.3
        over = [*names, *([self.disks.bystander] if across and self.disks.bystander else [])]
        members = [*(f"/dev/{name}" for name in over), *(["missing"] if lacks * int(level) else [])]
        whole = ["--assume-clean"] if level == "1" and len(members) > 1 else []
        sh(
            *("mdadm", "--create", device, "--run", "--force", f"--name={label}"),
            *("--homehost=any", "--metadata=1.2", f"--level={level}", *whole),
            *(f"--raid-devices={len(members)}", *members),
        )
        self.theirs |= {self.serial(name) for name in names}
        self.settle()
        if self.draw.random() < 0.5:
            self.stop_arrays()

    def a_user_writes(self) -> None:
        uuid = self.mounted()
        if uuid in self.whole():
            self.files += 1
            text = f"file {self.files}"
            Path(WHERE, "file").write_text(text)
            os.sync()
            self.file_in[uuid] = text

    def another_machine(self) -> None:
        fake(VM, f"vm-{self.draw.random()}")
        self.reboot()

    # ---- the program, and what must hold --------------------------------------------------------

    def serial(self, name: str) -> str:
        return {name: serial for serial, name in self.attached().items()}.get(name, "")

    def ours(self, name: str) -> str:
        """The array or file system of ours that a disk is of; empty where it is of none."""
        if self.serial(name) in self.theirs:
            return ""
        if is_our_file_system(name):
            return f"alone on {self.serial(name)}"
        found = superblock(name)
        ours = found and found["label"].endswith("trueup-scratch") and found["level"] == 0
        return found["uuid"] if ours else ""

    def members(self) -> dict[str, list[str]]:
        """Of each array of ours, the disks that are there."""
        found: dict[str, list[str]] = collections.defaultdict(list)
        for name in sorted(self.attached().values()):
            uuid = self.ours(name)
            if uuid:
                found[uuid].append(name)
        return found

    def whole(self) -> set[str]:
        """The arrays and file systems of ours of which no disk lacks."""
        found = self.members().items()
        return {uuid for uuid, at in found if len(at) == superblock(at[0]).get("devices", 1)}

    def mounted(self) -> str:
        """Our array or file system that is mounted; empty where none is."""
        at = mounted_at(WHERE)
        block = Path("/sys/dev/block", at).resolve()
        below = [path.name for path in block.glob("slaves/*")] if at else []
        name = below[0] if below else block.name
        return self.ours(name) if at and Path("/dev", name).exists() else ""

    def unsigned(self) -> set[str]:
        """The disks that ``wipe_unsigned`` gives to the program: content of others that no
        signature names, and nobody uses; none where a disk has a signature."""
        names = sorted(self.attached().values())
        signed = [name for name in names if sh("wipefs", "--noheadings", f"/dev/{name}").strip()]
        if signed or any(self.ours(name) or superblock(name) for name in names):
            return set()
        free = {name for name in names if name not in self.opened and self.is_idle(name)}
        return {name for name in free if self.serial(name) in self.theirs}

    def meet(self) -> None:
        for uuid in self.whole():
            self.whole_in[uuid] = self.boots

    def run(self, *, expected: int | None = None, fails: bool = False) -> None:
        os.sync()
        self.settle()
        found, whole = self.members(), self.whole()
        self.meet()
        lost = {uuid for uuid in found if self.whole_in.get(uuid) == self.boots} - whole
        kept = {name for serial, name in self.attached().items() if serial in self.theirs}
        kept |= {self.disks.bystander} - {""}
        for uuid, names in found.items():
            if uuid in self.file_in and uuid not in whole | lost:
                kept |= set(names)
        kept |= set(self.opened) & set(self.attached().values())
        wipe = self.draw.random() < 0.3
        unsigned = self.unsigned() if wipe else set()
        before = {name: written(name) for name in kept - unsigned}
        free = {name: (self.serial(name), written(name)) for name in unsigned}
        state = self.call(expected, fails=fails, wipe=wipe)
        os.sync()
        self.settle()
        for name, (serial, counted) in free.items():
            if Path("/sys/block", name).exists() and written(name) != counted:
                self.theirs.discard(serial)  # the role's from now on
        for name, counted in before.items():
            now = written(name)
            if now != counted:
                raise Wrong(f"{name} was written to: {counted} before, {now} after ({state})")
        if state == "power failure":
            self.reboot()
        self.meet()
        self.mount(state)
        self.read_files(whole)
        for uuid in lost - set(self.members()):
            self.file_in.pop(uuid, None)

    def call(self, expected: int | None, *, fails: bool, wipe: bool) -> str:
        """One call of the program; what it said of the state."""
        real, draw = self.real, self.draw
        tool = draw.choice(TOOLS) if fails else ""
        power = draw.randrange(25) if fails and draw.random() < 0.5 else -1
        left = [power]

        def run(*argv: str, check: bool = True) -> str:
            if left[0] == 0:
                raise PowerFailure
            left[0] -= 1
            if argv[:2] == ("udevadm", "settle"):
                self.settle()
                return ""
            if tool and power < 0 and " ".join(argv).startswith(tool):
                if check:
                    raise self.reading.Ended(argv, 1, f"{argv[0]}: Input/output error")
                return ""
            return str(real(*argv, check=check))

        self.program.run_command = run
        told = {**SETTINGS, "expected_disks": expected, "fewer_disks_allowed": draw.random() < 0.6}
        told["existing"] = draw.choice(("refuse", "keep"))
        told["wipe_unsigned"] = wipe
        try:
            said = self.program.outcome(json.dumps(told))
            state = f"{said['state']}"
            self.told.append(f"{state} {' '.join(said['problems'])[:200]}".strip())
        except PowerFailure:
            state = "power failure"
            self.told.append(state)
        self.seen[state] += 1
        return state

    def mount(self, state: str) -> None:
        """What the program says is there, as its mount unit does."""
        if state in ("ready", "make", "rebuild", "assemble") and not mounted_at(WHERE):
            Path(WHERE).mkdir(exist_ok=True)
            sh("mount", f"UUID={UUID}", WHERE, check=False)

    def read_files(self, whole: set[str]) -> None:
        """What was whole before is whole, and where it is mounted, a user's file is as it was."""
        mounted, self.read = self.mounted(), set()
        for uuid in whole & set(self.file_in):
            if uuid not in self.whole():
                raise Wrong(f"{uuid}, which was whole, is gone")
            if uuid == mounted and not self.is_shut_down():
                self.read_file(uuid)
                self.read.add(uuid)

    def is_shut_down(self) -> bool:
        """A disk left and came back: XFS answers no more until it is mounted anew. What it holds is
        read at the end."""
        try:
            os.listdir(WHERE)
        except OSError:
            return True
        return False

    def read_file(self, uuid: str) -> None:
        file = Path(WHERE, "file")
        text = file.read_text() if file.exists() else "nothing"
        if text != self.file_in[uuid]:
            raise Wrong(f"a user's file is {text!r}, and was {self.file_in[uuid]!r}")

    def read_all_files(self) -> None:
        """Every file of a user in what is whole and that was not just read."""
        left = self.whole() & set(self.file_in) - self.read
        if left:
            self.stop_all()
        for uuid in left:
            at = [f"/dev/{name}" for name in self.members()[uuid]]
            device = "/dev/md/read" if superblock(Path(at[0]).name) else at[0]
            if device != at[0]:
                sh("mdadm", "--assemble", device, *at)
            sh("mount", device, WHERE)
            self.read_file(uuid)
            self.stop_all()

    # ---- all ------------------------------------------------------------------------------------

    def live(self) -> None:
        self.begin()
        draw = self.draw
        events: list[tuple[int, str, Any]] = [
            (5, "run", lambda: self.run(expected=draw.choice((None, 2, 3)))),
            (3, "run, a tool fails", lambda: self.run(expected=draw.choice((None, 3)), fails=True)),
            (3, "a disk goes", self.go),
            (1, "a disk stays", lambda: self.go_all(1)),
            (1, "two disks stay", lambda: self.go_all(2)),
            (1, "no disk stays", lambda: self.go_all(0)),
            (2, "an administrator stops all", self.stop_all),
            (1, "an array in use loses a disk", self.lose_in_use),
            (2, "disks come back", self.come),
            (3, "reboot", self.reboot),
            (3, "reboot with a late disk", lambda: self.reboot(late=1)),
            (1, "deallocated", self.deallocate),
            (1, "another machine", self.another_machine),
            (2, "another program writes", self.another_writes),
            (1, "another program opens a disk or an array", self.another_opens),
            (2, "another program formats a disk", self.another_formats),
            (1, "another program mounts at our mount point", self.another_mounts),
            (2, "another program makes an array", self.another_array),
            (2, "a user writes a file", self.a_user_writes),
        ]
        for _ in range(STEPS):
            ((_, what, do),) = draw.choices(events, [weight for weight, _, _ in events])
            self.told.append(f"[{what}]")
            do()
        self.told.append("[all disks, a boot, a run]")
        self.reboot()
        self.run(expected=3)
        self.read_all_files()


def count_rows(states: Any) -> collections.Counter[str]:
    """Which rows of the table decide, from now on."""
    decided: collections.Counter[str] = collections.Counter({row.state: 0 for row in states.TABLE})

    def counted(row: Any) -> Any:
        def plan(seen: Any) -> Any:
            decided[row.state] += 1
            return row.plan(seen)

        return states.Row(row.state, row.holds, plan)

    states.TABLE = tuple(counted(row) for row in states.TABLE)
    return decided


def plant(fault: str, reading: Any, states: Any) -> None:
    """Break the program, to see that histories notice."""
    if fault == "unsigned":  # content without a signature is not seen
        reading._read_content = lambda *_: ("", "")  # noqa: SLF001 (to be broken)
    elif fault == "late":  # a late disk is taken for a lost one
        states.Seen.lost = property(lambda seen: bool(seen.proven))
    elif fault == "unproven":  # an array of anybody's is taken for our own
        states.Seen.lost = property(lambda seen: bool(seen.superblocks))
    elif fault == "raid":  # an array of any level is taken for one of ours
        states._is_our_member = lambda settings, disk: bool(  # noqa: SLF001 (to be broken)
            disk.superblock and states.is_our_label(settings, disk.superblock.label)
        )


def tell(lived: int, wrong: int, begun: float, seen: Any, rows: Any) -> None:
    seconds = round(time.monotonic() - begun)
    facts = {"histories": lived, "wrong": wrong, "seconds": seconds, "said": dict(seen)}
    print(json.dumps({**facts, "rows": dict(rows)}), flush=True)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--disks", choices=("nvme", "scsi"), default="nvme")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin none after so long")
    parser.add_argument("--fault", choices=FAULTS, help="break the program in this way first")
    given = parser.parse_args()
    sys.path.append(given.folder)
    from trueup_scratch import program, reading, states  # noqa: PLC0415 (of the folder just given)

    disks: Nvme | Scsi = Scsi() if given.disks == "scsi" else Nvme()
    reading.DISKS = disks.names
    plant(given.fault, reading, states)
    rows, settle = count_rows(states), Settled()
    History.real, History.reading = staticmethod(reading.run_command), reading
    begun, wrong, seen, lived = time.monotonic(), 0, collections.Counter(), 0
    for seed in range(given.seed, given.seed + given.count):
        if time.monotonic() - begun > given.seconds:
            break
        one = History(program, disks, settle, seed)
        try:
            one.live()
        except (Wrong, RuntimeError, OSError) as error:
            wrong += 1
            said = f"{type(error).__name__}: {error}"
            print(json.dumps({"seed": seed, "wrong": said, "told": one.told}), flush=True)
        seen += one.seen
        lived += 1
        if lived % 10 == 0:
            tell(lived, wrong, begun, seen, rows)
    tell(lived, wrong, begun, seen, rows)
    return 1 if wrong or not lived else 0


if __name__ == "__main__":
    sys.exit(main())
