"""Nodes that lose power between two tasks of a role, and what was not on their disk with it.

Each node is a systemd container whose root is a file system of its own, ext4 or XFS, on a loop
device. At the moment all its processes are killed and the file system is shut down without writing
its journal, so that what nobody had synced is lost as on a machine: files without content, renames
that did not happen. Then it starts again, and the run is repeated until nothing changes. The node's
files and units must be those of one that never lost power.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import machines
import yaml
from helpers import TOGETHER

from torture import Tally
from torture.power_cut import power_cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "power_cut"
SHARED = ROOT / "molecule" / "_shared"
NAME = "trueup-power"
# Where the file systems are: in memory, since a disk of the tests' machine adds nothing but time.
FOLDER = Path(os.environ.get("TRUEUP_POWER_FOLDER", "/dev/shm/trueup-power"))
_BOOT_SECONDS = 180
# A folder of a node that has a file system of its own; and its /run and /tmp, in memory.
_APART_GIB, _MEMORY_MIB = 4, 320
# Nodes of one run. One of them keeps its power.
SIDE_BY_SIDE = 5


@dataclass(frozen=True)
class Kind:
    """A node: its file system, its variables, and what it gets one after the other."""

    file_system: str
    roles: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    image: str = "plain"
    machine: str = ""
    system: str = ""
    variables: dict[str, Any] = field(default_factory=dict)

    @property
    def steps(self) -> list[str]:
        return [*self.roles, *self.benchmarks, *self.cluster]


def _alternative(name: str) -> dict[str, Any]:
    told = yaml.safe_load((ROOT / "molecule/alternative/molecule.yml").read_text())
    found: dict[str, Any] = told["provisioner"]["inventory"]["host_vars"][name]
    return {key: value for key, value in found.items() if not key.startswith("node_")}


_GPU = ("hpc_limits", "rdma", "gpu_driver", "gpu_clocks", "hpcx", "nccl")
_WHEELS = {"devito_pip_find_links": "/srv/wheels", "devito_pip_no_index": True}
_SLURM = {
    "slurm_munge_key": "dHJ1ZXVwLXBvd2VyLXRvcnR1cmUtbXVuZ2Uta2V5LW9mLWEtdGVzdC0wMTIzNDU2Nzg5",
    "slurm_database_password": "aPasswordOfATest123",
    "slurm_cluster_name": "power",
    "slurm_database_buffer_mib": 128,
    "slurm_ready_seconds": 600,
}
KINDS = {
    "ndv4": Kind(
        "ext4",
        _GPU,
        machine="nd96asr_v4",
        system="ubuntu-24.04",
        variables={"trueup_vm_size": "Standard_ND96asr_v4"},
    ),
    "alma": Kind(
        "xfs",
        _GPU,
        machine="nd96isr_h100_v5",
        system="almalinux",
        variables=_alternative("trueup-alt-alma"),
    ),
    "hbv3": Kind(
        "xfs",
        ("hpc_limits", "rdma", "hpcx"),
        ("stream", "devito"),
        machine="hb120rs_v3",
        system="ubuntu-24.04",
        variables={"trueup_vm_size": "Standard_HB120rs_v3", **_WHEELS},
    ),
    "nva10": Kind(
        "ext4",
        ("hpc_limits", "gpu_grid"),
        machine="nv36ads_a10_v5",
        system="ubuntu-24.04",
        variables={"trueup_vm_size": "Standard_NV36ads_A10_v5"},
    ),
    "slurm": Kind("ext4", cluster=("slurm",), image="slurm", variables=_SLURM),
}
_CLUSTER = {"slurm": ["slurm_controller", "slurm_accounting", "slurm_compute", "slurm_login"]}

# What two nodes that never lost power differ in: times, random numbers, logs, caches that their own
# programs check.
_DIFFERS = re.compile(
    r"^(dev|proc|run|srv|sys|tmp|var/spool/slurm\w*|var/log|var/tmp|var/cache|var/lib/(apt|systemd|mysql|dnf|slurm\w*"
    r"|ucf|munge|private|dbus)|root/\.(ansible|cache|rpmdb))(/|$)"
    r"|/__pycache__/|\.pyc$|/\.git(/|$)|(^|/)(ld\.so\.cache|aux-cache|\.updated|machine-id)$"
    r"|\.(lock|log|gcno|gcda)$|^etc/(passwd|group|shadow|gshadow|subuid|subgid)-$"
    # Built on the node, where pip's cache was lost again.
    r"|site-packages/(pyrevolve|contexttimer)|dpkg/(lock|status-old|diversions-old|triggers|updates/tmp\.i$)|\.wh\."
)
# In what is the same: a run's number, when dnf locked a package.
_RANDOM = re.compile(rb'"run": "[0-9a-f]{32}"|^# Added lock on .*$', re.MULTILINE)


class Failed(Exception):
    """A program of the test itself ended badly."""


def run(*argv: str | Path, check: bool = True, **more: Any) -> str:
    environment = {**os.environ, "CONTAINERS_CONF": str(SHARED / "containers.conf")}
    done = subprocess.run(
        [str(one) for one in argv],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        **more,
    )
    if check and done.returncode:
        raise Failed(f"{' '.join(map(str, argv))[:200]}: {(done.stderr or done.stdout)[-600:]}")
    return done.stdout


class Store:
    """File systems as files that share what they have in common, on one XFS."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.images = folder / "images"
        self.told: dict[str, dict[str, str]] = {}

    def open(self) -> None:
        self.images.mkdir(parents=True, exist_ok=True)
        backing = self.folder / "store.img"
        if not backing.exists():
            run("truncate", "--size=60G", backing)
            run("mkfs.xfs", "-q", "-m", "reflink=1", backing)
        if not self.images.is_mount():
            run("mount", "-o", "loop,discard", backing, self.images)
        if not (self.folder / "key").exists():
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "key")

    def close(self) -> None:
        """Also what an attack that was killed has left."""
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in reversed(mounts):
            if mount.startswith(f"{self.folder}/"):
                run("umount", "--lazy", mount, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def prepare(self, kind: str) -> dict[str, str]:
        """The image's name, wheels and stand-ins, and a file system for each type with it."""
        if kind not in self.told:
            told = self.folder / f"{kind}.json"
            given = {"node_all": {"node_image_kind": kind}, "power_told": str(told)}
            given["ansible_python_interpreter"] = sys.executable
            _play(self, HERE / "nodes.yml", ["localhost,"], extra=given, check=True)
            self.told[kind] = json.loads(told.read_text())
        return self.told[kind]

    def base(self, kind: Kind) -> str:
        """The name of a file system with the image of this kind of node."""
        name = f"base-{kind.image}-{kind.file_system}"
        path = self.images / name
        image = self.prepare(kind.image)["image"]
        if path.exists():
            return name
        part = self.images / f"{name}.part"
        part.unlink(missing_ok=True)
        run("truncate", "--size=8G", part)
        run(f"mkfs.{kind.file_system}", "-q", part)
        mount = self.folder / name
        mount.mkdir(exist_ok=True)
        run("mount", "-o", "loop", part, mount)
        seen = run("podman", "image", "mount", image).strip()
        run("cp", "--archive", f"{seen}/.", mount)
        run("podman", "image", "unmount", image)
        keys = mount / "root" / ".ssh"
        keys.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(self.folder / "key.pub", keys / "authorized_keys")
        key = (mount / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()
        with (self.folder / "known_hosts").open("a") as known:
            known.write(f"{NAME}-* {key[0]} {key[1]}\n")
        run("umount", mount)
        part.rename(path)
        return name


class Node:
    """A container on a file system of its own; its folder ``apart``, such as var, on another."""

    def __init__(self, store: Store, host: str, kind: Kind, apart: str = "") -> None:
        self.store, self.host, self.kind, self.apart = store, host, kind, apart
        self.root = store.folder / "roots" / host
        self.image = store.images / f"node-{host}"
        self.other = store.images / f"node-{host}-apart"

    def make(self, base: str) -> None:
        self.remove()
        run("cp", "--reflink=always", self.store.images / base, self.image)
        if self.kind.machine:
            machine = self.store.folder / "machines" / self.host
            shutil.rmtree(machine, ignore_errors=True)
            machines.build(machines.description(self.kind.machine), machine)
            printed = machines.DATA / self.kind.machine / "nvidia-smi.csv"
            if printed.exists():
                shutil.copy(printed, machine)
            if self.kind.system == "almalinux":
                # The driver that is loaded is the one that this system's packages are of.
                for name in ("proc/driver/nvidia/version", "sys/module/nvidia/version"):
                    path = machine / name
                    path.write_text(path.read_text().replace("580.173.02", "580.126.20"))
        self.start()
        if self.kind.system == "almalinux":
            # A real one has had its database of packages since it was installed.
            run("podman", "exec", self.host, "sh", "-c", "rpm --initdb && sync")

    def start(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        # XFS refuses a second file system with the same id.
        options = "loop,nouuid" if self.kind.file_system == "xfs" else "loop"
        run("mount", "-o", options, self.image, self.root)
        if self.apart:
            self._set_apart(options)
        told = self.store.prepare(self.kind.image)
        volumes = [f"{told['wheels']}:/srv/wheels:ro", f"{told['vendor']}:/srv/vendor:ro"]
        if self.kind.machine:
            volumes.append(f"{self.store.folder}/machines/{self.host}:/srv/machine")
        if self.kind.system:
            release = SHARED / "files" / f"os-release-{self.kind.system}"
            volumes.append(f"{release}:/etc/os-release:ro")
        argv = ["podman", "run", "--detach", "--name", self.host, "--hostname", self.host]
        argv += [
            "--network=none",
            "--systemd=always",
            "--cap-add=SYS_NICE",
            "--env=container=podman",
        ]
        argv += [f"--volume={volume}" for volume in volumes]
        run(*argv, "--rootfs", str(self.root), "/sbin/init")
        # podman's may take half of the machine's memory each, and two full ones all of it.
        for folder in ("/run", "/tmp"):
            into = ["nsenter", f"--target={self.pid}", "--mount"]
            run(*into, "mount", "-o", f"remount,size={_MEMORY_MIB}M", folder)
        # Slurm resolves no name, not even its own, on a machine with a loopback address alone.
        inside = ["nsenter", f"--target={self.pid}", "--net", "ip"]
        run(*inside, "link", "add", "link0", "type", "veth", "peer", "name", "link1")
        run(*inside, "address", "add", "192.0.2.10/24", "dev", "link0")
        for link in ("link0", "link1"):
            run(*inside, "link", "set", link, "up")
        end = time.monotonic() + _BOOT_SECONDS
        ask = ["podman", "exec", self.host, "systemctl", "is-system-running", "--wait"]
        while (state := run(*ask, check=False).strip()) not in ("running", "degraded"):
            if time.monotonic() > end:
                raise Failed(f"{self.host} does not start: {state}")
            time.sleep(0.2)

    def _set_apart(self, options: str) -> None:
        folder = self.root / self.apart
        if not self.other.exists():
            run("truncate", f"--size={_APART_GIB}G", self.other)
            run(f"mkfs.{self.kind.file_system}", "-q", self.other)
            beside = self.store.folder / f"{self.host}-apart"
            beside.mkdir(exist_ok=True)
            run("mount", "-o", "loop", self.other, beside)
            shutil.rmtree(beside / "lost+found", ignore_errors=True)
            run("cp", "--archive", f"{folder}/.", beside)
            run("umount", beside)
        run("mount", "-o", options, self.other, folder)

    @property
    def mounted(self) -> bool:
        """Not asked of the file system, which answers nothing once it is shut down."""
        return f" {self.root} " in Path("/proc/self/mounts").read_text()

    @property
    def name(self) -> str:
        """That of its kind, where it is a node of the reference."""
        return self.host.removeprefix(f"{NAME}-")

    @property
    def pid(self) -> int:
        return int(run("podman", "inspect", "--format={{.State.Pid}}", self.host))

    def power_off(self) -> None:
        """The container goes; what its file system had not written, if it was shut down, too."""
        run("podman", "rm", "--force", "--time=0", self.host, check=False)
        for _ in range(100):
            if not self.mounted:
                return
            run("umount", "--recursive", self.root, check=False)
            time.sleep(0.05)
        raise Failed(f"{self.root} stays mounted")

    def keep(self, name: str) -> None:
        """A copy of its disk with all that it has written."""
        run("fsfreeze", "--freeze", self.root)
        try:
            run("cp", "--reflink=always", self.image, self.store.images / name)
        finally:
            run("fsfreeze", "--unfreeze", self.root)

    def boot_again(self) -> None:
        self.power_off()
        self.start()

    def remove(self) -> None:
        run("podman", "rm", "--force", "--time=0", self.host, check=False)
        if self.mounted:
            self.power_off()
        self.image.unlink(missing_ok=True)
        self.other.unlink(missing_ok=True)

    def digest(self) -> dict[str, str]:
        """Each file of the node, and what is in it; and its units."""
        found: dict[str, str] = {}
        for folder, folders, names in os.walk(self.root):
            inside = os.path.relpath(folder, self.root)
            inside = "" if inside == "." else f"{inside}/"
            folders[:] = [one for one in folders if not _DIFFERS.search(inside + one)]
            for name in [*names, *folders]:
                # A service may take away a file of its own at any moment.
                with contextlib.suppress(FileNotFoundError):
                    if not _DIFFERS.search(inside + name):
                        found[inside + name] = _seen(Path(folder) / name, self.host)
        for what in ("active", "failed"):
            argv = ["podman", "exec", self.host, "systemctl", "list-units", "--plain"]
            argv += ["--no-legend", f"--state={what}", "--type=service,timer,mount,socket"]
            for line in run(*argv).splitlines():
                found[f"unit {line.split()[0]}"] = what
        found.pop(f"unit {self.apart}.mount", None)
        return found


def _seen(path: Path, host: str) -> str:
    """What is there, whatever the node is called."""
    status = path.lstat()
    said = f"{stat.S_IFMT(status.st_mode):o} {stat.S_IMODE(status.st_mode):o} {status.st_uid}"
    if stat.S_ISLNK(status.st_mode):
        return f"{said} {path.readlink()}"
    if stat.S_ISREG(status.st_mode):
        content = _RANDOM.sub(b"", path.read_bytes().replace(host.encode(), b"NODE"))
        return f"{said} {len(content)} {hashlib.sha1(content).hexdigest()}"
    return said


@dataclass
class Ran:
    """What a run of the playbooks said."""

    code: int
    text: str
    events: list[dict[str, Any]]

    def tasks(self, host: str) -> list[dict[str, Any]]:
        return [one for one in self.events if one.get("host") == host and "task" in one]

    def stats(self, host: str) -> dict[str, int]:
        ends = [one["stats"] for one in self.events if "stats" in one]
        told: dict[str, int] = ends[-1].get(host, {}) if ends else {}
        return told

    def lost(self, host: str) -> bool:
        return any(one.get("lost") and one["host"] == host for one in self.events)

    def why(self, host: str) -> str:
        said = [
            f"{one['role']}: {one['task']}: {one['said']}"
            for one in self.tasks(host)
            if one["failed"]
        ]
        said += [
            one["unreachable"]
            for one in self.events
            if one.get("host") == host and "unreachable" in one
        ]
        return "; ".join(said)[:1500] or f"status {self.code}: {self.text[-300:]}"


def _play(
    store: Store,
    playbook: Path,
    inventories: list[str],
    *,
    plan: dict[str, Any] | None = None,
    extra: dict[str, Any] | None = None,
    check: bool = False,
) -> Ran:
    told, moments = store.folder / "told.jsonl", store.folder / "plan.json"
    told.write_text("")
    moments.write_text(json.dumps(plan or {}))
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_CALLBACK_PLUGINS": f"{ROOT / 'plugins/callback'}:{HERE}",
        "ANSIBLE_CALLBACKS_ENABLED": "trueup_records,power_cut",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(store.folder / "facts"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(store.folder / "cp"),
        "ANSIBLE_TIMEOUT": "60",
        "CONTAINERS_CONF": str(SHARED / "containers.conf"),
        "MOLECULE_EPHEMERAL_DIRECTORY": str(store.folder),
        "MOLECULE_PROJECT_DIRECTORY": str(ROOT),
        "MOLECULE_SCENARIO_NAME": "power",
        "TRUEUP_POWER_PLAN": str(moments),
        "TRUEUP_POWER_TOLD": str(told),
        "TRUEUP_RESULTS": str(store.folder / "results"),
    }
    argv = [sys.executable, "-m", "ansible", "playbook", str(playbook)]
    for inventory in inventories:
        argv += ["--inventory", inventory]
    if extra:
        argv += ["--extra-vars", json.dumps(extra)]
    done = subprocess.run(
        argv, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, **TOGETHER, check=False
    )
    (store.folder / "last.log").write_text(done.stdout)
    with (store.folder / "all.log").open("a") as log:
        log.write(done.stdout)
    if check and done.returncode:
        raise Failed(f"{playbook.name} ended with status {done.returncode}: {done.stdout[-1500:]}")
    lines = told.read_text().splitlines()
    return Ran(done.returncode, done.stdout, [json.loads(line) for line in lines])


def configure(store: Store, steps: dict[str, tuple[Kind, str]], plan: dict[str, Any]) -> Ran:
    """Run the playbooks: each node gets one role."""
    hosts: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    for host, (kind, step) in steps.items():
        hosts[host] = {
            "ansible_ssh_common_args": f"-F {store.folder}/ssh_config",
            **kind.variables,
            "trueup_family_roles": [step] if step in kind.roles else [],
            "trueup_benchmarks": [step] if step in kind.benchmarks else [],
        }
        if not kind.machine:
            hosts[host] |= {"trueup_sysfs_root": "/sys", "trueup_procfs_root": "/proc"}
        for group in _CLUSTER.get(step, []):
            groups.setdefault(group, {"hosts": {}})["hosts"][host] = {}
    inventory = store.folder / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts, "children": groups}}))
    (store.folder / "ssh_config").write_text(
        f"Host *\n  IdentityFile {store.folder}/key\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {store.folder}/known_hosts\n  StrictHostKeyChecking yes\n"
        "  ProxyCommand podman exec -i %h /usr/sbin/sshd -i -o UsePAM=no\n"
    )
    inventories = [str(SHARED / "stand_ins"), str(inventory)]
    return _play(store, HERE / "site.yml", inventories, plan=plan)


