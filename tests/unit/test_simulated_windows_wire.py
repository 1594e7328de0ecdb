"""The simulated Windows host's WinRM: its client is pypsrp, and others send it anything."""

from __future__ import annotations

import json
import random
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from emulated_cloud import certificates
from helpers import ROOT
from pypsrp.exceptions import AuthenticationError, WinRMError, WSManFaultError
from pypsrp.powershell import PowerShell, RunspacePool
from pypsrp.wsman import WSMan
from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import ReadTimeout
from simulated_windows import (
    MODULES,
    Host,
    Product,
    Server,
    Service,
    UnknownError,
    pipeline,
    serving,
    variables,
)
from windows import serve

pytestmark = pytest.mark.slow

KEY = r"HKLM:\SOFTWARE\trueup"
Found = dict[str, Any]


@pytest.fixture
def served() -> Iterator[tuple[Host, Found]]:
    with serving(Host.nv_a10()) as found:
        yield found


def _client(found: Found, **own: Any) -> WSMan:
    whole = {
        "port": found["ansible_port"],
        "username": found["ansible_user"],
        "password": found["ansible_password"],
        "ssl": False,
        "auth": found["ansible_psrp_auth"],
        "encryption": found["ansible_psrp_message_encryption"],
        "no_proxy": True,
        **own,
    }
    return WSMan(found["ansible_host"], **whole)


def _manifest(name: str, args: dict[str, Any]) -> list[str]:
    params = {"Script": f"{name}.ps1", "ForModule": True, "Variables": [{"Value": args}]}
    manifest = {"actions": [{"name": "module_wrapper.ps1", "params": params}]}
    return [json.dumps({"name": "exec_wrapper"}), "\0\0\0\0", json.dumps(manifest)]


def _asked(found: Found, name: str, own: Found | None = None, /, **args: Any) -> dict[str, Any]:
    """What a module gives, over the wire."""
    with _client(found, **(own or {})) as client, RunspacePool(client) as pool:
        shell = PowerShell(pool)
        shell.add_script(pipeline.bootstrap())
        shell.invoke(_manifest(f"ansible.windows.{name}", args))
        given: dict[str, Any] = json.loads(shell.output[0])
        return given


def test_pypsrp_talks_to_it(served: tuple[Host, Found]) -> None:
    _, found = served
    assert _asked(found, "win_ping")["ping"] == "pong"


@pytest.mark.parametrize("auth", ["ntlm", "negotiate"])
def test_ntlm_with_message_encryption(auth: str) -> None:
    host = Host.nv_a10()
    host.unencrypted = False
    with serving(host) as (_, found):
        assert found["ansible_psrp_auth"] == "ntlm"
        assert _asked(found, "win_ping", {"auth": auth})["ping"] == "pong"
        # More than one envelope, both ways.
        told = {"path": KEY, "name": "long", "data": "x" * 700_000}
        assert _asked(found, "win_regedit", {"auth": auth}, **told)["changed"] is True
        read = _asked(found, "win_reg_stat", {"auth": auth}, path=KEY, name="long")
        assert read["value"] == "x" * 700_000
        with pytest.raises((AuthenticationError, WinRMError)):
            _asked(found, "win_ping", {"auth": auth, "password": "wrong"})
        with pytest.raises((AuthenticationError, WinRMError)):
            _asked(found, "win_ping", {"auth": auth, "username": "nobody"})
        with pytest.raises(AuthenticationError):
            _asked(found, "win_ping", {"auth": "basic", "encryption": "never"})
        with pytest.raises(WSManFaultError, match="unencrypted traffic is disabled"):
            _asked(found, "win_ping", {"auth": auth, "encryption": "never"})


