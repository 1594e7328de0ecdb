"""Parser of BabelStream 1 to 5 (GPU-STREAM before 3): words and CSV.

A table has each kernel's rate in its fastest repetition, and that repetition's time
(UoB-HPC/BabelStream@57637d5 src/main.cpp)::

    Function    MBytes/sec  Min (sec)   Max         Average
    Copy        174970      0.00457222  0.00457604  0.00457437

    function,num_times,n_elements,sizeof,max_mbytes_per_sec,min_runtime,max_runtime,avg_runtime

Rate times time is the number of arrays that the kernel reads and writes, times their size. Rates of
the average and the longest time are by the same bytes. A result
that is wrong is said on standard error; since 5 the program then ends without a table.
"""

from __future__ import annotations

import re
import statistics
from typing import Final, NamedTuple

from trueup_node.errors import ParseError
from trueup_node.reading import Line
from trueup_node.record import Metric

from ...labelled import Labelled, short_lines
from .signatures import CSV, FAILED, HEADER

TOOL = "babelstream"
# Arrays that each kernel reads and writes.
_ARRAYS: Final = {"Copy": 2, "Mul": 2, "Add": 3, "Triad": 3, "Dot": 2, "Nstream": 4}
_UNITS: Final = {
    "mbytes": 1e6,
    "gbytes": 1e9,
    **{
        f"{prefix}{binary}b": float((1024 if binary else 1000) ** power)
        for power, prefix in enumerate("mgt", 2)
        for binary in ("", "i")
    },
}
_WORDS: Final = ("function", "rate", "min", "max", "average")
_CSV_TIMES: Final = ("min_runtime", "max_runtime", "avg_runtime")
# Of a time in words, since release 1.
_DECIMALS: Final = 5
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,12})?(?:e[+-]?\d{1,2})?")
_SIZE = re.compile(r"(?P<size>\d{1,12}\.\d) (?P<unit>\w{2,3})\b")
_COUNT = re.compile(r"\d{1,15}")
_SETTING = re.compile(r"\s*(?P<name>[A-Za-z][A-Za-z ]{1,30}): (?P<value>\S.*?)\s*")
_TIMES = re.compile(r"\s*Running (?P<kernels>.*?)\s*(?P<times>\d{1,9}) times.*")
_DEVICE = re.compile(r"\s*Using \w+ device:? +(?P<name>\S.*?)\s*")
_PARAMETERS: Final = {
    "implementation": "implementation",
    "precision": "precision",
}
# Settings that say no more of the work, or only where it ran.
_ASIDE: Final = frozenset(
    (
        *("version", "array size", "total size", "number of elements", "init", "read", "driver"),
        *("warning", "reduction kernel config"),
    )
)
# Of rate times time over the kernels' arrays, beside the digits of the time.
_ROUNDED: Final = 2e-3


class _Row(NamedTuple):
    """A kernel: byte/s and s of its fastest repetition, the share by which the digits of s may
    differ, and the rates of all repetitions, byte/s, by statistic."""

    line: Line
    kernel: str
    rate: float
    seconds: float
    slack: float
    rates: dict[str, float]


class _Table(NamedTuple):
    """The rows, the unknown kernels, and what a CSV table says of the arrays."""

    rows: list[_Row]
    unknown: dict[str, str]
    times: int | None = None
    elements: int | None = None
    element_bytes: int | None = None


def parse_babelstream(text: str) -> Labelled:
    """Read one run.

    Raises:
        ParseError: there is no table or a second one, or its figures contradict each other.
    """
    lines = short_lines(text)
    failed = [match["array"] for match in map(FAILED.fullmatch, lines) if match]
    heads = [line for line in lines if HEADER.fullmatch(line) or CSV.fullmatch(line)]
    if not heads:
        reason = f": the validation of {failed[0]} failed" if failed else ""
        raise ParseError(f"no table with rates of kernels{reason}")
    if len(heads) > 1:
        raise heads[1].error("a second table: read one run at a time")
    head = heads[0]
    table = _table(lines[head.number :], head)
    above = lines[: head.number - 1]
    settings = _settings(above)
    _check(table, settings)
    return Labelled(
        rows=tuple(
            Metric(
                f"babel_{row.kernel.lower()}_rate",
                rate,
                "byte/s",
                "higher",
                statistic=statistic,
                n=_repetitions(above, table),
            )
            for row in table.rows
            for statistic, rate in row.rates.items()
        ),
        parameters={
            **{name: settings[text] for text, name in _PARAMETERS.items() if text in settings},
            **_precision(table),
            **_size(settings, table),
            **_device(above),
        },
        checks={"results_are_right": not failed},
        reasons={"results_are_right": f"the validation of {', '.join(failed)} failed"},
        tool_version=settings.get("version"),
        not_judged={**table.unknown, **_unknown(settings)},
    )


def _settings(above: list[Line]) -> dict[str, str]:
    """The settings above the table, by name."""
    return {
        match["name"].lower(): match["value"]
        for line in above
        if (match := _SETTING.fullmatch(line)) and not FAILED.fullmatch(line)
    }


def _unknown(settings: dict[str, str]) -> dict[str, str]:
    known = {*_PARAMETERS, *_ASIDE}
    return {name: value for name, value in settings.items() if name not in known}


