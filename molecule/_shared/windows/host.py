"""The state of one simulated Windows host, and what its modules do to it."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from ntpath import basename, dirname, normpath, splitext
from pathlib import Path
from typing import Any

from . import agents
from .products import UNINSTALL, Product
from .registry import Registry

# 100 ns since 1601, as Windows counts.
EPOCH = 116444736000000000
# Where a GPU driver puts its program.
_NVIDIA_SMI = r"c:\windows\system32\nvidia-smi.exe"


@dataclass
class File:
    """A file, or a folder where ``data`` is None.

    Args:
        sha256: what its checksum is said to be, for a file that stands for one that is not here.
        signer: the subject of its Authenticode signature, if it has a valid one.
        version: its file version, as ``3.26.826.17182``.
        holds: of an archive: the files inside, by path.
    """

    data: bytes | None = b""
    sha256: str | None = None
    signer: str | None = None
    version: str = ""
    holds: dict[str, File] = field(default_factory=dict)
    written: float = 1767225600.0

    def digest(self, algorithm: str) -> str:
        """Its checksum in hexadecimal."""
        if algorithm == "sha256" and self.sha256:
            return self.sha256
        return hashlib.new(algorithm, self.data or b"").hexdigest()


@dataclass
class Service:
    """A Windows service, with the words of win_service."""

    display_name: str
    state: str = "started"
    start_mode: str = "auto"
    path: str = ""
    username: str = "NT AUTHORITY\\SYSTEM"
    description: str = ""
    dependencies: list[str] = field(default_factory=list)
    # It cannot start before the next boot (a driver it needs is not loaded).
    needs_reboot: bool = False


@dataclass
class Gpu:
    """A GPU as Windows and its driver show it; ``error_code`` is ConfigManagerErrorCode."""

    name: str = "NVIDIA A10-8Q"
    memory_mib: int = 8192
    error_code: int = 0
    driver_model: str = "WDDM"
    licence: str = "Licensed"
    product: str = "NVIDIA RTX Virtual Workstation"
    uuid: str = "GPU-00000000-0000-0000-0000-000000000001"
    encoder_sessions: int = 0
    encoder_fps: int = 0
    encoder_latency_us: int = 0


@dataclass
class Leaves:
    """What an installer leaves on the host: added to what is there."""

    products: dict[str, Product] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)
    files: dict[str, File] = field(default_factory=dict)
    registry: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    # The GPU driver that is loaded from then on.
    gpu_driver: str | None = None


@dataclass
class Installer:
    """What running a file of that sha256 does.

    Args:
        arguments: the words it understands; any other ends the task as not known.
        needs: those without which it would wait for somebody to click.
        status: its exit status; ``leaves`` takes place for 0, 1 and 3010 only.
        at_boot: what is there only after the next boot.
        reboot: whether Windows waits for a boot afterwards.
        product_code: of an MSI: the product_id by which win_package knows it is installed.
    """

    arguments: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    status: int = 0
    leaves: Leaves = field(default_factory=Leaves)
    at_boot: Leaves = field(default_factory=Leaves)
    reboot: bool = False
    output: str = ""
    product_code: str = ""


@dataclass
class Faults:
    """What goes wrong on demand.

    Args:
        dead: the host takes no connection.
        silent: the host takes connections and answers nothing.
        modules: by module's full name, the message with which it fails.
        slow_seconds: how long each module takes.
        stays_down: a boot that does not come back.
        measuring: another benchmark holds the host.
        flood_bytes: how many a benchmark's program prints before its own.
    """

    dead: bool = False
    silent: bool = False
    modules: dict[str, str] = field(default_factory=dict)
    slow_seconds: float = 0.0
    stays_down: bool = False
    measuring: bool = False
    flood_bytes: int = 0


@dataclass
class Event:
    """One entry of a Windows event log."""

    log: str
    source: str
    id: int
    message: str
    level: str = "Information"


@dataclass
class Host:
    r"""One simulated Windows host. All of it is state: tests set and read it as they like.

    Args:
        files: by lower-case path without a closing backslash, as ``c:\windows``.
        metadata: the instance metadata document; None: no metadata service answers.
        users: passwords by name of local accounts.
        groups: members of local groups, as ``HOST\name``.
        downloads: what each url holds.
        urls: status and text that a GET of each url gives, beside downloads and metadata.
        installers: by sha256.
        endpoints: ``name:port`` that can be reached.
        shares: the UNC paths that can be reached, as ``\\server\share``.
        process_log: command lines of started processes (event 4688), with who started them.
        accounts: accounts of a domain that local groups can take in.
        requests: the urls that were asked for.
        installed: the paths of the installers that were started.
        proxy: there is a proxy in the user's settings, and it does not know the metadata service.
        unencrypted: WinRM takes Basic and unencrypted messages, as no Windows does by itself;
            False: NTLM with message encryption only.
        broker_tokens: what a registration token is worth, where no broker is asked.
    """

    name: str = "simulated-windows"
    vm_size: str | None = None
    os_name: str = "Microsoft Windows 11 Enterprise multi-session"
    os_version: str = "10.0.26200.0"
    os_sku: int = 175
    processors: int = 12
    memory_mib: int = 112640
    registry: Registry = field(default_factory=Registry)
    services: dict[str, Service] = field(default_factory=dict)
    products: dict[str, Product] = field(default_factory=dict)
    files: dict[str, File] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=lambda: {"trueup": "simulated"})
    groups: dict[str, list[str]] = field(default_factory=dict)
    credentials: dict[str, dict[str, Any]] = field(default_factory=dict)
    features: dict[str, bool] = field(default_factory=dict)
    defender: dict[str, list[str]] = field(default_factory=dict)
    gpus: list[Gpu] = field(default_factory=list)
    gpu_driver: str | None = None
    metadata: dict[str, Any] | None = None
    downloads: dict[str, File] = field(default_factory=dict)
    urls: dict[str, tuple[int, str]] = field(default_factory=dict)
    installers: dict[str, Installer] = field(default_factory=dict)
    endpoints: list[str] = field(default_factory=list)
    shares: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    process_log: list[dict[str, str]] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    installed: list[str] = field(default_factory=list)
    proxy: bool = False
    unencrypted: bool = True
    broker_tokens: dict[str, str] = field(default_factory=dict)
    broker_url: str | None = None
    pending_reboot: bool = False
    at_boot: list[Leaves] = field(default_factory=list)
    boot_seconds: float = 0.0
    boot_time: int = field(default_factory=lambda: EPOCH + int(time.time() * 10_000_000))
    boots: int = 0
    # Between a shutdown and the end of the boot.
    down: bool = False
    faults: Faults = field(default_factory=Faults)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False, compare=False)

    @classmethod
    def nv_a10(cls, vm_size: str = "Standard_NV12ads_A10_v5", name: str = "nv0") -> Host:
        """A fresh Windows 11 25H2 multi-session host of that size, with no GRID driver."""
        from .machines import nv_a10  # noqa: PLC0415 (it builds on this)

        return nv_a10(vm_size, name)

    # Files

    def file(self, path: str) -> File | None:
        """The file or folder at a path."""
        self._reachable(path)
        if self.gpu_driver and _folded(path) == _NVIDIA_SMI:
            return File(b"simulated")
        return self.files.get(_folded(path))

    def write(self, path: str, file: File) -> None:
        """Put a file there, with its parents where they are not there."""
        self._reachable(path)
        parent = dirname(path.rstrip("\\"))
        if (
            parent
            and parent.rstrip("\\") != path.rstrip("\\")
            and not self.files.get(_folded(parent))
        ):
            self.write(parent, File(None))
        self.files[_folded(path)] = file

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with what is in it."""
        for each in (_folded(path), *self.below(path)):
            self.files.pop(each, None)

    def below(self, path: str) -> list[str]:
        """The paths of all that is in a folder, at any depth."""
        start = _folded(path) + "\\"
        return [key for key in self.files if key.startswith(start)]

    def expanded(self, path: str) -> str:
        """A path with its environment variables, and with backslashes."""
        for name, value in self.environment().items():
            start = path.lower().find(f"%{name.lower()}%")
            if start >= 0:
                path = path[:start] + value + path[start + len(name) + 2 :]
        return path.replace("/", "\\")

    def environment(self) -> dict[str, str]:
        """The environment of a task."""
        return {
            "SystemRoot": r"C:\Windows",
            "WinDir": r"C:\Windows",
            "ProgramData": r"C:\ProgramData",
            "ProgramFiles": r"C:\Program Files",
            "ProgramFiles(x86)": r"C:\Program Files (x86)",
            "TEMP": r"C:\Windows\Temp",
            "COMPUTERNAME": self.name.upper()[:15],
            "USERPROFILE": r"C:\Users\trueup",
        }

    def share_of(self, path: str) -> str | None:
        """The share that a UNC path is on."""
        parts = path.split("\\")
        return "\\".join(parts[:4]).lower() if path.startswith("\\\\") else None

    def _reachable(self, path: str) -> None:
        share = self.share_of(path)
        if share and share not in [each.lower() for each in self.shares]:
            raise ShareError(f"The network path was not found: {path}")

    # Names, without regard to case

    def service_name(self, name: str) -> str:
        """A service's name as it is written."""
        return next((each for each in self.services if each.lower() == name.lower()), name)

    def service(self, name: str) -> Service | None:
        """The service of a name."""
        return self.services.get(self.service_name(name))

    def group_name(self, name: str) -> str | None:
        """A local group's name as it is written, if it is there."""
        return next((each for each in self.groups if each.lower() == name.lower()), None)

    # What happens on it

    def started(self, service: str = agents.SERVICE) -> None:
        """What follows when a service has started."""
        if service == agents.SERVICE:
            agents.started(self)

    def add_products(self, products: Mapping[str, Product]) -> None:
        """Take in products, with their uninstall keys."""
        self.products.update(products)
        for name, product in products.items():
            key = f"{UNINSTALL}\\{product.product_id or name}"
            said = {
                "DisplayName": name,
                "DisplayVersion": product.version,
                "Publisher": product.publisher,
            }
            for value, text in said.items():
                self.registry.set(key, value, "string", text)

    def run(self, command: str, user: str) -> None:
        """Note a started process, as security event 4688 with its command line does."""
        self.process_log.append({"command_line": command, "user": user})

    def log(
        self, log: str, source: str, number: int, message: str, level: str = "Information"
    ) -> None:
        """Write an entry into an event log."""
        self.events.append(Event(log, source, number, message, level))

    def said(self) -> str:
        """All that anybody with the host's logs can read: where no secret may be."""
        lines = [entry["command_line"] for entry in self.process_log]
        return "\n".join([*lines, *(event.message for event in self.events)])

    def install(self, leaves: Leaves) -> None:
        """Take in what an installer leaves."""
        # Copies: an installer's own description must not be what later tasks change.
        own = _leaves(json.loads(json.dumps(asdict(leaves), default=_plain)))
        self.add_products(own.products)
        self.services.update(own.services)
        for path, file in own.files.items():
            self.write(path, file)
        for key, values in own.registry.items():
            self.registry.make(key)
            for name, (kind, data) in values.items():
                self.registry.set(key, name, kind, data)
        for group, members in own.groups.items():
            self.groups.setdefault(group, []).extend(members)
        if own.gpu_driver:
            self.drive(own.gpu_driver)

    def drive(self, version: str) -> None:
        """Load a GPU driver. Azure's hosts take release 18 (R570) and newer: with an older one
        Windows stops the GPUs with code 43."""
        self.gpu_driver = version
        for gpu in self.gpus:
            gpu.error_code = 0 if float(version) >= 570 else 43

    def __post_init__(self) -> None:
        """Every product has its uninstall key from the beginning."""
        self.add_products(self.products)

    def reboot(self) -> None:
        """Boot: what waited for it takes place."""
        self.boots += 1
        # After what was done before it, and a minute later than the last one at least.
        now = EPOCH + int(time.time() * 10_000_000)
        self.boot_time = max(self.boot_time + 600_000_000, now) + self.boots
        self.pending_reboot = False
        for leaves in self.at_boot:
            self.install(leaves)
        self.at_boot.clear()
        for service in self.services.values():
            service.needs_reboot = False
            service.state = "started" if service.start_mode in ("auto", "delayed") else "stopped"
        self.started()
        self.registry.make(
            r"HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Winlogon\AutoLogonChecked"
        )

    def uptime_seconds(self) -> float:
        """How long ago it booted."""
        return max(0.0, time.time() - (self.boot_time - EPOCH) / 10_000_000)

    def last_boot(self) -> str:
        """When it booted, as .NET's format u has it."""
        begun = time.gmtime((self.boot_time - EPOCH) / 10_000_000)
        return time.strftime("%Y-%m-%d %H:%M:%SZ", begun)

    # As JSON

    def dump(self) -> dict[str, Any]:
        """All of its state as JSON's types."""
        state = {
            each.name: getattr(self, each.name) for each in fields(self) if each.name != "lock"
        }
        state["registry"] = self.registry.dump()
        whole: dict[str, Any] = json.loads(json.dumps(state, default=_plain))
        return whole

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Host:
        """A host of a state that ``dump`` gave, or of a part of one.

        Raises:
            ValueError: a field that a host does not have.
        """
        unknown = sorted(set(state) - {each.name for each in fields(cls)} | ({"lock"} & set(state)))
        if unknown:
            raise ValueError(f"simulated Windows host: no such field: {', '.join(unknown)}")
        return cls(**{name: _FIELDS.get(name, _same)(value) for name, value in state.items()})

    @classmethod
    def read(cls, path: Path) -> Host:
        """A host of the state in a JSON file."""
        return cls.load(json.loads(path.read_text()))


