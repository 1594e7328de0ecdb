"""`ansible-inventory -i inventories/azure` signed in by azure-cli-core to the emulated cloud."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import forked
import pytest
from emulated_cloud import Cloud, Reply, profile, serving
from helpers import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator


class Done(NamedTuple):
    """What the command did."""

    status: int
    out: str
    said: str


class Controller:
    """A controller signed in to the cloud."""

    def __init__(self, cloud: Cloud, folder: Path) -> None:
        self.cloud, self.folder = cloud, folder
        self.environment = {**os.environ, **profile(folder, cloud.url)}

    def run(self, *arguments: str, program: str = "ansible-inventory", **more: str) -> Done:
        path = str(Path(sys.executable).with_name(program))
        argv = [path, "-i", "inventories/azure", *arguments]
        done = forked.run(argv, cwd=ROOT, env={**self.environment, **more})
        return Done(done.returncode, done.stdout, " ".join(done.stderr.split()))


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    cloud = Cloud()
    cloud.add_vm("hb-1", tags={"role": "compute"})
    with serving(cloud, tmp_path):
        yield Controller(cloud, tmp_path)


def hosts(done: Done) -> list[str]:
    return list(json.loads(done.out)["_meta"]["hostvars"])


def test_a_managed_identity_lists_the_machines(controller: Controller) -> None:
    done = controller.run("--list")
    assert (done.status, hosts(done), done.said) == (0, ["hb-1"], "")
    assert json.loads(done.out)["slurm_compute"]["hosts"] == ["hb-1"]


def test_a_service_principal_lists_the_machines(controller: Controller) -> None:
    profile(controller.folder, controller.cloud.url, principal=True)
    done = controller.run("--list")
    assert (done.status, hosts(done)) == (0, ["hb-1"])


def test_nothing_that_we_write_holds_the_token(controller: Controller, tmp_path: Path) -> None:
    controller.run("--list", ANSIBLE_LOG_PATH=str(tmp_path / "log"))
    tokens = list(controller.cloud.tokens)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    holding = {
        path.name
        for path in files
        for token in tokens
        if token.encode() in path.read_bytes() and path.parent.name != "azure"
    }
    assert (len(tokens), holding) == (1, set())


def test_nobody_signed_in(controller: Controller) -> None:
    (controller.folder / "azure" / "azureProfile.json").unlink()
    done = controller.run("--list")
    assert (done.status, "nobody is signed in" in done.said, done.out) == (1, True, "")
    assert "az login" in done.said


def test_a_refused_sign_in(controller: Controller) -> None:
    refused = Reply(400, {"error": "invalid_request", "error_description": "no identity here"})
    controller.cloud.faults["token"] = [refused] * 5
    done = controller.run("--list")
    assert (done.status, "no identity here" in done.said, done.out) == (1, True, "")
    assert "Traceback" not in done.said


def test_a_token_that_has_run_out(controller: Controller) -> None:
    controller.cloud.lifetime_seconds = -1
    done = controller.run("--list")
    assert (done.status, "ExpiredAuthenticationToken" in done.said, done.out) == (1, True, "")


def test_without_azure_cli_core(controller: Controller, tmp_path: Path) -> None:
    package = tmp_path / "shadow" / "azure"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('No module named azure')\n")
    done = controller.run("--list", PYTHONPATH=str(tmp_path / "shadow"))
    said = "azure-cli-core is not installed" in done.said
    assert (done.status, said, "make azure" in done.said, done.out) == (1, True, True, "")


def test_a_play_does_not_go_on_without_its_hosts(controller: Controller, tmp_path: Path) -> None:
    play = tmp_path / "play.yml"
    play.write_text("- {hosts: all, gather_facts: false, tasks: []}\n")
    controller.cloud.faults["resources"] = [Reply(403, {})]
    done = controller.run(str(play), program="ansible-playbook")
    assert (done.status != 0, "role Reader" in done.said, "PLAY" in done.out) == (True, True, False)


def test_hosts_reach_a_play(controller: Controller, tmp_path: Path) -> None:
    play = tmp_path / "play.yml"
    task = "{debug: {msg: 'at {{ ansible_host }} as {{ ansible_user }}'}, delegate_to: localhost}"
    play.write_text(f"- {{hosts: slurm_compute, gather_facts: false, tasks: [{task}]}}\n")
    done = controller.run(str(play), program="ansible-playbook")
    assert (done.status, "at 10.64.0.4 as azureuser" in done.out) == (0, True)
