"""Filters over roles. Misspelt variables are found here, since a typo passes an argument
spec silently: the default stands."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: trueup_roles
short_description: What roles are and have
description:
  - C(unknown_variables) takes variable names and the role's path and returns those that no entry
    point describes.
  - C(benchmark_roles) lists the roles of a folder that have an entry point C(benchmark).
"""


def unknown_variables(names: list[str], role_path: str) -> list[str]:
    """Those of ``names`` that ``meta/argument_specs.yml`` of the role does not describe."""
    path = Path(role_path) / "meta" / "argument_specs.yml"
    try:
        known = _described(path, path.stat().st_mtime_ns)
    except (OSError, KeyError, TypeError, yaml.YAMLError) as error:
        raise AnsibleFilterError(f"{path}: no readable argument_specs ({error})") from error
    return sorted(set(names) - known)


# Each of a play's 600 hosts asks for the same files; their times tell whether they changed.
@functools.lru_cache(maxsize=64)
def _described(path: Path, _changed_ns: int) -> frozenset[str]:
    specs = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
    return frozenset(name for entry in specs.values() for name in entry.get("options", {}))


def benchmark_roles(roles_dir: str) -> list[str]:
    """The roles that are benchmarks: those with an entry point ``benchmark``."""
    return sorted(path.parent.parent.name for path in Path(roles_dir).glob("*/tasks/benchmark.yml"))


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {
            "benchmark_roles": benchmark_roles,
            "unknown_variables": unknown_variables,
        }
