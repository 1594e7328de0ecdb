"""The simulated Windows host behaves as windows_a10.md and the modules' sources say."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT
from simulated_windows import (
    FRAGMENTS,
    Faults,
    File,
    Gpu,
    Host,
    Installer,
    Leaves,
    Product,
    Service,
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


def test_win_get_url_compares_by_sha1_unless_it_is_told(host: Host) -> None:
    host.downloads[URL] = File(b"grid")
    done = run(host, "win_get_url", url=URL, dest=EXE, checksum=_sha(b"grid", "sha256"))
    assert _failed(done) == (
        f"The checksum for {URL} did not match '{_sha(b'grid', 'sha256')}', "
        f"it was '{_sha(b'grid', 'sha1')}'"
    )
    assert host.file(EXE) is None


def test_win_get_url_downloads_again_when_it_is_forced_as_it_is_by_default(host: Host) -> None:
    host.downloads[URL] = File(b"grid")
    told = {"checksum": _sha(b"grid", "sha256"), "checksum_algorithm": "sha256"}
    found = [run(host, "win_get_url", url=URL, dest=EXE, **told)["changed"] for _ in range(2)]
    assert (found, len(host.requests)) == ([True, False], 2)
    again = run(host, "win_get_url", url=URL, dest=EXE, force=False, **told)
    assert (again["changed"], len(host.requests)) == (False, 2)
    assert again["checksum_dest"] == _sha(b"grid", "sha256")


def test_a_wrong_file_is_refused_and_the_right_one_stays(host: Host) -> None:
    host.downloads[URL] = File(b"other")
    host.write(EXE, File(b"grid"))
    told = {"checksum": _sha(b"grid", "sha256"), "checksum_algorithm": "sha256"}
    assert run(host, "win_get_url", url=URL, dest=EXE, force=False, **told)["changed"] is False
    assert "did not match" in _failed(run(host, "win_get_url", url=URL, dest=EXE, **told))
    assert host.file(EXE) == File(b"grid")


def test_a_file_may_stand_for_one_of_a_known_sha256(host: Host) -> None:
    host.downloads[URL] = File(b"stands for it", sha256="12" * 32)
    told = {"checksum": "12" * 32, "checksum_algorithm": "sha256"}
    assert run(host, "win_get_url", url=URL, dest=EXE, **told)["checksum_src"] == "12" * 32


def test_a_download_in_check_mode_writes_nothing(host: Host) -> None:
    host.downloads[URL] = File(b"grid")
    assert run(host, "win_get_url", url=URL, dest=EXE, check=True)["changed"] is True
    assert host.file(EXE) is None


# Installers


def _installer(host: Host, **how: Any) -> None:
    host.write(EXE, File(b"grid"))
    leaves = Leaves(products={"NVIDIA Graphics Driver 574.24": Product("574.24", "NVIDIA")})
    whole = {"arguments": ["-s", "-noreboot"], "needs": ["-s"], "leaves": leaves, **how}
    host.installers[_sha(b"grid", "sha256")] = Installer(**whole)


def test_only_3010_is_a_reboot_to_win_package(host: Host) -> None:
    codes = {"expected_return_code": [0, 1, 3010], "arguments": "-s -noreboot"}
    found = []
    for status in (0, 1, 3010):
        _installer(host, status=status, reboot=status != 0)
        done = run(host, "win_package", path=EXE, **codes)
        found.append((done["changed"], done["rc"], done["reboot_required"]))
    assert found == [(True, 0, False), (True, 1, False), (True, 3010, True)]
    assert host.pending_reboot is True


def test_a_failing_installer_leaves_nothing(host: Host) -> None:
    _installer(host, status=1603, output="fatal error")
    done = run(host, "win_package", path=EXE, arguments=["-s"])
    assert _failed(done).startswith("unexpected rc from 'C:\\Windows\\Temp\\grid.exe -s': see rc")
    assert (done["rc"], done["stdout"]) == (1603, "fatal error")
    assert "NVIDIA Graphics Driver 574.24" not in host.products


def test_creates_version_is_an_equality(host: Host) -> None:
    frx = r"C:\Program Files\FSLogix\Apps\frx.exe"
    host.write(frx, File(b"", version="3.26.826.17182"))
    _installer(host)
    told = {"path": EXE, "arguments": "-s", "creates_path": frx}
    same = run(host, "win_package", creates_version="3.26.826.17182", **told)
    older = run(host, "win_package", creates_version="3.26.126.19110", **told)
    assert (same["changed"], older["changed"]) == (False, True)


def test_a_product_id_is_a_key_of_the_registry(host: Host) -> None:
    _installer(host)
    host.add_products({"Siemens NX": Product("2512", product_id="{NX}")})
    told = {"path": EXE, "arguments": "-s"}
    assert run(host, "win_package", product_id="{NX}", **told)["changed"] is False
    assert run(host, "win_package", product_id="{OTHER}", **told)["changed"] is True


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"arguments": "-s -bla"}, "argument -bla of installer grid.exe is not known"),
        ({"arguments": ""}, "installer grid.exe without -s (it asks) is not known"),
        ({"state": "absent"}, "state absent of win_package is not known"),
        ({"chdir": "C:\\"}, "option chdir of module win_package is not known"),
    ],
)
def test_an_installer_answers_no_question(host: Host, told: dict[str, Any], said: str) -> None:
    _installer(host)
    assert _failed(run(host, "win_package", path=EXE, **told)) == f"simulated Windows host: {said}"


def test_an_unknown_installer_is_not_known(host: Host) -> None:
    host.write(EXE, File(b"anything"))
    assert "installer grid.exe of sha256" in _failed(run(host, "win_package", path=EXE))


def test_an_installer_that_is_not_there(host: Host) -> None:
    said = _failed(run(host, "win_package", path=EXE))
    assert said == f"the file at the path '{EXE}' cannot be reached"


def test_what_comes_at_boot_comes_at_boot(host: Host) -> None:
    service = Service("FSLogix Apps Services", needs_reboot=True)
    later = Leaves(gpu_driver="574.24")
    _installer(host, status=3010, reboot=True, at_boot=later)
    host.services["frxsvc"] = service
    run(host, "win_package", path=EXE, arguments="-s")
    assert (host.gpu_driver, host.pending_reboot) == (None, True)
    start = run(host, "win_service", name="frxsvc", state="restarted")
    assert "cannot be started" in _failed(start)
    host.reboot()
    assert (host.gpu_driver, host.pending_reboot, service.state) == ("574.24", False, "started")


def test_a_boot_begins_a_minute_after_the_last_one_at_least(host: Host) -> None:
    begun = []
    for _ in range(3):
        begun.append(datetime.fromisoformat(host.last_boot()).timestamp())
        host.reboot()
    assert [later - sooner >= 60 for sooner, later in pairwise(begun)] == [True, True]


# Archives, files


def test_win_unzip_says_changed_each_time_without_creates(host: Host) -> None:
    zipped = r"C:\Windows\Temp\FSLogix.zip"
    setup = r"C:\fslogix\x64\Release\FSLogixAppsSetup.exe"
    host.write(zipped, File(b"", holds={"x64/Release/FSLogixAppsSetup.exe": File(b"setup")}))
    told = {"src": zipped, "dest": r"C:\fslogix"}
    name = "community.windows.win_unzip"
    assert [run(host, name, **told)["changed"] for _ in range(2)] == [True, True]
    assert run(host, name, creates=setup, **told)["changed"] is False
    assert host.file(setup) == File(b"setup")


def test_an_archive_may_not_leave_its_folder(host: Host) -> None:
    zipped = r"C:\Windows\Temp\a.zip"
    host.write(zipped, File(b"", holds={"../../evil.exe": File(b"")}))
    done = run(host, "community.windows.win_unzip", src=zipped, dest=r"C:\a\b")
    assert "outside the destination" in _failed(done)


def test_a_file_that_is_no_archive(host: Host) -> None:
    host.write(r"C:\a.zip", File(b"no zip"))
    done = run(host, "community.windows.win_unzip", src=r"C:\a.zip", dest=r"C:\a")
    assert "Error unzipping" in _failed(done)


def test_a_share_that_cannot_be_reached(host: Host) -> None:
    path = r"\\files\profiles\redirections.xml"
    assert run(host, "win_stat", path=path)["stat"] == {"exists": False}
    assert "network path was not found" in _failed(
        run(host, "win_file", path=path, state="directory")
    )
    host.shares.append(r"\\FILES\profiles")
    assert run(host, "win_file", path=path, state="directory")["changed"] is True
    assert run(host, "win_stat", path=path)["stat"]["isdir"] is True


def test_a_port_is_there_or_it_is_not(host: Host) -> None:
    host.endpoints.append("files.example:445")
    there = run(host, "win_wait_for", host="files.example", port=445, timeout=5)
    gone = run(host, "win_wait_for", host="other.example", port=445, timeout=5)
    assert (there["changed"], gone["elapsed"]) == (False, 5.0)
    assert _failed(gone) == "timeout while waiting for other.example:445 to start listening"


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


def test_a_group_is_made_with_members(host: Host) -> None:
    told = {"name": "CAD", "members": {"add": ["trueup"]}}
    assert run(host, "win_group", check=True, **told)["sid"] == "S-1-5-0000"
    assert [run(host, "win_group", **told)["changed"] for _ in range(2)] == [True, False]
    assert host.groups["CAD"] == ["NV0\\trueup"]


# Registry


@pytest.mark.parametrize(
    ("kind", "data", "held"),
    [
        ("dword", "0x10", 16),
        ("dword", 4294967295, 4294967295),
        ("qword", 2**40, 2**40),
        ("dword", None, 0),
        ("string", 5, "5"),
        ("multistring", "one", ["one"]),
        ("multistring", ["a", "b"], ["a", "b"]),
        ("expandstring", "%SystemRoot%\\x", "%SystemRoot%\\x"),
    ],
)
def test_a_value_is_held_with_its_type(host: Host, kind: str, data: Any, held: Any) -> None:
    key = r"HKLM:\SOFTWARE\trueup"
    done = run(host, "win_regedit", path=key, name="x", type=kind, data=data)
    again = run(host, "win_regedit", path=key, name="x", type=kind, data=data)
    read = run(host, "win_reg_stat", path=key, name="x")
    assert (done["changed"], again["changed"], read["raw_value"]) == (True, False, held)


def test_an_expandable_string_is_read_expanded(host: Host) -> None:
    key = r"HKLM:\SOFTWARE\trueup"
    told = {"type": "expandstring", "data": "%SystemRoot%\\x"}
    run(host, "win_regedit", path=key, name="x", **told)
    read = run(host, "win_reg_stat", path=key, name="x")
    assert (read["value"], read["raw_value"]) == (r"C:\Windows\x", "%SystemRoot%\\x")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"data": 2**32}, "data cannot be larger than 0xffffffff when type is dword"),
        ({"data": "many"}, 'Cannot convert value "many" to type "System.UInt64".'),
        ({"data": 1.5}, "data '1.5' cannot be a decimal or float value with a remainder when "),
        ({"type": "float", "data": 1}, "value of type must be one of: "),
    ],
)
def test_a_value_of_another_type_is_refused(host: Host, told: dict[str, Any], said: str) -> None:
    told = {"path": r"HKLM:\SOFTWARE\a", "name": "x", "type": "dword", **told}
    assert _failed(run(host, "win_regedit", **told)).startswith(said)


def test_check_mode_of_the_registry_changes_nothing(host: Host) -> None:
    before = host.registry.dump()
    told = {"path": r"HKLM:\SOFTWARE\trueup\a", "name": "x", "type": "dword", "data": 1}
    done = run(host, "win_regedit", check=True, **told)
    gone = run(
        host, "win_regedit", check=True, path=r"HKLM:\SOFTWARE\Policies\Microsoft", state="absent"
    )
    assert (done["changed"], gone["changed"], host.registry.dump()) == (True, True, before)


def test_an_absent_name_goes_and_an_absent_key_goes_with_all_below(host: Host) -> None:
    key = r"HKLM:\SOFTWARE\FSLogix\Profiles"
    host.registry.set(key, "Enabled", "dword", 1)
    host.registry.set(key, "SizeInMBs", "dword", 30000)
    gone = run(host, "win_regedit", path=key, name="enabled", state="absent")
    again = run(host, "win_regedit", path=key, name="enabled", state="absent")
    assert (gone["changed"], again["changed"]) == (True, False)
    assert gone["diff"]["before"][key] == {"enabled": {"type": "DWord", "value": "0x00000001"}}
    run(host, "win_regedit", path=r"HKLM:\SOFTWARE\FSLogix", state="absent")
    assert host.registry.get(key) is None


# Commands and fragments


def test_nvidia_smi_is_there_with_the_driver_only(host: Host) -> None:
    argv = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    gone = run(host, "win_command", argv=argv)
    assert (gone["rc"], gone["failed"]) == (2, True)
    host.gpu_driver, host.gpus = "574.24", [Gpu()]
    said = run(host, "win_command", argv=argv)
    assert said["stdout"] == "NVIDIA A10-8Q, 574.24, 8192 MiB\r\n"
    host.gpus[0].error_code = 43
    assert run(host, "win_command", argv=argv)["rc"] == 6


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "nvidia-smi --query-gpu=power.draw --format=csv,noheader",
            "field power.draw of nvidia-smi",
        ),
        ("nvidia-smi -pm 1", "command nvidia-smi -pm 1"),
        ("cmdkey /add:x /pass:y", "program cmdkey"),
        ("C:\\Windows\\System32\\reg.exe query HKLM", "program C:\\Windows\\System32\\reg.exe"),
    ],
)
def test_a_command_it_does_not_know(host: Host, line: str, said: str) -> None:
    host.gpu_driver, host.gpus = "574.24", [Gpu()]
    done = run(host, "win_command", _raw_params=line)
    assert _failed(done) == f"simulated Windows host: {said} is not known"


def test_a_command_in_check_mode_is_skipped(host: Host) -> None:
    done = run(host, "win_command", check=True, argv=["nvidia-smi", "-q"])
    assert (done["skipped"], host.process_log) == (True, [])


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


DEEP = """param (
    [Parameter(Mandatory)][string]$Name,
    [int]$Count = 5,
    [hashtable]$More = @{ a = 1, 2 }
)
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "missing mandatory parameters: name"),
        ({"Name": "a", "Nmae": "b"}, "matches parameter name 'Nmae'"),
        ({"name": "a", "Count": "many"}, 'Cannot convert value "many" to type "System.Int32".'),
    ],
)
def test_parameters_are_bound_as_powershell_does(
    host: Host,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    given: dict[str, Any],
    message: str,
) -> None:
    (tmp_path / "deep.ps1").write_text(DEEP)
    monkeypatch.setattr("windows.modules.powershell.ROOT", tmp_path)
    monkeypatch.setitem(FRAGMENTS, "deep.ps1", lambda *_: {"result": {"a": [{"b": {"c": 1}}]}})
    done = run(host, "win_powershell", script=DEEP, parameters=given)
    assert done["failed"] is True
    assert message in done["error"][0]["exception"]["message"]


