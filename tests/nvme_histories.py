"""Random histories of local disks against the scratch program, in a machine of its own.

    python tests/nvme_histories.py [--machine uml|qemu] [--count N] [--seed S] [--seconds T]

It starts a machine with three disks, gives it the room scratch and molecule/vm/histories.py, and
ends it: user-mode Linux with SCSI disks, which is fast, or the emulated machine with NVMe disks on
its PCI bus. The exit status is that of histories.py.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "molecule" / "_shared" / "vm"))
import uml  # noqa: E402
import vm  # noqa: E402

SENT = ("__init__", "states", "reading", "program")


def fill(job: Path) -> None:
    """Put what a machine needs into a folder."""
    (job / "trueup_scratch").mkdir(parents=True)
    for one in SENT:
        shutil.copy(
            ROOT / f"module_utils/trueup_node/node/scratch/{one}.py", job / "trueup_scratch"
        )
    shutil.copy(ROOT / "molecule/vm/histories.py", job)


def ssh(folder: Path, command: str, data: bytes = b"") -> int:
    """Run a command in the machine, with these bytes as its input."""
    argv = ["ssh", "-F", "none", "-i", str(folder / "key"), "-p", (folder / "port").read_text()]
    argv += ["-o", f"UserKnownHostsFile={folder / 'known_hosts'}", "-o", "BatchMode=yes"]
    # A busy machine is not away: histories print nothing while all is well.
    argv += ["-o", "ServerAliveInterval=60", "-o", "ServerAliveCountMax=30"]
    return subprocess.run(
        [*argv, f"{vm.USER}@127.0.0.1", command], input=data, check=False
    ).returncode


def emulated(cache: Path, folder: Path, words: str) -> int:
    """Over NVMe disks, in the machine of QEMU."""
    machine = folder / "vm"
    try:
        vm.start(machine, vm.make_image(cache), disks=3, size="1G")
        tar = subprocess.run(["tar", "-cC", folder, "job"], check=True, capture_output=True).stdout
        if ssh(machine, "tar -x", tar):
            sys.exit("the program could not be sent to the machine")
        return ssh(machine, f"sudo python3 job/histories.py job {words}")
    finally:
        vm.stop(machine)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--machine", choices=("uml", "qemu"), default="uml")
    given, others = parser.parse_known_args()
    cache = Path(os.environ.get("TRUEUP_CACHE") or Path.home() / ".cache" / "trueup")
    words = shlex.join(others)
    with tempfile.TemporaryDirectory(prefix="trueup-histories-") as name:
        folder = Path(name)
        fill(folder / "job")
        if given.machine == "qemu":
            return emulated(cache, folder, words)
        start = f"python3 histories.py . --disks scsi {words}\n"
        (folder / "job/start").write_text(start)
        return uml.run(uml.make_image(cache), folder)


if __name__ == "__main__":
    sys.exit(main())