def test_https_with_a_certificate_that_the_client_knows(tmp_path: Path) -> None:
    authority, certificate, key = certificates(tmp_path)
    with serving(Host.nv_a10(), certificate=(certificate, key)) as (_, found):
        assert found["ansible_psrp_protocol"] == "https"
        told = {"ssl": True, "cert_validation": str(authority)}
        assert _asked(found, "win_ping", told)["ping"] == "pong"
        assert _asked(found, "win_ping", {**told, "auth": "ntlm"})["ping"] == "pong"
        with pytest.raises(NoConnection, match="CERTIFICATE_VERIFY_FAILED"):
            _asked(found, "win_ping", {"ssl": True, "encryption": "auto"})
        # Somebody who says nothing, and somebody who speaks no TLS, keep nobody out.
        with socket.create_connection((found["ansible_host"], found["ansible_port"])) as silent:
            assert silent.fileno() > 0
            assert _sent(found, b"POST /wsman HTTP/1.1\r\n\r\n", end=False)[:5] != b"HTTP/"
            assert _asked(found, "win_ping", told)["ping"] == "pong"


class _Broker(BaseHTTPRequestHandler):
    """Takes hosts that have the token "good"."""

    taken: ClassVar[list[dict[str, str]]] = []

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.taken.append(asked)
        self.send_response(200 if asked["token"] == "good" else 401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def broker() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Broker)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/register"
    server.shutdown()
    server.server_close()


def _agent(token: str) -> dict[str, Any]:
    """The state of a host whose agent has a token."""
    host = Host.nv_a10()
    names = ("Remote Desktop Services Infrastructure Agent", "Remote Desktop Agent Boot Loader")
    host.add_products({name: Product("1.0") for name in names})
    host.services["RDAgentBootLoader"] = Service("Loader", "stopped")
    host.registry.set(AGENT, "IsRegistered", "dword", 0)
    host.registry.set(AGENT, "RegistrationToken", "string", token)
    return host.dump()


AGENT = r"HKLM:\SOFTWARE\Microsoft\RDInfraAgent"


@pytest.mark.parametrize(("token", "registered"), [("good", 1), ("old", 0)])
def test_the_program_serves_a_state_and_registers_at_a_broker(
    tmp_path: Path, broker: str, token: str, registered: int
) -> None:
    (tmp_path / "host.json").write_text(json.dumps(_agent(token)))
    asked = ["--state", str(tmp_path / "host.json"), "--listen", "127.0.0.1:0", "--broker", broker]
    program = [sys.executable, str(ROOT / "molecule" / "_shared" / "windows"), *asked]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        found = variables(Host.nv_a10(), said["address"], said["port"])
        _asked(found, "win_service", None, name="RDAgentBootLoader", state="restarted")
        read = _asked(found, "win_reg_stat", None, path=AGENT, name="IsRegistered")
        process.terminate()
    assert read["value"] == registered
    vm = "52914400-d3e2-5226-9216-00a16a28b876"
    assert _Broker.taken[-1] == {"token": token, "vmId": vm, "name": "nv0"}


@pytest.mark.parametrize(
    ("state", "more", "said"),
    [
        ('{"names": 1}', [], "no such field: names"),
        ("[", [], "Expecting value"),
        ("{}", ["--listen", "5985"], "--listen 5985 is no ADDRESS:PORT"),
        ("{}", ["--key", "x"], "--certificate and --key go together"),
        ('{"gpus": [{"nmae": "x"}]}', [], "unexpected keyword argument 'nmae'"),
        ('{"registry": {"HKCU:\\\\a": {}}}', [], "registry hive HKCU: is not known"),
    ],
)
def test_the_program_says_what_it_cannot_serve(
    tmp_path: Path, state: str, more: list[str], said: str
) -> None:
    (tmp_path / "host.json").write_text(state)
    asked = ["--state", str(tmp_path / "host.json"), *more]
    program = [sys.executable, str(ROOT / "molecule" / "_shared" / "windows"), *asked]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_password_is_refused(served: tuple[Host, Found]) -> None:
    _, found = served
    with pytest.raises(AuthenticationError):
        _asked(found, "win_ping", {"password": "wrong"})


def test_a_dead_host_takes_no_connection(served: tuple[Host, Found]) -> None:
    host, found = served
    host.faults.dead = True
    with pytest.raises(NoConnection):
        _asked(found, "win_ping")
    host.faults.dead = False
    assert _asked(found, "win_ping")["ping"] == "pong"


def test_a_silent_host_answers_nothing(served: tuple[Host, Found]) -> None:
    host, found = served
    host.faults.silent = True
    with pytest.raises(ReadTimeout):
        _asked(found, "win_ping", {"read_timeout": 1})
    host.faults.silent = False


