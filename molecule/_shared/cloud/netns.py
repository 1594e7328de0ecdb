"""Networks of the emulated cloud's machines, made of this host's namespaces, bridges and iptables.

    host ── bridge ("the internet", one a cloud) ── router (one a virtual network) ── machines

A machine has its private address only. The router translates a public address to it, and lets out
what has a way out; the host has no route to private addresses. Out means the host's own address on
that bridge, where the cloud listens, and no further. Rules of security groups are not kept.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import json
import os
import socket
import threading
from pathlib import Path

from .images import run

# Where `ip netns` has them.
NAMESPACES = Path("/run/netns")
METADATA = "169.254.169.254"
# One /24 a cloud.
_INTERNET = ipaddress.IPv4Network("10.90.0.0/16")
# The first addresses are the host's and the routers': a cloud gives away those from here on.
FIRST_PUBLIC = 100
_CLONE_NEWNET = 0x40000000
# The host, and room for as many virtual networks as are below FIRST_PUBLIC.
_HOST, _FIRST_ROUTER = 1, 2
_FILTER = """\
*filter
:FORWARD DROP [0:0]
-A FORWARD -i lan -o lan -j ACCEPT
-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
-A FORWARD -i wan -m conntrack --ctstate DNAT -j ACCEPT
COMMIT
"""


def ip(*lines: str, namespace: str = "") -> None:
    """Run lines of `ip` in a namespace, or in the host's."""
    where = ["-n", namespace] if namespace else []
    run(["ip", *where, "-batch", "-"], said="".join(f"{line}\n" for line in lines))


def namespaces(start: str) -> list[str]:
    """Those whose name begins so."""
    return sorted(path.name for path in NAMESPACES.glob(f"{start}*"))


class Internet:
    """The bridge between the host and a cloud's virtual networks.

    Attributes:
        range: of the public addresses.
        address: the host's there.
    """

    def __init__(self, name: str) -> None:
        """Make it, in a range that this host has no route to; ``name`` is an interface's."""
        self.name = name
        self.range = _free()
        self.address = str(self.range[_HOST])
        self._routers: set[int] = set()
        ip(
            f"link add {name} type bridge",
            f"addr add {self.address}/{self.range.prefixlen} dev {name}",
            f"link set {name} up",
        )

    def router(self) -> int:
        """The number of one more router, which its network gives back."""
        free = set(range(_FIRST_ROUTER, FIRST_PUBLIC)) - self._routers
        if not free:
            raise ValueError(f"{len(self._routers)} virtual networks have machines: no more")
        self._routers.add(min(free))
        return min(free)

    def gone(self, router: int) -> None:
        self._routers.discard(router)

    def close(self) -> None:
        ip(f"link del {self.name}")


