"""``trueup morning``: silent when nothing changed, at most 15 lines when something did, loud when
the check did not run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import made
import pytest
import yaml
from fleet import FAULTS, fleet
from helpers import ROOT, parametrized

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = datetime.now(UTC)


def run_of(hours_ago: float, letters: str) -> tuple[str, str]:
    """A run's id and the time at which it began."""
    begun = NOW - timedelta(hours=hours_ago)
    return f"{begun:%Y%m%dT%H%M%SZ}-{letters}", f"{begun:%Y-%m-%dT%H:%M:%SZ}"


def write(folder: Path, hours_ago: float, letters: str, **of_fleet: Any) -> None:
    """A run of a synthetic fleet, with its manifest."""
    run_id, begun = run_of(hours_ago, letters)
    scale, playbook = of_fleet.pop("scale", 1.0), of_fleet.pop("playbook", "check.yml")
    xid = of_fleet.pop("xid", None)
    options = {"faults": {}, "noisy_pair": None, "missing": (), **of_fleet}
    nodes = 30
    records = [
        {**record, "run_id": run_id, "started_at": begun} for record in fleet(nodes, **options)
    ]
    for record in records:
        if xid and record["benchmark"] == "node_state" and record["nodes"] == ["h100-0004"]:
            record |= {"outcome": "invalid", "reason": f"GPU 0001:00:00.0 logged {xid}"}
        if record["benchmark"] == "nccl":
            for row in record["metrics"]:
                row["value"] *= scale
    made.write(folder, records)
    manifest = {
        "schema": "trueup.run/1",
        "run_id": run_id,
        "started_at": begun,
        "finished_at": begun,
        "playbook": playbook,
        "expected": [f"h100-{number:04d}" for number in range(nodes)],
        "hosts": {},
        "failed_in": {},
        "skipped": [],
    }
    (folder / run_id / "run.json").write_text(json.dumps(manifest))


class Posts(BaseHTTPRequestHandler):
    """A webhook that keeps what it gets, and answers with the status in its path."""

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.bodies.append(json.loads(self.rfile.read(length)))  # type: ignore[attr-defined]
        self.send_response(int(self.path.strip("/")))
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(name="server")
def _server() -> Iterator[Any]:
    server: Any = HTTPServer(("127.0.0.1", 0), Posts)
    server.bodies = []
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def url(server: Any, status: int = 200) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/{status}"


def test_an_unchanged_fleet_is_silent(call_trueup: Any, tmp_path: Path, server: Any) -> None:
    for hours, letters in ((25, "aaaa"), (1, "bbbb")):
        write(tmp_path, hours, letters, faults={17: FAULTS[17]})
    done = call_trueup("morning", tmp_path, "--webhook", url(server))
    assert (done.status, server.bodies) == (0, [])
    assert "30 nodes: 1 still fail." in done.out
    done = call_trueup("morning", tmp_path, "--webhook", url(server), "--always")
    assert (done.status, len(server.bodies)) == (0, 1)


def test_a_benchmark_run_in_between_is_not_the_check_before(
    call_trueup: Any, tmp_path: Path
) -> None:
    for hours, letters, playbook in (
        (25, "aaaa", "check.yml"),
        (5, "cccc", "site.yml"),
        (1, "bbbb", "check.yml"),
    ):
        missing = range(29) if playbook == "site.yml" else ()
        write(tmp_path, hours, letters, playbook=playbook, missing=missing)
    done = call_trueup("morning", tmp_path)
    assert (done.status, "nothing changed" in done.out) == (0, True)


def test_a_fatal_xid_is_a_new_failure(call_trueup: Any, tmp_path: Path) -> None:
    write(tmp_path, 25, "aaaa")
    write(tmp_path, 1, "bbbb", xid="XID 79")
    done = call_trueup("morning", tmp_path)
    lines = [line for line in done.out.splitlines() if line.startswith("Fails: h100-0004: ")]
    assert (done.status, ["XID 79" in line for line in lines]) == (1, [True])


def test_limits_of_the_site_judge_the_message_too(call_trueup: Any, tmp_path: Path) -> None:
    write(tmp_path / "results", 25, "aaaa")
    write(tmp_path / "results", 1, "bbbb", scale=0.96)
    own = tmp_path / "own.yml"
    first = run_of(25, "aaaa")[0]
    assert call_trueup("baseline", tmp_path / "results" / first, "-o", own).status == 0
    without = call_trueup("morning", tmp_path / "results")
    done = call_trueup("morning", tmp_path / "results", "--expectations", own)
    assert "newly fail" not in without.out
    assert "30 nodes newly fail" in done.out


