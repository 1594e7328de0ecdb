"""Random histories of a machine's NVMe disks, against real mdadm, wipefs, mkfs.xfs, udev and md.

    python3 histories.py FOLDER [--count N] [--seed S] [--seconds T]

It runs as root in a machine that may lose everything on its NVMe disks (the emulated one), and
calls the program of the role nvme_scratch, in FOLDER/trueup_scratch, in this process. Disks leave
the PCI bus and come back, other programs write, the machine boots, is deallocated and is another
one, tools fail, and the power goes between two commands. What the kernel counted as written or
discarded says whether a disk of another's has changed by a byte; a user's file must be read again.

It prints a line a history that it got wrong, with its seed, and at the end how many there were and
what the program did in them. Exit status 1: some were wrong.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
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
    "wait_seconds": 0,
}
# The emulated machine has no product_uuid, so that it is known by its machine-id.
BOOT, VM = "/proc/sys/kernel/random/boot_id", "/etc/machine-id"
FAKES = Path("/run/histories")
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


def settle() -> None:
    sh("udevadm", "settle", "--timeout=60", check=False)


def attached() -> dict[str, str]:
    """Serial number to name of each disk that is there."""
    found = Path("/sys/block").glob("nvme*n*")
    return {(path / "device/serial").read_text().strip(): path.name for path in found}


def arrays() -> list[str]:
    return [path.parent.name for path in Path("/sys/block").glob("md*/md")]


def written(name: str) -> tuple[int, ...]:
    """What the kernel has written to and discarded on a disk since it came, in requests."""
    fields = Path(f"/sys/block/{name}/stat").read_text().split()
    # Documentation/block/stat.rst: write I/Os, write sectors; discard I/Os, discard sectors.
    return tuple(int(fields[at]) for at in (4, 6, 11, 13))


def superblock(name: str) -> dict[str, str]:
    said = sh("mdadm", "--examine", "--export", f"/dev/{name}", check=False)
    return dict(line.split("=", 1) for line in said.splitlines() if "=" in line)


def fake(path: str, text: str) -> None:
    """Let a file of the kernel's say something else."""
    FAKES.mkdir(exist_ok=True)
    beside = FAKES / path.strip("/").replace("/", "-")
    beside.write_text(text + "\n")
    if not os.path.ismount(path):
        sh("mount", "--bind", str(beside), path)


