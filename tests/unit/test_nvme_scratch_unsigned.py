"""nvme_scratch_wipe_unsigned: which disks may be taken though they do not read as zeros. Signatures
are read by real wipefs."""

from __future__ import annotations

import binascii
import struct
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from test_nvme_scratch import (
    EXT4,
    GENERATION,
    LATE,
    LOST,
    SETTINGS,
    XFS,
    FakeMachine,
    Recorder,
    array,
    decide,
    disk,
    member,
    settings,
    write,
)
from trueup_node.node.scratch import program, reading, states

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WIPE = settings(wipe_unsigned=True)
CONTENT = "content without a signature, at byte 1048576"
SIZE = 2**30


# ---- the table ----------------------------------------------------------------------------------


def test_with_the_option_off_content_is_refused_and_the_option_is_named() -> None:
    plan = decide(disk(0), disk(1, content=CONTENT))
    assert (plan.state, plan.steps) == ("refused", ())
    (problem,) = plan.problems
    assert problem.endswith(
        "On a machine that was made for the run, set nvme_scratch_wipe_unsigned."
    )


@pytest.mark.parametrize("count", [1, 3])
def test_disks_whose_content_no_signature_names_are_taken(count: int) -> None:
    disks = [disk(number, content=CONTENT) for number in range(count)]
    plan = decide(*disks, with_settings=WIPE)
    names = ", ".join(one.name for one in disks)
    assert (plan.state, plan.problems, plan.unsigned) == ("make", (), tuple(names.split(", ")))
    assert plan.steps[0] == f"overwrite the content of {names}, which no signature names"


def test_one_such_disk_among_blank_ones_is_named_alone() -> None:
    plan = decide(disk(0), disk(1, content=CONTENT), with_settings=WIPE)
    assert (plan.state, plan.disks, plan.unsigned) == ("make", ("nvme0n1", "nvme1n1"), ("nvme1n1",))


@pytest.mark.parametrize(
    "facts",
    [
        {"signatures": (EXT4,), "content": ""},
        {"signatures": (states.Signature("linux_raid_member", "a", "node:128"),), "content": ""},
        {"signatures": (states.Signature("LVM2_member"),), "content": ""},
        {"signatures": (states.Signature("crypto_LUKS"),), "content": ""},
        {"signatures": (states.Signature("swap"),), "content": ""},
        {"signatures": (states.Signature("gpt"),), "content": ""},
        {"partitions": ("nvme1n1p1",)},
        {"superblock": states.Superblock("a", "host:data", "raid1", 2)},
        {"unexamined": "mdadm is not installed"},
        {"unread": "content that cannot be read (Input/output error)"},
        {"holders": ("dm-0",)},
        {"mounts": ("/data",)},
        {"swap": True},
        {"busy": True},
        {"writers": ("the program fio (process 7)",)},
    ],
)
def test_whatever_else_is_on_a_disk_is_refused_as_without_the_option(facts: dict[str, Any]) -> None:
    facts = {"content": CONTENT, **facts}
    for marker in (None, LATE, LOST):
        plan = decide(disk(0), disk(1, **facts), with_settings=WIPE, marker=marker)
        assert (plan.state, plan.steps, plan.unsigned) == ("refused", (), ())
        assert plan.problems[0].startswith("/dev/nvme1n1 ")


@pytest.mark.parametrize("marker", [None, LATE, LOST])
@pytest.mark.parametrize(
    "ours", [{"signatures": (XFS,)}, vars(member(0, of=2)), vars(member(0, of=1))]
)
def test_beside_anything_of_ours_content_may_be_a_damaged_part_of_it(
    ours: dict[str, Any], marker: Any
) -> None:
    plan = decide(disk(0, **ours), disk(1, content=CONTENT), with_settings=WIPE, marker=marker)
    assert (plan.state, plan.forget, plan.unsigned) == ("refused", (), ())


@pytest.mark.parametrize("marker", [None, LATE, LOST])
def test_content_of_our_array_may_be_a_damaged_file_system(marker: Any) -> None:
    two = [member(number, of=2, holders=("md127",)) for number in range(2)]
    found = array(2, device={"signatures": (), "content": CONTENT}, uuid=GENERATION)
    assert decide(*two, marker=marker, arrays=(found,), with_settings=WIPE).state == "refused"


# ---- what is run --------------------------------------------------------------------------------


def made_over_content(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *signatures: states.Signature
) -> Recorder:
    """What is run over two disks with content, where the new array has these signatures."""
    device = {"name": "md126", "signatures": signatures}
    machine = states.Machine((), (array(2, device=device, uuid=GENERATION),))
    monkeypatch.setattr(program, "_permit", lambda *_: None)
    monkeypatch.setattr(program, "read_machine", lambda *_: machine)
    monkeypatch.setattr(reading, "ROOT", str(tmp_path))
    run = Recorder()
    disks = [disk(number, content=CONTENT) for number in range(2)]
    try:
        program.apply(WIPE, decide(*disks, with_settings=WIPE), run)
    except reading.Failed as error:
        run.ran.append(("failed", str(error)))
    return run


