"""The rooms of the tools whose output is read, each with ``output``, ``signatures`` and ``view``
(``trueup_node.benchmarks`` describes these), and the figures that follow from a view for a case.

The rooms of tools that nodes run are in ``trueup_node.benchmarks``, those of tools that only other
people run in ``trueup_analysis.parsers``.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from trueup_node import benchmarks
from trueup_node.cases import TYPICAL
from trueup_node.view import Measure, View

from . import parsers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from trueup_node.cases import Case, Figure
    from trueup_node.health.expectations import Expectation, Expectations
    from trueup_node.reading import Signature
    from trueup_node.view import Work


@cache
def _packages() -> dict[str, str]:
    """The package of each tool's room."""
    return {
        info.name: f"{package.__name__}.{info.name}"
        for package in (benchmarks, parsers)
        for info in pkgutil.iter_modules(package.__path__)
    }


def names() -> list[str]:
    """All tools, sorted."""
    return sorted(_packages())


def part(tool: str, name: str) -> ModuleType:
    """A module of a tool's room, such as ``output``.

    Raises:
        KeyError: there is no such tool.
    """
    return importlib.import_module(f"{_packages()[tool]}.{name}")


def tools() -> dict[str, Signature]:
    """The signatures by tool name (``signatures.py``); a parser is imported to parse."""
    return {name: part(name, "signatures").SIGNATURE for name in names()}


def marks(tool: str | None = None) -> list[str]:
    """The marks of one tool, or of all: a text is searched for them before any parser sees it."""
    by_tool = tools()
    signatures = [by_tool[tool]] if tool in by_tool else by_tool.values()
    return [mark for signature in signatures for mark in signature.marks]


def logs() -> list[tuple[str, str, str]]:
    """The logs that tools write between their own lines (``Signature.log``)."""
    return [signature.log for signature in tools().values() if signature.log]


@cache
def views() -> Mapping[str, View]:
    """The views by benchmark: one a room."""
    return {name: part(name, "view").VIEW for name in names()}


@cache
def view_of(benchmark: str) -> View | None:
    """How a benchmark is shown; None without a view (the state of a node)."""
    if benchmark not in _packages():
        return None
    view: View = part(benchmark, "view").VIEW
    return view


def is_served(benchmark: str) -> bool:
    """Whether a benchmark measures a server, whose tokens ``table`` prices."""
    view = view_of(benchmark)
    return view is not None and bool(view.loads)


def names_of(benchmark: str) -> str:
    """The readers' name of a benchmark."""
    view = view_of(benchmark)
    return benchmark.replace("_", " ") if view is None else view.title


class Headline(NamedTuple):
    """The figure that stands for a case.

    Attributes:
        value, low, high: in the measure's base unit: the typical one, the least and the greatest of
            the repeats (None where the record does not say).
        n: how many repeats, None where the record does not say.
        message_bytes: at which message size, None where the figure has none.
        device: the worst of several devices, None where the figure has none.
        devices: how many devices were measured.
        judged_bytes: the message size that is judged, where the case never reached it.
    """

    measure: Measure
    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    message_bytes: int | None = None
    device: str | None = None
    devices: int = 0
    judged_bytes: int | None = None


def headline(case: Case, expectations: Expectations | None = None) -> Headline | None:
    """The figure that stands for a case: the first of its view's headlines that the case holds.

    Measured at several message sizes, the one that is judged counts, else the largest; of several
    devices, the worst. A case without a view has its first figure with a direction.
    """
    view = view_of(case.benchmark)
    if view is None:
        return _first(case)
    for measure in view.headlines:
        figure = at_headline(case, measure, expectations)
        if figure is not None:
            return figure
    return None


def at_headline(
    case: Case, measure: Measure, expectations: Expectations | None = None
) -> Headline | None:
    """One measure of a case at the place where its headline counts; None where it is not held."""
    typical = case.typical(measure.metric, measure.statistic)
    if not typical:
        return None
    judged = judged_by(case, measure.metric, expectations)
    size, missed = _size(typical, judged, is_time=measure.direction == "lower")
    at_size = [row for row in typical if row.message_bytes == size]
    # A row of the whole case says it all; without one, the worst device speaks for the node.
    of_case = [row for row in at_size if row.device is None]
    worst = min if measure.direction == "higher" else max
    row = of_case[0] if of_case else worst(at_size, key=lambda row: row.value)
    ends = {
        figure.statistic: figure.value
        for figure in case.of(measure.metric)
        if (figure.message_bytes, figure.device) == (row.message_bytes, row.device)
    }
    return Headline(
        measure,
        row.value,
        ends.get("min"),
        ends.get("max"),
        row.n,
        size,
        row.device,
        len({figure.device for figure in at_size if figure.device is not None}),
        missed,
    )


def _size(
    rows: Sequence[Figure], judged: Sequence[Expectation], *, is_time: bool
) -> tuple[int | None, int | None]:
    """The message size that counts, and the judged one that was not reached. Without a judged size
    a rate counts at its largest message, a time at its smallest one with content."""
    sizes = {row.message_bytes for row in rows if row.message_bytes is not None}
    if not sizes:
        return None, None
    judged_sizes = [
        expectation.message_bytes for expectation in judged if expectation.message_bytes is not None
    ]
    reached = [size for size in judged_sizes if size in sizes]
    if reached:
        return max(reached), None
    least = min((size for size in sizes if size > 0), default=0)
    return least if is_time else max(sizes), max(judged_sizes, default=None)


def judged_by(case: Case, metric: str, expectations: Expectations | None) -> list[Expectation]:
    """The expectations of a metric of this case."""
    if expectations is None or case.vm_size is None:
        return []
    return [
        item
        for item in expectations.of(case.vm_size, case.benchmark)
        if item.metric == metric and item.applies(case)
    ]


_NO_VIEW: Final = ("higher", "lower")


def _first(case: Case) -> Headline | None:
    for row in case.figures:
        if row.direction in _NO_VIEW and row.statistic in TYPICAL:
            label = row.name.replace("_", " ")
            measure = Measure(row.name, label, row.unit, row.direction, "")
            return Headline(measure, row.value, message_bytes=row.message_bytes, device=row.device)
    return None


def amount_rate(case: Case, work: Work, expectations: Expectations | None = None) -> float | None:
    """How much of the work a case does in ``work.seconds``, in the rate's base unit.

    At several message sizes, that of the headline; of several devices, their sum where they worked
    together, else the worst. None where the case holds no such rate, or it is 0, or the case did
    not do this work.
    """
    if work.parameter and str(case.parameters.get(work.parameter)) != work.value:
        return None
    figure = headline(case, expectations)
    at = None if figure is None else figure.message_bytes
    rates = [
        _rate_of(case, metric, at, together=work.together) for metric in (work.rate, *work.also)
    ]
    known_rates = [rate for rate in rates if rate is not None]
    return sum(known_rates) if known_rates and sum(known_rates) > 0 else None


def _rate_of(case: Case, metric: str, at: int | None, *, together: bool) -> float | None:
    rows = case.typical(metric)
    if len({row.message_bytes for row in rows}) > 1:
        rows = [row for row in rows if row.message_bytes == at]
    if not rows:
        return None
    # A row of the whole case says it all.
    of_case = [row.value for row in rows if row.device is None][:1]
    values = of_case or [row.value for row in rows]
    return sum(values) if together else min(values)


def known(value: float) -> float | None:
    """None for NaN."""
    return None if math.isnan(value) else float(value)