@dataclass(frozen=True)
class Step:
    """What a role does on a node that keeps its power."""

    before: str
    moments: list[float]
    names: list[str]
    digest: dict[str, str]


def together(call: Any, things: list[Any]) -> list[Any]:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(call, things))


def _reference(store: Store, kinds: dict[str, Kind]) -> dict[tuple[str, str], Step]:
    """Each kind of node gets its roles one by one, and its disk is kept before each."""
    found: dict[tuple[str, str], Step] = {}
    nodes = {name: Node(store, f"{NAME}-{name}", kind) for name, kind in kinds.items()}
    before = {name: store.base(kind) for name, kind in kinds.items()}
    for number in range(max(len(kind.steps) for kind in kinds.values())):
        now = {}
        for name, node in nodes.items():
            step = (node.kind.steps[number:] or [""])[0]
            kept = store.folder / f"reference-{name}-{step}.json"
            if kept.exists():
                found[name, step] = Step(**json.loads(kept.read_text()))
                before[name] = f"after-{name}-{step}"
            elif step:
                now[name] = node
        together(lambda one: one.mounted or one.make(before[one.name]), list(now.values()))
        steps = {one.host: (one.kind, one.kind.steps[number]) for one in now.values()}
        ran = configure(store, steps, {}) if now else Ran(0, "", [])
        for name, node in now.items():
            step = node.kind.steps[number]
            told = ran.tasks(node.host)
            if ran.stats(node.host).get("failures", 1) or not told:
                raise Failed(f"{name}: {step} does nothing or fails: {ran.why(node.host)}")
            one = found[name, step] = Step(
                before[name],
                [task["at"] for task in told],
                [f"{task['role']}: {task['task']}" for task in told],
                node.digest(),
            )
            before[name] = f"after-{name}-{step}"
            node.keep(before[name])
            kept = store.folder / f"reference-{name}-{step}.json"
            kept.write_text(json.dumps(vars(one)))
    together(lambda one: one.remove(), list(nodes.values()))
    return found


