"""What machines of the emulated cloud find in place of the services that Azure's machines reach."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from emulated_cloud import containers, images, netns
from helpers import ROOT

sys.path.insert(0, str(ROOT / "molecule" / "_shared" / "replicas"))

import mirror

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE = Path(
    os.environ.get("TRUEUP_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trueup"
)
VENDORS = ROOT / "molecule" / "_shared" / "vendor_repo" / "build.py"
# Python on a machine imports it as it starts.
NFS_CLIENT = '''\
"""Stand-in of the kernel's NFS client: the kernel's table says that /shared is of NFS."""

import builtins
import io

_open = builtins.open


def _table(path, *arguments, **how):
    stream = _open(path, *arguments, **how)
    if path != "/proc/self/mountinfo":
        return stream
    lines = [
        line.partition(" - ")[0] + " - nfs 10.0.128.4:/shared rw,vers=3\\n"
        if line.split()[4] == "/shared"
        else line
        for line in stream
    ]
    return io.StringIO("".join(lines))


builtins.open = _table
'''


def podman(*argv: str, check: bool = True) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["podman", *argv],
        env={**os.environ, **images.PODMAN},
        check=check,
        capture_output=True,
        text=True,
    )


def left(cloud: str) -> list[str]:
    """What there is of a cloud on this host."""
    names = podman("ps", "--all", "--filter", f"label={containers.LABEL}={cloud}", "--quiet")
    links = [path.name for path in Path("/sys/class/net").glob(f"tu{cloud}*")]
    folder = [str(path) for path in [containers.CLOUDS / cloud] if path.exists()]
    return names.stdout.split() + links + folder + netns.namespaces(f"trueup-cloud-{cloud}")


def vendors() -> Path:
    """The vendors' package servers, a folder that machines have as /srv/vendor."""
    argv = [sys.executable, str(VENDORS), "--cache", str(CACHE)]
    return Path(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip())


def interpreter(minor: str) -> Path:
    """The folder of pyenv's Python, which runs from any folder."""
    try:
        return mirror.replica.interpreter(minor)
    except SystemExit as lacking:
        pytest.skip(str(lacking))


def packages(image: str, *names: str) -> list[str]:
    """The distribution's and the vendors' package servers, as mounts of machines of an image: of
    the distribution these packages with their dependencies."""
    made = images.prepare(images.replica_of(image), containers.CLOUDS / "images.lock")
    digest = hashlib.sha256(" ".join([made, *names]).encode()).hexdigest()[:12]
    folder = CACHE / f"packages-{digest}"
    source = folder / "mirror.list"
    with images.alone(folder.with_suffix(".lock")):
        if not source.exists():
            ask = ["podman", "run", "--rm", "--network=none", made, "cat", "/var/lib/dpkg/status"]
            mirror.make_debian(folder / "debian", images.run(ask), names)
            source.write_text(mirror.APT_SOURCE)
    return [
        f"{vendors()}:/srv/vendor:ro",
        f"{folder / 'debian'}:{mirror.PLACE}/debian:ro",
        f"{source}:/etc/apt/sources.list.d/mirror.list:ro",
    ]


def shared_folder(folder: Path) -> list[str]:
    """A folder that all machines have as /shared, for Azure NetApp Files, which this host's kernel
    could not mount: mounts of machines."""
    shared, client = folder / "shared", folder / "sitecustomize.py"
    shared.mkdir()
    # Of the volume's owner on Azure too: everybody may write.
    shared.chmod(0o777)
    client.write_text(NFS_CLIENT)
    return [f"{shared}:/shared", f"{client}:/usr/lib/python3.12/sitecustomize.py:ro"]


def eessi(folder: Path) -> tuple[list[str], dict[str, str]]:
    """EESSI's client and repository as stand-ins, whose module of GROMACS is this host's GROMACS:
    mounts of machines, and the mirror as eessi_cvmfs_repository."""
    program = shutil.which("gmx")
    if program is None:
        pytest.skip("there is no gmx on this machine (make lab ARGS='-e lab_packages=test')")
    libraries, wrapper = folder / "gromacs", folder / "gmx"
    libraries.mkdir()
    told = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    for name, path in re.findall(r"^\s*(\S+) => (/\S+)", told, re.MULTILINE):
        # The machine's own libc is of the same Debian.
        if not name.startswith(("libc.", "libm.")):
            shutil.copy(path, libraries / name)
    shutil.copy(program, libraries / "gmx")
    wrapper.write_text(
        "#!/bin/sh\n"
        'GMXDATA=/usr/share/gromacs LD_LIBRARY_PATH=/srv/gromacs exec /srv/gromacs/gmx "$@"\n'
    )
    wrapper.chmod(0o755)
    vendor = vendors()
    mirror_of_cernvm = {
        "name": "cernvm",
        "url": "file:///srv/vendor/apt/",
        "key_url": "file:///srv/vendor/key.asc",
        "key_fingerprint": (vendor / "fingerprint").read_text().strip(),
        "suite": "./",
    }
    mounts = [
        f"{vendor}:/srv/vendor:ro",
        f"{libraries}:/srv/gromacs:ro",
        f"{wrapper}:/usr/bin/gmx:ro",
        "/usr/share/gromacs:/usr/share/gromacs:ro",
        # Looked for, and not opened by the stand-in.
        "/dev/fuse:/dev/fuse",
    ]
    return mounts, mirror_of_cernvm


@contextlib.contextmanager
def hub(address: str, model: str, revision: str, folder: Path, token: str) -> Iterator[str]:
    """A mirror of Hugging Face with one model behind a licence, whose files are a folder's: its
    address."""
    contents = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    at = f"/api/models/{model}"
    said = {
        f"{at}/revision/{revision}": {
            "id": model,
            "sha": revision,
            "siblings": [{"rfilename": name} for name in contents],
        },
        f"{at}/tree/{revision}": [
            {"type": "file", "path": name, "size": len(content), "oid": sums[name]}
            for name, content in contents.items()
        ],
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            name = path.removeprefix(f"/{model}/resolve/{revision}/")
            if self.headers.get("Authorization") != f"Bearer {token}":
                self.answer(401, b"", {"X-Error-Code": "GatedRepo"})
            elif path in said:
                content = json.dumps(said[path]).encode()
                self.answer(200, content, {"Content-Type": "application/json"})
            elif name in contents:
                headers = {"X-Repo-Commit": revision, "ETag": f'"{sums[name]}"'}
                self.answer(200, contents[name], headers)
            else:
                self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})

        def answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """No output."""

    server = http.server.ThreadingHTTPServer((address, 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{address}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
