"""The simulated Windows host's WinRM: its client is pypsrp, and others send it anything."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT, parametrized
from pypsrp.exceptions import AuthenticationError, WSManFaultError
from pypsrp.powershell import PowerShell, RunspacePool
from pypsrp.wsman import WSMan
from simulated_windows import (
    Host,
    pipeline,
    serving,
)

pytestmark = pytest.mark.slow

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


def test_another_configuration_is_not_known(served: tuple[Host, Found]) -> None:
    with _client(served[1]) as client:
        pool = RunspacePool(client, configuration_name="JEA")
        with pytest.raises(WSManFaultError, match="JEA is not known"):
            pool.open()