def test_limits_that_cannot_be_read_are_loud(call_trueup: Any, tmp_path: Path) -> None:
    write(tmp_path / "results", 1, "aaaa")
    done = call_trueup("morning", tmp_path / "results", "--expectations", tmp_path / "none.yml")
    assert (done.status, "none.yml" in done.out) == (2, True)


def test_new_failures_lost_nodes_and_slow_figures_are_told_with_the_fix(
    call_trueup: Any, tmp_path: Path, server: Any
) -> None:
    write(tmp_path, 25, "aaaa", faults={3: FAULTS[101]})
    write(tmp_path, 1, "bbbb", faults={17: FAULTS[17]}, missing=(5,), scale=0.96)
    done = call_trueup("morning", tmp_path, "--webhook", url(server))
    lines = done.out.splitlines()
    assert (done.status, len(lines) <= 15) == (1, True)
    assert "1 node newly fails; 1 node is newly not measured" in lines[0]
    assert "1 node is well again" in lines[0]
    assert [line for line in lines if line.startswith("Fails: h100-0017: ")] != []
    assert "Not measured: h100-0005." in lines
    assert [line for line in lines if "bus bandwidth at 16 GiB fell by 4.0 %" in line] != []
    assert "Well again: h100-0003." in lines
    assert server.bodies == [
        {"text": "\n".join(lines), "lines": lines, "changed": True, "has_run": True}
    ]


def test_a_fleet_that_fell_by_12_percent_is_told(call_trueup: Any, tmp_path: Path) -> None:
    write(tmp_path, 25, "aaaa")
    write(tmp_path, 1, "bbbb", scale=0.88)
    done = call_trueup("morning", tmp_path)
    assert (done.status, "30 nodes newly fail; 1 figure worse" in done.out) == (1, True)
    assert "fell by 12.0 %" in done.out


@parametrized(("kind", "path"))
def test_chat_services_get_their_own_form(
    call_trueup: Any, tmp_path: Path, server: Any, kind: str, path: list[Any]
) -> None:
    write(tmp_path, 1, "bbbb", faults={17: FAULTS[17]})
    done = call_trueup("morning", tmp_path, "--webhook", url(server), "--as", kind)
    (text,) = server.bodies
    for step in path:
        text = text[step]
    assert (done.status, text.splitlines()[0]) == (1, done.out.splitlines()[0])


@pytest.mark.parametrize(("hours", "words"), [(50, "began 50 hours ago"), (None, "does not exist")])
def test_a_check_that_did_not_run_is_loud(
    call_trueup: Any,
    tmp_path: Path,
    server: Any,
    monkeypatch: pytest.MonkeyPatch,
    hours: float | None,
    words: str,
) -> None:
    folder = tmp_path / "results"
    # The tests before this one may have taken half an hour.
    monkeypatch.setattr(sys.modules[__name__], "NOW", datetime.now(UTC))
    if hours is not None:
        write(folder, hours, "aaaa")
    done = call_trueup("morning", folder, "--webhook", url(server))
    assert (done.status, server.bodies[0]["has_run"]) == (2, False)
    assert done.out.startswith("trueup: the check did not run, or could not be judged: ")
    assert words in done.out


def program(folder: Path, name: str, status: int = 0) -> Path:
    """A program that keeps its standard input and the variables of trueup."""
    path = folder / name
    kept = folder / f"{name}.txt"
    path.write_text(f"#!/bin/sh\ncat > {kept}\nenv | grep TRUEUP_ >> {kept}\nexit {status}\n")
    path.chmod(0o755)
    return path


def test_the_mailer_and_a_program_get_the_message(
    call_trueup: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "results", 1, "bbbb", faults={17: FAULTS[17]})
    monkeypatch.setenv("PATH", str(program(tmp_path, "sendmail").parent), prepend=":")
    hook = program(tmp_path, "hook")
    to = ("--mail", "ops@example.org", "--hook", f"{hook} now")
    done = call_trueup("morning", tmp_path / "results", *to)
    first = done.out.splitlines()[0]
    assert done.status == 1
    mail = (tmp_path / "sendmail.txt").read_text()
    assert mail.startswith(f"To: ops@example.org\nSubject: {first}\n")
    told = (tmp_path / "hook.txt").read_text()
    assert (told.splitlines()[0], "TRUEUP_CHANGED=1" in told) == (first, True)