def test_a_result_deeper_than_depth_is_flattened(
    host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "deep.ps1").write_text(DEEP)
    monkeypatch.setattr("windows.modules.powershell.ROOT", tmp_path)
    monkeypatch.setitem(
        FRAGMENTS, "deep.ps1", lambda *_: {"result": {"a": [{"b": {"c": [1]}, "d": 2}]}}
    )
    told = {"script": DEEP, "parameters": {"name": "a", "More": {}}}
    flat = run(host, "win_powershell", **told)["result"]
    assert flat == {"a": [{"b": "System.Collections.Hashtable", "d": 2}]}
    whole = run(host, "win_powershell", depth=4, **told)["result"]
    assert whole == {"a": [{"b": {"c": [1]}, "d": 2}]}


def test_there_is_one_stand_in_for_each() -> None:
    with pytest.raises(ValueError, match="two stand for controller"):
        fragment("controller/trueup_controller/desktops/signature.ps1")(lambda *_: {})


# Metadata


INSTANCE = "http://169.254.169.254/metadata/instance?api-version=2021-02-01"


@pytest.mark.parametrize(
    ("url", "headers", "status"),
    [
        (INSTANCE, {"Metadata": "true"}, 200),
        (INSTANCE, {}, 400),
        ("http://169.254.169.254/metadata/instance", {"Metadata": "true"}, 400),
        (INSTANCE.replace("instance", "instance/nothing"), {"Metadata": "true"}, 404),
    ],
)
def test_metadata_answers_as_azures(
    host: Host, url: str, headers: dict[str, str], status: int
) -> None:
    told = {"url": url, "headers": headers, "use_proxy": False, "return_content": True}
    done = run(host, "win_uri", status_code=[200, 400, 404], **told)
    assert done["status_code"] == status
    if status == 200:
        assert done["json"]["compute"]["vmSize"] == "Standard_NV12ads_A10_v5"
        assert done["json"]["compute"]["licenseType"] == "Windows_Client"


