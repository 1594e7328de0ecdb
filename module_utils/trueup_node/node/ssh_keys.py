"""Keys with which the nodes of one run reach each other by ssh, and the marks that identify them.

Each node makes a key of its own, which never leaves it. The others let it in by a line in the
user's authorized_keys that ends with the run's mark, holds for that node's addresses only, forwards
nothing and expires; the user's ssh finds key and host keys by a block at the top of ~/.ssh/config.
sshd(8) and ssh_config(5) explain each word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, List, Mapping, NamedTuple, Sequence

from ..errors import BadInput
from ..record import is_run_id

MARK = "trueup-run-"
_RUN = r"\d{8}T\d{6}Z-[0-9a-f]{4}"
_LINE = re.compile(rf"^[^\n]* {MARK}{_RUN}@\S*\n?", re.MULTILINE)
_BLOCK = re.compile(rf"^# ({MARK}{_RUN}) begin\n.*?^# \1 end\n?", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"(?:ssh|ecdsa|sk)-[\w@.-]+ [A-Za-z0-9+/]+=*")
_NAME = re.compile(r"[\w.-]+")


def mark(run_id: str) -> str:
    """The name of a run's key on each node, and the beginning of its comment.

    Raises:
        BadInput: it is no run's id.
    """
    if not is_run_id(run_id):
        raise BadInput(f"ssh keys: {run_id!r} is not the id of a run")
    return MARK + run_id


class Peer(NamedTuple):
    """A node as the others reach it: its names, its addresses, its public key of this run and the
    host keys of its sshd, each "type base64"."""

    names: List[str]
    addresses: List[str]
    public_key: str
    host_keys: List[str]


def peer(facts: Mapping[str, Any]) -> Peer:
    """A node, from the module's facts.

    Raises:
        BadInput: something is missing, or is no name, address or key.
    """
    names = list(dict.fromkeys(str(name) for name in facts["names"]))
    addresses = [address for address in facts["addresses"] if _is_address(address)]
    keys = [match[0] for match in map(_KEY.match, facts["host_keys"]) if match]
    public = _KEY.match(facts["public_key"])
    wrong = [name for name in names if not _NAME.fullmatch(name)]
    lacks = {
        "a name": not names,
        "an address": not addresses,
        "host keys of its sshd (/etc/ssh/ssh_host_*_key.pub)": not keys,
        "a public key": not public,
    }
    missing = [label for label, is_missing in lacks.items() if is_missing]
    if missing or wrong or not public:
        reason = f"{wrong[0]!r} is no name" if wrong else f"it has not {', '.join(missing)}"
        raise BadInput(f"ssh keys: {', '.join(names) or 'a node'}: {reason}")
    return Peer(names, addresses, public[0], keys)


def _is_address(text: str) -> bool:
    try:
        return not ip_address(text).is_link_local
    except ValueError:
        return False


@dataclass(frozen=True)
class Plan:
    """The texts for a node's user: lines of authorized_keys, the run's known_hosts, and the block
    of ~/.ssh/config."""

    authorized: str
    known_hosts: str
    config: str


def plan(run_id: str, peers: Sequence[Peer], folder: str, expires: str) -> Plan:
    """The same on every node but for the folder.

    Args:
        run_id: the run's id.
        peers: all nodes of the run, this one too: mpirun may start ranks on it by ssh.
        folder: the user's .ssh.
        expires: the day from which the keys are worth nothing, as 20261201.

    Raises:
        BadInput: no run's id, or no node.
    """
    name = mark(run_id)
    if not peers:
        raise BadInput("ssh keys: there is no node to make them for")
    authorized = "".join(
        f'restrict,from="{",".join(node.addresses)}",expiry-time="{expires}" {node.public_key}'
        f" {name}@{node.names[0]}\n"
        for node in peers
    )
    known_hosts = "".join(
        f"{','.join([*node.names, *node.addresses])} {key}\n"
        for node in peers
        for key in node.host_keys
    )
    called = [name for node in peers for name in (*node.names, *node.addresses)]
    config = (
        f"# {name} begin\n"
        f"Host {' '.join(dict.fromkeys(called))}\n"
        f"    IdentityFile {folder}/{name}\n"
        f"    UserKnownHostsFile {folder}/known_hosts {folder}/{name}.known_hosts\n"
        # Options before the first Host of the user's file hold for all hosts again.
        "Match all\n"
        f"# {name} end\n"
    )
    return Plan(authorized, known_hosts, config)


def without(text: str) -> str:
    """authorized_keys or config without the lines of any run. A block that has lost its end stays:
    nobody knows where it ended."""
    return _LINE.sub("", _BLOCK.sub("", text))


def with_lines(text: str, lines: str) -> str:
    """authorized_keys with these lines in the place of any run's."""
    remaining = without(text)
    return remaining + ("\n" if remaining and not remaining.endswith("\n") else "") + lines


def with_block(text: str, block: str) -> str:
    """config with this block at the top: ssh takes the first value that it finds."""
    return block + without(text)
