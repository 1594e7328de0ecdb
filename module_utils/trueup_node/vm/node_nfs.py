#!/usr/bin/python3
"""Makes one file system of the NFS server's data disks, and mounts it at /srv/shared: systemd runs
this at each boot, before the NFS server.

    python3 node_nfs.py DISKS

For Python 3.6 and its standard library alone: it is sent to a VM as it stands here. The disks are
those of LUN 0 to DISKS - 1, several of them one RAID 0. Only disks without any signature (wipefs)
are written to, and only when all of them are; a RAID or file system that this program made is used
as it is. Exit status: 0 it is mounted; 1 it is not, and one sentence says why.

Source of the links: Azure/WALinuxAgent's 66-azure-storage.rules (scsi1/lunN) and Azure/
azure-vm-utils' 80-azure-disk.rules (data/by-lun/N).
"""

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from typing import Dict, List, Set

FOLDER, LABEL = "/srv/shared", "trueup-nfs"
ARRAY = "/dev/md/" + LABEL
LINKS = ("/dev/disk/azure/scsi1/lun{}", "/dev/disk/azure/data/by-lun/{}")
WAIT_SECONDS, COMMAND_SECONDS = 120, 300
FSTAB, LOCK = "/etc/fstab", "/run/trueup-nfs.lock"
OPTIONS = "defaults,noatime,nofail"


class Trouble(Exception):
    """An obstacle, in one sentence."""


def say(text: str) -> None:
    """A line of the journal."""
    print(text, flush=True)


