"""Parser of High-Performance Linpack's output: xhpl, NVIDIA's HPL, and hpcc with its summary.

- xhpl: a table ``T/V N NB P Q Time Gflops``, for each test a row and a residual line that ends in
  PASSED or FAILED, then ``Finished N tests ...`` with the counts, and ``End of Tests.``
- NVIDIA's HPL has ``Gflops ( per GPU)`` in the table, AMD's HPL a column ``SWP``.
- Of a run that did not reach its end, or of which rows alone were kept, the tests are read, and
  ``unverified`` says what is missing.
- hpcc writes the same table into hpccoutf.txt, and at its end a summary of ``name=value``, whose
  HPL figures have six digits.

The formats and the count of flop are those of HPL's HPL_pdtest.c and hpcc's HPL_pdtest.c:
(2/3 N^3 + 3/2 N^2) / time, which the printed rate must equal within the printed rounding.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Dict, List, Match, Optional, Pattern, Sequence, Set, Tuple

from ...errors import ParseError
from ...reading import Line, lines_of
from ...record import Metric, summarise

TOOL = "hpl"

HEADER = re.compile(
    r"T/V(?P<swap>\s+SWP)?\s+N\s+NB\s+P\s+Q\s+Time\s+Gflops(?P<per_gpu>\s*\(\s*per GPU\s*\))?"
)
_ROW = re.compile(
    r"(W[RC]\w+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+([^\s(]+)(?:\s*\(\s*(\S+?)\s*\))?"
)
_SWAP = re.compile(r"(W[RC]\w+\s+)\d+\s+(?=(?:\d+\s+){4})")
_RESIDUAL = re.compile(
    r"\|\|Ax-b\|\|_oo/\(eps\*\(\|\|A\|\|_oo\*\|\|x\|\|_oo\+\|\|b\|\|_oo\)\*N\)=\s*(\S+)"
    r" \.{6} (PASSED|FAILED)"
)
# %.7f, %.8e since HPL 2.3, and %.12f of NVIDIA's HPL 23 to 25.
_FIGURE_OF_RESIDUAL = re.compile(r"[0-9]+\.(?:[0-9]{7}|[0-9]{9,16})|[0-9]\.[0-9]{8}e[+-][0-9]{2,3}")
_NO_END = (
    "no 'Finished ... tests with the following results:' after the table: tests may be missing"
)
_NO_COUNTS = "the counts after 'Finished' are not whole: tests may be missing"
_NO_LAST_LINE = "no 'End of Tests.' at the end"
_NO_HEADER = "no header 'T/V N NB P Q Time Gflops' above the rows"
_NO_RESIDUAL = "no residual below the row of {}: its solution is not known to be right"
_NOT_YET = "the last row, of {}, has no residual yet, and does not count"
_NO_BANNER = "no banner 'HPLinpack ...': the settings of the run are not in the text"
_THRESHOLD = re.compile(r"- Computational tests pass if scaled residuals are less than\s+(\S+)")
_ENDING = (
    re.compile(r"Finished\s+(\d+) tests with the following results:"),
    re.compile(r"(\d+) tests completed and passed residual checks,"),
    re.compile(r"(\d+) tests completed and failed residual checks,"),
    re.compile(r"(\d+) tests skipped because of illegal input values\."),
)
_BANNER = re.compile(r"HPLinpack ([\d.]+)\s+--\s+High-Performance Linpack benchmark.*")
_NVIDIA = re.compile(r"HPL-NVIDIA\s+v?([\d.]+).*")
_HPCC = re.compile(r"This is the DARPA/DOE HPC Challenge Benchmark version ([\d.]+).*")
_HPCC_END = "End of HPC Challenge tests."
_SUMMARY_BEGIN, _SUMMARY_END = "Begin of Summary section.", "End of Summary section."
# hpcc's keys to the columns that they repeat.
_GRID_KEYS = {"HPL_N": "n", "HPL_NB": "nb", "HPL_nprow": "p", "HPL_npcol": "q"}
_NORM_KEYS = ("HPL_eps", "HPL_RnormI", "HPL_AnormI", "HPL_XnormI", "HPL_BnormI")
# HPL's and hpcc's own bound of the scaled residual, where the output does not print it.
_STANDARD_THRESHOLD = 16.0
_ERROR = "HPL ERROR from process"
# hpcc prints the settings that it read, and those of its HPL section above that table.
_SETTINGS_BEGIN = "The following parameter values will be used"
# HPL-NVIDIA rounds N to a multiple of the blocks.
_CHANGED_N = re.compile(r"\[WARNING\] Change Input N \d+ to (\d+)")


@dataclass(frozen=True)
class HplTest:
    """One solved system.

    Attributes:
        variant: HPL's code of the algorithm, empty where only hpcc's summary is there.
        n, nb, p, q: order, block size, rows and columns of the grid.
        seconds: time to solve.
        rate: flop/s as printed.
        residual: the scaled residual; None where the tool found it to be no number, or none stands
            below the row.
        passed: whether the tool took the residual as passed; False where none stands below the row.
        has_residual: whether one does.
        gpus: of NVIDIA's HPL, which has a rank on each; None where the output names none.
    """

    variant: str
    n: int
    nb: int
    p: int
    q: int
    seconds: float
    rate: float
    residual: Optional[float]
    passed: bool
    gpus: Optional[int] = None
    has_residual: bool = True

    @property
    def label(self) -> str:
        """Its settings in one word."""
        return f"n{self.n}-nb{self.nb}-{self.p}x{self.q}-{self.variant or 'unknown'}"


@dataclass(frozen=True)
class HplOutput:
    """All tests of one run, in the order in which they ran.

    ``unverified``: parts of the output that the text lacks, and with them checks.
    """

    tests: Tuple[HplTest, ...]
    skipped: int = 0
    success: bool = True
    tool_version: Optional[str] = None
    warnings: List[str] = field(default_factory=list)
    unverified: Tuple[str, ...] = ()

    @property
    def is_sweep(self) -> bool:
        """Whether the tests are of several kinds, and no repeats of one."""
        return len({test.label for test in self.tests}) > 1

    @property
    def best(self) -> HplTest:
        """The fastest test that passed; of tests that all failed the fastest."""
        return max(self.tests, key=lambda test: (test.passed, test.rate))

    @property
    def ranks(self) -> Optional[int]:
        """Processes of the grid, where all tests have the same number."""
        counts = {test.p * test.q for test in self.tests}
        return counts.pop() if len(counts) == 1 else None

    @property
    def gpu_count(self) -> Optional[int]:
        """GPUs of NVIDIA's HPL; None where the output names none."""
        counts = {test.gpus for test in self.tests}
        return counts.pop() if len(counts) == 1 else None

    @property
    def parameters(self) -> Dict[str, str]:
        """n, nb, p, q and gpus of the test that the figures are of."""
        sizes = {name: getattr(self.best, name) for name in ("n", "nb", "p", "q", "gpus")}
        return {name: str(size) for name, size in sizes.items() if size is not None}

    @property
    def checks(self) -> Dict[str, bool]:
        """Whether every residual passed and no test was skipped; hpcc's own verdict."""
        judged = [test.passed for test in self.tests if test.has_residual]
        return {
            **({"residual": all(judged)} if judged else {}),
            "no_test_skipped": self.skipped == 0,
            "success": self.success,
        }

    def metrics(self) -> List[Metric]:
        """hpl_rate [flop/s], hpl_time [s], hpl_residual [1]: of several tests of one kind the
        median, least and most, else those of the best; of these hpl_test_rate of each test too."""
        tests = [self.best] if self.is_sweep else self.tests
        residuals = [test.residual for test in tests if test.residual is not None]
        columns: List[Tuple[str, List[float], str, str]] = [
            ("hpl_rate", [test.rate for test in tests], "flop/s", "higher"),
            ("hpl_time", [test.seconds for test in tests], "s", "lower"),
            ("hpl_residual", residuals, "1", "lower"),
        ]
        rows: List[Metric] = []
        for name, values, unit, direction in columns:
            if len(tests) > 1 and values:
                rows += summarise(name, values, unit, direction)
            else:
                rows += [Metric(name, v, unit, direction, statistic="single", n=1) for v in values]
        by_label: Dict[str, List[float]] = {}
        for test in self.tests if self.is_sweep else ():
            by_label.setdefault(test.label, []).append(test.rate)
        for label, rates in by_label.items():
            rows.append(
                Metric("hpl_test_rate", max(rates), "flop/s", "higher", device=label, n=len(rates))
            )
        return rows


