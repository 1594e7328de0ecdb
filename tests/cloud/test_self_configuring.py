"""A machine of the emulated cloud that configures itself.

Release, cloud-init, environment and Ansible are real; the container is Azurite's, and the token of
the machine's identity a stand-in.

Needs root, podman, node and a package index; part of `make cloud`.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import azurite
import pytest
from emulated_cloud import Machine, Reply, certificates, containers, images
from helpers import ROOT
from trueup_analysis.load import load
from trueup_controller.azure import pull

IMAGE = "microsoft-dsvm:ubuntu-hpc:2404:24.04.2026072901"
RUN = "20261123T142500Z-5e75"
SIZE, VCPUS = "Standard_D4d_v5", 4
PATIENCE_SECONDS = 900
PIP = "[global]\nno-index = true\nfind-links = /srv/wheels\ndisable-pip-version-check = true\n"


def wheels(python: str) -> Path:
    """What requirements/controller.txt pins, for that Python, in a folder of the cache."""
    pins = ROOT / "requirements" / "controller.txt"
    digest = hashlib.sha256(pins.read_bytes()).hexdigest()[:12]
    cache = os.environ.get("TRUEUP_CACHE") or Path.home() / ".cache" / "trueup"
    folder = Path(cache) / f"controller-{python}-{digest}"
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    argv += ["--only-binary=:all:", "--python-version", python, "--dest", str(folder)]
    done = subprocess.run(
        [*argv, "--requirement", str(pins)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def release() -> bytes:
    """What `make release` writes of this checkout's HEAD."""
    done = subprocess.run(["make", "release"], cwd=ROOT, check=True, capture_output=True, text=True)
    sha256, path = done.stdout.split()[-2:]
    content = Path(path).read_bytes()
    assert hashlib.sha256(content).hexdigest() == sha256
    return content


def token() -> str:
    """What Azurite's `--oauth basic` takes, which looks at audience and times, at no signature."""
    now = int(time.time())
    times = {"iat": now - 60, "nbf": now - 60, "exp": now + 3600}
    about = {"aud": "https://storage.azure.com", "iss": "https://sts.windows.net/t/", **times}
    parts = [json.dumps(one).encode() for one in ({"alg": "HS256", "typ": "JWT"}, about)] + [b"x"]
    return ".".join(base64.urlsafe_b64encode(one).decode().rstrip("=") for one in parts)


def metadata(id: str, _method: str, path: str, query: dict[str, str], _body: bytes) -> Reply:  # noqa: A002
    if path == "/metadata/identity/oauth2/token":
        assert query["resource"] == "https://storage.azure.com/"
        return Reply(200, {"access_token": token()})
    compute = {"name": id.rpartition("/")[2], "vmSize": SIZE, "location": "eastus"}
    if path == "/metadata/instance/compute":
        return Reply(200, compute)
    if path == "/metadata/instance":
        return Reply(200, {"compute": {**compute, "priority": "Regular", "zone": ""}})
    return Reply(404, {"error": "not of this stand-in"})


