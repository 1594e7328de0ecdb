"""The filters that roles use on a run's records, and the one that finds misspelt variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from helpers import a_record
from trueup import record as records
from trueup_roles import benchmark_roles, unknown_variables
from trueup_runs import best, metric, recorded, recorded_like, run_id

RUN = a_record()["run_id"]
OLD, NEW = "20261119T091300Z-0001", "20261120T091300Z-7c1e"
ROLES = Path(__file__).parent.parent.parent / "roles"


def with_time(seconds: float, **changes: Any) -> dict[str, Any]:
    record = a_record(**changes)
    record["metrics"][0]["value"] = seconds
    return record


def test_a_new_run_has_a_new_id(tmp_path: Path) -> None:
    first, second = run_id(str(tmp_path)), run_id(str(tmp_path))
    assert records.is_run_id(first)
    assert first != second


def test_resume_takes_the_last_run_or_the_one_named(tmp_path: Path) -> None:
    for name in (OLD, NEW, "notes", "20261121T000000Z"):
        (tmp_path / name).mkdir()
    assert run_id(str(tmp_path), "last") == NEW
    assert run_id(str(tmp_path), OLD) == OLD


@pytest.mark.parametrize("resume", ["last", OLD, "../x"])
def test_a_run_that_is_not_there_cannot_be_resumed(tmp_path: Path, resume: str) -> None:
    with pytest.raises(AnsibleFilterError, match="there is none"):
        run_id(str(tmp_path / "missing"), resume)


def test_only_ok_records_of_the_node_and_benchmark_count_as_recorded(tmp_path: Path) -> None:
    for record in (
        a_record(case="kept"),
        a_record(case="failed", outcome="failed", reason="x"),
        a_record(case="other-node", nodes=["node-2"]),
        a_record(case="other", benchmark="stream"),
    ):
        records.write_record(str(tmp_path), record)
    found = recorded(str(tmp_path), RUN, "devito", "node-1")
    assert [record["case"] for record in found] == ["kept"]
    assert recorded(str(tmp_path), NEW.replace("7c1e", "0000"), "devito", "node-1") == []


def test_records_are_matched_by_parameter_and_by_field() -> None:
    two = [a_record(ranks=1), a_record(ranks=2)]
    assert recorded_like(two, {"ranks": 2, "shape": "128x128x128"}) == [two[1]]
    assert recorded_like(two, {"shape": "1x1x1"}) == []
    # As `-e ranks=2` gives it.
    assert recorded_like(two, {"ranks": "2"}) == [two[1]]


def test_a_damaged_record_keeps_nothing_from_being_measured(tmp_path: Path) -> None:
    records.write_record(str(tmp_path), a_record())
    (tmp_path / RUN / "damaged.json").write_text('{"schema": "trueup.record/1"}')
    assert len(recorded(str(tmp_path), RUN, "devito", "node-1")) == 1


def test_best_follows_the_metrics_direction() -> None:
    slow, fast = with_time(2.0), with_time(1.0)
    assert best([slow, fast], "run_time") is fast
    for record in (slow, fast):
        record["metrics"][0]["direction"] = "higher"
    assert best([slow, fast], "run_time") is slow
    assert best([slow], "triad_rate") is None
    assert metric(slow, "run_time") == 2.0
    assert metric(slow, "run_time", "max") is None


def test_the_benchmarks_are_the_roles_with_that_entry_point() -> None:
    assert benchmark_roles(str(ROLES)) == [
        *("blob_checkpoint", "devito", "fio", "gemm", "gpu_copy", "gromacs", "hpl", "ib"),
        *("nccl", "stream", "training", "vllm"),
    ]


def test_a_misspelt_variable_is_found() -> None:
    names = ["devito_shape", "devito_shap", "devito_tn"]
    assert unknown_variables(names, str(ROLES / "devito")) == ["devito_shap", "devito_tn"]


def test_a_role_without_specification_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AnsibleFilterError, match="no readable argument_specs"):
        unknown_variables(["x_y"], str(tmp_path))