def parse_hpl(text: str) -> HplOutput:
    """Read the output of one run.

    Raises:
        ParseError: no table and no summary, a test without its row or residual, counts at the end
            that are missing or differ, figures that are no positive numbers or contradict each
            other.
    """
    lines = [Line(line.strip(), line.number) for line in lines_of(text)]
    summary = _summary(lines)
    hpcc = _first(_HPCC, lines)
    if hpcc is not None and _HPCC_END not in lines:
        raise ParseError(f"no {_HPCC_END!r} at the end: the output is cut off")
    tests: List[HplTest] = []
    skipped = 0
    unverified: Tuple[str, ...] = ()
    # hpcc's summary may stand alone; where anything of a table is left, all of it must be there.
    if not summary or hpcc or any(line.startswith(("HPLinpack ", "||Ax-b")) for line in lines):
        tests, skipped, lacking = _table(lines)
        unverified = ((_NO_BANNER,) if lacking and not _version(lines) else ()) + lacking
    if hpcc is not None and not summary:
        raise ParseError("hpcc's output has no summary (HPL_Tflops=...)")
    warnings = [f"HPL printed an error: {after}" for after in _errors(lines)]
    success = True
    if summary:
        success = _int(summary, "Success") == 1
        tests = _with_summary(tests, summary)
        if not tests[0].variant:
            warnings.append("the residual is computed from the norms of hpcc's summary")
    output = HplOutput(tuple(tests), skipped, success, _version(lines), warnings, unverified)
    if output.is_sweep:
        warnings.append(
            f"{len(tests)} tests of several kinds: the figures are those of the best,"
            f" {output.best.label}"
        )
    return output


