"""A stand-in for CycleCloud's REST API: a real HTTP or HTTPS server on the loopback.

It keeps one cluster in memory and answers the calls that trueup makes, with the statuses and fields
of https://learn.microsoft.com/azure/cyclecloud/api. What it does not know it answers with 404, and
a body that it does not understand with 400 or 409: it never says yes to a call that it cannot do.
It starts no VM. The sentences in its errors are its own, except "No operation found for request
id", which clients of CycleCloud look for.

A test says by ``faults`` what goes wrong, call by call.
"""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
import urllib.parse
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from metadata_server import send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

USERNAME = "operator"
PASSWORD = "correct-horse-9"  # of the stand-in only
SIZE = "Standard_HB120rs_v3"


def answer(
    status: int, body: bytes = b"", headers: dict[str, str] | None = None
) -> Callable[[BaseHTTPRequestHandler], None]:
    """A fault: this answer instead."""

    return send(body, status, headers)


def drop(handler: BaseHTTPRequestHandler) -> None:
    """A fault: the connection ends without an answer, and nothing was done."""
    handler.close_connection = True


def drop_after(_: BaseHTTPRequestHandler) -> None:
    """A fault: it is done, and the connection ends without an answer."""
    raise NotImplementedError  # the handler knows it by name


def half(_: BaseHTTPRequestHandler) -> None:
    """A fault: it is done, and the connection ends in the middle of the answer."""
    raise NotImplementedError


