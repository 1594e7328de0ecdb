"""The node program that makes the scratch file system: what it decides, reads and runs."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import scratch_facts
from helpers import answer_of, parametrized
from trueup_node.node.scratch import program, reading, states

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/data/nvme_scratch"
OUR_XFS = "c25b211f-add0-5772-b403-f6827eb1a18b"
LOCAL = "Microsoft NVMe Direct Disk v2"
REMOTE = "MSFT NVMe Accelerator v1.0"


SETTINGS = states.Settings(
    models=("Microsoft NVMe Direct Disk",),
    mount_point="/mnt/resource_nvme",
    uuid=OUR_XFS,
    array="trueup-scratch",
    chunk_kib=512,
    owner="root",
    group="root",
    mode="1777",
    expected_disks=None,
    fewer_disks_allowed=False,
    existing="refuse",
    wait_seconds=0,
    wipe_unsigned=False,
)
EXT4 = states.Signature("ext4", "11111111-2222-3333-4444-555555555555", "results")
XFS = states.Signature("xfs", OUR_XFS)
GENERATION = "aad744662213d5dc845e28f8d6b3657d"
# This machine made the array, and has found it whole since it booted, or before.
LOST = states.Marker(GENERATION, this_boot=True)
LATE = states.Marker(GENERATION, this_boot=False)


def settings(**changes: Any) -> Any:
    return dataclasses.replace(SETTINGS, **changes)


def disk(number: int, **facts: Any) -> Any:
    return states.Device(
        **{"name": f"nvme{number}n1", "model": LOCAL, "bytes": 960197124096, **facts}
    )


def member(number: int, *, of: int, uuid: str = GENERATION, **facts: Any) -> Any:
    label, level = facts.pop("label", "any:trueup-scratch"), facts.pop("level", "raid0")
    signature = states.Signature("linux_raid_member", uuid, label)
    block = states.Superblock(uuid, label, level, of)
    return disk(number, **{"signatures": (signature,), "superblock": block, **facts})


def array(count: int, **facts: Any) -> Any:
    device = {"name": "md127", "signatures": (XFS,), **facts.pop("device", {})}
    return states.Array(
        **{
            "device": states.Device(**device),
            "label": "any:trueup-scratch",
            "level": "raid0",
            "state": "clean",
            "raid_devices": count,
            "members": tuple(f"nvme{n}n1" for n in range(count)),
            **facts,
        }
    )


def decide(*disks: Any, with_settings: Any = SETTINGS, **facts: Any) -> Any:
    return states.decide(with_settings, states.Machine(disks, **facts))


# ---- how many disks -----------------------------------------------------------------------------


def test_no_disk_is_nothing_to_do() -> None:
    assert decide() == states.Plan("none")


def test_one_blank_disk_gets_the_file_system_itself() -> None:
    plan = decide(disk(0))
    assert (plan.state, plan.device, plan.disks) == ("make", "nvme0n1", ("nvme0n1",))
    assert plan.steps == ("make an XFS file system on nvme0n1",)


@pytest.mark.parametrize("count", [2, 8])
def test_several_blank_disks_become_raid_0(count: int) -> None:
    plan = decide(*(disk(number) for number in range(count)))
    assert (plan.state, plan.device, len(plan.disks)) == ("make", "", count)
    assert plan.steps[0].startswith("make RAID 0 over nvme0n1, nvme1n1")


def test_another_number_than_the_catalogs_is_refused_with_both() -> None:
    plan = decide(disk(0), with_settings=settings(expected_disks=2))
    (problem,) = plan.problems
    assert problem == (
        "expected 2 disks of the model(s) Microsoft NVMe Direct Disk, found 1 (nvme0n1):"
        " redeploy the VM, or set nvme_scratch_fewer_disks_allowed."
    )
    none = decide(with_settings=settings(expected_disks=2))
    assert "expected 2 disks" in none.problems[0]
    assert "found none" in none.problems[0]
    more = decide(disk(0), disk(1), with_settings=settings(expected_disks=1))
    assert "found 2 (nvme0n1, nvme1n1): narrow nvme_scratch_models" in more.problems[0]


def test_fewer_disks_are_used_where_that_is_allowed_and_more_are_not() -> None:
    allowed = settings(expected_disks=2, fewer_disks_allowed=True)
    assert decide(disk(0), with_settings=allowed).state == "make"
    assert decide(*map(disk, range(3)), with_settings=allowed).state == "refused"


# ---- what is never written to -------------------------------------------------------------------

OS_DISK = {"partitions": ("nvme9n1p1",), "mounts": ("/", "/boot/efi"), "busy": True}


def test_disks_of_other_models_are_not_looked_at() -> None:
    plan = decide(
        disk(0), disk(8, model=REMOTE, signatures=(EXT4,)), disk(9, model=REMOTE, **OS_DISK)
    )
    assert plan.disks == ("nvme0n1",)


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"partitions": ("nvme1n1p1", "nvme1n1p2")}, "the partition(s) nvme1n1p1, nvme1n1p2"),
        ({"signatures": (EXT4,)}, "a signature of ext4 (results)"),
        ({"signatures": (states.Signature("gpt"), states.Signature("PMBR"))}, "signature of gpt"),
        ({"signatures": (states.Signature("xfs", "another"),)}, "a signature of xfs"),
        ({"signatures": (XFS, EXT4)}, "a signature of xfs, a signature of ext4"),
        ({"signatures": (states.Signature("LVM2_member"),), "holders": ("dm-0",)}, "LVM2_member"),
        ({"holders": ("dm-0",)}, "the device dm-0 on it"),
        ({"mounts": ("/data",)}, "a mount at /data"),
        ({"swap": True}, "swap in use"),
        ({"busy": True}, "a program that holds it open"),
        ({**OS_DISK}, "a mount at /, /boot/efi"),
    ],
)
def test_a_disk_with_anything_on_it_is_refused_by_name(facts: dict[str, Any], named: str) -> None:
    plan = decide(disk(0), disk(1, **facts))
    assert plan.state == "refused"
    assert plan.steps == ()
    (problem,) = plan.problems
    assert problem.startswith(
        "/dev/nvme1n1 (Microsoft NVMe Direct Disk v2, 960197124096 bytes) has"
    )
    assert named in problem


def test_each_disk_with_something_on_it_is_named() -> None:
    plan = decide(disk(0, signatures=(EXT4,)), disk(1), disk(2, swap=True))
    assert [problem.split()[0] for problem in plan.problems] == ["/dev/nvme0n1", "/dev/nvme2n1"]


def foreign() -> tuple[Any, ...]:
    return tuple(
        member(number, of=2, label="node:128", holders=("md128",), busy=True) for number in range(2)
    )


AZURES = array(2, label="node:128", device={"name": "md128", "mounts": ("/mnt/resource_nvme",)})


def test_an_array_of_something_else_is_refused_by_name() -> None:
    elsewhere = array(2, label="node:128", device={"name": "md128", "mounts": ("/mnt/nvme",)})
    plan = decide(*foreign(), arrays=(elsewhere,))
    assert "the array /dev/md128 node:128 (raid0 of nvme0n1, nvme1n1)" in plan.problems[0]
    assert len(plan.problems) == 2


def test_the_image_scripts_array_at_the_mount_point_is_refused_or_kept() -> None:
    where = {"arrays": (dataclasses.replace(AZURES, device=states.Device("md128")),)}
    refused = decide(*foreign(), mounted="md128", **where)
    (problem,) = refused.problems
    assert problem == (
        "/mnt/resource_nvme is the mount point of the array /dev/md128 node:128 (raid0 of nvme0n1,"
        " nvme1n1), which Azure's setup_nvme.sh made. Set nvme_scratch_existing to keep to leave it"
        " as it is."
    )
    kept = decide(*foreign(), mounted="md128", with_settings=settings(existing="keep"), **where)
    assert (kept.state, kept.problems, kept.steps) == ("kept", (), ())


def test_another_file_system_at_the_mount_point_is_never_kept() -> None:
    plan = decide(disk(0), mounted="sdb1", with_settings=settings(existing="keep"))
    (problem,) = plan.problems
    assert problem == (
        "/mnt/resource_nvme is the mount point of sdb1, which something else made."
        " Choose another nvme_scratch_mount_point."
    )


# ---- what is our own ----------------------------------------------------------------------------


def test_our_mounted_array_needs_nothing() -> None:
    ours = array(2, device={"mounts": ("/mnt/resource_nvme",)})
    disks = [member(n, of=2, holders=("md127",), busy=True) for n in range(2)]
    plan = decide(*disks, arrays=(ours,), mounted="md127", permissions="root:root 1777")
    assert (plan.state, plan.mounted, plan.steps, plan.problems) == ("ready", True, (), ())
    drifted = decide(*disks, arrays=(ours,), mounted="md127", permissions="root:root 0755")
    assert drifted.steps == ("set root:root 1777 instead of root:root 0755",)


def test_our_single_file_system_is_found_again() -> None:
    plan = decide(disk(0, signatures=(XFS,)))
    assert (plan.state, plan.device, plan.mounted, plan.steps) == ("ready", "nvme0n1", False, ())


def test_our_array_is_assembled_and_an_unfinished_one_stopped_first() -> None:
    plan = decide(member(0, of=2), member(1, of=2))
    assert (plan.state, plan.stop) == ("assemble", ())
    partial = array(2, state="inactive", members=("nvme0n1",), device={"signatures": ()})
    plan = decide(member(0, of=2, holders=("md127",)), member(1, of=2), arrays=(partial,))
    assert (plan.state, plan.stop) == ("assemble", ("md127",))


HALVES = [
    # One wiped; one gone.
    [member(0, of=2), disk(1)],
    [member(0, of=3), member(1, of=3)],
]


@pytest.mark.parametrize("disks", HALVES)
def test_an_array_that_lost_a_disk_in_this_boot_is_made_anew_over_all(disks: list[Any]) -> None:
    plan = decide(*disks, marker=LOST)
    assert plan.state == "rebuild"
    assert plan.disks == tuple(d.name for d in disks)
    assert plan.forget == tuple(d.name for d in disks if d.signatures)


@pytest.mark.parametrize("marker", [None, LATE, states.Marker("another", this_boot=True)])
@pytest.mark.parametrize("disks", HALVES)
def test_without_proof_a_part_of_an_array_is_left_alone(disks: list[Any], marker: Any) -> None:
    plan = decide(*disks, marker=marker)
    assert (plan.state, plan.forget, plan.stop) == ("refused", (), ())
    assert ("a disk may be late" in plan.problems[0]) == (marker == LATE)


@pytest.mark.parametrize(
    "disks",
    [
        # Two generations; as many as it says, but not of one array.
        [member(0, of=2), member(1, of=2, uuid="b" * 32)],
        [member(0, of=3), member(1, of=2, uuid="b" * 32), disk(2)],
    ],
)
def test_the_proof_is_of_one_array(disks: list[Any]) -> None:
    assert decide(*disks, marker=LOST).state == "refused"


def test_what_is_left_of_our_array_on_one_disk_becomes_a_single_file_system() -> None:
    plan = decide(member(0, of=8), marker=LOST)
    assert (plan.state, plan.device, plan.forget) == ("rebuild", "nvme0n1", ("nvme0n1",))


@parametrized(("facts", "named"))
def test_a_lost_array_in_use_is_refused(facts: dict[str, Any], named: str) -> None:
    broken = array(2, state="broken", device=facts)
    plan = decide(member(0, of=2, holders=("md127",)), arrays=(broken,), marker=LOST)
    assert (plan.state, plan.stop) == ("refused", ())
    assert named in plan.problems[0]


@pytest.mark.parametrize("level", ["raid1", "raid5", "raid10", "linear"])
def test_an_array_of_another_level_with_our_name_is_left_alone(level: str) -> None:
    part = member(0, of=2, level=level)
    plan = decide(part, marker=LOST)
    assert (plan.state, plan.forget) == ("refused", ())
    assert f"a superblock of the {level} any:trueup-scratch of 2" in plan.problems[0]
    runs = array(2, level=level, state="active", members=("nvme0n1",))
    held = dataclasses.replace(part, holders=("md127",))
    assert decide(held, arrays=(runs,), marker=LOST).state == "refused"
    # Its members are not among the disks that are chosen.
    plan = decide(disk(0), disk(1, model=REMOTE), arrays=(runs,), marker=LOST)
    assert (plan.state, plan.stop) == ("refused", ())
    assert f"the array /dev/md127 any:trueup-scratch ({level} of nvme0n1)" in plan.problems[0]


def test_a_whole_array_of_one_disk_is_assembled() -> None:
    plan = decide(member(0, of=1), marker=LATE)
    assert (plan.state, plan.forget, plan.array) == ("assemble", (), GENERATION)


def test_a_late_disk_is_waited_for_also_where_fewer_are_allowed() -> None:
    allowed = settings(expected_disks=8, fewer_disks_allowed=True)
    seven = [member(number, of=8) for number in range(7)]
    assert decide(*seven, with_settings=allowed, marker=LATE).state == "refused"
    whole = decide(*seven, member(7, of=8), with_settings=allowed, marker=LATE)
    assert (whole.state, whole.array) == ("assemble", GENERATION)


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"unexamined": "mdadm ended with status 2"}, "since mdadm ended with status 2"),
        ({"superblock": states.Superblock("a", "host:data", "raid1", 2)}, "the raid1 host:data"),
        ({"content": "content without a signature, at byte 512"}, "content without a signature"),
        ({"writers": ("the program fio (process 7)",)}, "fio (process 7) that writes to it"),
    ],
)
def test_a_disk_that_is_not_proven_blank_is_left_alone(facts: dict[str, Any], named: str) -> None:
    for disks in ([disk(0, **facts)], [disk(0, **facts), member(1, of=2)]):
        plan = decide(*disks, marker=LOST)
        assert (plan.state, plan.forget) == ("refused", ())
        assert named in plan.problems[0]


def test_an_array_of_the_images_services_is_named() -> None:
    plan = decide(member(0, of=1, label="node:azure-ephemeral-md"), marker=LOST)
    assert "which azure-ephemeral-disk-setup made" in plan.problems[0]


def test_each_state_of_the_table_has_a_name_of_its_own() -> None:
    names = [row.state for row in states.TABLE]
    assert len(set(names)) == len(names)


def test_what_no_row_of_the_table_knows_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "TABLE", ())
    plan = decide(disk(0))
    assert (plan.state, plan.steps, len(plan.problems)) == ("refused", (), 1)


def test_an_intact_file_system_is_not_given_up_for_a_disk_more() -> None:
    plan = decide(member(0, of=2), member(1, of=2), disk(2))
    assert plan.problems[0].startswith("nvme0n1, nvme1n1 hold(s) an intact scratch file system")
    plan = decide(disk(0, signatures=(XFS,)), disk(1))
    assert plan.problems[0].startswith("nvme0n1 hold(s) an intact scratch file system, but nvme0n1")
    plan = decide(disk(0, signatures=(XFS,)), disk(1, signatures=(XFS,)))
    assert plan.problems[0].startswith("nvme0n1, nvme1n1 hold(s) an intact scratch file system")


def test_a_lost_array_is_not_made_anew_over_somebodys_data() -> None:
    plan = decide(member(0, of=2), disk(1, signatures=(EXT4,)), marker=LOST)
    assert (plan.state, plan.forget) == ("refused", ())
    assert "/dev/nvme1n1" in plan.problems[0]


def test_another_file_system_on_our_array_is_refused() -> None:
    theirs = array(2, device={"signatures": (EXT4,)})
    plan = decide(member(0, of=2), member(1, of=2), arrays=(theirs,))
    (problem,) = plan.problems
    assert problem.startswith("our array md127 has a signature of ext4 (results), which something")


def test_our_array_without_a_file_system_gets_one_where_it_is_proven_and_blank() -> None:
    def decided(marker: Any, **facts: Any) -> Any:
        bare = array(2, device={"signatures": (), **facts})
        return decide(member(0, of=2), member(1, of=2), arrays=(bare,), marker=marker)

    plan = decided(LATE)
    assert (plan.state, plan.device) == ("make", "md127")
    assert decided(None).state == "refused"
    assert decided(LATE, content="content without a signature, at byte 0").state == "refused"
    assert decided(LATE, holders=("dm-0",)).state == "refused"


# ---- reading ------------------------------------------------------------------------------------


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def no_superblock(path: str) -> Exception:
    """What mdadm 4.2 says of a disk without superblock."""
    argv = ("mdadm", "--examine", "--export", path)
    error: Exception = reading.Ended(argv, 1, f"mdadm: No md superblock detected on {path}.")
    return error


class FakeMachine:
    """A tree of sysfs and procfs, and what wipefs and mdadm say of its devices."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.wipefs: dict[str, str] = {}
        self.mdadm: dict[str, str | Exception] = {}
        self.ran: list[tuple[str, ...]] = []
        write(root / "proc/self/mountinfo", "24 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n")
        write(root / "proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")

    def disk(self, name: str, model: str = f"{LOCAL}      \n", number: str = "259:0") -> Path:
        folder = self.root / "sys/block" / name
        write(folder / "device/model", model)
        write(folder / "size", "2097152\n")
        write(folder / "dev", f"{number}\n")
        (folder / "holders").mkdir()
        (self.root / "dev").mkdir(exist_ok=True)
        with (self.root / "dev" / name).open("wb") as stream:
            stream.truncate(2**30)
        return folder

    def run(self, *argv: str, check: bool = True) -> str:
        self.ran.append(argv)
        if argv[0] == "wipefs":
            return self.wipefs.get(argv[-1], (DATA / "wipefs_blank.json").read_text())
        if argv[0] == "mdadm":
            said = self.mdadm.get(argv[-1])
            if isinstance(said, Exception):
                raise said
            if said is None:
                raise no_superblock(argv[-1])
            return said
        message = f"unexpected command {argv}"
        raise AssertionError(message)

    def read(self, with_settings: Any = SETTINGS) -> Any:
        return reading.read_machine(with_settings, self.run, str(self.root))


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def test_a_blank_disk_is_read(fake: FakeMachine) -> None:
    fake.disk("nvme0n1")
    assert fake.read().disks == (states.Device("nvme0n1", model=LOCAL, bytes=2**30),)


