"""The simulated Windows host (molecule/_shared/windows) for tests."""

from __future__ import annotations

import json
import sys
from typing import Any

from helpers import ROOT

sys.path.insert(0, str(ROOT / "molecule" / "_shared"))

from windows import avd, grid, modules, pipeline
from windows.arguments import MODULES, Call, Option, checked, module
from windows.errors import FailError, UnknownError
from windows.host import Event, Faults, File, Gpu, Host, Installer, Leaves, Service
from windows.modules.commands import PROGRAMS, program
from windows.modules.powershell import FRAGMENTS, fragment
from windows.products import Product
from windows.registry import Registry
from windows.serve import Server, serving, variables


def run(
    host: Host, name: str, /, *, check: bool = False, become: str | None = None, **args: Any
) -> dict[str, Any]:
    """What a module of ansible.windows (or of the collection named) gives, without Ansible."""
    whole = name if "." in name else f"ansible.windows.{name}"
    variables = [{"Value": {**args, "_ansible_check_mode": check, "_ansible_diff": True}}]
    params = {"Script": f"{whole}.ps1", "ForModule": True, "Variables": variables}
    actions = [{"name": "become_wrapper.ps1", "params": {"BecomeUser": become}}] if become else []
    manifest = {"actions": [*actions, {"name": "module_wrapper.ps1", "params": params}]}
    given = [json.dumps({"name": "exec_wrapper"}), "\0\0\0\0", json.dumps(manifest)]
    said = pipeline.answer(host, "trueup", pipeline.bootstrap(), given)
    found: dict[str, Any] = json.loads(said.output[0])
    return found


__all__ = [
    "FRAGMENTS",
    "MODULES",
    "PROGRAMS",
    "Call",
    "Event",
    "FailError",
    "Faults",
    "File",
    "Gpu",
    "Host",
    "Installer",
    "Leaves",
    "Option",
    "Product",
    "Registry",
    "Server",
    "Service",
    "UnknownError",
    "avd",
    "checked",
    "fragment",
    "grid",
    "module",
    "modules",
    "program",
    "run",
    "serving",
    "variables",
]
