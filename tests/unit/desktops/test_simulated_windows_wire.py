"""The simulated Windows host's WinRM: its client is pypsrp, and others send it anything."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emulated_cloud import certificates
from helpers import ROOT, parametrized
from pypsrp.exceptions import AuthenticationError, WinRMError, WSManFaultError
from pypsrp.powershell import PowerShell, RunspacePool
from pypsrp.wsman import WSMan
from requests.exceptions import ConnectionError as NoConnection
from simulated_windows import (
    Host,
    pipeline,
    serving,
)

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


@parametrized(("state", "more", "said"))
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


def test_another_configuration_is_not_known(served: tuple[Host, Found]) -> None:
    with _client(served[1]) as client:
        pool = RunspacePool(client, configuration_name="JEA")
        with pytest.raises(WSManFaultError, match="JEA is not known"):
            pool.open()
