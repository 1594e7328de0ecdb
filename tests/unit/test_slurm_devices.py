"""slurmd of a node with GPUs starts once their device files are there."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from slurm_hosts import HOSTS, contents, host, on, values

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "roles" / "slurm" / "files" / "devices.sh"
INSTALLED = "/usr/local/libexec/trueup/slurm_devices"
DROP_IN = "/etc/systemd/system/slurmd.service.d/trueup.conf"
# A driver that needs two calls, as where GPUs come late; each call is noted.
DRIVER = """#!/bin/sh
echo "$*" >> {folder}/calls
[ "$(wc -l < {folder}/calls)" -ge {calls} ] && ln -sf /dev/null {folder}/nvidia1
exit 9
"""
HANGING = """#!/bin/sh
echo "$$" >> {folder}/calls
exec sleep 600
"""


@pytest.mark.parametrize("nvml", [False, True])
def test_the_drop_in_of_a_node_with_gpus(nvml: bool) -> None:
    hosts = {**HOSTS, "nd": host("compute", on("ndv4"), hostname="nd", nvml=nvml)}
    files = contents(values("nd", hosts))
    lines = (files[DROP_IN] or "").splitlines()
    devices = " ".join(f"/dev/nvidia{number}" for number in range(8))
    assert lines[1:4] == [
        "[Unit]",
        "After=nvidia-persistenced.service nvidia-fabricmanager.service",
        "StartLimitIntervalSec=0",
    ]
    service = lines[lines.index("[Service]") :]
    assert f"ExecStartPre={INSTALLED} 120 {devices}" in service
    assert {"TimeoutStartSec=210", "Restart=on-failure", "RestartSec=10"} <= set(service)
    assert files[INSTALLED] == PROGRAM.read_text(encoding="utf-8")
    assert DROP_IN in values("nd", hosts)["read"]["slurmd"]


def command_of(pid: str) -> bytes:
    """The command line of a process; empty once it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def run(folder: Path, limit: int, driver: str = "") -> tuple[int, str, float, list[str]]:
    """Exit status, complaint, seconds, and the calls of nvidia-smi, for two devices of which the
    first is there."""
    (folder / "nvidia0").symlink_to("/dev/null")
    calls = folder / "calls"
    calls.touch()
    text = PROGRAM.read_text(encoding="utf-8")
    program = folder / "program"
    # The stand-in of nvidia-smi is the first of the PATH that the program sets.
    program.write_text(text.replace("export PATH=", f"export PATH={folder}:"))
    if driver:
        (folder / "nvidia-smi").write_text(driver)
        (folder / "nvidia-smi").chmod(0o755)
    begun = time.monotonic()
    done = subprocess.run(
        ["sh", str(program), str(limit), str(folder / "nvidia0"), str(folder / "nvidia1")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr, time.monotonic() - begun, calls.read_text().splitlines()


def test_nothing_is_asked_where_all_devices_are_there(tmp_path: Path) -> None:
    (tmp_path / "nvidia1").symlink_to("/dev/null")
    status, complaint, seconds, calls = run(tmp_path, 30, DRIVER.format(folder=tmp_path, calls=1))
    assert (status, complaint, calls) == (0, "", [])
    assert seconds < 20


def test_it_waits_for_devices_that_come_late(tmp_path: Path) -> None:
    status, complaint, _, calls = run(tmp_path, 30, DRIVER.format(folder=tmp_path, calls=2))
    assert (status, complaint, calls) == (0, "", ["-L", "-L"])


def test_it_ends_with_a_sentence_that_names_the_device(tmp_path: Path) -> None:
    # A plain file of that name is no device.
    (tmp_path / "nvidia1").touch()
    status, complaint, seconds, _ = run(tmp_path, 2)
    assert status == 1
    assert complaint.startswith(
        f"slurmd is not started: no device {tmp_path}/nvidia1 after 2 s, which gres.conf needs."
    )
    assert len(complaint.splitlines()) == 1
    assert 1.9 < seconds < 20


def test_a_driver_that_hangs_is_asked_once_and_left_behind_by_nobody(tmp_path: Path) -> None:
    status, _, seconds, calls = run(tmp_path, 3, HANGING.format(folder=tmp_path))
    assert (status, len(calls)) == (1, 1)
    assert seconds < 20
    # Killed, which takes the kernel a moment; a process that nobody has waited for has no command.
    end = time.monotonic() + 10
    while (command := command_of(calls[0])) and time.monotonic() < end:
        time.sleep(0.05)
    assert command == b""
