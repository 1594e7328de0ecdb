"""The emulated cloud: as much of Azure as trueup calls, on the loopback, by HTTPS.

A stand-in, and no Azure: it starts no machine and knows no permission. It keeps resources, answers
the token endpoints (managed identity, service principal), Resource Graph and the lists below with
the statuses, headers and paging of Microsoft's documents, and refuses paths, api-versions and
fields that it does not know. Its certificate is of an authority of its own, made anew.

    python molecule/_shared/cloud/cloud.py --machines 600 --uniform 40
        starts one, and prints the environment in which `ansible-inventory -i inventories/azure`
        finds it; it ends with its standard input.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import secrets
import ssl
import sys
import tempfile
import threading
import time
import urllib.parse
import uuid
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

sys.path.insert(0, str(Path(__file__).parent))

from kql import Query, QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kql import Row

SUBSCRIPTION = "00000000-0000-0000-0000-00000000c10d"
TENANT = "00000000-0000-0000-0000-0000000007e7"
CLIENT = "00000000-0000-0000-0000-0000000c11e7"
SECRET = "of-the-emulated-cloud-only"  # noqa: S105 WHY: it opens nothing else
GRAPH = "/providers/microsoft.resourcegraph/resources"
GRAPH_VERSIONS = ("2021-03-01", "2022-10-01")
COMPUTE_VERSIONS = ("2024-07-01", "2024-11-01")
NETWORK_VERSIONS = ("2023-11-01", "2024-05-01")
# Resource Graph: 15 queries in 5 seconds, and 1,000 rows a page.
QUOTA_QUERIES, QUOTA_SECONDS, MOST_ROWS = 15, 5.0, 1000


@dataclass
class Reply:
    """Status, document, headers."""

    status: int
    document: Any
    headers: dict[str, str] = field(default_factory=dict)


def refusal(status: int, code: str, message: str, **more: Any) -> Reply:
    return Reply(status, {"error": {"code": code, "message": message, **more}})


class Cloud:
    """The resources of one subscription, and what was asked.

    Attributes:
        faults: the last part of a path to what goes wrong there, used up in order: a Reply instead
            of the answer, or a function from the answer's Reply to another one; None is no fault.
        cut: paths' last parts whose next answer ends in the middle of its JSON.
        calls: (method, path, query, body) of each request but those for tokens.
        quota: whether Resource Graph counts queries.
        lifetime_seconds: of a token.
    """

    def __init__(self) -> None:
        self.url = ""
        self.tables: dict[str, list[Row]] = {"resources": [], "computeresources": []}
        self.interfaces: dict[str, list[Row]] = {}
        self.faults: dict[str, list[Any]] = {}
        self.cut: list[str] = []
        self.calls: list[tuple[str, str, dict[str, str], Any]] = []
        self.tokens: dict[str, float] = {}
        self.lifetime_seconds = 3600.0
        self.quota = True
        self.page_rows = MOST_ROWS
        self.lock = threading.Lock()
        self._asked: deque[float] = deque()
        self._addresses = 0
        self._answers: dict[str, tuple[list[Row], bool]] = {}

    # -- resources --

    def _row(self, kind: str, name: str, group: str, **more: Any) -> Row:
        """A resource as Resource Graph lists it: its type in lower case."""
        return {
            "id": f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{group}/providers/{kind}/{name}",
            "name": name.rpartition("/")[2],
            "type": kind.lower(),
            "tenantId": TENANT,
            "kind": "",
            "location": "southcentralus",
            "resourceGroup": group.lower(),
            "subscriptionId": SUBSCRIPTION,
            "managedBy": "",
            "tags": {},
            **more,
        }

    def _address(self) -> str:
        self._addresses += 1
        high, low = divmod(self._addresses + 3, 256)
        return f"10.{64 + high // 256}.{high % 256}.{low}"

    def add_vm(
        self,
        name: str,
        *,
        size: str = "Standard_HB120rs_v3",
        group: str = "hpc",
        power: str | None = "running",
        system: str = "Linux",
        public: str = "",
        interfaces: int = 1,
        properties: dict[str, Any] | None = None,
        **more: Any,
    ) -> Row:
        """A virtual machine with its interfaces and public address."""
        more = {key: value for key, value in more.items() if value is not None}
        vm = self._row("Microsoft.Compute/virtualMachines", name, group, **more)
        nics = []
        for number in range(interfaces):
            address = self._address()
            nic = self._row("Microsoft.Network/networkInterfaces", f"{name}-nic{number}", group)
            configuration: dict[str, Any] = {"privateIPAddress": address, "primary": True}
            if public and number == 0:
                ip = self._row("Microsoft.Network/publicIPAddresses", f"{name}-ip", group)
                ip["properties"] = {
                    "ipAddress": public,
                    "ipConfiguration": {"id": f"{nic['id']}/ipConfigurations/one"},
                    "dnsSettings": {"fqdn": f"{name}.southcentralus.cloudapp.azure.com"},
                }
                configuration["publicIPAddress"] = {"id": ip["id"]}
                self.tables["resources"].append(ip)
            nic["properties"] = {
                "primary": number == 0,
                "virtualMachine": {"id": vm["id"]},
                "macAddress": "00-0D-3A-00-00-01",
                "ipConfigurations": [{"name": "one", "properties": configuration}],
            }
            self.tables["resources"].append(nic)
            nics.append({"id": nic["id"], "properties": {"primary": number == 0}})
        view = {"powerState": {"code": f"PowerState/{power}"}} if power else {}
        vm["properties"] = {
            "vmId": str(uuid.uuid5(uuid.NAMESPACE_URL, vm["id"])),
            "provisioningState": "Succeeded",
            "timeCreated": "2026-11-20T09:13:00.1234567+00:00",
            "hardwareProfile": {"vmSize": size},
            "osProfile": {
                "computerName": name[:15],
                "windowsConfiguration" if system == "Windows" else "linuxConfiguration": {},
            },
            "storageProfile": {
                "osDisk": {"osType": system, "name": f"{name}-os", "managedDisk": {}},
                "imageReference": {"publisher": "microsoft-dsvm", "offer": "ubuntu-hpc"},
            },
            "networkProfile": {"networkInterfaces": nics},
            "extended": {"instanceView": view},
            **(properties or {}),
        }
        self.tables["resources"].append(vm)
        return vm

    def add_scale_set(
        self,
        name: str,
        count: int = 0,
        *,
        group: str = "hpc",
        size: str = "Standard_HB120rs_v3",
        uniform: bool = True,
        single: bool = True,
        proximity: str = "",
        priority: str = "",
    ) -> Row:
        """A scale set; a uniform one with its instances."""
        scale_set = self._row("Microsoft.Compute/virtualMachineScaleSets", name, group)
        profile: dict[str, Any] = {"storageProfile": {"osDisk": {"osType": "Linux"}}}
        if priority:
            profile["priority"] = priority
        scale_set |= {"sku": {"name": size, "capacity": count, "tier": "Standard"}}
        scale_set["properties"] = {
            "orchestrationMode": "Uniform" if uniform else "Flexible",
            "singlePlacementGroup": single,
            "virtualMachineProfile": profile,
        }
        if proximity:
            scale_set["properties"]["proximityPlacementGroup"] = {"id": proximity}
        self.tables["resources"].append(scale_set)
        nics = self.interfaces.setdefault(scale_set["id"].lower(), [])
        for number in range(count if uniform else 0):
            one = self._row(
                "Microsoft.Compute/virtualMachineScaleSets/virtualMachines", name, group
            )
            one |= {
                "id": f"{scale_set['id']}/virtualMachines/{number}",
                "name": f"{name}_{number}",
                "sku": {"name": size, "tier": "Standard"},
                "properties": {
                    "provisioningState": "Succeeded",
                    "vmId": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{scale_set['id']}/{number}")),
                    "osProfile": {"computerName": f"{name}{number:06d}"[-15:]},
                    "storageProfile": {"osDisk": {"osType": "Linux"}},
                    "extended": {"instanceView": {"powerState": {"code": "PowerState/running"}}},
                },
            }
            self.tables["computeresources"].append(one)
            address = self._address()
            nics.append(
                {
                    "name": "nic1",
                    "id": f"{one['id']}/networkInterfaces/nic1",
                    "properties": {
                        "primary": True,
                        "virtualMachine": {"id": one["id"]},
                        # As Microsoft's own example has it: a block beside the address.
                        "ipConfigurations": [
                            {"properties": {"privateIPAddress": "10.0.0.16/28", "primary": False}},
                            {"properties": {"privateIPAddress": address, "primary": True}},
                        ],
                    },
                }
            )
        return scale_set

    # -- tokens --

    def token(self) -> str:
        word = secrets.token_urlsafe(24)
        self.tokens[word] = time.time() + self.lifetime_seconds
        return word

    def sign_in(self, method: str, path: str, query: dict[str, str], body: Any) -> Reply | None:
        """An answer of the token endpoints, or None where the path is none of theirs."""
        if path == "/metadata/identity/oauth2/token":
            if query.get("api-version") != "2018-02-01" or "resource" not in query:
                return Reply(400, {"error": "invalid_request", "error_description": "resource"})
            seconds = str(int(self.lifetime_seconds))
            return Reply(
                200,
                {
                    "access_token": self.token(),
                    "expires_in": seconds,
                    "resource": query["resource"],
                    "token_type": "Bearer",
                },
            )
        start = f"{self.url}/{TENANT}"
        if path == f"/{TENANT}/v2.0/.well-known/openid-configuration":
            return Reply(
                200,
                {
                    "issuer": f"{start}/v2.0",
                    "authorization_endpoint": f"{start}/oauth2/v2.0/authorize",
                    "token_endpoint": f"{start}/oauth2/v2.0/token",
                },
            )
        if (method, path) == ("POST", f"/{TENANT}/oauth2/v2.0/token"):
            wanted = {"client_id": CLIENT, "client_secret": SECRET}
            if body.get("grant_type") != "client_credentials" or any(
                body.get(key) != value for key, value in wanted.items()
            ):
                said = "AADSTS7000215: the client secret is not the one of this application"
                return Reply(401, {"error": "invalid_client", "error_description": said})
            return Reply(
                200,
                {
                    "access_token": self.token(),
                    "expires_in": int(self.lifetime_seconds),
                    "token_type": "Bearer",
                },
            )
        return None

    def trusted(self, header: str) -> Reply | None:
        """Why a request's token is not taken."""
        word = header.removeprefix("Bearer ")
        if word not in self.tokens:
            return refusal(401, "InvalidAuthenticationToken", "The access token is invalid.")
        if self.tokens[word] < time.time():
            return refusal(401, "ExpiredAuthenticationToken", "The access token has expired.")
        return None

    # -- calls --

    def do(self, method: str, path: str, query: dict[str, str], body: Any) -> Reply:
        low = path.lower()
        if (method, low) == ("POST", GRAPH):
            return _versioned(query, GRAPH_VERSIONS) or self.graph(body)
        if method == "GET" and low.endswith("/networkinterfaces"):
            found = self.interfaces.get(low.removesuffix("/networkinterfaces"))
            if found is None:
                return refusal(404, "ResourceNotFound", f"{path} was not found.")
            return _versioned(query, NETWORK_VERSIONS) or Reply(200, {"value": found})
        return refusal(404, "InvalidResourceType", f"This cloud knows no {method} {path}.")

    def graph(self, body: Any) -> Reply:
        """Resource Graph's answer."""
        refused = self._over_quota() or _misasked(body)
        if refused:
            return refused
        options = body.get("options") or {}
        digest = hashlib.sha256(body["query"].encode()).hexdigest()[:16]
        begin = _begin(options["$skipToken"], digest) if "$skipToken" in options else 0
        if begin < 0:
            return refusal(400, "BadRequest", "The skip token is of another query.")
        try:
            if begin == 0 or digest not in self._answers:
                self._answers = {digest: Query(body["query"], self.tables).run()}
            rows, paged = self._answers[digest]
        except QueryError as error:
            detail = {"code": "InvalidQuery", "message": str(error)}
            said = "Please provide below info when asking for support: timestamp, correlationId."
            return refusal(400, "BadRequest", said, details=[detail])
        end = begin + min(options.get("$top", MOST_ROWS), self.page_rows)
        more = end < len(rows)
        document = {
            "totalRecords": len(rows),
            "count": len(rows[begin:end]),
            "resultTruncated": "true" if more and not paged else "false",
            "facets": [],
            "data": rows[begin:end],
        }
        if more and paged:
            text = json.dumps({"q": digest, "begin": end})
            document["$skipToken"] = base64.b64encode(text.encode()).decode()
        left = QUOTA_QUERIES - len(self._asked)
        quota = {"x-ms-user-quota-remaining": str(left), "x-ms-user-quota-resets-after": "00:00:05"}
        return Reply(200, document, quota)

    def _over_quota(self) -> Reply | None:
        now = time.monotonic()
        while self._asked and self._asked[0] <= now - QUOTA_SECONDS:
            self._asked.popleft()
        if not self.quota or len(self._asked) < QUOTA_QUERIES:
            self._asked.append(now)
            return None
        wait = int(self._asked[0] + QUOTA_SECONDS - now) + 1
        reply = refusal(429, "RateLimiting", "Please retry later.")
        reply.headers = {"Retry-After": str(wait), "x-ms-user-quota-remaining": "0"}
        return reply