def test_metadata_by_a_proxy_and_without_a_service(host: Host) -> None:
    told = {"url": INSTANCE, "headers": {"Metadata": "true"}}
    host.proxy = True
    assert "'502' is not in list" in _failed(run(host, "win_uri", **told))
    host.metadata = None
    gone = run(host, "win_uri", use_proxy=False, **told)
    assert "Unable to connect to the remote server" in _failed(gone)


def test_a_url_it_does_not_know(host: Host) -> None:
    done = run(host, "win_uri", url="https://example.com/")
    assert _failed(done) == "simulated Windows host: url https://example.com/ is not known"


# The agent of Azure Virtual Desktop

AGENT_KEY = r"HKLM:\SOFTWARE\Microsoft\RDInfraAgent"


def _agent(host: Host, token: str) -> None:
    names = ("Remote Desktop Services Infrastructure Agent", "Remote Desktop Agent Boot Loader")
    host.add_products({name: Product("1.0.0.0") for name in names})
    host.services["RDAgentBootLoader"] = Service("Remote Desktop Agent Loader", "stopped")
    host.registry.set(AGENT_KEY, "IsRegistered", "dword", 0)
    host.registry.set(AGENT_KEY, "RegistrationToken", "string", token)


def test_the_agent_registers_when_its_boot_loader_starts(host: Host) -> None:
    host.broker_tokens["good"] = "valid"
    _agent(host, "good")
    run(host, "win_service", name="rdagentbootloader", state="restarted")
    assert host.registry.value(AGENT_KEY, "IsRegistered") == 1
    assert host.registry.value(AGENT_KEY, "RegistrationToken") == ""
    assert "Remote Desktop Services SxS Network Stack" in host.products


