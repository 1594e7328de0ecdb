"""Parser of nccl-tests' output: its table, or the JSON file of its option -J.

Formats, from nccl-tests' source (src/common.cu and src/util.cu, NCCL 2.4's tests of 2019 to version
2.19.6 of 2026):

- ``error`` (2019 to 2022: the largest relative error, and N/A) or ``#wrong`` (wrong elements);
- ``time`` in microseconds, or ``cputime`` (-C); i_min i_max i_p99 i_cv% (-I); timestamps (-S);
- to 2.17.2 (September 2025) times have two decimals below 100 us, one to 10 ms and none above, and
  bandwidths two; from 2.17.3 on two, or as many as fit in the column's width;
- redop and root in all tables or (to 2022) only in those that have them; an empty redop;
- several cycles one after the other in one table (-N);
- ``Avg bus bandwidth`` with OK or FAILED where NCCL_TESTS_MIN_BW was set.

NCCL's log may stand between the lines, and cut one in two; mpirun's ``[1,0]<stdout>:`` and srun's
``0: `` may stand before each.

Nothing is taken that does not fit together: the sizes follow from the header; size = count x bytes
of the type; algbw = size / time and busbw = algbw x factor within the printed rounding; the average
is that of all rows. A table that was pasted without its header or its list of ranks is unverified:
its sizes need only ascend, and some operation and number of ranks must fit all rows. Factors
(doc/PERFORMANCE.md): all_reduce 2(n-1)/n; all_gather, reduce_scatter and alltoall (n-1)/n;
broadcast, reduce and sendrecv 1.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from itertools import islice, repeat
from typing import Any, Callable, NamedTuple, Optional, TypeVar

from ...errors import ParseError, refuse_long_numbers
from ...reading import STANDARD_ERROR, Line, each_line, is_count, tuples, unique, whole_number
from ...record import Metric, summarise
from .log import LogReader, NcclLog

TOOL = "nccl"

_GB = 1e9
_MICROSECOND = 1e-6
_MOST_SIZES = 100_000
_JSON_VERSIONS = (1, 2, 3)
_COARSEST_SHARE = 32  # bytes: each rank's part is rounded down to 4 elements or 16 bytes
_TIME, _BANDWIDTH = 7, 6  # columns' widths
_ALL_TWO = {2: (0, math.inf)}
_TIMES_BY_SIZE = {2: (0, 100), 1: (100, 10_000), 0: (10_000, math.inf)}
# How many ranks a table without a list of them is tried with.
_ANY_RANKS = range(1, 16_385)
_MISSING = (
    "no list of ranks ('# Rank 0 ...'): busbw is not checked against their number",
    "no header '# nThread ... minBytes ...' above such a list: no check for rows at either end",
)
_ROWS_LEFT_OUT = "a line '...' stands in the table: rows and the average are not checked"
_G_DIGITS = 6  # of printf's %g, which prints the average
_TYPE_BYTES = {
    **dict.fromkeys(("int8", "uint8", "char", "f8e4m3", "f8e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "int", "float"), 4),
    **dict.fromkeys(("int64", "uint64", "double"), 8),
}
_NUMBER = re.compile(r"\d+(?:\.(\d+))?(e[+-]?\d+)?")
_EXPONENT = 2
# Half a unit of the last digit of a number with so many decimals.
_HALVES = tuple(0.5 * 10.0**-decimals for decimals in range(20))
_REDOPS = ("sum", "prod", "max", "min", "avg", "mulsum")
_REDUCTIONS = (*_REDOPS, "", "none")

_LOG = re.compile(
    r"(?:\[[0-9][^][]*\] )?(?<![\w.-])([\w.-]+):\d+:\d+ (?:\[-?\d+\] )?[^ ]* ?(?:\([^()]*\) )?"
    r"NCCL (INFO|WARN|CALL|TRACE|ABORT) ?(.*)"
)
_INFO = "NCCL INFO "
_MOST_HEADS = 100_000
# Lines that are looked at together, different figures that are remembered (300 bytes each), and
# cells of a plain body.
_BLOCK = 256
_MOST_FIGURES = 100_000
_CELLS, _CELLS_I = 4, 8  # with -I
_END = ";"
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
# Whose errors nobody reads.
_NOWHERE = Line("", 0)
_Read = TypeVar("_Read")
# Labels that mpirun and srun put before a line.
_TAG = re.compile(r"\s*\[(?:[^\]\s]*@)?\d+,\d+\]<(stdout|stderr|stddiag)>: ?")
_LABEL = re.compile(r" *\d+: ")
# Beginnings of lines that may be nccl-tests' own, have one of these labels, or are UCX's.
_BEGINNING = re.compile(r"\s*(?:#|\d+ |\d+: |\[(?:[^\]\s]*\]<|[\d.]+\] |standard error\]))")
_UCX = re.compile(r"\[[\d.]+\] .*\bUCX +(?:FATAL|ERROR|WARN|INFO|DIAG|DEBUG)\b")

_TESTS = re.compile(r"# nccl-tests version (\S+) nccl-headers=(\d+) nccl-library=(\d+)")
_SETTINGS = re.compile(
    r"# nThread (\d+) nGpus (\d+) minBytes (\d+) maxBytes (\d+) step: (\d+)\((factor|bytes)\) "
    r"warmup iters: (\d+) iters: (\d+) (?:agg iters: (\d+) )?validation: (\d+)"
    r"(?: graph: (\d+))?(?: unalign: (\d+))?"
)
_DEVICE = re.compile(
    r"# +Rank +(\d+) (?:Group +(\d+) )?Pid +\d+ on +(\S+) device +\d+ \[[0-9a-fx:]+\] \S.*"
)
_SIDES = re.compile(
    r"# +out-of-place(?: \(\+ per-iteration\))? +in-place(?: \(\+ per-iteration\))?"
)
_COLUMNS = re.compile(r"# +size +count +type\b.*")
_ELIDED = re.compile(r"\s*\[?(?:\.{3,}|\u2026)\]?\s*")
_FOOTER = re.compile(r"# (?:Out of bounds values|Avg bus bandwidth)")
_ROW_LIKE = re.compile(r" *\d+ +\d+ +[a-z]\w* .*")


# A tuple is made sooner than a frozen dataclass, and a row has six figures.
class _Printed(NamedTuple):
    """A number and how far from it the true one may be: half a unit of its last printed digit."""

    value: float
    half: float

    @property
    def least(self) -> float:
        return max(0.0, self.value - self.half * 1.001)

    @property
    def most(self) -> float:
        return self.value + self.half * 1.001

    def times(self, factor: float) -> _Printed:
        return _Printed(self.value * factor, self.half * factor)

    def may_be(self, other: _Printed) -> bool:
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

    time: _Printed
    algbw: _Printed
    busbw: _Printed
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
class _Settings:
    """The header's line, and the ranks.

    Attributes:
        ranks: how many there can be: one number, but for a table without a list of them.
        missing: the facts that the text lacks: this number, its sizes, or the meaning of its
            columns; then ``least`` to ``by_factor`` are not used.
        elided: whoever pasted the table left rows out.
    """

    threads: int
    least: int
    most: int
    step: int
    by_factor: bool
    iterations: int
    validation: int
    ranks: Sequence[int]
    missing: tuple[str, ...] = ()
    elided: bool = False

    def sizes(self) -> list[int]:
        """The sizes that were asked for, in their order."""
        if self.step < 1 or (self.by_factor and self.step < 2):
            raise ParseError(f"a step of {self.step} between sizes leads nowhere")
        if self.by_factor and self.least < 1:
            raise ParseError("minBytes 0 times a factor leads nowhere")
        sizes: list[int] = []
        size = min(self.least, self.most)
        while size <= self.most:
            sizes.append(size)
            if len(sizes) > _MOST_SIZES:
                raise ParseError(f"the header asks for more than {_MOST_SIZES} sizes")
            size = size * self.step if self.by_factor else size + self.step
        return sizes


class _Model(NamedTuple):
    """How one operation's rows fit together."""

    operation: str
    factor: Callable[[int], float]  # busbw over algbw, of the number of ranks
    shared: bool = False  # count is each rank's part of size
    reduces: Optional[bool] = None  # None: whatever the column redop says
    rooted: bool = False
    unchecked_in_place: bool = False  # nccl-tests cannot do it in place, and prints N/A
    # To 2019, algbw of gather and scatter left out the rank's own part, as busbw does.
    base: Callable[[int], float] = lambda _ranks: 1.0

    def ranks_of(self, rows: Sequence[Row], possible: Sequence[int]) -> Sequence[int]:
        """Which of the numbers of ranks the rows can be of; shares of a size say it."""
        largest = max(rows, key=lambda row: row.size)
        share = largest.elements * _TYPE_BYTES[largest.type]
        if len(possible) == 1 or not self.shared or not share:
            return possible
        # None where the share is larger than the whole.
        return [largest.size // share] if largest.size >= share else []

    def wrong_with(
        self, row: Row, ranks: int, *, by_wall_time: bool, checked: bool
    ) -> Optional[str]:
        """Why this cannot be a row of the operation, or None.

        Args:
            by_wall_time: bandwidths are made from the column of times.
            checked: nccl-tests compared the results.
        """
        if self.reduces is not None and self.reduces != (row.redop in _REDOPS):
            return f"redop {row.redop or 'empty'!r} is not one of {self.operation}'s"
        if self.rooted != (row.root is not None and row.root >= 0):
            return f"root {row.root} is not one of {self.operation}'s"
        if checked and (row.in_place and row.in_place.wrong is None) != self.unchecked_in_place:
            return (
                "results were checked (validation), and in-place "
                f"{'has' if self.unchecked_in_place else 'lacks'} a count of wrong ones, which is "
                f"not so in {self.operation}"
            )
        total = row.elements * _TYPE_BYTES[row.type] * (ranks if self.shared else 1)
        if total != row.size:
            return f"count {row.elements} of {row.type} is {total} bytes, not {row.size}"
        size = row.size * self.base(ranks) if by_wall_time else None
        return self._wrong_body("out-of-place", row.out_of_place, ranks, size) or self._wrong_body(
            "in-place", row.in_place, ranks, size
        )

    def fits(self, rows: Sequence[Row], ranks: int, *, by_wall_time: bool, checked: bool) -> bool:
        """Whether ``wrong_with`` finds nothing wrong with these rows, which are of one type,
        reduction and root."""
        return not any(
            self.wrong_with(row, ranks, by_wall_time=by_wall_time, checked=checked) for row in rows
        )

    def _wrong_body(
        self, name: str, body: Optional[Body], ranks: int, size: Optional[float]
    ) -> Optional[str]:
        if body is None:
            return None
        factor = self.factor(ranks)
        if not body.busbw.may_be(body.algbw.times(factor)):
            return (
                f"{name} busbw {body.busbw.value:g} is not algbw {body.algbw.value:g} x "
                f"{factor:g} ({self.operation}, {ranks} ranks)"
            )
        if size is not None and not _by_time(body, size):
            return (
                f"{name} algbw {body.algbw.value:g} GB/s is not {size:.0f} bytes in "
                f"{body.time.value:g} us"
            )
        return None


def _by_time(body: Body, size: float) -> bool:
    # GB/s are bytes per nanosecond.
    fastest = size / (body.time.least * 1e3) if body.time.least > 0 else math.inf
    slowest = size / (body.time.most * 1e3)
    slack = 1e-9 * body.algbw.value
    return body.algbw.least <= fastest + slack and slowest <= body.algbw.most + slack


def _ring(ranks: int) -> float:
    return (ranks - 1) / ranks


def _one(_ranks: int) -> float:
    return 1.0


_MODELS = (
    _Model("all_reduce", lambda ranks: 2 * _ring(ranks), reduces=True),
    _Model("all_gather", _ring, shared=True, reduces=False),
    _Model("reduce_scatter", _ring, shared=True, reduces=True),
    _Model("alltoall", _ring, shared=True, unchecked_in_place=True),
    _Model("broadcast", _one, reduces=False, rooted=True),
    _Model("reduce", _one, reduces=True, rooted=True),
    _Model("sendrecv", _one, unchecked_in_place=True),
)
OPERATIONS = tuple(model.operation for model in _MODELS)
# Read, and not measured by the module; hypercube only where the text names it.
_ALSO = tuple(
    _Model(operation, _ring, shared=True, reduces=False, rooted=True)
    for operation in ("gather", "scatter")
)
_HYPERCUBE = _Model("hypercube", _one, shared=True, reduces=False, base=_ring)
_NAMES = (*OPERATIONS, *(model.operation for model in _ALSO), _HYPERCUBE.operation)
_MODELS_2019 = (
    _Model("all_gather", _one, shared=True, reduces=False, base=_ring),
    _Model("reduce_scatter", _one, shared=True, reduces=True, base=_ring),
)


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
            "transport": self.log.transport,
            "within_node": self.log.within or "none",
            "between_nodes": self.log.between or "none",
            "gpudirect": self.log.gpudirect,
            "sharp": self.log.sharp,
            "network": self.log.network or "unknown",
            "adapters": ",".join(self.log.adapters) or "unknown",
            "topology_file": self.log.topology_file,
            **({"algorithm": ",".join(self.log.algorithms)} if self.log.algorithms else {}),
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
        """The tool's check of the values, where it was on; its verdict on the average."""
        checks = {}
        if self.out_of_bounds is not None:
            checks["values_correct"] = self.out_of_bounds == 0 and not self.wrong_rows
        if self.average_ok is not None:
            checks["average_bus_bandwidth"] = self.average_ok
        return checks

    @property
    def warnings(self) -> list[str]:
        """Warnings for the reader of the figures."""
        warnings = []
        if self.out_of_bounds is None:
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


def parse_nccl(text: str) -> NcclOutput:
    """Read the output of one run.

    Raises:
        ParseError: the table has no beginning or no end, a size is missing, stands twice or out of
            order, a line in it is none of nccl-tests' or NCCL's, or figures do not fit together.
    """
    if text.lstrip().startswith("{"):
        refuse_long_numbers(text)
        return _from_json(text.strip())
    table = _Table(each_line(text))
    try:
        return table.output()
    except ParseError as error:
        if error.line_number is None or error.line:
            raise
        line = _Table(each_line(text), line_number=error.line_number).line
        raise line.error(error.message) from None


class _Table:
    """The printed form, read line by line in the order in which it must stand."""

    def __init__(self, lines: Iterator[str], line_number: int = 0) -> None:
        self.log = LogReader()
        self.wanted, self.line = (
            line_number,
            Line("", line_number),
        )  # a row's line that is to be kept
        # The host of a line that begins so, of lines of the log alone.
        self.heads: dict[str, Optional[str]] = {}
        self.names: dict[str, str] = {}  # of hosts as a line has them, the host's own
        self.last = 0
        self.pending = ""  # a line so far that NCCL's log has cut
        self.aside = False  # whether the second stream has begun
        self.devices: list[tuple[int, int, str, Line]] = []  # rank, group, host
        self.machines: dict[str, None] = {}
        self.tests_version: Optional[str] = None
        self.nccl_version: Optional[str] = None
        self.started: Optional[str] = None
        self.concluded: Optional[str] = None
        self.settings: Optional[tuple[re.Match[str], Line]] = None
        self.reduced: Optional[int] = None
        self.columns: list[str] = []
        self.lacks: list[str] = []
        self.elided = False
        self.rows: list[Row] = []
        self.figures = _Figures()
        self.out_of_bounds: Optional[tuple[int, Line]] = None
        self.average: Optional[tuple[_Printed, Optional[str], Line]] = None
        self.errors: list[str] = []
        before = ""
        for line in self._own(lines):
            if self.average:
                self._after(line)
            elif self.columns:
                self._inside(line, before)
            else:
                self._before(line, before)
            before = line
            if line.number == self.wanted:
                self.line = line
        if not self.columns:
            raise ParseError("no table of nccl-tests (# size count type ... time algbw busbw)")
        if not self.out_of_bounds:
            raise ParseError("the table has no end '# Out of bounds values': the output is cut off")
        if not self.average:
            raise ParseError("no '# Avg bus bandwidth' after the table: the output is cut off")
        if self.started != self.concluded:
            raise ParseError(
                f"no '# Collective test concluded: {self.started}' at the end: the output is cut "
                "off"
                if self.started
                else f"the end names {self.concluded}, and no beginning does"
            )

    def _own(self, lines: Iterator[str]) -> Iterator[Line]:
        """Lines of the tool's own standard output, those that NCCL's log cut put together again.
        Before and after the table other programs' lines are one empty line."""
        has_yielded = False
        for number, raw in self._numbered(lines):
            if not self.pending and self._of_others(raw):
                if has_yielded:
                    yield Line("", number)
                    has_yielded = False
                continue
            self.aside = self.aside or raw == STANDARD_ERROR
            line, of_output = _unlabelled(raw)
            fragment = self._before_log(line)
            if fragment is not None:
                if fragment.strip() and not self.aside:
                    self.pending += fragment
                continue
            if self.aside or not of_output or _UCX.match(line.strip()):
                continue
            if line.strip() or not self.pending:
                joined_line = Line((self.pending + line).rstrip(), number)
                self.pending, has_yielded = "", True
                yield joined_line
        if self.pending:
            yield Line(self.pending.rstrip(), self.last)

    def _of_others(self, raw: str) -> bool:
        """Whether another program wrote a line before or after the table."""
        of_others = not _BEGINNING.match(raw) and "NCCL " not in raw
        return of_others and (self.average is not None or not self.columns)

    def _numbered(self, lines: Iterator[str]) -> Iterator[tuple[int, str]]:
        """Lines with their numbers, but for those of NCCL's log alone, which are noted, and for
        many rows one after the other, which are taken."""
        heads, take = self.heads, self.log.take
        while block := list(islice(lines, _BLOCK)):
            first = self.last + 1
            if self._plain_rows(block, first):
                self.last += len(block)
                continue
            for number, raw in enumerate(block, first):
                head, of_log, message = raw.partition(_INFO)
                host = (heads.get(head) or self._host(head)) if of_log else None
                if host:
                    take(host, "INFO", message)
                else:
                    yield number, raw
                self.last = number

    def _plain_rows(self, lines: Sequence[str], first: int) -> bool:
        """Take lines that all are whole rows, as ``_inside`` would take each; False where one may
        be none, and then none is taken."""
        in_rows = bool(self.rows) and not self.out_of_bounds
        if not in_rows or self.pending or self.aside or 0 <= self.wanted - first < len(lines):
            return False
        begin, of_output = _unlabelled(lines[0])
        label = lines[0][: len(lines[0]) - len(begin)]
        if not of_output or not all(line.startswith(label) for line in lines):
            return False
        alone = [line[len(label) :] for line in lines] if label else lines
        rows = _plain_rows(alone, first, self.columns, self.figures)
        self.rows += rows
        return bool(rows)

    def _before_log(self, line: str) -> Optional[str]:
        """The tool's own text before a message of NCCL's log in a line; the message is noted. None
        where the line holds no such message."""
        if re.fullmatch(r"NCCL version \d+\.\d+\.\d\S*", line.strip()):
            self.log.take("", "INFO", line.strip())
            return ""
        match = _LOG.search(line) if "NCCL " in line else None
        if not match:
            return None
        host = self._name(match[1])
        self.log.take(host, match[2], match[3])
        # A cut row's last cell may stand right before the name of the machine.
        return line[: match.start()] + match[1][: len(match[1]) - len(host)]

    def _name(self, host: str) -> str:
        if host not in self.names:
            candidates = (name for name in self.machines if host != name and host.endswith(name))
            self.names[host] = next(candidates, host)
        return self.names[host]

    def _host(self, head: str) -> Optional[str]:
        """The host of a line that begins so and goes on with ``NCCL INFO``; None where more than a
        line of the log may stand in it."""
        if head not in self.heads:
            label = _TAG.match(head) or _LABEL.match(head)
            line = head[label.end() :] if label else head
            if len(self.heads) > _MOST_HEADS:
                self.heads.clear()
            self.heads[head] = self._host_alone(line)
        return self.heads[head]

    def _host_alone(self, line: str) -> Optional[str]:
        match = _LOG.search(line + _INFO)
        # Text in brackets may be of any length.
        if not match or "(" in line or match.start(2) != len(line) + len("NCCL "):
            return None
        alone = not line[: match.start()].strip() and self._name(match[1]) == match[1]
        return match[1] if alone else None

    def _before(self, line: Line, before: str) -> None:
        if match := _TESTS.fullmatch(line):
            self.tests_version, self.nccl_version = match[1], _version(int(match[3]))
            self.figures = _Figures("fitted")  # 2.17.4 is the first that prints its version
        elif match := re.fullmatch(r"# Collective test starting: (\S+)", line):
            self.started = match[1]
        elif line.startswith("# nThread"):
            self._read_settings(line)
        elif re.match(r"# +Rank\b", line):
            self._read_device(line)
        elif line.startswith("# Reducing"):
            match = re.fullmatch(r"# Reducing maxBytes to (\d+) due to memory limitation", line)
            if not match:
                raise line.error("the reduced maxBytes is damaged")
            self.reduced = int(match[1])
        elif _COLUMNS.fullmatch(line):
            if not _SIDES.fullmatch(before):
                self.lacks.append(
                    "no line '# out-of-place in-place' above the names of the columns"
                )
            self.columns = _columns(line)
        elif _FOOTER.match(line) or _ROW_LIKE.fullmatch(line):
            raise line.error("a part of the table stands before its header")

    def _read_settings(self, line: Line) -> None:
        match = _SETTINGS.fullmatch(line)
        if not match:
            raise line.error("the header's settings are damaged")
        if self.settings:
            raise line.error(
                "a second header: several processes print, so nccl-tests was built without MPI, "
                "or two runs stand in one file"
            )
        self.settings = (match, line)

    def _read_device(self, line: Line) -> None:
        match = _DEVICE.fullmatch(line)
        if not match:
            raise line.error("a rank's line is damaged")
        self.devices.append((int(match[1]), int(match[2] or 0), match[3], line))
        if match[3] not in self.machines:
            self.machines[match[3]] = None
            self.heads.clear()
            self.names.clear()

    def _inside(self, line: Line, before: str) -> None:
        if _COLUMNS.fullmatch(before):
            if line.split() != _units(self.columns):
                raise line.error("the line of units is missing or damaged")
            return
        if not line:
            return
        if self.out_of_bounds:
            match = re.fullmatch(r"# Avg bus bandwidth +: (\S+)(?: (OK|FAILED))?", line)
            if not match:
                raise line.error("'# Avg bus bandwidth' was expected")
            self.average = (_printed(match[1], line), match[2], line)
            return
        if _ELIDED.fullmatch(line):
            self.elided = True
            return
        if line.startswith("#"):
            match = re.fullmatch(r"# Out of bounds values +: (\d+) (OK|FAILED)", line)
            if not match:
                raise line.error("neither a row nor '# Out of bounds values'")
            if (match[2] == "OK") != (int(match[1]) == 0):
                raise line.error("the count of values out of bounds is damaged")
            self.out_of_bounds = (int(match[1]), line)
            return
        self.rows.append(_row(line, self.columns, self.figures))

    def _after(self, line: Line) -> None:
        if match := re.fullmatch(r"# Collective test concluded: (\S+)", line):
            if self.concluded:
                raise line.error("the test concludes twice")
            self.concluded = match[1]
        elif match := re.fullmatch(r"# error: (\S.*)", line):
            self.errors.append(match[1])
        elif (
            _FOOTER.match(line)
            or _COLUMNS.fullmatch(line)
            or line.startswith(("# nThread", "# Collective test"))
            or _ROW_LIKE.fullmatch(line)
        ):
            raise line.error("a part of a table stands after its end")

    def _settings(self) -> _Settings:
        if not self.settings or not self.devices:
            return self._pasted()
        match, line = self.settings
        of_process = int(match[1]) * int(match[2])
        for expected_rank, (rank, _group, _host, listed) in enumerate(self.devices):
            if rank != expected_rank:
                raise listed.error(f"rank {expected_rank} was expected")
        if len(self.devices) % max(1, of_process):
            raise line.error(
                f"{len(self.devices)} ranks are listed, and each process has {of_process}: lines"
                " of ranks are missing"
            )
        group = self.devices[0][1]
        return _Settings(
            threads=int(match[1]),
            least=int(match[3]),
            most=int(match[4]) if self.reduced is None else self.reduced,
            step=int(match[5]),
            by_factor=match[6] == "factor",
            iterations=int(match[8]),
            validation=int(match[10]),
            ranks=(sum(device[1] == group for device in self.devices),),
        )

    def _pasted(self) -> _Settings:
        """Settings of a table whose header or list of ranks was left out; other text above may be
        of another table, and is not used."""
        self.devices = []
        bodies = [body for row in self.rows for body in (row.out_of_place, row.in_place) if body]
        return _Settings(
            threads=1,
            least=0,
            most=0,
            step=0,
            by_factor=False,
            iterations=0,
            validation=int(any(body.wrong is not None for body in bodies)),
            ranks=_ANY_RANKS,
            missing=_MISSING,
        )

    def output(self) -> NcclOutput:
        settings = self._settings()
        lacks = [*settings.missing, *self.lacks, *([_ROWS_LEFT_OUT] if self.elided else [])]
        settings = replace(settings, missing=tuple(lacks), elided=self.elided)
        assert self.out_of_bounds is not None  # noqa: S101 WHY: __init__ has refused it
        assert self.average is not None  # noqa: S101 WHY: likewise
        of_group = [device[2] for device in self.devices if device[1] == self.devices[0][1]]
        hosts = dict(enumerate(of_group))
        log = self.log.answer(hosts)
        return _assembled(
            self.rows,
            settings,
            _operation(self.started) if self.started else None,
            self.out_of_bounds,
            self.average,
            hosts=tuple(dict.fromkeys(hosts.values())),
            counts_wrong="error" not in self.columns,
            cpu_time="cputime" in self.columns,
            tool_version=self.tests_version,
            nccl_version=self.nccl_version or log.version,
            log=log,
            errors=tuple(self.errors),
        )


def _unlabelled(raw: str) -> tuple[str, bool]:
    """A line without the launcher's label, and whether the program's standard output held it."""
    tag = _TAG.match(raw)
    label = tag or _LABEL.match(raw)
    line = raw[label.end() :] if label else raw
    if line.lstrip().startswith("#"):  # indented by whoever pasted it
        line = line.lstrip()
    return line, tag is None or tag[1] == "stdout"


def _columns(line: Line) -> list[str]:
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
        raise line.error("the table's columns are not those of nccl-tests")
    body = names[at:]
    if body[-1] == "timestamp":
        body = body[:-1]
    half = body[: len(body) // 2]
    if half + half != body or half[1:] not in (
        ["algbw", "busbw", "error"],
        ["algbw", "busbw", "#wrong"],
        ["algbw", "busbw", "#wrong", "i_min", "i_max", "i_p99", "i_cv%"],
    ):
        raise line.error("the table's columns are not those of nccl-tests")
    return names


def _units(columns: Sequence[str]) -> list[str]:
    """The words of the line below the columns' names."""
    unit = {"size": "(B)", "count": "(elements)", "algbw": "(GB/s)", "busbw": "(GB/s)"}
    unit.update(dict.fromkeys(("time", "cputime", "i_min", "i_max", "i_p99"), "(us)"))
    unit.update({"i_cv%": "(%)", "timestamp": "%Y-%m-%d %H:%M:%S"})
    return ["#", *" ".join(unit.get(name, "") for name in columns).split()]


def _row(line: Line, columns: Sequence[str], figures: _Figures) -> Row:
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
        root=_root(lead["root"], line) if "root" in lead else None,
        out_of_place=bodies[0],
        in_place=bodies[1],
        line=line.number,
    )
    return _checked_row(row, line)


def _plain_rows(
    lines: Sequence[str], first: int, names: Sequence[str], figures: _Figures
) -> list[Row]:
    """The rows of lines that hold nothing else, a column at a time, which takes a tenth of
    ``_row``'s time; none where ``_row`` might refuse one.

    Args:
        first: the number of the first line.
        names: of the columns.
    """
    columns = _table_of(lines)
    if names[-1] == "timestamp" and len(columns) > 1:
        stamps = map(" ".join, zip(*(columns.pop(-2), columns.pop())))
        if not all(map(_STAMP.fullmatch, stamps)):
            return []
        names = names[:-1]
    if "redop" in names and len(columns) == len(names) - 1:
        columns.insert(names.index("redop"), [""] * len(lines))
    if len(columns) != len(names):
        return []
    half = _CELLS_I if "i_min" in names else _CELLS
    lead = dict(zip(names[: -2 * half], columns))
    forms = set(figures.forms)
    try:
        rows = zip(
            _each(lead["size"], _whole),
            _each(lead["count"], _whole),
            _each(lead["type"], _type),
            _each(lead["redop"], _redop) if "redop" in lead else repeat(""),
            _each(lead["root"], _root) if "root" in lead else repeat(None),
            _bodies(columns[-2 * half : -half], figures),
            _bodies(columns[-half:], figures),
            range(first, first + len(lines)),
        )
    except ParseError:
        figures.forget(forms)
        return []
    return list(tuples(Row, rows))


def _table_of(lines: Sequence[str]) -> list[list[str]]:
    """The words of lines, column by column; none where a line has more of them than another."""
    width = len(lines[0].split()) + 1
    # In one piece, which is quicker than line by line; the end of a line is no figure.
    words = f" {_END} ".join([*lines, ""]).split()
    even = len(words) == width * len(lines) and words[width - 1 :: width].count(_END) == len(lines)
    return [words[column::width] for column in range(width - 1)] if even else []


def _bodies(columns: Sequence[Sequence[str]], figures: _Figures) -> Iterator[Body]:
    time, algbw, busbw, wrong = columns[:_CELLS]
    times = figures.column(time, _TIME)
    if min(times).value <= 0:
        raise _NOWHERE.error("a time is not positive")
    rates = [figures.column(texts, _BANDWIDTH) for texts in (algbw, busbw)]
    reports = repeat(None) if columns[_CELLS:] == [] else _reports(columns[_CELLS:], figures)
    return tuples(Body, zip(times, *rates, _each(wrong, _wrong), reports))


def _reports(
    columns: Sequence[Sequence[str]], figures: _Figures
) -> list[tuple[float, float, float]]:
    """The figures of -I for the iterations of each row."""
    least, most, p99, _variation = (figures.column(texts, _TIME) for texts in columns)
    reports = [(a.value, b.value, c.value) for a, b, c in zip(least, most, p99)]
    if not all(0 < a <= c <= b for a, b, c in reports):
        raise _NOWHERE.error("i_min, i_p99 and i_max do not ascend")
    return reports


def _each(texts: Sequence[str], read: Callable[[str, Line], _Read]) -> list[_Read]:
    """The values of the texts, most of which are the same."""
    by_text = {text: read(text, _NOWHERE) for text in set(texts)}
    if len(by_text) == 1:
        return [*by_text.values()] * len(texts)
    return [by_text[text] for text in texts]


def _type(text: str, line: Line) -> str:
    if text not in _TYPE_BYTES:
        raise line.error(f"{text!r} is no data type of NCCL")
    return text


def _redop(text: str, line: Line) -> str:
    if text not in _REDUCTIONS:
        raise line.error(f"{text!r} is no reduction of NCCL")
    return text


def _checked_row(row: Row, line: Line) -> Row:
    _type(row.type, line)
    _redop(row.redop, line)
    for body in (row.out_of_place, row.in_place):
        if body and body.time.value <= 0:
            raise line.error("a time is not positive")
        if body and body.iterations:
            least, most, p99 = body.iterations
            if not 0 < least <= p99 <= most:
                raise line.error("i_min, i_p99 and i_max do not ascend")
    return row


def _body(cells: Mapping[str, str], line: Line, figures: _Figures) -> Body:
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
    return None if text == "N/A" else _printed(text, line).value


class _Figures:
    """The figures of a table, of which each text is read once.

    Attributes:
        forms: those in which all so far can be printed.
    """

    def __init__(self, *forms: str) -> None:
        self.forms = set(forms or _FORMS)
        self._known: dict[int, dict[str, _Printed]] = {_TIME: {}, _BANDWIDTH: {}}

    def cell(self, text: str, width: int, line: Line) -> _Printed:
        """A number of the table.

        Raises:
            ParseError: no form is left, so that a digit has got lost.
        """
        cache = self._known[width]
        figure = cache.get(text)
        if figure is None:
            figure = _printed(text, line)
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

    def column(self, texts: Sequence[str], width: int) -> list[_Printed]:
        """Many of them; an error names no line."""
        lookup, cell = self._known[width].get, self.cell
        return [lookup(text) or cell(text, width, _NOWHERE) for text in texts]

    def forget(self, forms: set[str]) -> None:
        """Those so far can be printed in these forms."""
        self.forms = forms
        for cache in self._known.values():
            cache.clear()


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


def _printed(text: str, line: Line) -> _Printed:
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
    return _Printed(value, half)


def _whole(text: str, line: Line) -> int:
    if not text.isdecimal():
        raise line.error(f"{text!r} is not a count")
    return int(text)


def _root(text: str, line: Line) -> int:
    if text != "-1" and not text.isdecimal():
        raise line.error(f"root {text!r} is not a rank")
    return int(text)


def _operation(program: str) -> str:
    match = re.match(r"(?:.*/)?([a-z_]+)_perf", program)
    if not match or match[1] not in _NAMES:
        raise ParseError(
            f"the program {program!r} is none of {', '.join(f'{name}_perf' for name in _NAMES)}"
        )
    return match[1]


def _version(code: int) -> str:
    """NCCL's version from its number: 23004 is 2.30.4, and 2804 (to 2.8) is 2.8.4."""
    major = 10_000 if code >= 10_000 else 1000
    return f"{code // major}.{code % major // 100}.{code % 100}"


def _assembled(
    rows: Sequence[Row],
    settings: _Settings,
    named: Optional[str],
    out_of_bounds: tuple[int, Line],
    average: tuple[_Printed, Optional[str], Line],
    *,
    counts_wrong: bool,
    cpu_time: bool,
    **extra_fields: Any,
) -> NcclOutput:
    """The output of rows that fit together, whatever form they came in, with ``extra_fields``."""
    _check_rows(rows, settings)
    checked = settings.validation > 0
    models = _fitting(rows, settings, named, old=not counts_wrong, by_wall_time=not cpu_time)
    shared = {model.shared for model in models}
    cycles = (
        _ascents(rows)
        if settings.missing
        else _cycles(rows, settings, shared=shared.pop() if len(shared) == 1 else None)
    )
    _check_average(rows, settings, average)
    if checked:
        _check_wrong(rows, out_of_bounds, counts=counts_wrong)
    full = tuple(row for row in rows if row.size > 0)
    if not full:
        raise ParseError("no row moves any data: every size is 0 bytes")
    operations = tuple(dict.fromkeys(model.operation for model in models))
    return NcclOutput(
        operation=operations[0] if len(operations) == 1 else "unknown",
        may_be=operations,
        ranks=settings.ranks[0] if len(settings.ranks) == 1 else None,
        rows=full,
        cycles=cycles,
        cpu_time=cpu_time,
        out_of_bounds=out_of_bounds[0] if checked else None,
        average_ok=None if average[1] is None else average[1] == "OK",
        counts_wrong=counts_wrong,
        iterations=settings.iterations or None,
        unverified=settings.missing,
        same_column=any(model in _MODELS_2019 for model in models),
        empty_rows=len(rows) - len(full),
        **extra_fields,
    )


def _check_rows(rows: Sequence[Row], settings: _Settings) -> None:
    if not rows:
        raise ParseError("the table has no rows")
    first = rows[0]
    if first.root is not None and first.root >= settings.ranks[-1]:
        raise first.error(f"root {first.root} is none of the ranks")
    for row in rows:
        if row.type != first.type or row.redop != first.redop or row.root != first.root:
            raise row.error(
                "the table mixes data types, reductions or roots: read one of each at a time"
            )


def _fitting(
    rows: Sequence[Row],
    settings: _Settings,
    named: Optional[str],
    *,
    old: bool,
    by_wall_time: bool,
) -> list[_Model]:
    """The operations that all rows can be of."""
    candidates = (*_MODELS, *_ALSO, _HYPERCUBE) if named else (*_MODELS, *_ALSO)
    candidates = (*candidates, *_MODELS_2019) if old else candidates
    alive = [
        (model, model.ranks_of(rows, settings.ranks))
        for model in candidates
        if named in {None, model.operation}
    ]
    how = {"by_wall_time": by_wall_time, "checked": settings.validation > 0}
    models: list[_Model] = []
    if len(settings.ranks) == 1:
        models = [model for model, ranks in alive if model.fits(rows, ranks[0], **how)]
    models = models or _fitting_each(rows, alive, settings, how)
    # Where both layouts of algbw fit (few digits), the newer one is not contradicted.
    new = [model for model in models if model not in _MODELS_2019]
    return new or models


def _fitting_each(
    rows: Sequence[Row],
    alive: list[tuple[_Model, Sequence[int]]],
    settings: _Settings,
    how: Mapping[str, bool],
) -> list[_Model]:
    """Those of the operations that are left after each row."""
    # The largest rows say most: with them first, few of many possible numbers of ranks are left.
    ordered = sorted(rows, key=lambda row: -row.size) if len(settings.ranks) > 1 else rows
    for row in ordered:
        narrowed = [(model, _narrowed(model, ranks, row, how)) for model, ranks in alive]
        remaining = [(model, ranks) for model, ranks in narrowed if ranks]
        if not remaining:
            raise row.error(
                str(alive[0][0].wrong_with(row, settings.ranks[0], **how))
                if len(settings.ranks) == 1
                else "no operation and number of ranks fits this row and the others"
            )
        alive = remaining
    return [model for model, _ranks in alive]


def _narrowed(
    model: _Model, ranks: Sequence[int], row: Row, how: Mapping[str, bool]
) -> Sequence[int]:
    """The numbers of ranks that fit a row: neighbours, for busbw grows with the ranks."""
    first, last = 0, len(ranks)
    while first < last and model.wrong_with(row, ranks[first], **how):
        first += 1
    while first < last - 1 and model.wrong_with(row, ranks[last - 1], **how):
        last -= 1
    return ranks[first:last]


def _ascents(rows: Sequence[Row]) -> int:
    """How often sizes that are not known ascend from the least to the most, each time the same."""
    sizes = [row.size for row in rows]
    count = sizes.count(sizes[0])
    for before, row in zip(rows, rows[1:]):
        if not before.size < row.size and row.size != sizes[0]:
            raise row.error("the sizes do not ascend: rows are missing, doubled or out of order")
    if sizes != sizes[: len(sizes) // count] * count:
        raise rows[-1].error("the cycles do not go through the same sizes: rows are missing")
    return count


def _shares(size: int, width: int, ranks: int) -> tuple[int, int, int]:
    """Elements of each rank for a size that is divided, as three generations of nccl-tests
    rounded them: not at all, to 4 elements, to 16 bytes."""
    count = size // width
    per_rank = count // ranks
    return per_rank, count // (4 * ranks) * 4, per_rank & ~(16 // width - 1)


def _cycles(rows: Sequence[Row], settings: _Settings, *, shared: Optional[bool]) -> int:
    """How often the rows go through the sizes that the header asks for."""
    sizes = settings.sizes()
    width, [ranks] = _TYPE_BYTES[rows[0].type], settings.ranks
    # By how they are rounded: -1 where they are not divided, else the generation of nccl-tests.
    expected_sizes: dict[int, list[int]] = {}
    if shared in {None, False}:
        expected_sizes[-1] = [size // width * width for size in sizes]
    if shared in {None, True}:
        for generation, shares in enumerate(zip(*(_shares(size, width, ranks) for size in sizes))):
            expected_sizes[generation] = [share * ranks * width for share in shares]
    cycles = len(rows) // len(sizes)
    row_sizes = [row.size for row in rows]
    if any(row_sizes == way * cycles for way in expected_sizes.values()):
        return cycles
    for number, row in enumerate(rows):
        size_index = number % len(sizes)
        expected_sizes = {
            key: way for key, way in expected_sizes.items() if way[size_index] == row.size
        }
        if not expected_sizes:
            raise row.error(
                f"size {row.size} stands where {sizes[size_index]} was to come: rows are missing, "
                "doubled or out of order"
            )
    raise rows[-1].error(
        f"the table ends after {len(rows) % len(sizes)} of {len(sizes)} sizes; "
        f"{sizes[len(rows) % len(sizes)]} bytes were to come next"
    )


def _check_average(
    rows: Sequence[Row],
    settings: _Settings,
    average: tuple[_Printed, Optional[str], Line],
) -> None:
    """The average that is printed must be that of the rows."""
    if settings.threads > 1 or settings.elided:
        return  # each thread adds bandwidths of its own, which the table does not show
    figures = [
        body.busbw for row in rows for body in (row.out_of_place, row.in_place) if body is not None
    ]
    computed = _Printed(
        sum(figure.value for figure in figures) / len(figures),
        sum(figure.half for figure in figures) / len(figures),
    )
    printed, _verdict, line = average
    # %g leaves trailing zeros out, so its digits do not show how precise it is.
    magnitude = math.floor(math.log10(printed.value)) if printed.value > 0 else 0
    exact = _Printed(printed.value, 0.5 * 10.0 ** (magnitude - _G_DIGITS + 1))
    if not computed.may_be(exact):
        raise line.error(
            f"the average is {printed.value:g} GB/s, and that of the rows {computed.value:.6g}: a"
            f" row is missing or damaged"
        )


def _check_wrong(rows: Sequence[Row], out_of_bounds: tuple[int, Line], *, counts: bool) -> None:
    """Where results were checked, each row says so, and agrees with the verdict at the end."""
    for row in rows:
        if row.out_of_place and row.out_of_place.wrong is None:
            raise row.error(
                "results were checked (validation), and this row has no count of wrong ones"
            )
    bodies = (body for row in rows for body in (row.out_of_place, row.in_place) if body)
    count, line = out_of_bounds
    if counts and count == 0 and any(body.wrong for body in bodies):
        raise line.error("rows have wrong values, and the end says that none has")


def _from_json(text: str) -> NcclOutput:
    """The file of nccl-tests' option -J."""
    line = Line(text[:200], 1)

    def constant(name: str) -> Any:
        raise line.error(f"a figure is {name}")

    try:
        data = json.loads(
            text,
            parse_float=lambda figure: _printed(figure, line),
            parse_constant=constant,
            parse_int=whole_number,
            object_pairs_hook=unique,
        )
    except (ValueError, RecursionError) as error:
        raise line.error(f"the JSON is cut off or damaged ({error})") from None
    try:
        return _from_object(data, line)
    except ParseError as error:
        if error.line_number is None or error.line:
            raise
        row_index = error.line_number
        raise _json_line(row_index, data["results"][row_index]).error(error.message) from None
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise line.error(f"the JSON lacks or spoils {error}") from None


def _from_object(data: Mapping[str, Any], line: Line) -> NcclOutput:
    if data["version"] not in _JSON_VERSIONS:
        raise line.error(f"version {data['version']!r} of the JSON is not known")
    missing = {"results", "out_of_bounds", "average_bus_bandwidth", "end_time"} - set(data)
    if missing:
        raise line.error(f"the run did not end: the JSON lacks {', '.join(sorted(missing))}")
    rows = [_json_row(row_index, entry, line) for row_index, entry in enumerate(data["results"])]
    bounds, average = data["out_of_bounds"], data["average_bus_bandwidth"]
    count = _int(bounds["count"])
    if bounds["okay"] != ("true" if count == 0 else "false"):
        raise line.error("out_of_bounds.okay contradicts its count")
    verdicts = {"true": "OK", "false": "FAILED", "unchecked": None}
    if average["okay"] not in verdicts:
        raise line.error(f"average_bus_bandwidth.okay is {average['okay']!r}")
    bodies = (entry[side] for entry in data["results"] for side in ("out_of_place", "in_place"))
    kinds = {"cpu_time" in body for body in bodies if body}
    if len(kinds) > 1:
        raise line.error("the JSON mixes time and cpu_time")
    processes = _processes(data["config"], line)
    return _assembled(
        rows,
        _json_settings(data["config"], len(processes), rows),
        _operation(str(data["args"][0])),
        (count, line),
        (_figure(average["bandwidth"]), verdicts[average["okay"]], line),
        hosts=tuple(dict.fromkeys(str(device["hostname"]) for device in processes)),
        counts_wrong=True,
        cpu_time=kinds == {True},
        nccl_version=_version(_int(data["nccl_version"])),
        errors=tuple(str(text) for text in data.get("errors", []) if text),
    )


def _processes(config: Mapping[str, Any], line: Line) -> list[Mapping[str, Any]]:
    """Of each process of the first group the first device: others the JSON does not list."""
    devices: list[Mapping[str, Any]] = config["devices"]
    for index, device in enumerate(devices):
        if device["rank"] != index * _int(config["nthreads"]) * _int(config["ngpus"]):
            raise line.error(f"the JSON has rank {device['rank']} as that of process {index}")
    return [device for device in devices if device["group"] == devices[0]["group"]]


def _json_settings(config: Mapping[str, Any], processes: int, rows: Sequence[Row]) -> _Settings:
    ranks = processes * _int(config["nthreads"]) * _int(config["ngpus"])
    by_factor = "step_factor" in config
    return _Settings(
        threads=_int(config["nthreads"]),
        least=_int(config["minimum_bytes"]),
        # It is written before nccl-tests reduces it to the size that fits in memory, and a size
        # that is divided among the ranks is rounded down: past this none can have been reached.
        most=min(
            _int(config["maximum_bytes"]),
            max((row.size for row in rows), default=0) + _COARSEST_SHARE * ranks,
        ),
        step=_int(config["step_factor"] if by_factor else config["step_bytes"]),
        by_factor=by_factor,
        iterations=_int(config["iterations"]),
        validation=_int(config["validation"]),
        ranks=(ranks,),
    )


def _json_line(row_index: int, entry: Mapping[str, Any]) -> Line:
    """An error's name for a row."""
    return Line(f"results[{row_index}] of {entry['size']} bytes", 1)


def _json_row(row_index: int, entry: Mapping[str, Any], line: Line) -> Row:
    row = Row(
        size=_int(entry["size"]),
        elements=_int(entry["count"]),
        type=entry["type"],
        redop=entry["redop"],
        root=_root(entry["root"].strip(), line),
        out_of_place=_json_body(entry, "out_of_place"),
        in_place=_json_body(entry, "in_place"),
        line=row_index,
    )
    return _checked_row(row, _json_line(row_index, entry))


def _json_body(entry: Mapping[str, Any], side: str) -> Optional[Body]:
    body = entry[side]
    if body is None:  # the replay of a trace runs in place only
        return None
    report = entry.get(f"{side}_per_iter")
    least, most, p99 = (
        _figure(report[name]).value if report else 0.0 for name in ("min_us", "max_us", "p99_us")
    )
    return Body(
        time=_figure(body["cpu_time"] if "cpu_time" in body else body["time"]),
        algbw=_figure(body["alg_bw"]),
        busbw=_figure(body["bus_bw"]),
        wrong=None if body["nwrong"] is None else _figure(body["nwrong"]).value,
        iterations=(least, most, p99) if report else None,
    )


def _figure(value: Any) -> _Printed:
    if not isinstance(value, _Printed):
        raise ValueError(f"the figure {value!r}")
    return value


def _int(value: Any) -> int:
    if not is_count(value):
        raise ValueError(f"the count {value!r}")
    return int(value)
