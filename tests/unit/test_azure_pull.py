"""Nodes that configure themselves: what cloud-init is given, and the program that it starts.

The release's server, Ansible and Azure are stand-ins (docs/guides/azure_sets.md)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

import provisioning
import pytest
from trueup_controller.azure import template
from trueup_node.errors import BadInput
from trueup_node.vm import node_pull

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHA = "ab" * 32
IDENTITY = (
    "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity"
    "/userAssignedIdentities/records"
)
RELEASE = "https://example.blob.core.windows.net/releases/trueup.bundle"
RECORDS = "https://example.blob.core.windows.net/records"
GIVEN = {"release": RELEASE, "sha256": SHA, "records": RECORDS, "identity": IDENTITY}


def made(variables: dict[str, Any] | None = None, **given: Any) -> Any:
    more = {name: given.pop(name) for name in list(given) if name in ("outbound", "cloud_init")}
    return provisioning.made(
        {"count": 4}, pull={**GIVEN, **given}, variables=variables or {}, **more
    )


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"release": RELEASE.replace("https", "http")}, "pull.release is 'http://"),
        ({"release": "https://host"}, "it must be the release's file by https"),
        ({"release": "https://[host/x"}, "it must be the release's file by https"),
        ({"release": f"{RELEASE}?sv=1&sig=x"}, "pull.release has a credential or a query"),
        ({"release": "https://u:p@host/x"}, "pull.release has a credential or a query"),
        ({"release": ""}, "pull.sha256 is given without pull.release"),
        ({"sha256": ""}, "pull.sha256 is '': it must be the 64 small hex digits"),
        ({"sha256": SHA.upper()}, "it must be the 64 small hex digits"),
        ({"records": "http://host/records"}, "pull.records is 'http://"),
        ({"records": f"{RECORDS}/deeper"}, "it must end in a container's name"),
        ({"records": f"{RECORDS}?sig=x"}, "pull.records has a credential or a query"),
        ({"identity": ""}, "pull.identity is empty: who may write to pull.records?"),
        ({"identity": "records"}, "pull.identity is 'records': it must be /subscriptions/"),
        ({"outbound": "none"}, "pull.release is given with outbound none"),
        ({"cloud_init": "#!/bin/true"}, "cloud_init is given with pull, which writes it"),
        ({"variables": {"vllm_hf_token": "hf_x"}}, "variables has vllm_hf_token, which pull would"),
        ({"variables": {"x": "y" * 50_000}}, "variables: with them nodes get"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], named: str) -> None:
    with pytest.raises(BadInput) as found:
        made(**given)
    assert named in str(found.value)


def test_a_release_without_records_needs_no_identity() -> None:
    found = made(records="", identity="")
    resources = template.template(found, provisioning.known(), provisioning.RUN)["resources"]
    assert [one["name"] for one in resources if "identity" in one] == ["login"]


# ---- the program --------------------------------------------------------------------------------


class Server:
    """Stands in for the release's server, the metadata service and a container of Blob storage.

    Attributes:
        files: what a GET gives, by path.
        answers: statuses, the first of which each path is answered with instead; "cut" ends the
            answer in its middle.
        blobs: what was put, by path.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.answers: dict[str, list[int | str]] = {}
        self.blobs: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.url = ""

    def handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.serve(self)

            do_PUT = do_HEAD = do_GET  # noqa: N815 WHY: the library's names

            def log_message(self, *_: Any) -> None:
                """Keep the tests' output clean."""

        return Handler

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        path, _, query = handler.path.partition("?")
        self.asked.append((handler.command, handler.path, dict(handler.headers)))
        content = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        special = self.answers.get(path, [])
        answer = special.pop(0) if special else 200
        if isinstance(answer, int) and answer != 200:
            self.reply(handler, answer, b"", {"x-ms-error-code": "Code", "x-ms-request-id": "r1"})
        elif handler.command == "PUT" and path in self.blobs and "If-None-Match" in handler.headers:
            self.reply(handler, 409, b"", {"x-ms-error-code": "BlobAlreadyExists"})
        elif handler.command == "PUT":
            self.blobs[path] = content
            self.reply(handler, 201)
        elif handler.command == "HEAD":
            self.reply(handler, 200, b"", {"Content-MD5": node_pull.md5(self.blobs[path])})
        elif path.startswith("/metadata/identity"):
            assert "msi_res_id=" in query
            self.reply(handler, 200, b'{"access_token": "t0ken"}')
        else:
            self.reply(handler, 200, self.files[path], cut=answer == "cut")

    def reply(
        self,
        handler: BaseHTTPRequestHandler,
        status: int,
        content: bytes = b"",
        headers: dict[str, str] | None = None,
        *,
        cut: bool = False,
    ) -> None:
        handler.send_response(status)
        for name, text in {"Content-Length": str(len(content)), **(headers or {})}.items():
            handler.send_header(name, text)
        handler.end_headers()
        handler.wfile.write(content[: len(content) // 2] if cut else content)


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    listener = ThreadingHTTPServer(("127.0.0.1", 0), server.handler())
    listener.daemon_threads = True
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,))
    thread.start()
    server.url = f"http://127.0.0.1:{listener.server_address[1]}"
    server.files["/metadata/instance/compute"] = b'{"name": "nodes_3"}'
    try:
        yield server
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()


