"""HPCG, IOR, mdtest and BabelStream: figures as printed, and contradictions refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from trueup_analysis import parsers
from trueup_analysis.labelled import Labelled
from trueup_analysis.read import read_runs
from trueup_node.errors import ParseError

DATA = Path(__file__).parents[1] / "data"
MIB = 2**20
Figure = tuple[str, str | None, float]


def text_of(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def parsed(name: str, text: str | None = None) -> Labelled:
    tool = name.partition("/")[0]
    output: Labelled = getattr(parsers.part(tool, "output"), f"parse_{tool}")(
        text_of(name) if text is None else text
    )
    return output


@pytest.mark.parametrize(
    ("name", "version", "counts", "figures"),
    [
        (
            "hpcg/hpcg31_2ranks.txt",
            *("3.1", (None, 2)),
            [("hpcg_rating", None, 1.4593e9), ("hpcg_time", None, 22.605)],
        ),
        ("hpcg/synthetic_yaml30.txt", "3.0", (None, 2), [("hpcg_rating", None, 1.4593e9)]),
        (
            "ior/ior_2.10.3.txt",
            *("2.10.3", (1, 2)),
            [
                ("ior_write_bandwidth", "max", 6404.84 * MIB),
                ("ior_read_bandwidth", "mean", 16720.42 * MIB),
                ("ior_read_rate", "mean", 66881.68),
            ],
        ),
        ("ior/ior_3.2.1.txt", "3.2.1", (1, 2), [("ior_write_bandwidth", "min", 2960.89 * MIB)]),
        ("ior/ior_3.2.1.json", "3.2.1", (1, 2), [("ior_read_bandwidth", "max", 15792.9855 * MIB)]),
        (
            "ior/ior_4.0.0.txt",
            *("4.0.0", (1, 2)),
            [
                ("ior_write_bandwidth", "mean", 2508.56 * MIB),
                ("ior_read_bandwidth", "max", 5424.69 * MIB),
            ],
        ),
        ("ior/ior_4.0.0.json", "4.0.0", (1, 2), [("ior_write_bandwidth", "mean", 3628.7015 * MIB)]),
        (
            "mdtest/mdtest_1.9.3.txt",
            *("1.9.3", (1, 2)),
            [("mdtest_file_creation", "mean", 12466.272), ("mdtest_tree_removal", "min", 118.347)],
        ),
        (
            "mdtest/mdtest_4.0.0_times.txt",
            *("4.0.0", (1, 2)),
            [("mdtest_directory_rename", "max", 33325.155), ("mdtest_file_stat", "min", 25015.605)],
        ),
        (
            "babelstream/omp_5.0.txt",
            "5.0",
            (None, None),
            [("babel_triad_rate", "max", 14155.342e6)],
        ),
        ("babelstream/omp_5.0.csv", None, (None, None), [("babel_dot_rate", "max", 16271e6)]),
        (
            "babelstream/omp_5.0_mib.txt",
            *("5.0", (None, None)),
            [("babel_copy_rate", "max", 17366.529 * MIB)],
        ),
    ],
)
def test_figures_are_those_that_the_tool_prints(
    name: str,
    version: str | None,
    counts: tuple[int | None, int | None],
    figures: list[Figure],
) -> None:
    output = parsed(name)
    rows = [(row.name, row.statistic, pytest.approx(row.value)) for row in output.metrics()]
    assert (output.tool_version, (output.node_count, output.ranks)) == (version, counts)
    assert [figure for figure in figures if figure not in rows] == []
    assert (output.unverified, all(output.checks.values())) == ((), True)


def test_operations_of_mdtest_that_did_not_run_have_no_figure() -> None:
    names = {row.name for row in parsed("mdtest/mdtest_4.0.0_files.txt").metrics()}
    assert names == {
        *("mdtest_file_creation", "mdtest_file_stat", "mdtest_file_read", "mdtest_file_removal"),
        *("mdtest_tree_creation", "mdtest_tree_removal"),
    }


def test_a_node_map_of_thousands_of_tasks_is_no_number() -> None:
    text = text_of("mdtest/mdtest_4.0.0_files.txt").replace(
        "Nodemap: 11", "Nodemap: " + "10" * 9000
    )
    assert parsed("mdtest/mdtest_4.0.0_files.txt", text).ranks == 2


def test_two_tests_of_ior_are_told_apart() -> None:
    output = parsed("ior/ior_4.0.0_two_tests.txt")
    rates = {
        (row.name, row.device): row.value / MIB
        for row in output.metrics()
        if row.statistic == "max"
    }
    assert rates == {
        ("ior_write_bandwidth", "test0"): pytest.approx(239.75),
        ("ior_read_bandwidth", "test0"): pytest.approx(497.75),
        ("ior_write_bandwidth", "test1"): pytest.approx(246.40),
        ("ior_read_bandwidth", "test1"): pytest.approx(798.15),
    }
    assert (output.parameters["access"], output.parameters["block"]) == ("several", "1 MiB")


def test_csv_of_ior_says_nothing_of_its_test() -> None:
    output = parsed("ior/ior_4.0.0.csv")
    assert [row.value / MIB for row in output.metrics() if row.statistic == "mean"] == [
        pytest.approx((499.9021 + 1005.1353) / 2),
        pytest.approx((958.6707 + 1899.3791) / 2),
    ]
    assert len(output.unverified) == 2


def test_a_report_that_hpcg_calls_invalid_is_so() -> None:
    output = parsed("hpcg/synthetic_invalid.txt")
    failed = [name for name, passed in output.checks.items() if not passed]
    assert (failed, output.metrics()[0].value) == (["valid", "reproducibility"], 1.4593e9)


def test_the_last_lines_of_hpcg_are_unverified() -> None:
    text = text_of("hpcg/hpcg31_2ranks.txt")
    output = parsed("hpcg/hpcg31_2ranks.txt", text[text.index("Final Summary=") :])
    assert [row.value for row in output.metrics()] == [1.4593e9]
    assert len(output.unverified) == 1


def test_a_wrong_result_of_babelstream_is_a_failed_check() -> None:
    output = parsed("babelstream/synthetic_cuda_4.0_wrong_sum.txt")
    assert output.checks == {"results_are_right": False}
    assert output.reasons == {"results_are_right": "the validation of sum failed"}
    assert output.parameters["device"] == "NVIDIA A100-SXM4-80GB"


def test_runs_one_below_the_other_are_several() -> None:
    text = "".join(
        map(text_of, ("babelstream/omp_5.0.txt", "ior/ior_4.0.0.txt", "mdtest/mdtest_1.9.3.txt"))
    )
    readings, refused = read_runs(text + text_of("hpcg/hpcg31_2ranks.txt"), source="x")
    tools = [reading.tool for reading in readings]
    assert (tools, refused) == (["babelstream", "ior", "mdtest", "hpcg"], [])


@pytest.mark.parametrize(
    ("name", "before", "after", "message"),
    [
        ("hpcg/hpcg31_2ranks.txt", "Raw SpMV=1.66", "Raw SpMV=1.96", "is not its operations over"),
        ("hpcg/hpcg31_2ranks.txt", "rating of=1.4593", "rating of=1.5593", "this rating is not"),
        ("hpcg/hpcg31_2ranks.txt", "Processes=2", "Processes=4", "not the product of the grid"),
        ("hpcg/hpcg31_2ranks.txt", "Raw Read B/W=", "Raw Read B/W=1", "not the sum of its parts"),
        ("hpcg/hpcg31_2ranks.txt", "Result=PASSED", "Result=PASSD", "neither PASSED nor FAILED"),
        ("hpcg/hpcg31_2ranks.txt", "processes=1", "processes=one", "not a whole number"),
        ("ior/ior_4.0.0.txt", "2508.56", "2908.56", "operations of a second are not the mean"),
        ("ior/ior_4.0.0.txt", "3330.55", "3930.55", "mean is not between|that of the rows"),
        ("ior/ior_4.0.0.txt", "1   \n", "2   \n", "write 1 of a test is missing"),
        ("ior/ior_4.0.0.txt", "32 MiB", "64 MiB", "the rate times the time is not 64 MiB"),
        ("ior/ior_2.10.3.txt", "Max Write: 6404.84", "Max Write: 6504.84", "is not 6715.96 MB/s"),
        ("ior/ior_2.10.3.txt", "2279.38     4378", "4979.38     4378", "the mean is not between"),
        ("ior/ior_4.0.0.json", '"bwMaxMIB": 4799', '"bwMaxMIB": 5799', "not that of the rows"),
        ("ior/ior_4.0.0.json", '"bwMaxMIB": ', '"bwMaxMIB": "x', "form of IOR's JSON is not"),
        ("mdtest/mdtest_1.9.3.txt", " 12466.272", " 92466.272", "mean is not between"),
        ("mdtest/mdtest_1.9.3.txt", " 12466.272", " 12466,272", "no number of three decimals"),
        ("babelstream/omp_5.0.txt", "14155.342", "15155.342", "Triad's rate times its time"),
        ("babelstream/omp_5.0.csv", "16271", "16971", "Dot's rate times its time"),
        (
            "babelstream/omp_5.0.txt",
            "0.00711     0.02671",
            "0.03711     0.02671",
            "average time is",
        ),
    ],
)
def test_a_contradiction_is_refused(name: str, before: str, after: str, message: str) -> None:
    text = text_of(name)
    assert before in text
    with pytest.raises(ParseError, match=message):
        parsed(name, text.replace(before, after, 1))


def test_a_row_of_csv_with_an_empty_cell_behind_it_is_no_traceback() -> None:
    row = text_of("ior/ior_4.0.0.csv").splitlines()[1]
    text = text_of("ior/ior_4.0.0.csv").replace(row, f"{row},,")
    assert parsed("ior", text).rows == parsed("ior", text_of("ior/ior_4.0.0.csv")).rows