@dataclass
class Trial:
    """A node that gets a role, and when it loses power; or that keeps it beside those."""

    node: Node
    name: str
    step: str
    reference: Step
    after: int
    delay: float
    kept: bool

    @property
    def moment(self) -> dict[str, Any]:
        """For the callback."""
        where = {"root": str(self.node.root), "pid": self.node.pid}
        return {**where, "after": self.after, "delay": self.delay}

    def __str__(self) -> str:
        later = f" and {self.delay:.2f} s" if self.delay else ""
        task = self.reference.names[self.after - 1]
        return f"{self.step} on {self.name} ({self.node.kind.file_system}), after {task!r}{later}"


def _trials(
    store: Store, known: dict[tuple[str, str], Step], count: int, seed: int
) -> Iterator[list[Trial]]:
    """Groups of trials: each role of each kind of node in turn, at moments that are drawn."""
    drawn = random.Random(seed)
    names = sorted(known)
    made = 0
    while made < count:
        group = []
        spared = drawn.randrange(SIDE_BY_SIDE)
        for place in range(SIDE_BY_SIDE):
            kind, step = names[made % len(names)] if place != spared else drawn.choice(names)
            one = known[kind, step]
            after = drawn.randrange(1, len(one.moments) + 1)
            times = [*one.moments, one.moments[-1] + 1.0]
            delay = drawn.choice(
                (0.0, drawn.uniform(0, max(0.05, times[after] - times[after - 1])))
            )
            node = Node(store, f"{NAME}-{place}", KINDS[kind])
            group.append(Trial(node, kind, step, one, after, delay, place == spared))
            made += place != spared
        yield group


