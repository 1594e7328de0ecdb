"""Parser of HPCG's report: 3.0 (YAML), 3.1 (``a::b=c``), and those of NVIDIA, Intel and AMD.

Both forms hold the same items under the same headings (hpcg-benchmark/hpcg@114602d
src/ReportResults.cpp)::

    Benchmark Time Summary::SpMV=0.00520163          Benchmark Time Summary:
                                                       SpMV: 0.00520163

Each rate is operations over time, the sum of the kernels' operations is the total, and the rating
of the last lines is that of the table. Figures have six digits.
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

from trueup_node.errors import ParseError
from trueup_node.reading import Line
from trueup_node.record import Metric

from ...labelled import Labelled, short_lines

TOOL = "hpcg"
_ITEM = re.compile(r"(?P<heading>[^=]{1,90}?)::(?P<name>[^=]{1,90}?)=(?P<value>.*)")
_YAML = re.compile(r"(?P<indent> *)(?P<name>[^:=\s][^:=]{0,120}):(?: +(?P<value>.*))?")
_VERDICT = re.compile(
    r".*HPCG result is(?P<verdict> VALID with a GFLOP/s rating of|[=: ]+INVALID).*"
)
_RATING = re.compile(r".*HPCG result is VALID with a GFLOP/s rating of\s*[=:]?\s*(?P<value>\S+)\s*")
_NUMBER = re.compile(r"\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,2})?")
_VERSION = re.compile(
    r"\s*(?:HPCG-Benchmark )?\s*version[=:] *V?(\d[\w.]*)\s*|.* version: V(\d[\w.]*)\s*"
)
_GIGA: Final = 1e9
# Of figures that were each rounded to six digits.
_ROUNDED: Final = 2e-5
_KERNELS: Final = ("DDOT", "WAXPBY", "SpMV", "MG")
_TIMES, _OPERATIONS, _RATES = (
    *("Benchmark Time Summary", "Floating Point Operations Summary"),
    "GFLOP/s Summary",
)
_BANDWIDTHS, _FINAL = "GB/s Summary", "Final Summary"
_ALL: Final = "Total with convergence and optimization phase overhead"
_CHECKS: Final = {
    "Spectral Convergence Tests": "spectral_convergence",
    "Departure from Symmetry": "symmetry",
    "Iteration Count Information": "iteration_count",
    "Reproducibility Information": "reproducibility",
}


class _Value(NamedTuple):
    """An item's text, and its line."""

    line: Line
    text: str

    def number(self) -> float:
        """The figure.

        Raises:
            ParseError: it is none.
        """
        if not _NUMBER.fullmatch(self.text):
            raise self.line.error(f"{self.text!r} is not a figure")
        return float(self.text)


_Items = dict[tuple[str, str], _Value]


def parse_hpcg(text: str) -> Labelled:
    """Read one report.

    Raises:
        ParseError: there is no rating, an item stands twice, or figures contradict each other.
    """
    lines = short_lines(text)
    items = _items(lines)
    valid = _is_valid(lines)
    rating = _rating(lines, items)
    rows = [Metric("hpcg_rating", rating * _GIGA, "flop/s", "higher"), *_figures(items)]
    checks = {"valid": valid, **_checks(items)}
    missing = _cross_check(items, rating)
    return Labelled(
        rows=tuple(rows),
        parameters=_parameters(items),
        checks=checks,
        reasons={"valid": "HPCG says that the result is INVALID"},
        warnings=_warnings(items),
        unverified=missing,
        tool_version=next((m[1] or m[2] for m in map(_VERSION.fullmatch, lines) if m), None),
        ranks=_count(items, "Distributed Processes"),
        threads=_count(items, "Threads per processes"),
        not_judged=_unknown(items),
    )


def _items(lines: list[Line]) -> _Items:
    """The items by heading and name; of the coarse grids, which share their names, the first."""
    items: _Items = {}
    heading = ""
    for line in lines:
        if match := _ITEM.fullmatch(line.strip()):
            heading = match["heading"]
        elif match := _YAML.fullmatch(line.rstrip()):
            if not match["indent"]:
                heading = match["name"].strip("_ ")
                continue
        else:
            continue
        name, value = match["name"].strip(), (match["value"] or "").strip()
        heading = heading.strip().partition(" |")[0]
        key = (heading, name.rpartition("::")[2])
        if "Coarse Grids" in name or not value:
            continue
        if key in items and (heading, name) != ("Local Domain Dimensions", "nz"):
            if heading in (_TIMES, _OPERATIONS, _RATES, _BANDWIDTHS, _FINAL):
                raise line.error(f"a second {name!r}: read one report at a time")
            continue
        items[key] = _Value(line, value)
    return items


def _is_valid(lines: list[Line]) -> bool:
    verdicts = {
        "INVALID" not in match["verdict"] for match in map(_VERDICT.fullmatch, lines) if match
    }
    if len(verdicts) != 1:
        raise ParseError(
            "the report is called VALID and INVALID"
            if verdicts
            else "no line 'HPCG result is ...': the report is not complete"
        )
    return verdicts.pop()


def _rating(lines: list[Line], items: _Items) -> float:
    """The rating; of an invalid report that of the table."""
    ratings = [_Value(line, match["value"]) for line in lines if (match := _RATING.fullmatch(line))]
    ratings += [items[key] for key in [(_RATES, _ALL)] if key in items]
    if not ratings:
        raise ParseError("no GFLOP/s rating: the report is not complete")
    figures = [rating.number() for rating in ratings]
    for rating, figure in zip(ratings, figures, strict=True):
        if not _same(figure, figures[0]):
            raise rating.line.error(f"this rating is not {figures[0]:g} GFLOP/s, as above")
    return figures[-1]


