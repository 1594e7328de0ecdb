"""A service's command line and variables, written as systemd reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trueup_node.errors import BadInput

# Rights that trueup's units, which run once as root, do not need, as lines of [Service]
# (systemd.exec(5)): the limits also hold for programs that they start. None hides a device or stops
# a mount or a module.
RESTRICTED = """\
NoNewPrivileges=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
RestrictNamespaces=yes
LockPersonality=yes
"""
# And of one that talks to a driver or the kernel alone: it changes no file of the system's.
READING = f"""\
{RESTRICTED}ProtectSystem=full
ProtectHome=yes
ProtectControlGroups=yes
UMask=0077
"""


def command(argv: Sequence[Any]) -> str:
    """An argv as systemd reads it: quoted, with specifiers and variables escaped."""
    return " ".join(_quoted(str(argument).replace("$", "$$")) for argument in argv)


def environment(variables: Mapping[str, Any]) -> str:
    """``Environment=`` lines, sorted by name."""
    lines = [f"Environment={_quoted(f'{name}={variables[name]}')}" for name in sorted(variables)]
    return "\n".join(lines)


def environment_file(variables: Mapping[str, Any]) -> str:
    """The text of an ``EnvironmentFile``, sorted by name; such a file has no specifiers."""
    return "".join(f"{name}={_in_quotes(str(variables[name]))}\n" for name in sorted(variables))


def _quoted(text: str) -> str:
    return _in_quotes(text).replace("%", "%%")


def _in_quotes(text: str) -> str:
    if "\n" in text:
        raise BadInput("a value holds a line break, which a file of systemd cannot")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
