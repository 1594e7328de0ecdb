"""Filters over the endpoints that the role vllm is given, and for the unit files of services."""

from __future__ import annotations

import re
from typing import Any

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: trueup_serving
short_description: Endpoints of a serving node, and the command line of a service
description:
  - C(serving_endpoints) takes C(vllm_endpoints), the host, and the inventory's hosts, and returns
    those that this host has a part in, with what was left out filled in.
  - C(systemd_command) writes an argv as a unit's C(ExecStart), C(systemd_environment) a mapping as
    its C(Environment), C(systemd_environment_file) one as the file of C(EnvironmentFile).
"""

_MEMBERS = {
    "name": str,
    "recipe": str,
    "port": int,
    "host": str,
    "model": str,
    "nodes": list,
    "arguments": dict,
    "addresses": list,
}


def serving_endpoints(
    endpoints: list[dict[str, Any]], host: str, hosts: list[str], api_key: str = ""
) -> list[dict[str, Any]]:
    """The endpoints that ``host`` has a part in, in their order, each with all of its members,
    ``rank`` (0 for the node with the API) and ``unit``."""
    if not isinstance(endpoints, list):
        message = f"vllm_endpoints is no list but {endpoints!r}"
        raise AnsibleFilterError(message)
    mine = []
    names: set[str] = set()
    ports: dict[int, str] = {}
    for endpoint in endpoints:
        whole = _endpoint(endpoint, host, hosts, api_key)
        if whole["name"] in names:
            message = f"vllm_endpoints: two are called {whole['name']}"
            raise AnsibleFilterError(message)
        names.add(whole["name"])
        if host not in whole["nodes"]:
            continue
        if whole["rank"] == 0:
            if whole["port"] in ports:
                message = (
                    f"vllm_endpoints: {ports[whole['port']]} and {whole['name']} both want port"
                    f" {whole['port']} of {host}"
                )
                raise AnsibleFilterError(message)
            ports[whole["port"]] = whole["name"]
        mine.append(whole)
    return mine


def _endpoint(given: Any, host: str, hosts: list[str], api_key: str) -> dict[str, Any]:
    if not isinstance(given, dict) or not {"name", "recipe"} <= given.keys():
        message = f"vllm_endpoints: {given!r} needs name and recipe"
        raise AnsibleFilterError(message)
    where = f"vllm_endpoints, {given['name']}"
    for member, value in given.items():
        wanted = _MEMBERS.get(member)
        if wanted is None:
            message = f"{where}: no member is called {member}; there are {', '.join(_MEMBERS)}"
            raise AnsibleFilterError(message)
        if not isinstance(value, wanted) or isinstance(value, bool):
            message = f"{where}: {member} {value!r} is no {wanted.__name__}"
            raise AnsibleFilterError(message)
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", given["name"]):
        message = f"{where}: a name holds small letters, digits and dashes"
        raise AnsibleFilterError(message)
    whole: dict[str, Any] = {
        "port": 8000,
        "host": "127.0.0.1",
        "model": "",
        "nodes": [host],
        "arguments": {},
        "addresses": [],
        **given,
    }
    if not 0 < whole["port"] < 1 << 16:
        message = f"{where}: {whole['port']} is no port"
        raise AnsibleFilterError(message)
    strangers = [name for name in whole["nodes"] if name not in hosts]
    if strangers or not whole["nodes"]:
        message = f"{where}: the inventory has no host {', '.join(strangers) or '(nodes is empty)'}"
        raise AnsibleFilterError(message)
    if whole["addresses"] and len(whole["addresses"]) != len(whole["nodes"]):
        message = f"{where}: {len(whole['addresses'])} addresses for {len(whole['nodes'])} nodes"
        raise AnsibleFilterError(message)
    if whole["host"] not in ("127.0.0.1", "::1", "localhost") and not api_key:
        message = (
            f"{where}: a server that listens on {whole['host']} needs a key: set vllm_api_key, or"
            " leave host at 127.0.0.1"
        )
        raise AnsibleFilterError(message)
    rank = whole["nodes"].index(host) if host in whole["nodes"] else None
    return {**whole, "rank": rank, "unit": f"trueup-vllm-{given['name']}.service"}


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
            "serving_endpoints": serving_endpoints,
            "systemd_command": systemd_command,
            "systemd_environment": systemd_environment,
            "systemd_environment_file": systemd_environment_file,
        }
