"""The headline of each record of many, computed on columns."""

from __future__ import annotations

import math
from functools import cache, cached_property
from typing import TYPE_CHECKING

from ..cases import read_cases
from ..packed import values
from ..rooms import Headline, at_headline, headline, known, view_of
from .frames import measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from trueup_node.cases import Case
    from trueup_node.health.expectations import Expectations
    from trueup_node.view import Measure

    from ..load import Loaded


class Heads:
    """Headlines of the cases of ``loaded``, each told by its number ``Case.record``."""

    def __init__(self, loaded: Loaded, expectations: Expectations | None = None) -> None:
        self.expectations = expectations
        self.loaded = loaded
        self.measured = cache(self._measured)

    def of(self, case: Case) -> Headline | None:
        """The figure that stands for a case."""
        return self.every[case.record]

    @cached_property
    def every(self) -> list[Headline | None]:
        """That of each record."""
        records = self.loaded.records
        headlines: list[Headline | None] = [None] * len(records)
        of_case: list[int] = []
        for benchmark, of_it in records.groupby("benchmark", observed=True).groups.items():
            view = view_of(str(benchmark))
            if view is None:
                of_case.extend(of_it)
                continue
            rest = of_it
            for measure in view.headlines:
                held = self.measured(measure).loc[rest]
                placed = held.index[held["placed"]]
                held = held[~held["placed"]].dropna(subset="value")
                of_case.extend(placed)
                columns = (values(held[name]) for name in ("value", "low", "high"))
                counts = [n or None for n in held["n"].tolist()]
                for record, *figure in zip(held.index, *columns, counts, strict=True):
                    headlines[record] = Headline(measure, *figure)
                rest = rest.difference(placed).difference(held.index)
        for case in read_cases(self.loaded, records=of_case) if of_case else ():
            headlines[case.record] = headline(case, self.expectations)
        return headlines

    def place(self, case: Case) -> tuple[str, int | None] | None:
        """The metric and the message size of that figure."""
        figure = self.of(case)
        return None if figure is None else (figure.measure.metric, figure.message_bytes)

    def at(self, case: Case, measure: Measure) -> Headline | None:
        """One measure of a case at the place where its headline counts."""
        held = self.measured(measure)
        if held["placed"].to_numpy()[case.record]:
            return at_headline(case, measure, self.expectations)
        value, low, high, n = (
            held[name].to_numpy()[case.record].item() for name in ("value", "low", "high", "n")
        )
        if math.isnan(value):
            return None
        return Headline(measure, value, known(low), known(high), n or None)

    def held(self, cases: Sequence[Case], measure: Measure) -> pd.DataFrame | None:
        """A measure of these cases alone, as ``frames.measured`` has it; None where any has it of
        devices or at message sizes."""
        held = self.measured(measure).take([case.record for case in cases])
        return None if held["placed"].any() else held

    def _measured(self, measure: Measure) -> pd.DataFrame:
        return measured(self.loaded.figures, measure=measure, records=self.loaded.records.index)
