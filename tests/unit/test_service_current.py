"""What is in force, decided: a unit's run, its files, the record, and clocks. And the module, with
a simulated systemd."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import service_current
from ansible.module_utils import basic
from helpers import answer_of, parametrized
from trueup_node.errors import BadInput
from trueup_node.node import units
from trueup_node.node.units import (
    Decision,
    File,
    Record,
    Run,
    Step,
    TargetState,
    decide,
    record_after,
)

CONF, UNIT_FILE = "/etc/x.conf", "/etc/systemd/system/x.service"
RUN = Run("one", since=1000.0)
WANTED = TargetState(files=(CONF,))
OLD, NEW = File("a", 900.0), File("b", 1100.0)


def step(
    file: File, record: Record, run: Run = RUN, wanted: TargetState = WANTED, path: str = CONF
) -> Step:
    return decide(wanted, run, record, {path: file}).step


def recorded(sha: str, run: str = "one", **others: Any) -> Record:
    return Record(run, files={CONF: sha}, **others)


@pytest.mark.parametrize(
    ("record", "file", "expected"),
    [
        # The record is of this run: the content decides, whatever the clock says.
        (recorded("a"), OLD, Step.NONE),
        (recorded("a"), File("a", 1100.0), Step.NONE),
        (recorded("b"), NEW, Step.NONE),
        (recorded("a"), NEW, Step.RESTART),
        (recorded("a"), File("b", 900.0), Step.RESTART),
        (recorded("a"), File("b", -1e9), Step.RESTART),
        (recorded("a"), File(""), Step.RESTART),
        (recorded(""), NEW, Step.RESTART),
        (recorded("a", owed=True), OLD, Step.RESTART),
        # Of another run, or none: times decide.
        (Record(), OLD, Step.NONE),
        (Record(), NEW, Step.RESTART),
        (Record(), File(""), Step.NONE),
        (recorded("a", "zero"), File("b", 900.0), Step.NONE),
        (recorded("a", "zero", owed=True), OLD, Step.NONE),
        (recorded("a", "zero"), NEW, Step.RESTART),
        (recorded("b", "zero"), NEW, Step.RESTART),
        (recorded("a", "zero"), File(""), Step.RESTART),
        (recorded("", "zero"), File(""), Step.NONE),
    ],
)
def test_a_file_that_is_not_in_force_is_owed_a_restart(
    record: Record, file: File, expected: Step
) -> None:
    assert step(file, record) is expected


def test_an_inode_has_the_time_of_the_last_tick() -> None:
    """The kernel's clock of files is up to 10 ms behind: one that was written 2 ms after the start
    may seem 2 ms older than it."""
    assert [step(File("b", 1000.0 - late), Record()) for late in (0.002, 0.011)] == [
        Step.RESTART,
        Step.NONE,
    ]


@pytest.mark.parametrize(
    ("state", "active", "expected"),
    [
        ("started", False, Step.START),
        ("as_found", False, Step.NONE),
        ("stopped", False, Step.NONE),
        ("stopped", True, Step.STOP),
        ("as_found", True, Step.RESTART),
        ("started", True, Step.RESTART),
    ],
)
def test_a_unit_is_brought_to_its_state(state: str, active: bool, expected: Step) -> None:
    run = Run("one" if active else "", active=active, since=1000.0)
    assert step(NEW, recorded("a"), run, TargetState(state, (CONF,))) is expected


def test_what_systemd_has_not_read_is_not_in_force_after_a_start_of_its_own() -> None:
    """The unit's file was written, nobody reloaded systemd, and the unit died and was started by
    it: later than the file, and by the older one."""
    wanted = TargetState(files=(UNIT_FILE,))
    run = Run("two", since=1000.0, unread=True)
    known = Record("one", files={UNIT_FILE: "a"})
    assert step(File("b", 900.0), known, run, wanted, UNIT_FILE) is Step.RESTART
    # Another's drop-in is.
    assert step(File("a", 900.0), known, run, wanted, UNIT_FILE) is Step.NONE
    assert step(File("b", 900.0), recorded("a", "zero"), run) is Step.NONE


def test_files_of_two_roles_are_recorded_for_one_unit() -> None:
    """slurm writes slurm.conf, enroot_pyxis plugstack.conf: what one records takes nothing from the
    other."""
    record = Record("one", files={"/p": "p"}, reloaded={"/r": "r", CONF: "a"})
    files = {CONF: File("c", 900.0), "/p": File("p", 900.0), "/r": File("changed", 950.0)}
    after = record_after(WANTED, Step.NONE, RUN, record, files)
    assert after.files == {CONF: "c", "/p": "p"}
    # Whose command was not run.
    assert after.reloaded["/r"] == "r"
    # The other's file changed before a start that it did not see.
    started = Run("two", since=800.0)
    assert decide(WANTED, started, record, {**files, CONF: File("c", 700.0)}) == Decision(
        Step.RESTART, ("/p changed after the start",)
    )
    fresh = record_after(WANTED, Step.RESTART, started, record, files)
    assert (fresh.run, fresh.reloaded["/r"]) == ("two", "changed")


def test_a_file_that_is_gone_and_nobodys_is_forgotten() -> None:
    record = Record("one", files={"/p": "p", CONF: "a"})
    files = {CONF: File(""), "/p": File("")}
    assert record_after(WANTED, Step.RESTART, RUN, record, files).files == {CONF: ""}


def test_a_reload_is_owed_where_no_restart_is() -> None:
    wanted = TargetState(files=(CONF,), reloaded=("/r",))
    record = Record("one", files={CONF: "a"}, reloaded={"/r": "r"})
    files = {CONF: OLD, "/r": File("new", 900.0)}
    assert decide(wanted, RUN, record, files).step is Step.RELOAD
    assert decide(wanted, RUN, record, {**files, CONF: NEW}).step is Step.RESTART
    after = record_after(wanted, Step.RELOAD, RUN, record, files)
    assert decide(wanted, RUN, after, files).step is Step.NONE


def shown(second: str, uptime: float, **others: str) -> str:
    told = {
        "LoadState": "loaded",
        "ActiveState": "active",
        "InvocationID": "one",
        "InactiveExitTimestamp": second,
        "InactiveExitTimestampMonotonic": str(int(uptime * 1e6)),
        **others,
    }
    return "".join(f"{name}={value}\n" for name, value in told.items())


# 2026-11-23 12:00:00 UTC.
NOON = 1795435200.0


@parametrized(("now", "since"))
def test_a_clock_that_was_set_since_makes_a_start_no_later(now: float, since: float) -> None:
    text = shown("Mon 2026-11-23 12:00:00 UTC", 50.25)
    assert units.run_of(text, now=now, monotonic=150.0, boot="b").since == since


@pytest.mark.parametrize("text", ["", "n/a", "Mo 2026-11-23 12:00:00 CET"])
def test_a_time_that_is_not_understood_is_not_needed(text: str) -> None:
    run = units.run_of(shown(text, 50.0), now=NOON, monotonic=150.0, boot="b")
    assert run.since == NOON - 100


def test_a_run_is_named() -> None:
    text = shown("", 50.0, NeedDaemonReload="yes", MainPID="17")
    run = units.run_of(text, now=NOON, monotonic=150.0, boot="b")
    assert (run.name, run.active, run.unread, run.process) == ("one", True, True, 17)
    # A mount that systemd found has no invocation.
    found = units.run_of(shown("", 50.0, InvocationID=""), now=NOON, monotonic=150.0, boot="b")
    assert found.name == "b 50000000"
    for state, active in (("activating", True), ("deactivating", False), ("failed", False)):
        run = units.run_of(shown("", 50.0, ActiveState=state), now=NOON, monotonic=150.0, boot="b")
        assert (run.active, bool(run.name)) == (active, active)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}"),
        '{"run": 1, "owed": false, "files": {}, "reloaded": {}}',
        '{"run": "", "owed": false, "files": {"a": 1}, "reloaded": {}}',
    ],
)
def test_a_file_that_is_no_record_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"x\.json is no record \("):
        units.read(str(path))


def test_a_record_is_written_whole_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "units" / "x.json")
    assert units.read(path) == Record()
    units.write(path, recorded("a"))
    assert units.read(path) == recorded("a")
    modes = [os.stat(one).st_mode & 0o777 for one in (path, os.path.dirname(path))]
    assert modes == [0o600, 0o700]
    assert os.listdir(os.path.dirname(path)) == ["x.json"]


class Killed(BaseException):
    """The process is gone, as by SIGKILL."""


@dataclass
class Systemd:
    """One service, which reads its file when it starts; and commands that may be the last ones."""

    conf: Path
    at: float = 100.0
    load: str = "loaded"
    active: str = "inactive"
    starts: int = 0
    read: str = ""
    enabled: bool = False
    unread: bool = False
    commands: list[str] = field(default_factory=list)
    killed_after: int | None = None

    def run(self, argv: Sequence[str], **_: Any) -> tuple[int, str, str]:
        words = " ".join(argv).replace(" -- x.service", "").removeprefix("/bin/systemctl ")
        if words.startswith("show"):
            return 0, self.show(), ""
        if words == "is-enabled":
            return (0, "enabled\n", "") if self.enabled else (1, "disabled\n", "")
        self.commands.append(words)
        if self.killed_after == len(self.commands) - 1:
            raise Killed
        status = self.obey(words)
        if self.killed_after == len(self.commands):
            raise Killed
        return status, "", "no such thing" if status else ""

    def obey(self, words: str) -> int:
        if words in ("start", "restart"):
            self.start()
        elif words == "stop":
            self.active = "inactive"
        elif words == "enable":
            self.enabled = True
        elif words == "daemon-reload":
            self.unread = False
        elif words == "apply":
            self.read = self.conf.read_text()
        return 1 if words == "fails" else 0

    def start(self) -> None:
        self.at = time.clock_gettime(time.CLOCK_MONOTONIC)
        self.starts += 1
        self.active, self.read = "active", self.conf.read_text()

    def show(self) -> str:
        return shown(
            "",
            self.at,
            LoadState=self.load,
            ActiveState=self.active,
            InvocationID=f"start {self.starts}",
            NeedDaemonReload="yes" if self.unread else "no",
        )


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    conf = tmp_path / "x.conf"
    conf.write_text("old")
    system = Systemd(conf)

    def run_command(_: Any, argv: Sequence[str], **given: Any) -> tuple[int, str, str]:
        return system.run(argv, **given)

    def get_bin_path(_: Any, name: str, **__: Any) -> str | None:
        return None if name == "missing" else f"/bin/{name}" if name == "systemctl" else name

    monkeypatch.setenv("TRUEUP_UNITS", str(tmp_path / "units"))
    monkeypatch.setattr(basic.AnsibleModule, "run_command", run_command)
    monkeypatch.setattr(basic.AnsibleModule, "get_bin_path", get_bin_path)
    return system


Call = Callable[..., dict[str, Any]]


@pytest.fixture
def call(systemd: Systemd, capsys: pytest.CaptureFixture[str]) -> Call:
    def of(*, check: bool = False, **given: Any) -> dict[str, Any]:
        usual: dict[str, Any] = {"unit": "x.service", "files": [str(systemd.conf)]}
        if "name" in given:
            usual = {}
        return answer_of(
            service_current, capsys, **{**usual, "_ansible_check_mode": check, **given}
        )

    return of


def later(systemd: Systemd, text: str) -> None:
    """The file is written, a tick of the kernel's clock later."""
    time.sleep(0.02)
    systemd.conf.write_text(text)


