"""The scratch program over a simulated machine: no history costs anybody a byte.

The machine is simulated: disks are byte arrays of 16 KiB, ``wipefs``, ``mdadm`` and ``mkfs.xfs``
are functions below that change them as the real ones do, and sysfs and procfs are files. Disks
come and go, swap names and are late, tools fail, power fails, other programs write, the machine
boots, is deallocated and is another. What it cannot show is the kernel (docs/untested.md).
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from helpers import program as loaded
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from trueup_node.node.scratch import program, reading

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE, SUPERBLOCK, DATA = 16384, 4096, 8192
MODEL = "Microsoft NVMe Direct Disk v2"
WHERE = "/mnt/resource_nvme"
SETTINGS = {
    **loaded("molecule/vm/histories.py").SETTINGS,
    "models": ["Microsoft NVMe Direct Disk"],
    "mount_point": WHERE,
}
TOOLS = (
    "wipefs --json",
    "wipefs --all",
    "mdadm --examine",
    "mdadm --detail",
    "mdadm --create",
    "mdadm --assemble",
    "mdadm --stop",
    "mkfs.xfs",
)
ANY = st.integers(0, 2**16)


class PowerFailureError(BaseException):
    """The machine is off from one command to the next."""


@dataclass
class Md:
    """An array that the kernel knows."""

    uuid: str
    label: str
    level: str
    devices: int
    members: list[int]
    held: bool = False


@dataclass
class Machine:
    """The simulated machine. A disk has a number of its own, and a name while it is attached."""

    root: Path
    disks: dict[int, bytearray] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    arrays: dict[str, Md] = field(default_factory=dict)
    writers: set[int] = field(default_factory=set)
    mounted: str = ""
    boot: int = 1
    vm: str = "vm-1"
    failing: dict[str, str] = field(default_factory=dict)
    power_for: int = 10**6
    made: int = 0

    def new_disk(self) -> None:
        number = len(self.disks)
        self.disks[number] = bytearray(SIZE)
        self.attach(number)

    def attach(self, number: int) -> None:
        name = next(n for n in (f"nvme{i}n1" for i in range(99)) if n not in self.names)
        self.names[name] = number

    def superblock(self, number: int) -> dict[str, Any] | None:
        block = bytes(self.disks[number][SUPERBLOCK:DATA])
        if not block.startswith(b"MD"):
            return None
        try:
            found: dict[str, Any] = json.loads(block[2:].rstrip(b"\0"))
        except ValueError:  # another program wrote over it
            return None
        return found

    def put_superblock(self, number: int, array: Md) -> None:
        facts = {"uuid": array.uuid, "label": array.label, "level": array.level}
        text = b"MD" + json.dumps({**facts, "devices": array.devices}).encode()
        self.disks[number][SUPERBLOCK:DATA] = text.ljust(DATA - SUPERBLOCK, b"\0")

    def members(self, uuid: str) -> list[int]:
        """The attached members of an array."""
        found = ((n, self.superblock(n)) for n in self.names.values())
        return sorted(n for n, block in found if block and block["uuid"] == uuid)

    def is_whole(self, array: Md) -> bool:
        return len(set(array.members) & set(self.names.values())) == array.devices

    def areas(self, name: str) -> list[tuple[int, int]]:
        """The disks below a device, and where its content begins on each."""
        if name in self.names:
            return [(self.names[name], 0)]
        there = [n for n in self.arrays[name].members if n in self.names.values()]
        return [(number, DATA) for number in there]

    def content(self, name: str) -> bytes:
        return b"".join(bytes(self.disks[number][start:]) for number, start in self.areas(name))

    def holders(self, number: int) -> list[str]:
        return [name for name, array in self.arrays.items() if number in array.members]

    def signatures(self, name: str) -> list[dict[str, str]]:
        found = []
        block = self.superblock(self.names[name]) if name in self.names else None
        if block:
            kind = {"type": "linux_raid_member"}
            found.append({**kind, "uuid": block["uuid"], "label": block["label"]})
        content = self.content(name)
        if content.startswith(b"XFSB"):
            found.append({"type": "xfs", "uuid": content[4:40].decode()})
        if content[1024:].startswith(b"EXT4"):
            found.append({"type": "ext4", "uuid": "", "label": "results"})
        return found

    def is_used(self, name: str) -> bool:
        held = name in self.arrays and self.arrays[name].held
        return name == self.mounted or held or bool(self.holders(self.names.get(name, -1)))

    # ---- tools ----------------------------------------------------------------------------------

    def run(self, *argv: str, check: bool = True) -> str:
        """``run_command`` of the program."""
        self.power_for -= 1
        if self.power_for < 0:
            raise PowerFailureError
        tool = argv[0] if argv[0] == "mkfs.xfs" else " ".join(argv[:2])
        how = self.failing.get(tool, "")
        if how == "missing":
            message = f"{argv[0]} is not installed"
            raise reading.Missing(message)
        if how == "silent":
            return ""
        try:
            if how in ("1", "2"):
                raise reading.Ended(argv, int(how), f"{argv[0]}: Input/output error")
            act = getattr(self, tool.replace("--", "").replace(" ", "_").replace(".", "_"), None)
            return str(act(argv) or "") if act else ""
        except reading.Ended:
            if check:
                raise
            return ""

    def wipefs_json(self, argv: tuple[str, ...]) -> str:
        return json.dumps({"signatures": self.signatures(Path(argv[-1]).name)})

    def wipefs_all(self, argv: tuple[str, ...]) -> None:
        """Only what names the content goes: the content stays."""
        disk = self.disks[self.names[Path(argv[-1]).name]]
        for at, magic in ((0, b"XFSB"), (1024, b"EXT4"), (SUPERBLOCK, b"MD")):
            if disk[at : at + len(magic)] == magic:
                disk[at : at + len(magic)] = bytes(len(magic))

    def mdadm_examine(self, argv: tuple[str, ...]) -> str:
        block = self.superblock(self.names[Path(argv[-1]).name])
        if not block:
            raise reading.Ended(argv, 1, f"mdadm: No md superblock detected on {argv[-1]}.")
        return (
            f"MD_LEVEL={block['level']}\nMD_DEVICES={block['devices']}\n"
            f"MD_NAME={block['label']}\nMD_UUID={block['uuid']}\n"
        )

    def mdadm_detail(self, argv: tuple[str, ...]) -> str:
        array = self.arrays[Path(argv[-1]).name]
        return f"MD_LEVEL={array.level}\nMD_NAME={array.label}\nMD_UUID={array.uuid}\n"

    def mdadm_create(self, argv: tuple[str, ...]) -> None:
        names = [Path(one).name for one in argv if one.startswith("/dev/nvme")]
        if any(self.is_used(name) or self.signatures(name) for name in names):
            raise reading.Ended(argv, 1, "mdadm: create aborted.")
        self.start("any:trueup-scratch", "raid0", [self.names[name] for name in names])

    def start(self, label: str, level: str, members: list[int]) -> Md:
        """A new array."""
        self.made += 1
        array = Md(f"{self.made:032x}", label, level, len(members), members)
        for number in members:
            self.put_superblock(number, array)
        self.know(array)
        return array

    def know(self, array: Md) -> None:
        free = next(n for n in (f"md{i}" for i in range(127, 0, -1)) if n not in self.arrays)
        self.arrays[free] = array

    def mdadm_assemble(self, argv: tuple[str, ...]) -> None:
        names = [Path(one).name for one in argv if one.startswith("/dev/nvme")]
        block = self.superblock(self.names[names[0]])
        if not block or any(self.is_used(name) for name in names):
            raise reading.Ended(argv, 1, "mdadm: device is busy")
        found = Md(**block, members=self.members(block["uuid"]))
        if not self.is_whole(found):
            raise reading.Ended(argv, 1, "mdadm: not enough to start the array.")
        self.know(found)

    def mdadm_stop(self, argv: tuple[str, ...]) -> None:
        name = Path(argv[-1]).name
        if self.is_used(name):
            raise reading.Ended(argv, 1, "mdadm: Cannot get exclusive access")
        del self.arrays[name]

    def mkfs_xfs(self, argv: tuple[str, ...]) -> None:
        """It first discards every block of the device."""
        name = Path(argv[-1]).name
        if self.is_used(name) or (self.signatures(name) and "-f" not in argv):
            raise reading.Ended(argv, 1, "mkfs.xfs: appears to contain an existing filesystem")
        areas = self.areas(name)
        for number, start in areas:
            self.disks[number][start:] = bytes(SIZE - start)
        number, start = areas[0]
        text = b"XFSB" + SETTINGS["uuid"].encode()  # type: ignore[attr-defined]
        self.disks[number][start : start + len(text)] = text

    # ---- what the program reads -----------------------------------------------------------------

    def show(self) -> None:
        """Write sysfs, procfs and /dev."""
        for folder in ("sys", "proc", "dev"):
            shutil.rmtree(self.root / folder, ignore_errors=True)
        files = {
            "proc/swaps": "Filename\n",
            "proc/sys/kernel/random/boot_id": f"boot-{self.boot}",
            "sys/class/dmi/id/product_uuid": self.vm,
        }
        numbers = {}
        for at, (name, number) in enumerate(self.names.items()):
            numbers[name] = f"259:{at}"
            below = f"sys/block/{name}"
            files[f"{below}/device/model"] = MODEL
            files |= {f"{below}/holders/{holder}": "" for holder in self.holders(number)}
        for name, array in self.arrays.items():
            numbers[name] = f"9:{name[2:]}"
            below = f"sys/block/{name}"
            whole = self.is_whole(array)
            broken = "broken" if array.level == "raid0" else "clean"
            files[f"{below}/md/array_state"] = "clean" if whole else broken
            files[f"{below}/md/level"] = array.level
            files[f"{below}/md/raid_disks"] = str(array.devices)
            there = [one for one, number in self.names.items() if number in array.members]
            files |= {f"{below}/slaves/{one}": "" for one in there}
            files |= {f"{below}/holders/dm-0": ""} if array.held else {}
        for name, number in numbers.items():
            files[f"sys/block/{name}/dev"] = number
            files[f"sys/block/{name}/size"] = str(len(self.content(name)) // 512)
        mount = numbers.get(self.mounted)
        files["proc/self/mountinfo"] = f"40 24 {mount} / {WHERE} rw - xfs x rw\n" if mount else ""
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        (self.root / "dev").mkdir()
        for name in numbers:
            (self.root / "dev" / name).write_bytes(self.content(name))
        for name, number in self.names.items():
            if number in self.writers:
                folder = self.root / f"proc/{100 + number}/fd"
                folder.mkdir(parents=True)
                (folder / "3").symlink_to(f"/dev/{name}")

    def call(self, *words: str) -> int:
        """Run the program; its exit status."""
        read = reading.read_machine

        def shown(*arguments: Any, **named: Any) -> Any:
            self.show()
            return read(*arguments, **named)

        in_program = {
            "LOCK": str(self.root / "lock"),
            "run_command": self.run,
            "read_machine": shown,
            "_permit": lambda *_: None,
        }
        in_reading = {
            "ROOT": str(self.root),
            "_read_permissions": lambda *_: "root:root 1777",
            "_is_busy": lambda path: self.is_used(path.name),
        }
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.multiple(program, **in_program))
            stack.enter_context(mock.patch.multiple(reading, **in_reading))
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            return int(program.main(list(words)))


class History(RuleBasedStateMachine):
    """What happens to a machine. Only disks with content of others are others'."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.machine = Machine(Path(self.folder.name))
        for _ in range(3):
            self.machine.new_disk()
        # Disks with content of other programs, and with files of users in our file system.
        self.theirs: set[int] = set()
        self.files: set[int] = set()
        # In which boot the program has last met an array whole.
        self.whole_in: dict[str, int] = {}

    @initialize(made=st.booleans(), which=ANY, at=st.integers(0, SIZE - 1))
    def begin(self, which: int, at: int, *, made: bool) -> None:
        """With our file system and a file in it, or with a disk that has data."""
        if made:
            self.run()
            self.a_user_writes_a_file()
        else:
            self.another_program_writes(which, at, opened=False)

    def teardown(self) -> None:
        self.folder.cleanup()

    def is_precious(self, number: int) -> bool:
        """Whether the disk must not change: but for a part of an array that was whole in this boot
        and has lost a disk since."""
        block = self.machine.superblock(number)
        if number in self.theirs or not block:
            return number in self.theirs | self.files
        array = Md(**block, members=self.machine.members(block["uuid"]))
        lost = not self.machine.is_whole(array)
        return number in self.files and not (
            lost and self.whole_in.get(array.uuid) == self.machine.boot
        )

    def unsigned(self) -> dict[int, bytes]:
        """The disks that ``wipe_unsigned`` gives to the role, as they are: attached, with content
        that no signature names, and used by nobody; none where a disk has a signature."""
        machine = self.machine
        if any(machine.superblock(n) or machine.signatures(m) for m, n in machine.names.items()):
            return {}
        return {
            number: bytes(machine.disks[number])
            for name, number in machine.names.items()
            if any(machine.disks[number])
            and not machine.is_used(name)
            and number not in machine.writers
        }

    def meet(self) -> None:
        for array in self.machine.arrays.values():
            if self.machine.is_whole(array):
                self.whole_in[array.uuid] = self.machine.boot
        for number in self.machine.names.values():
            block = self.machine.superblock(number)
            if block and len(self.machine.members(block["uuid"])) == block["devices"]:
                self.whole_in[block["uuid"]] = self.machine.boot

    def blank_or_theirs(self, at: int) -> str:
        """An attached disk that is not ours; empty where there is none."""
        machine = self.machine
        free = [
            name
            for name, number in machine.names.items()
            if not machine.holders(number)
            and name != machine.mounted
            and (number in self.theirs or not any(machine.disks[number]))
        ]
        return free[at % len(free)] if free else ""

    @rule(
        wait=st.booleans(),
        expected=st.sampled_from([None, 2, 3]),
        fewer=st.booleans(),
        wipe=st.booleans(),
        failing=st.one_of(
            st.just({}),
            st.dictionaries(
                st.sampled_from(TOOLS), st.sampled_from(["1", "2", "silent", "missing"]), max_size=2
            ),
        ),
        power_for=st.one_of(st.just(10**6), st.integers(0, 25)),
    )
    def run(
        self,
        *,
        wait: bool = True,
        expected: int | None = 3,
        fewer: bool = False,
        wipe: bool = False,
        failing: dict[str, str] | None = None,
        power_for: int = 10**6,
    ) -> None:
        machine = self.machine
        # Who only opened a disk, and wrote nothing before the machine went off, left nothing.
        self.theirs &= machine.writers | {n for n, disk in machine.disks.items() if any(disk)}
        unsigned = self.unsigned() if wipe else {}
        precious = {
            n: bytes(d)
            for n, d in machine.disks.items()
            if self.is_precious(n) and n not in unsigned
        }
        self.meet()
        told = {
            **SETTINGS,
            "expected_disks": expected,
            "fewer_disks_allowed": fewer,
            "wipe_unsigned": wipe,
        }
        machine.failing, machine.power_for = failing or {}, power_for
        try:
            status = machine.call("--settings", json.dumps(told), *(["--wait"] if wait else []))
        except PowerFailureError:
            status = 1
            machine.arrays, machine.mounted, machine.writers = {}, "", set()
            machine.boot += 1
        machine.failing, machine.power_for = {}, 10**6
        # By number: on CI, pytest looks for the bytes that differ, for minutes.
        assert [n for n, before in precious.items() if machine.disks[n] != before] == []
        # What was taken is the role's from now on.
        self.theirs -= {n for n, before in unsigned.items() if machine.disks[n] != before}
        for number in self.files - set(precious):
            if not machine.superblock(number):
                self.files.discard(number)
        if status == 0:
            self.meet()
            ours = [
                name
                for name in (*machine.names, *machine.arrays)
                if machine.signatures(name) == [{"type": "xfs", "uuid": SETTINGS["uuid"]}]
            ]
            machine.mounted = machine.mounted or (ours[0] if ours else "")

    @rule(fewer=st.booleans())
    def run_as_usual(self, *, fewer: bool) -> None:
        self.run(fewer=fewer)

    @rule(which=ANY)
    def lose_a_disk_and_run(self, which: int) -> None:
        self.a_disk_goes(which)
        self.run(fewer=True)

    @rule(found=st.booleans())
    def boot_with_a_late_disk(self, *, found: bool) -> None:
        self.a_disk_goes()
        self.reboot(found=found)
        self.run(fewer=True)
        self.a_disk_comes_back()
        self.run(fewer=True)

    @rule(expected=st.sampled_from([None, 3]))
    def look(self, expected: int | None) -> None:
        before = {number: bytes(disk) for number, disk in self.machine.disks.items()}
        told = {**SETTINGS, "expected_disks": expected, "fewer_disks_allowed": True}
        self.machine.call("--check", "--settings", json.dumps(told))
        assert [n for n, disk in self.machine.disks.items() if disk != before[n]] == []

    @precondition(lambda self: self.machine.mounted)
    @rule(at=ANY)
    def a_user_writes_a_file(self, at: int = 500) -> None:
        for number, start in self.machine.areas(self.machine.mounted):
            self.machine.disks[number][start + 200 + at % 4000] = 7
            self.files.add(number)

    @rule()
    def unmount(self) -> None:
        self.machine.mounted = ""

    @rule(which=ANY, at=st.integers(0, SIZE - 1), opened=st.booleans())
    def another_program_writes(self, which: int, at: int, *, opened: bool) -> None:
        name = self.blank_or_theirs(which)
        if name:
            number = self.machine.names[name]
            self.machine.disks[number][at] = 9
            self.theirs.add(number)
            if opened:
                self.machine.writers.add(number)

    @rule(which=ANY)
    def another_program_opens(self, which: int) -> None:
        name = self.blank_or_theirs(which)
        if name:
            self.machine.writers.add(self.machine.names[name])
            self.theirs.add(self.machine.names[name])

    @rule(which=ANY)
    def another_file_system_is_made(self, which: int) -> None:
        name = self.blank_or_theirs(which)
        if name:
            number = self.machine.names[name]
            self.machine.disks[number][1024:1028] = b"EXT4"
            self.theirs.add(number)

    @rule(
        which=ANY,
        count=st.integers(1, 2),
        level=st.sampled_from(["raid0", "raid1"]),
        label=st.sampled_from(["any:trueup-scratch", "node:128", "node:data"]),
        held=st.booleans(),
    )
    def another_array_is_made(
        self, which: int, count: int, level: str, label: str, *, held: bool
    ) -> None:
        members = []
        for at in range(count):
            name = self.blank_or_theirs(which + at)
            if name and self.machine.names[name] not in members:
                members.append(self.machine.names[name])
        if members:
            self.machine.start(label, level, members).held = held
            self.theirs |= set(members)

    @rule(which=ANY)
    def a_disk_goes(self, which: int = 0) -> None:
        names = list(self.machine.names)
        if names:
            name = names[which % len(names)]
            if self.machine.mounted in (name, *self.machine.holders(self.machine.names[name])):
                self.machine.mounted = ""
            del self.machine.names[name]

    @rule(which=ANY)
    def a_disk_comes_back(self, which: int = 0) -> None:
        gone = sorted(set(self.machine.disks) - set(self.machine.names.values()))
        if gone:
            self.machine.attach(gone[which % len(gone)])

    @precondition(lambda self: len(self.machine.names) < 4)
    @rule()
    def a_new_disk_comes(self) -> None:
        self.machine.new_disk()

    @rule(order=st.randoms(use_true_random=False), found=st.booleans())
    def reboot(self, order: Any = None, *, found: bool = False) -> None:
        """Names may swap, and the kernel may start arrays, parts of them too."""
        machine = self.machine
        numbers = list(machine.names.values())
        if order:
            order.shuffle(numbers)
        machine.names = {f"nvme{at}n1": number for at, number in enumerate(numbers)}
        machine.arrays, machine.mounted, machine.writers = {}, "", set()
        machine.boot += 1
        blocks = [machine.superblock(number) for number in numbers]
        for block in {block["uuid"]: block for block in blocks if block}.values() if found else ():
            machine.know(Md(**block, members=machine.members(block["uuid"])))

    @rule()
    def deallocate(self) -> None:
        """The disks are gone for good; the disk with the marker stays."""
        machine = self.machine
        machine.names, machine.arrays, machine.mounted, machine.writers = {}, {}, "", set()
        machine.disks = {}
        self.theirs, self.files = set(), set()
        machine.boot += 1
        for _ in range(3):
            machine.new_disk()

    @rule()
    def be_another_machine_of_this_image(self) -> None:
        self.machine.vm += "x"
        self.reboot()


