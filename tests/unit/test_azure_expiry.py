"""The program that ends a run on the login node, itself run against an emulated Azure on loopback:
a stand-in of instance metadata and of the few calls that the program makes."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import ansible_versions
import pytest
from helpers import parametrized
from hypothesis import given
from hypothesis import strategies as st
from provisioning import RUN
from trueup_node import bounded_http
from trueup_node.vm import expiry, node_pull

GROUP = "/subscriptions/s/resourceGroups/trueup-x"
COMPUTE = f"{GROUP}/providers/Microsoft.Compute"
LOGIN, NODE = f"{COMPUTE}/virtualMachines/login", f"{COMPUTE}/virtualMachines/node001"
NODES = f"{COMPUTE}/virtualMachineScaleSets/nodes"
OTHER = f"{COMPUTE}/virtualMachines/theirs"
ENDS = "2026-11-23T18:00Z"
PASSED = expiry.moment(ENDS) or 0.0
TOKEN = "token-of-the-login-node"


def resource(place: str, run: str | None = RUN, **more: Any) -> dict[str, Any]:
    words = place.split("/providers/")[1].split("/")
    kind = "/".join([words[0], *words[1::2]])
    tags = {} if run is None else {"tags": {"run": run}}
    return {"id": place, "type": kind, **tags, **more}


class Emulated:
    """One group in an emulated Azure; ``faults`` by the start of "METHOD PATH" are used up."""

    def __init__(self) -> None:
        self.tags: dict[str, Any] | None = {"run": RUN, "expires": ENDS}
        self.resources = [resource(one) for one in (LOGIN, NODE, NODES)]
        # Lists of machines, by their path in small letters.
        self.models: dict[str, list[Any]] = {}
        self.faults: dict[str, list[Any]] = {}
        self.asked: list[str] = []
        self.date: float | None = PASSED
        self.held = threading.Event()

    def answer(self, method: str, path: str, headers: Any) -> tuple[int, Any, dict[str, str]]:
        what = f"{method} {path.partition('?')[0]}"
        self.asked.append(what)
        for start, queue in self.faults.items():
            if what == start and queue:
                fault = queue.pop(0)
                return fault if isinstance(fault, tuple) else (200, fault, {})
        if path.startswith("/metadata/"):
            assert headers["Metadata"] == "true"
            if "identity" in path:
                return 200, {"access_token": TOKEN}, {}
            place = {"subscriptionId": "s", "resourceGroupName": "trueup-x", "name": "login"}
            return 200, place, {}
        assert headers["Authorization"] == f"Bearer {TOKEN}"
        if method == "DELETE":
            return 202, None, {}
        if what == f"GET {GROUP}":
            return 200, {"id": GROUP, "tags": self.tags}, {}
        if what == f"GET {GROUP}/resources":
            return 200, {"value": self.resources}, {}
        if what[4:].lower() in self.models:
            return 200, {"value": self.models[what[4:].lower()]}, {}
        return 404, {"error": {"code": "NotFound"}}, {}

    @property
    def deleted(self) -> list[str]:
        return [one.split()[1] for one in self.asked if one.startswith("DELETE ")]


def refusal(status: int, code: str) -> tuple[int, Any, dict[str, str]]:
    return status, {"error": {"code": code, "message": "no"}}, {"x-ms-request-id": "r-1"}


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[Any]:
    """An emulated Azure with ``run(*argv)`` and ``start()``, which run the program."""
    emulated: Any = Emulated()

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            status, document, headers = emulated.answer(self.command, self.path, self.headers)
            if status == 0:  # hang up, or hold the answer back
                emulated.held.wait(timeout=document or 0)
                self.connection.close()
                return
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response_only(status)
            if emulated.date is not None:
                self.send_header("Date", formatdate(emulated.date, usegmt=True))
            for name, text in headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(body) if document is not None else 0))
            self.end_headers()
            self.wfile.write(body if document is not None else b"")

        do_GET = do_DELETE = _reply  # noqa: N815 WHY: names of http.server

        def log_message(self, *given: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    # As the VM has them.
    program, config = tmp_path / "expiry.py", tmp_path / "expiry.json"
    for module in (expiry, bounded_http):
        source = Path(module.__file__)
        (tmp_path / source.name).write_bytes(source.read_bytes())

    def write(**changes: Any) -> list[str]:
        versions = {"groups": "2022-09-01", "compute": "2024-07-01"}
        whole = {"metadata": url, "manager": url, "run": RUN, "expires": ENDS, "versions": versions}
        config.write_text(json.dumps(whole | changes), encoding="utf-8")
        # -S -E: the standard library alone, as on the VM.
        return [emulated.python, "-S", "-E", str(program), str(config)]

    def run(*argv: str, **changes: Any) -> tuple[int, str]:
        done = subprocess.run(
            [*write(**changes), *argv], capture_output=True, text=True, timeout=30, check=False
        )
        assert (done.stderr, TOKEN in done.stdout) == ("", False)
        return done.returncode, done.stdout

    emulated.run, emulated.url, emulated.python = run, url, sys.executable
    emulated.start = lambda: subprocess.Popen(write(), stdout=subprocess.DEVNULL)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield emulated
    emulated.held.set()
    server.shutdown()
    server.server_close()


def test_before_its_time_nothing_is_deleted_and_nothing_said(azure: Any) -> None:
    azure.date = PASSED - 1
    assert azure.run() == (0, "")
    assert azure.asked == [
        "GET /metadata/instance/compute",
        "GET /metadata/identity/oauth2/token",
        f"GET {GROUP}",
    ]


def test_at_its_time_sets_and_vms_are_deleted_and_then_the_group(azure: Any) -> None:
    status, said = azure.run()
    assert (status, azure.deleted) == (0, [NODES, NODE, GROUP])
    assert f"run {RUN} has expired: 3 resources of it, 0 others\n" in said


@parametrized(("tag", "deleted"))
def test_a_run_is_extended_or_shortened_by_its_groups_tag(
    azure: Any, tag: str, deleted: bool
) -> None:
    azure.tags["expires"] = tag
    assert (azure.run()[0], bool(azure.deleted)) == (0, deleted)


@pytest.mark.parametrize("tag", ["tomorrow", "", None, "2026-13-01T00:00Z", 7])
@pytest.mark.parametrize(("late", "deleted"), [(-1, False), (0, True)])
def test_where_the_tag_is_no_time_that_of_the_deployment_holds(
    azure: Any, tag: Any, late: int, deleted: bool
) -> None:
    azure.tags["expires"] = tag
    azure.date = PASSED + late
    status, said = azure.run()
    assert (status, bool(azure.deleted)) == (0, deleted)
    assert f"tag expires is {tag!r}: the time of the deployment holds, {ENDS}\n" in said


@pytest.mark.parametrize(
    "fault",
    [
        refusal(403, "AuthorizationFailed"),
        refusal(429, "TooManyRequests"),
        refusal(500, "InternalServerError"),
        (200, b'{"tags": {"ru', {}),
        (200, [], {}),
        (200, b"\xff\xfe", {}),
        (0, 0, {}),
        (307, None, {"Location": "http://127.0.0.1:1/elsewhere"}),
    ],
)
@pytest.mark.parametrize(
    "call", [f"GET {GROUP}", f"GET {GROUP}/resources", "GET /metadata/identity/oauth2/token"]
)
def test_without_a_whole_answer_nothing_is_deleted_and_the_next_minute_does_it(
    azure: Any, call: str, fault: Any
) -> None:
    azure.faults[call] = [fault]
    status, said = azure.run()
    assert (status, azure.deleted, said.count(call)) == (1, [], 1)
    assert (azure.run()[0], azure.deleted) == (0, [NODES, NODE, GROUP])


@pytest.mark.parametrize(
    "answer", [{"value": [None]}, {"value": [{"id": 7}]}, {"value": {}}, {}, {"value": [{}]}]
)
def test_a_list_of_another_shape_deletes_nothing(azure: Any, answer: Any) -> None:
    azure.faults[f"GET {GROUP}/resources"] = [answer]
    assert (azure.run()[0], azure.deleted) == (1, [])


def test_what_is_in_another_group_is_never_deleted(azure: Any) -> None:
    elsewhere = resource(NODE.replace("trueup-x", "trueup-xy"))
    azure.resources.append(elsewhere)
    status, said = azure.run()
    assert (status, azure.deleted) == (1, [])
    assert "trueup-xy/providers/Microsoft.Compute/virtualMachines/node001', which is not in" in said


def test_a_list_goes_on_at_the_same_host_alone(azure: Any) -> None:
    more = {"value": azure.resources[:1], "nextLink": f"{azure.url}{GROUP}/resources?more"}
    rest = {"value": azure.resources[1:]}
    azure.faults[f"GET {GROUP}/resources"] = [more, rest]
    assert (azure.run()[0], azure.deleted) == (0, [NODES, NODE, GROUP])
    azure.asked.clear()
    azure.faults[f"GET {GROUP}/resources"] = [{**more, "nextLink": "http://127.0.0.1:1/"}]
    assert (azure.run()[0], azure.deleted) == (1, [])


def model(machine: str, system: str, *attached: str) -> dict[str, Any]:
    """A machine as Azure lists it, with its own disk and with those of a user."""
    data = [{"lun": lun, "managedDisk": {"id": disk}} for lun, disk in enumerate(attached)]
    storage = {"osDisk": {"managedDisk": {"id": system}}, "dataDisks": data}
    return {"id": machine, "properties": {"storageProfile": storage}}


def with_disks(azure: Any, *, attached: bool) -> tuple[str, str]:
    """Disks of a VM and of an instance, without tags; ``attached``: also a user's on each."""
    instance = f"{NODES}/virtualMachines/0"
    own, of_set = f"{COMPUTE}/disks/own", f"{COMPUTE}/disks/of-set"
    theirs = f"{COMPUTE}/disks/theirs", f"{COMPUTE}/disks/theirs-of-set"
    azure.resources += [
        resource(own, None, managedBy=NODE.upper()),
        resource(of_set, None, managedBy=instance),
        resource(f"{LOGIN}/extensions/agent", None),
    ]
    if attached:
        azure.resources.append(resource(theirs[0], None, managedBy=NODE))
        azure.resources.append(resource(theirs[1], RUN, managedBy=instance))
    azure.models = {
        f"{COMPUTE}/virtualMachines".lower(): [model(NODE, own, theirs[0])],
        f"{NODES}/virtualMachines".lower(): [model(instance, of_set.upper(), theirs[1])],
    }
    return theirs


