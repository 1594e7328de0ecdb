"""What hpc_limits puts in force: read, compared and written in a made-up /proc and /sys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import limits_in_force
import pytest
from helpers import answer_of
from trueup_node.node import limits


class Commands:
    """Answers by the first word of a command; what was run is kept."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers
        self.ran: list[tuple[str, ...]] = []

    def __call__(self, *argv: str) -> str:
        self.ran.append(argv)
        return self.answers.get(argv[0], "")


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_logins_soft_and_hard_limits_are_asked_through_pam() -> None:
    run = Commands(su="unlimited\nunlimited\n8192\nunlimited\n")
    found = limits.read_login(run, ["memlock", "stack"])
    assert found == {"memlock": "unlimited", "stack": "8192 (hard: unlimited)"}
    asked = "ulimit -Sl; ulimit -Hl; ulimit -Ss; ulimit -Hs"
    assert run.ran == [("su", "-s", "/bin/bash", "nobody", "-c", asked)]


def test_a_login_that_fails_is_a_difference(tmp_path: Path) -> None:
    found = limits.compare({"login": {"nofile": "1048576"}}, Commands(su=""), str(tmp_path))
    assert found == {"login nofile": ("1048576", "nothing")}


def test_systemds_own_word_for_no_limit_is_infinity() -> None:
    run = Commands(
        systemctl="DefaultLimitMEMLOCK=18446744073709551615\nDefaultLimitNOFILE=524288\n"
    )
    found = limits.read_manager(run, ["DefaultLimitMEMLOCK", "DefaultLimitNOFILE"])
    assert found == {"DefaultLimitMEMLOCK": "infinity", "DefaultLimitNOFILE": "524288"}


def test_sunrpc_counts_only_where_it_is_loaded(tmp_path: Path) -> None:
    wanted = {"sunrpc_tcp_slots": 128}
    assert limits.compare(wanted, Commands(), str(tmp_path)) == {}
    write(tmp_path, "proc/sys/sunrpc/tcp_slot_table_entries", "2\n")
    found = limits.compare(wanted, Commands(), str(tmp_path))
    assert found == {"sysctl sunrpc.tcp_slot_table_entries": ("128", "2")}


def test_huge_pages_are_the_word_in_brackets(tmp_path: Path) -> None:
    name = "sys/kernel/mm/transparent_hugepage/enabled"
    path = write(tmp_path, name, "always [madvise] never\n")
    found = limits.compare({"transparent_hugepages": "always"}, Commands(), str(tmp_path))
    assert found == {"transparent huge pages": ("always", "madvise")}
    limits.enforce(found, Commands(), str(tmp_path))
    assert path.read_text() == "always\n"


def test_each_nfs_mounts_read_ahead_is_compared(tmp_path: Path) -> None:
    # Synthetic; the columns are those of fs/nfs/client.c.
    volumes = (
        "NV SERVER   PORT DEV          FSID                              FSC\n"
        "v4 0a000004  801 0:51         0:0                               no \n"
        "v4 0a000004  801 0:52         0:0                               no \n"
    )
    write(tmp_path, "proc/fs/nfsfs/volumes", volumes)
    write(tmp_path, "sys/class/bdi/0:51/read_ahead_kb", "15380\n")
    changed = write(tmp_path, "sys/class/bdi/0:52/read_ahead_kb", "128\n")
    found = limits.compare({"nfs_read_ahead_kib": 15380}, Commands(), str(tmp_path))
    assert found == {"NFS read-ahead 0:52": ("15380", "128")}
    limits.enforce(found, Commands(), str(tmp_path))
    assert changed.read_text() == "15380\n"


UNITS = """\
Id=ufw.service
LoadState=loaded
ActiveState=active
UnitFileState=enabled

Id=apt-daily.timer
LoadState=loaded
ActiveState=inactive
UnitFileState=enabled

Id=cups.service
LoadState=not-found
ActiveState=inactive
UnitFileState=

Id=firewalld.service
LoadState=masked
ActiveState=inactive
UnitFileState=masked

Id=bluetooth.service
LoadState=loaded
ActiveState=inactive
UnitFileState=disabled
"""


def test_only_units_that_run_or_start_at_boot_are_on() -> None:
    assert limits.services_on(Commands(systemctl=UNITS), ["any"]) == [
        "apt-daily.timer",
        "ufw.service",
    ]
    run = Commands()
    assert limits.services_on(run, []) == []
    assert run.ran == []


def test_systemd_is_executed_again_only_for_its_own_limits(tmp_path: Path) -> None:
    run = Commands()
    limits.enforce({"login nofile": ("2", "1")}, run, str(tmp_path))
    assert ("systemctl", "daemon-reexec") not in run.ran
    limits.enforce({"systemd DefaultLimitNOFILE": ("2", "1")}, run, str(tmp_path))
    assert ("systemctl", "daemon-reexec") in run.ran


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (complaint,) = limits.enforce({"sysctl vm.x": ("1", "0")}, Commands(), str(tmp_path))
    assert str(tmp_path / "proc/sys/vm/x") in complaint


# ---- the module ---------------------------------------------------------------------------------


def answer(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    results: list[dict[str, Any]],
    *,
    check: bool = False,
) -> dict[str, Any]:
    monkeypatch.setattr(limits_in_force.limits, "compare", lambda *_: results.pop(0))
    monkeypatch.setattr(limits_in_force.limits, "enforce", lambda *_: ["/proc/x: Read-only."])
    warned: list[str] = []
    monkeypatch.setattr(limits_in_force.AnsibleModule, "warn", lambda _, text: warned.append(text))
    arguments = {"wanted": {}, "_ansible_check_mode": check, "_ansible_diff": True}
    return {**answer_of(limits_in_force, capsys, **arguments), "warned": warned}


WRONG = {"sysctl vm.x": ("1", "0")}


def test_what_could_not_be_put_in_force_is_said_with_both_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = answer(monkeypatch, capsys, [WRONG, WRONG])
    assert said["changed"]
    assert said["differs"] == ["sysctl vm.x: expected 1, found 0."]
    assert said["services_on"] == []
    assert said["warned"] == ["/proc/x: Read-only."]
    assert said["diff"] == {"before": "sysctl vm.x: 0\n", "after": "sysctl vm.x: 1\n"}


def test_checking_changes_nothing_and_says_what_would_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = answer(monkeypatch, capsys, [WRONG], check=True)
    assert (said["changed"], len(said["differs"])) == (True, 1)


def test_a_real_kernel_setting_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {"sysctl": {"kernel.ostype": "Linux", "kernel.no_such": 1}}
    said = answer_of(limits_in_force, capsys, wanted=wanted, _ansible_check_mode=True)
    assert said["differs"] == ["sysctl kernel.no_such: expected 1, found no such setting."]