@pytest.fixture(name="server")
def _server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(node_pull, "PAUSE_SECONDS", 0.01)
    with serving() as server:
        yield server


def release(tmp_path: Path) -> bytes:
    """A bundle as `make release` writes them, of a program that plays ansible-pull."""
    source = tmp_path / "source"
    (source / "requirements").mkdir(parents=True)
    (source / "requirements" / "controller.txt").write_text("")
    name = ["-c", "user.name=x", "-c", "user.email=x"]
    for words in (
        ["init", "--quiet", "--initial-branch", "release"],
        ["add", "."],
        [*name, "commit", "--quiet", "--message", "one"],
        ["bundle", "create", "--quiet", str(tmp_path / "b"), "release"],
    ):
        subprocess.run(["git", "-C", str(source), *words], check=True)
    return (tmp_path / "b").read_bytes()


def config(server: Server, tmp_path: Path, content: bytes, **more: Any) -> dict[str, Any]:
    server.files["/release"] = content
    return {
        "release": f"{server.url}/release",
        "sha256": hashlib.sha256(content).hexdigest(),
        "records": f"{server.url}/records",
        "identity": IDENTITY,
        "run": provisioning.RUN,
        "variables": {"a": 1},
        "builds": {},
        "folder": str(tmp_path / "lib"),
        "metadata": server.url,
        **more,
    }


@pytest.fixture(name="configured")
def _configured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for the environment and Ansible: each start of it writes a record."""
    begun: list[str] = []

    def play(machine: node_pull.Machine) -> None:
        begun.append(machine.name)
        folder = f"{machine.results}/{machine.config['run']}"
        for name in ("run.json", "x.json"):
            node_pull.write(f"{folder}/{name}", f"{name} {len(begun) if 'run' in name else ''}")

    monkeypatch.setattr(node_pull.Machine, "environment", lambda _: None)
    monkeypatch.setattr(node_pull.Machine, "play", play)
    return begun


class Node(NamedTuple):
    """A machine on which the program is started."""

    folder: Path
    server: Server
    configured: list[str]
    capsys: pytest.CaptureFixture[str]

    def config(self, content: bytes | None = None, **more: Any) -> dict[str, Any]:
        """What it is given; the content of a release is a good one's unless given."""
        content = release(self.folder) if content is None else content
        return config(self.server, self.folder, content, **more)

    def start(self, given: dict[str, Any]) -> tuple[int, str]:
        path = self.folder / "pull.json"
        path.write_text(json.dumps(given))
        status = node_pull.main(["pull.py", str(path)])
        return status, self.capsys.readouterr().out


@pytest.fixture(name="node")
def _node(
    tmp_path: Path, server: Server, configured: list[str], capsys: pytest.CaptureFixture[str]
) -> Node:
    return Node(tmp_path, server, configured, capsys)


