"""The figures that stand for many cases: what ``views.headline`` says of each, from columns where
the figures are of whole cases."""

from __future__ import annotations

import math
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..cases import read_cases
from .by_record import ByRecord
from .views import Headline, at_headline, headline, view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup.cases import Case
    from trueup.health.expectations import Expectations
    from trueup.view import Measure

    from ..load import Loaded
    from .by_record import Held

# Instead of a place among the headlines: none is held; the case itself must say.
_NONE, _OF_CASE = -1, -2


class Heads:
    """Headlines of the cases of ``loaded``, each told by its number ``Case.record``."""

    def __init__(self, loaded: Loaded, expectations: Expectations | None = None) -> None:
        self.expectations = expectations
        self._loaded = loaded
        self.figures = ByRecord(loaded)
        self._places = cache(self._of_benchmark)

    def of(self, case: Case) -> Headline | None:
        """The figure that stands for a case."""
        place = self._place(case)
        if place == _NONE:
            return None
        if place == _OF_CASE:
            return headline(case, self.expectations)
        return self._whole(case, self._measures(case)[place])

    @cached_property
    def every(self) -> list[Headline | None]:
        """That of each record."""
        found: list[Headline | None] = [None] * self.figures.records
        records: dict[str, list[int]] = {}
        for record, benchmark in enumerate(self._loaded.values("benchmark")):
            records.setdefault(benchmark, []).append(record)
        of_case: list[int] = []
        for benchmark, numbers in records.items():
            of_it = np.array(numbers, np.int64)
            places = np.array(self._places(benchmark), np.int64)[of_it]
            of_case += of_it[places == _OF_CASE].tolist()
            view = view_of(benchmark)
            for place, measure in enumerate(() if view is None else view.headlines):
                chosen = of_it[places == place]
                held = self.figures.held(measure).of(chosen)
                ends = (map(known, one.tolist()) for one in (held.value, held.low, held.high))
                columns = (chosen.tolist(), *ends, held.n.tolist())
                for record, value, low, high, n in zip(*columns, strict=True):
                    found[record] = Headline(measure, value, low, high, n or None)
        for case in read_cases(self._loaded, records=of_case) if of_case else ():
            found[case.record] = headline(case, self.expectations)
        return found

    def place(self, case: Case) -> tuple[str, int | None] | None:
        """The metric and the message size of that figure."""
        place = self._place(case)
        if place == _NONE:
            return None
        if place != _OF_CASE:
            return self._measures(case)[place].metric, None
        shown = headline(case, self.expectations)
        return None if shown is None else (shown.measure.metric, shown.message_bytes)

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
        found = np.full(self.figures.records, _NONE)
        for place, measure in enumerate(view.headlines):
            held = self.figures.held(measure)
            left = found == _NONE
            found[left & ~np.isnan(held.value)] = place
            found[left & held.placed] = _OF_CASE
        places: list[int] = found.tolist()
        return places

    def _whole(self, case: Case, measure: Measure) -> Headline | None:
        held, record = self.figures.held(measure), case.record
        value, low, high = (known(one[record]) for one in (held.value, held.low, held.high))
        return (
            None
            if value is None
            else Headline(measure, value, low, high, int(held.n[record]) or None)
        )


def known(value: float) -> float | None:
    """None for NaN."""
    return None if math.isnan(value) else float(value)