def _version(lines: Sequence[Line]) -> Optional[str]:
    """The program's name and version: "2.3", "hpcc 1.5.0"; None where it prints none."""
    patterns = {"{}": _BANNER, "HPL-NVIDIA {}": _NVIDIA, "hpcc {}": _HPCC}
    matches = {words: _first(pattern, lines) for words, pattern in patterns.items()}
    return (
        ", ".join(words.format(match.group(1)) for words, match in matches.items() if match) or None
    )


def _first(pattern: Pattern[str], lines: Sequence[Line]) -> Optional[Match[str]]:
    return next((match for match in map(pattern.fullmatch, lines) if match), None)


def _errors(lines: Sequence[Line]) -> List[str]:
    """The text below each ``HPL ERROR from process``, each once."""
    messages = [
        " ".join(lines[number + 1 : number + 2]).strip("<> ") or line
        for number, line in enumerate(lines)
        if line.startswith(_ERROR)
    ]
    return list(dict.fromkeys(messages))


# ---- the table


def _table(lines: Sequence[Line]) -> Tuple[List[HplTest], int, Tuple[str, ...]]:
    """The tests, how many were skipped, and which parts of the output are missing."""
    header, at = _header(lines)
    end = next((line for line in lines[at:] if _ENDING[0].fullmatch(line)), None)
    tests, last = _rows(lines[at : None if end is None else end.number - 1], lines[:at], header)
    lacking = [] if header else [_NO_HEADER]
    if last is not None and end is not None:
        raise last[0].error("the row has no residual line")
    if last is not None and not tests:
        tests, last = [replace(last[1], has_residual=False)], None
        lacking.append(_NO_RESIDUAL.format(tests[0].label))
    if end is None:
        if not tests:
            raise ParseError(_NO_END)
        left_out = [] if last is None else [_NOT_YET.format(last[1].label)]
        return tests, 0, (*lacking, _NO_END, *left_out)
    skipped, missing = _ending(lines, end, tests)
    return tests, skipped, (*lacking, *missing)


