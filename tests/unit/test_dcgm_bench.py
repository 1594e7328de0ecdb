"""The module dcgm_bench and the role's plan: success, check mode, refusals, bad ends, skips."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import dcgm_bench
import pytest
from ansible.module_utils.trueup_node.benchmarks.dcgm import case
from ansible.module_utils.trueup_node.run import bench
from bench_modules import FakeRun, checks_only, ends_badly, goes_well, node_of, refuses, resumes
from trueup_controller.plans.dcgm import plan, programs
from trueup_node.benchmarks.dcgm.case import LIMITS, OPTIONS
from trueup_node.benchmarks.dcgm.output import explain
from trueup_node.options import MODULE
from trueup_node.plan import PlanInputs, Skipped

DATA = Path(__file__).parent.parent / "data" / "dcgm"
LEVEL2 = (DATA / "dcgm4_level2_8gpu.json").read_text()
FAILS = (DATA / "dcgm4_diagnostic_8gpu_fails.json").read_text()
SKIPS = (DATA / "dcgm4_level2_1gpu_skips.json").read_text()
LOAD = (DATA / "proftester_2gpu.txt").read_text()
BROKEN = (DATA / "proftester_8gpu_fails.txt").read_text()
PAUSED = (DATA / "dcgm4_runtime_error.json").read_text()
DEFAULTS = {option.name: option.default for option in OPTIONS if option.of != MODULE}
NODE = node_of("NVIDIA H100 80GB HBM3")
EIGHT = {**NODE, "gpus": NODE["gpus"] * 2}
NO_ENGINE = "Error: Unable to connect to host engine. Host engine connection invalid.\n"


@pytest.fixture(name="run_module")
def _run_module(runner: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(bench, "gpu_users", lambda _: "")
    return runner(dcgm_bench, node=EIGHT)


def test_gpus_that_others_use_are_not_measured(
    run_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "gpu_users", lambda _: "process 4711")
    run = FakeRun(stdout=LEVEL2)
    record = run_module(run)["record"]
    assert (record["outcome"], run.calls) == ("failed", [])
    assert record["reason"] == "the GPUs are in use (process 4711): end that, and run again"


def test_level_2_gives_a_record(run_module: Any) -> None:
    run = FakeRun(stdout=LEVEL2)
    _, record = goes_well(run_module, run)
    assert record["command"] == ["dcgmi", "diag", "-r", "2", "-v", "-j"]
    assert (record["case"], record["gpus"], record["parameters"]) == (
        *("level2", 8),
        {"level": 2, "program": "dcgmi diag"},
    )
    assert record["software"] == {"dcgm": "4.5.2"}
    assert [call["argv"] for call in run.calls] == [
        ["timeout", "--foreground", "--verbose", "870", "dcgmi", "diag", "-r", "2", "-v", "-j"]
    ]
    assert len(record["metrics"]) == 57


STRESS = {"program": "dcgmproftester13", "stress_seconds": 30}


def test_thermal_stress_loads_all_gpus_at_once(run_module: Any) -> None:
    run = FakeRun(stdout=LOAD)
    record = run_module(run, node={**NODE, "gpus": NODE["gpus"][:1] * 2}, **STRESS)["record"]
    assert (record["outcome"], record["case"], record["gpus"]) == ("ok", "stress-30s", 2)
    assert record["command"] == [
        *("dcgmproftester13", "--no-dcgm-validation", "--max-processes", "0"),
        *("-t", "1004", "-d", "30"),
    ]
    assert record["parameters"] == {
        "program": "dcgmproftester",
        "test": "stress",
        "test_seconds": 30,
    }
    assert len(record["metrics"]) == 1 + 2 * 4


@pytest.mark.parametrize(
    ("stdout", "seconds", "reason"),
    [
        (BROKEN, 30, "tensor load failed on gpu5"),
        (LOAD, 30, "2 GPUs were tested instead of 8"),
        (
            BROKEN.replace("GPU 5, TestField 1004 testing FAILED.", "") + "All Tests Passed.\n",
            *(900, "gpu0 has rates of 30 s instead of 900"),
        ),
    ],
)
def test_stress_that_a_gpu_does_not_bear_is_invalid(
    run_module: Any, stdout: str, seconds: int, reason: str
) -> None:
    run = FakeRun(stdout=stdout, returncode=255 if "FAILED" in stdout else 0)
    record = run_module(run, **{**STRESS, "stress_seconds": seconds})["record"]
    assert (record["outcome"], record["reason"]) == ("invalid", reason)


test_check_mode_returns_the_same_keys_and_runs_nothing = checks_only(LEVEL2)

test_a_bad_end_gives_a_record_with_the_reason = ends_badly(
    (
        {"returncode": 235, "stdout": NO_ENGINE},
        "failed",
        "the host engine does not answer: run `systemctl start nvidia-dcgm`",
    ),
    ({"returncode": 200, "stdout": PAUSED}, "failed", "could not be run while DCGM is paused"),
    ({"stdout": PAUSED}, "failed", "dcgmi ran no tests"),
    # Every test passed, and dcgmi says that something is wrong.
    ({"returncode": 226, "stdout": LEVEL2}, "failed", "ended with exit status 226"),
    ({"returncode": -9, "stdout": FAILS}, "failed", "was killed by SIGKILL"),
    ({"timed_out": True, "returncode": 1, "stdout": FAILS}, "failed", "at its time limit"),
    (
        {"returncode": 124, "stderr": "timeout: sending signal TERM to command 'dcgmi'\n"},
        "failed",
        "the diagnostic was stopped at its time limit",
    ),
    ({"stdout": LEVEL2[:900]}, "failed", "cut off or damaged"),
    ({"stdout": SKIPS}, "invalid", "1 GPUs were tested instead of 8"),
    ({"returncode": 226, "stdout": FAILS}, "invalid", "diagnostic failed on gpu5"),
)


def test_skipped_tests_of_the_hardware_are_no_result(run_module: Any) -> None:
    one = {**NODE, "gpus": NODE["gpus"][:1]}
    record = run_module(FakeRun(stdout=SKIPS), node=one)["record"]
    assert (record["outcome"], record["reason"]) == (
        "invalid",
        "no test of the hardware passed on gpu0 (skip: memory on gpu0, skip: pcie on gpu0)",
    )
    assert run_module(FakeRun(stdout=SKIPS), node=one, level=1)["record"]["outcome"] == "ok"


test_bad_input_is_refused_before_anything_runs = refuses(
    ({"level": 5}, "level is 5: it must be 1 or more, 4 or less"),
    ({"timeout_seconds": 30}, "timeout_seconds is 30: it must be 60 or more"),
)


def test_a_record_of_the_run_stands_for_its_case(run_module: Any) -> None:
    changed = {"program": "/opt/dcgmi", "level": 3, "test_seconds": 60, "stress_seconds": 30}
    resumes(run_module, lambda: FakeRun(stdout=LEVEL2), dcgm_bench, changed)


def test_dcgmi_is_told_to_stop_before_it_is_killed(tmp_path: Path) -> None:
    """A killed dcgmi would leave the diagnostic running in its host engine."""
    program = tmp_path / "dcgmi"
    program.write_text(
        f"#!/bin/sh\ntrap 'echo stopped >{tmp_path}/seen; exit 1' TERM\nsleep 20 & wait $!\n"
    )
    program.chmod(0o755)
    begun = time.monotonic()
    done = case.start([str(program), "diag"], timeout_seconds=31, environment={"LC_ALL": "C"})
    assert (tmp_path / "seen").read_text() == "stopped\n"
    assert time.monotonic() - begun < 15
    assert (done.returncode, done.argv) == (124, (str(program), "diag"))
    assert explain(done.stderr) == (
        "the diagnostic was stopped at its time limit (dcgm_timeout_seconds)"
    )


def asked(program: str | None = "/usr/bin/dcgmi", **options: Any) -> PlanInputs:
    return PlanInputs(
        options={**DEFAULTS, **options}, node=EIGHT, found={"programs": {"dcgmi": program}}
    )


@pytest.mark.parametrize(
    ("options", "cases"),
    [
        ({}, [(2, None, LIMITS[2]), (2, 60, LIMITS[2] + 60)]),
        ({"level": 1}, [(1, None, 300), (1, 60, 960)]),
        ({"level": 3}, [(3, None, 3600)]),
        ({"level": 4, "timeout_seconds": 7200}, [(4, None, 7200)]),
        ({"arithmetic_seconds": 0}, [(2, None, 900)]),
        ({"timeout_seconds": 500}, [(2, None, 500), (2, 60, 500)]),
    ],
)
def test_levels_without_arithmetic_get_a_case_of_it(options: Any, cases: list[Any]) -> None:
    planned = plan(asked(**options))
    assert (planned.skipped, planned.refused) == ([], [])
    assert [
        (case["level"], case.get("test_seconds"), case["timeout_seconds"])
        for case in planned.cases or []
    ] == cases


def test_a_node_that_cannot_be_tested_is_skipped_by_name() -> None:
    assert programs(asked()) == {"programs": ["dcgmi"]}
    assert plan(asked(None)).skipped == [
        Skipped("dcgm", "no dcgmi on this node: install datacenter-gpu-manager-4 (role gpu_driver)")
    ]
    bare = PlanInputs(options=DEFAULTS, node={"gpus": []}, found={"programs": {"dcgmi": None}})
    assert plan(bare).skipped == [Skipped("dcgm", "nvidia-smi and PCI show no GPU")]
    assert plan(asked(timeout_seconds=30)).refused == [
        "dcgm_timeout_seconds is 30: it must be 0, or 60 or more"
    ]


@pytest.mark.parametrize(
    ("options", "present", "case"),
    [
        ({}, ["dcgmproftester12"], ("dcgmproftester12", 900, 1200)),
        ({}, ["dcgmproftester12", "dcgmproftester13"], ("dcgmproftester13", 900, 1200)),
        ({"timeout_seconds": 2000}, ["dcgmproftester11"], ("dcgmproftester11", 900, 2000)),
        ({"stress_program": "/opt/load"}, ["/opt/load"], ("/opt/load", 900, 1200)),
    ],
)
def test_stress_takes_the_program_that_the_node_has(
    options: dict[str, Any], present: list[str], case: tuple[str, int, int]
) -> None:
    node = asked(stress_seconds=900, **options)
    known = {name: f"/usr/bin/{name}" for name in ["dcgmi", *present]}
    planned = plan(replace(node, found={"programs": known}))
    assert set(present) <= set(programs(node)["programs"])
    last = (planned.cases or [])[-1]
    assert (last["program"], last["stress_seconds"], last["timeout_seconds"]) == case
    assert planned.skipped == []


def test_stress_without_its_program_is_skipped_by_name() -> None:
    planned = plan(asked(stress_seconds=900))
    assert planned.skipped == [
        Skipped(
            "dcgm stress-900s",
            "no dcgmproftester13, dcgmproftester12, dcgmproftester11 on this node: set"
            " dcgm_stress_program",
        )
    ]
    assert len(planned.cases or []) == 2
