"""The emulated cloud's HTTPS: certificates of an authority made anew, and a login to it.

python molecule/_shared/cloud --machines 600 --uniform 40
    starts one, and prints the environment in which `ansible-inventory -i inventories/azure`
    finds it; it ends with its standard input.
"""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import json
import signal
import ssl
import sys
import tempfile
import threading
import urllib.parse
import uuid
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from .cloud import Cloud
from .machines import Hardware, NoMachines
from .replies import CLIENT, SECRET, SUBSCRIPTION, TENANT, Reply, refusal
from .validate import Models

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    cloud: Cloud
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        # Whoever asked may be gone before the answer is.
        with contextlib.suppress(OSError):
            self.serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET  # noqa: N815 WHY: as the base class

    def serve(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        last = parts.path.rpartition("/")[2]
        cloud = self.cloud
        with cloud.lock:
            reply = self.answer(parts.path, query, raw)
            queue = cloud.faults.get(last, [])
            fault = queue.pop(0) if queue else None
            if fault is not None:
                reply = fault if isinstance(fault, Reply) else fault(reply)
            text = b"" if reply.document is None else json.dumps(reply.document).encode()
            if last in cloud.cut:
                cloud.cut.remove(last)
                text = text[: len(text) // 2]
            elif not parts.path.startswith("/emulated/") and cloud.trouble.take(
                "cut", path=parts.path, method=self.command
            ):
                text = text[: len(text) // 2]
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("x-ms-request-id", str(uuid.uuid4()))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def answer(self, path: str, query: dict[str, str], raw: bytes) -> Reply:
        cloud = self.cloud
        if path.startswith("/metadata/") and self.headers.get("Metadata") != "true":
            return Reply(400, {"error": "invalid_request", "error_description": "Metadata"})
        form = dict(urllib.parse.parse_qsl(raw.decode("utf-8", "replace")))
        signed = cloud.sign_in(self.command, path, query, form)
        if signed is not None:
            return signed
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            return refusal(400, "InvalidRequestContent", "The request is not JSON.")
        if path.startswith("/emulated/") and self.headers.get("Emulated-Secret") != cloud.secret:
            return refusal(403, "EmulatedSecret", "The header Emulated-Secret has another word.")
        cloud.calls.append((self.command, path, query, body))
        return cloud.call(self.command, path, query, body, self.headers.get("Authorization", ""))

    def log_message(self, *_: Any) -> None:
        """Nothing on the screen."""


def certificates(folder: Path, address: str = "127.0.0.1") -> tuple[Path, Path, Path]:
    """An authority made for this folder, and a certificate and key for localhost and an address:
    three files."""
    now = datetime.now(timezone.utc)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "emulated cloud's authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])

    def signed(name: x509.Name, public: Any, extensions: list[tuple[Any, bool]]) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .issuer_name(issuer)
            .subject_name(name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=2))
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    usage = dict.fromkeys(
        (
            *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
            *("key_agreement", "encipher_only", "decipher_only"),
        ),
        False,
    )
    mine = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = signed(
        issuer,
        authority_key.public_key(),
        [
            (x509.BasicConstraints(ca=True, path_length=0), True),
            (x509.KeyUsage(**usage, key_cert_sign=True, crl_sign=True), True),
            (mine, False),
        ],
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(address))]
    host = signed(
        subject,
        key.public_key(),
        [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (x509.SubjectAlternativeName(names), False),
            (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(mine), False),
        ],
    )
    files = folder / "authority.pem", folder / "localhost.pem", folder / "localhost.key"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for path, content in zip(files, (authority, host, private), strict=True):
        path.write_bytes(content)
    files[2].chmod(0o600)
    return files


def profile(folder: Path, url: str, *, principal: bool = False) -> dict[str, str]:
    """Write azure-cli-core's files of a login to the cloud below FOLDER, as `az cloud register` and
    `az login --identity` leave them; return the environment in which they are found."""
    config, host = folder / "azure", str(urllib.parse.urlsplit(url).hostname)
    config.mkdir(exist_ok=True)
    (config / "config").write_text(
        "[cloud]\nname = emulated\n[core]\ninstance_discovery = false\ncollect_telemetry = false\n"
        "encrypt_token_cache = false\n"
    )
    endpoints = {
        "active_directory": url,
        "active_directory_resource_id": f"{url}/",
        "resource_manager": f"{url}/",
        "management": f"{url}/",
        "gallery": f"{url}/",
    }
    lines = [f"endpoint_{name} = {value}" for name, value in endpoints.items()]
    (config / "clouds.config").write_text("\n".join(["[emulated]", *lines, ""]))
    user: dict[str, str] = {
        "name": "systemAssignedIdentity",
        "type": "servicePrincipal",
        "assignedIdentityInfo": "MSI",
    }
    if principal:
        user = {"name": CLIENT, "type": "servicePrincipal"}
        entry = {"client_id": CLIENT, "tenant": TENANT, "client_secret": SECRET}
        (config / "service_principal_entries.json").write_text(json.dumps([entry]))
    subscription = {
        "id": SUBSCRIPTION,
        "name": "emulated",
        "state": "Enabled",
        "isDefault": True,
        "tenantId": TENANT,
        "environmentName": "emulated",
        "user": user,
    }
    (config / "azureProfile.json").write_text(json.dumps({"subscriptions": [subscription]}))
    return {
        "AZURE_CONFIG_DIR": str(config),
        "AZURE_POD_IDENTITY_AUTHORITY_HOST": url,
        "REQUESTS_CA_BUNDLE": str(folder / "authority.pem"),
        "NO_PROXY": host,
        "no_proxy": host,
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: Any) -> None:
        """A client that does not trust the certificate ends the connection."""


@contextlib.contextmanager
def serving(cloud: Cloud, folder: Path, address: str = "127.0.0.1") -> Iterator[Cloud]:
    """The cloud at ``cloud.url``, its authority in FOLDER/authority.pem.

    Args:
        address: where it listens; one of a network of containers is one that they reach.
    """
    _, certificate, key = certificates(folder, address)
    server = _Server((address, 0), type("Handler", (_Handler,), {"cloud": cloud}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    # The handshake in the connection's own thread: accept() must not wait for a client.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    host = "localhost" if address == "127.0.0.1" else address
    cloud.url = f"https://{host}:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield cloud
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=0, help="VMs that are only listed")
    parser.add_argument("--uniform", type=int, default=0, help="instances of one uniform set")
    parser.add_argument("--pace", type=float, default=1.0, help="0: operations take no time")
    parser.add_argument("--containers", action="store_true", help="machines are containers: root")
    parser.add_argument(
        "--without-models", action="store_true", help="hold requests against no model of Azure's"
    )
    asked = parser.parse_args()
    models = Models()
    if models.absent and not asked.without_models:
        parser.error(
            f"{', '.join(models.absent)} are not installed, so that no request can be held against"
            " Azure's models: pip install --require-hashes -r requirements/test.txt, or say"
            " --without-models"
        )
    # So that machines end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    hardware: Hardware = NoMachines()
    if asked.containers:
        from .containers import Containers  # noqa: PLC0415 WHY: it needs root and podman

        hardware = Containers()
    cloud = Cloud(hardware, pace=asked.pace)
    if not asked.without_models:
        cloud.validate = models
    for number in range(asked.machines):
        cloud.add_vm(f"vm-{number}")
    if asked.uniform:
        cloud.add_scale_set("uniform", asked.uniform)
    with (
        tempfile.TemporaryDirectory() as name,
        contextlib.closing(cloud),
        serving(cloud, Path(name), cloud.hardware.address),
    ):
        cloud.hardware.connect(cloud.metadata, Path(name) / "authority.pem")
        shown = {**profile(Path(name), cloud.url), **access(cloud)}
        for key, value in shown.items():
            print(f"export {key}={value}", flush=True)
        sys.stdin.read()
    if cloud.broken:
        sys.exit("The emulated cloud itself failed:\n" + "\n".join(cloud.broken))


def access(cloud: Cloud) -> dict[str, str]:
    """The environment in which a test finds /emulated/state and /emulated/faults."""
    return {"EMULATED_CLOUD_URL": cloud.url, "EMULATED_CLOUD_SECRET": cloud.secret}