def _try(store: Store, group: list[Trial], tally: Tally, by_role: dict[str, Counter[str]]) -> None:
    together(lambda one: one.node.make(one.reference.before), group)
    shutil.rmtree(store.folder / "facts", ignore_errors=True)
    steps = {one.node.host: (one.node.kind, one.step) for one in group}
    first = configure(store, steps, {one.node.host: one.moment for one in group if not one.kept})
    wrong = {one.node.host: _said_wrong(one, first) for one in group}
    for one in group:
        # One whose moment has not come until the run's end: now.
        if not one.kept and not first.lost(one.node.host):
            power_cut.cut(str(one.node.root), one.node.pid)
    together(lambda one: one.node.boot_again(), [one for one in group if not one.kept])
    second = configure(store, steps, {})
    third = configure(store, steps, {})
    digests = together(lambda one: one.node.digest(), group)
    for one, digest in zip(group, digests, strict=True):
        why = wrong[one.node.host] or ended_wrong(one, second, third, digest)
        if why:
            tally.lose(f"{one}: {why}")
            print(tally.losses[-1], file=sys.stderr, flush=True)
        elif not one.kept:
            tally.survived()
        if why or not one.kept:
            row = by_role.setdefault(one.step, Counter())
            row["tried"] += 1
            row["lost"] += bool(why)
    together(lambda one: one.node.remove(), group)


