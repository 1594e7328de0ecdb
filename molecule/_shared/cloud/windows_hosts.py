"""The emulated cloud's Windows machines: simulated Windows hosts (../windows), each with its
address in a network namespace of its own and its size's share of an A10.

No Windows runs there. WinRM answers, with NTLM and encrypted messages alone, once a run command
made it do so, and only the range that the command named, as Windows' firewall would.
"""

from __future__ import annotations

import ipaddress
import json
import threading
from typing import TYPE_CHECKING, Any, Callable

from windows import avd
from windows.host import Host
from windows.serve import Server

from . import netns
from .images import Failed

if TYPE_CHECKING:
    from .machines import Machine, Metadata

PORT = 5985
# What a test gives a fresh host: what it can download and install, and who takes its agent in.
Prepare = Callable[["Host", "Machine"], None]


class _Listener(Server):
    """WinRM of one host behind its firewall."""

    allowed: ipaddress.IPv4Network

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return ipaddress.IPv4Address(client_address[0]) in self.allowed


def _release(host: Host, image: str) -> None:
    """What a host says of its system, by its image: win11-25h2-avd, 26200.8246.260414."""
    *_, sku, version = image.split(":")
    build, _, update = version.rpartition(".")[0].partition(".")
    if not build.isdecimal() or not update.isdecimal():
        return
    key = r"HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion"
    host.os_version = f"10.0.{build}.0"
    for name in ("CurrentBuild", "CurrentBuildNumber"):
        host.registry.set(key, name, "string", build)
    host.registry.set(key, "DisplayVersion", "string", sku.split("-")[1].upper())
    host.registry.set(key, "UBR", "dword", int(update))


class WindowsHost:
    """One machine.

    Attributes:
        host: its state, which outlives what serves it: disks outlive a stop.
    """

    def __init__(self, machine: Machine, namespace: str, metadata: Metadata) -> None:
        try:
            self.host = Host.nv_a10(machine.size, machine.name)
        except Exception as error:
            raise Failed(f"the emulated cloud has no Windows machine: {error}") from error
        path = "/metadata/instance"
        said = metadata(machine.id, "GET", path, {"api-version": "2021-02-01"}, b"").document
        self.host.metadata = json.loads(json.dumps(said))
        self.host.users = {machine.user: machine.password}
        self.host.groups["Administrators"] = [f"{machine.name}\\{machine.user}"]
        self.host.unencrypted = False
        _release(self.host, machine.image)
        self._namespace, self._address = namespace, machine.address
        self._server: Server | None = None
        self._remoting = ""

    def inside(self, what: dict[str, Any]) -> None:
        """As Hardware.inside."""
        if what.get("joined") == "entra":
            avd.join(self.host)
        if "remoting" in what:
            self._remoting = str(ipaddress.IPv4Network(what["remoting"]))
            self.stop()
            self.start()

    def start(self) -> None:
        """Answer by WinRM, where a run command made it do so."""
        if not self._remoting:
            return
        server = _Listener(("127.0.0.1", 0), self.host)
        server.allowed = ipaddress.IPv4Network(self._remoting)
        server.socket.close()
        server.socket = netns.listening(self._namespace, PORT, self._address)
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        self._server = server

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