def test_disks_of_its_machines_and_extensions_without_tags_are_the_runs(azure: Any) -> None:
    with_disks(azure, attached=False)
    assert (azure.run()[0], azure.deleted) == (0, [NODES, NODE, GROUP])


def test_a_disk_that_somebody_attached_keeps_the_group_by_name(azure: Any) -> None:
    theirs = with_disks(azure, attached=True)
    status, said = azure.run()
    assert (status, azure.deleted) == (0, [NODES, NODE])
    assert f"{GROUP} is kept: {', '.join(theirs)}\n" in said


def test_machines_end_also_where_their_disks_are_not_known(azure: Any) -> None:
    with_disks(azure, attached=False)
    azure.faults[f"GET {NODES}/virtualMachines"] = [refusal(500, "InternalServerError")]
    status, said = azure.run()
    assert (status, azure.deleted) == (1, [NODES, NODE])
    assert "InternalServerError" in said
    azure.asked.clear()
    assert (azure.run()[0], azure.deleted[-1]) == (0, GROUP)


@pytest.mark.parametrize("theirs", [None, "20261123T100000Z-0000"])
def test_a_group_that_others_use_is_kept_and_the_login_node_goes_last(
    azure: Any, theirs: str | None
) -> None:
    azure.resources.append(resource(OTHER, theirs))
    status, said = azure.run()
    assert (status, azure.deleted) == (0, [NODES, NODE])
    assert f"{GROUP} is kept: {OTHER}\n" in said
    azure.asked.clear()
    azure.resources = [resource(LOGIN), resource(OTHER, theirs)]
    azure.date = PASSED + expiry.LAST_SECONDS - 1
    assert (azure.run()[0], azure.deleted) == (0, [])
    azure.date += 1
    assert (azure.run()[0], azure.deleted) == (0, [LOGIN])