def _said_wrong(one: Trial, ran: Ran) -> str:
    """What the run that lost nodes says wrong of this one."""
    told = ran.stats(one.node.host)
    if "Traceback" in ran.text:
        return "the run that lost nodes ended with a traceback"
    if one.kept:
        well = told and not told["failures"] and not told["unreachable"]
        return "" if well else f"it kept its power and did not end well: {ran.why(one.node.host)}"
    # Where its last task had ended, nothing is asked of it any more.
    if not told.get("unreachable"):
        ended = len(ran.tasks(one.node.host)) >= one.after
        return "" if ended else f"not called unreachable: {ran.why(one.node.host)}"
    named = any("unreachable" in event and event["host"] == one.node.host for event in ran.events)
    if named and ran.code:
        return ""
    lines = [line for line in ran.text.splitlines() if one.node.host in line]
    return f"no sentence names it; the status is {ran.code}; last: {lines[-4:]}"


def ended_wrong(one: Any, second: Ran, third: Ran, digest: dict[str, str]) -> str:
    """What the next two runs left wrong."""
    host = one.node.host
    now, again = second.stats(host), third.stats(host)
    if not now or now["failures"] or now["unreachable"]:
        return f"the next run fails: {second.why(host)}"
    if not again or again["failures"] or again["unreachable"]:
        return f"the run after it fails: {third.why(host)}"
    if again["changed"]:
        changes = [
            f"{task['role']}: {task['task']}" for task in third.tasks(host) if task["changed"]
        ]
        return f"the run after it changes {changes}"
    before = one.reference.digest
    # The node has booted since: a unit that is enabled is active too.
    booted = {unit for unit, state in digest.items() if (unit[:5], state) == ("unit ", "active")}
    differ = sorted(
        path
        for path in {*digest, *before} - (booted - before.keys())
        if digest.get(path) != before.get(path)
        # They hold the sha256 of files that name the node.
        and not (path.startswith("var/lib/trueup/units/") and path in digest and path in before)
    )
    seen = [f"{path} ({before.get(path)} before, {digest.get(path)} now)" for path in differ[:4]]
    return f"{len(differ)} differ: {'; '.join(seen)}" if differ else ""