def test_a_unit_is_started_once_and_restarted_for_what_it_has_not_read(
    systemd: Systemd, call: Call
) -> None:
    first = call(enabled=True)
    assert (first["changed"], first["step"], systemd.enabled) == (True, "start", True)
    assert call(enabled=True)["changed"] is False
    later(systemd, "new")
    second = call()
    assert (second["step"], systemd.read) == ("restart", "new")
    assert second["why"] == [f"{systemd.conf} is another one than at the start"]
    assert second["diff"][0]["after"] == f"restart x.service: {second['why'][0]}\n"
    assert (call()["changed"], systemd.starts) == (False, 2)


@pytest.mark.parametrize("known", [True, False])
def test_a_kill_at_any_moment_costs_no_restart(systemd: Systemd, call: Call, known: bool) -> None:
    """Between the written file and any command of the module, before and after each."""
    if known:
        call()
    else:
        systemd.start()
    for moment in range(4):
        later(systemd, f"new {moment}")
        systemd.unread = True
        systemd.killed_after = len(systemd.commands) + moment
        with contextlib.suppress(Killed):
            call()
        systemd.killed_after = None
        starts = systemd.starts
        call()
        assert (systemd.read, systemd.unread) == (f"new {moment}", False)
        assert systemd.starts - starts <= 1
        assert call()["changed"] is False


