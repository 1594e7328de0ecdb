"""Parser of IOR 2 to 4: words, JSON and CSV (hpc/ior at 2.10.3 to 4.0.0, src/ior-output.c).

A run holds one or more tests: its settings, a table with a row for each operation and repetition,
and a table over the repetitions, which the tool's end has for all tests::

    access    bw(MiB/s)  IOPS  Latency(s)  block(KiB) xfer(KiB)  open(s)  wr/rd(s) ...  iter
    write     427.23     9530  300.09      45.91      45.91      0.026939 419.71   ...  0
    Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)  ...  Test# #Tasks tPN reps ...

JSON has the same under ``tests`` and ``summary``. All rates are of MiB.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from trueup_node.errors import ParseError
from trueup_node.reading import Line, refuse_long_numbers
from trueup_node.record import Metric

from ...labelled import Labelled, short_lines
from .signatures import BANNER, BEST, HEADER, SUMMARY

TOOL = "ior"
_MIB: Final = 2.0**20
_SETTING = re.compile(r"\s*(?P<name>[A-Za-z][\w ()-]{0,30}?)\s*[:=]\s+(?P<value>\S.*?)\s*")
_FINISHED = re.compile(r"\s*(?:Finished|Run finished)\s*:.*")
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,2})?")
_VERSION = re.compile(r'^IOR-(\d\S*): MPI|"Version": "([^"]{1,40})"', re.MULTILINE)
_OPTIONS = re.compile(r'"Options": (?=\{)')
_ROW = re.compile(r'(?=\{\s{0,40}"access")')
_TABLE = re.compile(r'"summary": (?=\[)')
_CLIENTS = re.compile(r"(\d{1,7}) \((\d{1,5}) per node\)")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) (bytes|[KMGTP]iB)")
_UNITS: Final = {unit: 1024.0**power for power, unit in enumerate(("bytes", "KiB", "MiB", "GiB"))}
_UNITS.update({"TiB": 1024.0**4, "PiB": 1024.0**5})
_PARAMETERS: Final = {
    "api": "api",
    "access": "access",
    "type": "type",
    "segments": "segments",
    "ordering in a file": "ordering",
    "xfersize": "transfer",
    "blocksize": "block",
    "memorybuffer": "memory",
}
# Where a test is, how often it ran, and on how many: no parameters of the work.
_ASIDE: Final = frozenset(
    (
        *("test filename", "apiversion", "nodes", "tasks", "clients", "clients per node"),
        *("repetitions", "aggregate filesize", "ordering inter file", "task offset"),
        *("reorder random seed", "path", "fs", "machine", "command line", "command line used"),
        *("began", "run began", "testid", "starttime", "finished", "run finished"),
        *("participating tasks", "dataaccess", "gpudirect"),
    )
)
# Of a warning, characters that are shown.
_LONGEST: Final = 120
_COLUMNS_OF_TOTALS: Final = {"Max(MiB)", "Min(MiB)", "Mean(MiB)"}
# Of JSON that is not IOR's.
_UNKNOWN_FORM: Final = (
    *(LookupError, TypeError, AttributeError, ArithmeticError, ValueError, RecursionError),
)
_OPERATIONS: Final = ("write", "read")


class _Repetition(NamedTuple):
    """A row: an operation of one repetition, in MiB/s and s. ``number`` is the repetition's;
    ``moved`` are the bytes by the rate of operations."""

    line: Line | None
    operation: str
    rate: float
    seconds: float | None
    number: int | None = None
    moved: float | None = None


class _Total(NamedTuple):
    """A row over the repetitions: rates in MiB/s, operations/s where they are printed. A line 'Max
    Write' has the greatest rate alone."""

    line: Line | None
    operation: str
    test: str
    most: float
    least: float | None
    mean: float | None
    operations: float | None
    repetitions: int | None
    mib: float | None
    tasks: int | None
    per_node: int | None
    transfer: float | None = None


class _Run(NamedTuple):
    """What a run prints, whatever the form."""

    version: str | None
    tests: list[Mapping[str, str]]
    repetitions: list[tuple[int, _Repetition]]
    totals: list[_Total]
    best: Mapping[str, tuple[Line, float]]
    ended: bool
    messages: tuple[str, ...] = ()
    limited: bool = False

    def settings(self, test: int) -> Mapping[str, str]:
        """Those of a test; empty where they are not printed."""
        return self.tests[test] if 0 <= test < len(self.tests) else {}

    def is_whole(self) -> bool:
        """Whether the run ended, or holds every repetition. IO500 prints no end."""
        counts = Counter((test, row.operation) for test, row in self.repetitions)
        return self.ended or (
            bool(counts)
            and all(
                self.settings(test).get("repetitions") == str(count)
                for (test, _), count in counts.items()
            )
        )