def test_disks_come_in_the_order_of_their_numbers_and_paths_of_multipath_do_not(
    fake: FakeMachine,
) -> None:
    for name in ("nvme10n1", "nvme2n1", "nvme2c2n1", "sda"):
        fake.disk(name)
    assert [device.name for device in fake.read().disks] == ["nvme2n1", "nvme10n1"]


def test_nothing_is_asked_about_disks_of_other_models(fake: FakeMachine) -> None:
    fake.disk("nvme0n1", model=REMOTE)
    assert [device.model for device in fake.read().disks] == [REMOTE]
    assert fake.ran == []


def test_partitions_mounts_swap_and_holders_are_read(fake: FakeMachine) -> None:
    folder = fake.disk("nvme0n1", number="259:0")
    write(folder / "nvme0n1p1/partition", "1\n")
    write(folder / "nvme0n1p1/dev", "259:1\n")
    (folder / "nvme0n1p1/holders/dm-0").mkdir(parents=True)
    with (fake.root / "proc/self/mountinfo").open("a") as stream:
        stream.write("40 24 259:1 / /mnt/with\\040blank rw - ext4 /dev/nvme0n1p1 rw\n")
    with (fake.root / "proc/swaps").open("a") as stream:
        stream.write("/dev/nvme0n1p1 partition 1048572 0 -2\n")
    (found,) = fake.read().disks
    assert found.partitions == ("nvme0n1p1",)
    assert found.mounts == ("/mnt/with blank",)
    assert found.swap is True
    assert found.holders == ("dm-0",)