def test_a_message_that_cannot_be_sent_is_an_error_and_the_others_are_sent(
    call_trueup: Any, tmp_path: Path, server: Any
) -> None:
    write(tmp_path / "results", 1, "bbbb", faults={17: FAULTS[17]})
    hook = program(tmp_path, "hook", status=3)
    options = ("--webhook", url(server, 500), "--hook", hook, "--mail", "a\nb")
    done = call_trueup("morning", tmp_path / "results", *options)
    errors = [line for line in done.err.splitlines() if "error" in line]
    assert (done.status, len(errors), len(server.bodies)) == (2, 3, 1)
    assert "HTTP 500" in errors[0]
    # An address holds the right to post.
    assert url(server, 500) not in done.err


def test_the_timer_is_two_units_that_systemd_takes(call_trueup: Any, tmp_path: Path) -> None:
    done = call_trueup("morning", "--timer", "systemd", "-i", "inventories/mine", "--at", "06:15")
    assert "note: no --mail, --hook or --webhook is given: nobody gets the message" in done.err
    texts = done.out.split("# /etc/systemd/system/")[1:]
    names = [text.partition("\n")[0] for text in texts]
    assert (done.status, names) == (0, ["trueup-morning.service", "trueup-morning.timer"])
    assert "OnCalendar=*-*-* 06:15:00" in texts[1]
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine")
    for name, text in zip(names, texts, strict=True):
        (tmp_path / name).write_text(text.partition("\n")[2])
    argv = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "trueup-morning.timer")]
    checked = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (checked.returncode, "trueup" in checked.stderr) == (0, False)


def test_a_line_of_cron_runs_the_check_and_then_the_message(call_trueup: Any) -> None:
    done = call_trueup("morning", "--timer", "cron", "--at", "05:07", "--mail", "o@example.org")
    line = done.out.splitlines()[-2]
    assert line.startswith("7 5 * * * ")
    assert 0 < line.index("playbooks/check.yml") < line.index("trueup morning")
    assert "--mail o@example.org" in line


def test_the_timer_keeps_the_form_and_says_where_the_address_goes(call_trueup: Any) -> None:
    done = call_trueup("morning", "--timer", "systemd", "--as", "teams", "--webhook", "https://x/y")
    assert '"--as" "teams"' in done.out
    assert ("https://x/y" in done.out, "/etc/trueup/morning.env" in done.err) == (False, True)


def test_no_time_of_day_is_refused(call_trueup: Any) -> None:
    done = call_trueup("morning", "--timer", "cron", "--at", "25:00")
    assert (done.status, done.out, "no time of day" in done.err) == (1, "", True)


def test_the_form_for_awx_is_a_playbook_that_its_collection_takes(
    call_trueup: Any, tmp_path: Path
) -> None:
    """Its arguments are those of the collection awx.awx, as ansible-doc has them."""
    done = call_trueup("morning", "/srv/results", "--timer", "awx", "-i", "gpus", "--at", "06:15")
    play = yaml.safe_load(done.out)[0]
    assert done.status == 0
    workflow, schedule = play["tasks"][2:]
    check, message = workflow["awx.awx.workflow_job_template"]["workflow_nodes"]
    assert check["related"]["always_nodes"] == [{"identifier": message["identifier"]}]
    assert "T061500 RRULE:FREQ=DAILY" in schedule["awx.awx.schedule"]["rrule"]
    modules = [name for task in play["tasks"] for name in task if name != "name"]
    argv = [Path(sys.executable).with_name("ansible-doc"), "--json", *dict.fromkeys(modules)]
    described = json.loads(subprocess.run(argv, capture_output=True, check=True, text=True).stdout)
    unknown = [
        option
        for task in play["tasks"]
        for name, options in task.items()
        if name != "name"
        for option in set(options) - set(described[name]["doc"]["options"])
    ]
    assert unknown == []
    playbooks = [task["awx.awx.job_template"]["playbook"] for task in play["tasks"][:2]]
    assert [(ROOT / name).is_file() for name in playbooks] == [True, True]
