"""HPL outputs: recorded files and what must be read from them, or refused."""

from __future__ import annotations

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
XHPL = (DATA / "xhpl23_two_tests.txt").read_text()
NVIDIA = (DATA / "nvidia_8gpu.txt").read_text()
SUMMARY = HPCC[HPCC.index("Begin of Summary") : HPCC.index("End of HPC Challenge")]
TABLE = HPCC.index("Begin of HPL section")


def values(text: str) -> dict[tuple[str, str | None], float]:
    return {(row.name, row.statistic): row.value for row in parse_hpl(text).metrics()}


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
    (changed(XHPL, "               Time", "            Seconds"), "form of the table is not known"),
    # NVIDIA's HPL-AI of 2021 has two columns more.
    (
        changed(XHPL, "Gflops\n", "Gflops    FGMRES    Gflops_IRS\n"),
        "read that of HPL-AI as hpl_mxp",
    ),
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
