"""The rules of repair cases: steps, files, policies, and a sample of killed repairs."""

from __future__ import annotations

import urllib.parse
from collections import Counter
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import repair_loop
from emulated_cloud import SUBSCRIPTION, Cloud, impact, serving
from helpers import ROOT, parametrized
from trueup_controller.azure.login import Login
from trueup_controller.azure.manager import Manager
from trueup_controller.repair import case as cases
from trueup_controller.repair import clouds, journal, steps
from trueup_controller.repair.impact import Impact, report_body, report_name
from trueup_controller.repair.plan import next_action
from trueup_controller.repair.policy import read_policy, refusal
from trueup_controller.repair.ports import Playbooks, Slurm
from trueup_node.errors import BadInput, TrueupError
from trueup_node.node.physical_host import physical_host

AT = "2026-11-30T09:00:00Z"
CASE = "20261130T090000Z-00aa"
HOST = {"physical_host": "HOST1"}
RESOURCE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/node-1"
OPENED = repair_loop.opened(CASE, "node-1", "Resource.Hpc.Unhealthy.NvLink", **HOST)
REPORTED = steps.Reported(
    at=AT, impact="i1", way="arm", category=OPENED.category, physical_host="HOST1"
)
ENDED = steps.Followed(
    at=AT, impact="i1", insight="n", status="NodeRemovedFromService", terminal=True
)
DRAINED = steps.Drained(at=AT)
EVIDENCE = steps.Evidence(at=AT, path="a.tar.gz", sha256="0")
NO_EVIDENCE = steps.Stopped(at=AT, action="evidence", reason="it does not answer")
WELL = steps.Tested(at=AT, run="r", failed=[])


def case_of(*later: steps.Step, **facts: Any) -> cases.Case:
    """A case with these steps after its first."""
    first = repair_loop.opened(CASE, "node-1", OPENED.category, **{**HOST, **facts})
    return cases.of_steps([first, *later])


@pytest.mark.parametrize(
    ("later", "state", "actor", "action"),
    [
        ((), "open", "trueup", "drain"),
        ((DRAINED,), "drained", "trueup", "evidence"),
        ((DRAINED, EVIDENCE), "evidence", "trueup", "report"),
        ((DRAINED, NO_EVIDENCE), "drained", "trueup", "report"),
        ((DRAINED, EVIDENCE, REPORTED), "reported", "Azure", "follow"),
        ((DRAINED, EVIDENCE, REPORTED, ENDED), "followed", "trueup", "move"),
        # The evidence of the new host is none of the fault.
        ((DRAINED, REPORTED, ENDED, steps.Moved(at=AT)), "followed", "trueup", "test"),
        ((DRAINED, WELL), "tested again", "trueup", "return"),
        ((DRAINED, WELL, steps.GivenBack(at=AT)), "given back", "trueup", "close"),
        ((steps.Closed(at=AT, reason="gone"),), "closed", "nobody", "close"),
    ],
)
def test_the_next_action(
    later: tuple[steps.Step, ...], state: str, actor: str, action: str
) -> None:
    case = case_of(*later)
    planned = next_action(case, AT)
    assert (case.state, planned.actor, planned.name) == (state, actor, action)


def test_a_fault_without_a_category_waits_for_a_person() -> None:
    first = repair_loop.opened(CASE, "node-1", "", **HOST, fault="slow")
    assert next_action(cases.of_steps([first, DRAINED, EVIDENCE]), AT).actor == "operator"


def test_a_refused_report_waits_an_hour_and_has_another_name() -> None:
    refused = steps.Followed(
        at=AT, impact="i1", insight="n", status="TooManyRequests", terminal=True
    )
    case = case_of(DRAINED, EVIDENCE, REPORTED, refused)
    planned = [next_action(case, f"2026-11-30T{hour}:00:00Z") for hour in ("09", "10")]
    assert [(item.name, item.actor) for item in planned] == [
        ("hand", "Azure"),
        ("report", "trueup"),
    ]
    assert report_name(case) != report_name(case_of(DRAINED))
    assert report_name(case_of(DRAINED)) == report_name(case_of())


