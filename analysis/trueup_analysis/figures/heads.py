"""The figures that stand for many cases: the ``views.headline`` of each, from columns where
the figures are of whole cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cases import read_cases
from .coded import ByRecord, distinct
from .views import Headline, at_headline, headline, view_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from trueup.cases import Case
    from trueup.health.expectations import Expectations
    from trueup.view import Measure

    from ..load import Loaded
    from .coded import Held

# Instead of a place among the headlines: none is held; the case itself must say.
_NONE, _OF_CASE = -1, -2
# No view has so many headlines.
_MOST_PLACES = 1000


@dataclass(frozen=True)
class Every(Sequence[Headline | None]):
    """The figure that stands for each of some records, which is an object when it is asked for.

    Attributes:
        records: their numbers.
        codes: of each the place of its measure in ``measures``; -1 where it has no figure.
        value, low, high, n: NaN and 0 where it has none.
        odd: by the number of the record the figures that stand for it at a message size or of a
            device, or where nobody says so.
    """

    records: NDArray[np.int64]
    codes: NDArray[np.int64]
    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n: NDArray[np.int64]
    measures: list[Measure]
    odd: dict[int, Headline]

    @classmethod
    def none(cls, records: int) -> Every:
        """Of records that have none yet."""
        value, low, high = (np.full(records, math.nan) for _ in range(3))
        codes, n = np.full(records, -1), np.zeros(records, np.int64)
        return cls(np.arange(records), codes, value, low, high, n, [], {})

    def put(self, records: NDArray[np.int64], measure: Measure, held: Held) -> None:
        """Set the figures of some records, of which all are here."""
        self.codes[records] = len(self.measures)
        self.measures.append(measure)
        for ours, theirs in (
            *((self.value, held.value), (self.low, held.low), (self.high, held.high)),
            (self.n, held.n),
        ):
            ours[records] = theirs

    def put_one(self, record: int, figure: Headline) -> None:
        """The same of one record."""
        self.codes[record], self.value[record] = len(self.measures), figure.value
        self.measures.append(figure.measure)
        self.odd[record] = figure

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Headline | None]:
        ends = (map(known, end.tolist()) for end in (self.low, self.high))
        first_columns = (self.records.tolist(), self.codes.tolist(), self.value.tolist())
        columns = (*first_columns, *ends, self.n.tolist())
        for record, code, value, low, high, n in zip(*columns, strict=True):
            if code < 0 or record in self.odd:
                yield self.odd.get(record)
            else:
                yield Headline(self.measures[code], value, low, high, n or None)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int):
            return next(iter(self[[index]]))
        names = ("records", "codes", "value", "low", "high", "n")
        return replace(self, **{name: getattr(self, name)[index] for name in names})


class Heads:
    """Headlines of the cases of ``loaded``, each told by its number ``Case.record``."""

    def __init__(self, loaded: Loaded, expectations: Expectations | None = None) -> None:
        self.expectations = expectations
        self.loaded = loaded
        self.figures = ByRecord(loaded)
        self._places = cache(self._of_benchmark)

    def of(self, case: Case) -> Headline | None:
        """The figure that stands for a case."""
        position = self._place(case)
        if position == _NONE:
            return None
        if position == _OF_CASE:
            return headline(case, self.expectations)
        return self._whole(case, self._measures(case)[position])

    @cached_property
    def every(self) -> Every:
        """That of each record."""
        headlines = Every.none(self.figures.records)
        benchmarks = self.loaded.words("benchmark")
        of_case: list[int] = []
        for code in distinct(benchmarks.codes):
            benchmark = benchmarks.words[code]
            of_it = np.flatnonzero(benchmarks.codes == code)
            places = np.array(self._places(benchmark), np.int64)[of_it]
            of_case += of_it[places == _OF_CASE].tolist()
            view = view_of(benchmark)
            for position, measure in enumerate(() if view is None else view.headlines):
                chosen = of_it[places == position]
                headlines.put(chosen, measure, self.figures.held(measure).of(chosen))
        for case in read_cases(self.loaded, records=of_case) if of_case else ():
            figure = headline(case, self.expectations)
            if figure is not None:
                headlines.put_one(case.record, figure)
        return headlines

    def place(self, case: Case) -> tuple[str, int | None] | None:
        """The metric and the message size of that figure."""
        position = self._place(case)
        if position == _NONE:
            return None
        if position != _OF_CASE:
            return self._measures(case)[position].metric, None
        figure = headline(case, self.expectations)
        return None if figure is None else (figure.measure.metric, figure.message_bytes)

    def places(self, cases: Sequence[Case]) -> NDArray[np.int64]:
        """Numbers, of which equal ones of a benchmark mean the same place."""
        positions = np.array([self._place(case) for case in cases], np.int64)
        codes: dict[object, int] = {None: _NONE}
        for row in np.flatnonzero(positions == _OF_CASE).tolist():
            positions[row] = codes.setdefault(self.place(cases[row]), _MOST_PLACES + len(codes))
        return positions

    def at(self, case: Case, measure: Measure) -> Headline | None:
        """One measure of a case at the place where its headline counts."""
        if self.figures.held(measure).placed[case.record]:
            return at_headline(case, measure, self.expectations)
        return self._whole(case, measure)

    def held(self, cases: Sequence[Case], measure: Measure) -> Held | None:
        """A measure of these cases alone; None where any has it of devices or at message sizes."""
        records = np.fromiter((case.record for case in cases), np.int64, len(cases))
        held = self.figures.held(measure)
        return None if held.placed[records].any() else held.of(records)

    def _measures(self, case: Case) -> Sequence[Measure]:
        view = view_of(case.benchmark)
        return () if view is None else view.headlines

    def _place(self, case: Case) -> int:
        return self._places(case.benchmark)[case.record]

    def _of_benchmark(self, benchmark: str) -> list[int]:
        """By record the place of its headline among the view's."""
        view = view_of(benchmark)
        if view is None:
            return [_OF_CASE] * self.figures.records
        positions = np.full(self.figures.records, _NONE)
        for position, measure in enumerate(view.headlines):
            held = self.figures.held(measure)
            unplaced = positions == _NONE
            positions[unplaced & ~np.isnan(held.value)] = position
            positions[unplaced & held.placed] = _OF_CASE
        places: list[int] = positions.tolist()
        return places

    def _whole(self, case: Case, measure: Measure) -> Headline | None:
        held, record = self.figures.held(measure), case.record
        value, low, high = (known(column[record]) for column in (held.value, held.low, held.high))
        return (
            None
            if value is None
            else Headline(measure, value, low, high, int(held.n[record]) or None)
        )


def known(value: float) -> float | None:
    """None for NaN."""
    return None if math.isnan(value) else float(value)
