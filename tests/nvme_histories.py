"""Random histories of NVMe disks against the scratch program, in the emulated machine.

    python tests/nvme_histories.py [--count N] [--seed S] [--seconds T]

It starts a machine of its own with three disks, gives it the room scratch and
molecule/vm/histories.py, and ends it. The exit status is that of histories.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "molecule" / "_shared" / "vm"))
import vm  # noqa: E402

SENT = ("__init__", "states", "reading", "program")


def ssh(folder: Path, command: str, text: str = "") -> int:
    """Run a command in the machine, with a text as its input."""
    argv = ["ssh", "-F", "none", "-i", str(folder / "key"), "-p", (folder / "port").read_text()]
    argv += ["-o", f"UserKnownHostsFile={folder / 'known_hosts'}", "-o", "BatchMode=yes"]
    # A busy machine is not away: histories print nothing while all is well.
    argv += ["-o", "ServerAliveInterval=60", "-o", "ServerAliveCountMax=30"]
    return subprocess.run(
        [*argv, f"{vm.USER}@127.0.0.1", command], input=text, text=True, check=False
    ).returncode


def main() -> int:
    """The command line."""
    cache = Path(os.environ.get("TRUEUP_CACHE") or Path.home() / ".cache" / "trueup")
    image = vm.make_image(cache)
    with tempfile.TemporaryDirectory(prefix="trueup-histories-") as name:
        folder = Path(name, "vm")
        try:
            vm.start(folder, image, disks=3, size="1G")
            files = {
                f"trueup_scratch/{one}.py": f"module_utils/trueup/node/scratch/{one}.py"
                for one in SENT
            }
            files["histories.py"] = "molecule/vm/histories.py"
            for path, source in files.items():
                write = f"mkdir -p histories/trueup_scratch && cat > histories/{path}"
                if ssh(folder, write, (ROOT / source).read_text()):
                    sys.exit(f"{path} could not be sent to the machine")
            words = " ".join(sys.argv[1:])
            return ssh(folder, f"sudo python3 histories/histories.py histories {words}")
        finally:
            vm.stop(folder)


if __name__ == "__main__":
    sys.exit(main())