def test_signatures_are_read_from_wipefs(fake: FakeMachine) -> None:
    fake.disk("nvme0n1")
    fake.wipefs["/dev/nvme0n1"] = (DATA / "wipefs_member.json").read_text()
    fake.mdadm["/dev/nvme0n1"] = (DATA / "mdadm_examine.txt").read_text()
    (found,) = fake.read().disks
    assert found.signatures == (
        states.Signature(
            "linux_raid_member", "aad74466-2213-d5dc-845e-28f8d6b3657d", "any:trueup-scratch"
        ),
    )
    assert found.superblock == states.Superblock(GENERATION, "any:trueup-scratch", "raid0", 8)
    assert decide(found, marker=LOST).forget == ("nvme0n1",)


MDADM = ("mdadm", "--examine", "--export", "/dev/nvme0n1")


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (reading.Ended(MDADM, 1, "mdadm: cannot open /dev/nvme0n1: Device busy"), "Device busy"),
        (reading.Ended(MDADM, 2, "mdadm: No md superblock detected on /dev/nvme0n1."), "status 2"),
        (reading.Ended(MDADM, 1, "mdadm: No md superblock detected on /dev/nvme1n1."), "nvme1n1"),
        (reading.Ended(MDADM, 1, ""), "status 1"),
        (reading.Missing("mdadm is not installed"), "mdadm is not installed"),
        (reading.Failed("mdadm: timed out"), "timed out"),
        ("", "what cannot be read"),
        ("MD_LEVEL=raid0\nMD_DEVICES=many\nMD_UUID=aa\n", "what cannot be read"),
        ("MD_DEVICES=2\nMD_UUID=aa\n", "what cannot be read"),
    ],
)
def test_whatever_mdadm_does_not_tell_is_no_permission(
    fake: FakeMachine, said: Any, named: str
) -> None:
    fake.disk("nvme0n1")
    fake.mdadm["/dev/nvme0n1"] = said
    for signatures in ("wipefs_member.json", "wipefs_blank.json"):
        fake.wipefs["/dev/nvme0n1"] = (DATA / signatures).read_text()
        plan = states.decide(SETTINGS, dataclasses.replace(fake.read(), marker=LOST))
        assert (plan.state, plan.forget) == ("refused", ())
        assert named in plan.problems[0]