def _lacking() -> str:
    if os.geteuid():
        return "root is needed for containers and file systems"
    missing = [
        one
        for one in ("podman", "runc", "ip", "nsenter", "mmdebstrap", "mkfs.xfs", "mkfs.ext4")
        if shutil.which(one) is None
    ]
    return f"{', '.join(missing)}: not on PATH" if missing else ""


def on_nodes(attack: Callable[[Store, dict[tuple[str, str], Step], Tally], None]) -> Tally:
    """What an attack on nodes found; it gets each role of each kind of node, as it should be."""
    tally = Tally()
    tally.skipped = _lacking()
    if tally.skipped:
        return tally
    wanted = os.environ.get("TRUEUP_POWER_KINDS", "").split()
    kinds = {name: kind for name, kind in KINDS.items() if not wanted or name in wanted}
    store = Store(FOLDER)
    _end(store)
    try:
        store.open()
        known = _reference(store, kinds)
        only = os.environ.get("TRUEUP_POWER_STEPS", "").split()
        attack(store, {key: one for key, one in known.items() if not only or key[1] in only}, tally)
    except Failed as failed:
        tally.lose(str(failed))
    finally:
        _end(store)
    return tally


def _end(store: Store) -> None:
    for place in [*range(SIDE_BY_SIDE), *KINDS]:
        Node(store, f"{NAME}-{place}", next(iter(KINDS.values()))).remove()
    if "TRUEUP_POWER_FOLDER" not in os.environ:
        store.close()