def test_a_node_puts_its_records_under_its_name_once(node: Node) -> None:
    given = node.config()
    status, said = node.start(given)
    assert (status, node.configured) == (0, ["nodes_3"])
    base = f"/records/{provisioning.RUN}/nodes_3"
    assert sorted(node.server.blobs) == [
        f"{base}/{name}" for name in ("pull.log", "run.json", "x.json")
    ]
    assert f"2 files of run {provisioning.RUN} are in {node.server.url}{base}" in said
    assert (node.folder / "lib" / "trueup" / "requirements" / "controller.txt").exists()
    puts = [headers for method, _, headers in node.server.asked if method == "PUT"]
    assert {headers["Authorization"] for headers in puts} == {"Bearer t0ken"}
    # The release is another server's only by name here: one of the container's account gets it too.
    assert [
        headers.get("Authorization") for _, path, headers in node.server.asked if path == "/release"
    ]
    again = node.start(given)
    assert (again[0], node.configured) == (0, ["nodes_3"])
    assert "configured already by this release" in again[1]


def test_a_token_goes_to_the_containers_account_alone(server: Server, tmp_path: Path) -> None:
    machine = node_pull.Machine(config(server, tmp_path, b""))
    assert machine.rights("https://example.com/release") == {}
    assert machine.rights(f"{server.url}/x")["Authorization"] == "Bearer t0ken"
    machine.log.close()


def test_what_may_pass_is_asked_again(node: Node) -> None:
    node.server.answers["/release"] = [503, "cut", 429]
    base = f"/records/{provisioning.RUN}/nodes_3"
    node.server.answers[f"{base}/x.json"] = [500, 503]
    status, said = node.start(node.config())
    assert (status, node.configured) == (0, ["nodes_3"])
    assert "cut short (" in said
    assert node.server.blobs[f"{base}/x.json"] == b"x.json "


def test_no_network_ends_after_a_while_and_says_so(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_pull, "PATIENCE_SECONDS", 0.05)
    given = node.config(b"", release="http://127.0.0.1:9/release", records="")
    status, said = node.start(given)
    assert (status, node.configured) == (1, [])
    assert "http://127.0.0.1:9/release cannot be had for 0.05 s: " in said


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_release_that_is_refused_is_not_asked_for_again(node: Node, status: int) -> None:
    node.server.answers["/release"] = [status]
    ended, said = node.start(node.config(b"x"))
    assert (ended, node.configured) == (1, [])
    assert f"/release cannot be had: status {status} (" in said


def test_a_container_that_refuses_keeps_the_records_here(node: Node) -> None:
    base = f"/records/{provisioning.RUN}/nodes_3"
    node.server.answers[f"{base}/x.json"] = [403]
    given = node.config()
    status, said = node.start(given)
    assert status == 1
    assert f"{base}/x.json was refused: status 403, Code (request r1); the records stay in" in said
    assert (node.folder / "lib" / "results" / provisioning.RUN / "x.json").exists()
    assert node.start(given)[0] == 0
    assert f"{base}/x.json" in node.server.blobs
    assert len(node.configured) == 2


def test_another_machines_record_is_not_overwritten(node: Node) -> None:
    base = f"/records/{provisioning.RUN}/nodes_3"
    node.server.blobs = {f"{base}/x.json": b"another's", f"{base}/run.json": b"another's"}
    status, said = node.start(node.config())
    assert (status, node.configured) == (1, ["nodes_3"])
    assert f"{base}/x.json is there with another content" in said
    assert node.server.blobs[f"{base}/x.json"] == b"another's"
    # The same one, from before a reboot, is none.
    node.server.blobs[f"{base}/x.json"] = b"x.json "
    status, said = node.start(node.config(release(node.folder / "2")))
    assert (status, node.server.blobs[f"{base}/run.json"]) == (0, b"run.json 2")