def test_a_look_before_mdadm_is_installed_needs_none(fake: FakeMachine) -> None:
    fake.disk("nvme0n1")
    fake.mdadm["/dev/nvme0n1"] = reading.Missing("mdadm is not installed")
    seen = reading.read_machine(SETTINGS, fake.run, str(fake.root), needs_mdadm=False)
    assert states.decide(SETTINGS, seen).state == "make"


@pytest.mark.parametrize("at", [0, 4095, 2**20 - 1, 2**30 - 2**20, 2**30 - 1])
def test_a_byte_of_content_without_signature_is_found(fake: FakeMachine, at: int) -> None:
    fake.disk("nvme0n1")
    with (fake.root / "dev/nvme0n1").open("r+b") as stream:
        stream.seek(at)
        stream.write(b"x")
    (found,) = fake.read().disks
    assert found.content == f"content without a signature, at byte {at}"


def test_content_in_the_midst_of_a_disk_is_found(fake: FakeMachine) -> None:
    fake.disk("nvme0n1")
    with (fake.root / "dev/nvme0n1").open("r+b") as stream:
        stream.seek(2**29)
        stream.write(b"x" * 2**22)
    assert fake.read().disks[0].content.startswith("content without a signature, at byte 53")


def test_a_disk_that_cannot_be_read_is_not_blank(fake: FakeMachine) -> None:
    fake.disk("nvme0n1")
    (fake.root / "dev/nvme0n1").write_bytes(bytes(4096))
    assert decide(*fake.read().disks).state == "refused"
    (fake.root / "dev/nvme0n1").unlink()
    assert "cannot be read" in decide(*fake.read().disks).problems[0]


