"""The GitHub action, and the examples for CI: their commands run as they are written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "nccl"
SIZE = "Standard_ND96asr_v4"
BIN = str(Path(sys.executable).parent)


def _bash(folder: Path, script: str, **variables: str) -> Any:
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def _trueup(folder: Path, *words: str) -> None:
    subprocess.run([f"{BIN}/trueup", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log, and two folders of its record."""
    (tmp_path / "logs").mkdir()
    shutil.copy(DATA / "nvlink.txt", tmp_path / "logs" / "nccl.log")
    for name in ("baseline", "results"):
        _trueup(tmp_path, "import", "logs/nccl.log", "--size", SIZE, "--results", name)
    return tmp_path


def _inputs(**chosen: str) -> dict[str, str]:
    """The environment of the action's step, as GitHub fills it."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    *_, step = action["runs"]["steps"]
    values = {name: str(entry["default"]) for name, entry in action["inputs"].items()} | chosen
    return {
        name: values[text.removeprefix("${{ inputs.").removesuffix(" }}")]
        for name, text in step["env"].items()
    }


def _run_action(folder: Path, **chosen: str) -> Any:
    *_, step = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    return _bash(folder, step["run"], **_inputs(**chosen))


def test_the_action_judges_logs_and_writes_junit(folder: Path) -> None:
    done = _run_action(folder, logs="logs/*.log", before="baseline", after="results")
    junit = folder / "trueup-junit"
    suites = ET.parse(junit / "read.xml").getroot()
    assert (done.returncode, suites.get("name"), suites.get("failures")) == (0, "trueup read", "0")
    assert ET.parse(junit / "compare.xml").getroot().get("name") == "trueup compare"


def test_the_action_fails_where_a_check_fails(folder: Path) -> None:
    shutil.copy(DATA / "wrong_values.txt", folder / "logs" / "wrong.log")
    done = _run_action(folder, logs="logs")
    suites = ET.parse(folder / "trueup-junit" / "read.xml").getroot()
    assert (done.returncode, suites.get("failures")) == (1, "1")


def test_the_job_for_gitlab_runs(folder: Path) -> None:
    job = yaml.safe_load((ROOT / "docs" / "examples" / "gitlab.yml").read_text())["judge"]
    install, *commands = job["script"]
    assert install == 'pip install --quiet "$TRUEUP"'
    done = _bash(folder, "\n".join([*commands, "true"]).replace(' --size "$SIZE"', ""), SIZE=SIZE)
    assert done.returncode == 0
    names = job["artifacts"]["reports"]["junit"]
    assert [(folder / name).is_file() for name in names] == [True, True]


def test_the_workflow_sets_inputs_that_the_action_has() -> None:
    workflow = yaml.safe_load((ROOT / "docs" / "examples" / "github.yml").read_text())
    inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    [step] = [
        step for step in workflow["jobs"]["judge"]["steps"] if "trueup@" in step.get("uses", "")
    ]
    assert set(step["with"]) <= set(inputs)
