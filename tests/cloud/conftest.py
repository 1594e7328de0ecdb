"""An emulated cloud whose machines are containers, and `make azure` against it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from emulated_cloud import Cloud, Models, containers, images, profile, serving
from helpers import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGE = "microsoft-dsvm:ubuntu-hpc:2404:24.04.2026072901"
# Containers have this host's cores and caches, whatever size they are: health rightly fails them
# for their cores, which ends no node here, and its STREAM would take minutes.
CONTAINERS = {"stream_threads": 2, "stream_repeats": 3, "trueup_health_fatal": False}
# No preset as a whole fits them.
HERE = {**CONTAINERS, "trueup_preset": ""}
SMALL = {"size": "Standard_D4d_v5", "count": 2}
# All that a test of a recipe as it is shipped gives beside owner, ssh_from and CONTAINERS, and why.
# Secrets of the environment are dummies.
PARAMETERS = {
    "nodes": "size and count alone: containers have this host's cores",
    "prices": "the user's own prices of services without a public price, which the refusal names",
    "accepted_licences": "the licences that the refusal names",
}
VARIABLES = {
    "trueup_preset_scale": "a share of the preset's work, which is compared with no published row",
    "devito_pip_find_links": "the index: a folder of wheels",
    "devito_pip_no_index": "the index",
    "vllm_pip_find_links": "the index, which the refusal names",
    "vllm_pip_no_index": "the index",
    "vllm_python": "torch's build for CPUs is here for Python 3.11 alone",
    "vllm_hub": "a mirror of the model hub",
    "vllm_datasets": "a mirror of the input",
    "vllm_recipes": "a tiny model: its facts and KV cache in the recipe of the preset",
    "eessi_cvmfs_repository": "the index: a mirror of CernVM's packages",
}
WHEELS = ROOT / "molecule" / "_shared" / "cloud" / "wheels.yml"


@pytest.fixture(scope="session", autouse=True)
def able() -> None:
    """Needs root and podman."""
    lacking = images.lacking(IMAGE)
    if lacking:
        pytest.skip(lacking)


def wheels(python: str, *roles: str) -> str:
    """The folder of what roles install with pip, for that Python of the machines."""
    given = {"wheel_python": python, "wheel_roles": roles, "ansible_connection": "local"}
    given["ansible_python_interpreter"] = sys.executable
    argv = [sys.executable, "-m", "ansible", "playbook", "--inventory", "localhost,"]
    argv += ["--extra-vars", json.dumps(given), str(WHEELS)]
    env = {**os.environ, "MOLECULE_PROJECT_DIRECTORY": str(ROOT)}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    found = re.search('"?node_wheels"?: *"?([^"\\s]+)', done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert done.returncode == 0
    return found[1]


@dataclass
class Site:
    """The cloud, and a controller's folder and environment that know nothing but it."""

    cloud: Cloud
    hardware: containers.Containers
    folder: Path
    env: dict[str, str]

    def parameters(self, variables: dict[str, Any], **more: Any) -> str:
        """A user's file that makes a recipe's work fit containers."""
        return self._file({**HERE, **variables}, more)

    def as_shipped(self, variables: dict[str, Any], **more: Any) -> str:
        """A user's file for a recipe whose variables stay as they are.

        Raises:
            ValueError: it gives more than ``PARAMETERS`` and ``VARIABLES`` list.
        """
        extra = {*more} - {*PARAMETERS} | {*variables} - {*VARIABLES}
        extra |= {f"nodes.{name}" for name in {*more.get("nodes", {})} - {"size", "count"}}
        if extra:
            raise ValueError(f"not as shipped: {', '.join(sorted(extra))}")
        return self._file({**CONTAINERS, **variables}, more)

    def _file(self, variables: dict[str, Any], more: dict[str, Any]) -> str:
        document = {
            "owner": "emulated",
            "ssh_from": [self.hardware.public_range],
            "variables": variables,
            **more,
        }
        path = self.folder / "parameters.yml"
        path.write_text(yaml.safe_dump(document))
        return str(path)

    def begin(self, recipe: str, parameters: str, **given: str) -> subprocess.Popen[bytes]:
        """`make azure`, as a user begins it in a terminal of its own; said.log has what it says."""
        values = {"RECIPE": recipe, "PARAMETERS": parameters, "OUTPUT": str(self.folder / "report")}
        with (self.folder / "said.log").open("w") as said:
            return subprocess.Popen(
                [
                    "make",
                    "azure",
                    *(f"{key}={value}" for key, value in {**values, **given}.items()),
                ],
                cwd=ROOT,
                env=self.env,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def make(self, recipe: str, parameters: str, **given: str) -> tuple[int, str]:
        """Its exit status and what it said."""
        status = self.begin(recipe, parameters, **given).wait(timeout=3600)
        return status, (self.folder / "said.log").read_text()

    def play(self, playbook: str, run: str) -> subprocess.CompletedProcess[str]:
        """A playbook of playbooks/ for a run."""
        argv = ["ansible-playbook", f"playbooks/{playbook}", "-e", f"trueup_azure_run={run}"]
        return subprocess.run(
            argv, cwd=ROOT, env=self.env, capture_output=True, text=True, check=False
        )

    def records(self, benchmark: str) -> list[dict[str, Any]]:
        """What was measured of a benchmark, in all runs."""
        paths = (self.folder / "results").rglob("*.json")
        every = [json.loads(path.read_text()) for path in paths if path.name != "run.json"]
        return [one for one in every if one["benchmark"] == benchmark]

    def left(self) -> list[str]:
        """Groups and resources that are there, and machines' containers that run."""
        state = self.cloud.state()
        assert not state["broken"]
        ids = [one["id"] for kind in ("groups", "resources") for one in state[kind]]
        return ids + self.running()

    def running(self) -> list[str]:
        """The machines' containers that run."""
        argv = ["podman", "ps", "--filter", f"label={containers.LABEL}={self.hardware.id}"]
        argv += ["--format", "{{.Names}}"]
        env = {**os.environ, **images.PODMAN}
        return subprocess.run(
            argv, env=env, check=True, capture_output=True, text=True
        ).stdout.split()


@contextlib.contextmanager
def emulated(folder: Path, **options: Any) -> Iterator[Site]:
    """A cloud of its own; ``options`` are those of containers.Containers."""
    hardware = containers.Containers(**options)
    cloud = Cloud(hardware, pace=1.0)
    cloud.validate = Models()
    try:
        with contextlib.closing(cloud), serving(cloud, folder, hardware.address):
            hardware.connect(cloud.metadata, folder / "authority.pem")
            env = {
                **os.environ,
                **profile(folder, cloud.url),
                "NO_PROXY": hardware.address,
                "no_proxy": hardware.address,
                "TRUEUP_AZURE_STATE": str(folder / "state"),
                "TRUEUP_RESULTS": str(folder / "results"),
                "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(folder / "facts"),
            }
            yield Site(cloud, hardware, folder, env)
    finally:
        hardware.close()
