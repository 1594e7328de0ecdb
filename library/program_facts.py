#!/usr/bin/python
"""Ansible module: the node's programs, and the modules that a Python of it can import."""

from __future__ import annotations

DOCUMENTATION = r"""
module: program_facts
short_description: Find programs on the node, and what a Python can import
version_added: "0.3.0"
description:
  - Looks for programs in PATH, or at the path given, and asks a Python for its version and
    modules, without importing them.
extends_documentation_fragment: [trueup_facts, trueup_options.program_facts]
"""

EXAMPLES = r"""
- name: Look for fio, and for PyTorch
  program_facts:
    programs: [fio]
    python: /opt/pytorch/bin/python
    imports: [torch]

- name: Look for the GROMACS of EESSI
  program_facts:
    programs: [gmx]
    module:
      init: /cvmfs/software.eessi.io/versions/2023.06/init/lmod/bash
      name: GROMACS/2024.4-foss-2023b
"""

RETURN = r"""
programs:
  description: Path of each program; null where it, or the module, is not there.
  returned: always
  type: dict
files: {description: Whether each file is there., returned: always, type: dict}
mentions:
  description: Whether each program is there and mentions its text.
  returned: always
  type: dict
folders:
  description: Of each folder as it was given, whether it is there (C(there)) and is a link
    (C(link)), and of the nearest one above that is there, or itself, C(path) and C(free_bytes).
  returned: always
  type: dict
python:
  description: Path, C(version) (three numbers), C(missing) modules and whether its C(headers) are
    there; null where there is no such Python, or none was asked for.
  returned: always
  type: dict
pythons:
  description: The same of each of O(pythons) that is there and answers, in their order.
  returned: always
  type: list
"""

import json
import os
from typing import Any, Dict, List, Optional

from ansible.module_utils.trueup_node.node import tools
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option("programs", "Names or paths of programs.", []),
    Option(
        "module",
        "A module of Lmod to look for O(programs) in - C(init), the file to source first, and"
        " C(name). Without them no module is loaded.",
        {},
    ),
    Option("files", "Paths of files.", [], elements="path"),
    Option(
        "mentions",
        "Programs, each with a text to look for in what it says of itself (C(--help)), such as an"
        " option that not every build has.",
        {},
    ),
    Option("folders", "Paths of folders, which need not be there yet.", []),
    Option("python", "A Python to ask; empty for none.", ""),
    Option("pythons", "More Pythons to ask.", []),
    Option("imports", "Modules to look for with O(python) and O(pythons).", []),
)

_IN_MODULE = '. "$1" >/dev/null && module load "$2" && command -v "$3"'
_ASK = (
    "import importlib.util, json, os, sys, sysconfig; print(json.dumps({'path': sys.executable,"
    " 'version': list(sys.version_info[:3]), 'headers': any(os.path.isfile(f'{folder}/Python.h')"
    " for folder in (sysconfig.get_path('include'), sysconfig.get_config_var('INCLUDEPY'))),"
    " 'missing': [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]}))"
)


def main() -> None:
    module = AnsibleModule(argument_spec=module_spec(OPTIONS), supports_check_mode=True)
    parameters = module.params
    more = [
        asked(module, name, parameters["imports"], must=False) for name in parameters["pythons"]
    ]
    module.exit_json(
        changed=False,
        programs={
            name: in_module(module, parameters["module"], name)
            if parameters["module"]
            else found(module, name)
            for name in parameters["programs"]
        },
        files={name: os.path.exists(name) for name in parameters["files"]},
        mentions={
            name: mentions(module, name, text) for name, text in parameters["mentions"].items()
        },
        folders={name: space(name) for name in parameters["folders"]},
        python=asked(module, parameters["python"], parameters["imports"])
        if parameters["python"]
        else None,
        pythons=[python for python in more if python is not None],
    )


def found(module: Any, name: str) -> Optional[str]:
    """The path of a program; None where it is not there or cannot be run."""
    if "/" in name:
        path = os.path.expanduser(name)
        return path if os.path.isfile(path) and os.access(path, os.X_OK) else None
    path = module.get_bin_path(name)
    return str(path) if path else None


def mentions(module: Any, name: str, text: str) -> bool:
    """Whether a program says the text of itself; its exit status is not asked for (perftest's is
    1)."""
    path = found(module, name)
    if path is None:
        return False
    response = tools.ask(module, [path, "--help"])
    return text in response.output or text in response.complaint


def space(name: str) -> Dict[str, Any]:
    """A folder, and the space where it is or would be."""
    full_path = os.path.abspath(os.path.expanduser(name))
    path = full_path
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    disk = os.statvfs(path)
    return {
        "there": os.path.exists(full_path),
        "link": os.path.islink(full_path),
        "path": path,
        "free_bytes": disk.f_bavail * disk.f_frsize,
    }


def in_module(module: Any, lmod: Dict[str, Any], name: str) -> Optional[str]:
    """The path of a program once a module is loaded; None where either is not there."""
    response = tools.ask(
        module, ["bash", "-c", _IN_MODULE, "bash", lmod["init"], lmod["name"], name]
    )
    lines = response.output.splitlines()
    return lines[-1] if response.ok and lines else None


def asked(
    module: Any, python: str, imports: List[str], *, must: bool = True
) -> Optional[Dict[str, Any]]:
    """The facts of a Python from its own output; None where there is none, or, unless ``must``,
    where it prints nothing (pyenv's shims of versions that are not chosen)."""
    path = found(module, python)
    if path is None:
        return None
    response = tools.ask(module, [path, "-c", _ASK, *imports])
    if not response.ok:
        if must:
            module.fail_json(msg=f"{python}: {response.note}")
        return None
    facts: Dict[str, Any] = json.loads(response.output)
    return facts


if __name__ == "__main__":
    main()