@parametrized("tags")
def test_a_group_that_is_not_the_runs_is_never_deleted(azure: Any, tags: Any) -> None:
    azure.tags = tags
    assert (azure.run()[0], azure.deleted) == (0, [NODES, NODE])


def test_a_refused_deletion_is_said_with_azures_code_and_the_rest_goes_on(azure: Any) -> None:
    azure.faults[f"DELETE {GROUP}"] = [refusal(409, "ScopeLocked")]
    azure.faults[f"DELETE {NODES}"] = [refusal(429, "TooManyRequests")]
    status, said = azure.run()
    assert (status, azure.deleted) == (1, [NODES, NODE, GROUP])
    assert "ScopeLocked" in said
    assert "(request r-1)" in said
    assert azure.run()[0] == 0


def test_what_is_gone_already_is_no_failure(azure: Any) -> None:
    for place in (NODES, NODE, GROUP):
        azure.faults[f"DELETE {place}"] = [refusal(404, "ResourceNotFound")]
    assert azure.run()[0] == 0


def test_killed_in_the_middle_the_next_pass_does_the_rest(azure: Any) -> None:
    azure.faults[f"DELETE {NODE}"] = [(0, 20, {})]
    process = azure.start()
    until = time.monotonic() + 20
    while NODE not in azure.deleted and time.monotonic() < until:
        time.sleep(0.01)
    process.kill()
    assert (process.wait(), azure.deleted) == (-9, [NODES, NODE])
    assert (azure.run()[0], azure.deleted[2:]) == (0, [NODES, NODE, GROUP])


