"""What hpc_limits puts in force: read, compared and written in a made-up /proc and /sys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import helpers
import pytest

ROOT = Path(__file__).parents[2]


program = helpers.program("roles/hpc_limits/files/enforce.py")


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
    found = program.read_login(run, ["memlock", "stack"])
    assert found == {"memlock": "unlimited", "stack": "8192 (hard: unlimited)"}
    asked = "ulimit -Sl; ulimit -Hl; ulimit -Ss; ulimit -Hs"
    assert run.ran == [("su", "-s", "/bin/bash", "nobody", "-c", asked)]


def test_a_login_that_fails_is_a_difference(tmp_path: Path) -> None:
    found = program.compare({"login": {"nofile": "1048576"}}, Commands(su=""), str(tmp_path))
    assert found == {"login nofile": ("1048576", "nothing")}


def test_systemds_own_word_for_no_limit_is_infinity() -> None:
    run = Commands(
        systemctl="DefaultLimitMEMLOCK=18446744073709551615\nDefaultLimitNOFILE=524288\n"
    )
    found = program.read_manager(run, ["DefaultLimitMEMLOCK", "DefaultLimitNOFILE"])
    assert found == {"DefaultLimitMEMLOCK": "infinity", "DefaultLimitNOFILE": "524288"}


def test_kernel_settings_are_compared_and_written(tmp_path: Path) -> None:
    path = write(tmp_path, "proc/sys/vm/zone_reclaim_mode", "0\n")
    write(tmp_path, "proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")
    wanted = {"sysctl": {"vm.zone_reclaim_mode": 1, "net.ipv4.tcp_rmem": "4096 131072 6291456"}}
    found = program.compare(wanted, Commands(), str(tmp_path))
    assert found == {"sysctl vm.zone_reclaim_mode": ("1", "0")}
    program.enforce(found, Commands(), str(tmp_path))
    assert path.read_text() == "1\n"
    assert program.compare(wanted, Commands(), str(tmp_path)) == {}


def test_a_setting_that_the_kernel_does_not_have_is_a_difference(tmp_path: Path) -> None:
    found = program.compare({"sysctl": {"vm.no_such": 1}}, Commands(), str(tmp_path))
    assert found == {"sysctl vm.no_such": ("1", "no such setting")}


def test_a_dot_in_an_interfaces_name_is_a_slash() -> None:
    path = program.sysctl_path("/", "net.ipv4.conf.eth0/100.rp_filter")
    assert path == Path("/proc/sys/net/ipv4/conf/eth0.100/rp_filter")


def test_sunrpc_counts_only_where_it_is_loaded(tmp_path: Path) -> None:
    wanted = {"sunrpc_tcp_slots": 128}
    assert program.compare(wanted, Commands(), str(tmp_path)) == {}
    write(tmp_path, "proc/sys/sunrpc/tcp_slot_table_entries", "2\n")
    found = program.compare(wanted, Commands(), str(tmp_path))
    assert found == {"sysctl sunrpc.tcp_slot_table_entries": ("128", "2")}


def test_huge_pages_are_the_word_in_brackets(tmp_path: Path) -> None:
    name = "sys/kernel/mm/transparent_hugepage/enabled"
    path = write(tmp_path, name, "always [madvise] never\n")
    found = program.compare({"transparent_hugepages": "always"}, Commands(), str(tmp_path))
    assert found == {"transparent huge pages": ("always", "madvise")}
    program.enforce(found, Commands(), str(tmp_path))
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
    found = program.compare({"nfs_read_ahead_kib": 15380}, Commands(), str(tmp_path))
    assert found == {"NFS read-ahead 0:52": ("15380", "128")}
    program.enforce(found, Commands(), str(tmp_path))
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
    assert program.services_on(Commands(systemctl=UNITS), ["any"]) == [
        "apt-daily.timer",
        "ufw.service",
    ]
    run = Commands()
    assert program.services_on(run, []) == []
    assert run.ran == []


def test_systemd_is_executed_again_only_for_its_own_limits(tmp_path: Path) -> None:
    run = Commands()
    program.enforce({"login nofile": ("2", "1")}, run, str(tmp_path))
    assert ("systemctl", "daemon-reexec") not in run.ran
    program.enforce({"systemd DefaultLimitNOFILE": ("2", "1")}, run, str(tmp_path))
    assert ("systemctl", "daemon-reexec") in run.ran


def answer(monkeypatch: pytest.MonkeyPatch, results: list[dict[str, Any]], *options: str) -> None:
    monkeypatch.setattr(program, "compare", lambda *_: results.pop(0))
    monkeypatch.setattr(program, "run_command", Commands())
    monkeypatch.setattr(program, "enforce", lambda *_: None)
    assert program.main(["--wanted", "{}", *options]) == 0


def test_what_could_not_be_put_in_force_is_said_with_both_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {"sysctl vm.x": ("1", "0")}
    answer(monkeypatch, [wrong, wrong], "--apply")
    assert json.loads(capsys.readouterr().out) == {
        "changed": ["sysctl vm.x"],
        "differs": ["sysctl vm.x: expected 1, found 0."],
        "services_on": [],
    }


def test_checking_changes_nothing_and_says_what_would_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, [{"sysctl vm.x": ("1", "0")}])
    assert json.loads(capsys.readouterr().out)["changed"] == ["sysctl vm.x"]
