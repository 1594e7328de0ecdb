"""A Slurm of one node for a test: munged, slurmctld and slurmd with own keys, ports and state.

While it serves, ``SLURM_CONF`` tells Slurm's commands of it. Root is needed: slurmd starts jobs for
users.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import loopback_sshd

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
_READY_SECONDS = 60.0
_CONFIG = """ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={folder}/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MinJobAge=300
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP
"""


def missing() -> list[str]:
    """What it needs and this machine has not."""
    lacks = [name for name in PROGRAMS if not _program(name)]
    return lacks + (["root"] if os.geteuid() else [])


def _program(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


@contextlib.contextmanager
def serving() -> Iterator[None]:
    """While the block lasts."""
    host = os.uname().nodename.split(".")[0]
    with tempfile.TemporaryDirectory(prefix="slurm", dir="/tmp") as name:
        folder = Path(name)
        for one in ("state", "spool"):
            (folder / one).mkdir()
        key = folder / "key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o600)
        config = folder / "slurm.conf"
        ports = {"controller": loopback_sshd.free_port(), "daemon": loopback_sshd.free_port()}
        told = {"folder": folder, "host": host, "cpus": os.cpu_count(), **ports}
        config.write_text(_CONFIG.format(**told))
        munge = ["--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge"]
        munge += [f"--{one}={folder}/munged.{one}" for one in ("pid-file", "log-file", "seed-file")]
        commands = (
            ["munged", *munge],
            ["slurmctld", "-D", "-c", "-f", str(config)],
            ["slurmd", "-D", "-f", str(config), "-N", host],
        )
        begun: list[subprocess.Popen[bytes]] = []
        try:
            for command in commands:
                argv = [str(_program(command[0])), *command[1:]]
                log = (folder / f"{command[0]}.log").open("wb")
                begun.append(subprocess.Popen(argv, stdout=log, stderr=log))
            os.environ["SLURM_CONF"] = str(config)
            _idle(folder)
            yield
        finally:
            os.environ.pop("SLURM_CONF", None)
            for child in reversed(begun):
                child.terminate()
                child.wait()


def _idle(folder: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    asked = ["sinfo", "--noheader", "--format=%t"]
    while told(*asked).strip() != "idle":
        if time.monotonic() > deadline:
            logs = "".join(one.read_text() for one in folder.glob("*.log"))
            raise SystemExit(f"the node of Slurm is not idle: {logs[-2000:]}")
        time.sleep(0.2)


def told(*argv: str) -> str:
    """What one of its commands says."""
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(argv, **piped, text=True, check=False).stdout