def _table(below: list[Line], head: Line) -> _Table:
    csv = CSV.fullmatch(head)
    words = HEADER.fullmatch(head)
    unit = (csv or words or {"unit": ""})["unit"].lower()
    if unit not in _UNITS:
        raise head.error(f"the unit {unit!r} is not known")
    separator = csv["separator"] if csv else None
    names = head.strip().split(separator) if csv else list(_WORDS)
    columns = [f"max_{csv['unit']}_per_sec", *_CSV_TIMES] if csv else list(_WORDS[1:])
    if not {"function", *columns} <= set(names):
        raise head.error(f"a column of {', '.join(columns)} is missing")
    rows: list[_Row] = []
    unknown: dict[str, str] = {}
    first: dict[str, str] = {}
    for line in below:
        cells = line.strip().split(separator)
        if len(cells) != len(names):
            break
        by_name = dict(zip(names, cells, strict=True))
        if by_name["function"] not in _ARRAYS:
            unknown[f"kernel {by_name['function']}"] = by_name[columns[0]]
            continue
        figures = [by_name[name] for name in columns]
        rows.append(_row(line, by_name["function"], figures, _UNITS[unit]))
        first = first or by_name
    if not rows:
        raise head.error("no row of a kernel stands below this header")
    counts = [
        int(first[name]) if _COUNT.fullmatch(first.get(name, "")) else None
        for name in ("num_times", "n_elements", "sizeof")
    ]
    return _Table(rows, unknown, *counts)


def _row(line: Line, kernel: str, figures: list[str], unit: float) -> _Row:
    for text in figures:
        if not _NUMBER.fullmatch(text):
            raise line.error(f"{text!r} is not a figure")
    rate, least, most, mean = map(float, figures)
    if [_decimals(text) for text in figures[1:3]] == [_DECIMALS] * 2 != [_decimals(figures[3])] * 2:
        raise line.error(f"the average {figures[3]!r} has other decimals than the times: it is cut")
    slack = _last_digit(figures[1])
    if not least - slack <= mean <= most + slack:
        raise line.error("the average time is not between the least and the greatest")
    if not least:
        raise line.error("a kernel took no time that can be measured")
    # Times are of the same bytes.
    moved = rate * unit * least
    rates = {"mean": moved / mean, "max": rate * unit, "min": moved / most}
    return _Row(line, kernel, rate * unit, least, slack / least, rates)


def _last_digit(text: str) -> float:
    """Half of a unit of the last digit; of six digits those that are not printed are zeros."""
    return float(0.51 * 10.0 ** (int(text.partition("e")[2] or 0) - _decimals(text)))


def _decimals(text: str) -> int:
    return len(text.partition("e")[0].partition(".")[2])


def _check(table: _Table, settings: dict[str, str]) -> None:
    """Compare the rows with each other and with the size of the arrays.

    Raises:
        ParseError: a row's rate times its time is of another size than the others', or than the
            table says.
    """
    sizes = [row.rate * row.seconds / _ARRAYS[row.kernel] for row in table.rows]
    size = statistics.median(sizes)
    printed = _sizes(table, settings)
    slack = statistics.median(row.slack for row in table.rows)
    for row, actual in zip(table.rows, sizes, strict=True):
        if abs(actual - size) > size * (_ROUNDED + row.slack + slack):
            raise row.line.error(
                f"{row.kernel}'s rate times its time is of other arrays than the others'"
            )
    if printed and all(abs(size - each) > each * (_ROUNDED + 2 * slack) for each in printed):
        raise table.rows[0].line.error(
            f"the rows are of arrays of {size:.4g} bytes, not {printed[0]:.4g}"
        )
    kernels = [row.kernel for row in table.rows]
    if len(set(kernels)) != len(kernels):
        raise table.rows[-1].line.error("a kernel stands twice")


def _sizes(table: _Table, settings: dict[str, str]) -> list[float]:
    """The bytes of an array that the output says. Before 4 its MB were of 2**20 bytes."""
    element_bytes = {"double": 8, "float": 4}.get(settings.get("precision", ""), 0)
    if table.elements and table.element_bytes:
        return [float(table.elements * table.element_bytes)]
    if (elements := settings.get("number of elements", "")) and element_bytes:
        return [float(elements) * element_bytes] if _COUNT.fullmatch(elements) else []
    match = _SIZE.match(settings.get("array size", ""))
    if match is None or match["unit"].lower() not in _UNITS:
        return []
    unit = match["unit"].lower()
    units = {_UNITS[unit], _UNITS.get(f"{unit[0]}ib", _UNITS[unit])}
    return [float(match["size"]) * each for each in sorted(units)]


def _repetitions(above: list[Line], table: _Table) -> int | None:
    times = next((int(m["times"]) for m in map(_TIMES.fullmatch, above) if m), table.times)
    # The first repetition does not count.
    return times - 1 if times and times > 1 else None


def _precision(table: _Table) -> dict[str, str]:
    names = {4: "float", 8: "double"}
    return {"precision": names[table.element_bytes]} if table.element_bytes in names else {}


def _size(settings: dict[str, str], table: _Table) -> dict[str, str]:
    """The bytes of an array where the elements are printed; else the printed size."""
    if table.elements or "number of elements" in settings:
        sizes = _sizes(table, settings)
        return {"array_bytes": f"{sizes[0]:.0f}"} if sizes else {}
    return {"array_size": settings["array size"]} if "array size" in settings else {}


def _device(above: list[Line]) -> dict[str, str]:
    match = next(filter(None, map(_DEVICE.fullmatch, above)), None)
    return {"device": match["name"]} if match else {}
