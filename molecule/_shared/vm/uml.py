"""A machine that is a program: user-mode Linux of Debian's package, over a cached image.

It has md, XFS, SCSI and udev, and no PCI, so no NVMe disk; there, a command of mdadm takes a
fraction of what it takes where each instruction is emulated (vm.py). One machine runs one job: what
``run`` is given in a folder, which the machine sees as /host.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

from vm import LEAVE_OUT, SUITE, bootstrap, kept_image
from vm import run as run_here

PACKAGES = ("e2fsprogs", "kmod", "mdadm", "mount", "procps", "python3", "udev", "user-mode-linux")
PACKAGES += ("util-linux", "xfsprogs")
# Rules of udev that are not about block devices, nor md, say nothing here and cost the most. A
# SCSI disk's serial number is not asked for by a program, as an NVMe disk's is not.
INIT = """\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs -o mode=755 run /run
mkdir -p /host /dev/shm /run/udev/rules.d
: > /etc/machine-id
mount -t hostfs -o "$(sed 's/.*share=\\([^ ]*\\).*/\\1/' /proc/cmdline)" none /host
for file in /lib/udev/rules.d/*; do
  case $file in
    *-md-* | *-default.rules | *-dm.rules | *-block.rules | *-dm-notify.rules | *-storage.rules) ;;
    *) ln -s /dev/null "/run/udev/rules.d/${file##*/}" ;;
  esac
done
echo 'KERNEL=="sd*", ENV{ID_SERIAL}="$kernel"' > /run/udev/rules.d/59-serial.rules
/lib/systemd/systemd-udevd --daemon --children-max=1 2>/dev/null
udevadm trigger
udevadm settle
cp -r /host/job /run/job
cd /run/job
sh ./start
echo $? > /host/status
python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)'
"""
AFTER_INSTALLATION = """\
cp "$INIT" "$1/init"
chmod 0755 "$1/init"
ln -sfn /usr/lib/uml/modules "$1/usr/lib/modules"
rm -rf "$1"/var/cache/apt/*.bin "$1"/var/lib/apt/lists/*
"""
ROOT_SIZE = "900M"
XSTATE = Path(__file__).with_name("whole_xstate.c")


def make_image(cache: Path) -> Path:
    """The folder with the program ``linux`` and its root file system."""
    inputs = (SUITE, *PACKAGES, INIT, AFTER_INSTALLATION, *LEAVE_OUT, ROOT_SIZE, XSTATE.read_text())
    return kept_image(cache, "uml", inputs, ROOT_SIZE, _fill)


def _fill(part: Path, root: Path) -> None:
    init = part / "init"
    init.write_text(INIT)
    bootstrap(
        root, PACKAGES, f"--customize-hook=INIT={shlex.quote(str(init))}\n{AFTER_INSTALLATION}"
    )
    shutil.copy(root / "usr/bin/linux.uml", part / "linux")
    library = str(part / "xstate.so")
    run_here("cc", "-O2", "-shared", "-fPIC", "-o", library, str(XSTATE), "-ldl")


def run(image: Path, folder: Path) -> int:
    """Run ``job/start`` of the folder in a machine of its own, and show what it prints.

    Its exit status; 1 where the machine went off before it ended.
    """
    disk = folder / "root.img"
    run_here("cp", "--sparse=always", str(image / "root.img"), str(disk))
    argv = [str(image / "linux"), "mem=1500M", "root=/dev/ubda", f"ubd0={disk}", "rw"]
    argv += ["init=/init", "con=null", "con0=null,fd:1", f"share={folder}", "quiet", "panic=-1"]
    # On one processor the kernel and the programs below it wake each other at half the price.
    processor = max(os.sched_getaffinity(0))
    argv = ["taskset", "--cpu-list", str(processor), *argv]
    # Its memory is a file, which is on a disk unless it is told.
    environment = {**os.environ, "TMPDIR": "/dev/shm"}  # noqa: S108 (the kernel's memory)
    environment["LD_PRELOAD"] = str(image / "xstate.so")
    with subprocess.Popen(argv, env=environment, start_new_session=True) as machine:  # noqa: S603
        try:
            machine.wait()
        finally:
            if machine.poll() is None:
                os.killpg(machine.pid, signal.SIGKILL)
    status = folder / "status"
    return int(status.read_text()) if status.exists() else 1
