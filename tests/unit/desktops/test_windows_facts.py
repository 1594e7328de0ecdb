"""windows_facts: what modules of ansible.windows answer, as plans read it.

The answers are typed in from the sources of ansible.windows 3.3.0: win_reg_stat.ps1,
win_service_info.ps1, win_stat.ps1 and win_group_membership.ps1.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from action import trueup_plan
from action.desktops import windows_facts
from ansible.errors import AnsibleActionFail
from helpers import parametrized
from trueup_controller.desktops import answers
from trueup_node.errors import BadInput

PROFILES = {
    "changed": False,
    "exists": True,
    "properties": {
        "Enabled": {"type": "REG_DWORD", "value": 1, "raw_value": 1},
        "VHDLocations": {
            "type": "REG_MULTI_SZ",
            "value": ["\\\\files\\profiles"],
            "raw_value": ["\\\\files\\profiles"],
        },
        "LogDir": {
            "type": "REG_EXPAND_SZ",
            "value": "C:\\ProgramData\\FSLogix\\Logs",
            "raw_value": "%ProgramData%\\FSLogix\\Logs",
        },
        "": None,
    },
    "sub_keys": ["ObjectSpecific"],
}
WHOLE = {
    "values": {
        "Enabled": {"type": "REG_DWORD", "data": 1},
        "VHDLocations": {"type": "REG_MULTI_SZ", "data": ["\\\\files\\profiles"]},
        "LogDir": {"type": "REG_EXPAND_SZ", "data": "%ProgramData%\\FSLogix\\Logs"},
    },
    "keys": ["ObjectSpecific"],
}
SERVICE = {
    "changed": False,
    "exists": True,
    "services": [{"name": "frxsvc", "state": "started", "start_mode": "auto", "path": "C:\\f.exe"}],
}
SETUP = "C:\\Windows\\Temp\\FSLogixAppsSetup.exe"
FILE = {"changed": False, "stat": {"exists": True, "isdir": False, "size": 6, "path": SETUP}}
NONE = "Could not find local group FSLogix Profile Exclude List"


@pytest.mark.parametrize("path", ["SOFTWARE\\FSLogix", "HKEY_LOCAL_MACHINE\\SOFTWARE", "HKLM:\\"])
def test_a_key_of_no_hive_is_refused(path: str) -> None:
    with pytest.raises(BadInput, match="it begins with no hive, such as HKLM:"):
        answers.provider_path(path)


def asking(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, dict[str, Any]], **wanted: Any
) -> tuple[Any, list[Any]]:
    """The action, whose host says of each module what is given; what it is asked."""
    seen: list[Any] = []

    def execute(self: Any, module_name: str, module_args: Any, task_vars: Any) -> dict[str, Any]:
        seen.append((module_name, module_args, self._task.check_mode))
        return dict(said[module_name.removeprefix("ansible.windows.")])

    monkeypatch.setattr(windows_facts.ActionBase, "run", lambda *_: {})
    monkeypatch.setattr(windows_facts.ActionModule, "_execute_module", execute)
    made = windows_facts.ActionModule.__new__(windows_facts.ActionModule)
    made._task = SimpleNamespace(args=wanted, check_mode=False)
    return made, seen


def test_a_host_is_asked_and_what_it_says_is_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "win_reg_stat": PROFILES,
        "win_service_info": SERVICE,
        "win_stat": FILE,
        "win_group_membership": {"added": ["Everyone"], "members": ["Everyone"]},
    }
    action, seen = asking(
        monkeypatch,
        said,
        registry=["HKLM\\SOFTWARE\\FSLogix\\Profiles"],
        services=["frxsvc"],
        files=[SETUP],
        groups=["FSLogix Profile Exclude List"],
    )
    assert action.run() == {
        "changed": False,
        "registry": {"HKLM\\SOFTWARE\\FSLogix\\Profiles": WHOLE},
        "services": {"frxsvc": {"state": "started", "start_mode": "auto"}},
        "files": {SETUP: {"size": 6, "is_dir": False}},
        "groups": {"FSLogix Profile Exclude List": []},
    }
    everyone = {"members": ["S-1-1-0"], "state": "present"}
    assert seen == [
        ("ansible.windows.win_reg_stat", {"path": "HKLM:\\SOFTWARE\\FSLogix\\Profiles"}, False),
        ("ansible.windows.win_service_info", {"name": "frxsvc"}, False),
        (
            "ansible.windows.win_stat",
            {"path": SETUP, "get_checksum": False, "checksum_algorithm": "sha256"},
            False,
        ),
        (
            "ansible.windows.win_group_membership",
            {"name": "FSLogix Profile Exclude List", **everyone},
            # The host's groups stay as they are.
            True,
        ),
    ]
    assert action._task.check_mode is False


def test_what_is_not_there_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "win_reg_stat": {"exists": False},
        "win_service_info": {"exists": False, "services": []},
        "win_stat": {"stat": {"exists": False}},
        "win_group_membership": {"failed": True, "msg": NONE},
    }
    names = {"registry": ["HKLM:\\A"], "services": ["b"], "files": ["c"], "groups": ["d"]}
    action, _ = asking(monkeypatch, said, **names)
    nothing = {option: dict.fromkeys(given) for option, given in names.items()}
    assert action.run() == {"changed": False, **nothing}


def test_what_fails_is_named_with_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"win_stat": {"failed": True, "msg": "Access is denied"}}
    action, _ = asking(monkeypatch, said, files=[SETUP])
    with pytest.raises(AnsibleActionFail, match="win_stat: Access is denied"):
        action.run()
    action, seen = asking(monkeypatch, said, registry=["SOFTWARE"])
    with pytest.raises(AnsibleActionFail, match="registry key SOFTWARE: it begins with no hive"):
        action.run()
    assert seen == []


@parametrized(("name", "there", "got"))
def test_a_plan_asks_an_action_of_ours_where_there_is_one(
    name: str, there: bool, got: list[str]
) -> None:
    loaded: list[Any] = []

    class Loader:
        def has_plugin(self, _: str) -> bool:
            return there

        def get(self, name: str, *, task: Any, **_: Any) -> Any:
            loaded.append((name, task.action, task.args))
            return SimpleNamespace(run=lambda task_vars: {"registry": {}, **task_vars})

    action = trueup_plan.ActionModule.__new__(trueup_plan.ActionModule)
    action._shared_loader_obj = SimpleNamespace(action_loader=Loader())
    action._connection = action._play_context = action._loader = action._templar = None
    action._task = SimpleNamespace(copy=SimpleNamespace)
    action._execute_module = lambda **given: {"module": given["module_name"]}
    answer = action._ask(name, {"registry": []}, {})
    assert loaded == [(one, one, {"registry": []}) for one in got]
    assert answer == ({"registry": {}} if got else {"module": name})
