"""The inventory that users copy: it is read as it stands, names hosts of each kind, and sets only
what exists and what its user may use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import role_files
from trueup_controller.settings import OPTIONS, PREFIX

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "inventories" / "example"


@pytest.fixture(scope="module")
def listed() -> dict[str, Any]:
    program = Path(sys.executable).with_name("ansible-inventory")
    done = subprocess.run(
        # Beside it, so that only its own group_vars are read.
        [program, "-i", EXAMPLE, "--playbook-dir", EXAMPLE, "--list"],
        capture_output=True,
        text=True,
        check=True,
        cwd=EXAMPLE,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def known() -> dict[str, str]:
    """Each variable of roles and plays with its type."""
    found = {f"{PREFIX}{one.name}": one.type for one in OPTIONS} | {"trueup_vm_size": "str"}
    for path in role_files("meta/argument_specs.yml").values():
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            found |= {name: spec["type"] for name, spec in entry.get("options", {}).items()}
    return found


def test_it_has_nodes_of_both_kinds(listed: dict[str, Any]) -> None:
    groups = {name: listed[name]["hosts"] for name in ("hbv3", "ndv4", "windows")}
    assert groups == {"hbv3": ["hb-1", "hb-2"], "ndv4": ["nd-1"], "windows": ["nv-1"]}


def test_it_sets_what_exists_and_no_folder_of_root(listed: dict[str, Any]) -> None:
    own = [
        (name, value)
        for variables in listed["_meta"]["hostvars"].values()
        for name, value in variables.items()
        if not name.startswith("ansible_")
    ]
    types = known()
    assert [name for name, _ in own if name not in types] == []
    assert [name for name, value in own if str(value).startswith("/")] == []
    assert own != []


def test_the_secrets_that_it_names_are_secret() -> None:
    named = yaml.safe_load((EXAMPLE / "group_vars" / "all" / "vault.yml.example").read_text())
    specs = [
        entry.get("options", {})
        for path in role_files("meta/argument_specs.yml").values()
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values()
    ]
    hidden = {name for options in specs for name, spec in options.items() if spec.get("no_log")}
    assert named
    assert set(named) <= hidden
