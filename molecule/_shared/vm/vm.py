"""Virtual machines for the scenarios: a cached image made from packages, and QEMU without KVM.

    vm.py image CACHE              makes the image unless it is there, and prints its folder
    vm.py start FOLDER [options]   starts the machine of that folder; makes its disks where missing
    vm.py stop FOLDER              ends it at once, like a power cut
    vm.py wait-off FOLDER          waits until it has switched itself off
    vm.py wipe FOLDER              makes its local disks anew, as Azure does after a deallocation

A machine is 4 CPUs in 4 NUMA nodes, NVMe disks beside a boot disk that is none, and two network
cards: one with ssh forwarded from a port of the loopback interface, and eth1, which leads nowhere
(for soft-RoCE) or to other machines: each --listen makes a socket for one that is started with
--connect and that path. It runs on TCG, since a build machine has no KVM: one kind of result
everywhere.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import lzma
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SUITE = "bookworm"
PACKAGES = (
    "dbus",
    "fio",
    "ibverbs-utils",
    "infiniband-diags",
    "initramfs-tools",
    "iproute2",
    "kmod",
    "libpam-systemd",
    # The generic kernel: the cloud kernel has no soft-RoCE.
    "linux-image-amd64",
    "mdadm",
    "nfs-common",
    "nfs-kernel-server",
    "numactl",
    "nvme-cli",
    "openssh-server",
    "perftest",
    "procps",
    "python3",
    "rdma-core",
    "sudo",
    "systemd",
    "systemd-sysv",
    "udev",
    "util-linux",
    "xfsprogs",
)
USER = "hpc"
# An initrd of only what finds the root disk boots faster where each instruction is emulated.
BEFORE_INSTALLATION = """\
mkdir -p "$1/etc/initramfs-tools/conf.d"
printf 'MODULES=list\\nCOMPRESS=lz4\\n' > "$1/etc/initramfs-tools/conf.d/trueup.conf"
printf 'virtio_pci\\nvirtio_blk\\next4\\n' > "$1/etc/initramfs-tools/modules"
"""
# update-initramfs takes more than six minutes in an emulated machine, so there it does nothing.
# tmpfiles fills the keys' file from what the machine is started with.
AFTER_INSTALLATION = f"""\
chroot "$1" useradd --create-home --shell /bin/bash {USER}
echo '{USER} ALL=(ALL) NOPASSWD: ALL' > "$1/etc/sudoers.d/{USER}"
chroot "$1" dpkg-divert --quiet --local --rename --add /usr/sbin/update-initramfs
ln -s /bin/true "$1/usr/sbin/update-initramfs"
echo 'AuthorizedKeysFile /etc/ssh/authorized_keys' > "$1/etc/ssh/sshd_config.d/trueup.conf"
echo 'UseDNS no' >> "$1/etc/ssh/sshd_config.d/trueup.conf"
printf '[Match]\\nName=eth0\\n[Network]\\nDHCP=ipv4\\nIPv6AcceptRA=no\\n' \
  > "$1/etc/systemd/network/eth0.network"
printf '[Match]\\nName=eth1\\n[Network]\\nAddress=10.44.0.1/24\\n' \
  > "$1/etc/systemd/network/eth1.network"
chroot "$1" systemctl --quiet enable systemd-networkd.service
chroot "$1" systemctl --quiet mask systemd-networkd-wait-online.service \
  nvmf-autoconnect.service e2scrub_all.timer e2scrub_reap.service fstrim.timer dpkg-db-backup.timer
# The role nfs_server starts it.
chroot "$1" systemctl --quiet disable nfs-server.service
# Beside other work a boot takes minutes: devices and services come after systemd's 90 s.
mkdir -p "$1/etc/systemd/system.conf.d"
printf '[Manager]\\nDefaultTimeoutStartSec=600\\nDefaultDeviceTimeoutSec=600\\n' \
  > "$1/etc/systemd/system.conf.d/trueup.conf"