def parse_ior(text: str) -> Labelled:
    """Read one run.

    Raises:
        ParseError: it has no result, or two of its figures contradict each other.
    """
    banners = [line for line in short_lines(text) if BANNER.fullmatch(line)]
    if len(banners) > 1:
        raise banners[1].error("a second run: read one at a time")
    run = _of_json(text) if '"bwMaxMIB"' in text else _of_words(short_lines(text))
    totals = run.totals or list(_totals_of(run))
    if not totals:
        raise ParseError("no result of a write or a read: the run is not complete")
    _cross_check(run, totals)
    several = len({total.test for total in totals}) > 1
    settings = run.settings(0)
    nodes, tasks = _resources(settings, totals)
    unknown = {
        name: value
        for name, value in settings.items()
        if name not in _PARAMETERS and name not in _ASIDE
    }
    return Labelled(
        rows=tuple(row for total in totals for row in _rows(total, several=several)),
        parameters=_parameters(run.tests, totals),
        warnings=run.messages
        if run.totals
        else (*run.messages, "no table over the repetitions: rates have the digits of the rows"),
        unverified=_missing(run),
        tool_version=run.version,
        node_count=nodes,
        ranks=tasks,
        not_judged=unknown,
    )


def _missing(run: _Run) -> tuple[str, ...]:
    missing = []
    if not run.is_whole():
        missing.append("no end of the run ('Finished'), nor all of its repetitions")
    if not run.totals and not run.repetitions:
        missing.append("no table of the rates: the mean is not known")
    counts = Counter((test, row.operation) for test, row in run.repetitions)
    if len(set(counts.values())) > 1:
        missing.append(
            "operations have different numbers of repetitions: "
            + ", ".join(f"{operation} {count}" for (_, operation), count in counts.items())
        )
    if not run.tests:
        missing.append("no settings of the test: its size and its processes are not known")
    return tuple(missing)


def _rows(total: _Total, *, several: bool) -> list[Metric]:
    where: dict[str, Any] = {"device": f"test{total.test}"} if several else {}
    if total.repetitions:
        where["n"] = total.repetitions
    name = f"ior_{total.operation}_bandwidth"
    figures = {"mean": total.mean, "min": total.least, "max": total.most}
    rows = [
        Metric(name, figure * _MIB, "byte/s", "higher", statistic=statistic, **where)
        for statistic, figure in figures.items()
        if figure is not None
    ]
    if total.operations is not None:
        name = f"ior_{total.operation}_rate"
        rows.append(Metric(name, total.operations, "1/s", "higher", statistic="mean", **where))
    return rows


def _totals_of(run: _Run) -> Iterable[_Total]:
    """The rates over the repetitions of a run that prints no table of them."""
    tests = sorted({test for test, _ in run.repetitions})
    for test in tests:
        for operation in _OPERATIONS:
            rates = [
                row.rate
                for number, row in run.repetitions
                if (number, row.operation) == (test, operation)
            ]
            if rates:
                mean = math.fsum(rates) / len(rates)
                figures = (max(rates), min(rates), mean)
                yield _Total(
                    None, operation, str(test), *figures, None, len(rates), None, None, None
                )
    if not tests:
        for operation, (line, rate) in run.best.items():
            yield _Total(line, operation, "0", rate, None, None, None, None, None, None, None)


