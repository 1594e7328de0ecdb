"""Parser of nccl-tests' output: its table, the JSON file of its option -J, or both of one run.

Formats, from nccl-tests' source (src/common.cu and src/util.cu, NCCL 2.4's tests of 2019 to version
2.19.6 of 2026):

- ``error`` (2019 to 2022: the largest relative error, and N/A) or ``#wrong`` (wrong elements);
- ``time`` in microseconds, or ``cputime`` (-C); i_min i_max i_p99 i_cv% (-I); timestamps (-S);
- to 2.17.2 (September 2025) times have two decimals below 100 us, one to 10 ms and none above, and
  bandwidths two; from 2.17.3 on two, or as many as fit in the column's width;
- redop and root in all tables or (to 2022) only in those that have them; an empty redop;
- several cycles one after the other in one table (-N);
- ``Avg bus bandwidth`` with OK or FAILED where NCCL_TESTS_MIN_BW was set.

NCCL's log may stand between the lines, and cut one in two.

Nothing is taken that does not fit together: the sizes follow from the header; size = count x bytes
of the type; algbw = size / time and busbw = algbw x factor within the printed rounding; the average
is that of all rows. A table that was pasted without its header or its list of ranks is unverified:
its sizes need only ascend, and some operation and number of ranks must fit all rows. Factors
(doc/PERFORMANCE.md): all_reduce 2(n-1)/n; all_gather, reduce_scatter and alltoall (n-1)/n;
broadcast, reduce and sendrecv 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Optional

from ...errors import ParseError
from ...reading import STANDARD_ERROR, Line, each_line, refuse_long_numbers
from .fit import ANY_RANKS, OPERATIONS, Settings, assembled, operation_of
from .log import LogReader
from .report import FILE_MARK, from_json, in_full
from .rows import (
    NO_END,
    NO_VERDICT,
    Figures,
    NcclOutput,
    Printed,
    Row,
    columns_of,
    columns_of_row,
    printed,
    row_of,
    units,
    version_of,
)

__all__ = ("OPERATIONS", "TOOL", "NcclOutput", "parse_nccl")
TOOL = "nccl"

_MISSING = (
    "no list of ranks ('# Rank 0 ...'): busbw is not checked against their number",
    "no header '# nThread ... minBytes ...' above such a list: no check for rows at either end",
)
_ROWS_LEFT_OUT = "a line '...' stands in the table: rows and the average are not checked"
_NO_VALIDATION = "no 'validation:' in the header: whether the results were checked is not known"
_NO_HASH = "lines of the header or the end have lost their #: another program has changed the text"

_LOG = re.compile(
    r"(?:\[[0-9][^][]*\] )?(?<![\w.-])([\w.-]+):\d+:\d+ (?:\[-?\d+\] )?[^ ]* ?(?:\([^()]*\) )?"
    r"NCCL (INFO|WARN|CALL|TRACE|ABORT) ?(.*)"
)
_INFO = "NCCL INFO "
_MOST_HEADS = 100_000
# Beginnings of lines that may be nccl-tests' own, or are UCX's.
_BEGINNING = re.compile(r"\s*(?:#|\d+ |\[(?:[\d.]+\] |standard error\]))")
# Lines of the header and the end whose # a program that shows documents has removed.
_LOST = re.compile(
    r"\s*(?:nccl-tests version \d|Collective test (?:starting|concluded):|nThread \d|Using devices"
    r"|Rank +\d+ (?:Group|Pid) |Reducing maxBytes|out-of-place |size +count +type |\(B\) +\(el"
    r"|Out of bounds values :|Avg bus bandwidth +:)"
)
_UCX = re.compile(r"\[[\d.]+\] .*\bUCX +(?:FATAL|ERROR|WARN|INFO|DIAG|DEBUG)\b")

_TESTS = re.compile(r"# +nccl-tests version (\S+) nccl-headers=(\d+) nccl-library=(\d+)")
_SETTINGS = re.compile(
    r"# +nThread (\d+) nGpus (\d+) minBytes (\d+) maxBytes (\d+) step: (\d+)\((factor|bytes)\) "
    r"warmup iters: (\d+) iters: (\d+)(.*)"
)
_SETTING = re.compile(r" ([^:\s][^:]{0,40}): (\S+)")
_VALIDATION = "validation"
_JUDGED_SETTINGS = ("agg iters", _VALIDATION, "graph", "unalign")
_DEVICE = re.compile(
    r"# +Rank +(\d+) (?:Group +(\d+) )?Pid +\d+ on +(\S+) device +\d+ \[[0-9a-fx:]+\] \S.*"
)
_SIDES = re.compile(
    r"# +out-of-place(?: \(\+ per-iteration\))? +in-place(?: \(\+ per-iteration\))?"
)
_COLUMNS = re.compile(r"# +size +count +type\b.*")
_ELIDED = re.compile(
    r"\s*\[?(?:\.{3,}|\u2026)\]?\s*$|(?i:.{0,200}(?:truncated|omitted|left out|snip))"
)
_FOOTER = re.compile(r"# +(?:Out of bounds values|Avg bus bandwidth)")
_AVERAGE = re.compile(r"# +Avg bus bandwidth +: (\S+)(?: (OK|FAILED))?")
_HEADER = re.compile(r"# +(?:nThread|Collective test|size +count +type\b)")
# Of a page around the table: "2. Run it".
_LIST_ITEM = re.compile(r"\s*\d{1,2}[.)] +[A-Za-z]")
_ROW_LIKE = re.compile(r"\s*\d+ +\d+ +[a-z]\w* .*")


def parse_nccl(text: str) -> NcclOutput:
    """Read the output of one run.

    Raises:
        ParseError: the table has no beginning or no end, a size is missing, stands twice or out of
            order, figures do not fit together, or table and file contradict each other.
    """
    if text.lstrip().startswith("{"):
        refuse_long_numbers(text)
        return from_json(text.strip())
    table_text, mark, rest = text.partition(f"\n{FILE_MARK}\n")
    if not mark:
        return _of_table(text)
    refuse_long_numbers(rest)
    file, _, rest = rest.partition("\n")
    try:
        report = from_json(file)
    except ParseError as error:
        raise ParseError(f"the JSON file of -J: {error}") from None
    return in_full(_of_table(f"{table_text}\n\n\n{rest}"), report)


def _of_table(text: str) -> NcclOutput:
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
        self.validation: Optional[int] = None
        self.columns: list[str] = []
        self.lacks: list[str] = []
        self.elided = self.lost = False
        self.other_ranks = 0
        self.not_judged: dict[str, str] = {}
        self.others: list[Line] = []  # in the table, and no rows of it
        self.rows: list[Row] = []
        self.figures = Figures()
        self.out_of_bounds: Optional[tuple[int, Line]] = None
        self.average: Optional[tuple[Printed, Optional[str], Line]] = None
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
        if not self.rows:
            raise ParseError("the table has no rows: the output is cut off")
        self.cut = not self.average
        if self.cut:
            self.lacks.append(NO_END)
        elif self.started != self.concluded:
            self.lacks.append(
                f"no '# Collective test concluded: {self.started}' at the end"
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
            line = _own_form(raw)
            self.lost |= len(line) > len(raw)
            fragment = self._before_log(line)
            if fragment is not None:
                if fragment.strip() and not self.aside:
                    self.pending += fragment
                continue
            if self.aside or _UCX.match(line.strip()):
                continue
            if line.strip() or not self.pending:
                joined_line = Line((self.pending + line).rstrip(), number)
                self.pending, has_yielded = "", True
                yield joined_line
        if self.pending:
            yield Line(self.pending.rstrip(), self.last)

    def _of_others(self, raw: str) -> bool:
        """Whether another program wrote a line before or after the table."""
        of_others = not _BEGINNING.match(raw) and "NCCL " not in raw and not _LOST.match(raw)
        return of_others and (self.average is not None or not self.columns)

    def _numbered(self, lines: Iterator[str]) -> Iterator[tuple[int, str]]:
        """Lines with their numbers, but for those of NCCL's log alone, which are noted."""
        heads, take = self.heads, self.log.take
        for number, raw in enumerate(lines, 1):
            head, of_log, message = raw.partition(_INFO)
            host = (heads.get(head) or self._host(head)) if of_log else None
            if host:
                take(host, "INFO", message)
            else:
                yield number, raw
            self.last = number

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
            if len(self.heads) > _MOST_HEADS:
                self.heads.clear()
            self.heads[head] = self._host_alone(head)
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
            self.tests_version, self.nccl_version = match[1], version_of(int(match[3]))
            self.figures = Figures("fitted")  # 2.17.4 is the first that prints its version
        elif match := re.fullmatch(r"# +Collective test starting: (\S+)", line):
            self.started = match[1]
        elif re.match("# +nThread", line):
            self._read_settings(line)
        elif re.match(r"# +Rank +\d", line):
            self._read_device(line)
        elif match := re.fullmatch(r"# +Reducing maxBytes to (\d+) due to .*", line):
            self.reduced = int(match[1])
        elif _COLUMNS.fullmatch(line):
            if not _SIDES.fullmatch(before):
                self.lacks.append(
                    "no line '# out-of-place in-place' above the names of the columns"
                )
            self.columns = columns_of(line)
        elif _FOOTER.match(line) or _ROW_LIKE.fullmatch(line):
            self._headless(line)

    def _headless(self, line: Line) -> None:
        """The first row of a table whose names of columns are not in the text."""
        self.columns = columns_of_row(line) or []
        if _FOOTER.match(line) or not self.columns:
            raise line.error("a part of the table stands before its header")
        self.lacks.append("no names of the columns: those of nccl-tests are assumed")
        self._inside(line, "")

    def _read_settings(self, line: Line) -> None:
        match = _SETTINGS.fullmatch(line)
        pairs = _SETTING.findall(match[9]) if match else []
        validation = dict(pairs).get(_VALIDATION)
        if (
            not match
            or "".join(f" {name}: {value}" for name, value in pairs) != match[9]
            or not (validation or "0").isdecimal()
        ):
            raise line.error("this form of the header's settings is not known")
        if validation is None:
            self.lacks.append(_NO_VALIDATION)
        else:
            self.validation = int(validation)
        self.not_judged.update({k: v for k, v in pairs if k not in _JUDGED_SETTINGS})
        if self.settings:
            raise line.error(
                "a second header: several processes print, so nccl-tests was built without MPI, "
                "or two runs stand in one file"
            )
        self.settings = (match, line)

    def _read_device(self, line: Line) -> None:
        match = _DEVICE.fullmatch(line)
        if not match:
            self.other_ranks += 1
            return
        self.devices.append((int(match[1]), int(match[2] or 0), match[3], line))
        if match[3] not in self.machines:
            self.machines[match[3]] = None
            self.heads.clear()
            self.names.clear()

    def _inside(self, line: Line, before: str) -> None:
        if (_COLUMNS.fullmatch(before) and self._units(line)) or not line:
            return
        if match := _AVERAGE.fullmatch(line):
            self.lacks += [] if self.out_of_bounds else [NO_VERDICT]
            self.average = (printed(match[1], line), match[2], line)
        elif self.out_of_bounds:
            raise line.error("'# Avg bus bandwidth' was expected")
        elif line.lstrip()[:1].isdigit() and not _LIST_ITEM.match(line):
            self.rows.append(row_of(line, self.columns, self.figures))
        elif _ELIDED.match(line):
            self.elided = True
        elif match := re.fullmatch(r"# +Out of bounds values +: (\d+) (OK|FAILED)", line):
            if (match[2] == "OK") != (int(match[1]) == 0):
                raise line.error("the count of values out of bounds is damaged")
            self.out_of_bounds = (int(match[1]), line)
        elif _FOOTER.match(line):
            raise line.error("this form of '# Out of bounds values' is not known")
        elif _HEADER.match(line):
            raise line.error("another run begins within the table, which has no end")
        else:
            self.others.append(line)

    def _units(self, line: Line) -> bool:
        """Whether this line below the names of the columns has their units."""
        if line.split() == units(self.columns):
            return True
        if re.match(r"# +\(B\)", line):
            raise line.error("this form of the line of units is not known")
        self.lacks.append("no line of units below the names of the columns")
        return False

    def _after(self, line: Line) -> None:
        if match := re.fullmatch(r"# +Collective test concluded: (\S+)", line):
            if self.concluded:
                raise line.error("the test concludes twice")
            self.concluded = match[1]
        elif match := re.fullmatch(r"# error: (\S.*)", line):
            self.errors.append(match[1])
        elif _FOOTER.match(line) or _HEADER.match(line) or _ROW_LIKE.fullmatch(line):
            raise line.error("a part of a table stands after its end")

    def _settings(self) -> Settings:
        if not self.settings or not self.devices or self.other_ranks:
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
        return Settings(
            threads=int(match[1]),
            least=int(match[3]),
            most=int(match[4]) if self.reduced is None else self.reduced,
            step=int(match[5]),
            by_factor=match[6] == "factor",
            iterations=int(match[8]),
            validation=self._counts() if self.validation is None else self.validation,
            ranks=(sum(device[1] == group for device in self.devices),),
        )

    def _pasted(self) -> Settings:
        """Settings of a table whose header or list of ranks was left out; other text above may be
        of another table, and is not used."""
        self.devices = []
        return Settings(
            threads=1,
            least=0,
            most=0,
            step=0,
            by_factor=False,
            iterations=0,
            validation=self._counts(),
            ranks=ANY_RANKS,
            missing=_MISSING,
        )

    def _counts(self) -> int:
        """1 where a row counts wrong elements, else 0."""
        bodies = [body for row in self.rows for body in (row.out_of_place, row.in_place) if body]
        return int(any(body.wrong is not None for body in bodies))

    def output(self) -> NcclOutput:
        settings = self._settings()
        lacks = [*settings.missing, *self.lacks, *([_ROWS_LEFT_OUT] if self.elided else [])]
        lacks += [_NO_HASH] if self.lost else []
        settings = replace(settings, missing=tuple(lacks), elided=self.elided or self.cut)
        of_group = [device[2] for device in self.devices if device[1] == self.devices[0][1]]
        hosts = dict(enumerate(of_group))
        log = self.log.answer(hosts)
        others = {"lines in the table": str(len(self.others))} if self.others else {}
        return assembled(
            self.rows,
            settings,
            operation_of(self.started) if self.started else None,
            None if self.cut else self.out_of_bounds,
            self.average,
            hosts=tuple(dict.fromkeys(hosts.values())),
            counts_wrong="error" not in self.columns,
            cpu_time="cputime" in self.columns,
            tool_version=self.tests_version,
            nccl_version=self.nccl_version or log.version,
            log=log,
            errors=tuple(self.errors),
            not_judged={**self.not_judged, **others},
        )


def _own_form(raw: str) -> str:
    """A line as nccl-tests prints it: without the margin of a paste, and with a lost #."""
    if raw.lstrip().startswith("#"):
        return raw.lstrip()
    return f"# {raw}" if _LOST.match(raw) else raw