class ShareError(Exception):
    """A UNC path on a share that cannot be reached."""


def _folded(path: str) -> str:
    return normpath(path).rstrip("\\").lower()


def name_of(path: str) -> tuple[str, str]:
    """A path's last part, and its extension."""
    name = basename(path.rstrip("\\"))
    return name, splitext(name)[1]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Registry):
        return value.dump()
    return asdict(value)


def _same(value: Any) -> Any:
    return value


def _each(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: {name: build(each) for name, each in value.items()}


def _file(state: dict[str, Any]) -> File:
    data = state.get("data", b"")
    if isinstance(data, dict):
        data = base64.b64decode(data["base64"])
    elif isinstance(data, str):
        data = data.encode()
    return File(**{**state, "data": data, "holds": _each(_file)(state.get("holds", {}))})


def _leaves(state: dict[str, Any]) -> Leaves:
    # Here the registry stays as JSON has it.
    build = {**_FIELDS, "registry": _same}
    return Leaves(**{name: build.get(name, _same)(value) for name, value in state.items()})


def _installer(state: dict[str, Any]) -> Installer:
    both = {name: _leaves(state.get(name, {})) for name in ("leaves", "at_boot")}
    return Installer(**{**state, **both})


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "registry": Registry,
    "services": _each(lambda state: Service(**state)),
    "products": _each(lambda state: Product(**state)),
    "files": lambda state: {_folded(path): _file(each) for path, each in state.items()},
    "downloads": _each(_file),
    "installers": _each(_installer),
    "gpus": lambda state: [Gpu(**each) for each in state],
    "events": lambda state: [Event(**each) for each in state],
    "urls": _each(tuple),
    "at_boot": lambda state: [_leaves(each) for each in state],
    "faults": lambda state: Faults(**state),
}