@pytest.mark.parametrize("worth", ["expired", None])
def test_a_token_that_is_worth_nothing_is_an_event(host: Host, worth: str | None) -> None:
    if worth:
        host.broker_tokens["old"] = worth
    _agent(host, "old")
    run(host, "win_service", name="RDAgentBootLoader", state="started")
    (event,) = [each for each in host.events if each.source == "WVD-Agent"]
    assert (event.log, event.id, event.message) == (
        "Application",
        3277,
        "INVALID_REGISTRATION_TOKEN",
    )
    assert host.registry.value(AGENT_KEY, "IsRegistered") == 0


# Faults, state


def test_a_fault_of_a_module(host: Host) -> None:
    host.faults = Faults(modules={"ansible.windows.win_ping": "Access is denied."})
    assert _failed(run(host, "win_ping")) == "Access is denied."


def test_a_host_is_the_same_after_json(host: Host) -> None:
    _installer(host, status=3010, at_boot=Leaves(gpu_driver="574.24"))
    run(host, "win_package", path=EXE, arguments="-s")
    host.downloads[URL] = File(b"\x00\xff", holds={"a": File(b"b")})
    again = Host.load(json.loads(json.dumps(host.dump())))
    assert again.dump() == host.dump()
    again.reboot()
    assert (again.gpu_driver, host.gpu_driver) == ("574.24", None)


