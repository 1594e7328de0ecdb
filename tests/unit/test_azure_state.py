"""What the controller keeps of a run on Azure."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from provisioning import RUN, made
from trueup_controller.azure import run_state
from trueup_node.errors import BadInput, TrueupError


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> run_state.State:
    monkeypatch.setenv(run_state.VARIABLE, str(tmp_path / "it's %h"))
    return run_state.State(RUN)


@pytest.mark.parametrize("run", ["", "../x", "latest", f"{RUN}/.."])
def test_a_run_is_called_as_runs_are(run: str) -> None:
    with pytest.raises(BadInput, match="is not of the form"):
        run_state.State(run)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run": "another"}'])
def test_what_is_no_runs_document_is_refused(kept: run_state.State, text: str) -> None:
    kept.write()
    Path(kept.path(run_state.RUN)).write_text(text)
    with pytest.raises(BadInput, match=r"run\.json"):
        kept.read()


def test_a_disk_that_refuses_is_said(kept: run_state.State) -> None:
    Path(kept.folder).parent.write_text("no folder")
    with pytest.raises(TrueupError, match="Not a directory"):
        kept.write()


def test_a_key_that_is_cut_is_said(kept: run_state.State) -> None:
    kept.public_key()
    Path(kept.path(run_state.KEY)).write_text("-----BEGIN")
    with pytest.raises(TrueupError, match="ssh-keygen made no key"):
        kept.public_key()


def resolved(kept: run_state.State, host: str) -> dict[str, str]:
    """What ssh itself makes of the file."""
    argv = ["ssh", "-G", "-F", kept.path(run_state.CONFIG), host]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def test_a_run_is_made_by_one_alone(kept: run_state.State) -> None:
    made_elsewhere = pytest.raises(BadInput, match="is being made by another ansible-playbook")
    with kept.alone(), made_elsewhere, run_state.State(RUN).alone(seconds=0.0):
        pytest.fail("two were at it")
    with run_state.State(RUN).alone(seconds=0.0):
        assert os.path.exists(kept.path(run_state.LOCK))


def test_without_a_public_address_nodes_are_reached_from_within(kept: run_state.State) -> None:
    kept.write_access(made(), "sub", "")
    assert "proxyjump" not in resolved(kept, "10.42.0.4")