def roles(count: int, seed: int) -> Tally:
    """Roles as their family gets them, on nodes that lose power."""
    by_role: dict[str, Counter[str]] = {}

    def attack(store: Store, known: dict[tuple[str, str], Step], tally: Tally) -> None:
        for group in _trials(store, known, count, seed):
            begun = time.monotonic()
            _try(store, group, tally, by_role)
            print(
                f"  {tally.tried} tried, {tally.lost} lost, {time.monotonic() - begun:.0f} s",
                file=sys.stderr,
                flush=True,
            )

    tally = on_nodes(attack)
    tally.figures += [
        f"{role}: {row['tried']} tried, {row['tried'] - row['lost']} converged"
        for role, row in sorted(by_role.items())
    ]
    return tally


_INSTALL = """
import json, subprocess, sys
from trueup_node.node.pinned_venv import Environment, installed
def run(argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True)
    except OSError as error:
        return 127, "", str(error)
    return done.returncode, done.stdout, done.stderr
path, text, wheels = sys.argv[1:]
source = ("--no-index", "--find-links", wheels)
print(installed(Environment(path, sys.executable, {"requirements.txt": text}, source), run))
"""
_COMPARE = """
import base64, hashlib, importlib.metadata as metadata, sys
bad = []
for found in metadata.distributions(path=[p for p in sys.path if "site-packages" in p]):
    for file in found.files or ["no RECORD of " + str(found.metadata["Name"])]:
        if getattr(file, "hash", None) is None:
            continue
        try:
            seen = hashlib.new(file.hash.mode, file.locate().read_bytes()).digest()
        except OSError as error:
            bad.append(f"{file}: {error.strerror}")
            continue
        if base64.urlsafe_b64encode(seen).rstrip(b"=").decode() != file.hash.value:
            bad.append(f"{file}: {file.locate().stat().st_size} bytes")
print(len(bad), *bad[:3])
"""
_PACKAGES = 12


