"""Logs of AzNHC: verdicts, fault codes and the bandwidths that the messages name."""

from __future__ import annotations

from pathlib import Path

import pytest
from trueup_analysis.parsers.aznhc.output import parse_aznhc
from trueup_analysis.read import read_runs
from trueup_node.errors import ParseError

DATA = Path(__file__).parents[1] / "data" / "aznhc"
PASSED = (DATA / "synthetic_h100_passed.txt").read_text()
FAILED = (DATA / "synthetic_h100_failed.txt").read_text()


def test_a_run_without_failure() -> None:
    output = parse_aznhc(PASSED)
    assert output.parameters == {"checked_size": "Standard_nd96isr_h100_v5"}
    assert (list(output.checks), set(output.checks.values())) == (
        [
            *("check_hw_topology", "check_gpu_count", "check_gpu_ecc", "check_nccl_allreduce"),
            "check_nccl_allreduce_ib_loopback",
            *("check_ib_bw_gdr mlx5_ib0", "check_ib_bw_gdr mlx5_ib1"),
        ],
        {True},
    )
    figures = {(row.name, row.device): row.value for row in output.metrics()}
    assert figures == {
        ("nhc_failed", None): 0.0,
        ("nhc_nccl_busbw", None): 478.125e9,
        ("nhc_nccl_loopback_busbw", None): 47.906e9,
        ("nhc_ib_write_bandwidth", "mlx5_ib0"): 392.51e9,
        ("nhc_ib_write_bandwidth", "mlx5_ib1"): 392.64e9,
    }
    assert output.warnings == [
        "near its limit: check_gpu_bw: device to host on GPU 3 is 52.81 GB/s"
    ]
    assert output.unverified == []


def test_a_failure_has_its_reason_and_fault_code() -> None:
    output = parse_aznhc(FAILED)
    assert output.checks == {"check_hw_topology": True, "check_nccl_allreduce": False}
    assert output.reasons == {
        "check_nccl_allreduce": "check_nccl_allreduce: NCCL allreduce, BUS BW (expected >=460.0"
        " GB/s, but measured 391.07 GB/s) (NHC2010)"
    }
    assert [row.value for row in output.metrics() if row.name == "nhc_nccl_busbw"] == [391.07e9]


def test_the_same_line_of_log_and_terminal_counts_once() -> None:
    doubled = "".join(line * (1 + ("nhc: " in line)) for line in PASSED.splitlines(keepends=True))
    assert parse_aznhc(doubled).metrics() == parse_aznhc(PASSED).metrics()


def test_a_line_that_is_not_known_may_be_a_failure() -> None:
    text = FAILED.replace("Health check failed", "Health check broken").replace(
        "code: 1", "code: 0"
    )
    assert parse_aznhc(text).unverified == ["1 lines of nhc have no form that is known"]


def test_a_check_that_passed_without_a_name_is_known() -> None:
    line = "SUCCESS:  nhc:  Health check passed:  \n"
    output = parse_aznhc(
        PASSED.replace("Health checks completed", f"{line}{line}Health checks completed", 1)
    )
    assert output.unverified == parse_aznhc(PASSED).unverified
    named = {**parse_aznhc(PASSED).checks, "unnamed": True}
    assert output.checks == named


def test_a_log_without_its_end_is_unverified() -> None:
    assert parse_aznhc(PASSED[: PASSED.index("Health checks completed")]).unverified == [
        "no line 'Health checks completed with exit code': checks may be missing"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PASSED.replace("code: 0", "code: 1"), "0 checks failed, and the exit code is 1"),
        (FAILED.replace("code: 1", "code: 0"), "1 checks failed, and the exit code is 0"),
        (PASSED.replace("SUCCESS:  nhc", "ERROR:  nhc", 1), "ERROR does not go with"),
        (PASSED.replace("478.125", "4.78.125"), "'4.78.125' is not a bandwidth"),
        ("Running health checks for Standard_x SKU...\n", "no line 'Health check passed'"),
        (PASSED + FAILED, "a second run"),
    ],
)
def test_a_contradiction_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_aznhc(text)


def test_a_run_keeps_its_number_where_the_one_before_cannot_be_read() -> None:
    text = PASSED.replace("code: 0", "code: 1") + FAILED
    [reading], [reason] = read_runs(text, source="health.log")
    assert (reading.run, reading.title) == (2, "health.log, run 2")
    assert "0 checks failed, and the exit code is 1" in reason


def test_two_runs_are_two_readings_and_levels_are_no_labels() -> None:
    readings, reasons = read_runs(PASSED + FAILED, source="health.log")
    assert [reading.outcome()[0] for reading in readings] == ["ok", "invalid"]
    assert ([reading.removed for reading in readings], reasons) == ([{}, {}], [])