@pytest.mark.parametrize("signatures", [(), (XFS,)])
def test_an_array_over_content_is_made_and_formatted(
    signatures: tuple[states.Signature, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran = made_over_content(monkeypatch, tmp_path, *signatures).ran
    assert [argv[:2] for argv in ran[:2]] == [("mdadm", "--create"), ("mkfs.xfs", "-f")]
    assert [argv for argv in ran if argv[0] == "wipefs"] == []


def test_a_file_system_that_begins_where_the_arrays_data_does_is_not_overwritten(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran = made_over_content(monkeypatch, tmp_path, EXT4).ran
    assert [argv[0] for argv in ran] == ["mdadm", "failed"]
    assert (
        "md126 begins there is a signature of ext4 (results): it was not overwritten" in (ran[1][1])
    )


def test_a_single_disk_is_formatted_without_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_permit", lambda *_: None)
    run = Recorder()
    program.apply(WIPE, decide(disk(0, content=CONTENT), with_settings=WIPE), run)
    assert run.ran[0][:2] == ("mkfs.xfs", "-q")


# ---- real signatures ----------------------------------------------------------------------------


def raid_0_90(image: Path) -> None:
    """Superblock of md's format 0.90, in the last 64 to 128 KiB (linux/raid/md_p.h)."""
    block = bytearray(4096)
    struct.pack_into("<IIII", block, 0, 0xA92B4EFC, 0, 90, 0)
    struct.pack_into("<I", block, 20, 0x11223344)
    put(image, (SIZE & ~65535) - 65536, block)


def raid_1_0(image: Path) -> None:
    """Superblock of md's format 1.0, 8 to 12 KiB before the end."""
    at = (SIZE // 512 - 16) & ~7
    block = bytearray(256)
    struct.pack_into("<II", block, 0, 0xA92B4EFC, 1)
    block[16:32] = bytes(range(16))
    block[32:41] = b"node:data"
    struct.pack_into("<Q", block, 144, at)
    total = sum(struct.unpack("<64I", block))
    struct.pack_into("<I", block, 216, ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF)
    put(image, at * 512, block)


def gpt_backup(image: Path) -> None:
    """The backup of a partition table, whose first copy is gone (UEFI, 5.3.2)."""
    last = SIZE // 512 - 1
    entries = bytearray(128 * 128)
    entries[:56] = struct.pack("<16s16sQQQ", bytes(range(16)), bytes(16), 2048, 4095, 0)
    fields = (b"EFI PART", 0x10000, 92, 0, 0, last, 1, 34, last - 33, bytes(range(16)))
    more = (last - 32, 128, 128, binascii.crc32(bytes(entries)))
    header = bytearray(struct.pack("<8sIIIIQQQQ16sQIII", *fields, *more))
    struct.pack_into("<I", header, 16, binascii.crc32(bytes(header)))
    put(image, (last - 32) * 512, entries)
    put(image, last * 512, header)


def ext4(image: Path) -> None:
    made_by(image, "mkfs.ext4", "-q", "-F")


def swap(image: Path) -> None:
    made_by(image, "mkswap", "-q")


def made_by(image: Path, *argv: str) -> None:
    subprocess.run([*argv, str(image)], check=True, capture_output=True)


def put(image: Path, at: int, block: bytes | bytearray) -> None:
    with image.open("r+b") as stream:
        stream.seek(at)
        stream.write(block)


class RealSignatures(FakeMachine):
    """The simulated machine, whose disks real wipefs looks at."""

    def run(self, *argv: str, check: bool = True) -> str:
        if argv[:2] != ("wipefs", "--json"):
            return super().run(*argv, check=check)
        image = str(self.root / argv[-1].lstrip("/"))
        return subprocess.run(
            [*argv[:-1], image], check=True, capture_output=True, text=True
        ).stdout


@pytest.fixture(name="real")
def _real(tmp_path: Path) -> RealSignatures:
    machine = RealSignatures(tmp_path)
    machine.disk("nvme0n1")
    put(machine.root / "dev/nvme0n1", 2**20, b"x" * 2**22)
    return machine


@pytest.mark.parametrize(
    ("sign", "named"),
    [
        (raid_0_90, "linux_raid_member"),
        (raid_1_0, "linux_raid_member"),
        (gpt_backup, "gpt"),
        (ext4, "ext4"),
        (swap, "swap"),
    ],
)
def test_a_signature_also_at_the_end_alone_is_refused(
    sign: Callable[[Path], None], named: str, real: RealSignatures
) -> None:
    sign(real.root / "dev/nvme0n1")
    plan = states.decide(WIPE, real.read(WIPE))
    assert (plan.state, plan.steps) == ("refused", ())
    assert f"a signature of {named}" in plan.problems[0]


def test_zeros_in_the_first_mib_and_content_behind_are_taken_with_the_option_alone(
    real: RealSignatures,
) -> None:
    refused = states.decide(SETTINGS, real.read())
    assert (refused.state, "at byte 2097152" in refused.problems[0]) == ("refused", True)
    plan = states.decide(WIPE, real.read(WIPE))
    assert (plan.state, plan.unsigned) == ("make", ("nvme0n1",))


def test_a_disk_that_is_held_or_read_in_part_is_refused(real: RealSignatures) -> None:
    image = real.root / "dev/nvme0n1"
    (real.root / "sys/block/nvme0n1/holders/dm-0").mkdir()
    assert states.decide(WIPE, real.read(WIPE)).state == "refused"
    (real.root / "sys/block/nvme0n1/holders/dm-0").rmdir()
    write(real.root / "sys/block/loop3/loop/backing_file", "/dev/nvme0n1\n")
    assert states.decide(WIPE, real.read(WIPE)).state == "refused"
    write(real.root / "sys/block/loop3/loop/backing_file", "/dev/other\n")
    assert states.decide(WIPE, real.read(WIPE)).state == "make"
    with image.open("r+b") as stream:
        stream.truncate(2**29)
    plan = states.decide(WIPE, real.read(WIPE))
    assert (plan.state, "no content to be read" in plan.problems[0]) == ("refused", True)
