#!/usr/bin/env python3
"""What a connected node would get from servers: a folder that the nodes of `make replicas` see.

    wheels/         what Devito's pins name, for each Python of the replicas
    debian/         packages of Debian that roles ask apt for, with their dependencies
    el/             python3.12-devel for dnf: a stand-in with the headers of pyenv's Python
    python/         a Python that runs from any folder, as a site offers it to Enterprise Linux 8
    inventory.yml   the product's own variables that name a mirror, for the nodes that need one

It has what this machine's own pip and apt can reach; repositories of git and NVIDIA's servers are
not among that.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import replica
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Where the nodes see it.
PLACE = "/srv/mirror"
PYTHONS = ("3.10", "3.12")
STANDALONE = "3.12"
# Packages that plans name, beside the lists in the roles' defaults.
PLANNED = ("libopenblas0-pthread", "gromacs", "fio", "ffmpeg")
# They are offered, and no replica can have them beside its UCX.
CONFLICTING = ("libucx0",)
PLATFORMS = (
    "any",
    *(f"manylinux_2_{minor}_x86_64" for minor in (35, 34, 31, 28, 27, 26, 24, 17, 12, 5)),
    "manylinux2014_x86_64",
)
APT_SOURCE = f"deb [trusted=yes] file:{PLACE}/debian ./\n"
DNF_SOURCE = f"[mirror]\nname=mirror\nbaseurl=file://{PLACE}/el\ngpgcheck=0\n"
# What a node does to use it, by its package manager. A distribution's own sources are the same for
# every user of an image.
USE = {
    "apt": f"printf '{APT_SOURCE.rstrip()}\\n' > /etc/apt/sources.list.d/mirror.list",
    "dnf": "cat > /etc/yum.repos.d/mirror.repo <<'END'\n" + DNF_SOURCE + "END",
}


def requirements(minor: str) -> list[Path]:
    """The files of Devito's pins for a Python: its own where it has some."""
    folder = replica.ROOT / "roles" / "devito" / "files"
    special = {path.name.replace(f"-{minor}", ""): path for path in folder.glob(f"*-{minor}.txt")}
    general = {path.name: path for path in folder.glob("*.txt") if "-3." not in path.name}
    return sorted({**general, **special}.values())


def make_wheels(folder: Path) -> None:
    """The pinned files, by this machine's pip, unless those of the same pins are there."""
    texts = [path.read_bytes() for minor in PYTHONS for path in requirements(minor)]
    digest = sha256(b"".join(texts)).hexdigest()
    stamp = folder.with_suffix(".sha256")
    if folder.is_dir() and stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for minor in PYTHONS:
        for path in requirements(minor):
            argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            argv += ["--require-hashes", "--requirement", str(path), "--dest", str(folder)]
            argv += ["--python-version", minor, "--implementation", "cp"]
            argv += ["--abi", f"cp{minor.replace('.', '')}", "--abi", "abi3", "--abi", "none"]
            argv += [word for name in PLATFORMS for word in ("--platform", name)]
            replica.vendor.run(argv)
    stamp.write_text(digest, encoding="utf-8")


def listed_packages(manager: str) -> list[str]:
    """The packages that the roles' defaults list for a package manager."""
    names: set[str] = set(PLANNED)
    for path in sorted(replica.ROOT.glob("roles/**/defaults/main.yml")):
        for value in (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).values():
            packages = value.get(manager) if isinstance(value, dict) else None
            if isinstance(packages, list):
                names |= {name for name in packages if isinstance(name, str)}
    return sorted(names)