class Network:
    """A virtual network: a router's namespace with a bridge that its machines are on.

    Attributes:
        names: of its machines, by address.
    """

    def __init__(self, start: str, internet: Internet, addresses: str) -> None:
        """Make it; ``start`` is of the namespace's name, ``addresses`` the network's range."""
        self.internet = internet
        self.names: dict[str, str] = {}
        self.range = ipaddress.IPv4Network(addresses)
        self._number = internet.router()
        self.name = name = f"{start}{self._number}"
        address = internet.range[self._number]
        outer = f"{internet.name}u{self._number}"
        ip(f"netns add {name}")
        ip(f"link add {outer} type veth peer name wan netns {name}")
        ip(f"link set {outer} master {internet.name} up")
        ip(
            "link set lo up",
            "link add lan type bridge",
            # Azure's gateway, too, is the first address.
            f"addr add {self.range[1]}/{self.range.prefixlen} dev lan",
            f"addr add {address}/{internet.range.prefixlen} dev wan",
            "link set lan up",
            "link set wan up",
            namespace=name,
        )
        run(["ip", "netns", "exec", name, "tee", "/proc/sys/net/ipv4/ip_forward"], said="1\n")
        self._rules(_FILTER + "*nat\n-A POSTROUTING -o wan -j MASQUERADE\nCOMMIT\n")

    def _rules(self, text: str) -> None:
        argv = ["ip", "netns", "exec", self.name, "iptables-restore", "--noflush"]
        run(argv, said=text)

    def join(self, namespace: str, address: str, public: str, *, outbound: bool) -> None:
        """Make a machine's namespace with eth0, and 169.254.169.254 on its loopback.

        Raises:
            ValueError: an address is outside of its range.
            Failed: `ip` refuses, as where an address is taken.
        """
        own = ipaddress.IPv4Address(address)
        if own not in self.range:
            raise ValueError(f"{address} is not in the virtual network's {self.range}")
        if public and ipaddress.IPv4Address(public) not in self.internet.range:
            raise ValueError(f"public address {public} is not in {self.internet.range}")
        # Of the address: a machine that follows another on it is known to its neighbours.
        hardware = "00:0d:3a:" + ":".join(f"{part:02x}" for part in own.packed[1:])
        inner = _interface(address)
        with contextlib.ExitStack() as undo:
            ip(f"netns add {namespace}")
            undo.callback(ip, f"netns del {namespace}")
            ip(
                f"link add {inner} type veth peer name eth0 address {hardware} netns {namespace}",
                f"link set {inner} master lan up",
                *([f"addr add {public}/32 dev wan"] if public else []),
                namespace=self.name,
            )
            ip(
                "link set lo up",
                f"addr add {METADATA}/32 dev lo",
                f"addr add {address}/{self.range.prefixlen} dev eth0",
                "link set eth0 up",
                f"route add default via {self.range[1]}",
                namespace=namespace,
            )
            self._rules(router_rules("-A", "-I", address, public, outbound=outbound))
            undo.pop_all()

    def plug(self, address: str, *, up: bool) -> None:
        """Give a machine its network back, or take it: what is stopped answers nobody."""
        ip(f"link set {_interface(address)} {'up' if up else 'down'}", namespace=self.name)

    def leave(self, namespace: str, address: str, public: str, *, outbound: bool) -> None:
        """Undo join."""
        self._rules(router_rules("-D", "-D", address, public, outbound=outbound))
        ip(
            f"link del {_interface(address)}",
            *([f"addr del {public}/32 dev wan"] if public else []),
            namespace=self.name,
        )
        ip(f"netns del {namespace}")

    def close(self) -> None:
        # At once, where the namespace's end is waited for by nobody.
        ip("link del wan", namespace=self.name)
        ip(f"netns del {self.name}")
        self.internet.gone(self._number)


def router_rules(add: str, insert: str, address: str, public: str, *, outbound: bool) -> str:
    """The router's for a machine, to add or to delete."""
    out = f"{add} FORWARD -i lan -o wan -s {address} -j ACCEPT\n" if outbound or public else ""
    own = (
        f"{add} PREROUTING -i wan -d {public} -j DNAT --to-destination {address}\n"
        # Before the one for all.
        f"{insert} POSTROUTING -o wan -s {address} -j SNAT --to-source {public}\n"
        if public
        else ""
    )
    return f"*filter\n{out}COMMIT\n*nat\n{own}COMMIT\n"


def _interface(address: str) -> str:
    """The name of a machine's port in the router: at most 15 characters."""
    return f"m{int(ipaddress.IPv4Address(address)):08x}"


def _free() -> ipaddress.IPv4Network:
    """The first range that no route of this host touches."""
    routes = json.loads(run(["ip", "-j", "-4", "route", "show", "table", "all"]))
    taken = [
        ipaddress.IPv4Network(route["dst"], strict=False)
        for route in routes
        if route["dst"] != "default"
    ]
    for one in _INTERNET.subnets(new_prefix=24):
        if not any(one.overlaps(other) for other in taken):
            return one
    raise ValueError(f"no range of {_INTERNET} is free on this host")


def listening(namespace: str, port: int = 80, address: str = METADATA) -> socket.socket:
    """A socket that listens there in a namespace; any thread may use it."""
    made: list[socket.socket | OSError] = []

    def enter() -> None:
        # A namespace is a thread's, and this one ends here.
        try:
            with (NAMESPACES / namespace).open() as opened:
                if ctypes.CDLL(None, use_errno=True).setns(opened.fileno(), _CLONE_NEWNET):
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number), namespace)
            made.append(socket.create_server((address, port), backlog=64))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]