def test_a_restart_that_was_begun_is_owed(systemd: Systemd, call: Call, tmp_path: Path) -> None:
    """systemd had read the new file, and the service had not started by it."""
    call()
    path = str(tmp_path / "units" / "x.service.json")
    units.write(path, units.begun(Run(f"start {systemd.starts}"), units.read(path)))
    assert call()["why"] == ["a restart was begun and not finished"]
    assert systemd.starts == 2


def test_a_boot_or_a_death_owes_nothing(systemd: Systemd, call: Call) -> None:
    call()
    time.sleep(0.05)
    systemd.start()
    starts = systemd.starts
    assert call()["changed"] is False
    # It broke off, and the machine booted: what was written is in force.
    later(systemd, "new")
    time.sleep(0.05)
    systemd.start()
    assert (call()["changed"], systemd.read, systemd.starts) == (False, "new", starts + 1)


def test_a_node_that_was_configured_before_has_nothing_restarted(
    systemd: Systemd, call: Call
) -> None:
    time.sleep(0.05)
    systemd.start()
    assert call()["changed"] is False
    # From now on the content decides: with its time of long ago.
    later(systemd, "new")
    os.utime(systemd.conf, (1.0, 1.0))
    assert call()["step"] == "restart"


def test_check_mode_tells_and_does_nothing(systemd: Systemd, call: Call, tmp_path: Path) -> None:
    systemd.load = "not-found"
    told = call(check=True, enabled=True, files=["/nowhere"])
    assert (told["changed"], told["step"]) == (True, "start")
    systemd.load = "loaded"
    time.sleep(0.05)
    systemd.start()
    assert call(check=True)["step"] == "none"
    pending = call(check=True, pending=[str(systemd.conf), "/another"])
    assert (pending["step"], pending["changed"]) == ("restart", True)
    assert call(check=True, pending=["/another"])["changed"] is False
    assert (systemd.commands, (tmp_path / "units").exists()) == ([], False)


