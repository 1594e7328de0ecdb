"""The rows of nccl-tests' table, with the precision of their printed figures, and the result that
holds them, whatever form it came in."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Callable, NamedTuple, Optional

from ...errors import ParseError
from ...reading import Line
from ...record import Metric, summarise
from .log import NcclLog

_TIME, _BANDWIDTH = 7, 6  # columns' widths
_ALL_TWO = {2: (0, math.inf)}
_TIMES_BY_SIZE = {2: (0, 100), 1: (100, 10_000), 0: (10_000, math.inf)}
TYPE_BYTES = {
    **dict.fromkeys(("int8", "uint8", "char", "f8e4m3", "f8e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "int", "float"), 4),
    **dict.fromkeys(("int64", "uint64", "double"), 8),
}
_NUMBER = re.compile(r"\d+(?:\.(\d+))?(e[+-]?\d+)?")
_EXPONENT = 2
# Half a unit of the last digit of a number with so many decimals.
_HALVES = tuple(0.5 * 10.0**-decimals for decimals in range(20))
REDOPS = ("sum", "prod", "max", "min", "avg", "mulsum")
_REDUCTIONS = (*REDOPS, "", "none")
_MOST_FIGURES = 100_000
_CELLS = 4
_WRONG = (["error"], ["#wrong"])
NO_END = (
    "no '# Out of bounds values' and '# Avg bus bandwidth' below the table: it may be cut off, and"
    " rows and the average are not checked"
)
NO_VERDICT = "no '# Out of bounds values' below the table: wrong results are not ruled out"
_GB = 1e9
_MICROSECOND = 1e-6
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


# A tuple is made sooner than a frozen dataclass, and a row has six figures.
class Printed(NamedTuple):
    """A number and how far from it the true one may be: half a unit of its last printed digit."""

    value: float
    half: float

    @property
    def least(self) -> float:
        return max(0.0, self.value - self.half * 1.001)

    @property
    def most(self) -> float:
        return self.value + self.half * 1.001

    def times(self, factor: float) -> Printed:
        return Printed(self.value * factor, self.half * factor)

    def may_be(self, other: Printed) -> bool:
        """Whether both can have been rounded from the same number."""
        slack = 1e-9 * max(self.value, other.value)
        return self.least <= other.most + slack and other.least <= self.most + slack


class Body(NamedTuple):
    """One half of a row.

    Attributes:
        time: microseconds.
        algbw, busbw: GB/s.
        wrong: wrong elements, or the largest relative error in old tables; None for N/A.
        iterations: i_min, i_max and i_p99 in microseconds (-I).
    """

    time: Printed
    algbw: Printed
    busbw: Printed
    wrong: Optional[float]
    iterations: Optional[tuple[float, float, float]] = None


class Row(NamedTuple):
    """One size of one cycle.

    Attributes:
        line: its number; without its text a long table takes less memory. Of JSON its place.
    """

    size: int
    elements: int
    type: str
    redop: str
    root: Optional[int]
    out_of_place: Optional[Body]
    in_place: Optional[Body]
    line: int

    def error(self, message: str) -> ParseError:
        """That error, which names this row."""
        return ParseError(message, self.line)


@dataclass(frozen=True)
class NcclOutput:
    """One run of one operation.

    Attributes:
        operation: one of nccl-tests', or "unknown" where several fit (on two ranks all_reduce and
            sendrecv have the same figures where nothing was checked) and the output does not name
            it.
        may_be: those that fit.
        ranks: GPUs that took part, None where the text does not say.
        hosts: their machines, each once.
        rows: the table, without rows of 0 bytes.
        cycles: how often the sizes were gone through (-N).
        cpu_time: the times are the CPU's (-C); bandwidths are not made from them.
        out_of_bounds: the tool's count of wrong results, None where it did not check.
        average_ok: the tool's verdict on the average against NCCL_TESTS_MIN_BW, None without one.
        counts_wrong: the tables count wrong elements; old ones give the largest relative error.
        log: the facts of NCCL's own log.
        same_column: algbw is printed as busbw (all_gather and reduce_scatter to 2019).
        empty_rows: rows of 0 bytes, left out.
        errors: NCCL's messages at the end.
        unverified: facts that the text lacks for checks of the figures.
        not_judged: settings of the header that are not known, and how many lines in the table.
    """

    operation: str
    ranks: Optional[int]
    hosts: tuple[str, ...]
    rows: tuple[Row, ...]
    cycles: int
    cpu_time: bool
    out_of_bounds: Optional[int]
    average_ok: Optional[bool]
    counts_wrong: bool
    iterations: Optional[int]
    tool_version: Optional[str] = None
    nccl_version: Optional[str] = None
    log: NcclLog = field(default_factory=NcclLog)
    same_column: bool = False
    empty_rows: int = 0
    may_be: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    not_judged: Mapping[str, str] = field(default_factory=dict)

    @property
    def node_count(self) -> Optional[int]:
        """Machines in the list of ranks; None without a list."""
        return len(self.hosts) or None

    @property
    def gpu_count(self) -> Optional[int]:
        """Each rank has a GPU of its own."""
        return self.ranks

    @property
    def parameters(self) -> dict[str, str]:
        """operation, data type and reduction ("none" where nothing is reduced), and the way of the
        data by NCCL's log."""
        return {
            "operation": self.operation,
            "datatype": self.rows[0].type,
            "reduction": self.rows[0].redop or "none",
            **self.log.parameters,
        }

    @property
    def wrong_rows(self) -> tuple[Row, ...]:
        """Rows with wrong values."""
        if not self.counts_wrong:
            return ()
        return tuple(
            row
            for row in self.rows
            if (row.out_of_place and row.out_of_place.wrong)
            or (row.in_place and row.in_place.wrong)
        )

    @property
    def checks(self) -> dict[str, bool]:
        """The tool's check of the values, where it was on, or rows with wrong ones stand in a table
        without an end; its verdict on the average."""
        checks = {}
        if self.out_of_bounds is not None or self.wrong_rows:
            checks["values_correct"] = not self.out_of_bounds and not self.wrong_rows
        if self.average_ok is not None:
            checks["average_bus_bandwidth"] = self.average_ok
        return checks

    @property
    def warnings(self) -> list[str]:
        """Warnings for the reader of the figures."""
        warnings = []
        if self.out_of_bounds is None and {NO_END, NO_VERDICT}.isdisjoint(self.unverified):
            warnings.append("nccl-tests did not check the results (validation: 0)")
        if self.operation == "unknown":
            warnings.append(
                f"the output does not say which operation it is: {' or '.join(self.may_be)}"
            )
        if self.ranks == 1:
            warnings.append("one rank: nothing is sent, and busbw is 0 or means nothing")
        if self.log.transport == "unknown" and self.ranks != 1:
            warnings.append(f"the transport is unknown: {self.log.why_unknown}")
        if self.log.transport == "p2p":
            warnings.append(
                "GPUs talked directly; NCCL's log does not show that it was over NVLink "
                "(GRAPH in NCCL_DEBUG_SUBSYS would)"
            )
        if self.cpu_time:
            warnings.append("the times are the CPU's (-C); bandwidths are of the GPUs' time")
        if self.same_column:
            warnings.append("this old version prints busbw in the column algbw: algbw is left out")
        if self.empty_rows:
            warnings.append(f"{self.empty_rows} rows of 0 bytes are left out: too small to divide")
        warnings += [f"a topology file was not opened: {name}" for name in self.log.topology_failed]
        warnings += [f"NCCL: {text}" for text in (*self.log.warnings, *self.errors)]
        return warnings

    def metrics(self) -> list[Metric]:
        """By size: busbw and algbw [byte/s], time or cpu_time [s], wrong [1]; the same
        with _in_place. One cycle gives its values, several their median, min and max."""
        by_size: dict[int, list[Row]] = {}
        for row in self.rows:
            by_size.setdefault(row.size, []).append(row)
        metrics: list[Metric] = []
        for size, rows in by_size.items():
            for suffix, bodies in (
                ("", [row.out_of_place for row in rows]),
                ("_in_place", [row.in_place for row in rows]),
            ):
                measured = [body for body in bodies if body is not None]
                if measured:
                    metrics += self._figures(size, suffix, measured)
        return metrics

    def _figures(self, size: int, suffix: str, bodies: Sequence[Body]) -> Iterator[Metric]:
        time = "cpu_time" if self.cpu_time else "time"
        values = [body.busbw.value * _GB for body in bodies]
        yield from _rows("busbw" + suffix, values, "byte/s", "higher", size)
        if not self.same_column:
            values = [body.algbw.value * _GB for body in bodies]
            yield from _rows("algbw" + suffix, values, "byte/s", "higher", size)
        values = [body.time.value * _MICROSECOND for body in bodies]
        yield from _rows(time + suffix, values, "s", "lower", size)
        wrong = [body.wrong for body in bodies if body.wrong is not None]
        if self.counts_wrong and self.out_of_bounds is not None and wrong:
            yield from _rows("wrong" + suffix, wrong, "1", "lower", size)
        iterations = bodies[0].iterations
        if iterations and len(bodies) == 1:
            for statistic, value in zip(("min", "max", "p99"), iterations):
                yield Metric(
                    "iteration_time" + suffix,
                    value * _MICROSECOND,
                    "s",
                    "lower",
                    message_bytes=size,
                    statistic=statistic,
                    n=self.iterations,
                )