# This one says 90 s itself.
mkdir -p "$1/etc/systemd/system/systemd-modules-load.service.d"
printf '[Service]\\nTimeoutSec=600\\n' \
  > "$1/etc/systemd/system/systemd-modules-load.service.d/trueup.conf"
echo trueup-vm > "$1/etc/hostname"
echo '127.0.0.1 localhost trueup-vm' > "$1/etc/hosts"
echo '/dev/vda / ext4 noatime,errors=remount-ro 0 1' > "$1/etc/fstab"
rm -rf "$1"/var/cache/apt/*.bin "$1"/var/lib/apt/lists/*
"""
# Most of a task's time there is the compiling of Ansible's modules.
WARM = Path(__file__).parents[1] / "warm" / "sitecustomize.py"
KEEP_COMPILED = 'install --directory --mode=1777 "$1/var/cache/trueup-warm"'
KERNEL = "vmlinux"
LEAVE_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
ROOT_SIZE = "3G"
# 20 s where nothing else runs; 190 s were seen beside five other builds on two cores.
STARTED_WITHIN_SECONDS = 1200


def run(*argv: str) -> None:
    """Run a command; its failure ends this program."""
    subprocess.run(argv, check=True, stdout=sys.stderr, stdin=subprocess.DEVNULL)  # noqa: S603 (argv)


def kept_image(
    cache: Path, kind: str, inputs: Sequence[str], size: str, fill: Callable[[Path, Path], None]
) -> Path:
    """The folder of an image that these inputs make; complete if it exists.

    Args:
        fill: is given the folder, for what is beside root.img, and the root file system's own.
    """
    folder = cache / f"{kind}-{hashlib.sha256(repr(inputs).encode()).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{kind}-", suffix=".part", dir=cache))
    try:
        root = part / "root"
        fill(part, root)
        run("mkfs.ext4", "-q", "-d", str(root), str(part / "root.img"), size)
        shutil.rmtree(root)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def bootstrap(root: Path, packages: Sequence[str], *options: str) -> None:
    """A file system with these packages of Debian."""
    mirror = os.environ.get("TRUEUP_DEBIAN_MIRROR", "")
    run(
        *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}"),
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in LEAVE_OUT),
        *options,
        *(SUITE, str(root), *([mirror] if mirror else [])),
    )


def make_image(cache: Path) -> Path:
    """The folder of the image that the constants above describe."""
    inputs = (SUITE, *PACKAGES, BEFORE_INSTALLATION, AFTER_INSTALLATION, *LEAVE_OUT, ROOT_SIZE)
    inputs += (WARM.read_text(encoding="utf-8"), KEEP_COMPILED, KERNEL)
    return kept_image(cache, "vm", inputs, ROOT_SIZE, _fill)


def _fill(part: Path, root: Path) -> None:
    bootstrap(
        root,
        PACKAGES,
        f"--essential-hook={BEFORE_INSTALLATION}",
        f"--customize-hook={AFTER_INSTALLATION}",
        f"--customize-hook=upload {shlex.quote(str(WARM))} /etc/python3.11/sitecustomize.py",
        f"--customize-hook={KEEP_COMPILED}",
    )
    (initrd,) = (root / "boot").glob("initrd.img-*")
    initrd.rename(part / "initrd.img")
    (kernel,) = (root / "boot").glob("vmlinuz-*")
    (part / KERNEL).write_bytes(unpacked(kernel.read_bytes()))
    shutil.copy(root / "etc/ssh/ssh_host_ed25519_key.pub", part / "host_key.pub")


def unpacked(kernel: bytes) -> bytes:
    """The kernel that Debian packs with xz behind a loader: an emulated processor unpacks for 8 s.

    Raises:
        ValueError: there is no ELF file in it.
    """
    start = kernel.find(b"\xfd7zXZ\0")
    whole = lzma.LZMADecompressor().decompress(kernel[start:]) if start >= 0 else b""
    if not whole.startswith(b"\x7fELF"):
        raise ValueError("the kernel is not packed with xz: QEMU needs vmlinux")
    return whole


def read_pid(folder: Path) -> int | None:
    """The process of the machine, or None when it does not run."""
    try:
        pid = int((folder / "pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    # The number may have gone to another process since.
    return pid if str(folder / "pid").encode() in command.split(b"\0") else None


def make_disks(folder: Path, *, size: str, count: int) -> list[Path]:
    """Empty disks where there are none yet."""
    paths = [folder / f"nvme{number}.img" for number in range(count)]
    for path in paths:
        if not path.exists():
            run("truncate", "--size", size, str(path))
    return paths


def network(folder: Path, *, listen: Sequence[Path], connect: Path | None) -> list[str]:
    """Options for eth1: a hub of the machine's own, and a cable from it to each other machine."""
    ends = [("on", path) for path in listen] + ([("off", connect)] if connect else [])
    # On one network no two machines may have QEMU's own address.
    digits = hashlib.sha256(str(folder).encode()).hexdigest()
    mac = ":".join(["52:54:00", digits[:2], digits[2:4], digits[4:6]])
    argv = ["-netdev", "hubport,id=n1,hubid=1", "-device", f"virtio-net-pci,netdev=n1,mac={mac}"]
    for number, (server, path) in enumerate(ends):
        cable = f"stream,id=c{number},server={server},addr.type=unix,addr.path={path.absolute()}"
        argv += ["-netdev", cable, "-netdev", f"hubport,id=h{number},hubid=1,netdev=c{number}"]
    return argv


def start(
    folder: Path,
    image: Path | None,
    *,
    disks: int,
    size: str,
    memory: int = 2048,
    listen: Sequence[Path] = (),
    connect: Path | None = None,
) -> None:
    """Start the machine and wait until ssh answers. It remembers which image it is of."""
    if read_pid(folder):
        return
    folder.mkdir(parents=True, exist_ok=True)
    if image:
        (folder / "image").write_text(str(image.absolute()))
    image = Path((folder / "image").read_text())
    key, root = folder / "key", folder / "root.img"
    if not key.exists():
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "trueup-vm", "-f", str(key))
    if not root.exists():
        run("cp", "--sparse=always", str(image / "root.img"), str(root))
    port_file = folder / "port"
    if not port_file.exists():
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port_file.write_text(str(free.getsockname()[1]))
    port = int(port_file.read_text())
    kind, host_key = (image / "host_key.pub").read_text().split()[:2]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {kind} {host_key}\n")
    entry = f"f /etc/ssh/authorized_keys 0644 root root - {Path(f'{key}.pub').read_text().strip()}"
    credential = base64.b64encode(entry.encode()).decode()
    # One thread for all CPUs: with one each, a boot was seen to lock up on the second CPU. Ansible
    # keeps only one of them busy anyway.
    # It goes before other work, as far as it may: of a machine that waits for its host the kernel
    # reports lock-ups, and services at boot time out.
    argv = ["nice", "-n", "-10", "qemu-system-x86_64", "-name", folder.name]
    # What no scenario looks at is not there: at each boot its drivers would be loaded.
    argv += ["-M", "q35,sata=off,smbus=off,i8042=off,vmport=off", "-vga", "none"]
    argv += ["-parallel", "none"]
    # What it has translated is memory too: QEMU's own limit is 1 GiB, however small the machine.
    argv += ["-accel", f"tcg,thread=single,tb-size={memory // 2}"]
    # Wider registers than SSE's are emulated slowly, and the C library would use them.
    argv += ["-cpu", "Nehalem", "-m", f"{memory // 4 * 4}M", "-smp", "4,sockets=4"]
    for node in range(4):
        argv += ["-object", f"memory-backend-ram,id=m{node},size={memory // 4}M"]
        argv += ["-numa", f"node,nodeid={node},cpus={node},memdev=m{node}"]
    argv += ["-kernel", str(image / KERNEL), "-initrd", str(image / "initrd.img")]
    # What hardens a real processor costs an emulated one a fifth to a third of each task, and QEMU
    # finds what it has translated sooner where each process has it at the same addresses. networkd
    # asks for cfg80211, which tests its ciphers.
    options = "quiet mitigations=off norandmaps modprobe.blacklist=cfg80211,iTCO_wdt,pcspkr"
    argv += ["-append", f"root=/dev/vda ro console=ttyS0 net.ifnames=0 {options}"]
    argv += ["-smbios", f"type=11,value=io.systemd.credential.binary:tmpfiles.extra={credential}"]
    argv += ["-drive", f"file={root},format=raw,if=none,id=root,cache=unsafe"]
    argv += ["-device", "virtio-blk-pci,drive=root"]
    argv += ["-netdev", f"user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"]
    argv += ["-device", "virtio-net-pci,netdev=n0"]
    argv += [*network(folder, listen=listen, connect=connect), "-device", "virtio-rng-pci"]
    for number, path in enumerate(make_disks(folder, size=size, count=disks)):
        argv += [
            "-drive",
            f"file={path},format=raw,if=none,id=d{number},cache=unsafe,discard=unmap",
        ]
        argv += ["-device", f"nvme,serial=trueup{number},drive=d{number}"]
    argv += ["-display", "none", "-serial", f"file:{folder / 'console.log'}", "-monitor", "none"]
    argv += ["-daemonize", "-pidfile", str(folder / "pid")]
    (folder / "command").write_text(shlex.join(argv) + "\n")
    run(*argv)
    wait_for_ssh(folder)


def wait_for_ssh(folder: Path) -> None:
    """Wait until a command runs in the machine."""
    deadline = time.monotonic() + STARTED_WITHIN_SECONDS
    argv = ["ssh", "-F", "none", "-i", str(folder / "key"), "-p", (folder / "port").read_text()]
    argv += ["-o", f"UserKnownHostsFile={folder / 'known_hosts'}", "-o", "BatchMode=yes"]
    argv += ["-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=60", f"{USER}@127.0.0.1"]
    while time.monotonic() < deadline:
        answer = subprocess.run(  # noqa: S603 (argv)
            [*argv, "true"], check=False, capture_output=True, stdin=subprocess.DEVNULL
        )
        if answer.returncode == 0:
            return
        if read_pid(folder) is None:
            break
        time.sleep(1)
    console = (folder / "console.log").read_text(errors="replace").splitlines()[-30:]
    sys.exit("\n".join([*console, f"{folder.name}: no ssh in {STARTED_WITHIN_SECONDS} s"]))


def stop(folder: Path) -> None:
    """End the machine's process."""
    pid = read_pid(folder)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        wait_off(folder)


def wait_off(folder: Path) -> None:
    """Wait until the machine's process has ended."""
    deadline = time.monotonic() + STARTED_WITHIN_SECONDS
    while read_pid(folder) is not None:
        if time.monotonic() > deadline:
            sys.exit(f"{folder.name}: still on after {STARTED_WITHIN_SECONDS} s")
        time.sleep(0.5)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["image", "start", "stop", "wait-off", "wipe"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--image", type=Path, help="the image's folder, at the first start")
    parser.add_argument("--disks", type=int, default=8, help="number of NVMe disks")
    parser.add_argument("--size", default="1G", help="size of a disk")
    parser.add_argument("--memory", type=int, default=2048, help="MiB of memory")
    parser.add_argument(
        "--listen", type=Path, action="append", default=[], help="socket for another machine's eth1"
    )
    parser.add_argument("--connect", type=Path, help="another machine's socket, for eth1")
    options = parser.parse_args()
    folder = options.folder.absolute()
    if options.verb == "image":
        sys.stdout.write(f"{make_image(folder)}\n")
    elif options.verb == "start":
        start(
            folder,
            options.image,
            disks=options.disks,
            size=options.size,
            memory=options.memory,
            listen=options.listen,
            connect=options.connect,
        )
    elif options.verb == "stop":
        stop(folder)
    elif options.verb == "wait-off":
        wait_off(folder)
    else:
        if read_pid(folder):
            sys.exit(f"{folder.name} is on: its disks stay as they are")
        for path in folder.glob("nvme*.img"):
            path.unlink()


if __name__ == "__main__":
    main()