@parametrized(("given", "load", "said"))
def test_what_cannot_be_done_is_said(
    systemd: Systemd, call: Call, tmp_path: Path, given: dict[str, Any], load: str, said: str
) -> None:
    systemd.load = load
    if "name" in given:
        new = tmp_path / "new"
        new.write_text("")
        given = {**given, "reloaded": [str(new)]}
    answer = call(**given)
    assert (answer["failed"], said in answer["msg"]) == (True, True)
    if "files" not in given and given.get("unit") is None:
        lenient = call(lenient=True, **given)
        assert (lenient["changed"], said in lenient["problem"]) == (False, True)


def test_a_unit_that_is_not_there_is_stopped(systemd: Systemd, call: Call) -> None:
    systemd.load = "not-found"
    for state in ("stopped", "as_found"):
        assert call(state=state, enabled=False)["changed"] is False
    assert call(state="as_found", enabled=True)["failed"] is True


def test_a_unit_of_which_nothing_is_recorded_is_told_of_until_it_is(
    systemd: Systemd, call: Call
) -> None:
    assert call()["unrecorded"] is False  # it did not run
    Path(os.environ["TRUEUP_UNITS"], "x.service.json").unlink()
    said = [call(check=check)["unrecorded"] for check in (True, True, False, True)]
    assert said == [True, True, True, False]


def test_a_restart_under_a_job_on_the_gpus_stays_owed(
    systemd: Systemd, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = ["process 4711", "unknown, as nvidia-smi did not end", "", ""]
    monkeypatch.setattr(service_current, "gpu_users", lambda _: users.pop(0))
    call()
    later(systemd, "new")
    for said in users[:2]:
        held = call(idle_gpus=True)
        told = f"the GPUs are in use ({said})"
        assert (held["changed"], held["not_restarted"]) == (False, told)
    assert (call(idle_gpus=True)["step"], systemd.read) == ("restart", "new")
    assert call(idle_gpus=True)["changed"] is False


def test_a_damaged_record_is_named_and_written_anew(
    systemd: Systemd, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(basic.AnsibleModule, "warn", lambda _, text: said.append(text))
    call()
    path = tmp_path / "units" / "x.service.json"
    path.write_text("{")
    later(systemd, "new")
    answer = call()
    assert answer["step"] == "restart"
    assert "x.service.json is no record" in said[0]
    assert units.read(str(path)).owed is False


def test_a_command_holds_for_a_boot(systemd: Systemd, call: Call) -> None:
    given: dict[str, Any] = {"name": "names", "command": ["apply"], "reloaded": [str(systemd.conf)]}
    assert (call(**given)["step"], systemd.read) == ("reload", "old")
    assert call(**given)["changed"] is False
    later(systemd, "new")
    systemd.killed_after = len(systemd.commands)
    with pytest.raises(Killed):
        call(**given)
    systemd.killed_after = None
    assert (call(**given)["step"], systemd.read) == ("reload", "new")


def test_a_program_that_was_replaced_is_started_anew(
    systemd: Systemd, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call()
    monkeypatch.setattr(Systemd, "show", lambda self: shown("", self.at, MainPID="17"))
    call()
    monkeypatch.setattr(service_current.os, "readlink", lambda _: "/usr/bin/x (deleted)")
    assert call()["changed"] is False
    assert call(replaced=True)["why"] == ["its program was replaced"]
