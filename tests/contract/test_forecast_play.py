"""A run that is expected to bill more than its limit does not begin, and says what it knows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import plays
import pytest
from test_family_plays import node_of

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests" / "data" / "records" / "valid.json"
SIZE = "Standard_HB120rs_v3"


def preflight(
    folder: Path, most: float, region: str | None, benchmark: str = "stream", **variables: str
) -> tuple[int, str]:
    """The real preflight of a benchmark on a node in that region, after a run in which a case of
    STREAM took an hour: status, and what was printed."""
    run = folder / "results" / "20261120T091300Z-7c1e"
    run.mkdir(parents=True)
    record = {**json.loads(RECORD.read_text()), "benchmark": "stream", "vm_size": SIZE}
    (run / "stream.json").write_text(json.dumps({**record, "duration_seconds": 3600}))
    node = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "trueup_node": {**node_of("hb120rs_v3", SIZE), "region": region, "offer": "payg"},
        "trueup_family_roles": [],
        "trueup_benchmarks": [benchmark],
        "trueup_health_benchmarks": [],
        **variables,
    }
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": {"node": node}}}))
    limit = json.dumps({"trueup_max_usd": most})
    done = plays.playbook(
        folder, "-i", str(folder / "hosts.json"), "playbooks/preflight.yml", "-e", limit
    )
    return done.returncode, done.stdout + done.stderr


def test_a_run_above_its_limit_does_not_begin(tmp_path: Path) -> None:
    status, said = preflight(tmp_path, 0.5, "eastus")
    assert status == 2
    # One hour at the price of the catalog.
    assert "bills 3.60 US$. That is above trueup_max_usd (0.5 US$)" in " ".join(said.split())


@pytest.mark.parametrize(("most", "region"), [(5000, "eastus"), (0.5, None)])
def test_a_limit_that_is_not_reached_lets_it_begin(
    tmp_path: Path, most: float, region: str | None
) -> None:
    status, said = preflight(tmp_path, most, region)
    assert status == 0, said
    # Without a region nothing has a price, and the limit says that it holds nothing then.
    assert ("limits only what is known" in " ".join(said.split())) is (region is None)


@pytest.mark.parametrize(("shape", "trial"), [("", True), ("256x256x256", False)])
def test_a_problem_that_the_machine_chose_is_called_a_trial(
    tmp_path: Path, shape: str, trial: bool
) -> None:
    status, said = preflight(tmp_path, 5000, "eastus", "devito", devito_shape=shape)
    assert status == 0, said
    text = " ".join(said.split())
    assert ("chosen by the 120 core(s) of the node" in text) is trial
    assert ("a trial of this machine, not the problem of the published article" in text) is trial
