"""What nccl_facts says of a node's files."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "a0b82b2260cf5152b9f8c061bbf7eaf0ba096432"


def facts(**arguments: Any) -> dict[str, Any]:
    """Run the module as Ansible does."""
    paths = "import ansible.module_utils as u, sys; u.__path__.append(sys.argv.pop(1))"
    run = "import runpy; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    code = f"{paths}\n{run}"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            str(ROOT / "module_utils"),
            str(ROOT / "library" / "nccl_facts.py"),
            json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        ],
        env={**os.environ, "ANSIBLE_MODULE_SERIALIZATION_PROFILE": "legacy"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture
def node(tmp_path: Path) -> dict[str, Any]:
    """A node's files, and the arguments that name them."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libnccl.so.2.30.4").write_text("")
    (tmp_path / "lib" / "libnccl.so.2").symlink_to("libnccl.so.2.30.4")
    (tmp_path / "src" / ".git").mkdir(parents=True)
    (tmp_path / "src" / ".git" / "HEAD").write_text(f"{COMMIT}\n")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "all_reduce_perf").write_text("")
    (tmp_path / "topo.xml").write_text("<system/>")
    (tmp_path / "link").symlink_to(tmp_path / "topo.xml")
    build = {
        "name": "nccl-tests",
        "source": str(tmp_path / "src"),
        "made": str(tmp_path / "made"),
        "commit": COMMIT,
        "files": ["all_reduce_perf"],
    }
    return {
        "builds": [build],
        "library_dirs": [str(tmp_path / "lib"), str(tmp_path / "none")],
        "topology_file": str(tmp_path / "topo.xml"),
        "topology_link": str(tmp_path / "link"),
    }


def test_everything_that_is_there_is_told(node: dict[str, Any]) -> None:
    said = facts(**node)
    assert said["changed"] is False
    assert (said["libraries"], said["unbuilt"], said["outdated"]) == (["2.30.4"], [], [])
    assert said["topology"] == {
        "exists": True,
        "content": base64.b64encode(b"<system/>").decode(),
        "link": node["topology_file"],
    }
    assert said["graphs"] == {"exists": False, "content": None, "link": None}


def test_nothing_is_no_error() -> None:
    said = facts(library_dirs=[])
    assert (said["libraries"], said["unbuilt"], said["outdated"]) == ([], [], [])
    assert said["topology"] == {"exists": False, "content": None, "link": None}


@pytest.mark.parametrize("head", [f"{'0' * 40}\n", "ref: refs/heads/master\n", ""])
def test_another_commit_and_a_branch_are_outdated(node: dict[str, Any], head: str) -> None:
    Path(node["builds"][0]["source"], ".git", "HEAD").write_text(head)
    said = facts(**node)
    assert (said["unbuilt"], said["outdated"]) == ([], ["nccl-tests"])


def test_a_missing_binary_is_unbuilt_whatever_the_commit(node: dict[str, Any]) -> None:
    Path(node["builds"][0]["made"], "all_reduce_perf").unlink()
    said = facts(**node)
    assert (said["unbuilt"], said["outdated"]) == (["nccl-tests"], ["nccl-tests"])


@pytest.mark.parametrize("there", [True, False])
def test_whether_the_image_rewrites_nccl_conf(tmp_path: Path, there: bool) -> None:
    unit = tmp_path / "sku-customizations.service"
    if there:
        unit.write_text("[Service]\n")
    assert facts(library_dirs=[], sku_unit=str(unit))["sku_customizations"] is there
