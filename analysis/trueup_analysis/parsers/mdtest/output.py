"""Parser of mdtest 1.9 to 4 (hpc/ior, src/mdtest.c).

Its table has a row for each operation, zeros where the operation did not run::

    SUMMARY rate: (of 3 iterations)
       Operation                     Max            Min           Mean        Std Dev
       File creation                6677.791       5628.163       6152.977        742.199

With ``-P``, and under IO500, a table of the phases' seconds follows: rate times seconds are the
items.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from trueup_node.errors import ParseError
from trueup_node.reading import Line
from trueup_node.record import Metric

from ...labelled import Labelled, short_lines
from .signatures import BANNER, SUMMARY

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOL = "mdtest"
_ROW = re.compile(
    r"\s*(?P<name>[A-Z][a-z]+ [a-z]+(?: \(stonewall\))?)\s*:?\s+"
    r"(?P<figures>(?:\S+\s+){3}\S+)\s*"
)
_NUMBER = re.compile(r"\d{1,18}\.\d{3}")
_ITEMS = re.compile(r"\s*(?P<tasks>\d{1,9}) tasks, (?P<items>\d{1,15}) (?P<kind>\S+)\s*")
_NODEMAP = re.compile(r"Nodemap: [01]{1000,}")
_FINISHED = re.compile(r"\s*-- finished at .*")
_OPERATIONS: Final = frozenset(
    {f"{kind} {action}" for kind in ("File", "Directory") for action in ("creation", "stat")}
    | {f"{kind} removal" for kind in ("File", "Directory", "Tree")}
    | {"File read", "Directory rename", "Tree creation"}
)
# Figures have three decimals.
_ROUNDED: Final = 0.0006
# Seconds of which three decimals say enough.
_SHORTEST: Final = 0.05


class _Row(NamedTuple):
    """An operation's figures: greatest, least and mean."""

    line: Line
    most: float
    least: float
    mean: float


def parse_mdtest(text: str) -> Labelled:
    """Read one run.

    Raises:
        ParseError: it has no table or a second one, nothing ran, or figures contradict each other.
    """
    # A digit a task: of thousands of them no number is to be read.
    lines = short_lines(_NODEMAP.sub("Nodemap:", text))
    banner = next(filter(None, map(BANNER.fullmatch, lines)), None)
    items = next(filter(None, map(_ITEMS.fullmatch, lines)), None)
    limited = "stonewall" in text or "-W" in text
    rows, iterations, unknown = _rates(lines, items, limited=limited)
    ended = any(map(_FINISHED.fullmatch, lines))
    return Labelled(
        rows=tuple(_metrics(rows, iterations)),
        parameters={"items": items["items"], "of": items["kind"]} if items else {},
        unverified=() if ended else ("no line '-- finished at': the run did not end",),
        tool_version=banner["version"] if banner else None,
        node_count=int(banner["nodes"]) if banner else None,
        ranks=int(banner["tasks"]) if banner else None,
        not_judged=unknown,
    )


def _rates(
    lines: list[Line], items: re.Match[str] | None, *, limited: bool
) -> tuple[dict[str, _Row], int, dict[str, str]]:
    """The rates of the operations that ran, the number of iterations, and the unknown rows."""
    tables = [(line, match) for line in lines if (match := SUMMARY.fullmatch(line))]
    rates = [(line, match) for line, match in tables if match["kind"] != "time"]
    if not rates:
        raise ParseError("no table 'SUMMARY rate': the run is not complete")
    if len(rates) > 1:
        raise rates[1][0].error("a second table of rates: read one run at a time")
    head, match = rates[0]
    rows, unknown = _table(lines[head.number :], head)
    for line, table in tables:
        if table["kind"] == "time" and items:
            times, _ = _table(lines[line.number :], line)
            _check_times(rows, times, int(items["items"]), limited=limited)
    ran = {name: row for name, row in rows.items() if row.mean}
    if not ran:
        raise head.error("no operation of this table ran")
    return ran, int(match["iterations"]), unknown


def _metrics(rows: dict[str, _Row], iterations: int) -> Iterator[Metric]:
    for name, row in rows.items():
        metric = f"mdtest_{name.lower().replace(' ', '_')}"
        for statistic, figure in (("mean", row.mean), ("min", row.least), ("max", row.most)):
            yield Metric(metric, figure, "1/s", "higher", statistic=statistic, n=iterations or None)


def _table(below: list[Line], head: Line) -> tuple[dict[str, _Row], dict[str, str]]:
    """The rows of a table by operation, and the means of operations that are not known."""
    rows: dict[str, _Row] = {}
    unknown: dict[str, str] = {}
    for line in below:
        if SUMMARY.fullmatch(line):
            break
        match = _ROW.fullmatch(line)
        if match is None:
            continue
        words = match["figures"].split()
        if match["name"] not in _OPERATIONS:
            unknown[match["name"]] = words[2]
            continue
        if match["name"] in rows:
            raise line.error(f"a second row {match['name']!r}")
        if not all(map(_NUMBER.fullmatch, words)):
            raise line.error("a figure of this row is no number of three decimals")
        most, least, mean, _ = map(float, words)
        # Of one iteration the figures are those of processes, whose clocks differ.
        slack = _ROUNDED + 1e-6 * most
        if not least - slack <= mean <= most + slack:
            raise line.error("the mean is not between the least and the greatest figure")
        rows[match["name"]] = _Row(line, most, least, mean)
    if not rows:
        raise head.error("no row of an operation stands below this line")
    return rows, unknown


def _check_times(
    rows: dict[str, _Row], times: dict[str, _Row], items: int, *, limited: bool
) -> None:
    """Compare the greatest rate with the shortest time of a phase, and the other way round. A phase
    with a time limit does fewer than all items.

    Raises:
        ParseError: an operation's rate times its seconds are not the items.
    """
    for name in rows.keys() & times.keys():
        row, time = rows[name], times[name]
        if name.startswith("Tree"):
            continue
        for rate, seconds in ((row.most, time.least), (row.least, time.most)):
            excess = rate * seconds - items
            if seconds < _SHORTEST or (limited and excess < 0):
                continue
            if abs(excess) > items * (1e-3 + _ROUNDED / seconds):
                raise row.line.error(f"the rate times {seconds:g} s is not {items} items")
