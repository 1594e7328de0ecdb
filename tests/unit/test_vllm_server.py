"""Waiting for a server, against a stand-in of its API and of systemctl."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.trueup_node.benchmarks.vllm import server as vllm_server
from ansible.module_utils.trueup_node.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

KEY = "a-key"
MODEL = "tiny"


class StandIn:
    """A stand-in of vLLM's API on loopback: answers by what it is told to."""

    def __init__(self) -> None:
        self.health = 200
        self.completions = [200]
        self.asked: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                if self.path == "/health":
                    self._answer(outer.health, {})
                elif self.headers.get("Authorization") != f"Bearer {KEY}":
                    self._answer(401, {"error": "Unauthorized"})
                else:
                    self._answer(200, {"data": [{"id": MODEL}]})

            def do_POST(self) -> None:
                outer.asked.append(self.path)
                self.rfile.read(int(self.headers["Content-Length"]))
                number = sum(path == "/v1/completions" for path in outer.asked) - 1
                status = outer.completions[min(number, len(outer.completions) - 1)]
                if status == 0:
                    hang.wait(120)
                self._answer(status or 200, {"choices": []})

            def _answer(self, status: int, body: dict[str, Any]) -> None:
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                pass

        hang = self.hang = threading.Event()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.hang.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def server() -> Iterator[StandIn]:
    made = StandIn()
    yield made
    made.close()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What systemctl and journalctl say; the test replaces it."""
    said = ["ActiveState=active\nNRestarts=0\n", ""]
    monkeypatch.setattr(
        vllm_server, "_output", lambda argv: said[0] if argv[0] == "systemctl" else said[1]
    )
    monkeypatch.setattr(vllm_server, "_POLL_SECONDS", 0.01)
    return said


UNIT = ("trueup-vllm-tiny.service", "trueup-vllm")


def wait(server: StandIn, key: str = KEY, **given: Any) -> float:
    options = {"model": MODEL, "deadline_seconds": 300, "completions": 2, **given}
    return vllm_server.wait_until_ready(vllm_server.Api(server.url, key), UNIT, **options)


def test_a_server_is_ready_when_completions_come_back(server: StandIn, service: list[str]) -> None:
    assert wait(server) < 300
    assert server.asked == ["/health", "/v1/models", "/v1/completions", "/v1/completions"]


def test_a_completion_that_is_refused_is_told(server: StandIn, service: list[str]) -> None:
    server.completions = [500]
    with pytest.raises(BadInput, match="completion 1 of 2 had status 500"):
        wait(server)


def test_another_key_is_refused_with_the_mend(server: StandIn, service: list[str]) -> None:
    with pytest.raises(BadInput, match="refuses the API key: set vllm_api_key"):
        wait(server, key="wrong")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", (0, "not an HTTP answer: BadStatusLine")),
        (b"", (0, "Remote end closed connection without response")),
        (b"HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n{", (500, "{")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", (0, "cut short (1 of 9 bytes)")),
    ],
)
def test_a_program_that_does_not_speak_http_is_no_traceback(
    said: bytes, expected: tuple[int, str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            with listener.accept()[0] as peer:
                peer.recv(4096)
                peer.sendall(said)

        talking = threading.Thread(target=talk, daemon=True)
        talking.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert vllm_server.Api(url).get("/health") == expected
        talking.join(60)


def test_a_server_that_does_not_come_up_ends_at_the_deadline(
    server: StandIn, service: list[str]
) -> None:
    server.health = 503
    service[1] = "line one\nstill loading\n"
    with pytest.raises(BadInput, match=r"within 0\.2 s .*still loading"):
        wait(server, deadline_seconds=0.2)


def test_a_service_that_failed_ends_the_wait_with_its_log(
    server: StandIn, service: list[str]
) -> None:
    server.health = 503
    log = "ValueError: one\nSee root cause above\n"
    service[:] = ["ActiveState=failed\nNRestarts=5\n", log]
    message = r"^trueup-vllm-tiny\.service is not running; its log ends: ValueError: one \| See"
    with pytest.raises(vllm_server.ServerFailedError, match=message) as failed:
        wait(server, deadline_seconds=300)
    assert failed.value.log == log


def test_a_service_that_fails_again_and_again_is_not_waited_for(
    server: StandIn, service: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.health = 503
    restarts = iter(range(100))
    monkeypatch.setattr(
        vllm_server,
        "_output",
        lambda argv: (
            f"ActiveState=activating\nNRestarts={next(restarts)}\n"
            if argv[0] == "systemctl"
            else "boom"
        ),
    )
    with pytest.raises(BadInput, match="failed 2 times; its log ends: boom"):
        wait(server, deadline_seconds=300)


def test_a_taken_port_is_seen_before_anything_starts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        problem = vllm_server.port_problem("127.0.0.1", port)
    assert problem == f"port {port} is taken by another program"
    assert vllm_server.port_problem("127.0.0.1", port) is None
    assert "nothing can listen on 203.0.113.1" in str(vllm_server.port_problem("203.0.113.1", port))


def test_a_full_disk_is_told_with_both_figures(tmp_path: Any) -> None:
    there = str(tmp_path / "not" / "yet")
    assert vllm_server.existing(there) == str(tmp_path)
    assert vllm_server.space_problem(there, 1, "it") is None
    problem = str(vllm_server.space_problem(there, 1 << 60, "the model"))
    assert "GiB free, and the model takes 1073741824.00 GiB" in problem
