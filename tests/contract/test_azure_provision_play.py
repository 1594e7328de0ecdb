"""playbooks/provision.yml signed in to the emulated cloud, whose machines nobody runs: a program of
the test's own, called ssh, says that they answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml
from emulated_cloud import Cloud, profile, serving
from helpers import ROOT, TOGETHER, parametrized

if TYPE_CHECKING:
    from collections.abc import Iterator

RECIPE = "-etrueup_azure_recipe=devito-hbv3"


class Done(NamedTuple):
    """What the play did."""

    status: int
    said: str


class Controller:
    """A controller signed in to the cloud."""

    def __init__(self, cloud: Cloud, folder: Path) -> None:
        self.cloud, self.state = cloud, folder / "state"
        own = self.own = folder / "own.yml"
        own.write_text("owner: geophysics\nssh_from: [203.0.113.7/32]\n")
        programs = folder / "bin"
        programs.mkdir()
        (programs / "ssh").write_text("#!/bin/sh\nexit 0\n")
        (programs / "ssh").chmod(0o755)
        self.environment = {
            **os.environ,
            **profile(folder, cloud.url),
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TRUEUP_AZURE_STATE": str(self.state),
            "ANSIBLE_LOCALHOST_WARNING": "false",
        }
        self.run = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-7c1e"
        self.argv = [
            *("ansible-playbook", "playbooks/provision.yml", f"-etrueup_azure_parameters={own}"),
            f"-etrueup_azure_run={self.run}",
        ]

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.argv, *arguments],
            cwd=ROOT,
            env=self.environment,
            **TOGETHER,
            start_new_session=True,
        )

    def play(self, *arguments: str) -> Done:
        process = self.begin(*arguments)
        out, _ = process.communicate(timeout=120)
        return Done(process.returncode, " ".join(out.split()))

    @property
    def folder(self) -> Path:
        return self.state / self.run

    def ordered(self) -> list[str]:
        return [path.rpartition("/")[2] for method, path, *_ in self.cloud.calls if method == "PUT"]


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    cloud = Cloud()
    with serving(cloud, tmp_path):
        yield Controller(cloud, tmp_path)


def test_a_run_is_foreseen_made_and_made_again_without_a_change(controller: Controller) -> None:
    foreseen = controller.play(RECIPE, "--check", "--diff")
    assert (foreseen.status, controller.ordered(), controller.state.exists()) == (0, [], False)
    assert "+++ after: Microsoft.Compute/virtualMachineScaleSets/nodes (Create)" in foreseen.said
    assert "10 resources would change in southcentralus" in foreseen.said
    made = controller.play(RECIPE)
    assert (made.status, "changed=1" in made.said) == (0, True)
    assert "2 of 2 nodes of Standard_HB120rs_v3 and a login node" in made.said
    again = controller.play(RECIPE)
    assert (again.status, "changed=0" in again.said, len(controller.ordered())) == (0, True, 2)
    tokens = [token.encode() for token in controller.cloud.tokens]
    texts = [path.read_bytes() for path in controller.folder.rglob("*") if path.is_file()]
    assert len(texts) >= 6
    assert [text for text in texts for token in tokens if token in text] == []
    listed = subprocess.run(
        ["ansible-inventory", "-i", str(controller.folder / "inventory"), "--list"],
        cwd=ROOT,
        env=controller.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    hosts = json.loads(listed.stdout)["_meta"]["hostvars"]
    assert sorted(hosts) == ["node000000", "node000001"]
    assert hosts["node000000"]["trueup_preset"] == "devito-article"
    assert str(controller.folder / "ssh_config") in hosts["node000000"]["ansible_ssh_common_args"]


def test_a_run_that_is_interrupted_is_known_to_teardown(controller: Controller) -> None:
    controller.cloud.pace = 30.0
    process = controller.begin(RECIPE)
    ends = time.monotonic() + 60
    while len(controller.ordered()) < 2 and time.monotonic() < ends:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode != 0, out
    kept = json.loads((controller.folder / "run.json").read_text())
    assert (kept["group"], kept["run"]) == ("trueup-devito-hbv3", controller.run)


# Each need taken away from a recipe that has it: the recipe, lines of the user's file that take it
# away, and words of the refusal. Quota is the subscription's: the test below.
NEEDS = {
    "token": ("llama-a100", "accepted_licences: [llama3.1]", "export HF_TOKEN"),
    "licence": ("llama-a100", "", "accepted_licences: [llama3.1]"),
    "key": ("nd-h200-deepseek", "generated_secrets: []", "export VLLM_API_KEY"),
    "index": ("cpu-llama", "", "torch==2.13.0+cpu is not on PyPI"),
    "reboot": (
        "nd-h100-deepseek",
        "variables: {vllm_reboot_allowed: false}",
        "set vllm_reboot_allowed: true",
    ),
    "glibc": (
        "llama-a100",
        "image: almalinux:almalinux-hpc:8_10-hpc-gen2:8.10.2026072901",
        "almalinux 8.10 has glibc 2.28, and llguidance 1.7.6 has no wheel",
    ),
    "disk": (
        "nd-h200-deepseek",
        "variables: {vllm_model_cache: /var/lib/models}",
        "GiB on /, which has 256 GiB: raise nodes.os_disk_gib",
    ),
    "price": ("eda-storage", "", "no price of Azure NetApp Files"),
    "image": (
        "llama-a100",
        "{nodes: {size: Standard_ND40rs_v2}, region: westus2}",
        "image is empty, and none is pinned for ndv2",
    ),
    "program": (
        "ndv4-training",
        "{prices: {storage: 1.0}, variables: {trueup_preset: '', trueup_benchmarks: [gemm]}}",
        "gemm: /usr/bin/python3 has no torch",
    ),
}


@pytest.mark.parametrize("need", NEEDS)
def test_a_need_that_is_taken_away_is_refused_without_a_call_to_azure(
    controller: Controller, need: str
) -> None:
    recipe, lines, part = NEEDS[need]
    own = yaml.safe_load(controller.own.read_text())
    controller.own.write_text(yaml.safe_dump({**own, **(yaml.safe_load(lines) or {})}))
    for name in ("HF_TOKEN", "VLLM_API_KEY"):
        controller.environment.pop(name, None)
    done = controller.play(f"-etrueup_azure_recipe={recipe}")
    assert (done.status, part in done.said) == (2, True)
    assert (controller.cloud.calls, controller.state.exists()) == ([], False)


def test_quota_is_refused_by_questions_alone(controller: Controller) -> None:
    controller.cloud.limits["", "standardhbv3family"] = 8
    done = controller.play(RECIPE)
    missing = "232 vCPUs of quota 'standardHBv3Family' are missing"
    assert (done.status, missing in done.said) == (2, True)
    assert (controller.ordered(), list(controller.cloud.resources)) == ([], [])


def test_an_api_key_is_made_for_the_run_and_in_no_file_but_its_own(controller: Controller) -> None:
    controller.environment.pop("VLLM_API_KEY", None)
    made = controller.play("-etrueup_azure_recipe=nd-h200-deepseek")
    assert made.status == 0, made.said
    path = controller.folder / "vllm_api_key"
    key = path.read_text()
    assert (path.stat().st_mode & 0o777, len(key) >= 40, key in made.said) == (0o600, True, False)
    listed = subprocess.run(
        [
            *("ansible", "-i", str(controller.folder / "inventory"), "node*", "-m", "debug"),
            *("-a", "msg={{ vllm_api_key }}"),
        ],
        cwd=ROOT,
        env=controller.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"msg: {key}" in listed.stdout
    texts = [file.read_text() for file in controller.folder.rglob("*") if file.is_file()]
    assert sum(key in text for text in texts) == 1


@parametrized(("fault", "parts"))
def test_a_fault_is_one_sentence_and_a_status(
    controller: Controller, fault: dict[str, object], parts: list[str]
) -> None:
    controller.cloud.trouble.add(**fault)
    done = controller.play(RECIPE)
    assert done.status == 2
    assert [part for part in parts if part not in done.said] == []
    assert "Traceback" not in done.said
    assert not any(one.kind.endswith("ScaleSets") for one in controller.cloud.resources.values())


def test_what_is_misspelt_is_refused_before_azure_is_asked(controller: Controller) -> None:
    done = controller.play("-etrueup_azure_recip=devito-hbv3")
    assert (done.status, controller.cloud.calls) == (2, [])
    assert "did you mean trueup_azure_recipe?" in done.said
