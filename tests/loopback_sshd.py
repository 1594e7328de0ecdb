"""An sshd of a test's own on loopback: own keys, own port, own environment of its sessions."""

from __future__ import annotations

import contextlib
import getpass
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_START_SECONDS = 20.0
# Where Debian and Enterprise Linux have it; an ordinary user's PATH does not.
_PLACES = ("/usr/sbin/sshd", "/usr/local/sbin/sshd")
_CONFIG = """ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
PidFile {folder}/pid
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
SetEnv {environment}
"""


def program() -> str | None:
    """The path of sshd, where there is one."""
    return next((place for place in _PLACES if Path(place).exists()), shutil.which("sshd"))


@contextlib.contextmanager
def serving(environment: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Serve while the block lasts; yields Ansible's variables of a node that is this machine."""
    # Short: the path of a kept connection's socket has at most 108 bytes.
    with tempfile.TemporaryDirectory(prefix="sshd", dir="/tmp") as name:
        folder = Path(name)
        for key in ("host", "user"):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(argv, check=True)
        port = free_port()
        setting = " ".join(f"{one}={value}" for one, value in environment.items())
        (folder / "config").write_text(
            _CONFIG.format(folder=folder, port=port, environment=setting)
        )
        public = (folder / "host.pub").read_text()
        (folder / "known").write_text(f"[127.0.0.1]:{port} {public}")
        # As its service does.
        with contextlib.suppress(PermissionError):
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        sshd = subprocess.Popen(
            [str(program()), "-D", "-f", str(folder / "config"), "-E", str(folder / "log")]
        )
        try:
            _answering(port, folder / "log")
            yield {
                "ansible_connection": "ssh",
                "ansible_host": "127.0.0.1",
                "ansible_port": port,
                "ansible_user": getpass.getuser(),
                "ansible_ssh_private_key_file": str(folder / "user"),
                "ansible_ssh_common_args": f"-F none -o UserKnownHostsFile={folder}/known",
                "ansible_control_path_dir": str(folder / "cp"),
            }
        finally:
            for kept in (folder / "cp").glob("*"):
                argv = ["ssh", "-O", "exit", "-o", f"ControlPath={kept}", "127.0.0.1"]
                subprocess.run(argv, check=False, capture_output=True)
            sshd.terminate()
            sshd.wait()


def _answering(port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    with socket.socket() as asked:
        while asked.connect_ex(("127.0.0.1", port)) != 0:
            if time.monotonic() > deadline:
                raise SystemExit(f"sshd does not answer: {log.read_text()}")
            time.sleep(0.05)