def run(*argv: str) -> str:
    """The output of a program."""
    try:
        done = subprocess.run(  # noqa: UP022 WHY: Python 3.6 has no capture_output
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise Trouble(f"this image has no {argv[0]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Trouble(f"{argv[0]} could not be run: {error}") from None
    if done.returncode:
        output = " ".join((done.stdout + done.stderr).decode(errors="replace").split())
        raise Trouble(f"{' '.join(argv)} failed with status {done.returncode}: {output[-300:]}")
    return done.stdout.decode(errors="replace")


def data_disks(count: int) -> List[str]:
    """The disks, by LUN, once all are there."""
    ends = time.monotonic() + WAIT_SECONDS
    while True:
        by_lun = {}
        for lun in range(count):
            links = [link.format(lun) for link in LINKS if os.path.exists(link.format(lun))]
            if links:
                by_lun[lun] = os.path.realpath(links[0])
        if len(by_lun) == count:
            break
        if time.monotonic() >= ends:
            missing = ", ".join(str(lun) for lun in range(count) if lun not in by_lun)
            names = " or ".join(link.format("N") for link in LINKS)
            raise Trouble(
                f"no data disk of LUN {missing} after {WAIT_SECONDS} s ({names}), of {count} disks:"
                " nothing was written"
            )
        time.sleep(1)
    if len(set(by_lun.values())) < count:
        raise Trouble(f"two LUNs are one disk: {by_lun}")
    return [by_lun[lun] for lun in range(count)]


def signatures(device: str) -> Set[str]:
    """The signatures on a device, as wipefs names them; none on a blank device."""
    return set(run("wipefs", "--no-act", "--noheadings", "--output", "TYPE", device).split())


def exported(text: str) -> Dict[str, str]:
    """NAME=value lines."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def array(disks: List[str]) -> str:
    """The RAID 0 of the disks, which is made where all of them are blank."""
    held = {disk: signatures(disk) for disk in disks}
    if not any(held.values()):
        unlisted(disks)
        run("mdadm", "--create", ARRAY, "--run", "--level=0", f"--raid-devices={len(disks)}",
            "--metadata=1.2", "--homehost=any", f"--name={LABEL}", *disks)  # fmt: skip
        say(f"made a RAID 0 of {', '.join(disks)}")
    else:
        strange = [disk for disk in disks if held[disk] != {"linux_raid_member"}]
        if strange:
            raise refused({disk: held[disk] for disk in disks})
        named = [exported(run("mdadm", "--examine", "--export", disk)) for disk in disks]
        ours = all(
            member.get("MD_NAME", "").rpartition(":")[2] == LABEL
            and member.get("MD_UUID") == named[0].get("MD_UUID")
            and member.get("MD_DEVICES") == str(len(disks))
            for member in named
        )
        if not ours:
            raise Trouble(f"{', '.join(disks)} are of another RAID: nothing was written")
    run("udevadm", "settle")
    above = set(os.listdir(f"/sys/class/block/{os.path.basename(disks[0])}/holders"))
    if not above:
        run("mdadm", "--assemble", ARRAY, *disks)
        return os.path.realpath(ARRAY)
    return "/dev/" + above.pop()


def refused(held: Dict[str, Set[str]]) -> Trouble:
    """Why nothing is made of devices that hold something."""
    some = "; ".join(
        f"{device} holds {', '.join(sorted(kinds)) or 'nothing'}" for device, kinds in held.items()
    )
    return Trouble(f"not all of it is blank, and nothing was written: {some}")


def file_system(device: str) -> str:
    """The UUID of the device's file system, which is made where the device is blank."""
    held = signatures(device)
    if not held:
        unlisted([device])
        run("mkfs.xfs", "-q", "-L", LABEL, device)
        say(f"made a file system on {device}")
    tags = exported(run("blkid", "-p", "-o", "export", device))
    if tags.get("TYPE") != "xfs" or tags.get("LABEL") != LABEL:
        raise refused({device: held})
    return tags["UUID"]


def mounts() -> List[str]:
    """The lines of fstab for the folder."""
    with open(FSTAB, encoding="utf-8") as file:
        return [line for line in file.read().splitlines() if line.split()[1:2] == [FOLDER]]


def unlisted(blank: List[str]) -> None:
    """Stop where blank devices take the place of something."""
    before = mounts()
    if before:
        raise Trouble(
            f"{', '.join(blank)} are blank, and {FSTAB} mounts something else there, so nothing"
            f" was written: {before[0]}"
        )


def listed(uuid: str) -> None:
    """The mount in fstab."""
    line, before = f"UUID={uuid} {FOLDER} xfs {OPTIONS} 0 0", mounts()
    if before == [line]:
        return
    if before:
        raise Trouble(f"{FSTAB} mounts something else: {before[0]}")
    with open(FSTAB, encoding="utf-8") as file:
        text = file.read()
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(FSTAB), delete=False) as new:
        new.write(text + ("" if text.endswith("\n") or not text else "\n") + line + "\n")
        new.flush()
        os.fsync(new.fileno())
    os.chmod(new.name, os.stat(FSTAB).st_mode & 0o7777)
    os.rename(new.name, FSTAB)
    if os.path.isdir("/run/systemd/system"):
        run("systemctl", "daemon-reload")


def shared(disks: List[str]) -> None:
    """Mount the file system of the disks."""
    device = array(disks) if len(disks) > 1 else disks[0]
    listed(file_system(device))
    if not os.path.ismount(FOLDER):
        # Nobody but root writes to the system's disk where the mount is away.
        os.makedirs(FOLDER, mode=0, exist_ok=True)
        run("mount", FOLDER)
        say(f"mounted {device} at {FOLDER}")
    if os.path.realpath(run("findmnt", "-no", "SOURCE", FOLDER).strip()) != device:
        raise Trouble(f"something else than {device} is mounted at {FOLDER}")
    if not os.listdir(FOLDER):
        os.chmod(FOLDER, 0o1777)  # noqa: S103 WHY: every user makes folders there, as in /tmp


def main(argv: List[str]) -> int:
    """The program."""
    try:
        with open(LOCK, "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            shared(data_disks(int(argv[0])))
    except (Trouble, OSError) as trouble:
        say(f"{FOLDER} is not there: {trouble}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