def test_a_state_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match="no such field: serivces"):
        Host.load({"serivces": {}})


# What small faults in the simulation would change (found by tests/mutants.py on it)


def test_files_and_folders_are_what_is_asked_for(host: Host) -> None:
    folder, file = r"C:\trueup", r"C:\trueup\a.txt"
    made = [run(host, "win_file", path=folder, state="directory")["changed"] for _ in range(2)]
    touched = run(host, "win_file", path=file, state="touch", check=True)
    assert (made, touched["changed"], host.file(file)) == ([True, False], True, None)
    run(host, "win_file", path=file, state="touch")
    assert run(host, "win_file", path=file, state="file")["changed"] is False
    for path, state in ((file, "directory"), (folder, "file")):
        said = _failed(run(host, "win_file", path=path, state=state))
        assert said == f"path {path} is not a {state}"
    assert "will not be created" in _failed(run(host, "win_file", path=r"C:\no", state="file"))
    gone = [run(host, "win_file", path=folder, state="absent")["changed"] for _ in range(2)]
    assert (gone, host.file(file)) == ([True, False], None)


def test_a_stat_tells_a_file_from_a_folder(host: Host) -> None:
    host.write(r"C:\trueup\a.txt", File(b"abc"))
    stat = run(host, "win_stat", path=r"C:\trueup\a.txt")["stat"]
    folder = run(host, "win_stat", path=r"C:/trueup/")["stat"]
    names = ("isdir", "isreg", "isarchive", "size")
    assert [stat[name] for name in names] == [False, True, True, 3]
    assert [folder[name] for name in names] == [True, False, False, 3]
    assert stat["checksum"] == _sha(b"abc", "sha1")
    bare = run(host, "win_stat", path=r"C:\trueup\a.txt", get_checksum=False, get_size=False)
    assert {"checksum", "size"} & set(bare["stat"]) == set()


