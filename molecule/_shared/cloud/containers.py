"""The emulated cloud's machines as systemd containers: replicas of the images that were asked for.

A machine has its virtual network's address in a network namespace of its own (netns.py), its
metadata service there, its size's recorded machine at /srv/machine, and cloud-init, which runs its
custom data. It shares kernel, cores and memory with this host; docs/dev/lab.md says what differs.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import threading
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import images, impact, instance_metadata, netns
from .images import Failed, run
from .windows_hosts import WindowsHost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from windows.host import Host

    from .machines import Machine, Metadata
    from .windows_hosts import Prepare

# One folder a cloud that runs, by which the next one finds what a dead one left.
CLOUDS = Path("/run/trueup-cloud")
LABEL = "trueup-cloud"
_SEED = "var/lib/cloud/seed/nocloud"
# Debian's names.
_TRUSTED, _BUNDLE = "etc/ssl/certs", "etc/ssl/certs/ca-certificates.crt"
_STOP_SECONDS = 10


@dataclass
class _Node:
    """A machine that is there: its container, namespace and service are of one name.

    One of Windows is a simulated host in this process, and no container.
    """

    machine: Machine
    name: str
    service: instance_metadata.Service
    windows: WindowsHost | None = None


class Containers:
    """Runs machines as containers: Hardware (machines.py). Needs root and podman.

    Attributes:
        address: of this host in the range of public addresses.
        public_range: of the public addresses; another cloud on this host has another one.
        id: of this cloud, in the names of all that it makes.
    """

    def __init__(
        self,
        *,
        mounts: Sequence[str] = (),
        shm_size: str = "",
        environment: Mapping[str, str] | None = None,
        capabilities: Sequence[str] = (),
        windows: Prepare = lambda _, __: None,
    ) -> None:
        """Remove what dead clouds left, and make the bridge that public addresses are on.

        Args:
            mounts: what every machine is given beside its own: podman's ``/here:/there[:ro]``;
                wheels at /srv/wheels, a folder /shared that stands in for shared storage.
            shm_size: of /dev/shm, 64m where it is empty.
            environment: of systemd in the machine.
            capabilities: of the kernel: SYS_ADMIN for systemd's sandboxes.
            windows: what a fresh Windows host is given (windows_hosts.py).
        """
        self._prepare = windows
        self.id = secrets.token_hex(3)
        self._options = [
            *(f"--volume={mount}" for mount in mounts),
            *([f"--shm-size={shm_size}"] if shm_size else []),
            *(f"--env={key}={value}" for key, value in (environment or {}).items()),
            *(f"--cap-add={name}" for name in capabilities),
        ]
        self._folder = CLOUDS / self.id
        self._lock = threading.RLock()
        # One call at a time on a machine, by its id.
        self._busy: dict[str, threading.RLock] = {}
        self._nodes: dict[str, _Node] = {}
        self._closed = False
        self._networks: dict[str, netns.Network] = {}
        self._numbers = iter(range(1, 1_000_000))
        self._authority = b""
        self._metadata: Metadata | None = None
        with images.alone(CLOUDS / "lock"):
            sweep()
            self._folder.mkdir(parents=True)
            (self._folder / "process").write_text(process(os.getpid()))
            self._internet = netns.Internet(f"tu{self.id}")
        self.address = self._internet.address
        self.public_range = str(self._internet.range)

    def connect(self, metadata: Metadata, authority: Path) -> None:
        self._metadata = metadata
        self._authority = authority.read_bytes()

    def container(self, id: str) -> str:  # noqa: A002 WHY: as in Hardware, and below
        """The name of a machine's container, for `podman exec`."""
        return self._nodes[id.lower()].name

    def windows(self, id: str) -> Host:  # noqa: A002
        """The state of a machine that is a simulated Windows host."""
        node = self._nodes[id.lower()].windows
        if node is None:
            raise KeyError(id)
        return node.host

    # ---- Hardware -------------------------------------------------------------------------------

    def start(self, machine: Machine) -> None:
        with self._alone(machine.id) as key:
            if key in self._nodes:
                return
            if machine.system == "Windows":
                self._nodes[key] = self._windows(machine)
                return
            replica = images.replica_of(machine.image)
            image = images.prepare(replica, CLOUDS / "images.lock")
            name = f"trueup-cloud-{self.id}-{next(self._numbers)}"
            with contextlib.ExitStack() as undo:
                undo.callback(self._forget, name)
                self._join(machine, name)
                undo.callback(self._leave, machine, name)
                service = self._service(machine, name)
                undo.callback(service.close)
                self._create(machine, name, image)
                undo.callback(_remove, name)
                self._write(machine, name)
                run(["podman", "start", name])
                undo.pop_all()
            self._nodes[key] = _Node(machine, name, service)

    def _windows(self, machine: Machine) -> _Node:
        name = f"trueup-cloud-{self.id}-{next(self._numbers)}"
        with contextlib.ExitStack() as undo:
            self._join(machine, name)
            undo.callback(self._leave, machine, name)
            service = self._service(machine, name)
            undo.callback(service.close)
            assert self._metadata is not None
            made = WindowsHost(machine, name, self._metadata)
            self._prepare(made.host, machine)
            undo.pop_all()
        return _Node(machine, name, service, made)

    def stop(self, id: str) -> None:  # noqa: A002
        with self._alone(id) as key:
            node = self._nodes[key]
            if node.windows:
                node.windows.stop()
            else:
                run(["podman", "stop", "--time", str(_STOP_SECONDS), node.name])
            self._plug(node.machine, up=False)

    def resume(self, id: str, host: str = "") -> None:  # noqa: A002
        with self._alone(id) as key:
            node = self._nodes[key]
            if host and not node.windows:
                node.machine = replace(node.machine, host=host)
                _put(node.name, _of_host(node.machine), 0o644)
            self._plug(node.machine, up=True)
            if node.windows:
                node.windows.host.reboot()
                node.windows.start()
            else:
                run(["podman", "start", node.name])

    def restart(self, id: str) -> None:  # noqa: A002
        with self._alone(id):
            self.stop(id)
            self.resume(id)

    def delete(self, id: str) -> None:  # noqa: A002
        with self._alone(id) as key:
            node = self._nodes.get(key)
            if node is None:
                return
            if node.windows:
                node.windows.stop()
            else:
                _remove(node.name)
            node.service.close()
            self._leave(node.machine, node.name)
            self._forget(node.name)
            del self._nodes[key]

    def inside(self, id: str, what: dict[str, Any]) -> None:  # noqa: A002
        with self._alone(id) as key:
            node = self._nodes[key].windows
            if node is None:
                raise Failed(f"{id} is a container, in which {', '.join(what)} means nothing")
            node.inside(what)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            busy = list(self._busy.values())
        for held in busy:
            # Until what is being made is made, or has failed.
            with held:
                pass
        for node in self._nodes.values():
            if node.windows:
                node.windows.stop()
            node.service.close()
        self._nodes.clear()
        _clear(self.id)

    # ---- parts ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _alone(self, id: str) -> Iterator[str]:  # noqa: A002
        """Its key, held by one caller at a time."""
        key = id.lower()
        with self._lock:
            held = self._busy.setdefault(key, threading.RLock())
        with held:
            if self._closed:
                raise Failed("the emulated cloud is closed")
            yield key

    def _join(self, machine: Machine, name: str) -> None:
        """Give it its place in its network, which is made for the first and goes with the last."""
        key = machine.network.lower()
        with self._lock:
            if key not in self._networks:
                start = f"trueup-cloud-{self.id}-net"
                self._networks[key] = netns.Network(start, self._internet, machine.range)
            network = self._networks[key]
            try:
                network.join(name, machine.address, machine.public, outbound=machine.outbound)
                network.names[machine.address] = machine.name
            finally:
                self._tell(key)

    def _leave(self, machine: Machine, name: str) -> None:
        key = machine.network.lower()
        with self._lock:
            network = self._networks[key]
            network.leave(name, machine.address, machine.public, outbound=machine.outbound)
            del network.names[machine.address]
            self._tell(key)

    def _tell(self, key: str) -> None:
        """Write the file that is /etc/hosts of a network's machines, Azure's name service to them;
        remove a network that has none.

        In place: a bind mount is of the file, not of its path.
        """
        network = self._networks[key]
        path = self._folder / network.name
        if network.names:
            lines = [f"{address} {one}\n" for address, one in network.names.items()]
            path.write_text("127.0.0.1 localhost\n" + "".join(lines))
        else:
            network.close()
            path.unlink(missing_ok=True)
            del self._networks[key]

    def _plug(self, machine: Machine, *, up: bool) -> None:
        with self._lock:
            self._networks[machine.network.lower()].plug(machine.address, up=up)

    def _service(self, machine: Machine, name: str) -> instance_metadata.Service:
        asked = self._metadata
        if asked is None:
            raise RuntimeError("connect() says who answers the machines, before the first start")
        return instance_metadata.Service(
            netns.listening(name),
            lambda method, path, query, body: asked(machine.id, method, path, query, body),
        )

    def _create(self, machine: Machine, name: str, image: str) -> None:
        recorded = self._folder / f"{name}.machine"
        mounts = [f"{self._folder / self._networks[machine.network.lower()].name}:/etc/hosts"]
        if images.write_machine(machine.size, machine.image, recorded):
            mounts.append(f"{recorded}:/srv/machine")
        argv = ["podman", "create", "--quiet", "--name", name, "--hostname", machine.name]
        argv += ["--label", f"{LABEL}={self.id}", "--network", f"ns:{netns.NAMESPACES / name}"]
        # A machine that reboots itself comes back.
        argv += ["--systemd", "always", "--restart", "always", "--no-hosts", "--dns", "none"]
        argv += [f"--volume={mount}" for mount in mounts]
        argv += ["--env", f"REPLICA_VM_SIZE={machine.size}", *self._options]
        run([*argv, image])

    def _write(self, machine: Machine, name: str) -> None:
        """What Azure's agent and its data source tell cloud-init, and the cloud's authority."""
        _put(name, seed(machine), 0o600)
        _put(name, _of_host(machine), 0o644)
        root = Path(run(["podman", "mount", name]).strip())
        try:
            _trust(root, self._authority)
            # Refused at once, where the image's would be waited for.
            (root / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n")
        finally:
            run(["podman", "unmount", name])

    def _forget(self, name: str) -> None:
        shutil.rmtree(self._folder / f"{name}.machine", ignore_errors=True)


def seed(machine: Machine) -> dict[str, bytes]:
    """The files that cloud-init reads, by their path below /: the custom data as they are, and the
    rest of what Azure's data source says: name, admin user with sudo, keys."""
    about = {
        "instance-id": str(uuid.uuid5(uuid.NAMESPACE_URL, machine.id)),
        "local-hostname": machine.name,
        "public-keys": list(machine.keys),
    }
    files = {
        f"{_SEED}/meta-data": json.dumps(about).encode(),
        f"{_SEED}/user-data": machine.custom_data,
    }
    if machine.user:
        user = {
            "name": machine.user,
            "gecos": "of the emulated cloud",
            "shell": "/bin/bash",
            "groups": ["adm", "sudo"],
            "sudo": ["ALL=(ALL) NOPASSWD:ALL"],
            # No password, where a locked account is one that sshd without PAM refuses.
            "lock_passwd": False,
            "passwd": "*",
        }
        settings = {"system_info": {"default_user": user}}
        files["etc/cloud/cloud.cfg.d/91_machine.cfg"] = json.dumps(settings).encode()
    return files


def _of_host(machine: Machine) -> dict[str, bytes]:
    """What Hyper-V tells the machine of its host."""
    return {"var/lib/hyperv/.kvp_pool_3": impact.pool(machine.host, machine.name)}


def _put(name: str, files: Mapping[str, bytes], mode: int) -> None:
    """Write files of a container by their path below /."""
    root = Path(run(["podman", "mount", name]).strip())
    try:
        for path, content in files.items():
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            place.chmod(mode)
    finally:
        run(["podman", "unmount", name])


def _trust(root: Path, authority: bytes) -> None:
    """What `update-ca-certificates` does with one more certificate."""
    folder = root / _TRUSTED
    (folder / "emulated-cloud.pem").write_bytes(authority)
    argv = ["openssl", "x509", "-noout", "-subject_hash"]
    name = run(argv, said=authority.decode()).strip()
    (folder / f"{name}.0").symlink_to("emulated-cloud.pem")
    with (root / _BUNDLE).open("ab") as bundle:
        bundle.write(authority)


def _remove(name: str) -> None:
    """Nothing in a machine that goes is worth a graceful stop."""
    run(["podman", "rm", "--force", "--ignore", "--time", "0", "--volumes", name])


# ---- what a dead cloud left ---------------------------------------------------------------------


def sweep() -> list[str]:
    """Remove what clouds left whose process is gone; gives their ids."""
    alive, known = set(), set()
    for path in CLOUDS.glob("*/process"):
        said = path.read_text()
        known.add(path.parent.name)
        # Empty: it was ended before it could write.
        if said and said == process(int(said.split()[0])):
            alive.add(path.parent.name)
    # A restart of this host leaves containers, and no folder.
    form = f'{{{{index .Labels "{LABEL}"}}}}'
    argv = ["podman", "ps", "--all", "--filter", f"label={LABEL}", "--format", form]
    dead = sorted((known | set(run(argv).split())) - alive)
    for cloud in dead:
        _clear(cloud)
    return dead


def process(number: int) -> str:
    """A process by its number and the time it began at, in ticks; the number alone when gone."""
    try:
        text = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return f"{number}"
    # Behind the name, which may hold blanks; field 22 of proc(5).
    return f"{number} {text.rpartition(')')[2].split()[19]}"


def _clear(cloud: str) -> None:
    """Remove all that a cloud made, as far as it is there."""
    filters = ["--filter", f"label={LABEL}={cloud}"]
    names = run(["podman", "ps", "--all", *filters, "--format", "{{.Names}}"]).split()
    if names:
        run(["podman", "rm", "--force", "--ignore", "--time", "0", "--volumes", *names])
    for name in netns.namespaces(f"trueup-cloud-{cloud}-"):
        netns.ip(f"netns del {name}")
    bridge = f"tu{cloud}"
    if Path(f"/sys/class/net/{bridge}").exists():
        netns.ip(f"link del {bridge}")
    shutil.rmtree(CLOUDS / cloud, ignore_errors=True)


def main() -> None:
    """`python -m cloud.containers`: remove what dead clouds left."""
    with images.alone(CLOUDS / "lock"):
        dead = sweep()
    for cloud in dead:
        print(f"removed what the emulated cloud {cloud} left")


if __name__ == "__main__":
    if os.geteuid():
        sys.exit("root is needed: containers and network namespaces")
    try:
        main()
    except (Failed, subprocess.SubprocessError) as error:
        sys.exit(str(error))
