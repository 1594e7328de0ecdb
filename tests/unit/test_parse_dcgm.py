"""dcgmi diag, JSON of DCGM 3 and 4 and the table, and dcgmproftester: values that are read, and
outputs refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from damage import changed, refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.dcgm.output import DcgmOutput, explain, parse_dcgm
from trueup_node.benchmarks.dcgm.signatures import SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data" / "dcgm"
FILES = sorted(path for path in DATA.iterdir() if path.suffix in {".json", ".txt"})
READ = [path for path in FILES if path.name != "dcgm4_runtime_error.json"]


def text(name: str) -> str:
    return (DATA / name).read_text()


LEVEL2 = text("dcgm4_level2_8gpu.json")
TABLE = text("dcgm3_table_8gpu_fails.txt")
PAUSED = text("dcgm4_runtime_error.json")
LOAD = text("proftester_2gpu.txt")
BROKEN = text("proftester_8gpu_fails.txt")


def values(output: DcgmOutput) -> dict[tuple[str, str | None], float]:
    return {(row.name, row.device): row.value for row in output.metrics()}


def edited(name: str, path: list[Any], value: Any) -> str:
    data = json.loads(text(name))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(data, indent=1)


@pytest.mark.parametrize(
    ("name", "version", "gpus", "passed", "failed", "skipped"),
    [
        ("dcgm3_level3_1gpu.json", None, 1, 13, [], ["skipped: EUD Test on gpu0"]),
        (
            *("dcgm3_level2_4gpu_fails.json", "3.3.9", 4, 15),
            *(["persistence_mode_gpu2", "gpu_memory_gpu3"], []),
        ),
        ("dcgm3_table_8gpu_fails.txt", "3.3.9", 8, 24, ["gpu_memory_gpu5"], []),
        ("dcgm4_level2_8gpu.json", "4.5.2", 8, 24, [], []),
        ("dcgm4_diagnostic_8gpu_fails.json", "4.5.2", 8, 7, ["diagnostic_gpu5"], []),
        ("dcgm4_diagnostic_8gpu_16_texts.json", "4.1.0", 8, 8, [], []),
        (
            *("dcgm4_level2_1gpu_skips.json", "4.2.3", 1, 1, []),
            ["skipped: memory on gpu0", "skipped: pcie on gpu0"],
        ),
        ("dcgm4_table_2gpu_fails.txt", "4.4.1", 2, 3, ["memory_gpu1", "pcie"], []),
        ("proftester_2gpu.txt", None, 2, 2, [], []),
        ("proftester_8gpu_fails.txt", None, 8, 7, ["tensor_load_gpu5"], []),
    ],
)
def test_each_test_of_each_gpu_is_a_check_or_named(
    name: str, version: str | None, gpus: int, passed: int, failed: list[str], skipped: list[str]
) -> None:
    output = parse_dcgm(text(name))
    checks = output.checks
    assert SIGNATURE.recognises(text(name)) is True
    assert (output.tool_version, output.gpu_count) == (version, gpus)
    assert sum(checks.values()) == passed
    assert [check for check, ok in checks.items() if not ok] == failed
    assert [line for line in output.warnings if line.startswith("skipped")] == skipped
    assert values(output)["dcgm_tests_failed", None] == len(failed)


# Of the user guide (an A100, before DCGM 3.3), of 3.3.5 on an A100, and of small rates.
@pytest.mark.parametrize(
    ("line", "rate"),
    [
        ("[1004]: TensorEngineActive: generated ???, dcgm 0.000 (250362.2 gflops)", 250362.2e9),
        (" [1004]: TensorEngineActive: generated ???, dcgm 0 (1.78e+05 gflops).", 178e12),
        (" [1004]: TensorEngineActive:  generated ???, dcgm 0.94 (945. gflops).", 945e9),
        (" [1004]: TensorEngineActive:  generated ???, dcgm 0 (0.00 gflops).", 0.0),
    ],
)
def test_rates_of_each_release_are_read(line: str, rate: float) -> None:
    ends = "GPU 3, TestField 1004 test PASSED.\nAll Tests Passed.\n"
    printed = f"Worker 3:0{line}\n" * 2 + ends
    assert SIGNATURE.recognises(printed) is True
    rows = parse_dcgm(printed).rates
    assert {row.value for row in rows} == {rate}
    assert {row.device for row in rows} == {"gpu3"}


STATUS = ["DCGM Diagnostic", "test_categories", 0, "tests", 0]
test_other_outputs_are_refused = refuses(
    parse_dcgm,
    ("", "no JSON object and no table"),
    ("{}", "no object DCGM Diagnostic or DCGM GPU Diagnostic"),
    (LEVEL2[: len(LEVEL2) // 2], "cut off or damaged"),
    (PAUSED, "dcgmi ran no tests: Error: Diagnostic could not be run while DCGM is paused."),
    ('{"iterations": [], "Overall Result": "Pass"}', "several iterations"),
    (LEVEL2 + LEVEL2, "a second diagnostic follows"),
    (TABLE + TABLE, "a second diagnostic follows"),
    ("\n".join(TABLE.splitlines()[:-1]), "the table's last line is missing"),
    ('{"DCGM Diagnostic": {"test_categories": []}}', "no test has a result"),
    (
        edited("dcgm4_level2_8gpu.json", [*STATUS, "results", 0, "status"], "Perfect"),
        "software has the status 'Perfect', which is unknown",
    ),
    (
        edited("dcgm4_level2_8gpu.json", [*STATUS, "results", 0, "status"], "Fail"),
        "software failed on a device, and its summary says pass",
    ),
    (
        edited("dcgm4_level2_8gpu.json", [*STATUS, "results", 1, "entity_id"], 0),
        "software has two results on gpu0",
    ),
    (
        edited("dcgm4_level2_8gpu.json", [*STATUS, "results", 1, "entity_id"], -1),
        "a GPU's number: -1",
    ),
    (changed(LEVEL2, '"entity_id" : 3,', '"entity_id" : "x",'), "a GPU's number: 'x'"),
    (
        changed(text("dcgm4_diagnostic_8gpu_fails.json"), "GPU 4 calculated", "GPU 6 calculated"),
        "diagnostic on gpu4 has a figure of gpu6",
    ),
    (changed(TABLE, "Pass - All", "Fine - All"), "PCIe has a status that is unknown"),
    (LOAD + LOAD, "a second run follows"),
    ("GPU x, TestField 1004 test\n", "no verdict on any GPU"),
    (changed(LOAD, "Worker 1:0 ", "Worker 1:2 "), "the rate of a slice of a GPU (MIG)"),
    (changed(LOAD, "1.96e[+]05 gflops", "-nan gflops"), "a rate that is not understood"),
    (changed(LOAD, "^GPU 1, .*", ""), "no verdict on GPU 1"),
    (changed(LOAD, "^All Tests .*", ""), "the verdicts on the GPUs disagree"),
    (BROKEN + "All Tests Passed.\n", "the verdicts on the GPUs disagree"),
    (changed(LOAD, "1.96e[+]05", "1.96e+25"), "dcgm_stress_rate 1.96e+34 of gpu0 cannot be"),
)


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (
            (
                "Error: unable to establish a connection to the specified host: localhost\n"
                "Error: Unable to connect to host engine. Host engine connection"
                " invalid/disconnected.\n"
            ),
            (
                "the host engine does not answer: run `systemctl start nvidia-dcgm` (Error: unable"
                " to establish a connection to the specified host: localhost Error: Unable to"
                " connect to host engine. Host engine connection invalid/disconnected.)"
            ),
        ),
        (PAUSED, "Error: Diagnostic could not be run while DCGM is paused."),
        (
            "timeout: sending signal TERM to command 'dcgmi'\n",
            "the diagnostic was stopped at its time limit (dcgm_timeout_seconds)",
        ),
        ("Segmentation fault\n", None),
        (
            (
                "Wrong version of dcgmproftester is used. Expected Cuda version is 12. Installed"
                " Cuda version is 13.\n"
            ),
            (
                "the program is for CUDA 12 and the driver has CUDA 13: set dcgm_stress_program to"
                " dcgmproftester13"
            ),
        ),
    ],
)
def test_a_run_without_results_says_why(printed: str, reason: str | None) -> None:
    assert explain(printed) == reason


@pytest.mark.parametrize("path", READ, ids=lambda path: path.name)
@settings(max_examples=60)
@given(data=st.data())
def test_cut_outputs_are_refused(path: Path, data: st.DataObject) -> None:
    whole = path.read_text().rstrip()
    with pytest.raises(ParseError):
        parse_dcgm(whole[: data.draw(st.integers(0, len(whole) - 2))])