def _same(figure: float, other: float) -> bool:
    return abs(figure - other) <= _ROUNDED * max(abs(figure), abs(other))


def _figures(items: _Items) -> list[Metric]:
    """Rates of kernels, the bandwidth and the time, where they are printed. A kernel that took no
    time that can be measured has none."""
    names = {
        (_RATES, f"Raw {kernel}"): (f"hpcg_{kernel.lower()}_rate", _GIGA, "flop/s")
        for kernel in _KERNELS
    }
    names[_BANDWIDTHS, "Raw Total B/W"] = ("hpcg_bandwidth", _GIGA, "byte/s")
    names[_TIMES, "Total"] = ("hpcg_time", 1.0, "s")
    return [
        Metric(name, items[key].number() * factor, unit, "lower" if unit == "s" else "higher")
        for key, (name, factor, unit) in names.items()
        if key in items and items[key].text not in ("inf", "nan", "-nan")
    ]


def _cross_check(items: _Items, rating: float) -> tuple[str, ...]:
    """Compare what the report computes of other items, and name what it lacks for that.

    Raises:
        ParseError: two figures contradict each other.
    """
    quotients = [
        *((f"Raw {kernel}", f"Raw {kernel}", kernel) for kernel in _KERNELS),
        ("Raw Total", "Total", "Total"),
    ]
    missing = []
    for rate, operations, time in quotients:
        keys = [(_RATES, rate), (_OPERATIONS, operations), (_TIMES, time)]
        if not all(key in items for key in keys):
            missing.append(time)
            continue
        if items[keys[0]].text in ("inf", "nan", "-nan"):
            continue
        per_second, count, seconds = (items[key].number() for key in keys)
        if not _same(per_second * _GIGA * seconds, count):
            raise items[keys[0]].line.error(f"{rate} is not its operations over {seconds:g} s")
    raw = items.get((_RATES, "Raw Total"))
    if raw and rating > raw.number() * (1 + _ROUNDED):
        raise raw.line.error("the rating is above the raw rate")
    _check_sum(items, _BANDWIDTHS, ("Raw Read B/W", "Raw Write B/W"), "Raw Total B/W")
    _check_sum(items, _OPERATIONS, [f"Raw {kernel}" for kernel in _KERNELS], "Total")
    _check_grid(items)
    if not missing:
        return ()
    return (f"operations and times of {', '.join(missing)} are not there: rates are unchecked",)


def _check_sum(items: _Items, heading: str, parts: list[str] | tuple[str, ...], total: str) -> None:
    keys = [(heading, name) for name in (*parts, total)]
    if all(key in items for key in keys):
        *figures, whole = (items[key].number() for key in keys)
        if not _same(math.fsum(figures), whole):
            raise items[keys[-1]].line.error(f"{total} is not the sum of its parts")


def _check_grid(items: _Items) -> None:
    """Compare processes and equations with the grids."""
    for names, total in (
        (
            [("Processor Dimensions", f"np{axis}") for axis in "xyz"],
            ("Machine Summary", "Distributed Processes"),
        ),
        (
            [("Global Problem Dimensions", f"Global n{axis}") for axis in "xyz"],
            ("Linear System Information", "Number of Equations"),
        ),
    ):
        if all(key in items for key in (*names, total)):
            product = math.prod(items[key].number() for key in names)
            if not _same(product, items[total].number()):
                raise items[total].line.error(f"{total[1]} is not the product of the grid")


def _checks(items: _Items) -> dict[str, bool]:
    checks = {}
    for (heading, name), value in items.items():
        check = next((_CHECKS[title] for title in _CHECKS if heading.startswith(title)), None)
        if check and name == "Result":
            if value.text not in ("PASSED", "FAILED"):
                raise value.line.error(f"the result {value.text!r} is neither PASSED nor FAILED")
            checks[check] = value.text == "PASSED"
    return checks


def _warnings(items: _Items) -> tuple[str, ...]:
    reference = [
        name.split()[3]
        for heading, name in items
        if heading == _FINAL and name.startswith("Reference version of ")
    ]
    texts = []
    if reference:
        texts.append(f"the reference version of {', '.join(reference)} ran, no optimised one")
    short = items.get((_FINAL, "Results are valid but execution time (sec) is"))
    if short:
        texts.append(f"the timed part took {short.number():g} s; official results need 1800 s")
    return tuple(texts)


def _parameters(items: _Items) -> dict[str, str]:
    grids = {
        "local_grid": ("Local Domain Dimensions", "n{}"),
        "process_grid": ("Processor Dimensions", "np{}"),
    }
    parameters = {}
    for name, (heading, form) in grids.items():
        sides = [items.get((heading, form.format(axis))) for axis in "xyz"]
        if all(sides):
            parameters[name] = "x".join(side.text for side in sides if side)
    return parameters


def _count(items: _Items, name: str) -> int | None:
    value = items.get(("Machine Summary", name))
    if value is None:
        return None
    if not value.text.isdecimal():
        raise value.line.error(f"{name} {value.text!r} is not a whole number")
    return int(value.text)


def _unknown(items: _Items) -> dict[str, str]:
    """Times and rates of kernels that are no part of the reference."""
    known = {*_KERNELS, "Total", "Optimization phase"}
    return {
        f"{heading}: {name}": value.text
        for (heading, name), value in items.items()
        if heading == _TIMES and name not in known
    }
