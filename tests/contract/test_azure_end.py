"""How a run ends in the emulated cloud (a stand-in without machines): by the playbook, by the
command, and by the program that cloud-init puts on the login node."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import plays
import pytest
import yaml
from emulated_cloud import SUBSCRIPTION, Cloud, profile, serving
from provisioning import RUN, known, made
from trueup_controller.azure import template

GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/trueup-test"
DEPLOYMENT = f"{GROUP}/providers/Microsoft.Resources/deployments/trueup-{RUN}"
COMPUTE = f"{GROUP}/providers/Microsoft.Compute"
PAST, FUTURE = "2020-01-01T00:00Z", "2999-01-01T00:00Z"


class Site:
    """A cloud with one deployed run, and a controller that is signed in."""

    def __init__(self, cloud: Cloud, folder: Path) -> None:
        self.cloud, self.folder = cloud, folder
        self.environment = {
            **profile(folder, cloud.url),
            "TRUEUP_AZURE_STATE": str(folder / "state"),
        }
        self.made = made({"count": 2}, storage={"kind": "anf", "tib": 4})
        self.template = template.template(self.made, known(), RUN, cloud.url)
        self.tag(FUTURE)
        key = {template.KEY: {"value": "ssh-ed25519 AAAA one"}}
        properties = {"mode": "Incremental", "template": self.template, "parameters": key}
        self.ask("PUT", DEPLOYMENT, {"properties": properties})
        cloud.settle()

    def ask(self, method: str, path: str, body: Any = None, version: str = "2022-09-01") -> Any:
        with self.cloud.lock:
            bearer = f"Bearer {self.cloud.token()}"
            reply = self.cloud.call(method, path, {"api-version": version}, body, bearer)
        assert reply.status < 300, reply.document
        return reply.document

    def tag(self, expires: str) -> None:
        """Set the group's expiry, as `az group update` does."""
        group = template.resource_group(self.made, RUN)
        self.ask("PUT", GROUP, {**group, "tags": {**group["tags"], "expires": expires}})

    def foreign(self) -> str:
        """Somebody else's rules in the group."""
        path = f"{GROUP}/providers/Microsoft.Network/networkSecurityGroups/theirs"
        self.ask("PUT", path, {"location": self.made.region, "properties": {}}, "2023-11-01")
        self.cloud.settle()
        return path

    def left(self) -> list[str]:
        self.cloud.settle()
        return sorted(one.name for one in self.cloud.resources.values())

    def teardown(self, *arguments: str) -> tuple[int, str]:
        done = plays.playbook(
            self.folder,
            *("playbooks/teardown.yml", "-e", f"trueup_azure_run={RUN}", *arguments),
            env=self.environment,
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def leftovers(self, *arguments: str) -> tuple[int, str]:
        program = "from trueup_analysis.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", program, "azure", "leftovers", *arguments],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    cloud = Cloud()
    with serving(cloud, tmp_path):
        yield Site(cloud, tmp_path)
    cloud.close()


def test_teardown_deletes_the_run_and_a_second_one_changes_nothing(site: Site) -> None:
    kept = site.folder / "state" / RUN
    kept.mkdir(parents=True)
    (kept / "id_ed25519").write_text("a key")
    before = site.left()
    status, said = site.teardown("--check", "--diff")
    assert (status, site.left(), kept.exists()) == (0, before, True)
    assert f"-{COMPUTE}/virtualMachineScaleSets/nodes" in said
    assert "16 left of run" in said
    status, said = site.teardown()
    assert (status, site.left(), site.cloud.groups, kept.exists()) == (0, [], {}, False)
    assert "changed=1" in said
    status, said = site.teardown()
    assert (status, "changed=0" in said) == (0, True)
    assert f"nothing is left of run {RUN} in subscription {SUBSCRIPTION}" in said


def test_in_a_group_with_others_nothing_of_theirs_is_touched(site: Site) -> None:
    theirs = site.foreign()
    status, said = site.teardown()
    assert (status, site.left(), list(site.cloud.groups)) == (0, ["theirs"], ["trueup-test"])
    assert f"group trueup-test is kept, for it holds 1 resources that are not of run {RUN}:" in said
    assert theirs.rpartition("/")[2] in said