class _Words:
    """What is read of an output in words, line by line."""

    def __init__(self) -> None:
        self.tests: list[dict[str, str]] = []
        self.repetitions: list[tuple[int, _Repetition]] = []
        self.totals: list[_Total] = []
        self.best: dict[str, tuple[Line, float]] = {}
        self.warnings: list[str] = []
        self.ended = False
        self.tables = 0
        self.table: list[str] = []
        self.is_summary = False
        self.in_settings = False

    def add(self, line: Line) -> None:
        """One line."""
        words = _words(line)
        if HEADER.fullmatch(line) or SUMMARY.fullmatch(line):
            self.is_summary = not HEADER.fullmatch(line)
            self.tables += not self.is_summary
            self.table, self.in_settings = _header(line), False
            lacking = (_COLUMNS_OF_TOTALS if self.is_summary else {"bw", "iter"}) - {*self.table}
            if lacking:
                raise line.error(f"this header has no column {', '.join(sorted(lacking))}")
        elif self.table and words and words[0] in _OPERATIONS:
            self.add_row(line, words)
        elif self.in_settings and (match := _SETTING.fullmatch(line)):
            self.tests[-1][match["name"].strip().lower()] = match["value"]
        else:
            self.add_other(line)

    def add_row(self, line: Line, words: list[str]) -> None:
        """A row of either table."""
        if self.is_summary:
            self.totals.append(_total(line, words, self.table))
        else:
            self.repetitions.append((self.tables - 1, _repetition(line, words, self.table)))

    def add_other(self, line: Line) -> None:
        """A line that is no setting, header or row."""
        if match := BEST.fullmatch(line):
            self.best[match["operation"].lower()] = (line, _number(line, match["rate"]))
            _check_best(line, match)
        self.ended = self.ended or bool(match or _FINISHED.fullmatch(line))
        if line.strip() in ("Options:", "Summary:"):
            self.tests.append({})
            self.in_settings, self.table = True, []
        elif "WARNING" in line or "ERROR" in line:
            self.warnings.append(line.strip()[:_LONGEST])


def _of_words(lines: list[Line]) -> _Run:
    read = _Words()
    for line in lines:
        read.add(line)
    version = next((match["version"] for match in map(BANNER.fullmatch, lines) if match), None)
    first = [f"{len(read.warnings)} lines of warnings, first {text!r}" for text in read.warnings]
    limited = any("stonewall" in line.lower() and not SUMMARY.fullmatch(line) for line in lines)
    return _Run(
        version,
        [*read.tests],
        read.repetitions,
        read.totals,
        read.best,
        read.ended,
        tuple(first[:1]),
        limited,
    )


def _words(line: Line) -> list[str]:
    text = line.strip()
    return text.split(",") if re.match(r"[a-z]+,", text) else text.split()


def _header(line: Line) -> list[str]:
    """The columns of a table; a name may have a blank before its unit. The second of two
    deviations is the operations'."""
    names = _words(Line(re.sub(r" (?=\()", "", line.replace("Std Dev", "StdDev")), line.number))
    return [
        name.partition("(")[0] if "(OPs)" not in name and "(MiB)" not in name else name
        for name in names
    ]


