"""However a tool ends: one record, whose outcome and reason say it; figures of a good end only."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ENDINGS = ("well", "garbage", "fails", "hangs", "dies")
# What each ending says; of `well` it depends on the output.
SAID = {
    "garbage": ["output not understood"],
    # The role gpu_copy's program starts the tool, and ends with 3 where that failed.
    "fails": ["ended with exit status 1", "ended with exit status 3"],
    "hangs": ["was ended at its time limit of 5 s"],
    "dies": ["was killed by SIGKILL", "ended with exit status 3"],
}
# The benchmark of each kind of node, and what a good ending gives: outcome and part of the reason.
KINDS = {
    "nccl": ("nccl", "ok", ""),
    "nccl_shm": ("nccl", "invalid", "memory"),
    "nccl_mpirun": ("nccl", "ok", ""),
    "gpu_copy": ("gpu_copy", "ok", ""),
    "gemm": ("gemm", "ok", ""),
}


# The machine itself, which runs fio and HPL for real.
HERE = "molecule-benchmarks"


def all_records() -> list[dict[str, Any]]:
    results = Path(os.environ["TRUEUP_RESULTS"])
    paths = [path for path in results.glob("*/*.json") if path.name != "run.json"]
    return [json.loads(path.read_text()) for path in sorted(paths)]


ALL = all_records()
RECORDS = {record["nodes"][0]: record for record in ALL if record["nodes"] != [HERE]}


def made_here(benchmark: str, program: str, named: str) -> list[dict[str, Any]]:
    """Its records, where the machine has the program or root could install it."""
    if shutil.which(program) is None and os.geteuid() != 0:
        pytest.skip(f"{named} is not installed, and without root it could not be")
    return [record for record in ALL if record["benchmark"] == benchmark]


def test_every_case_left_one_record() -> None:
    found = sorted(record["nodes"][0] for record in ALL if record["nodes"] != [HERE])
    assert found == sorted(f"{kind}-{ending}" for kind in KINDS for ending in ENDINGS)


def test_fio_measured_each_workload_for_real() -> None:
    made = made_here("fio", "fio", "fio")
    assert {record["outcome"] for record in made} == {"ok"}
    assert sorted(record["parameters"]["workload"] for record in made) == [
        *("random_read", "random_write", "sequential_read", "sequential_write")
    ]
    for record in made:
        rates = [row for row in record["metrics"] if row["name"].endswith("_bandwidth")]
        assert [row["unit"] for row in rates] == ["byte/s"]
        assert rates[0]["value"] > 0


def test_hpl_solved_a_system_whose_residual_passed() -> None:
    [record] = made_here("hpl", "mpicc", "mpicc")
    assert (record["outcome"], record["reason"]) == ("ok", None)
    [rate] = [row for row in record["metrics"] if row["name"] == "hpl_rate"]
    [seconds] = [row for row in record["metrics"] if row["name"] == "hpl_time"]
    # Debian's source: HPL's release cannot be downloaded everywhere.
    assert record["software"]["hpl"] == "2.0"
    order = 9216
    flop = 2 / 3 * order**3 + 3 / 2 * order**2
    assert rate["value"] == pytest.approx(flop / seconds["value"], rel=0.05)


def test_gromacs_ran_a_box_of_water_that_kept_its_energy() -> None:
    [record] = made_here("gromacs", "gmx", "GROMACS")
    assert (record["outcome"], record["reason"]) == ("ok", None)
    rows = {row["name"]: row for row in record["metrics"]}
    assert rows["simulation_rate"]["value"] > 0
    assert rows["energy_drift"]["value"] < 0.005


@pytest.mark.parametrize("kind", KINDS)
def test_a_good_ending_counts(kind: str) -> None:
    benchmark, outcome, said = KINDS[kind]
    record = RECORDS[f"{kind}-well"]
    assert (record["benchmark"], record["outcome"]) == (benchmark, outcome)
    assert said in (record["reason"] or "")
    assert len(record["metrics"]) > 0


@pytest.mark.parametrize("ending", [ending for ending in ENDINGS if ending != "well"])
@pytest.mark.parametrize("kind", KINDS)
def test_any_other_ending_is_a_failure_that_says_how_and_has_no_figure(
    kind: str, ending: str
) -> None:
    record = RECORDS[f"{kind}-{ending}"]
    assert (record["outcome"], record["metrics"]) == ("failed", [])
    assert [said for said in SAID[ending] if said in record["reason"]] != []


def test_the_verdicts_follow() -> None:
    trueup = Path(sys.executable).with_name("trueup")
    done = subprocess.run(  # noqa: S603 WHY: our own command
        [trueup, "health", os.environ["TRUEUP_RESULTS"], "--all", "--passes", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    [table] = json.loads(done.stdout)["tables"]
    verdicts: dict[str, set[str]] = {}
    for row in table["rows"]:
        # A case over several nodes is told of all of them.
        verdicts.setdefault(row["node"].split("+")[0], set()).add(row["verdict"])
    for kind, (_, outcome, _) in KINDS.items():
        for ending in ENDINGS[1:]:
            assert verdicts[f"{kind}-{ending}"] == {"not measured"}
        assert ("fail" in verdicts[f"{kind}-well"]) == (outcome == "invalid")
