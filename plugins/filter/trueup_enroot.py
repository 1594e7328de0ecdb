"""Filters of the role enroot_pyxis: what a look at a node has found, and what is wrong with it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: trueup_enroot
short_description: What enroot and pyxis meet on a node
description:
  - C(enroot_look) reads what the role's look.sh prints.
  - C(enroot_kernel_problems) and C(enroot_config_problems) give a sentence for each thing in it
    that enroot or pyxis cannot work with.
  - C(enroot_files) names the release files of packages, C(enroot_hook) the link of a hook.
  - C(enroot_variables) reads a shell file of C(export NAME=value) lines.
"""

_Look = Mapping[str, Any]

# enroot's requirements.md (4.0.1).
_MORE_THAN_ONE = ("user/max_user_namespaces", "user/max_mnt_namespaces")
_CLONE = "kernel/unprivileged_userns_clone"
_ENROOT_CONF = "/etc/enroot/enroot.conf"


def enroot_files(names: Iterable[str], pattern: str, version: str) -> list[str]:
    """The release files of packages; none without a pattern."""
    return [
        pattern.replace("{name}", name).replace("{version}", version) for name in names if pattern
    ]


def enroot_hook(name: str) -> dict[str, str]:
    """The link that switches one of enroot's hooks on, as the module config_files takes it."""
    return {
        "path": f"/etc/enroot/hooks.d/{name}",
        "state": "link",
        "target": f"/usr/share/enroot/hooks.d/{name}",
    }


def enroot_look(text: str) -> dict[str, Any]:
    """``kernel``, ``paths``, ``files`` and ``answers`` of look.sh's lines, by name.

    A path has ``free_bytes`` and ``mount``, where its file system is mounted; a file its lines.

    Raises:
        AnsibleFilterError: a line is of no known kind.
    """
    look: dict[str, Any] = {"kernel": {}, "paths": {}, "files": {}, "answers": {}}
    for line in text.splitlines():
        kind, name, value = [*line.split("\t", 2), "", ""][:3]
        if kind == "kernel" and value.isdigit():
            look["kernel"][name] = int(value)
        elif kind == "path" and re.fullmatch(r"\d+ /.*", value):
            free, mount = value.split(" ", 1)
            look["paths"][name] = {"free_bytes": int(free) * 1024, "mount": mount}
        elif kind == "file":
            look["files"][name] = []
        elif kind == "line" and name in look["files"]:
            look["files"][name].append(value)
        elif kind == "answer":
            look["answers"][name] = value.strip()
        else:
            message = f"enroot_pyxis: not understood of what the node said: {line!r}"
            raise AnsibleFilterError(message)
    return look


def enroot_kernel_problems(look: _Look) -> list[str]:
    """What the kernel does not let users do, a sentence each with the mend."""
    kernel = look["kernel"]
    found = [
        f"enroot_pyxis: {_sysctl(name)} is {kernel[name]} and enroot's containers need at least 2:"
        " raise it in a file of /etc/sysctl.d and run `sysctl --system`."
        for name in _MORE_THAN_ONE
        if kernel.get(name, 2) < 2
    ]
    if kernel.get(_CLONE, 1) == 0:
        found.append(
            f"enroot_pyxis: {_sysctl(_CLONE)} is 0, so that users can make no containers: set it to"
            " 1 in a file of /etc/sysctl.d and run `sysctl --system`."
        )
    return found


def enroot_config_problems(
    look: _Look, names: Iterable[str], slurm_dir: str, *, required: bool = False
) -> list[str]:
    """What other configuration keeps this role's from being in force, a sentence each.

    Args:
        look: of ``enroot_look``.
        names: the settings that the role's drop-in has.
        slurm_dir: Slurm's folder of configuration.
        required: whether a missing plugstack.conf is wrong; before Slurm is installed it is not.
    """
    files = look["files"]
    set_there = {
        re.split(r"[ \t=]", line.lstrip(), maxsplit=1)[0] for line in files.get(_ENROOT_CONF, [])
    }
    both = sorted(set(names) & set_there)
    found = []
    if both:
        found.append(
            f"enroot_pyxis: {_ENROOT_CONF} sets {', '.join(both)}, and enroot takes a name's first"
            " value, so that the role's file in enroot.conf.d would not count: remove these lines"
            " there; values of your own belong in enroot_pyxis_settings."
        )
    stack = f"{slurm_dir}/plugstack.conf"
    line = f"include {slurm_dir}/plugstack.conf.d/*"
    if stack in files and not _includes(files[stack], slurm_dir):
        found.append(
            f"enroot_pyxis: {stack} does not include the files of plugstack.conf.d and is not this"
            f" role's to edit: add the line `{line}` to it."
        )
    elif required and stack not in files:
        found.append(
            f"enroot_pyxis: there is no {stack}, and without it Slurm reads no plugin: run this"
            f" role again, or write one with the line `{line}`."
        )
    ours = f"{stack}.d/pyxis.conf"
    if ours in files and not any("trueup (role enroot_pyxis)" in text for text in files[ours]):
        found.append(
            f"enroot_pyxis: {ours} is another's (CycleCloud and DeepOps write one too): remove it"
            " to have pyxis from this role, or leave this node out of the group enroot_pyxis."
        )
    return found


def enroot_variables(text: str) -> dict[str, str]:
    """Name to value of the ``export NAME=value`` lines; comments and empty lines are left out.

    Raises:
        AnsibleFilterError: a line is anything else, or its value is not plain text.
    """
    found = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            words = shlex.split(line)
        except ValueError:
            words = []
        words = words[1:] if words[:1] == ["export"] else words
        match = re.fullmatch(r"([A-Za-z_]\w*)=([^$`]*)", words[0]) if len(words) == 1 else None
        if match is None:
            message = (
                f"enroot_pyxis: {line!r} of enroot_pyxis_variables_file is not `export NAME=value`"
                " with plain text: correct it, or empty enroot_pyxis_variables_file."
            )
            raise AnsibleFilterError(message)
        found[match.group(1)] = match.group(2)
    return found


def _sysctl(name: str) -> str:
    return name.replace("/", ".")


def _includes(lines: Iterable[str], slurm_dir: str) -> bool:
    folder = rf"({re.escape(slurm_dir)}/)?plugstack\.conf\.d/"
    pattern = rf"\s*include\s+{folder}(\*|\*\.conf|pyxis\.conf)\s*"
    return any(re.fullmatch(pattern, line) for line in lines)


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        """Name to function."""
        return {
            "enroot_config_problems": enroot_config_problems,
            "enroot_files": enroot_files,
            "enroot_hook": enroot_hook,
            "enroot_kernel_problems": enroot_kernel_problems,
            "enroot_look": enroot_look,
            "enroot_variables": enroot_variables,
        }