def test_what_is_to_be_copied_is_what_differs(host: Host) -> None:
    host.write(r"C:\a\same", File(b"1"))
    host.write(r"C:\a\other", File(b"2"))
    files = [{"dest": name, "checksum": _sha(b"1", "sha1")} for name in ("same", "other", "new")]
    told = {"dest": "C:\\a\\", "_copy_mode": "query", "files": files}
    asked = run(host, "win_copy", **told, directories=[{"dest": "b"}])
    assert [each["dest"] for each in asked["files"]] == ["other", "new"]
    assert (asked["directories"], asked["will_change"]) == ([{"dest": "b"}], True)
    calm = run(host, "win_copy", **{**told, "files": files[:1]})
    assert (calm["files"], calm["will_change"]) == ([], False)
    kept = run(host, "win_copy", force=False, **told)
    assert [each["dest"] for each in kept["files"]] == ["new"]


def test_a_remote_copy_needs_its_folder(host: Host) -> None:
    host.write(r"C:\a", File(b"1"))
    told = {"src": r"C:\a", "remote_src": True, "_copy_mode": "remote"}
    assert "does not exist" in _failed(run(host, "win_copy", dest=r"C:\no\b", **told))
    into = run(host, "win_copy", dest="C:\\Windows\\Temp\\", **told)
    assert (into["changed"], into["dest"]) == (True, r"C:\Windows\Temp\a")


