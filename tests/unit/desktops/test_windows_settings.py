"""The actions windows_settings and windows_package, with modules of ansible.windows that answer as
their sources do (ansible.windows 3.3.0, community.windows 3.1.0)."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from action.desktops import windows_package, windows_settings
from ansible.errors import AnsibleActionFail
from helpers import parametrized

PROFILES = r"HKLM:\SOFTWARE\FSLogix\Profiles"
EXCLUDED = "FSLogix Profile Exclude List"
KEY = "never shown"


class Host:
    """Answers by module; what was asked is kept."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        short = name.rpartition(".")[2]
        self.asked.append((short, arguments))
        answer = self.answers.get(short, {"changed": True})
        found: dict[str, Any] = answer(arguments) if callable(answer) else answer
        return found

    def of(self, name: str) -> list[dict[str, Any]]:
        return [arguments for module, arguments in self.asked if module == name]


def act(
    monkeypatch: pytest.MonkeyPatch,
    plugin: Any,
    host: Host,
    *,
    check: bool = False,
    diff: bool = False,
    **arguments: Any,
) -> dict[str, Any]:
    task = SimpleNamespace(args=arguments, async_val=0, check_mode=check, diff=diff, action="x")
    task.copy = lambda: SimpleNamespace(**vars(task))
    copied = SimpleNamespace(
        get=lambda _, task, **__: SimpleNamespace(
            run=lambda task_vars: host("ansible.windows.win_copy", task.args), cleanup=lambda: None
        )
    )
    shared = SimpleNamespace(action_loader=copied)
    templar = SimpleNamespace(template=lambda value: value)
    connection: Any = SimpleNamespace(_shell=SimpleNamespace(tmpdir="C:\\Temp"))
    action = plugin.ActionModule(task, connection, None, None, templar, shared)
    action._shared_loader_obj = shared
    monkeypatch.setattr(
        plugin.ActionModule,
        "_execute_module",
        lambda _, module_name, module_args, task_vars: host(module_name, module_args),
    )
    result: dict[str, Any] = action.run(task_vars={})
    return result


def stat(**values: tuple[str, Any]) -> dict[str, Any]:
    """What win_reg_stat says of a key."""
    shown = {
        name: {"type": kind, "value": data, "raw_value": data}
        for name, (kind, data) in values.items()
    }
    return {"changed": False, "exists": True, "properties": shown, "sub_keys": []}


ENABLED = {"path": PROFILES, "name": "Enabled", "type": "dword", "data": 1}


def test_a_key_is_asked_for_once_and_only_what_differs_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = stat(enabled=("REG_DWORD", 1), SizeInMBs=("REG_DWORD", 5120), Old=("REG_SZ", "x"))
    host = Host(win_reg_stat=there)
    result = act(
        monkeypatch,
        windows_settings,
        host,
        diff=True,
        registry=[
            ENABLED,
            {"path": PROFILES, "name": "SizeInMBs", "type": "dword", "data": 30000},
            {"path": PROFILES, "name": "Old", "state": "absent"},
            {"path": PROFILES, "name": "Gone", "state": "absent"},
        ],
    )
    assert [name for name, _ in host.asked] == ["win_reg_stat", "win_regedit", "win_regedit"]
    assert host.of("win_regedit") == [
        {"path": PROFILES, "name": "SizeInMBs", "state": "present", "type": "dword", "data": 30000},
        {"path": PROFILES, "name": "Old", "state": "absent"},
    ]
    assert result["changes"] == [
        rf"{PROFILES} SizeInMBs: REG_DWORD 5120 -> REG_DWORD 30000",
        rf"{PROFILES} Old: REG_SZ x -> absent",
    ]
    assert [(one["before"], one["after"]) for one in result["diff"]] == [
        ("REG_DWORD 5120\n", "REG_DWORD 30000\n"),
        ("REG_SZ x\n", ""),
    ]