def _number(line: Line, text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise line.error(f"{text!r} is not a figure")
    return float(text)


def _cells(line: Line, words: Sequence[str], table: Sequence[str]) -> dict[str, str]:
    """The cells of a row by column. A remark may stand behind the last one."""
    # Only a remark may stand behind the last column.
    if len(words) < len(table) or any(word[:1].isdecimal() for word in words[len(table) :]):
        raise line.error(f"the row has {len(words)} columns and its header {len(table)}")
    return dict(zip(reversed(table), reversed(words[: len(table)]), strict=True))


def _repetition(line: Line, words: Sequence[str], table: Sequence[str]) -> _Repetition:
    cells = _cells(line, words, table)
    figures = {
        name: _number(line, cells[name])
        for name in ("bw", "total", "IOPS", "xfer", "wr/rd")
        if name in cells
    }
    moved = None
    if {"IOPS", "xfer", "wr/rd"} <= figures.keys():
        moved = figures["IOPS"] * figures["xfer"] * 1024 * figures["wr/rd"]
    number = cells["iter"]
    if not number.isdecimal():
        raise line.error(f"the repetition {number!r} is not a whole number")
    return _Repetition(line, words[0], figures["bw"], figures.get("total"), int(number), moved)


def _total(line: Line, words: Sequence[str], table: Sequence[str]) -> _Total:
    cells = _cells(line, words, table)

    def count(name: str) -> int | None:
        return int(_number(line, cells[name])) if name in cells else None

    operations = cells.get("Mean(OPs)")
    if not cells.get("Test#", "0").isdecimal():
        raise line.error(f"the test {cells['Test#']!r} is not a whole number")
    return _Total(
        line,
        words[0],
        cells.get("Test#", "0"),
        _number(line, cells["Max(MiB)"]),
        _number(line, cells["Min(MiB)"]),
        _number(line, cells["Mean(MiB)"]),
        None if operations is None else _number(line, operations),
        count("reps"),
        _number(line, cells["aggs(MiB)"]) if "aggs(MiB)" in cells else None,
        count("#Tasks"),
        count("tPN"),
        _number(line, cells["xsize"]) if "xsize" in cells else None,
    )


def _of_json(text: str) -> _Run:
    """The run by its settings, rows and table: what is around them is no JSON in IOR 3.2."""
    refuse_long_numbers(text)
    try:
        options = list(_objects(text, _OPTIONS))
        tests = [
            {str(name).lower(): str(value) for name, value in option.items()}
            for _, option in options
        ]
        repetitions = _json_rows(text, [begin for begin, _ in options])
        rows = [row for _, table in _objects(text, _TABLE) for row in table]
        totals = [_json_total(row) for row in rows if row["operation"] in _OPERATIONS]
    except _UNKNOWN_FORM as error:
        raise ParseError(f"this form of IOR's JSON is not known ({error!r})") from None
    _refuse_odd(repetitions, totals)
    version = _VERSION.search(text)
    return _Run(
        version and (version[1] or version[2]),
        [*tests],
        repetitions,
        totals,
        {},
        '"Finished"' in text,
        (),
        '"deadlineForStonewall": 0' not in text,
    )


def _json_rows(text: str, tests: Sequence[int]) -> list[tuple[int, _Repetition]]:
    """The rows of repetitions, each with its test.

    Args:
        text: the output.
        tests: the place of each test in it.
    """
    return [
        (
            sum(before < begin for before in tests) - 1,
            _Repetition(None, row["access"], float(row["bwMiB"]), float(row["totalTime"])),
        )
        for begin, row in _objects(text, _ROW)
        if row["access"] in _OPERATIONS
    ]


def _refuse_odd(repetitions: Sequence[tuple[int, _Repetition]], totals: Sequence[_Total]) -> None:
    """Refuse figures that no measurement can be: JSON has Infinity, NaN and signs."""
    figures = [row.rate for _, row in repetitions]
    for total in totals:
        figures += [total.most, total.least or 0.0, total.mean or 0.0, total.operations or 0.0]
        figures += [total.repetitions or 1, total.mib or 0.0]
    if not all(0 <= figure < math.inf for figure in figures):
        raise ParseError("a rate or a count is not a number, or below zero")


def _objects(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, Any]]:
    """The JSON values behind a pattern, each with its place."""
    decoder = json.JSONDecoder()
    for match in pattern.finditer(text):
        yield match.start(), decoder.raw_decode(text, match.end())[0]


def _json_total(row: Mapping[str, Any]) -> _Total:
    return _Total(
        None,
        str(row["operation"]),
        str(row["TestID"]),
        float(row["bwMaxMIB"]),
        float(row["bwMinMIB"]),
        float(row["bwMeanMIB"]),
        float(row["OPsMean"]),
        int(row["repetitions"]),
        float(row["xsizeMiB"]) if "xsizeMiB" in row else None,
        int(row["numTasks"]),
        int(row["tasksPerNode"]),
        float(row["transferSize"]),
    )


def _error(line: Line | None, message: str) -> ParseError:
    return ParseError(message) if line is None else line.error(message)


def _check_best(line: Line, match: re.Match[str]) -> None:
    """Compare MiB/s and MB/s of one line, which have two decimals."""
    rate, decimal = (_number(line, match[name]) for name in ("rate", "decimal"))
    if abs(rate * _MIB / 1e6 - decimal) > 0.011:
        raise line.error(f"{match['rate']} MiB/s is not {match['decimal']} MB/s")