def test_a_command_that_is_not_needed_or_fails(host: Host) -> None:
    host.gpu_driver, host.gpus = "574.24", [Gpu(error_code=43)]
    argv = ["nvidia-smi", "-q"]
    for name, path in (("creates", "C:\\Windows"), ("removes", "C:\\nothing")):
        done = run(host, "win_command", argv=argv, **{name: path})
        assert (done["skipped"], done["changed"], done["rc"]) == (True, False, 0)
    for name, path in (("removes", "C:\\Windows"), ("creates", "C:\\nothing")):
        done = run(host, "win_command", argv=argv, **{name: path})
        assert (done["rc"], done["changed"], done["msg"]) == (6, True, "non-zero return code")
    assert "required" in _failed(run(host, "win_command"))
    assert "mutually exclusive" in _failed(run(host, "win_command", argv=argv, cmd="x"))


def test_a_group_goes_and_loses_members(host: Host) -> None:
    run(host, "win_group", name="CAD", members={"set": ["Everyone", "trueup"]})
    run(host, "win_group", name="cad", members={"remove": ["EVERYONE"]})
    assert host.groups["CAD"] == ["NV0\\trueup"]
    two = run(host, "win_group", name="CAD", members={"set": [], "add": ["trueup"]})
    assert "mutually exclusive" in _failed(two)
    assert run(host, "win_group", name="CAD", state="absent", check=True)["changed"] is True
    gone = [run(host, "win_group", name="CAD", state="absent")["changed"] for _ in range(2)]
    assert (gone, "CAD" in host.groups) == ([True, False], False)


def test_members_in_check_mode(host: Host) -> None:
    host.groups["CAD"] = ["Everyone", "NV0\\trueup"]
    told = {"name": "CAD", "state": "absent", "check": True}
    one = run(host, "win_group_membership", members=["Everyone"], **told)
    none = run(host, "win_group_membership", members=["Everyone", "trueup"], **told)
    assert (one["members"], none["members"]) == ("NV0\\trueup", None)
    more = run(host, "win_group_membership", name="CAD", members=["system"], check=True)
    assert more["members"] == ["Everyone", "NV0\\trueup", "NT AUTHORITY\\SYSTEM"]
    assert host.groups["CAD"] == ["Everyone", "NV0\\trueup"]


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


def test_an_installer_of_a_url(host: Host) -> None:
    _installer(host)
    host.downloads[URL] = File(b"grid")
    host.add_products({"Driver": Product("1", product_id="{D}")})
    told = {"path": URL, "arguments": "-s"}
    assert run(host, "win_package", product_id="{D}", **told)["changed"] is False
    assert (host.requests, host.installed) == ([], [])
    assert run(host, "win_package", product_id="{E}", **told)["changed"] is True
    assert (host.requests, host.installed) == ([URL], [URL])


def test_an_msi_is_known_by_its_product_code(host: Host) -> None:
    msi = r"C:\Windows\Temp\agent.msi"
    host.write(msi, File(b"msi"))
    leaves = Leaves(products={"Agent": Product("1", product_id="{A}")})
    arguments = ["REGISTRATIONTOKEN="]
    host.installers[_sha(b"msi", "sha256")] = Installer(
        arguments, leaves=leaves, product_code="{A}"
    )
    told = {"path": msi, "arguments": "REGISTRATIONTOKEN=not-a-real-token"}
    wrong = run(host, "win_package", checksum="00", **told)
    assert "did not match '00'" in _failed(wrong)
    assert [run(host, "win_package", **told)["changed"] for _ in range(2)] == [True, False]
    # The trap: what stands in the arguments is in the log of started processes.
    assert "not-a-real-token" in host.said()
    assert host.process_log[-1]["command_line"].startswith(r"C:\Windows\System32\msiexec.exe /i ")


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