def test_what_is_as_declared_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(
        win_reg_stat=stat(Enabled=("REG_DWORD", 1)),
        win_service={"changed": False},
        win_group_membership={"changed": False, "added": [], "removed": [], "members": ["A"]},
        win_credential={"changed": False},
        win_wait_for={"changed": False},
    )
    result = act(
        monkeypatch,
        windows_settings,
        host,
        settings={"registry": [ENABLED], "services": [{"name": "frxsvc", "state": "started"}]},
        groups=[{"name": EXCLUDED, "members": ["A"]}],
        credentials=[{"name": "st.file.core.windows.net", "username": r"localhost\st"}],
        secrets={"st.file.core.windows.net": KEY},
        reach=[{"host": "st", "port": 445}],
    )
    assert (result["changed"], result["changes"]) == (False, [])
    # In this order: nothing is written before the share has answered.
    assert [name for name, _ in host.asked] == [
        "win_wait_for",
        "win_credential",
        "win_reg_stat",
        "win_service",
        "win_group_membership",
    ]


def test_a_share_that_does_not_answer_stops_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(win_wait_for={"failed": True, "msg": "timed out while waiting for st:445"})
    with pytest.raises(AnsibleActionFail, match=r"^st does not answer at port 445 within 7 s, and"):
        act(
            monkeypatch,
            windows_settings,
            host,
            reach=[{"host": "st", "port": 445, "seconds": 7}],
            registry=[ENABLED],
        )
    assert host.asked == [("win_wait_for", {"host": "st", "port": 445, "timeout": 7})]


def test_a_secret_goes_to_its_module_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    name = "st.file.core.windows.net"
    result = act(
        monkeypatch,
        windows_settings,
        host,
        diff=True,
        credentials=[
            {"name": name, "username": r"localhost\st", "update_secret": "always"},
            {"name": "old.file.core.windows.net", "state": "absent"},
        ],
        secrets={name: KEY},
    )
    assert host.of("win_credential") == [
        {
            "name": name,
            "type": "domain_password",
            "state": "present",
            "update_secret": "always",
            "username": r"localhost\st",
            "secret": KEY,
        },
        {"name": "old.file.core.windows.net", "type": "domain_password", "state": "absent"},
    ]
    assert KEY not in str(result)
    with pytest.raises(AnsibleActionFail, match="secrets has none of that name"):
        act(monkeypatch, windows_settings, host, credentials=[{"name": "x", "username": "y"}])


def test_members_are_set_added_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def membership(arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments["state"] == "pure":
            return {"changed": True, "added": ["NX"], "removed": ["Everyone"]}
        return {"changed": arguments["state"] == "present", "added": ["B"]}

    host = Host(win_group_membership=membership)
    groups = [{"name": "One", "members": ["NX"]}, {"name": "Two", "add": ["B"], "remove": ["C"]}]
    result = act(monkeypatch, windows_settings, host, groups=groups)
    assert [(one["name"], one["state"]) for one in host.of("win_group_membership")] == [
        ("One", "pure"),
        ("Two", "present"),
        ("Two", "absent"),
    ]
    assert result["changes"] == [
        "local group One: has Everyone -> has NX",
        "local group Two: absent -> has B",
    ]


@parametrized(("registry", "said"), ids=["data", "no-name", "whole-key", "hive"])
def test_what_is_no_value_is_refused_before_anything_is_set(
    monkeypatch: pytest.MonkeyPatch, registry: list[dict[str, Any]], said: str
) -> None:
    host = Host(win_reg_stat=stat())
    with pytest.raises(AnsibleActionFail, match=said):
        act(monkeypatch, windows_settings, host, registry=[ENABLED, *registry])
    assert host.of("win_regedit") == []


def test_an_option_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnsibleActionFail, match="no option registri"):
        act(monkeypatch, windows_settings, Host(), settings={"registri": []})