class History:
    """One machine; ``draw`` decides all that happens."""

    def __init__(self, program: Any, draw: random.Random) -> None:
        self.program, self.draw = program, draw
        self.boots = self.files = 0
        self.theirs: set[str] = set()
        self.opened: dict[str, int] = {}
        # Of our arrays, by UUID: a user's file in it, and the boot in which it was last met whole.
        self.file_in: dict[str, str] = {}
        self.whole_in: dict[str, int] = {}
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

    def stop_all(self) -> None:
        for handle in self.opened.values():
            os.close(handle)
        self.opened = {}
        sh("umount", WHERE, check=False)
        sh("umount", "/run/trueup-nvme-scratch", check=False)
        sh("sync")
        settle()
        for name in arrays():
            sh("mdadm", "--stop", f"/dev/{name}", check=False)

    def boot(self) -> None:
        self.boots += 1
        fake(BOOT, f"boot-{self.boots}-{self.draw.random()}")

    def rescan(self) -> None:
        Path("/sys/bus/pci/rescan").write_text("1")
        deadline = time.monotonic() + 60
        while len(attached()) < 3 and time.monotonic() < deadline:
            time.sleep(0.1)
        settle()

    def deallocate(self) -> None:
        """All disks are new; the disk with the marker stays."""
        self.stop_all()
        self.rescan()
        self.stop_all()
        for name in attached().values():
            sh("wipefs", "--all", "--quiet", f"/dev/{name}", check=False)
            sh("blkdiscard", "--zeroout", f"/dev/{name}")
        self.theirs, self.file_in = set(), {}
        self.boot()

    def reboot(self, late: int = 0) -> None:
        """Disks come by themselves, so that udev assembles what is whole; some come late."""
        self.stop_all()
        for name in [*attached().values()]:
            Path(f"/sys/block/{name}/device/device/remove").write_text("1")
        self.boot()
        self.rescan()
        for name in self.draw.sample(sorted(attached().values()), late):
            self.go(name)
        if late:
            for name in arrays():
                sh("mdadm", "--stop", f"/dev/{name}", check=False)

    def go(self, name: str = "") -> None:
        """A disk leaves, with what is on it in use or not."""
        names = sorted(attached().values())
        if not names:
            return
        name = name or self.draw.choice(names)
        if any(Path(f"/sys/block/{name}/holders").iterdir()) or self.opened:
            sh("umount", "--lazy", WHERE, check=False)
            for handle in self.opened.values():
                os.close(handle)
            self.opened = {}
        Path(f"/sys/block/{name}/device/device/remove").write_text("1")
        settle()

    def free(self) -> str:
        """A disk that no array holds and that has no array's superblock; empty where there is
        none."""
        ours = {self.serial(name) for name in attached().values() if self.ours(name)}
        names = [
            name
            for serial, name in sorted(attached().items())
            if serial not in ours
            and not any(Path(f"/sys/block/{name}/holders").iterdir())
            and UUID not in sh("wipefs", "--noheadings", "--output=UUID", f"/dev/{name}")
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
        name = self.free()
        if name and name not in self.opened:
            self.opened[name] = os.open(f"/dev/{name}", os.O_RDWR)

    def another_formats(self) -> None:
        name = self.free()
        if name:
            make = self.draw.choice(
                (("mkfs.ext4", "-q", "-F"), ("mkswap", "-q"), ("mkfs.xfs", "-qf"))
            )
            sh(*make, f"/dev/{name}")
            self.theirs.add(self.serial(name))

    def another_array(self) -> None:
        names = sorted({self.free() for _ in range(3)} - {""})[:2]
        if not names:
            return
        level = self.draw.choice(("0", "1"))
        label = self.draw.choice(("trueup-scratch", "128", "data"))
        sh(
            *("mdadm", "--create", "/dev/md/other", "--run", "--force", f"--name={label}"),
            *("--homehost=any", "--metadata=1.2", f"--level={level}"),
            *(f"--raid-devices={len(names)}", *(f"/dev/{name}" for name in names)),
        )
        self.theirs |= {self.serial(name) for name in names}
        settle()
        if self.draw.random() < 0.5:
            for name in arrays():
                sh("mdadm", "--stop", f"/dev/{name}", check=False)

    def a_user_writes(self) -> None:
        uuid = self.mounted()
        if uuid:
            self.files += 1
            text = f"file {self.files}"
            Path(WHERE, "file").write_text(text)
            sh("sync")
            self.file_in[uuid] = text

    def another_machine(self) -> None:
        fake(VM, f"vm-{self.draw.random()}")
        self.reboot()

    # ---- the program, and what must hold --------------------------------------------------------

    def serial(self, name: str) -> str:
        return Path(f"/sys/block/{name}/device/serial").read_text().strip()

    def ours(self, name: str) -> str:
        """The UUID of the array of ours that a disk is a member of; empty where it is of none."""
        found = superblock(name)
        ours = found.get("MD_NAME", "").endswith("trueup-scratch") and found["MD_LEVEL"] == "raid0"
        return found["MD_UUID"] if ours and self.serial(name) not in self.theirs else ""

    def members(self) -> dict[str, list[str]]:
        """Of each array of ours, the disks that are there."""
        found: dict[str, list[str]] = collections.defaultdict(list)
        for name in sorted(attached().values()):
            uuid = self.ours(name)
            if uuid:
                found[uuid].append(name)
        return found

    def is_whole(self, names: list[str]) -> bool:
        return len(names) == int(superblock(names[0]).get("MD_DEVICES", "0"))

    def mounted(self) -> str:
        """The UUID of our array that is mounted; empty where none is."""
        source = sh("findmnt", "--noheadings", "--output=SOURCE", WHERE, check=False).strip()
        if not source.startswith("/dev/md"):
            return source.strip()
        said = sh("mdadm", "--detail", "--export", source, check=False)
        return dict(line.split("=", 1) for line in said.splitlines())["MD_UUID"]

    def meet(self, found: dict[str, list[str]]) -> None:
        for uuid, names in found.items():
            if self.is_whole(names):
                self.whole_in[uuid] = self.boots

    def run(self, *, expected: int | None = None, fails: bool = False) -> None:
        sh("sync")
        settle()
        found = self.members()
        self.meet(found)
        kept = {name for serial, name in attached().items() if serial in self.theirs}
        for uuid, names in found.items():
            lost = not self.is_whole(names) and self.whole_in.get(uuid) == self.boots
            if uuid in self.file_in and not self.is_whole(names) and not lost:
                kept |= set(names)
        opened = set(self.opened)
        before = {name: written(name) for name in kept | opened}
        state = self.call(expected, fails=fails)
        sh("sync")
        settle()
        for name, counted in before.items():
            now = written(name) if name in attached().values() else counted
            if now != counted:
                raise Wrong(f"{name} was written to: {counted} before, {now} after ({state})")
        self.mount(found, state)

    def call(self, expected: int | None, *, fails: bool) -> str:
        """One call of the program; what it said of the state."""
        real, draw = self.real, self.draw
        tool = draw.choice(TOOLS) if fails else ""
        power = draw.randrange(25) if fails and draw.random() < 0.5 else -1
        left = [power]

        def run(*argv: str, check: bool = True) -> str:
            if left[0] == 0:
                raise PowerFailure
            left[0] -= 1
            if tool and power < 0 and " ".join(argv).startswith(tool):
                if check:
                    raise self.reading.Ended(argv, 1, f"{argv[0]}: Input/output error")
                return ""
            return str(real(*argv, check=check))

        self.program.run_command = run
        told = {**SETTINGS, "expected_disks": expected, "fewer_disks_allowed": draw.random() < 0.6}
        try:
            said = self.program.outcome(json.dumps(told))
            state = f"{said['state']}"
            self.told.append(f"{state} {' '.join(said['problems'])[:200]}".strip())
            self.seen[state] += 1
        except PowerFailure:
            self.told.append("power failure")
            self.seen["power failure"] += 1
            self.reboot()
            state = "off"
        return state

    def mount(self, found: dict[str, list[str]], state: str) -> None:
        """What the program says is there mounts, and a user's file is as it was, unless its array
        had lost a member in this boot."""
        if state not in ("ready", "make", "rebuild", "assemble"):
            return
        Path(WHERE).mkdir(exist_ok=True)
        if not os.path.ismount(WHERE):
            sh("mount", f"UUID={UUID}", WHERE, check=False)
        for uuid in [*self.file_in]:
            if uuid in found and self.is_whole_now(uuid):
                if self.mounted() != uuid:
                    continue
                file = Path(WHERE, "file")
                text = file.read_text() if file.exists() else "nothing"
                if text != self.file_in[uuid]:
                    raise Wrong(f"a user's file is {text!r}, and was {self.file_in[uuid]!r}")
            elif uuid in found and self.whole_in.get(uuid) == self.boots:
                if uuid not in self.members():
                    del self.file_in[uuid]
            elif uuid in found and len(self.members().get(uuid, [])) < len(found[uuid]):
                raise Wrong(f"a part of the array {uuid} is gone, which was not proven lost")

    def is_whole_now(self, uuid: str) -> bool:
        names = self.members().get(uuid)
        return bool(names) and self.is_whole(names or [])

    # ---- all ------------------------------------------------------------------------------------

    def live(self) -> None:
        self.begin()
        draw = self.draw
        events: list[tuple[int, str, Any]] = [
            (5, "run", lambda: self.run(expected=draw.choice((None, 2, 3)))),
            (3, "run, a tool fails", lambda: self.run(expected=draw.choice((None, 3)), fails=True)),
            (3, "a disk goes", self.go),
            (2, "disks come back", self.rescan),
            (3, "reboot", self.reboot),
            (3, "reboot with a late disk", lambda: self.reboot(late=1)),
            (1, "deallocated", self.deallocate),
            (1, "another machine", self.another_machine),
            (2, "another program writes", self.another_writes),
            (1, "another program opens a disk", self.another_opens),
            (2, "another program formats a disk", self.another_formats),
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


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin none after so long")
    given = parser.parse_args()
    sys.path.append(given.folder)
    from trueup_scratch import program, reading  # noqa: PLC0415 (of the folder just given)

    History.real, History.reading = staticmethod(reading.run_command), reading
    begun, wrong, seen, lived = time.monotonic(), 0, collections.Counter(), 0
    for seed in range(given.seed, given.seed + given.count):
        if time.monotonic() - begun > given.seconds:
            break
        one = History(program, random.Random(seed))  # noqa: S311 (a history is no secret)
        try:
            one.live()
        except Wrong as error:
            wrong += 1
            print(json.dumps({"seed": seed, "wrong": str(error), "told": one.told}), flush=True)
        seen += one.seen
        lived += 1
    seconds = round(time.monotonic() - begun)
    print(json.dumps({"histories": lived, "wrong": wrong, "seconds": seconds, "said": dict(seen)}))
    return 1 if wrong or not lived else 0


if __name__ == "__main__":
    sys.exit(main())
