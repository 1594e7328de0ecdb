"""What runs the emulated cloud's machines: containers (containers.py), or nothing.

The cloud calls ``start`` and the others from threads of its own, of several machines at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Protocol

from .replies import Reply

if TYPE_CHECKING:
    from pathlib import Path

# What a machine asks its instance metadata service: the machine's id, method, path (/metadata/...),
# query and body. The cloud answers; a document that is text is sent as text.
Metadata = Callable[[str, str, str, "dict[str, str]", bytes], Reply]


@dataclass(frozen=True)
class Machine:
    """What a VM, or an instance of a uniform set, is to whoever runs it.

    Attributes:
        id: of the VM or instance, as Azure writes it.
        name: the computer's name.
        image: ``publisher:offer:sku:version``.
        network: the id of its virtual network.
        range: the first of that network's ranges, 10.42.0.0/16.
        address: private.
        public: of the hardware's public_range; empty without one.
        outbound: whether a NAT gateway or another way leads out of its subnet.
        system: Linux or Windows.
        password: of ``user``; empty where keys stand for it.
        keys: public keys of ``user``, one a line of authorized_keys.
        custom_data: decoded.
        priority: Regular or Spot.
        eviction: Deallocate or Delete; empty where it is not Spot.
        scale_set: the name of its set, or empty.
        identity: the principal's id of its system-assigned identity, or empty.
        host: the physical host's name.
    """

    id: str
    name: str
    size: str
    location: str
    zone: str
    group: str
    image: str
    network: str
    range: str
    address: str
    public: str = ""
    outbound: bool = True
    system: str = "Linux"
    user: str = ""
    password: str = field(default="", repr=False)
    keys: tuple[str, ...] = ()
    custom_data: bytes = b""
    tags: dict[str, str] = field(default_factory=dict)
    priority: str = "Regular"
    eviction: str = ""
    scale_set: str = ""
    identity: str = ""
    host: str = ""


class AllocationFailed(Exception):
    """There is no room for a machine: Azure's code, and its message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Hardware(Protocol):
    """Runs machines. Each call may take its time, and must bear to be called again.

    Attributes:
        address: of this host as machines reach it: the cloud listens there.
        public_range: where the cloud takes public addresses from, from its 100th on.
    """

    address: str
    public_range: str

    def connect(self, metadata: Metadata, authority: Path) -> None:
        """Before the first start: what machines ask, and the certificate of who signs the cloud's,
        which they trust."""

    def start(self, machine: Machine) -> None:
        """Make it; it may still boot. Raises AllocationFailed."""

    def stop(self, id: str) -> None:  # noqa: A002 WHY: the name of it all over Azure
        """Stop it; what it wrote on its temporary disk may go, its address stays."""

    def resume(self, id: str, host: str = "") -> None:  # noqa: A002
        """Start again what was stopped, on this physical host; on its own where that is empty."""

    def restart(self, id: str) -> None:  # noqa: A002
        """Boot it again."""

    def delete(self, id: str) -> None:  # noqa: A002
        """Remove it and its disks."""

    def inside(self, id: str, what: dict[str, Any]) -> None:  # noqa: A002
        """What Azure does in a Windows machine: ``remoting``, the range from which WinRM answers;
        ``joined``, entra."""

    def close(self) -> None:
        """Remove everything."""


class NoMachines:
    """Runs nothing, and keeps what it was asked for.

    Attributes:
        machines: by id in lower case, those that were made and not deleted.
        running: the ids of those that run.
        hosts: the physical host on which each was started last.
        done: what was done in Windows machines.
    """

    address = "127.0.0.1"
    public_range = "203.0.113.0/24"

    def __init__(self) -> None:
        self.machines: dict[str, Machine] = {}
        self.running: set[str] = set()
        self.hosts: dict[str, str] = {}
        self.done: dict[str, dict[str, Any]] = {}

    def connect(self, metadata: Metadata, authority: Path) -> None:
        """Nobody asks."""

    def start(self, machine: Machine) -> None:
        self.machines[machine.id.lower()] = machine
        self.running.add(machine.id.lower())
        self.hosts[machine.id.lower()] = machine.host

    def stop(self, id: str) -> None:  # noqa: A002
        self.running.discard(id.lower())

    def resume(self, id: str, host: str = "") -> None:  # noqa: A002
        self.running.add(id.lower())
        self.hosts[id.lower()] = host or self.hosts.get(id.lower(), "")

    def restart(self, id: str) -> None:  # noqa: A002
        if id.lower() not in self.running:
            raise KeyError(id)

    def delete(self, id: str) -> None:  # noqa: A002
        self.stop(id)
        self.machines.pop(id.lower(), None)

    def inside(self, id: str, what: dict[str, Any]) -> None:  # noqa: A002
        self.done.setdefault(id.lower(), {}).update(what)

    def close(self) -> None:
        self.machines.clear()
        self.running.clear()