def _misasked(body: Any) -> Reply | None:
    """What Resource Graph does not take in a request's body."""
    problem = _unknown(body, {"subscriptions", "query", "options"}) or _unknown(
        body.get("options") or {}, {"$top", "$skipToken", "resultFormat", "allowPartialScopes"}
    )
    if problem or not isinstance(body.get("query"), str):
        return refusal(400, "BadRequest", f"The request is invalid: {problem or 'query'}.")
    options = body.get("options") or {}
    top = options.get("$top", MOST_ROWS)
    if not isinstance(top, int) or not 1 <= top <= MOST_ROWS:
        return refusal(400, "BadRequest", f"$top is 1 to {MOST_ROWS}.")
    # Both as Microsoft's package sends them.
    if options.get("resultFormat", "objectArray") != "objectArray":
        return refusal(400, "BadRequest", "This cloud gives objectArray only.")
    if options.get("allowPartialScopes", False) is not False:
        return refusal(400, "BadRequest", "This cloud has whole scopes only.")
    if body.get("subscriptions") != [SUBSCRIPTION]:
        return refusal(403, "AuthorizationFailed", "No access to the subscriptions asked for.")
    return None


def _versioned(query: dict[str, str], known: tuple[str, ...]) -> Reply | None:
    problem = _unknown(query, {"api-version"})
    if problem:
        return refusal(400, "InvalidQueryParameter", problem)
    version = query.get("api-version")
    if version is None:
        return refusal(400, "MissingApiVersionParameter", "The api-version is required.")
    if version not in known:
        said = f"The api-version '{version}' is not one of {', '.join(known)}."
        return refusal(400, "InvalidApiVersionParameter", said)
    return None