def make_debian(
    folder: Path, status: str, names: Iterable[str], conflicting: Iterable[str] = ()
) -> None:
    """Debian's packages, by this machine's apt (Debian 12 as the nodes), that a node with that
    dpkg status lacks; and their index.

    Args:
        folder: a folder that is not there yet.
        status: the node's /var/lib/dpkg/status.
        names: the packages; they come with their dependencies.
        conflicting: packages that the node cannot have, offered without their dependencies.
    """
    (folder / "partial").mkdir(parents=True)
    (folder / "status").write_text(status, encoding="utf-8")
    given = [
        "-o",
        f"Dir::State::status={folder / 'status'}",
        "-o",
        f"Dir::Cache::archives={folder}",
    ]
    given += ["-o", "Debug::NoLocking=true", "-o", "APT::Sandbox::User=", "--assume-yes"]
    offered = [name for name in names if _is_offered(name)]
    argv = ["apt-get", *given, "--no-install-recommends", "--download-only", "install", *offered]
    replica.vendor.run(argv)
    if conflicting:
        replica.vendor.run(["apt-get", "--quiet", "download", *conflicting], cwd=folder)
    (folder / "status").unlink()
    index = replica.vendor.run(["apt-ftparchive", "packages", "."], cwd=folder)
    (folder / "Packages").write_text(index, encoding="utf-8")
    origin = ["-o", "APT::FTPArchive::Release::Origin=Ubuntu"]
    release = replica.vendor.run(["apt-ftparchive", *origin, "release", "."], cwd=folder)
    (folder / "Release").write_text(release, encoding="utf-8")


def _is_offered(name: str) -> bool:
    argv = ["apt-cache", "--no-all-versions", "show", name]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0  # noqa: S603 WHY: argv of this file


def make_el(folder: Path) -> None:
    """Enterprise Linux's package of headers."""
    folder.mkdir()
    include = replica.interpreter(STANDALONE) / "include" / f"python{STANDALONE}"
    files = {
        f"/usr/include/python{STANDALONE}/{path.relative_to(include)}": {
            "content": path.read_text(encoding="utf-8")
        }
        for path in sorted(include.rglob("*.h"))
    }
    package = {"name": f"python{STANDALONE}-devel", "files": files}
    replica.vendor.make_rpm(package, f"{STANDALONE}.12-1", folder)
    replica.vendor.run(["createrepo_c", "--quiet", str(folder)])


def make_python(folder: Path) -> Path:
    """The standalone build, a tar archive with one folder."""
    folder.mkdir()
    tree = folder / "tree" / "python"
    home = replica.interpreter(STANDALONE)
    shutil.copytree(
        home,
        tree,
        symlinks=True,
        ignore=shutil.ignore_patterns("test", "idlelib", "turtledemo", "share", "*.pyc"),
    )
    archive = folder / f"python-{STANDALONE}.tar.gz"
    replica.vendor.run(["tar", "-C", str(tree.parent), "-czf", str(archive), "python"])
    shutil.rmtree(tree.parent)
    return archive


def variables(hosts: Mapping[str, Any], archive: Path) -> dict[str, Any]:
    """The inventory: variables of the roles that name a mirror, and nothing else."""
    digest = sha256(archive.read_bytes()).hexdigest()
    build = {
        "python_standalone_url": f"file://{PLACE}/python/{archive.name}",
        "python_standalone_sha256": digest,
        "python_standalone_version": STANDALONE,
    }
    of_el8 = [name for name, host in hosts.items() if host["node_replica"].startswith("alma-8")]
    everywhere = {"devito_pip_find_links": f"{PLACE}/wheels", "devito_pip_no_index": True}
    return {"all": {"vars": everywhere, "hosts": dict.fromkeys(of_el8, build)}}


def make(folder: Path, hosts: Mapping[str, Any], status: str) -> None:
    """Fill the folder, which is mounted already."""
    for name in ("debian", "el", "python"):
        shutil.rmtree(folder / name, ignore_errors=True)
    make_wheels(folder / "wheels")
    make_debian(folder / "debian", status, listed_packages("apt"), CONFLICTING)
    make_el(folder / "el")
    archive = make_python(folder / "python")
    text = yaml.safe_dump(variables(hosts, archive), sort_keys=False)
    (folder / "inventory.yml").write_text(text, encoding="utf-8")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def asking(hosts: Mapping[str, Any]) -> str:
    """The node whose packages tell which ones are missing: the first of the newest Ubuntu's."""
    return next(name for name, host in hosts.items() if host["node_replica"] == "ubuntu-24.04")


def scripts(hosts: Mapping[str, Any], nodes: Iterable[str]) -> dict[str, str]:
    """What each node runs to use it."""
    replicas = {name: hosts[name]["node_replica"] for name in nodes}
    return {
        name: USE["dnf" if image.startswith("alma") else "apt"] for name, image in replicas.items()
    }