def _cross_check(run: _Run, totals: Sequence[_Total]) -> None:
    """Compare the tables of a run.

    Raises:
        ParseError: two figures contradict each other.
    """
    _check_numbers(run)
    names = [(total.test, total.operation) for total in totals]
    if len(set(names)) != len(names):
        raise _error(totals[-1].line, "an operation of a test stands twice: read one run at a time")
    for total in totals:
        rates = [
            row.rate
            for test, row in run.repetitions
            if (str(test), row.operation) == (total.test, total.operation)
        ]
        slack = 0.011 + 1e-4 * total.most
        if total.least is None or total.mean is None:
            continue
        if not total.least - slack <= total.mean <= total.most + slack:
            raise _error(total.line, "the mean is not between the least and the greatest rate")
        _check_operations(total, _bytes(run.settings(0).get("xfersize", "")))
        if rates and len(rates) == (total.repetitions or len(rates)):
            for name, printed, actual in (
                ("Max", total.most, max(rates)),
                ("Min", total.least, min(rates)),
                ("Mean", total.mean, math.fsum(rates) / len(rates)),
            ):
                # A row has four digits, or two decimals.
                if abs(printed - actual) > 0.6 + 1e-4 * actual:
                    raise _error(
                        total.line, f"{name} {printed} is not that of the rows: {actual:g}"
                    )
        best = run.best.get(total.operation)
        if best and len({each.test for each in totals}) == 1 and abs(best[1] - total.most) > slack:
            raise best[0].error(f"the greatest rate of the table is {total.most}")
    _check_amounts(run)


def _check_operations(total: _Total, transfer: float | None) -> None:
    """Compare the operations of a second with their bytes; figures have two decimals."""
    size = total.transfer or transfer
    if total.operations is None or size is None or not total.mean:
        return
    moved, rate = total.operations * size, total.mean * _MIB
    if abs(moved - rate) > 0.006 * (size + _MIB) + 1e-4 * rate:
        raise _error(total.line, "the operations of a second are not the mean rate")


def _check_numbers(run: _Run) -> None:
    """Compare the numbers of an operation's repetitions with their order."""
    for test in {test for test, _ in run.repetitions}:
        for operation in _OPERATIONS:
            rows = [
                row
                for number, row in run.repetitions
                if (number, row.operation) == (test, operation) and row.number is not None
            ]
            for number, row in enumerate(rows):
                if row.number != number:
                    raise _error(
                        row.line,
                        f"{operation} {number} of a test is missing, or another stands twice",
                    )


def _check_amounts(run: _Run) -> None:
    """Compare the bytes of each row, its rate times its time, with those of its operations and with
    the size that the settings say; a run with a time limit moves fewer."""
    for test, row in run.repetitions:
        settings = run.settings(test)
        # A rate has four digits, a time six decimals or five digits.
        slack = 2e-3 + 0.6 / max(row.rate, 1e-9) + 6e-5 / (row.seconds or 1.0)
        moved = row.rate * (row.seconds or 0.0) * _MIB
        if row.moved and moved and abs(row.moved - moved) > 3 * slack * moved:
            raise _error(row.line, "the operations in their time are not the rate in its time")
        size = _bytes(settings.get("aggregate filesize", ""))
        if size is None or not moved:
            continue
        excess = moved - size
        if excess < 0 and run.limited:
            continue
        # The size has two decimals.
        if abs(excess) > slack * size + 0.006 * _unit(settings["aggregate filesize"]):
            raise _error(
                row.line, f"the rate times the time is not {settings['aggregate filesize']}"
            )


def _bytes(text: str) -> float | None:
    match = _SIZE.fullmatch(text)
    return float(match[1]) * _UNITS[match[2]] if match else None


def _unit(text: str) -> float:
    return _UNITS[text.rsplit(maxsplit=1)[-1]]


def _resources(
    settings: Mapping[str, str], totals: Sequence[_Total]
) -> tuple[int | None, int | None]:
    """Nodes and processes."""
    total = totals[0]
    clients = _CLIENTS.fullmatch(settings.get("clients", ""))
    tasks = int(clients[1]) if clients else _whole(settings.get("tasks")) or total.tasks
    per_node = _whole(settings.get("clients per node")) or total.per_node
    if clients:
        per_node = int(clients[2])
    nodes = _whole(settings.get("nodes"))
    if nodes is None and tasks and per_node:
        nodes = -(-tasks // per_node)
    return nodes, tasks


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,9}", text) else None


def _parameters(tests: Sequence[Mapping[str, str]], totals: Sequence[_Total]) -> dict[str, str]:
    """The settings that all tests share; of several values "several"."""
    parameters = {}
    for name, parameter in _PARAMETERS.items():
        values = {test[name] for test in tests if name in test}
        if values:
            parameters[parameter] = values.pop() if len(values) == 1 else "several"
    size = _bytes(tests[0].get("aggregate filesize", "")) if tests else None
    if totals[0].mib is not None:
        size = totals[0].mib * _MIB
    if size is not None and len({total.test for total in totals}) == 1:
        parameters["aggregate_bytes"] = f"{size:.0f}"
    return parameters