TestHistories = History.TestCase
TestHistories.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


@pytest.fixture
def blank() -> Iterator[History]:
    """Three blank disks."""
    one = History()
    yield one
    one.teardown()


@pytest.fixture
def history(blank: History) -> History:
    """Made one file system, with a user's file."""
    blank.run()
    assert blank.machine.mounted.startswith("md")
    blank.a_user_writes_a_file()
    return blank


def test_what_is_ours_comes_back_after_a_reboot_and_anew_after_a_deallocation(
    history: History,
) -> None:
    kept = {number: bytes(disk) for number, disk in history.machine.disks.items()}
    history.reboot()
    history.run()
    assert history.machine.mounted.startswith("md")
    assert [n for n, disk in history.machine.disks.items() if disk != kept[n]] == []
    history.deallocate()
    history.run()
    assert history.machine.mounted.startswith("md")
    assert history.files == set()


def test_a_disk_that_is_lost_in_this_boot_is_done_without_where_that_is_allowed(
    history: History,
) -> None:
    history.a_disk_goes()
    history.run(fewer=True)
    assert len(history.machine.areas(history.machine.mounted)) == 2


def test_a_late_disk_finds_its_array_as_it_was(history: History) -> None:
    history.a_disk_goes()
    history.reboot()
    history.run(fewer=True)
    assert history.machine.mounted == ""
    history.a_disk_comes_back()
    history.run(fewer=True)
    assert len(history.machine.areas(history.machine.mounted)) == 3