def test_who_writes_to_a_disk_is_found(fake: FakeMachine) -> None:
    fake.disk("nvme0n1")
    for number, target in enumerate(("/tmp/file", "/dev/nvme0n1", "/dev/null")):
        write(fake.root / f"proc/{number}/comm", "fio\n")
        (fake.root / f"proc/{number}/fd").mkdir()
        (fake.root / f"proc/{number}/fd/3").symlink_to(target)
    (fake.root / "proc/77").mkdir()  # has ended meanwhile
    (found,) = fake.read().disks
    assert found.writers == ("the program fio (process 1)",)
    assert decide(found).state == "refused"


def test_who_writes_to_a_disk_is_named_once(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's table knows a device by its number too, which a file here cannot have."""
    fake.disk("nvme0n1")
    write(fake.root / "sys/block/nvme0n1/dev", "259:0\n")
    write(fake.root / "proc/1/comm", "fio\n")
    (fake.root / "proc/1/fd").mkdir()
    (fake.root / "proc/1/fd/3").symlink_to("/dev/nvme0n1")
    monkeypatch.setattr(reading, "_written_through", lambda _: ("/dev/nvme0n1", "259:0"))
    assert fake.read().disks[0].writers == ("the program fio (process 1)",)


def test_files_of_a_process_that_cannot_be_seen_are_no_permission(fake: FakeMachine) -> None:
    fake.disk("nvme0n1")
    write(fake.root / "proc/7/fd", "no folder")
    assert "process 7" in decide(*fake.read().disks).problems[0]


def test_a_loop_device_over_a_disk_is_found(fake: FakeMachine) -> None:
    fake.disk("nvme0n1")
    write(fake.root / "sys/block/loop3/loop/backing_file", "/dev/nvme0n1\n")
    assert fake.read().disks[0].writers == ("the loop device loop3",)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"array": "a", "machine": "vm-1", "boot": "b-1"}', states.Marker("a", this_boot=True)),
        ('{"array": "a", "machine": "vm-1", "boot": "b-0"}', states.Marker("a", this_boot=False)),
        ('{"array": "a", "machine": "vm-2", "boot": "b-1"}', None),
        ('{"array": "", "machine": "vm-1", "boot": "b-1"}', None),
        ('{"array": ["a"], "machine": "vm-1", "boot": "b-1"}', None),
        ('{"array": "a", "machine"', None),
        ("[]", None),
        ("", None),
    ],
)
def test_the_marker_is_of_this_machine_and_boot(fake: FakeMachine, text: str, found: Any) -> None:
    write(fake.root / "sys/class/dmi/id/product_uuid", "vm-1\n")
    write(fake.root / "proc/sys/kernel/random/boot_id", "b-1\n")
    write(fake.root / reading.MARKER, text)
    assert fake.read().marker == found