def test_many_vms_do_not_keep_the_group_waiting(azure: Any, monkeypatch: Any) -> None:
    found: Any = expiry.Azure.__new__(expiry.Azure)
    found.config, found.group, found.self = {"run": RUN}, GROUP, LOGIN
    found.ends = time.monotonic() + expiry.PASS_SECONDS - expiry.VMS_SECONDS - 1
    asked = []
    monkeypatch.setattr(found, "every", lambda path: azure.resources)
    monkeypatch.setattr(found, "ask", lambda method, place, kind: asked.append(place))
    assert (expiry._end(found, True, 0), asked) == (0, [NODES, GROUP])


def test_the_check_says_when_it_ends_and_ends_nothing(azure: Any) -> None:
    assert azure.run("--check") == (0, f"run {RUN} ends at {ENDS}\n")
    assert azure.deleted == []
    azure.faults[f"GET {GROUP}"] = [refusal(403, "AuthorizationFailed")]
    assert azure.run("--check")[0] == 1


@pytest.mark.parametrize("compute", [{}, {"name": "x"}, {"subscriptionId": 1}])
def test_metadata_that_does_not_say_the_group_deletes_nothing(azure: Any, compute: Any) -> None:
    azure.faults["GET /metadata/instance/compute"] = [compute]
    assert azure.run() == (1, "instance metadata does not say which VM this is\n")


def test_a_config_without_a_time_deletes_nothing(azure: Any) -> None:
    azure.tags["expires"] = "soon"
    assert (azure.run(expires="later")[0], azure.deleted) == (1, [])


@parametrized(("text", "seconds"))
def test_a_time_is_in_utc_or_none(text: Any, seconds: float | None) -> None:
    assert expiry.moment(text) == seconds


@given(text=st.text())
def test_no_text_is_more_than_a_time_or_none(text: str) -> None:
    found = expiry.moment(text)
    assert found is None or text.strip()[:4].isdecimal()


OLDEST = ansible_versions.program("3.6")
needs_oldest = pytest.mark.skipif(OLDEST is None, reason="EL 8's Python 3.6 is not here")


@needs_oldest
def test_python_3_6_ends_the_run(azure: Any) -> None:
    azure.python = OLDEST
    assert azure.run("--check") == (0, f"run {RUN} ends at {ENDS}\n")
    assert (azure.run()[0], azure.deleted) == (0, [NODES, NODE, GROUP])


@needs_oldest
@pytest.mark.parametrize("module", [expiry, node_pull])
def test_python_3_6_starts_a_program_that_stands_beside_its_http(
    module: Any, tmp_path: Path
) -> None:
    for source in (module, bounded_http):
        (tmp_path / Path(source.__file__).name).write_bytes(Path(source.__file__).read_bytes())
    argv = [str(OLDEST), Path(module.__file__).name, "missing.json"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "No such file or directory: 'missing.json'" in done.stderr


@pytest.mark.parametrize("module", [expiry, node_pull, bounded_http])
def test_it_is_written_for_python_3_6_and_sends_ascii(module: Any) -> None:
    text = Path(module.__file__).read_bytes().decode("ascii")
    names = {
        alias.name.split(".")[0]
        for node in ast.walk(ast.parse(text, feature_version=(3, 6)))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert names - {"bounded_http"} <= sys.stdlib_module_names