def _rows(
    lines: Sequence[Line], above: Sequence[Line], header: Optional[Match[str]]
) -> Tuple[List[HplTest], Optional[Tuple[Line, HplTest]]]:
    """The tests of the table, and its last row where no residual stands below it."""
    threshold, echoes = _preamble(above)
    tests: List[HplTest] = []
    row: Optional[Tuple[Line, HplTest]] = None
    for line in lines:
        if line.startswith("T/V ") and not HEADER.fullmatch(line):
            raise line.error("this form of the table is not known; read that of HPL-AI as hpl_mxp")
        if re.match(r"W[RC]\w*\s", line):
            if row is not None:
                raise line.error("no residual line before the next row")
            row = (line, _row(line, echoes, header))
        elif line.startswith("||Ax-b||_oo/"):
            if row is None:
                raise line.error("a residual without a row of the table before it")
            tests.append(_test(row[1], line, threshold))
            row = None
    return tests, row


def _header(lines: Sequence[Line]) -> Tuple[Optional[Match[str]], int]:
    """The table's first header, None where rows stand without it, and how many lines stand above
    the rows."""
    for line in lines:
        if header := HEADER.fullmatch(line):
            return header, line.number
        if line.startswith("T/V ") and "Gflops" in line:
            raise line.error("this form of the table is not known; read that of HPL-AI as hpl_mxp")
        if _ROW.fullmatch(line):
            return None, line.number - 1
        if _RESIDUAL.fullmatch(line):
            raise line.error("a residual without a row of the table before it")
    for line in lines:
        if line.startswith(_ERROR):
            raise line.error("HPL reports an error and has no table")
    raise ParseError("no table 'T/V N NB P Q Time Gflops'")


def _preamble(lines: Sequence[Line]) -> Tuple[float, List[Tuple[str, Set[int]]]]:
    """The threshold of the residuals, and the announced runs: (N, values), (NB, values)."""
    threshold = _STANDARD_THRESHOLD
    echoes: List[Tuple[str, Set[int]]] = []
    open_list: Optional[Set[int]] = None
    for line in lines:
        threshold_match = _THRESHOLD.fullmatch(line)
        if threshold_match:
            threshold = float(_positive(threshold_match.group(1), "threshold", line))
        changed = _CHANGED_N.fullmatch(line)
        if line.startswith(_SETTINGS_BEGIN):
            echoes.clear()
        echo = re.fullmatch(r"(N|NB|P|Q)\s+:((?:\s+\d+)+)", line)
        if changed:
            next((sizes for name, sizes in echoes if name == "N"), set()).add(int(changed[1]))
        elif echo:
            open_list = {int(number) for number in echo.group(2).split()}
            echoes.append((echo.group(1), open_list))
        elif open_list is not None and re.fullmatch(r"\d[\d\s]*", line):
            open_list.update(int(number) for number in line.split())
        else:
            open_list = None
    return threshold, echoes


def _row(
    line: Line, echoes: Sequence[Tuple[str, Set[int]]], header: Optional[Match[str]]
) -> HplTest:
    swaps = header is not None and header["swap"]
    match = _ROW.fullmatch(_SWAP.sub(r"\1", line) if swaps else line)
    if not match:
        raise line.error("a row of the table is cut off or has other columns")
    variant, *sizes, time_text, gflops_text, gpu_text = match.groups()
    n, nb, p, q = (int(size) for size in sizes)
    if 0 in (n, nb, p, q):
        raise line.error("N, NB, P or Q is 0")
    if header is not None and (gpu_text is not None) != (header["per_gpu"] is not None):
        raise line.error("the row has other columns than the header")
    time = _positive(time_text, "Time", line, zero=True)
    gflops = _positive(gflops_text, "Gflops", line)
    for name, allowed in echoes:
        value = {"N": n, "NB": nb, "P": p, "Q": q}[name]
        if value not in allowed:
            raise line.error(
                f"{name} {value} is not among those that HPL said it would run, {sorted(allowed)}"
            )
    if not _rate_agrees(n, (time, _half(time)), (gflops, _half(gflops))):
        raise line.error(
            f"{gflops_text} Gflops is not (2/3 N^3 + 3/2 N^2) / {time_text} s for N {n}"
        )
    if gpu_text is not None:
        gpu = _positive(gpu_text, "Gflops per GPU", line)
        if abs(gpu * p * q - gflops) > _half(gpu) * p * q + _half(gflops):
            raise line.error(f"{gpu_text} per GPU is not {gflops_text} / {p * q}")
    rate = float(gflops.scaleb(9))
    return HplTest(
        variant,
        *(n, nb, p, q),
        float(time),
        rate,
        residual=None,
        passed=False,
        gpus=p * q if gpu_text is not None else None,
    )


