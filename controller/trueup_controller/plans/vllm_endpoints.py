"""The endpoints that a node serves, from the user's list."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any

import msgspec
from trueup_node.errors import BadInput

from ..typed import typed


class Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One of ``vllm_endpoints``, whose page describes its members."""

    name: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z",
            description="a name of small letters, digits and dashes",
        ),
    ]
    recipe: str
    nodes: Annotated[list[Any], msgspec.Meta(min_length=1)]
    port: Annotated[int, msgspec.Meta(ge=1, le=65535, description="a port, 1 to 65535")] = 8000
    host: str = "127.0.0.1"
    model: str = ""
    arguments: dict[str, Any] = {}
    addresses: list[Any] = []


def endpoints_of(
    endpoints: list[dict[str, Any]], host: str, hosts: list[str], api_key: str = ""
) -> list[dict[str, Any]]:
    """The endpoints that ``host`` has a part in.

    Args:
        endpoints: as a user gives them (``vllm_endpoints``).
        host: this node's name in the inventory.
        hosts: all of its names.
        api_key: empty where clients need none.

    Returns:
        In their order, each with all of its members, ``rank`` (0 for the node with the API) and
        ``unit``, its systemd service.

    Raises:
        BadInput: an endpoint that cannot be meant.
    """
    if not isinstance(endpoints, list):
        raise BadInput(f"vllm_endpoints is no list but {endpoints!r}")
    mine = []
    names: set[str] = set()
    ports: dict[int, str] = {}
    for endpoint in endpoints:
        resolved = _endpoint(endpoint, host, hosts, api_key)
        if resolved["name"] in names:
            raise BadInput(f"vllm_endpoints: two are called {resolved['name']}")
        names.add(resolved["name"])
        if host not in resolved["nodes"]:
            continue
        if resolved["rank"] == 0:
            if resolved["port"] in ports:
                raise BadInput(
                    f"vllm_endpoints: {ports[resolved['port']]} and {resolved['name']} both want"
                    f" port {resolved['port']} of {host}"
                )
            ports[resolved["port"]] = resolved["name"]
        mine.append(resolved)
    return mine


def is_private(address: str) -> bool:
    """Whether this is an address, and none of the internet's."""
    return _is_address(address) and not ipaddress.ip_address(address).is_global


def _is_address(text: Any) -> bool:
    try:
        ipaddress.ip_address(str(text))
    except ValueError:
        return False
    return True


def reachable(host: str) -> str:
    """The address by which a node reaches its own server that listens on ``host``, as in a URL."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 WHY: compared, not listened on
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _endpoint(endpoint: Any, host: str, hosts: list[str], api_key: str) -> dict[str, Any]:
    values = {"nodes": [host], **endpoint} if isinstance(endpoint, dict) else endpoint
    label = (
        f"vllm_endpoints, {values.get('name')}" if isinstance(values, dict) else "vllm_endpoints"
    )
    members: dict[str, Any] = msgspec.to_builtins(typed(values, Endpoint, label))
    if wrong := _wrong_value(members, hosts, api_key):
        raise BadInput(f"{label}: {wrong}")
    return {
        **members,
        "rank": members["nodes"].index(host) if host in members["nodes"] else None,
        "unit": f"trueup-vllm-{members['name']}.service",
        "base_url": f"http://{reachable(members['host'])}:{members['port']}",
    }


def _wrong_value(members: dict[str, Any], hosts: list[str], api_key: str) -> str | None:
    nodes, addresses = members["nodes"], members["addresses"]
    strangers = [str(name) for name in nodes if name not in hosts]
    names = [str(address) for address in addresses if not _is_address(address)]
    listens = members["host"]
    outside = listens not in ("127.0.0.1", "::1", "localhost")
    # The first that is so.
    wrong = {
        "a node stands twice in nodes": len(set(map(str, nodes))) < len(nodes),
        f"the inventory has no host {', '.join(strangers)}": bool(strangers),
        f"{len(addresses)} addresses for {len(nodes)} nodes": bool(addresses)
        and len(addresses) != len(nodes),
        f"addresses {', '.join(names)}: they must be numbers, such as 10.0.0.4, and no names": bool(
            names
        ),
        f"a server that listens on {listens} needs a key: set vllm_api_key, or leave host at"
        " 127.0.0.1": outside and not api_key,
    }
    return next((text for text, so in wrong.items() if so), None)
