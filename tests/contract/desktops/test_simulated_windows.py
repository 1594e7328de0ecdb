"""The simulated Windows host: its tables are the collections' own, and Ansible talks to it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.plugins.loader import fragment_loader, init_plugin_loader, module_loader
from ansible.utils.plugin_docs import get_plugin_docs
from helpers import ROOT
from plays import AS_JSON, answer, playbook, results
from simulated_windows import FRAGMENTS, MODULES, File, Gpu, Host, Installer, Option, run, serving


@pytest.fixture(scope="module", autouse=True)
def _collections() -> None:
    init_plugin_loader()


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
    "ansible.windows.win_reg_stat": {"name": {"aliases": ["entry", "value"]}},
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
_OWN = {"changed", "failed", "msg", "invocation", "warnings", "skipped", "diff"}
_UNDOCUMENTED = {
    "community.windows.win_unzip": set(),
    "ansible.windows.win_copy": {"files", "directories", "symlinks", "will_change"},
    "ansible.windows.win_feature": {"success"},
    "ansible.windows.setup": {"ansible_facts"},
    "ansible.windows.win_ping": {"ping"},
    "ansible.windows.win_reg_stat": {"exists", "type", "value", "raw_value"},
    "ansible.windows.win_service": {"description"},
    # Documented with a spelling mistake.
    "ansible.windows.win_service_info": {"failure_actions_on_non_crash_failure"},
    "ansible.windows.win_uri": {"content_type", "response_uri"},
}


def _hosts() -> tuple[Host, Host]:
    """A session host, and a Windows Server."""
    host, server = Host.nv_a10(), Host.nv_a10()
    host.gpu_driver, host.gpus = "574.24", [Gpu()]
    host.downloads["http://x/a.zip"] = File(b"a", holds={"b": File(b"b")})
    host.installers[File(b"a").digest("sha256")] = Installer()
    host.write(r"C:\a.zip", File(b"a", holds={"b": File(b"b")}))
    server.os_name, server.features = "Microsoft Windows Server 2025", {"RDS-RD-Server": False}
    return host, server


_CURRENT = r"HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion"
# A call of each module that answers much.
_CALLS: dict[str, list[dict[str, Any]]] = {
    "ansible.windows.setup": [{}],
    "ansible.windows.win_command": [{"argv": ["nvidia-smi", "-q"]}],
    "ansible.windows.win_copy": [{"src": r"C:\a.zip", "dest": r"C:\b", "remote_src": True}],
    "ansible.windows.win_credential": [
        {"name": "a", "type": "domain_password", "username": "b", "secret": "c"}
    ],
    "ansible.windows.win_feature": [{"name": ["RDS-RD-Server"]}],
    "ansible.windows.win_file": [{"path": r"C:\new", "state": "directory"}],
    "ansible.windows.win_get_url": [{"url": "http://x/a.zip", "dest": r"C:\c.zip"}],
    "ansible.windows.win_group": [{"name": "CAD"}],
    "ansible.windows.win_group_membership": [
        {"name": "Users", "members": ["Everyone"], "state": "pure"}
    ],
    "ansible.windows.win_package": [{"path": r"C:\a.zip"}],
    "ansible.windows.win_ping": [{}],
    "ansible.windows.win_product_facts": [{}],
    "ansible.windows.win_reg_stat": [{"path": _CURRENT}, {"path": _CURRENT, "name": "UBR"}],
    "ansible.windows.win_regedit": [{"path": _CURRENT, "name": "a", "data": "b"}],
    "ansible.windows.win_service": [{"name": "WinRM", "state": "stopped"}],
    "ansible.windows.win_service_info": [{"name": "WinRM"}],
    "ansible.windows.win_stat": [{"path": r"C:\a.zip"}],
    "ansible.windows.win_uri": [
        {
            "url": "http://169.254.169.254/metadata/instance?api-version=2021-02-01",
            "headers": {"Metadata": "true"},
            "return_content": True,
        }
    ],
    "ansible.windows.win_wait_for": [{"path": r"C:\a.zip"}],
    "community.windows.win_unzip": [{"src": r"C:\a.zip", "dest": r"C:\d"}],
}


def _result(name: str, call: dict[str, Any], *, check: bool = False) -> tuple[Host, dict[str, Any]]:
    """What a call gives, and the host afterwards."""
    host = _hosts()[name.endswith("win_feature")]
    # What win_copy does by its action plugin is a mode of the module.
    own = {"_copy_mode": "remote"} if name.endswith("win_copy") else {}
    return host, run(host, name, check=check, become="SYSTEM", **call, **own)


# Documented, and not the module's: Ansible makes them of stdout, or only a failure has them.
_NOT_ITS_OWN = {"msg", "stdout_lines", "stderr_lines"}

_TYPES = {
    "bool": bool,
    "str": str,
    "int": int,
    "float": (int, float),
    "list": list,
    "dict": dict,
    "complex": (dict, list),
    "raw": object,
}


def _against(found: Any, documented: Mapping[str, Any], own: set[str], where: str) -> list[str]:
    """What a result has otherwise than the documentation of what is returned."""
    wrong = []
    for name, value in found.items():
        if name in own:
            continue
        if name not in documented:
            wrong.append(f"{where}{name} is not documented")
            continue
        of = documented[name]
        if value is not None and not isinstance(value, _TYPES[of.get("type", "raw")]):
            wrong.append(f"{where}{name} is {type(value).__name__}, not {of['type']}")
        if "contains" in of:
            for each in value if isinstance(value, list) else [value]:
                wrong += _against(each, of["contains"], own, f"{where}{name}.")
    always = [name for name, of in documented.items() if str(of.get("returned", "")) == "always"]
    missing = [name for name in always if name not in {*found, *_NOT_ITS_OWN}]
    return wrong + [f"{where}{name} is missing" for name in missing]


def test_what_a_module_gives_is_what_it_documents() -> None:
    wrong = []
    for name, calls in _CALLS.items():
        documented = _documented(name)[1]
        for call in calls:
            _, result = _result(name, call)
            assert result.get("msg") in (None, "OK")
            own = _OWN - set(documented) | _UNDOCUMENTED.get(name, set())
            wrong += _against(result, documented, own, f"{name}: ")
    assert wrong == []


def test_check_mode_says_what_a_run_does_and_does_nothing() -> None:
    seen = ("boot_time", "events", "process_log", "requests")
    before = [
        {key: value for key, value in host.dump().items() if key not in seen} for host in _hosts()
    ]
    said, done = {}, {}
    for name, calls in _CALLS.items():
        host, checked = _result(name, calls[0], check=True)
        after = {key: value for key, value in host.dump().items() if key not in seen}
        assert (name, after in before) == (name, True)
        said[name] = checked["changed"]
        done[name] = _result(name, calls[0])[1]["changed"]
    # It does not support check mode, so that Ansible skips it.
    assert (said.pop("ansible.windows.win_command"), done.pop("ansible.windows.win_command")) == (
        False,
        True,
    )
    assert said == done


def test_nothing_changes_in_a_second_run() -> None:
    always = {"ansible.windows.win_command", "community.windows.win_unzip"}
    # The installer leaves nothing here by which it could be known; a password is never compared.
    always |= {"ansible.windows.win_package", "ansible.windows.win_credential"}
    again = set()
    for name, calls in _CALLS.items():
        host, _ = _result(name, calls[0])
        own = {"_copy_mode": "remote"} if name.endswith("win_copy") else {}
        if run(host, name, become="SYSTEM", **calls[0], **own)["changed"]:
            again.add(name)
    assert again == always


# Azure runs this one, not Ansible.
_OF_AZURE = {"controller/trueup_controller/desktops/winrm.ps1"}


def test_every_fragment_has_a_stand_in_and_says_what_it_is() -> None:
    listed = ["git", "ls-files", "*.ps1"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    fragments = set(found.stdout.split())
    assert set(FRAGMENTS) == fragments - _OF_AZURE
    heads = {path: (ROOT / path).read_text().partition("param")[0] for path in fragments}
    assert [path for path, head in heads.items() if "# Source: " not in head] == []
    untested = (ROOT / "docs" / "untested.md").read_text()
    assert [path for path in fragments if Path(path).name not in untested] == []


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