def test_a_slow_host_answers_after_an_operation_timed_out(served: tuple[Host, Found]) -> None:
    host, found = served
    host.faults.slow_seconds = 1.5
    assert _asked(found, "win_ping", {"operation_timeout": 1})["ping"] == "pong"


def test_its_first_word_of_a_script_is_what_the_script_says(served: tuple[Host, Found]) -> None:
    """Source: Windows' answers that pypsrp keeps for its own tests, none of which says Running."""
    host, found = served
    host.faults.slow_seconds = 0.5
    with _client(found) as client, RunspacePool(client) as pool:
        shell = PowerShell(pool)
        shell.add_script(pipeline.bootstrap())
        shell.begin_invoke(_manifest("ansible.windows.win_ping", {}))
        shell.poll_invoke()
        assert json.loads(shell.output[0])["ping"] == "pong"
        shell.end_invoke()


def test_a_boot_ends_its_sessions(served: tuple[Host, Found]) -> None:
    host, found = served
    with _client(found) as client, RunspacePool(client) as pool:
        host.reboot()
        shell = PowerShell(pool)
        shell.add_script(pipeline.bootstrap())
        with pytest.raises(WSManFaultError, match="The shell was not found"):
            shell.invoke(_manifest("ansible.windows.win_ping", {}))
        host.boots = 0
    assert _asked(found, "win_ping")["ping"] == "pong"


def test_two_runs_at_once_lose_nothing(served: tuple[Host, Found]) -> None:
    host, found = served
    wrong: list[Any] = []

    def run(number: int) -> None:
        for count in range(5):
            told = {"path": KEY, "name": f"n{number}-{count}", "data": number, "type": "dword"}
            done = _asked(found, "win_regedit", **told)
            same = _asked(found, "win_regedit", path=KEY, name="same", data="x")
            if not done.get("changed") or same.get("failed"):
                wrong.append((done, same))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    key = host.registry.get(KEY)
    assert (wrong, len(key.values) if key else 0) == ([], 21)


def test_its_own_mistake_is_said_and_hangs_nobody(
    served: tuple[Host, Found], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: Any) -> dict[str, Any]:
        raise RuntimeError("oh")

    ping = MODULES["ansible.windows.win_ping"]
    own = type(ping)(ping.name, ping.options, broken, ping.check_mode)
    monkeypatch.setitem(MODULES, ping.name, own)
    assert "its own mistake: RuntimeError('oh')" in _asked(served[1], "win_ping")["msg"]
    assert "RuntimeError: oh" in capsys.readouterr().err


# Anything


def _sent(found: Found, data: bytes, *, end: bool = True) -> bytes:
    """What comes back for some bytes."""
    address = (found["ansible_host"], found["ansible_port"])
    with socket.create_connection(address, timeout=5) as connection:
        connection.sendall(data)
        if end:
            connection.shutdown(socket.SHUT_WR)
        got = b""
        while block := connection.recv(65536):
            got += block
        return got


BASIC = b"Authorization: Basic dHJ1ZXVwOnNpbXVsYXRlZA==\r\n"