def test_archives_and_their_removal(host: Host) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("folder/", "")
        archive.writestr("folder/a.txt", "abc")
    host.write(r"C:\a.zip", File(packed.getvalue()))
    told = {"src": r"C:\a.zip", "dest": r"C:\out"}
    checked = run(host, "community.windows.win_unzip", check=True, **told)
    assert (checked["changed"], host.file(r"C:\out")) == (True, None)
    done = run(host, "community.windows.win_unzip", delete_archive=True, **told)
    assert (done["removed"], host.file(r"C:\a.zip")) == (True, None)
    assert host.file(r"C:\out\folder\a.txt") == File(b"abc")
    assert "does not exist" in _failed(run(host, "community.windows.win_unzip", **told))


def test_a_credential_goes_and_a_readable_one_is_compared(host: Host) -> None:
    told = {"name": "a", "type": "generic_password", "username": "b", "become": "SYSTEM"}
    made = [run(host, "win_credential", secret="c", **told)["changed"] for _ in range(2)]
    other = run(host, "win_credential", secret="d", **told)["changed"]
    comment = run(host, "win_credential", comment="e", **told)["changed"]
    assert (made, other, comment) == ([True, False], True, True)
    assert [each["secret"] for each in host.credentials.values()] == ["d"]
    checked = run(host, "win_credential", state="absent", check=True, **told)["changed"]
    gone = [run(host, "win_credential", state="absent", **told)["changed"] for _ in range(2)]
    assert (checked, gone, host.credentials) == (True, [True, False], {})


def test_a_service_is_stopped_and_disabled(host: Host) -> None:
    told = {"name": "termservice", "state": "stopped", "start_mode": "disabled"}
    checked = run(host, "win_service", check=True, **told)
    assert (checked["changed"], host.services["TermService"].state) == (True, "started")
    done, again = (run(host, "win_service", **told) for _ in range(2))
    assert (done["changed"], again["changed"], again["state"]) == (True, False, "stopped")
    start = run(host, "win_service", name="TermService", state="started")
    assert "cannot be started" in _failed(start)
    info = run(host, "win_service_info", name="term*")["services"]
    found = [(each["name"], each["start_mode"], each["state"]) for each in info]
    assert found == [("TermService", "disabled", "stopped")]
    assert run(host, "win_service_info", name="nothing") == {
        **run(host, "win_service_info", name="nothing"),
        "exists": False,
        "services": [],
    }
    assert "is not installed" in _failed(run(host, "win_service", name="no", state="started"))
    assert run(host, "win_service", name="no")["exists"] is False


@pytest.mark.parametrize("missing", ["agent", "loader", "token", "service"])
def test_an_agent_that_is_not_whole_registers_nothing(host: Host, missing: str) -> None:
    host.broker_tokens["good"] = "valid"
    _agent(host, "good")
    if missing == "agent":
        del host.products["Remote Desktop Services Infrastructure Agent"]
    elif missing == "loader":
        del host.products["Remote Desktop Agent Boot Loader"]
    elif missing == "token":
        host.registry.unset(AGENT_KEY, "RegistrationToken")
    if missing == "service":
        run(host, "win_service", name="RDAgentBootLoader", start_mode="manual")
    else:
        run(host, "win_service", name="RDAgentBootLoader", state="started")
    assert host.registry.value(AGENT_KEY, "IsRegistered") == 0
    assert [event for event in host.events if event.source == "WVD-Agent"] == []


def test_a_fragment_that_is_not_needed(host: Host) -> None:
    script = (ROOT / "controller/trueup_controller/desktops/avd_events.ps1").read_text()
    told = {"script": script, "parameters": {"Minutes": 5}}
    for name, path in (("creates", "C:\\Windows"), ("removes", "C:\\nothing")):
        done = run(host, "win_powershell", **{name: path}, **told)
        assert (done["changed"], done["msg"].startswith("skipped, since")) == (False, True)
    host.log("Application", "WVD-Agent", 3277, "INVALID_REGISTRATION_TOKEN")
    done = run(host, "win_powershell", removes="C:\\Windows", **told)
    assert [event["id"] for event in done["result"]] == [3277]