def test_a_failed_play_is_said_and_what_it_left_is_uploaded(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(machine: node_pull.Machine) -> None:
        machine.run(["sh", "-c", "echo 'fatal: no compiler'; echo a last line; exit 2"])

    monkeypatch.setattr(node_pull.Machine, "play", play)
    status, said = node.start(node.config())
    assert (status, node.configured) == (1, [])
    assert "FAILED: sh ended with status 2: fatal: no compiler\n" in said
    log = node.server.blobs[f"/records/{provisioning.RUN}/nodes_3/pull.log"].decode()
    assert "a last line" in log


def test_ansible_pull_is_given_this_machine_and_the_run(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = node_pull.Machine(config(server, tmp_path, b""))
    machine.name = "nodes_3"
    called: list[Any] = []
    monkeypatch.setattr(machine, "run", lambda *given, **more: called.append((given, more)))
    machine.play()
    machine.log.close()
    [((argv,), more)] = called
    folder = tmp_path / "lib"
    assert argv[1:] == [
        *("-U", f"{folder}/release.git", "-C", "release", "-d", f"{folder}/trueup", "--full"),
        *("--clean", "-i", f"{folder}/inventory", "-l", "nodes_3"),
        *("-e", f"@{folder}/variables.json", "playbooks/pull.yml"),
    ]
    assert more["TRUEUP_RESULTS"] == f"{folder}/results"
    assert json.loads((folder / "variables.json").read_text()) == {
        "a": 1,
        "trueup_resume": provisioning.RUN,
    }
    assert "nodes_3 ansible_connection=local" in (folder / "inventory").read_text()


def test_two_starts_at_once_are_one(node: Node) -> None:
    given = node.config()
    (node.folder / "lib").mkdir()
    holder = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'a');"
        "fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(node.folder / "lib" / "lock")],
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        status, said = node.start(given)
        other.kill()
    assert (status, node.configured) == (1, [])
    assert said == "another start of this program is at work on this machine\n"


def test_a_node_without_a_new_python_takes_the_pinned_build(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_pull, "PYTHONS", ("python-of-nobody",))
    machine = node_pull.Machine(config(server, tmp_path, b""))
    with pytest.raises(node_pull.Trouble, match=r"no Python of 3\.11 or newer with venv"):
        machine.python()
    inside = tmp_path / "python" / "bin"
    inside.mkdir(parents=True)
    (inside / "python3").write_text("#!/bin/sh\n")
    subprocess.run(
        ["tar", "-C", str(tmp_path), "-czf", str(tmp_path / "p.tgz"), "python"], check=True
    )
    content = (tmp_path / "p.tgz").read_bytes()
    server.files["/python"] = content
    sha256 = hashlib.sha256(content).hexdigest()
    build = {"url": f"{server.url}/python", "sha256": sha256}
    machine.config["builds"] = {node_pull.platform.machine(): build}
    found = machine.python()
    assert (found, machine.python()) == (
        str(tmp_path / "lib" / f"python-{sha256[:12]}" / "bin" / "python3"),
        found,
    )
    assert len([path for _, path, _ in server.asked if path == "/python"]) == 1
    build["sha256"] = SHA
    with pytest.raises(node_pull.Trouble, match="nothing of it was used"):
        machine.python()
    machine.log.close()


def test_a_redirect_leads_by_https_alone_and_without_the_token() -> None:
    request = urllib.request.Request("https://host/x", headers={"Authorization": "Bearer t"})
    handler = node_pull._OnlyHttps()
    given = (None, 302, "Found", {})
    with pytest.raises(node_pull.Trouble, match="which is not https"):
        handler.redirect_request(request, *given, "http://host/y")
    found = handler.redirect_request(request, *given, "https://other/y")
    assert (found.full_url, found.has_header("Authorization")) == ("https://other/y", False)


def test_a_machine_without_metadata_has_its_hosts_name(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers["/metadata/instance/compute"] = [500]
    machine = node_pull.Machine(config(server, tmp_path, b""))
    assert machine.own_name() == node_pull.platform.node()
    server.files["/metadata/instance/compute"] = b'{"name": "../a b"}'
    assert machine.own_name() == "a-b"
    machine.log.close()
    assert "the host's name is taken" in capsys.readouterr().out