def _test(row: HplTest, line: Line, threshold: float) -> HplTest:
    """The row with its residual."""
    match = _RESIDUAL.fullmatch(line)
    if not match:
        raise line.error("the residual line is cut off or of another form")
    passed = match.group(2) == "PASSED"
    residual: Optional[float] = None
    if not re.fullmatch(r"[+-]?(?:nan|inf)", match.group(1), re.IGNORECASE):
        residual = float(_positive(match.group(1), "residual", line, zero=True))
        if not _FIGURE_OF_RESIDUAL.fullmatch(match.group(1)):
            raise line.error(f"residual {match.group(1)} is cut off or damaged")
    if passed != (residual is not None and residual < threshold):
        raise line.error(
            f"residual {match.group(1)} is {match.group(2)} against a threshold of {threshold:g}"
        )
    return replace(row, residual=residual, passed=passed)


def _ending(
    lines: Sequence[Line], end: Line, tests: Sequence[HplTest]
) -> Tuple[int, Tuple[str, ...]]:
    """Check the counts at the end against the tests read; how many tests HPL skipped, and which
    parts of the end are missing."""
    counts = _counts(lines, end)
    read = (sum(test.passed for test in tests), sum(not test.passed for test in tests))
    if len(counts) < len(_ENDING):
        if not tests or any(number != count for number, count in zip(counts[1:], read)):
            raise end.error("HPL counts other tests than the table holds")
        return 0, (_NO_COUNTS, _NO_LAST_LINE)
    finished, passed, failed, skipped = counts
    if finished != passed + failed + skipped:
        raise end.error(
            f"{finished} tests are not {passed} passed, {failed} failed and {skipped} skipped"
        )
    if (passed, failed) != read:
        raise end.error(
            f"HPL counts {passed} passed and {failed} failed tests, the table holds {read[0]} and "
            f"{read[1]}"
        )
    if not tests:
        raise end.error(f"all {skipped} tests were skipped")
    rest = lines[end.number + len(_ENDING) - 1 :]
    for line in rest:
        if any(pattern.fullmatch(line) for pattern in (HEADER, _RESIDUAL, _ENDING[0])):
            raise line.error("another run begins after the end of the first")
    return skipped, () if "End of Tests." in rest else (_NO_LAST_LINE,)


def _counts(lines: Sequence[Line], end: Line) -> List[int]:
    """The counts at the end: tests finished, passed, failed and skipped, as far as the text has
    them."""
    counts: List[int] = []
    for pattern, line in zip(_ENDING, lines[end.number - 1 :]):
        match = pattern.fullmatch(line)
        if match:
            counts.append(int(match.group(1)))
        elif any(lines[line.number - 1 :]):
            raise line.error("the counts after 'Finished' are damaged")
        else:
            break
    return counts


# ---- hpcc's summary


def _summary(lines: Sequence[Line]) -> Dict[str, Tuple[Line, str]]:
    """hpcc's keys to line and value; empty where the output has no summary."""
    keys: Dict[str, Tuple[Line, str]] = {}
    for line in lines:
        match = re.fullmatch(r"(\w+)=(\S*)", line)
        if match and (match.group(1).startswith("HPL_") or match.group(1) == "Success"):
            if match.group(1) in keys:
                raise line.error(f"{match.group(1)} stands twice")
            keys[match.group(1)] = (line, match.group(2))
    if not any(name.startswith("HPL_") for name in keys):
        if _SUMMARY_BEGIN in lines:
            raise ParseError("hpcc's summary has no HPL figures: the output is cut off")
        return {}
    if _SUMMARY_END not in lines:
        raise ParseError(f"no {_SUMMARY_END!r}: the output is cut off")
    for name in ("Success", "HPL_Tflops", "HPL_time", *_GRID_KEYS, *_NORM_KEYS):
        if name not in keys:
            raise ParseError(f"hpcc's summary has no {name}")
    return keys


