"""The simulated Windows host: its tables are the collections' own, and Ansible talks to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.plugins.loader import fragment_loader, init_plugin_loader, module_loader
from ansible.utils.plugin_docs import get_plugin_docs
from plays import AS_JSON, answer, playbook, results
from simulated_windows import MODULES, Host, Option, serving


@pytest.fixture(scope="module", autouse=True)
def _collections() -> None:
    init_plugin_loader()


def _documented(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    doc, _, returned, _ = get_plugin_docs(name, "module", module_loader, fragment_loader, False)
    return doc["options"], returned or {}


def _shape(options: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {
            "type": option.get("type", "str"),
            "default": option.get("default"),
            "choices": sorted(map(str, option.get("choices", ()))),
            "required": option.get("required", False),
            "aliases": sorted(option.get("aliases", ())),
            "elements": option.get("elements"),
            "options": _shape(option["suboptions"]) if "suboptions" in option else None,
        }
        for name, option in options.items()
    }


def _ours(options: Mapping[str, Option]) -> dict[str, Any]:
    return {
        name: {
            "type": option.type,
            "default": option.default,
            "choices": sorted(option.choices),
            "required": option.required,
            "aliases": sorted(option.aliases),
            "elements": option.elements,
            "options": _ours(option.options) if option.options is not None else None,
        }
        for name, option in options.items()
    }


# Where the module's source (.ps1), which is what runs, has it otherwise than its documentation.
_SOURCE: dict[str, dict[str, dict[str, Any]]] = {
    "ansible.windows.win_reg_stat": {"name": {"aliases": ["entry", "value"]}},
}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_table_is_the_modules_own(name: str) -> None:
    documented = _shape(_documented(name)[0])
    for option, differs in _SOURCE.get(name, {}).items():
        documented.setdefault(option, {}).update(differs)
    ours = _ours(MODULES[name].options)
    assert {option: ours.get(option) for option in {*ours, *documented}} == {
        option: documented.get(option) for option in {*ours, *documented}
    }


def _run(
    folder: Path, host: Host, *tasks: dict[str, Any], options: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """What each task gave on a simulated host; those that failed, too."""
    with serving(host) as (_, found):
        (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": {"nv0": found}}}))
        whole = [{"ignore_errors": True, **task} for task in tasks]
        play = {"hosts": "all", "gather_facts": False, "tasks": whole}
        (folder / "play.yml").write_text(yaml.safe_dump([play]))
        own = {**AS_JSON, "ANSIBLE_CACHE_PLUGIN": "memory"}
        names = (str(folder / "play.yml"), "-i", str(folder / "hosts.json"))
        done = playbook(folder, *names, *options, env=own)
    return results(answer(done), "nv0")


def _of(result: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: result[name] for name in names if name in result}


KEY = r"HKLM:\SOFTWARE\FSLogix\Profiles"


def test_ansible_reads_and_writes_the_registry(tmp_path: Path) -> None:
    value = {"path": KEY, "name": "Enabled", "data": 1, "type": "dword"}
    host = Host.nv_a10()
    made, again, retyped, read, key, gone = _run(
        tmp_path,
        host,
        {"ansible.windows.win_regedit": value},
        {"ansible.windows.win_regedit": {**value, "name": "ENABLED"}},
        {"ansible.windows.win_regedit": {**value, "data": "1", "type": "string"}},
        {"ansible.windows.win_reg_stat": {"path": KEY.lower(), "name": "enabled"}},
        {"ansible.windows.win_reg_stat": {"path": r"HKLM:\SOFTWARE\FSLogix"}},
        {"ansible.windows.win_reg_stat": {"path": KEY + r"\Nothing"}},
    )
    kinds = ("changed", "data_changed", "data_type_changed")
    assert _of(made, *kinds) == dict(zip(kinds, (True, False, False), strict=True))
    assert _of(again, *kinds) == dict(zip(kinds, (False, False, False), strict=True))
    assert _of(retyped, *kinds) == dict(zip(kinds, (True, True, True), strict=True))
    wanted = {"exists": True, "type": "REG_SZ", "value": "1", "raw_value": "1"}
    assert _of(read, *wanted) == wanted
    wanted = {"exists": True, "properties": {}, "sub_keys": ["Profiles"]}
    assert _of(key, *wanted) == wanted
    assert gone["exists"] is False
    assert host.registry.value(KEY, "Enabled") == "1"


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"ansible.windows.win_hostname": {"name": "x"}}, "module ansible.windows.win_hostname"),
        ({"ansible.windows.win_command": {"argv": ["format.com", "C:"]}}, "program format.com"),
        (
            {"ansible.windows.win_command": {"_raw_params": "dir", "chdir": "C:\\"}},
            "option chdir of",
        ),
        ({"ansible.windows.win_reg_stat": {"path": r"HKCU:\Software"}}, "registry hive HKCU:"),
        ({"ansible.builtin.raw": "Get-Process"}, "script of"),
    ],
    ids=["module", "program", "option", "hive", "script"],
)
def test_what_it_does_not_know_fails(tmp_path: Path, task: dict[str, Any], message: str) -> None:
    (result,) = _run(tmp_path, Host.nv_a10(), task)
    assert result["failed"]
    said = result["msg"] + result.get("stderr", "")
    assert f"simulated Windows host: {message}" in said
    assert "is not known" in said


def test_an_argument_that_no_module_has_is_refused(tmp_path: Path) -> None:
    (result,) = _run(
        tmp_path, Host.nv_a10(), {"ansible.windows.win_stat": {"path": "C:\\", "bla": 1}}
    )
    assert result["msg"].startswith("Unsupported parameters for (win_stat) module: bla. ")


def test_it_boots_again(tmp_path: Path) -> None:
    host = Host.nv_a10()
    reboot, ping = _run(
        tmp_path, host, {"ansible.windows.win_reboot": {}}, {"ansible.windows.win_ping": {}}
    )
    assert (reboot["rebooted"], ping["ping"], host.boots) == (True, "pong", 1)
