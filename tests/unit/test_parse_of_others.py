"""gpu-burn, HPL-MxP and AzCopy: figures as printed, and contradictions refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from trueup_analysis import parsers
from trueup_analysis.labelled import Labelled
from trueup_node.errors import ParseError

DATA = Path(__file__).parents[1] / "data"
FILES = {
    "gpu_burn": "synthetic_two_gpus.txt",
    "hpl_mxp": "synthetic_8gpu.txt",
    "azcopy": "synthetic_completed.txt",
}


def text_of(tool: str) -> str:
    return (DATA / tool / FILES[tool]).read_text()


def parsed(tool: str, text: str) -> Labelled:
    output: Labelled = getattr(parsers.part(tool, "output"), f"parse_{tool}")(text)
    return output


def test_gpu_burn_has_the_rate_of_each_gpu_since_its_first_report() -> None:
    output = parsed("gpu_burn", text_of("gpu_burn"))
    rates = {(row.device, row.statistic): row.value for row in output.metrics()}
    assert rates == {
        ("gpu0", "median"): 50655e9,
        ("gpu0", "min"): 50512e9,
        ("gpu0", "max"): 50871e9,
        ("gpu1", "median"): 50228.5e9,
        ("gpu1", "min"): 50123e9,
        ("gpu1", "max"): 50334e9,
        (None, "single"): 0.0,
    }
    assert (output.gpu_count, output.checks, output.unverified) == (
        2,
        {"no_wrong_results": True},
        (),
    )


def test_gpu_burn_names_the_faulty_gpu() -> None:
    output = parsed("gpu_burn", (DATA / "gpu_burn" / "synthetic_faulty.txt").read_text())
    assert output.checks == {"no_wrong_results": False}
    assert output.reasons == {"no_wrong_results": "wrong results, or none, of gpu1"}


def test_gpu_burn_that_did_not_end_is_unverified() -> None:
    text = text_of("gpu_burn")
    output = parsed("gpu_burn", text[: text.index("Tested")])
    assert output.unverified == ("no line 'Tested N GPUs': the run did not end",)


def test_gpu_burn_without_a_report_has_the_verdicts() -> None:
    text = text_of("gpu_burn")
    output = parsed("gpu_burn", text[text.index("Tested") :])
    assert [(row.name, row.value) for row in output.metrics()] == [("burn_faulty_gpus", 0.0)]
    assert (output.gpu_count, output.unverified) == (2, ())


def test_gpu_burn_counts_wrong_results_below_zero() -> None:
    text = (
        "10.0%  proc'd: 90 (6311 Gflop/s) - 80 (6440 Gflop/s)   errors: 0 - -524288000  (WARNING!)"
        "   temps: 51 C - 45 C \n\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: FAULTY\n"
    )
    output = parsed("gpu_burn", text)
    assert output.reasons == {"no_wrong_results": "wrong results, or none, of gpu1"}
    assert {row.device: row.value for row in output.metrics()} == {
        "gpu0": 6311e9,
        "gpu1": 6440e9,
        None: 1.0,
    }


def test_gpu_burn_of_which_the_processes_died_has_no_rate() -> None:
    text = (
        "30.0%  proc'd: -1 (0 Gflop/s) - -1 (0 Gflop/s)   errors: -533715488  (DIED!)- 12  (DIED!)"
        "  temps: 30 C - 31 C \n\nNo clients are alive!  Aborting\n"
    )
    output = parsed("gpu_burn", text)
    assert [(row.name, row.value) for row in output.metrics()] == [("burn_faulty_gpus", 2.0)]
    assert (output.checks, output.unverified) == ({"no_wrong_results": False}, ())


def test_gpu_burn_counts_a_rate_once_and_refuses_a_line_that_stands_twice() -> None:
    line = "50.0%  proc'd: 636 (2085 Gflop/s)   errors: 0   temps: 64 C \n"
    last = "100.0%  proc'd: 1908 (2273 Gflop/s)   errors: 0   temps: 66 C \n"
    output = parsed("gpu_burn", line + line.replace("50.0%", "100.0%") + last)
    assert {row.statistic: row.value for row in output.metrics()} == {
        "median": 2179e9,
        "min": 2085e9,
        "max": 2273e9,
        "single": 0.0,
    }
    with pytest.raises(ParseError, match="the line stands twice"):
        parsed("gpu_burn", line + line + last)


def test_azcopy_sync_counts_copies() -> None:
    text = (
        "Job 49382924-0000-0000-0000-50cebf7f1cf1 Summary\n"
        "Files Scanned at Source: 1000\nFiles Scanned at Destination: 990\n"
        "Elapsed Time (Minutes): 0.5000\nNumber of Copy Transfers for Files: 10\n"
        "Number of Copy Transfers for Folder Properties: 0 \nTotal Number Of Copy Transfers: 10\n"
        "Number of Copy Transfers Completed: 10\nNumber of Copy Transfers Failed: 0\n"
        "Number of Deletions at Destination: 0\nTotal Number of Bytes Transferred: 3000000000\n"
        "Total Number of Bytes Enumerated: 3000000000\nFinal Job Status: Completed\n"
    )
    output = parsed("azcopy", text)
    assert {row.name: row.value for row in output.metrics()} == {
        "copy_rate": 1e8,
        "copy_time": 30.0,
        "copied_bytes": 3e9,
    }
    assert output.parameters == {"transfers": "10"}


def test_hpl_mxp_has_both_rates() -> None:
    output = parsed("hpl_mxp", text_of("hpl_mxp"))
    rates = {row.name: row.value for row in output.metrics()}
    assert rates == pytest.approx({"mxp_rate": 8.9136e14, "mxp_lu_rate": 1.7502e15}, rel=1e-12)
    assert output.parameters == {"n": "384000", "nb": "4096", "grid": "4x2"}
    failed = parsed("hpl_mxp", text_of("hpl_mxp").replace("PASSED", "FAILED"))
    assert (failed.checks, failed.gpu_count) == ({"residual": False}, 8)


def test_azcopy_has_its_rate_and_failed_transfers() -> None:
    text = text_of("azcopy")
    rate, *_ = parsed("azcopy", text).metrics()
    assert rate.value == pytest.approx(274877906944 / (3.3342 * 60), rel=1e-12)
    text = text.replace("File Transfers Completed: 4096", "File Transfers Completed: 4093")
    text = text.replace("File Transfers Failed: 0", "File Transfers Failed: 3")
    output = parsed("azcopy", text.replace("Status: Completed", "Status: CompletedWithErrors"))
    assert output.checks == {"no_transfer_failed": False, "job_completed": True}
    assert output.reasons["no_transfer_failed"] == "3 of 4096 transfers failed"


def test_hpl_mxp_may_explain_its_rates() -> None:
    text = text_of("hpl_mxp")
    lines = [
        f"{line.rstrip()} ------ An explanation" if "GFLOPS = " in line else line
        for line in text.splitlines()
    ]
    assert parsed("hpl_mxp", "\n".join(lines)) == parsed("hpl_mxp", text)


@pytest.mark.parametrize(
    ("tool", "before", "after", "message"),
    [
        ("gpu_burn", "GPU 1: OK", "GPU 2: OK", "verdicts of GPUs"),
        ("gpu_burn", "errors: 0 - 0   temps: 63", "errors: 0 - 5   temps: 63", "is OK, and has 5"),
        ("gpu_burn", " - 1405 (50334 Gflop/s)", "", "another number of GPUs than the first"),
        ("gpu_burn", "(50871 Gflop/s)", "(many Gflop/s)", "is not a figure of each GPU"),
        ("gpu_burn", "proc'd: 1686", "proc'd: 186", "a GPU has done less|not a figure"),
        ("gpu_burn", "   temps: 58 C", "", "this form of a report is not known"),
        ("azcopy", "TotalBytesTransferred: 274877906944", "TotalBytesTransferred: 0", "nothing"),
        ("hpl_mxp", "111420.05", "11142.05", "times 8 GPUs is not"),
        ("hpl_mxp", "    LU GFLOPS", "    LV GFLOPS", "no line 'LU GFLOPS"),
        ("azcopy", "Status: Completed", "Status: Cancelled", None),
        ("azcopy", "File Transfers Failed: 0", "File Transfers Failed: 9", "4105 transfers ended"),
        ("azcopy", "Elapsed Time (Minutes): 3.3342", "Elapsed Time (Minutes): 0.0", "took no time"),
        ("azcopy", "TotalBytes", "TotalBits", "no line 'TotalBytesTransferred'"),
    ],
)
def test_a_contradiction_is_refused(
    tool: str, before: str, after: str, message: str | None
) -> None:
    text = text_of(tool)
    assert before in text
    text = text.replace(before, after, 1)
    if message is None:
        assert parsed(tool, text).checks["job_completed"] is False
        return
    with pytest.raises(ParseError, match=message):
        parsed(tool, text)
