"""The simulated Windows host: its tables are those of the collections, and unknown calls fail."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.plugins.loader import fragment_loader, module_loader
from ansible.utils.plugin_docs import get_plugin_docs
from helpers import ROOT
from plays import AS_JSON, answer, playbook, results
from simulated_windows import FRAGMENTS, MODULES, Host, Option, serving


def _documented(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    doc, _, returned, _ = get_plugin_docs(name, "module", module_loader, fragment_loader, False)
    return doc.get("options", {}), returned or {}


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
    "ansible.windows.win_reg_stat": {"name": {"aliases": ["entry", "value"]}}
}


# What only a module's action plugin sets: in the source, not in the documentation.
_PLUGIN = {
    "ansible.windows.win_copy": {
        "_copy_mode",
        "_original_basename",
        "directories",
        "files",
        "symlinks",
    },
    "ansible.windows.win_file": {"_original_basename"},
}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_table_is_the_modules_own(name: str) -> None:
    documented = _shape(_documented(name)[0])
    for option, differs in _SOURCE.get(name, {}).items():
        documented.setdefault(option, {}).update(differs)
    source = Path(module_loader.find_plugin(name, mod_type=".ps1")).read_text()
    own = _PLUGIN.get(name, set())
    assert [option for option in own if option not in source] == []
    ours = {key: of for key, of in _ours(MODULES[name].options).items() if key not in own}
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


_UNKNOWN = [
    ({"ansible.windows.win_hostname": {"name": "x"}}, "module ansible.windows.win_hostname"),
    ({"ansible.windows.win_command": {"argv": ["format.com", "C:"]}}, "program format.com"),
    ({"ansible.windows.win_command": {"cmd": "dir", "chdir": "C:"}}, "option chdir of"),
    ({"ansible.windows.win_reg_stat": {"path": r"HKCU:\Software"}}, "registry hive HKCU:"),
    ({"ansible.windows.win_powershell": {"script": "Get-Date"}}, "PowerShell beginning"),
    ({"ansible.builtin.raw": "Get-Process"}, "script of"),
]


def test_what_it_does_not_know_fails(tmp_path: Path) -> None:
    typo = {"ansible.windows.win_stat": {"path": "C:", "bla": 1}}
    tasks = [task for task, _ in _UNKNOWN]
    *found, refused = _run(tmp_path, Host.nv_a10(), *tasks, typo)
    for result, (_, message) in zip(found, _UNKNOWN, strict=True):
        said = result["msg"] + result.get("stderr", "")
        assert f"simulated Windows host: {message}" in said
        assert "is not known" in said
    assert [result["failed"] for result in (*found, refused)] == [True] * 7
    assert refused["msg"].startswith("Unsupported parameters for (win_stat) module: bla. ")


# What a result holds beside what its module documents: Ansible's own, and what a module gives
# without documenting it (each is in its source).


# A call of each module that answers much.


# Azure runs this one, not Ansible.
_OF_AZURE = {"controller/trueup_controller/desktops/winrm.ps1"}


def test_every_fragment_has_a_stand_in_and_says_what_it_is() -> None:
    listed = ["git", "ls-files", "*.ps1"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    fragments = set(found.stdout.split())
    assert set(FRAGMENTS) == fragments - _OF_AZURE
    heads = {path: (ROOT / path).read_text().partition("param")[0] for path in fragments}
    assert [path for path, head in heads.items() if "# Source: " not in head] == []
    checks = (ROOT / "catalog" / "acceptance.yml").read_text()
    assert [path for path in fragments if Path(path).name not in checks] == []


def test_a_secret_is_in_no_log_and_no_command_line(tmp_path: Path) -> None:
    host = Host.nv_a10()
    credential = {
        "name": "x",
        "type": "domain_password",
        "username": "y",
        "secret": "not-a-real-key",
    }
    as_system = {"become": True, "become_method": "runas", "become_user": "SYSTEM"}
    (kept,) = _run(
        tmp_path,
        host,
        {"ansible.windows.win_credential": credential, **as_system},
        options=("-vvv",),
    )
    assert kept["changed"] is True
    assert "not-a-real-key" not in host.said() + json.dumps(kept)
    assert [each["secret"] for each in host.credentials.values()] == ["not-a-real-key"]
