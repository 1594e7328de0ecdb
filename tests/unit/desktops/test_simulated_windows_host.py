"""The simulated Windows host refuses the modules, commands and fragments that it does not know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from simulated_windows import FRAGMENTS, File, Gpu, Host, run

EXE = r"C:\Windows\Temp\grid.exe"


@pytest.fixture
def host() -> Host:
    return Host.nv_a10()


def _failed(result: dict[str, Any]) -> str:
    assert result.get("failed") is True
    return str(result["msg"])


def test_an_unknown_installer_is_not_known(host: Host) -> None:
    host.write(EXE, File(b"anything"))
    assert "installer grid.exe of sha256" in _failed(run(host, "win_package", path=EXE))


@parametrized(("line", "said"))
def test_a_command_it_does_not_know(host: Host, line: str, said: str) -> None:
    host.gpu_driver, host.gpus = "574.24", [Gpu()]
    done = run(host, "win_command", _raw_params=line)
    assert _failed(done) == f"simulated Windows host: {said} is not known"


def test_a_fragment_is_known_by_its_whole_text(
    host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "# Looks.\r\nparam($Name, $Key)\r\n$Ansible.Changed = $false\r\n"
    (tmp_path / "look.ps1").write_text(text)
    monkeypatch.setattr("windows.modules.powershell.ROOT", tmp_path)
    script = "# Looks.\nparam($Name, $Key)\n$Ansible.Changed = $false"
    secret = [{"name": "Key", "value": "not-a-real-key"}]
    assert "PowerShell beginning '# Looks." in _failed(run(host, "win_powershell", script=script))
    monkeypatch.setitem(
        FRAGMENTS, "look.ps1", lambda _, given: {"changed": False, "result": {"given": given}}
    )
    told = {"parameters": {"Name": "a"}, "sensitive_parameters": secret}
    done = run(host, "win_powershell", script=script, **told)
    assert done["result"]["given"]["Name"] == "a"
    assert "not-a-real-key" not in json.dumps(done) + host.said()
    changed = run(host, "win_powershell", script=script + "\nRemove-Item x", **told)
    assert "is not known" in _failed(changed)
    skipped = run(host, "win_powershell", check=True, script=script, **told)
    assert (skipped["changed"], skipped["msg"]) == (True, "skipped, running in check mode")


def test_a_url_it_does_not_know(host: Host) -> None:
    done = run(host, "win_uri", url="https://example.com/")
    assert _failed(done) == "simulated Windows host: url https://example.com/ is not known"


def test_a_state_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match="no such field: serivces"):
        Host.load({"serivces": {}})
