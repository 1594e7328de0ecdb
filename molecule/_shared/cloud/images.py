"""From an image of Azure's and a size to what a container boots: a replica with cloud-init, and the
recorded machine of that size."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .machines import AllocationFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED = Path(__file__).resolve().parents[1]
ROOT = SHARED.parents[1]
LAYER = Path(__file__).parent / "image"
RECORDED = ROOT / "tests" / "data" / "machines"
NAME = "localhost/trueup-cloud"
# By publisher:offer:sku, the newest first; a replica is of one build.
REPLICAS = {
    "microsoft-dsvm:ubuntu-hpc:2404": ("ubuntu-24.04",),
    "microsoft-dsvm:ubuntu-hpc:2204": ("ubuntu-22.04", "ubuntu-22.04-old"),
    "almalinux:almalinux-hpc:9-hpc-gen2": ("alma-9",),
    "almalinux:almalinux-hpc:8_10-hpc-gen2": ("alma-8.10",),
}
PROGRAMS = ("podman", "runc", "mmdebstrap", "ip", "iptables-restore", "openssl")
# Beside the environment of this process.
PODMAN = {"CONTAINERS_CONF": str(SHARED / "containers.conf")}


class Failed(Exception):
    """A program of this host ended badly: what it said."""


def run(argv: list[str], *, said: str = "", **environment: str) -> str:
    """What a program prints; ``said`` is its standard input."""
    ended = subprocess.run(  # noqa: S603 WHY: argv of this folder
        argv,
        input=said,
        env={**os.environ, **PODMAN, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        words = (ended.stderr.strip() or ended.stdout.strip())[-1500:]
        raise Failed(f"{' '.join(argv)[:300]} ended with status {ended.returncode}: {words}")
    return ended.stdout


def lacking(*wanted: str) -> str:
    """Why this host cannot run the machines of these images, or nothing: for tests to be skipped by
    name."""
    if os.geteuid():
        return "root is needed for containers and network namespaces"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)}: not on PATH (make lab ARGS='-e lab_packages=lab')"
    replica = _replica()
    try:
        for image in wanted:
            for minor in replica.described(replica_of(image))["pythons"].values():
                replica.interpreter(minor)
    except SystemExit as exit_:
        return str(exit_)
    return ""


def replica_of(image: str) -> str:
    """The replica of ``publisher:offer:sku:version``.

    Raises:
        AllocationFailed: there is none, or of another build; with Azure's code.
    """
    kind, _, version = image.rpartition(":")
    # 24.04.2026072901 or 2026072901 is what a replica's manifest calls 2026.0729.101112.
    builds = {_build(name): name for name in REPLICAS.get(kind.lower(), ())}
    for build, name in builds.items():
        if version == "latest" or build in version:
            return name
    here = f"builds of {', '.join(builds)}" if builds else f"replicas of {', '.join(REPLICAS)}"
    raise AllocationFailed(
        "PlatformImageNotFound",
        f"The platform image '{image}' is not available. The emulated cloud has {here}.",
    )


def _build(name: str) -> str:
    """The day on which the image of a replica was built: 20260729."""
    version: str = _replica().described(name)["versions"]["ImageVersion"]
    return version.replace(".", "")[:8]


def recorded(size: str) -> str:
    """The recorded machine of a size, or nothing: Standard_HB120-96rs_v3 is hb120_96rs_v3."""
    name = size.lower().removeprefix("standard_").replace("-", "_")
    return name if (RECORDED / name / "machine.json").exists() else ""


def write_machine(size: str, image: str, folder: Path) -> bool:
    """Write the trees sys and proc of a size's recorded machine, and what nvidia-smi printed there,
    as ../tasks/machine.yml does; False where nobody recorded one."""
    name = recorded(size)
    if not name:
        return False
    made = _by_path("recorded_machines", ROOT / "tests" / "machines.py")
    machine = made.description(name)
    if "nvidia_driver" in machine:
        # The image's driver is the one that is loaded.
        versions = _replica().described(replica_of(image))["versions"]
        machine["nvidia_driver"]["version"] = versions["NVIDIA"]
    made.build(machine, folder)
    printed = RECORDED / name / "nvidia-smi.csv"
    if printed.exists():
        shutil.copy(printed, folder)
    return True


def prepare(name: str, lock: Path) -> str:
    """The image in podman's store that is this replica with cloud-init, made where it is not there
    yet: 16 s where the replica is there. ``lock`` is a file for one process at a time."""
    with alone(lock):
        base = _base()
        replica = _replica()
        try:
            under = replica.tag(name, base)
            if not _there(under):
                replica.make(name, base, under)
        except SystemExit as exit_:
            # It is a program, and says so what it lacks.
            raise Failed(str(exit_)) from exit_
        read = sorted(path for path in LAYER.iterdir() if path.is_file())
        parts = [under.encode(), *(path.read_bytes() for path in read)]
        made = f"{NAME}-{name}:{hashlib.sha256(bytes(0).join(parts)).hexdigest()[:12]}"
        if not _there(made):
            mirror = os.environ.get("TRUEUP_DEBIAN_MIRROR") or "http://deb.debian.org/debian"
            given = {"BASE": base, "REPLICA": under, "MIRROR": mirror}
            argv = ["podman", "build", "--quiet", "--isolation=chroot", "--network=host"]
            for key, value in given.items():
                argv += ["--build-arg", f"{key}={value}"]
            run([*argv, "--tag", made, str(LAYER)])
        return made


@functools.cache
def _base() -> str:
    """The image that replicas are built upon."""
    given = {
        "node_all": {"node_image_kind": "replica"},
        "ansible_python_interpreter": sys.executable,
    }
    argv = [sys.executable, "-m", "ansible", "playbook", "--inventory", "localhost,"]
    argv += ["--extra-vars", json.dumps(given), str(Path(__file__).parent / "images.yml")]
    more = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "MOLECULE_PROJECT_DIRECTORY": str(ROOT)}
    found = re.search("node_image: *(localhost/trueup-node:[0-9a-f]+)", run(argv, **more))
    if found is None:
        raise Failed("images.yml named no image")
    return found[1]


def _there(image: str) -> bool:
    argv = ["podman", "image", "exists", image]
    return not subprocess.run(argv, env={**os.environ, **PODMAN}, check=False).returncode  # noqa: S603


@functools.cache
def _replica() -> Any:
    return _by_path("replica", SHARED / "replicas" / "replica.py")


def _by_path(name: str, path: Path) -> Any:
    """A module by its path: a package of PyPI may have the same name."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Held by one process at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