class Site:
    """Hardware, the release's server and the container."""

    def __init__(self, hardware: Any, folder: Path, port: int) -> None:
        self.hardware, self.content = hardware, release()
        self.sha256 = hashlib.sha256(self.content).hexdigest()
        self._tls = ssl.create_default_context(cafile=folder / "authority.pem")
        self.records = f"https://{hardware.address}:{port}/{azurite.ACCOUNT}/records"
        self.blob("PUT", "?restype=container")
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(outer.content)))
                self.end_headers()
                self.wfile.write(outer.content)

            def log_message(self, *_: Any) -> None:
                """Keep the tests' output clean."""

        server = http.server.ThreadingHTTPServer((hardware.address, 0), Handler)
        server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "localhost.pem", folder / "localhost.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"https://{hardware.address}:{server.server_address[1]}/trueup.bundle"

    def blob(self, method: str, path: str) -> bytes:
        headers = {"Authorization": f"Bearer {token()}", "x-ms-version": "2021-08-06"}
        request = urllib.request.Request(self.records + path, headers=headers, method=method)
        with urllib.request.urlopen(request, context=self._tls) as answer:
            return bytes(answer.read())

    def blobs(self) -> list[str]:
        listed = self.blob("GET", "?restype=container&comp=list").decode()
        return re.findall("<Name>(.*?)</Name>", listed)

    def start(self, number: int, sha256: str) -> Machine:
        asked = pull.Pull(self.url, sha256, self.records, "of-the-stand-in")
        # The machine of this test has its own CPUs, whatever size the metadata names.
        is_healthy = os.cpu_count() == VCPUS
        variables = {
            "trueup_benchmarks": ["stream"],
            "trueup_health_benchmarks": ["stream"],
            "trueup_health_fatal": is_healthy,
        }
        document = pull.document(asked, RUN, variables, {})
        made = Machine(
            id=f"/sets/nodes/nodes_{number}",
            name=f"node{number:06d}",
            size=SIZE,
            location="eastus",
            zone="",
            group="g",
            image=IMAGE,
            network="/networks/one",
            range="10.42.0.0/16",
            address=f"10.42.0.{10 + number}",
            custom_data=document.encode(),
        )
        self.hardware.start(made)
        return made

    def inside(self, of: Machine, *argv: str) -> str:
        done = subprocess.run(
            ["podman", "exec", self.hardware.container(of.id), *argv],
            env={**os.environ, **images.PODMAN},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    def journal(self, of: Machine) -> str:
        return self.inside(of, "journalctl", "--no-pager", "--unit", pull.UNIT)

    def until(self, of: Machine, words: str) -> None:
        """Wait until its journal has the words."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while words not in self.journal(of):
            assert time.monotonic() < deadline, self.journal(of)[-3000:]
            time.sleep(1)


@pytest.fixture(scope="module", name="site")
def _site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    (folder / "pip.conf").write_text(PIP)
    mounts = [f"{wheels('3.12')}:/srv/wheels:ro", f"{folder}/pip.conf:/etc/pip.conf:ro"]
    hardware = containers.Containers(mounts=mounts)
    try:
        certificates(folder, hardware.address)
        hardware.connect(metadata, folder / "authority.pem")
        tls = ["--cert", str(folder / "localhost.pem"), "--key", str(folder / "localhost.key")]
        with azurite.running("--oauth", "basic", *tls, host=hardware.address) as port:
            yield Site(hardware, folder, port)
    except azurite.Unavailable as error:
        pytest.skip(str(error))
    finally:
        hardware.close()


def test_nothing_of_a_wrong_release_is_used(site: Site) -> None:
    one = site.start(1, "0" * 64)
    assert "status: error" in site.inside(one, "cloud-init", "status", "--wait")
    assert "nothing of it was used" in site.journal(one)
    assert sorted(site.inside(one, "ls", "/var/lib/trueup").split()) == [
        *("lock", "pull.log", "results")
    ]
    assert site.blobs() == [f"{RUN}/nodes_1/pull.log"]
    site.hardware.delete(one.id)


def test_a_machine_configures_itself_through_a_reboot(site: Site, tmp_path: Path) -> None:
    one = site.start(2, site.sha256)
    site.until(one, "making the environment")
    site.hardware.restart(one.id)
    site.until(one, f"are in {site.records}/{RUN}/nodes_2")
    state = site.inside(one, "systemctl", "is-failed", pull.UNIT)
    assert "failed" not in state, site.journal(one)[-6000:]
    site.inside(one, "systemctl", "start", pull.UNIT)
    assert "configured already by this release" in site.journal(one)
    for name in site.blobs():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(site.blob("GET", f"/{name}"))
    loaded = load([tmp_path / RUN])
    assert (set(loaded.values("nodes")), set(loaded.values("benchmark"))) == (
        {"nodes_2"},
        {"node_state", "stream"},
    )
    assert (set(loaded.values("outcome")), loaded.excluded) == ({"ok"}, [])
    [run] = loaded.runs
    assert (run["run_id"], run["expected"], run["failed_in"]) == (RUN, ["nodes_2"], {})
