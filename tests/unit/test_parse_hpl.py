"""HPL outputs: recorded files and what must be read from them, or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from damage import changed, refuses, stands
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.hpl.output import parse_hpl
from trueup_node.benchmarks.hpl.signatures import SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data" / "hpl"
HPCC = (DATA / "hpcc150_2ranks.txt").read_text()
OTHER = (DATA / "hpcc150_other_grid.txt").read_text()
XHPL = (DATA / "xhpl23_two_tests.txt").read_text()
NVIDIA = (DATA / "nvidia_8gpu.txt").read_text()
SUMMARY = HPCC[HPCC.index("Begin of Summary") : HPCC.index("End of HPC Challenge")]
TABLE = HPCC.index("Begin of HPL section")


def values(text: str) -> dict[tuple[str, str | None], float]:
    return {(row.name, row.statistic): row.value for row in parse_hpl(text).metrics()}


def test_hpcc_with_its_summary() -> None:
    output = parse_hpl(HPCC)
    assert output.tool_version == "2.0, hpcc 1.5.0"
    assert output.parameters == {"n": "1536", "nb": "192", "p": "1", "q": "2"}
    assert output.checks == {"residual": True, "no_test_skipped": True, "success": True}
    assert output.warnings == []
    # Six digits from the summary, where the table has four.
    assert values(HPCC) == {
        ("hpl_rate", "single"): 7.32153e9,
        ("hpl_time", "single"): 0.330458,
        ("hpl_residual", "single"): 0.0030453,
    }


def test_hpccs_summary_alone() -> None:
    got = parse_hpl(SUMMARY)
    assert (got.tests[0].rate, got.tests[0].p, got.tests[0].q) == (7.32153e9, 1, 2)
    assert got.tests[0].residual == pytest.approx(0.0030453, abs=1e-7)
    assert got.warnings == ["the residual is computed from the norms of hpcc's summary"]


def test_the_problem_that_ran_is_told_whatever_was_asked() -> None:
    assert parse_hpl(OTHER).parameters == {"n": "3520", "nb": "80", "p": "1", "q": "2"}
    error = "HPL ERROR from process # 0, on line 440 of function HPL_pdinfo:\n>>> Need 4 <<<\n"
    assert parse_hpl(OTHER + error).warnings == ["HPL printed an error: Need 4"]


def test_xhpl_with_two_tests() -> None:
    output = parse_hpl(XHPL)
    assert output.parameters == {"n": "30000", "nb": "192", "p": "2", "q": "2"}
    got = values(XHPL)
    assert (got["hpl_rate", "single"], got["hpl_time", "single"]) == (1.8001e11, 100.0)
    tests = {row.device: row.value for row in output.metrics() if row.name == "hpl_test_rate"}
    assert sorted(tests.values()) == [1.5001e11, 1.8001e11]
    assert output.warnings == [
        "2 tests of several kinds: the figures are those of the best, " + max(tests, key=tests.get)
    ]


def test_the_best_test_of_a_sweep_is_one_that_passed() -> None:
    output = parse_hpl(XHPL)
    best, other = sorted(output.tests, key=lambda test: -test.rate)
    failed = replace(output, tests=(replace(best, passed=False), other))
    assert (output.best, failed.best, failed.checks["residual"]) == (best, other, False)


def test_a_table_without_the_rest_of_the_output_is_unverified() -> None:
    table = NVIDIA[NVIDIA.index("T/V   ") : NVIDIA.index("Finished")]
    output = parse_hpl(table)
    assert values(table) == values(NVIDIA)
    assert [text[:12] for text in output.unverified] == ["no banner 'H", "no 'Finished"]
    assert parse_hpl(NVIDIA).unverified == ()


def test_a_problem_that_takes_no_time_has_its_rate() -> None:
    small = XHPL.replace("30000", "  100").replace(" 100.00 ", "   0.00 ")
    small = small.replace(" 120.00 ", "   0.00 ").replace("e+02\n", "e+00\n")
    got = values(small)
    assert (got["hpl_rate", "single"], got["hpl_time", "single"]) == (1.8001e9, 0.0)


def test_nvidias_table() -> None:
    output = parse_hpl(NVIDIA)
    assert output.tool_version == "2.1, HPL-NVIDIA 24.3.0"
    assert output.parameters == {
        "n": "264192",
        "nb": "1024",
        "p": "4",
        "q": "2",
        "gpus": "8",
    }
    assert values(NVIDIA)["hpl_rate", "single"] == 1.229e14


def test_a_failed_residual_is_a_failed_check() -> None:
    failed = NVIDIA.replace("0.0001111 ...... PASSED", "123.4567890 ...... FAILED")
    failed = failed.replace("1 tests completed and passed", "0 tests completed and passed")
    failed = failed.replace("0 tests completed and failed", "1 tests completed and failed")
    assert parse_hpl(failed).checks["residual"] is False
    assert values(failed)["hpl_residual", "single"] == 123.456789
    nan = parse_hpl(failed.replace("123.4567890", "nan"))
    assert (nan.checks["residual"], nan.tests[0].residual) == (False, None)
    assert {row.name for row in nan.metrics()} == {"hpl_rate", "hpl_time"}


def test_hpccs_own_verdict_is_a_check() -> None:
    assert parse_hpl(HPCC.replace("Success=1", "Success=0")).checks["success"] is False


FIRST_ROW = XHPL[XHPL.index("WR11") :].partition("\n")[0]


@pytest.mark.parametrize(
    ("text", "tests", "lacking"),
    [
        (XHPL[: XHPL.index("End of Tests")], 2, ["no 'End of Tests.'"]),
        (
            XHPL[: XHPL.index("0 tests completed")],
            2,
            ["the counts after 'Finished'", "no 'End of Tests.'"],
        ),
        (
            XHPL[: XHPL.index("2 tests completed")].rstrip(),
            2,
            ["the counts after 'Finished'", "no 'End of Tests.'"],
        ),
        (XHPL[: XHPL.index("Finished")], 2, ["no 'Finished"]),
        (XHPL[: XHPL.rindex("||Ax-b||_oo/(")], 1, ["no 'Finished", "the last row, of n30000"]),
        (
            XHPL[: XHPL.index("HPL_pdgesv() end")],
            1,
            ["no residual below the row of n30000", "no 'Finished"],
        ),
        (XHPL[XHPL.index("WR11") :], 2, ["no banner", "no header 'T/V"]),
        (
            FIRST_ROW,
            1,
            ["no banner", "no header 'T/V", "no residual below the row", "no 'Finished"],
        ),
    ],
)
def test_a_run_without_its_end_is_read_as_far_as_it_goes(
    text: str, tests: int, lacking: list[str]
) -> None:
    output = parse_hpl(text)
    assert (output.tests[0].rate, len(output.tests)) == (1.8001e11, tests)
    assert [
        sentence.startswith(start)
        for sentence, start in zip(output.unverified, lacking, strict=True)
    ] == [True] * len(lacking)


def test_a_row_without_a_residual_has_no_verdict() -> None:
    assert parse_hpl(FIRST_ROW).checks == {"no_test_skipped": True, "success": True}


def test_a_column_of_swaps_is_no_size() -> None:
    header = "T/V         SWP           N    NB     P     Q            Time             Gflops\n"
    row = FIRST_ROW.replace("WR11C2R4", "WRC06R3C38c 211", 1)
    output = parse_hpl(header + row)
    assert (output.best.n, output.best.rate) == (30000, 1.8001e11)
    with pytest.raises(ParseError, match="row of the table is cut off or has other columns"):
        parse_hpl(header + FIRST_ROW.replace("30000   192", "30000"))


test_damaged_output_is_refused = refuses(
    parse_hpl,
    (XHPL[: XHPL.index("2 tests comp")] + "2 tests", "the counts after 'Finished' are damaged"),
    (
        changed(XHPL[: XHPL.index("0 tests comp")], "2 tests completed", "1 tests completed"),
        "HPL counts other tests than the table holds",
    ),
    ("", "no table"),
    ("HPL ERROR from process # 0, on line 1\n>>> Need 4 <<<", "HPL reports an error"),
    (XHPL[: XHPL.index("WR11")], "no 'Finished ... tests"),
    (XHPL + XHPL, "another run begins after the end of the first (line"),
    (changed(XHPL, "               Time", "            Seconds"), "header is not T/V"),
    (changed(XHPL, r"WR11C2R4.*", "WR11C2R4  30000  192"), "row of the table is cut off"),
    (changed(XHPL, r"WR11C2R4.*\n", ""), "a residual without a row"),
    (changed(XHPL, r"\|\|Ax-b\|\|_oo/\(eps.*\n", ""), "no residual line before the next row"),
    (changed(XHPL, "100.00  ", "-100.00 "), "not a positive number"),
    (changed(XHPL, "1.8001e[+]02", "nan"), "'nan' is not a positive number (line"),
    (changed(XHPL, "1.8001e[+]02", "1.8101e+02"), "is not (2/3 N^3 + 3/2 N^2)"),
    (changed(XHPL, "100.00  ", "101.00  "), "is not (2/3 N^3 + 3/2 N^2)"),
    (changed(XHPL, "30000   192", "30001   192"), "N 30001 is not among those"),
    (changed(XHPL, "192     2     2 ", "192     2     4 "), "Q 4 is not among those"),
    (changed(XHPL, "2.11111111e-03", "2.11111111e+03"), "is PASSED against a threshold"),
    (changed(XHPL, "2.11111111e-03", "1.60000000e+01"), "is PASSED against a threshold of 16"),
    (changed(XHPL, "2.11111111e-03", "2.11111111e-0"), "2.11111111e-0 is cut off or damaged"),
    (changed(XHPL, "2.11111111e-03", "2.11111111"), "2.11111111 is cut off or damaged"),
    (changed(XHPL, "PASSED", "PASSET"), "residual line is cut off or of another form"),
    (changed(XHPL, r"Finished      2", "Finished      3"), "3 tests are not 2 passed"),
    (
        changed(changed(XHPL, r"2 tests comp", "1 tests comp"), "Finished      2", "Finished 1"),
        "HPL counts 1 passed and 0 failed tests, the table holds 2 and 0",
    ),
    (changed(NVIDIA, r" \( 1.537e\+04\)", ""), "other columns than the header"),
    (changed(NVIDIA, "1.537e[+]04", "1.637e+04"), "per GPU is not"),
    (HPCC[: HPCC.index("Begin of Summary")], "the output is cut off"),
    (HPCC[: HPCC.index("HPL_time")], "the output is cut off"),
    (HPCC[: HPCC.index("End of HPC Challenge")], "no 'End of HPC Challenge tests.'"),
    (changed(HPCC, r"HPL_time=.*\n", ""), "summary has no HPL_time"),
    (changed(HPCC, r"(HPL_time=.*\n)", r"\1\1"), "HPL_time stands twice (line"),
    (changed(HPCC, r"HPL_Tflops=\S+", "HPL_Tflops=0.00742153"), "HPL_Tflops is not (2/3"),
    (changed(HPCC, r"HPL_npcol=2", "HPL_npcol=3"), "summary and its table differ"),
    (changed(HPCC, r"HPL_RnormI=\d", "HPL_RnormI=7"), "summary and its table differ"),
    (changed(HPCC, "Success=1", "Success=yes"), "Success 'yes' is not a whole number"),
)


def test_only_hpl_is_recognised() -> None:
    texts = (HPCC, HPCC[:300], SUMMARY, XHPL, XHPL[:200], NVIDIA)
    assert [SIGNATURE.recognises(text) for text in texts] == [True] * len(texts)
    assert not SIGNATURE.recognises(
        "Function    Best Rate MB/s  Avg time     Min time     Max time"
    )


def verified(text: str) -> dict[tuple[str, str | None], float]:
    """The figures of a whole output."""
    if parse_hpl(text).unverified:
        raise ParseError("a part of the output is missing")
    return values(text)


test_a_damaged_output_gives_its_own_figures_or_an_error = stands(
    verified, [HPCC, XHPL, NVIDIA], "cut", "lost", "swapped"
)


@settings(max_examples=60, deadline=None)
@given(
    source=st.sampled_from([(HPCC, TABLE), (XHPL, XHPL.index("===\nT/V")), (NVIDIA, 0)]),
    data=st.data(),
    byte=st.characters(min_codepoint=32, max_codepoint=126),
)
def test_a_changed_byte_gives_the_right_numbers_or_an_error(
    source: tuple[str, int], data: st.DataObject, byte: str
) -> None:
    """From the table on. Not detectable: a digit of rate or time within the rounding of the other
    (5e-5 and 5e-4 of these outputs), and the residual of xhpl, which stands once; it is then still
    a number that passes."""
    text, start = source
    right = values(text)
    at = data.draw(st.integers(start, len(text) - 1))
    try:
        got = values(text[:at] + byte + text[at + 1 :])
    except ParseError:
        return
    assert set(got) == set(right)
    for key, value in got.items():
        if key[0] == "hpl_residual":
            assert 0 <= value < 16
        else:
            assert value == pytest.approx(right[key], rel=1e-3)