def _unknown(given: Any, known: set[str]) -> str:
    if not isinstance(given, dict):
        return "no object"
    return ", ".join(f"{key} is not known here" for key in sorted(set(given) - known))


def _begin(token: Any, digest: str) -> int:
    try:
        said = json.loads(base64.b64decode(str(token)))
        return int(said["begin"]) if said["q"] == digest else -1
    except (ValueError, KeyError, TypeError):
        return -1


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    cloud: Cloud
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        # Whoever asked may be gone before the answer is.
        with contextlib.suppress(OSError):
            self.serve()

    def do_POST(self) -> None:
        self.do_GET()

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
            text = json.dumps(reply.document).encode()
            if last in cloud.cut:
                cloud.cut.remove(last)
                text = text[: len(text) // 2]
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("x-ms-request-id", str(uuid.uuid4()))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
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
        cloud.calls.append((self.command, path, query, body))
        refused = cloud.trusted(self.headers.get("Authorization", ""))
        return refused or cloud.do(self.command, path, query, body)

    def log_message(self, *_: Any) -> None:
        """Nothing on the screen."""


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """An authority made for this folder, and a certificate and key for localhost: three files."""
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
    host = signed(
        subject,
        key.public_key(),
        [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (x509.SubjectAlternativeName([x509.DNSName("localhost")]), False),
            (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(mine), False),
        ],
    )
    files = folder / "authority.pem", folder / "localhost.pem", folder / "localhost.key"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for path, content in zip(files, (authority, host, private), strict=True):
        path.write_bytes(content)
    files[2].chmod(0o600)
    return files


def profile(folder: Path, url: str, *, principal: bool = False) -> dict[str, str]:
    """Write azure-cli-core's files of a login to the cloud below FOLDER, as `az cloud register` and
    `az login --identity` leave them; return the environment in which they are found."""
    config = folder / "azure"
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
        "NO_PROXY": "localhost",
        "no_proxy": "localhost",
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: Any) -> None:
        """A client that does not trust the certificate ends the connection."""


@contextlib.contextmanager
def serving(cloud: Cloud, folder: Path) -> Iterator[Cloud]:
    """The cloud at ``cloud.url``, its authority in FOLDER/authority.pem."""
    _, certificate, key = certificates(folder)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"cloud": cloud}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    # The handshake in the connection's own thread: accept() must not wait for a client.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    cloud.url = f"https://localhost:{server.server_address[1]}"
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
    parser.add_argument("--machines", type=int, default=8)
    parser.add_argument("--uniform", type=int, default=0, help="instances of one uniform set")
    asked = parser.parse_args()
    cloud = Cloud()
    for number in range(asked.machines):
        cloud.add_vm(f"vm-{number}")
    if asked.uniform:
        cloud.add_scale_set("uniform", asked.uniform)
    with tempfile.TemporaryDirectory() as name, serving(cloud, Path(name)):
        for key, value in profile(Path(name), cloud.url).items():
            print(f"export {key}={value}", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