@pytest.mark.parametrize(
    ("later", "message"),
    [
        ((DRAINED, DRAINED), "the node is drained twice"),
        ((REPORTED, REPORTED), "i1 is reported while Azure works on i1"),
        ((ENDED,), "an insight into i1, which is not the last report"),
        ((steps.Moved(at=AT),), "moved before a report"),
        (
            (REPORTED, steps.Replaced(at=AT, physical_host="HOST1")),
            "it is replaced by the host that was reported, HOST1",
        ),
        ((steps.GivenBack(at=AT),), "a node is given back that is not drained"),
        ((steps.Closed(at=AT, reason="x"), DRAINED), "drained after the case was closed"),
        ((OPENED,), "it is opened twice"),
    ],
)
def test_a_step_that_cannot_follow_is_refused(later: tuple[steps.Step, ...], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        case_of(*later)
    assert str(caught.value) == f"step {len(later) + 1}: {message}"


@parametrized(("facts", "message"))
def test_a_report_lacks_nothing(facts: dict[str, str], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        report_body(case_of(**facts))
    assert str(caught.value).startswith(message)
    more = report_body(case_of(resource_id=RESOURCE))["properties"]["additionalProperties"]
    assert more == {"PhysicalHostName": "HOST1"}


# -- files --


def test_a_step_in_part_is_no_step(tmp_path: Path) -> None:
    file = journal.Journal(tmp_path, CASE)
    case = file.append(file.open(OPENED), DRAINED)
    with file.path.open("ab") as stream:
        stream.write(steps.line_of(WELL)[:-5])
    assert file.read() == case
    assert file.append(case, REPORTED).report is not None
    assert [type(step) for step in file.read().steps] == [
        *(steps.Opened, steps.Drained, steps.Reported)
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{}", "line 2: it is no step of trueup.case/1"),
        (b'{"step": "danced", "at": "x"}', "Invalid value 'danced'"),
        (b'{"step": "drained", "at": "x", "colour": 1}', "unknown field `colour`"),
        (b"\xff\x00", "line 2: it is no step"),
        (b"[" * 100_000, "line 2: it is no step"),
    ],
)
def test_a_damaged_file_is_named_and_the_others_are_read(
    tmp_path: Path, line: bytes, message: str
) -> None:
    journal.Journal(tmp_path, "20261130T090000Z-00bb").open(
        repair_loop.opened("20261130T090000Z-00bb", "node-2", "", **HOST)
    )
    file = journal.Journal(tmp_path, CASE)
    file.open(OPENED)
    with file.path.open("ab") as stream:
        stream.write(line + b"\n")
    listed = journal.read_all(tmp_path)
    assert ([case.node for case in listed.cases], len(listed.refused)) == (["node-2"], 1)
    assert message in listed.refused[0]


def test_a_newer_schema_and_a_renamed_file_are_refused(tmp_path: Path) -> None:
    file = journal.Journal(tmp_path, CASE)
    file.open(OPENED)
    text = file.path.read_text()
    file.path.write_text(text.replace("trueup.case/1", "trueup.case/2"))
    assert "its schema is trueup.case/2" in journal.read_all(tmp_path).refused[0]
    file.path.write_text(text)
    file.path.rename(tmp_path / "cases" / "20261130T090000Z-00cc.jsonl")
    assert "a file was renamed" in journal.read_all(tmp_path).refused[0]


def test_a_case_has_one_process(tmp_path: Path) -> None:
    file = journal.Journal(tmp_path, CASE)
    file.open(OPENED)
    with file.alone(), pytest.raises(BadInput) as caught, file.alone():
        pass
    assert f"another process works on case {CASE}" in str(caught.value)


def test_a_step_holds_no_secret() -> None:
    stopped = steps.Stopped(at=AT, action="report", reason="Authorization: Bearer abcdefghijklmnop")
    assert b"abcdefghijklmnop" not in steps.line_of(stopped)


# -- policies --

POLICY = ROOT / "docs" / "examples" / "case_policy.yml"
NOON = datetime.fromisoformat("2026-11-30T12:00:00+00:00")
OUT = [case_of(DRAINED)] * 4


@pytest.mark.parametrize(
    ("action", "fault", "others", "hour", "said"),
    [
        ("drain", "anything", [], 12, ""),
        ("report", "gpu_off_bus", [], 12, ""),
        ("report", "anything", [], 12, "no rule of the policy allows report for anything"),
        ("drain", "anything", OUT, 12, "4 nodes are out of service, and the policy's ceiling is 4"),
        ("test", "anything", OUT, 12, ""),
        (
            *("report", "gpu_off_bus", [case_of(DRAINED, REPORTED)] * 2, 12),
            "2 reports are under way, and the policy allows 2",
        ),
        # 22:30 in Berlin.
        ("drain", "anything", [], 21, "the policy's quiet hours (22:00-06:00 Europe/Berlin) last"),
    ],
)
def test_the_example_policy(
    action: str, fault: str, others: list[cases.Case], hour: int, said: str
) -> None:
    policy = read_policy(POLICY)
    case = case_of(fault=fault)
    now = NOON.replace(hour=hour, minute=30)
    assert refusal(policy, action, case, others, now) == said


@parametrized(("old", "new", "message"))
def test_a_wrong_policy_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "policy.yml"
    text = POLICY.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(BadInput) as caught:
        read_policy(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


# -- Slurm --


@parametrized(("state", "reason", "expected"))
def test_drained_nodes_and_their_reasons(
    tmp_path: Path, state: str, reason: str, expected: str | None
) -> None:
    program = tmp_path / "scontrol"
    line = f"   Reason={reason}\n" if reason else ""
    program.write_text(f"#!/bin/sh\ncat <<'END'\nNodeName=n\n   State={state} X=1\n{line}END\n")
    program.chmod(0o755)
    assert Slurm(str(program)).drained("n") == expected


# -- kills --


def test_a_failed_playbook_is_told_by_its_own_last_error(tmp_path: Path) -> None:
    """The log is one of all tries: the second prints no error, and has not the first one's."""
    program = tmp_path / "ansible-playbook"
    program.write_text(
        "#!/bin/sh\n[ -e seen ] || echo '[ERROR]: no hosts to target'\n: > seen\nexit 4\n"
    )
    program.chmod(0o755)
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks" / "evidence.yml").touch()
    (tmp_path / "results" / "cases").mkdir(parents=True)
    plays = Playbooks(
        (tmp_path, "playbooks/{}.yml"), str(program), "hosts", tmp_path / "results", list, print
    )
    with (tmp_path / "lock").open("w") as lock:
        for reason in (": [ERROR]: no hosts to target", ""):
            with pytest.raises(TrueupError) as failed:
                plays.evidence(case_of(), lock.fileno())
            assert f"ansible-playbook ended with 4{reason} (see " in str(failed.value)


def test_killed_repairs_lose_and_double_no_report(tmp_path: Path) -> None:
    total: Counter[str] = Counter()
    problems = []
    with repair_loop.cloud_process(11) as connection:
        for label, figures, found in repair_loop.campaign(tmp_path, 11, 3, connection):
            total.update(figures)
            problems += [f"{label}: {problem}" for problem in found]
    assert problems == []
    # The kills strike, and reports are sent.
    assert (total["kills"] >= 20, total["reports"] >= 8, total["closed"] >= 7) == (True, True, True)


def test_a_machine_of_a_reported_host_comes_back_on_another(tmp_path: Path) -> None:
    """Hyper-V tells the node its host, and the product reads it there."""
    cloud, pool, hosts = Cloud(pace=0), tmp_path / "pool", []
    path = repair_loop.add_machine(cloud, "node-1")
    first = impact.host_of(cloud, path)
    with serving(cloud, tmp_path):
        login = Login(cloud.url, cloud.token(), (SUBSCRIPTION,))
        authority = str(tmp_path / "authority.pem")
        azure = Impact(Manager(login, repair_loop.killed_open(repair_loop.Points(), authority)))
        for is_reported in (False, True):
            if is_reported:
                case = case_of(physical_host=first, resource_id=path)
                azure.report(report_name(case), report_body(case))
            azure.move(path)
            pool.write_bytes(impact.pool(cloud.hardware.hosts[path.lower()], "node-1"))
            hosts.append(physical_host(str(pool)))
    assert hosts == [(first, []), ("HOST00000001", [])]


# -- CycleCloud --


class _CycleCloud(BaseHTTPRequestHandler):
    """Takes one report of a node, by the reference of CycleCloud's API."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        paths: list[str] = self.server.paths  # type: ignore[attr-defined]
        self.send_response(409 if self.path in paths else 202)
        paths.append(self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_cyclecloud_takes_a_report_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput) as caught:
        clouds.CycleCloud("", print)
    assert "--cluster NAME" in str(caught.value)
    server: Any = HTTPServer(("127.0.0.1", 0), _CycleCloud)
    server.paths = []
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        for name, value in (("URL", address), ("USERNAME", "dummy"), ("PASSWORD", "dummy")):
            monkeypatch.setenv(f"CYCLECLOUD_{name}", value)
        # The second time is that after a kill: the node has a report.
        for _ in range(2):
            clouds.CycleCloud("one cluster", print).report(case_of(), "name")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    parts = urllib.parse.urlsplit(server.paths[0])
    assert server.paths == [server.paths[0]] * 2
    assert parts.path == "/clusters/one%20cluster/nodes/node-1/ghr"
    assert dict(urllib.parse.parse_qsl(parts.query)) == {
        "category": "Resource.Hpc.Unhealthy.NvLink",
        "description": "planted",
    }
