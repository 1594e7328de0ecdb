"""Which nodes answer by ssh, and whose cloud-init failed."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from trueup_controller.azure import wait_ready

ARGV = [sys.executable, "-c"]


class Ssh:
    """Exit statuses by address, in their order; the last one stays."""

    def __init__(self, **statuses: list[tuple[int, str]]) -> None:
        self.statuses = statuses
        self.asked: Counter[str] = Counter()
        self.seconds: list[float] = []

    def __call__(self, argv: tuple[str, ...], seconds: float) -> tuple[int, str]:
        address = argv[-2]
        answers = self.statuses[address]
        self.seconds.append(seconds)
        self.asked[address] += 1
        return answers[min(self.asked[address], len(answers)) - 1]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_ready, "_PAUSE_SECONDS", 0.001)


def silent(ssh: Ssh, limit: float = 30) -> tuple[dict[str, str], list[str]]:
    told: list[str] = []
    nodes = {f"node-{address}": address for address in ssh.statuses}
    found = wait_ready.silent(
        nodes, "config", told.append, limit_seconds=limit, run=ssh, clock=Clock()
    )
    return found, told


@pytest.mark.parametrize("status", [1, 126])
def test_a_cloud_init_that_failed_is_not_asked_again(status: int) -> None:
    ssh = Ssh(a=[(status, "status: error")])
    assert silent(ssh)[0] == {"node-a": "cloud-init failed: status: error"}
    assert ssh.asked["a"] == 1


def test_a_node_that_never_answers_is_named_with_why_and_the_others_are_not() -> None:
    found, told = silent(Ssh(a=[(0, "")], b=[(255, "Connection timed out")]))
    assert found == {"node-b": "no answer by ssh: Connection timed out"}
    assert told[-1] == "1 of 2 nodes answer by ssh"


def test_an_interruption_ends_those_that_are_asked() -> None:
    ssh = Ssh(a=[(0, "")], b=[(255, "")])

    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wait_ready.silent({"a": "a", "b": "b"}, "config", interrupted, limit_seconds=3600, run=ssh)
    assert ssh.asked["b"] < 100


def test_what_a_command_says_and_how_it_ends_come_back() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    assert wait_ready.run((*ARGV, code), 20) == (3, "out err")


def test_a_command_that_takes_too_long_is_no_answer() -> None:
    assert wait_ready.run((*ARGV, "import time; time.sleep(20)"), 0.2) == (255, "no answer in time")


def test_an_ssh_that_is_not_there_is_said() -> None:
    code, said = wait_ready.run(("/no/such/ssh",), 1)
    assert (code, said.startswith("ssh could not be run")) == (255, True)


def test_cloud_inits_status_is_that_of_the_question(tmp_path: object) -> None:
    """The question itself, by the shell that sshd would start."""
    for status in (0, 1, 2):
        tool = f"{tmp_path}/{status}"
        subprocess.run(["mkdir", tool], check=True)
        with open(f"{tool}/cloud-init", "w", encoding="ascii") as stream:
            stream.write(f"#!/bin/sh\necho status: $2 $3; exit {status}\n")
        subprocess.run(["chmod", "+x", f"{tool}/cloud-init"], check=True)
        argv = ["env", f"PATH={tool}:/usr/bin:/bin", "sh", "-c", wait_ready._ASK]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (status, "status: --long\n" if status else "")


def test_a_switch_that_never_gets_its_right_is_said_with_why() -> None:
    assert unmet(Ssh(login=[(1, "AuthorizationFailed")] * 99)) == "AuthorizationFailed"
    assert unmet(Ssh(login=[(3, "")] * 99)) == "status 3"


def unmet(ssh: Ssh) -> str:
    return wait_ready.unmet(
        *("config", "login", "ask"), limit_seconds=30, run=ssh, clock=Clock(), sleep=lambda _: None
    )