def test_what_azure_does_not_delete_is_named_with_its_price(site: Site) -> None:
    site.cloud.trouble.add(kind="rights", action="delete", times=0)
    status, said = site.teardown()
    assert status == 2
    assert "3 machines bill computing" in said, said
    assert "AuthorizationFailed" in said
    assert "nodes" in site.left()
    site.cloud.trouble.asked.clear()
    assert (site.teardown()[0], site.left()) == (0, [])


def test_leftovers_are_listed_and_deleted(site: Site) -> None:
    assert site.leftovers()[0] == 0
    site.tag(PAST)
    status, said = site.leftovers()
    assert (status, RUN in said, "3 machines bill computing" in said) == (1, True, True)
    assert site.leftovers("--delete")[0] == 0
    assert (site.left(), site.leftovers()[0]) == ([], 0)


def test_provisioning_names_what_has_expired_first(site: Site) -> None:
    site.tag(PAST)
    given = {
        "trueup_azure_recipe": "gromacs-nc-a100",
        "trueup_azure_parameters": str(site.folder / "own"),
    }
    own = {"owner": "x", "ssh_from": ["203.0.113.7/32"]}
    (site.folder / "own").write_text(json.dumps(own), encoding="utf-8")
    done = plays.playbook(
        *(site.folder, "playbooks/provision.yml", "--check", "-e", json.dumps(given)),
        env=site.environment,
    )
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode, f"run {RUN} of geophysics" in said) == (0, True), said
    assert "trueup azure leftovers --delete" in said


# ---- the program of the login node --------------------------------------------------------------


@pytest.fixture
def login(site: Site) -> Iterator[Any]:
    """Runs what cloud-init puts on the login node, with the metadata service that the cloud gives
    to that machine."""
    [vm] = [
        one for one in site.template["resources"] if one["name"] == "login" and "sku" not in one
    ]
    data = base64.b64decode(vm["properties"]["osProfile"]["customData"])
    files = {one["path"]: one["content"] for one in yaml.safe_load(data)["write_files"]}
    machine = f"{COMPUTE}/virtualMachines/login"

    class Metadata(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(parts.query))
            reply = site.cloud.metadata(machine, "GET", parts.path, query)
            body = json.dumps(reply.document).encode()
            self.send_response(reply.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *given: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    config = json.loads(files["/opt/trueup/expiry.json"])
    config["metadata"] = f"http://127.0.0.1:{server.server_address[1]}"
    program, kept = site.folder / "expiry.py", site.folder / "expiry.json"
    for name in ("expiry.py", "bounded_http.py"):
        (site.folder / name).write_text(files[f"/opt/trueup/{name}"], encoding="utf-8")
    kept.write_text(json.dumps(config), encoding="utf-8")

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, str(program), str(kept), *arguments],
            env={"SSL_CERT_FILE": str(site.folder / "authority.pem")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.returncode, done.stdout

    yield run
    server.shutdown()
    server.server_close()


def test_the_login_node_ends_the_run_with_its_own_rights(site: Site, login: Any) -> None:
    before = site.left()
    assert login("--check") == (0, f"run {RUN} ends at {FUTURE}\n")
    assert (login(), site.left()) == ((0, ""), before)
    site.tag(PAST)
    status, said = login()
    assert (status, site.left(), site.cloud.groups) == (0, [], {}), said


def test_the_login_nodes_rights_end_at_its_group(site: Site, login: Any) -> None:
    other = GROUP.replace("trueup-test", "other")
    site.ask("PUT", other, {"location": site.made.region, "tags": {"run": RUN}})
    site.foreign()
    site.tag(PAST)
    status, said = login()
    assert status == 0
    assert "is kept" in said
    # The node's set is gone, the login node and what is another's are there.
    assert {"nodes", "login", "theirs"} & set(site.left()) == {"login", "theirs"}
    assert sorted(site.cloud.groups) == ["other", "trueup-test"]


def test_without_the_role_assignment_the_journal_says_so(site: Site, login: Any) -> None:
    site.tag(PAST)
    for key in [key for key in site.cloud.resources if "/roleassignments/" in key]:
        site.cloud.resources.pop(key)
    before = site.left()
    status, said = login()
    assert (status, site.left(), "AuthorizationFailed" in said) == (1, before, True)