def test_an_array_is_read_with_its_label_and_members(fake: FakeMachine) -> None:
    folder = fake.root / "sys/block/md127"
    write(folder / "md/array_state", "clean\n")
    write(folder / "md/level", "raid0\n")
    write(folder / "md/raid_disks", "8\n")
    write(folder / "dev", "9:127\n")
    for number in range(8):
        (folder / f"slaves/nvme{number}n1").mkdir(parents=True)
    fake.mdadm["/dev/md127"] = (DATA / "mdadm_detail.txt").read_text()
    with (fake.root / "proc/self/mountinfo").open("a") as stream:
        stream.write("40 24 9:127 / /mnt/resource_nvme rw,noatime - xfs /dev/md127 rw\n")
    (fake.root / "mnt/resource_nvme").mkdir(parents=True)
    machine = fake.read()
    (found,) = machine.arrays
    assert (found.label, found.level, found.raid_devices) == ("any:trueup-scratch", "raid0", 8)
    assert len(found.members) == 8
    assert found.device.mounts == ("/mnt/resource_nvme",)
    assert machine.mounted == "md127"


def test_a_file_system_that_answers_no_more_is_named(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fake.root / "sys/block/md127"
    write(folder / "md/array_state", "broken\n")
    write(folder / "md/level", "raid0\n")
    write(folder / "md/raid_disks", "3\n")
    write(folder / "dev", "9:127\n")
    fake.mdadm["/dev/md127"] = (DATA / "mdadm_detail.txt").read_text()
    with (fake.root / "proc/self/mountinfo").open("a") as stream:
        stream.write("40 24 9:127 / /mnt/resource_nvme rw,noatime - xfs /dev/md127 rw\n")

    def gone(path: Path) -> str:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(reading, "_read_permissions", gone)
    with pytest.raises(reading.Failed) as raised:
        fake.read()
    assert str(raised.value) == (
        "/mnt/resource_nvme, where md127 is mounted, cannot be read (Input/output error): a disk"
        " below it may be lost. End what uses it, unmount it, and run this again."
    )


def test_what_wipefs_must_not_say_is_an_error(fake: FakeMachine) -> None:
    fake.disk("nvme0n1")
    fake.wipefs["/dev/nvme0n1"] = "wipefs: no such option"
    with pytest.raises(reading.Failed, match="wipefs says of /dev/nvme0n1 what cannot be read"):
        fake.read()


# ---- doing --------------------------------------------------------------------------------------


class Recorder:
    """Commands that are run, with the answers that reading them back needs."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, ...]] = []

    def __call__(self, *argv: str, check: bool = True) -> str:
        self.ran.append(argv)
        return ""


def test_a_disk_is_formatted_without_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_permit", lambda *_: None)
    run = Recorder()
    program.apply(SETTINGS, decide(disk(0)), run)
    assert run.ran[0] == ("mkfs.xfs", "-q", "-m", f"uuid={OUR_XFS}", "/dev/nvme0n1")


def test_an_array_is_made_by_name_for_any_host_and_without_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(program, "_permit", lambda *_: None)
    made = states.Machine((), (array(2, device={"name": "md126"}, uuid=GENERATION),))
    monkeypatch.setattr(program, "read_machine", lambda *_: made)
    monkeypatch.setattr(reading, "ROOT", str(tmp_path))
    run = Recorder()
    program.apply(SETTINGS, decide(member(0, of=2), disk(1), marker=LOST), run)
    assert run.ran[0] == ("wipefs", "--all", "/dev/nvme0n1")
    assert run.ran[1] == (
        "mdadm", "--create", "/dev/md/trueup-scratch", "--name=trueup-scratch", "--homehost=any",
        "--metadata=1.2", "--level=0", "--chunk=512", "--raid-devices=2", "/dev/nvme0n1",
        "/dev/nvme1n1",
    )  # fmt: skip
    assert run.ran[2] == ("mkfs.xfs", "-f", "-q", "-m", f"uuid={OUR_XFS}", "/dev/md126")
    assert json.loads((tmp_path / reading.MARKER).read_text())["array"] == GENERATION


def test_nothing_runs_for_a_refusal_or_what_is_ready() -> None:
    run = Recorder()
    program.apply(SETTINGS, decide(disk(0, signatures=(EXT4,))), run)
    program.apply(SETTINGS, decide(disk(0, signatures=(XFS,))), run)
    assert run.ran == []


def test_a_boot_waits_for_a_disk_that_comes_late(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [states.Machine((disk(0),)), states.Machine((disk(0), disk(1)))]
    monkeypatch.setattr(program, "read_machine", lambda *_: seen.pop(0))
    monkeypatch.setattr(program.time, "sleep", lambda _: None)
    plan = program.decide_when_settled(settings(expected_disks=2), Recorder(), 60)
    assert plan.disks == ("nvme0n1", "nvme1n1")


def test_a_boot_without_the_catalogs_number_makes_nothing_anew_before_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = [states.Machine((member(0, of=2),)), states.Machine((member(0, of=2), member(1, of=2)))]
    monkeypatch.setattr(program, "read_machine", lambda *_: late.pop(0))
    monkeypatch.setattr(program.time, "sleep", lambda _: None)
    assert program.decide_when_settled(SETTINGS, Recorder(), 60).state == "assemble"


# ---- the command line ---------------------------------------------------------------------------


def given(**changes: Any) -> str:
    return json.dumps({**dataclasses.asdict(SETTINGS), **changes})


@pytest.fixture
def no_devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(program, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(program, "read_machine", lambda *_, **__: states.Machine(()))
    monkeypatch.setattr(program, "run_command", Recorder())


@pytest.mark.usefixtures("no_devices")
def test_checking_says_that_there_is_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--check", "--settings", given()]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "state": "none",
        "disks": [],
        "device": "",
        "mounted": False,
        "steps": [],
        "problems": [],
    }


@pytest.mark.usefixtures("no_devices")
def test_a_boot_without_disks_fails_so_that_the_mount_does_not_wait(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert program.main(["--settings", given()]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["problems"] == [
        "there is no disk of the model(s) Microsoft NVMe Direct Disk, so nothing to mount"
    ]


@pytest.mark.usefixtures("no_devices")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "the configuration cannot be read"),
        (json.dumps({"models": ["x"]}), "missing"),
        (given(surprise=1), "surprise"),
        (given(models=[""]), "an empty one"),
        (given(models=[]), "chooses no model"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(
    text: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["--settings", text]) == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert named in problem


# ---- the module ---------------------------------------------------------------------------------


@pytest.mark.parametrize("check", [False, True])
def test_the_module_publishes_what_the_program_would_do(
    *,
    check: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    theirs = scratch_facts.outcome.__globals__
    seen = {"machine": states.Machine((disk(0),))}
    monkeypatch.setitem(theirs, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setitem(theirs, "read_machine", lambda *_, **__: seen["machine"])

    def said() -> dict[str, Any]:
        arguments = {"settings": dataclasses.asdict(SETTINGS), "_ansible_check_mode": check}
        return answer_of(scratch_facts, capsys, **arguments)

    found = said()
    assert found["changed"] is check
    assert found["ansible_facts"]["trueup_scratch"] == {
        "state": "make",
        "disks": ["nvme0n1"],
        "device": "nvme0n1",
        "mounted": False,
        "steps": ["make an XFS file system on nvme0n1"],
    }
    seen["machine"] = states.Machine((disk(0, signatures=(EXT4,)),))
    refused = said()
    assert refused["failed"]
    assert "/dev/nvme0n1" in refused["msg"]