def _rows(name: str, values: Sequence[float], unit: str, direction: str, size: int) -> list[Metric]:
    if len(values) == 1:
        return [Metric(name, values[0], unit, direction, message_bytes=size)]
    return summarise(name, values, unit, direction, message_bytes=size)


def columns_of(line: Line) -> list[str]:
    """The columns' names in their order.

    Raises:
        ParseError: a name that is not known, or one that is missing.
    """
    names = line[1:].split()
    at = next((index for index, name in enumerate(names) if name in {"time", "cputime"}), None)
    lead = names[:at] if at is not None else names
    if at is None or lead not in (
        ["size", "count", "type"],
        ["size", "count", "type", "redop"],
        ["size", "count", "type", "root"],
        ["size", "count", "type", "redop", "root"],
    ):
        raise line.error("this form of the table's columns is not known")
    body = names[at:]
    if body[-1] == "timestamp":
        body = body[:-1]
    half = body[: len(body) // 2]
    if half + half != body or half[1:3] != ["algbw", "busbw"] or half[3:4] not in _WRONG:
        raise line.error("this form of the table's columns is not known")
    return names


def columns_of_row(line: str) -> Optional[list[str]]:
    """The columns of a row without their names; None where its form is not known."""
    cells = line.split()
    lead = ["size", "count", "type", *(["redop"] if cells[3] in (*REDOPS, "none") else [])]
    lead += ["root"] if len(cells) - len(lead) == 2 * _CELLS + 1 else []
    wrong = "error" if "e" in cells[-1] else "#wrong"
    columns = [*lead, *(["time", "algbw", "busbw", wrong] * 2)]
    return columns if len(columns) == len(cells) else None


def units(columns: Sequence[str]) -> list[str]:
    """The words of the line below the columns' names."""
    unit = {"size": "(B)", "count": "(elements)", "algbw": "(GB/s)", "busbw": "(GB/s)"}
    unit.update(dict.fromkeys(("time", "cputime", "i_min", "i_max", "i_p99"), "(us)"))
    unit.update({"i_cv%": "(%)", "timestamp": "%Y-%m-%d %H:%M:%S"})
    return ["#", *" ".join(unit.get(name, "") for name in columns).split()]


def row_of(line: Line, columns: Sequence[str], figures: Figures) -> Row:
    cells = line.split()
    names = list(columns)
    if names[-1] == "timestamp":
        stamp = " ".join(cells[-2:])
        if not _STAMP.fullmatch(stamp):
            raise line.error("the row does not end with its time of day")
        names, cells = names[:-1], cells[:-2]
    if "redop" in names and len(cells) == len(names) - 1:
        cells.insert(names.index("redop"), "")
    if len(cells) != len(names):
        raise line.error(f"the row has {len(cells)} columns and its header {len(names)}")
    start = next(index for index, name in enumerate(names) if name in {"time", "cputime"})
    lead = dict(zip(names[:start], cells))
    width = (len(names) - start) // 2
    bodies = [
        _body(dict(zip(names[start : start + width], half_cells)), line, figures)
        for half_cells in (cells[start : start + width], cells[start + width :])
    ]
    row = Row(
        size=_whole(lead["size"], line),
        elements=_whole(lead["count"], line),
        type=lead["type"],
        redop=lead.get("redop", ""),
        root=root_of(lead["root"], line) if "root" in lead else None,
        out_of_place=bodies[0],
        in_place=bodies[1],
        line=line.number,
    )
    return checked_row(row, line)


def checked_row(row: Row, line: Line) -> Row:
    if row.type not in TYPE_BYTES:
        raise line.error(f"{row.type!r} is no data type of NCCL")
    if row.redop not in _REDUCTIONS:
        raise line.error(f"{row.redop!r} is no reduction of NCCL")
    for body in (row.out_of_place, row.in_place):
        if body and body.time.value <= 0:
            raise line.error("a time is not positive")
        if body and body.iterations:
            least, most, p99 = body.iterations
            if not 0 < least <= p99 <= most:
                raise line.error("i_min, i_p99 and i_max do not ascend")
    return row


def _body(cells: Mapping[str, str], line: Line, figures: Figures) -> Body:
    iterations = None
    if "i_min" in cells:
        least, most, p99, _variation = (
            figures.cell(cells[name], _TIME, line).value
            for name in ("i_min", "i_max", "i_p99", "i_cv%")
        )
        iterations = (least, most, p99)
    return Body(
        time=figures.cell(cells.get("time", cells.get("cputime", "")), _TIME, line),
        algbw=figures.cell(cells["algbw"], _BANDWIDTH, line),
        busbw=figures.cell(cells["busbw"], _BANDWIDTH, line),
        wrong=_wrong(cells.get("#wrong", cells.get("error", "")), line),
        iterations=iterations,
    )


def _wrong(text: str, line: Line) -> Optional[float]:
    return None if text == "N/A" else printed(text, line).value


class Figures:
    """The figures of a table, of which each text is read once.

    Attributes:
        forms: those in which all so far can be printed.
    """

    def __init__(self, *forms: str) -> None:
        self.forms = set(forms or _FORMS)
        self._known: dict[int, dict[str, Printed]] = {_TIME: {}, _BANDWIDTH: {}}

    def cell(self, text: str, width: int, line: Line) -> Printed:
        """A number of the table.

        Raises:
            ParseError: no form is left, so that a digit has got lost.
        """
        cache = self._known[width]
        figure = cache.get(text)
        if figure is None:
            figure = printed(text, line)
            self.forms -= {
                form for form in self.forms if not _FORMS[form](text, figure.value, width)
            }
            if not self.forms:
                raise line.error(
                    f"{text!r} has lost decimals, or the table mixes those of nccl-tests before "
                    "and since 2.17.3"
                )
            if len(cache) >= _MOST_FIGURES:
                cache.clear()
            cache[text] = figure
        return figure


def _fits_width(text: str, _value: float, width: int) -> bool:
    """Two decimals, or as many as fit in the column."""
    decimals = len(text.partition(".")[2])
    return "e" in text or decimals == 2 or len(text) + (1 if decimals else 2) > width


def _fits_size(text: str, value: float, width: int) -> bool:
    """Two decimals for a bandwidth; for a time two below 100 us, one to 10 ms, none above."""
    spans = _TIMES_BY_SIZE if width == _TIME else _ALL_TWO
    least, most = spans.get(len(text.partition(".")[2]), (1, 0))
    return "e" not in text and least <= value <= most


_FORMS: dict[str, Callable[[str, float, int], bool]] = {
    "fitted": _fits_width,
    "by size": _fits_size,
}


def printed(text: str, line: Line) -> Printed:
    match = _NUMBER.fullmatch(text)
    if not match:
        raise line.error(f"{text!r} is not a number that can be measured")
    decimals = len(match[1] or "")
    if match.lastindex != _EXPONENT and decimals < len(_HALVES):
        value, half = float(text), _HALVES[decimals]
    else:
        try:
            exact = Decimal(text)
            exponent = exact.as_tuple().exponent
            value, half = float(exact), 0.5 * 10.0 ** int(exponent)
        except (InvalidOperation, OverflowError, ValueError):
            raise line.error(f"{text!r} is not a number") from None
    if not math.isfinite(value):
        raise line.error(f"{text!r} is not finite")
    return Printed(value, half)


def _whole(text: str, line: Line) -> int:
    if not text.isdecimal():
        raise line.error(f"{text!r} is not a count")
    return int(text)


def root_of(text: str, line: Line) -> int:
    if text != "-1" and not text.isdecimal():
        raise line.error(f"root {text!r} is not a rank")
    return int(text)


def version_of(code: int) -> str:
    """NCCL's version from its number: 23004 is 2.30.4, and 2804 (to 2.8) is 2.8.4."""
    major = 10_000 if code >= 10_000 else 1000
    return f"{code // major}.{code % major // 100}.{code % 100}"