@dataclass
class StandInCycleCloud:
    """The stand-in's one cluster, ``hpc``, with one nodearray, ``execute``.

    Attributes:
        steps: states that a new node goes through, one a listing of all nodes.
        fates: node name to what happens to it: failed (with a message), stuck, evicted or ready
            without an address.
        remembers: whether an operation goes on listing nodes that are gone.
        faults: (method, last part of the path) to what goes wrong there, used up in order; None is
            no fault.
    """

    available: int = 16
    placement_group_size: int = 8
    sizes: tuple[str, ...] = (SIZE,)
    grants: int | None = None
    steps: tuple[str, ...] = ("Acquiring", "Preparing", "Ready")
    fates: dict[str, str] = field(default_factory=dict)
    faults: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    page_size: int = 0
    page_by: str = "nextLink"
    page_host: str = ""
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    operations: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    calls: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    bad_terminate: dict[str, str] = field(default_factory=dict)
    age_seconds: int = 0
    remembers: bool = False
    made: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    def called(self, method: str, end: str) -> int:
        """How often a call came."""
        return sum(
            verb == method and urllib.parse.urlsplit(path).path.endswith(end)
            for verb, path, _, _ in self.calls
        )

    # -- what the API does --

    def do(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Status and document of one call."""
        parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
        if parts[:2] != ["clusters", "hpc"]:
            return 404, {"message": f"no such thing: {path}"}
        rest = parts[2:]
        if (method, rest) == ("GET", ["status"]):
            return 200, self.status()
        if (method, rest) == ("GET", ["nodes"]):
            return self.list(query)
        if (method, rest) == ("POST", ["nodes", "create"]):
            return self.create(body)
        if (method, rest) == ("POST", ["nodes", "terminate"]):
            return self.terminate(body)
        if method == "POST" and rest[:1] == ["scale"] and len(rest) == 2:
            return self.scale(rest[1], query)
        return 404, {"message": f"no such thing: {method} {path}"}

    def active(self) -> int:
        return sum(node["TargetState"] == "Started" for node in self.nodes.values())

    def status(self) -> dict[str, Any]:
        active = self.active()
        groups: dict[str, int] = {}
        for node in self.nodes.values():
            if node.get("PlacementGroupId"):
                groups[node["PlacementGroupId"]] = groups.get(node["PlacementGroupId"], 0) + 1
        return {
            "state": "Started",
            "targetState": "Started",
            "maxCount": 100,
            "maxCoreCount": 12000,
            "nodearrays": [
                {
                    "name": "execute",
                    "maxCount": 100,
                    "maxCoreCount": 12000,
                    "nodearray": {},
                    "buckets": [
                        {
                            "bucketId": str(uuid.uuid5(uuid.NAMESPACE_DNS, size)),
                            "definition": {"machineType": size},
                            "availableCount": max(0, self.available - active),
                            "activeCount": active if size == self.sizes[0] else 0,
                            "maxCount": self.available,
                            "quotaCount": self.available,
                            "maxPlacementGroupSize": self.placement_group_size,
                            "placementGroups": [
                                {"name": name, "activeCount": count, "activeCoreCount": 120 * count}
                                for name, count in groups.items()
                            ],
                            "valid": True,
                        }
                        for size in self.sizes
                    ],
                }
            ],
        }

    def list(self, query: dict[str, str]) -> tuple[int, Any]:
        if "request_id" in query:
            operation = self.operations.get(query["request_id"])
            if operation is None:
                said = f"No operation found for request id {query['request_id']}"
                return 404, {"message": said}
            began, ids = operation
            here = {node["NodeId"]: node for node in self.nodes.values()}
            gone = {"Name": "gone", "Status": "Ready", "TargetState": "Started"}
            if self.remembers:
                here = {**{one: {**gone, "NodeId": one} for one in ids}, **here}
            return 200, {
                "nodes": [here[one] for one in ids if one in here],
                "operation": {"action": "create", "startTime": began},
            }
        self.advance()
        nodes = list(self.nodes.values())
        if not self.page_size:
            return 200, {"nodes": nodes}
        start = int(query.get("page", "0")) * self.page_size
        page: dict[str, Any] = {"nodes": nodes[start : start + self.page_size]}
        if start + self.page_size < len(nodes):
            base = self.page_host or self.url
            page["nextLink"] = f"{base}/clusters/hpc/nodes?page={start // self.page_size + 1}"
        return 200, page

    def advance(self) -> None:
        """One step of each node towards its target."""
        for name, node in list(self.nodes.items()):
            if node["TargetState"] == "Terminated":
                if node["Status"] == "Terminating":
                    del self.nodes[name]
                else:
                    node["Status"] = "Terminating"
                continue
            step = self.steps.index(node["Status"]) if node["Status"] in self.steps else None
            fate = self.fates.get(name, "")
            if step is None or fate == "stuck":
                continue
            if step + 1 < len(self.steps):
                node["Status"] = self.steps[step + 1]
            if step + 1 >= 1 and fate.startswith("failed"):
                node["Status"] = "Failed"
                node["StatusMessage"] = fate.partition(":")[2]
            if step + 1 >= 1 and fate == "evicted":
                del self.nodes[name]
            if node["Status"] == "Ready" and fate != "no address":
                node["PrivateIp"] = f"10.0.0.{node['index'] + 3}"
                node["Hostname"] = f"ip-0A0000{node['index'] + 3:02X}"

    def add(self, count: int, size: str, group: str | None, form: str) -> list[str]:
        ids = []
        for _ in range(count):
            self.made += 1
            index = 1
            while form.replace("%d", str(index)) in self.nodes:
                index += 1
            name = form.replace("%d", str(index))
            self.nodes[name] = {
                "Name": name,
                "NodeId": f"{self.made:032x}",
                "Template": "execute",
                "MachineType": size,
                "Status": self.steps[0],
                "TargetState": "Started",
                "PlacementGroupId": group,
                "Configuration": {"secret": PASSWORD},
                "index": index,
            }
            ids.append(self.nodes[name]["NodeId"])
        return ids

    def now(self) -> str:
        moment = datetime.now(timezone.utc) - timedelta(seconds=self.age_seconds)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def create(self, body: Any) -> tuple[int, Any]:
        if set(body) - {"requestId", "sets"} or len(body["sets"]) != 1:
            return 400, {"message": "not a request for nodes"}
        request_id = body.get("requestId") or str(uuid.uuid4())
        if request_id in self.operations:
            return 409, {"message": f"request id {request_id} was used"}
        wish = body["sets"][0]
        known = {"count", "nodearray", "definition", "placementGroupId", "nameFormat"}
        if set(wish) - known or wish["nodearray"] != "execute" or wish["count"] < 1:
            return 409, {"message": "this set cannot be created"}
        size = wish.get("definition", {}).get("machineType", self.sizes[0])
        if size not in self.sizes:
            return 409, {"message": f"no bucket has {size}"}
        room = min(wish["count"], self.available - self.active())
        granted = room if self.grants is None else min(room, self.grants)
        form = wish.get("nameFormat", "execute-%d")
        ids = self.add(granted, size, wish.get("placementGroupId"), form)
        self.operations[request_id] = (self.now(), ids)
        done: dict[str, Any] = {"added": granted}
        if granted < wish["count"]:
            done["message"] = "limited by regional quota"
        return 202, {"operationId": str(uuid.uuid4()), "sets": [done]}

    def scale(self, nodearray: str, query: dict[str, str]) -> tuple[int, Any]:
        if nodearray != "execute" or set(query) != {"totalNodeCount"}:
            return 409, {"message": "cannot be scaled so"}
        lacking = max(0, int(query["totalNodeCount"]) - self.active())
        granted = min(lacking, self.available - self.active())
        granted = granted if self.grants is None else min(granted, self.grants)
        self.add(granted, self.sizes[0], None, "execute-%d")
        return 202, {"operationId": str(uuid.uuid4()), "sets": [{"added": granted}]}

    def terminate(self, body: Any) -> tuple[int, Any]:
        if not body or set(body) - {"ids", "names", "requestId"}:
            return 409, {"message": "which nodes?"}
        told = []
        for node in self.nodes.values():
            if node["NodeId"] in body.get("ids", []) or node["Name"] in body.get("names", []):
                one = {"id": node["NodeId"], "name": node["Name"], "status": "OK"}
                if node["Name"] in self.bad_terminate:
                    one |= {"status": "Error", "error": self.bad_terminate[node["Name"]]}
                else:
                    node["TargetState"] = "Terminated"
                told.append(one)
        return 202, {"operationId": str(uuid.uuid4()), "nodes": told}


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    cloud: StandInCycleCloud
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
        body = json.loads(raw) if raw else None
        wanted = "Basic " + base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
        cloud = self.cloud
        with cloud.lock:
            cloud.calls.append((self.command, self.path, dict(self.headers), body))
            if self.headers.get("Authorization") != wanted:
                answer(401, b"<html>Unauthorized</html>")(self)
                return
            queue = cloud.faults.get((self.command, parts.path.rpartition("/")[2]), [])
            fault = queue.pop(0) if queue else None
            if fault is not None and fault not in (drop_after, half):
                fault(self)
                return
            status, document = cloud.do(self.command, parts.path, query, body)
        if fault is not drop_after:
            self.reply(status, document, cut=fault is half)

    def reply(self, status: int, document: Any, cut: bool) -> None:
        following = document.get("nextLink") if self.cloud.page_by == "Link" else None
        if following:
            del document["nextLink"]
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if following:
            self.send_header("Link", f'<{following}>; rel="next"')
        self.end_headers()
        self.wfile.write(text[: len(text) // 2] if cut else text)

    def log_message(self, *_: Any) -> None:
        """Keep the tests' output clean."""


@contextlib.contextmanager
def stand_in(
    cloud: StandInCycleCloud, certificate: tuple[str, str] | None = None
) -> Iterator[StandInCycleCloud]:
    """Serve it on the loopback; https with a (certificate, key)."""

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A client that does not trust the certificate ends the connection."""

    handler = type("Handler", (_Handler,), {"cloud": cloud})
    server = Quiet(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.block_on_close = False
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        # The handshake in the connection's own thread: accept() must not wait for a client.
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        scheme = "https" if certificate else "http"
        cloud.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
        yield cloud
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