def _int(summary: Dict[str, Tuple[Line, str]], name: str) -> int:
    line, text = summary[name]
    if not re.fullmatch(r"\d+", text):
        raise line.error(f"{name} {text!r} is not a whole number")
    return int(text)


def _with_summary(tests: Sequence[HplTest], summary: Dict[str, Tuple[Line, str]]) -> List[HplTest]:
    """The tests with the summary's more precise figures; the test that it stands for alone where
    there is no table."""
    figures = {
        name: _positive(summary[name][1], name, summary[name][0])
        for name in ("HPL_Tflops", "HPL_time", *_NORM_KEYS)
    }
    size = {column: _int(summary, name) for name, column in _GRID_KEYS.items()}
    line = summary["HPL_Tflops"][0]
    time, gflops = figures["HPL_time"], figures["HPL_Tflops"].scaleb(3)
    if 0 in size.values():
        raise line.error("HPL_N, HPL_NB, HPL_nprow or HPL_npcol is 0")
    if not _rate_agrees(size["n"], (time, _half(time, 6)), (gflops, _half(gflops, 6))):
        raise line.error(f"HPL_Tflops is not (2/3 N^3 + 3/2 N^2) / HPL_time for N {size['n']}")
    eps, rnorm, anorm, xnorm, bnorm = (float(figures[name]) for name in _NORM_KEYS)
    residual = rnorm / (eps * (anorm * xnorm + bnorm) * size["n"])
    if not math.isfinite(residual):
        raise line.error("the summary's norms give no finite residual")
    if not tests:
        passed = residual < _STANDARD_THRESHOLD
        seconds, rate = float(time), float(gflops.scaleb(9))
        sizes = (size["n"], size["nb"], size["p"], size["q"])
        return [HplTest("", *sizes, seconds=seconds, rate=rate, residual=residual, passed=passed)]
    for index, test in enumerate(tests):
        if _same(test, size, time, gflops, residual):
            exact = replace(test, seconds=float(time), rate=float(gflops.scaleb(9)))
            return [*tests[:index], exact, *tests[index + 1 :]]
    raise line.error("hpcc's summary and its table differ")


def _same(
    test: HplTest, size: Dict[str, int], time: Decimal, gflops: Decimal, residual: float
) -> bool:
    """Whether a test of the table (time to 0.01 s, rate to 4 digits) is the one of the summary."""
    return (
        all(getattr(test, name) == value for name, value in size.items())
        and abs(test.seconds - float(time)) <= 0.005 + float(_half(time, 6))
        and math.isclose(test.rate, float(gflops) * 1e9, rel_tol=6e-4)
        # Seven decimals in the table, six digits in the norms.
        and test.residual is not None
        and abs(test.residual - residual) <= 1e-7 + 2e-5 * residual
    )


# ---- figures


def _positive(text: str, name: str, line: Line, *, zero: bool = False) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise line.error(f"{name} {text!r} is not a number") from None
    if not value.is_finite() or value < 0 or (value == 0 and not zero):
        raise line.error(f"{name} {text!r} is not a positive number")
    if value.adjusted() > 30 or (value and value.adjusted() < -30):
        raise line.error(f"{name} {text!r} is absurd")
    return value


def _half(value: Decimal, digits: Optional[int] = None) -> Decimal:
    """Half of the last printed digit; of ``digits`` digits where the format drops zeros (%g)."""
    last = int(value.as_tuple().exponent) if digits is None else value.adjusted() - digits + 1
    return Decimal(5).scaleb(last - 1)


def _rate_agrees(n: int, time: Tuple[Decimal, Decimal], gflops: Tuple[Decimal, Decimal]) -> bool:
    """Whether rate and time, each within its rounding, belong to one count of flop."""
    gflop = (Decimal(2) / 3 * n**3 + Decimal(3) / 2 * n**2).scaleb(-9)
    slack = Decimal("1e-9") * gflop
    least = (time[0] - time[1]) * (gflops[0] - gflops[1])
    most = (time[0] + time[1]) * (gflops[0] + gflops[1])
    return least - slack <= gflop <= most + slack