def test_a_failure_names_the_thing_and_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def regedit(arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments["name"] == "Enabled":
            return {"changed": True}
        return {"failed": True, "msg": "failed to change registry property"}

    host = Host(win_reg_stat={"changed": False, "exists": False}, win_regedit=regedit)
    second = {**ENABLED, "name": "IsDynamic"}
    with pytest.raises(AnsibleActionFail, match=r"Profiles IsDynamic: failed to change") as error:
        act(monkeypatch, windows_settings, host, registry=[ENABLED, second])
    assert error.value.result["changes"] == [rf"{PROFILES} Enabled: absent -> REG_DWORD 1"]


# ---- windows_package ----------------------------------------------------------------------------

RECORD = r"HKLM:\SOFTWARE\trueup\fslogix"
SHA256 = "129e111d4acf8502b9351e1cec0c92212dce8222ae5b8223163fbbea518e857c"
FOLDER = r"C:\Program Files\trueup\fslogix\3.26.826.17182"
PACKAGE = {
    "install": True,
    "record": RECORD,
    "name": "FSLogix 3.26.826.17182",
    "url": "https://mirror.example/FSLogix_26.08.zip",
    "sha256": SHA256,
    "folder": FOLDER,
    "setup": r"x64\Release\FSLogixAppsSetup.exe",
    "arguments": ["/install", "/quiet", "/norestart"],
}


def test_a_program_is_downloaded_by_its_sha256_unpacked_and_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(win_package={"changed": True, "reboot_required": False, "rc": 0})
    result = act(monkeypatch, windows_package, host, package=PACKAGE)
    assert (result["changed"], result["reboot_required"]) == (True, False)
    assert [name for name, _ in host.asked] == [
        "win_file",
        "win_get_url",
        "win_unzip",
        "win_package",
        "win_file",
    ]
    [get] = host.of("win_get_url")
    # The module's own default is sha1, and to download again each time.
    assert (get["checksum"], get["checksum_algorithm"], get["force"]) == (SHA256, "sha256", False)
    assert host.of("win_unzip")[0]["creates"] == rf"{FOLDER}\unpacked\{PACKAGE['setup']}"
    assert host.of("win_package")[0]["expected_return_code"] == [0, 3010]
    assert host.of("win_file")[-1] == {"path": FOLDER, "state": "absent"}


@pytest.mark.parametrize("failing", ["win_get_url", "win_unzip", "win_package"])
def test_a_step_that_fails_ends_it(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    host = Host(**{failing: {"failed": True, "msg": "the checksum did not match"}})
    with pytest.raises(AnsibleActionFail, match=r"^FSLogix 3.26.826.17182.*did not match"):
        act(monkeypatch, windows_package, host, package=PACKAGE)
    assert host.asked[-1][0] == failing


def up(seconds: int, begun: str) -> dict[str, Any]:
    """What module setup answers."""
    return {"ansible_facts": {"ansible_uptime_seconds": seconds, "ansible_lastboot": begun}}


@parametrized(("seconds", "begun", "is_owed"))
def test_an_owed_reboot_is_remembered_until_the_host_has_been_rebooted(
    monkeypatch: pytest.MonkeyPatch, seconds: int, begun: str, is_owed: bool
) -> None:
    answer = {"changed": True, "reboot_required": True, "rc": 3010}
    host = Host(win_package=answer, setup=up(1000, "2026-11-23 10:00:00Z"))
    assert act(monkeypatch, windows_package, host, package=PACKAGE)["reboot_required"] is True
    [noted] = host.of("win_regedit")
    assert (noted["path"], noted["name"]) == (RECORD, "RebootOwedInBoot")
    # No clock but the host's counts.
    monkeypatch.setattr(time, "time", lambda: 0.0)
    again = Host(win_reg_stat={"exists": True, "value": noted["data"]}, setup=up(seconds, begun))
    done = act(monkeypatch, windows_package, again, package={**PACKAGE, "install": False})
    assert (done["changed"], done["reboot_required"]) == (False, is_owed)


def test_check_mode_and_an_empty_plan_install_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(win_reg_stat={"exists": False})
    done = act(monkeypatch, windows_package, host, check=True, package=PACKAGE)
    assert (done["changed"], done["reboot_required"]) == (True, False)
    assert [name for name, _ in host.asked] == ["win_reg_stat"]
    done = act(monkeypatch, windows_package, Host(), package={})
    assert (done["changed"], done["reboot_required"]) == (False, False)
