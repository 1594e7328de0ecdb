"""The simulated Windows host behaves as windows_a10.md and the modules' sources say."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from simulated_windows import (
    FRAGMENTS,
    File,
    Gpu,
    Host,
    Installer,
    Leaves,
    Product,
    fragment,
    run,
)

URL = "https://download.example/grid.exe"
EXE = r"C:\Windows\Temp\grid.exe"


@pytest.fixture
def host() -> Host:
    return Host.nv_a10()


def _failed(result: dict[str, Any]) -> str:
    assert result.get("failed") is True
    return str(result["msg"])


# Downloads


def _sha(text: bytes, algorithm: str) -> str:
    return hashlib.new(algorithm, text).hexdigest()


def test_a_wrong_file_is_refused_and_the_right_one_stays(host: Host) -> None:
    host.downloads[URL] = File(b"other")
    host.write(EXE, File(b"grid"))
    told = {"checksum": _sha(b"grid", "sha256"), "checksum_algorithm": "sha256"}
    assert run(host, "win_get_url", url=URL, dest=EXE, force=False, **told)["changed"] is False
    assert "did not match" in _failed(run(host, "win_get_url", url=URL, dest=EXE, **told))
    assert host.file(EXE) == File(b"grid")


# Installers


def _installer(host: Host, **how: Any) -> None:
    host.write(EXE, File(b"grid"))
    leaves = Leaves(products={"NVIDIA Graphics Driver 574.24": Product("574.24", "NVIDIA")})
    whole = {"arguments": ["-s", "-noreboot"], "needs": ["-s"], "leaves": leaves, **how}
    host.installers[_sha(b"grid", "sha256")] = Installer(**whole)


@parametrized(("told", "said"))
def test_an_installer_answers_no_question(host: Host, told: dict[str, Any], said: str) -> None:
    _installer(host)
    assert _failed(run(host, "win_package", path=EXE, **told)) == f"simulated Windows host: {said}"


def test_an_unknown_installer_is_not_known(host: Host) -> None:
    host.write(EXE, File(b"anything"))
    assert "installer grid.exe of sha256" in _failed(run(host, "win_package", path=EXE))


def test_an_installer_that_is_not_there(host: Host) -> None:
    said = _failed(run(host, "win_package", path=EXE))
    assert said == f"the file at the path '{EXE}' cannot be reached"


# Archives, files


def test_an_archive_may_not_leave_its_folder(host: Host) -> None:
    zipped = r"C:\Windows\Temp\a.zip"
    host.write(zipped, File(b"", holds={"../../evil.exe": File(b"")}))
    done = run(host, "community.windows.win_unzip", src=zipped, dest=r"C:\a\b")
    assert "outside the destination" in _failed(done)


def test_a_file_that_is_no_archive(host: Host) -> None:
    host.write(r"C:\a.zip", File(b"no zip"))
    done = run(host, "community.windows.win_unzip", src=r"C:\a.zip", dest=r"C:\a")
    assert "Error unzipping" in _failed(done)


# Accounts


def test_a_credential_needs_become_and_its_secret_is_never_compared(host: Host) -> None:
    told = {
        "name": "account.file.core.windows.net",
        "type": "domain_password",
        "username": "localhost\\account",
        "secret": "not-a-real-key",
    }
    assert "run the module with become" in _failed(run(host, "win_credential", **told))
    found = [run(host, "win_credential", become="SYSTEM", **told)["changed"] for _ in range(2)]
    kept = run(host, "win_credential", become="SYSTEM", **told, update_secret="on_create")
    assert (found, kept["changed"]) == ([True, True], False)
    assert [entry["secret"] for entry in host.credentials.values()] == ["not-a-real-key"]
    assert "not-a-real-key" not in host.said() + json.dumps(kept)
    assert [entry["user"] for entry in host.process_log] == ["SYSTEM"] * 3


def test_a_group_takes_accounts_that_are(host: Host) -> None:
    host.accounts.append("EXAMPLE\\cad-users")
    host.groups["FSLogix Profile Include List"] = ["Everyone"]
    told = {"name": "fslogix profile include list"}
    added = run(host, "win_group_membership", members=["example\\CAD-users", "trueup"], **told)
    assert added["added"] == ["EXAMPLE\\cad-users", "NV0\\trueup"]
    assert added["members"] == ["Everyone", "EXAMPLE\\cad-users", "NV0\\trueup"]
    again = run(host, "win_group_membership", members=[".\\trueup"], **told)
    assert (again["changed"], again["added"]) == (False, [])
    said = _failed(run(host, "win_group_membership", members=["nobody"], **told))
    assert said.startswith("account_name nobody is not a valid account")
    lone = run(host, "win_group_membership", members=["Everyone"], state="pure", check=True, **told)
    assert (lone["members"], lone["removed"]) == ("Everyone", ["EXAMPLE\\cad-users", "NV0\\trueup"])
    assert "Could not find local group" in _failed(
        run(host, "win_group_membership", name="None", members=["Everyone"])
    )


# Registry


@parametrized(("told", "said"))
def test_a_value_of_another_type_is_refused(host: Host, told: dict[str, Any], said: str) -> None:
    told = {"path": r"HKLM:\SOFTWARE\a", "name": "x", "type": "dword", **told}
    assert _failed(run(host, "win_regedit", **told)).startswith(said)


# Commands and fragments


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


def test_there_is_one_stand_in_for_each() -> None:
    with pytest.raises(ValueError, match="two stand for controller"):
        fragment("controller/trueup_controller/desktops/signature.ps1")(lambda *_: {})


# Metadata


def test_a_url_it_does_not_know(host: Host) -> None:
    done = run(host, "win_uri", url="https://example.com/")
    assert _failed(done) == "simulated Windows host: url https://example.com/ is not known"


# The agent of Azure Virtual Desktop


# Faults, state


def test_a_state_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match="no such field: serivces"):
        Host.load({"serivces": {}})


# What small faults in the simulation would change (found by tests/mutants.py on it)


def test_a_feature_is_of_windows_server(host: Host) -> None:
    told = {"name": ["RDS-RD-Server"]}
    assert "does not support the cmdlets" in _failed(run(host, "win_feature", **told))
    host.os_name = "Microsoft Windows Server 2025 Datacenter"
    assert "feature RDS-RD-Server is not known" in _failed(run(host, "win_feature", **told))
    host.features["RDS-RD-Server"] = False
    done, again = (run(host, "win_feature", **told) for _ in range(2))
    names = ("changed", "reboot_required", "exitcode")
    assert [done[name] for name in names] == [True, True, "SuccessRestartRequired"]
    assert [again[name] for name in names] == [False, False, "NoChangeNeeded"]
    assert done["feature_result"][0]["success"] is True
    assert (host.features["RDS-RD-Server"], host.pending_reboot) == (True, True)


def test_arguments_that_have_to_be_there(host: Host) -> None:
    assert _failed(run(host, "win_stat")) == "missing required arguments: path"
    said = _failed(run(host, "win_package", state="present"))
    assert said == "state is present but all of the following are missing: path"
    wrong = _failed(run(host, "win_wait_for", port="many"))
    assert wrong.startswith("argument for port is of type str and we were unable to convert to int")
    word = _failed(run(host, "win_stat", path="C:", follow="perhaps"))
    assert "The value 'perhaps' is not a valid boolean" in word
    alias = run(host, "win_stat", dest=r"C:\Windows")
    assert alias["invocation"]["module_args"]["path"] == r"C:\Windows"