@pytest.mark.parametrize(
    ("data", "first"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", b""),
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 501"),
        (b"POST /wsman HTTP/1.1\r\n\r\n", b"HTTP/1.1 411"),
        (b"POST /wsman HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"HTTP/1.1 411"),
        (b"POST /wsman HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"HTTP/1.1 413"),
        (b"POST /wsman HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcd", b"HTTP/1.1 401"),
        (b"POST /wsman HTTP/1.1\r\nContent-Length: 40\r\n" + BASIC + b"\r\nhalf", b""),
        (b"POST /other HTTP/1.1\r\nContent-Length: 1\r\n" + BASIC + b"\r\na", b"HTTP/1.1 404"),
        (b"POST /wsman HTTP/1.1\r\nContent-Length: 1\r\n" + BASIC + b"\r\na", b"HTTP/1.1 500"),
        (
            b"POST /wsman HTTP/1.1\r\nAuthorization: Negotiate AAAA\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 401",
        ),
        (
            b"POST /wsman HTTP/1.1\r\nAuthorization: Basic \xff\xff\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 401",
        ),
    ],
    ids=[
        "tls",
        "method",
        "no length",
        "negative length",
        "endless",
        "nobody",
        "half",
        "path",
        "no xml",
        "no token",
        "no base64",
    ],
)
def test_garbage_on_the_socket_ends_that_connection_only(
    served: tuple[Host, Found], data: bytes, first: bytes
) -> None:
    _, found = served
    assert _sent(found, data)[: len(first)] == first
    assert _asked(found, "win_ping")["ping"] == "pong"


def test_many_silent_connections_do_not_keep_others_out(served: tuple[Host, Found]) -> None:
    _, found = served
    address = (found["ansible_host"], found["ansible_port"])
    held = [socket.create_connection(address) for _ in range(40)]
    assert _asked(found, "win_ping")["ping"] == "pong"
    for connection in held:
        reset = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        connection.close()


@pytest.fixture(name="heard")
def _heard(
    served: tuple[Host, Found], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Server, list[bytes]]]:
    """A server, and the envelopes of one whole call."""
    host, found = served
    bodies: list[bytes] = []
    answered = serve.answered

    def kept(server: Server, user: str, body: bytes) -> tuple[int, str]:
        bodies.append(body)
        return answered(server, user, body)

    monkeypatch.setattr(serve, "answered", kept)
    _asked(found, "win_ping")
    monkeypatch.setattr(serve, "answered", answered)
    with Server(("127.0.0.1", 0), host) as server:
        yield server, bodies


def test_broken_envelopes_are_faults(heard: tuple[Server, list[bytes]]) -> None:
    server, bodies = heard
    draw = random.Random(19)
    statuses = set()
    for turn in range(400):
        # All before is as it was, so that the broken one finds its shell and its command.
        server.sessions.clear()
        chosen = draw.randrange(len(bodies))
        for body in bodies[:chosen]:
            serve.answered(server, "trueup", body.replace(b"PT20S", b"PT0S"))
        body = bytearray(bodies[chosen].replace(b"PT20S", b"PT0S"))
        for _ in range(draw.randrange(1, 4)):
            place = draw.randrange(len(body))
            if turn % 3 == 0:
                body[place] = draw.randrange(256)
            elif turn % 3 == 1:
                del body[place : place + draw.randrange(1, 200)]
            else:
                body[place:place] = body[place : place + draw.randrange(1, 200)]
        status, text = serve.answered(server, "trueup", bytes(body))
        statuses.add(status)
        assert text.startswith("<s:Envelope ")
    assert statuses == {200, 500}


def test_a_stranger_has_no_shell(heard: tuple[Server, list[bytes]]) -> None:
    server, bodies = heard
    assert serve.answered(server, "trueup", bodies[0])[0] == 200
    assert serve.answered(server, "other", bodies[1])[0] == 500


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["{}"],
        ["{}", "\0\0\0\0"],
        [json.dumps({"name": "exec_wrapper"}), "\0\0\0\0", "[]"],
        [json.dumps({"name": "exec_wrapper"}), "\0\0\0\0", '{"actions": []}'],
        [json.dumps({"name": "exec_wrapper"}), "\0\0\0\0", '{"actions": [{"name": 5}]}'],
        [
            json.dumps({"name": "exec_wrapper"}),
            "\0\0\0\0",
            json.dumps({"actions": [{"name": "module_wrapper.ps1", "params": {}}]}),
        ],
    ],
)
def test_a_manifest_that_is_none(given: list[str]) -> None:
    said = pipeline.answer(Host.nv_a10(), "trueup", pipeline.bootstrap(), given)
    assert json.loads(said.output[0])["msg"].startswith("simulated Windows host: ")
    assert said.status == 1


def test_another_configuration_is_not_known(served: tuple[Host, Found]) -> None:
    with _client(served[1]) as client:
        pool = RunspacePool(client, configuration_name="JEA")
        with pytest.raises(WSManFaultError, match="JEA is not known"):
            pool.open()


def test_an_unknown_size_has_no_host() -> None:
    with pytest.raises(UnknownError, match="VM size Standard_D4 is not known"):
        Host.nv_a10("Standard_D4")