def venvs(count: int, seed: int) -> Tally:
    """The module that all environments come from, with real pip, on XFS without a container."""
    tally = Tally()
    tally.skipped = _lacking()
    if tally.skipped:
        return tally
    drawn = random.Random(seed)
    store = Store(FOLDER)
    _end(store)
    try:
        store.open()
        wheels = Path(store.prepare("plain")["wheels"])
        texts: dict[str, str] = {}
        for wheel in sorted(wheels.glob("*-py3-none-any.whl"), key=lambda one: one.stat().st_size):
            name, version = wheel.name.split("-")[:2]
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            texts[name] = f"{name}=={version} --hash=sha256:{digest}\n"
        text = "".join([*texts.values()][:_PACKAGES])
        image, root = store.images / "venv", store.folder / "venv"
        root.mkdir(exist_ok=True)
        took = 0.0
        for number in range(count + 1):
            image.unlink(missing_ok=True)
            run("truncate", "--size=1G", image)
            run("mkfs.xfs", "-q", image)
            run("mount", "-o", "loop", image, root)
            # The first one tells how long it takes, and is checked too.
            moment = drawn.uniform(0, 1.1 * took) if number else 0.0
            begun = time.monotonic()
            why = _venv_lost(root, image, text, wheels, moment)
            took = took or time.monotonic() - begun
            if why:
                tally.lose(f"after {moment:.2f} s: {why}")
            elif number:
                tally.survived()
            run("umount", root)
    except Failed as failed:
        tally.lose(str(failed))
    finally:
        run("umount", FOLDER / "venv", check=False)
        (store.images / "venv").unlink(missing_ok=True)
        if "TRUEUP_POWER_FOLDER" not in os.environ:
            store.close()
    return tally


def _venv_lost(root: Path, image: Path, text: str, wheels: Path, moment: float) -> str:
    """What is wrong with an environment after a loss at this moment, 0 for none, and a next run."""
    argv = [sys.executable, "-c", _INSTALL, str(root / "own" / "venv"), text, str(wheels)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "module_utils")}
    if moment:
        with subprocess.Popen(
            argv,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as first:
            with contextlib.suppress(subprocess.TimeoutExpired):
                first.wait(moment)
            power_cut.cut(str(root), -os.getpgid(first.pid) if first.poll() is None else 0)
            first.wait()
        for _ in range(200):
            run("umount", root, check=False)
            if f" {root} " not in Path("/proc/self/mounts").read_text():
                break
            time.sleep(0.05)
        run("mount", "-o", "loop", image, root)
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"the next run fails: {done.stderr[-300:]}"
    if not done.stdout.startswith("nothing"):
        again = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        if again.stdout.strip() != "nothing":
            return f"the run after it does {again.stdout.strip() or again.stderr[-300:]}"
    said = run(root / "own" / "venv" / "bin" / "python", "-c", _COMPARE).strip()
    return "" if said == "0" else f"files that are not as their package has them: {said}"
