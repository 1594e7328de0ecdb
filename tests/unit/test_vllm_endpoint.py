"""The module that looks before servers are started, and waits after."""

from __future__ import annotations

import functools
import json
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest
import vllm_endpoint
from ansible.module_utils.trueup_node.benchmarks.vllm import server as vllm_server
from ansible.module_utils.trueup_node.errors import BadInput
from helpers import answer_of, parametrized

if TYPE_CHECKING:
    from pathlib import Path

UNIT = "trueup-vllm-tiny.service"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What systemctl says of the service; unit files are below tmp_path."""
    said = ["ActiveState=inactive\nNRestarts=0\n"]
    monkeypatch.setattr(
        vllm_server, "_output", lambda argv: said[0] if argv[0] == "systemctl" else ""
    )
    monkeypatch.setattr(vllm_endpoint, "_UNITS", tmp_path)
    return said


run = functools.partial(answer_of, vllm_endpoint)


def test_everything_is_possible_on_a_good_node(
    capsys: pytest.CaptureFixture[str], service: list[str], tmp_path: Path
) -> None:
    result = run(
        capsys,
        state="possible",
        services=[{"unit": UNIT, "host": "127.0.0.1", "port": 0, "rank": 0}],
        spaces=[{"path": str(tmp_path), "bytes": 1, "what": "it"}],
    )
    assert (result["problems"], result["changed"]) == ([], False)


def test_what_a_service_cannot_see_is_told(
    capsys: pytest.CaptureFixture[str], service: list[str], tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("/home/me/models")
    given = {
        "/home": "a",
        "/home/me/cache/": "b",
        "/root/../run/user/1000/x": "c",
        str(tmp_path / "link"): "d",
        "/homes/me": "e",
        "/run/users": "f",
        "/srv": "g",
    }
    result = run(capsys, state="possible", visible=given)
    told = [problem.rsplit("set ", 1)[1].split()[0] for problem in result["problems"]]
    assert told == ["a", "b", "c", "d"]
    assert result["problems"][2].startswith("/root/../run/user/1000/x is below /run/user, which")


def test_all_problems_are_told_at_once(
    capsys: pytest.CaptureFixture[str], service: list[str], tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run(
            capsys,
            state="possible",
            services=[
                {"unit": UNIT, "host": "127.0.0.1", "port": port, "rank": 0},
                # A headless partner listens nowhere.
                {"unit": UNIT, "host": "127.0.0.1", "port": port, "rank": 1},
            ],
            spaces=[{"path": str(tmp_path), "bytes": 1 << 60, "what": "the model"}],
        )
    taken_port, space = result["problems"]
    assert taken_port == f"port {port} is taken by another program"
    assert "the model takes" in space


def test_what_goes_onto_one_file_system_is_added_up(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path)
    most = free.f_bavail * free.f_frsize * 6 // 10
    one = {"path": str(tmp_path / "a"), "bytes": most, "what": "a model", "unless": ""}
    other = {"path": str(tmp_path / "b"), "bytes": most, "what": "another", "unless": ""}
    assert vllm_endpoint.space_problems([one]) == []
    (problem,) = vllm_endpoint.space_problems([one, other])
    assert "a model and another takes" in problem
    there = {**other, "unless": str(tmp_path)}
    assert vllm_endpoint.space_problems([one, there]) == []


@parametrized(("state", "port", "ours"))
def test_a_service_of_ours_has_the_port_of_its_unit_file(
    service: list[str], tmp_path: Path, state: str, port: int, ours: bool
) -> None:
    service[0] = f"ActiveState={state}\nNRestarts=0\n"
    (tmp_path / UNIT).write_text('ExecStart="vllm" "serve" "m" "--port" "8000" "--x" "8001"\n')
    assert vllm_endpoint.has_port(UNIT, port) is ours
    assert vllm_endpoint.has_port("trueup-vllm-other.service", port) is False


def test_check_mode_waits_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, state="ready", unit=UNIT, _ansible_check_mode=True)
    assert (result["seconds"], result["problems"]) == (0.0, [])


def test_a_server_that_does_not_come_is_a_failure_with_the_reason(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def wait(api: Any, service: Any, **options: Any) -> float:
        asked.append({"url": api.base_url, "service": service, **options})
        message = "it is not well"
        raise BadInput(message)

    monkeypatch.setattr(vllm_server, "wait_until_ready", wait)
    result = run(
        capsys,
        state="ready",
        unit=UNIT,
        base_url="http://127.0.0.1:8001",
        model="m",
        completions=4,
        deadline_seconds=7,
        api_key="4711-4712",
    )
    assert (result["failed"], result["msg"]) == (True, "it is not well")
    assert asked == [
        {
            "url": "http://127.0.0.1:8001",
            "service": (UNIT, "trueup-vllm"),
            "model": "m",
            "deadline_seconds": 7,
            "completions": 4,
        }
    ]
    assert "4711" not in json.dumps(result)


def test_a_headless_server_is_seen_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_server, "wait_for_service", lambda _, settle_seconds: settle_seconds)
    assert run(capsys, state="ready", unit=UNIT, headless=True)["seconds"] == 5


def test_ready_needs_to_know_whose(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unit" in run(capsys, state="ready")["msg"]
