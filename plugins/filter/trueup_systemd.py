"""Filters that write a service's command line and variables as systemd reads them."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: trueup_systemd
short_description: The command line and the variables of a systemd service
description:
  - C(systemd_command) writes an argv as a unit's C(ExecStart), C(systemd_environment) a mapping as
    its C(Environment), C(systemd_environment_file) one as the file of C(EnvironmentFile).
"""


def systemd_command(argv: list[Any]) -> str:
    """An argv as systemd reads it: quoted, with specifiers and variables escaped."""
    return " ".join(_quoted(str(word).replace("$", "$$")) for word in argv)


def systemd_environment(variables: dict[str, Any]) -> str:
    """``Environment=`` lines, sorted by name."""
    lines = [f"Environment={_quoted(f'{name}={variables[name]}')}" for name in sorted(variables)]
    return "\n".join(lines)


def systemd_environment_file(variables: dict[str, Any]) -> str:
    """The text of an ``EnvironmentFile``, sorted by name; such a file has no specifiers."""
    return "".join(f"{name}={_in_quotes(str(variables[name]))}\n" for name in sorted(variables))


def _quoted(word: str) -> str:
    return _in_quotes(word).replace("%", "%%")


def _in_quotes(word: str) -> str:
    if "\n" in word:
        message = "a value holds a line break, which a file of systemd cannot"
        raise AnsibleFilterError(message)
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        """Name to function."""
        return {
            "systemd_command": systemd_command,
            "systemd_environment": systemd_environment,
            "systemd_environment_file": systemd_environment_file,
        }
