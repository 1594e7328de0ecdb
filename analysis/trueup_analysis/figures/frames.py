"""Steps on frames of records and figures that several tables share, and the headline of each
record."""

from __future__ import annotations

import math
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd
from trueup_node.cases import TYPICAL

from .. import packed
from ..cases import read_cases
from ..rooms import Headline, at_headline, headline, known, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from trueup_node.cases import Case
    from trueup_node.health.expectations import Expectations
    from trueup_node.view import Measure

    from ..load import Loaded

# A single measurement is the median of one.
MEDIANS = (None, "median", "single")
# Parameters that say how the work was done. All others say which work it was; only equal work is
# compared.
HOW = frozenset(
    {
        "asked",
        "autotune",
        "binding",
        "block_shape",
        "language",
        "launcher",
        "layout",
        "mpi",
        "ranks",
        "repeats",
        "scaling",
        "threads",
        "threads_per_rank",
        "tuned_at",
        "tuning",
    }
)


def of_kinds(
    frame: pd.DataFrame, columns: list[str], function: Callable[..., Any], *, kind: str = "str"
) -> pd.Series:
    """The result of a function of some columns for each row, computed once for equal rows: sweeps
    repeat themselves.

    Args:
        kind: the type of the results.
    """
    number = packed.alike(frame, columns)
    kinds = frame.loc[~number.duplicated(), columns]
    results = map(function, *(packed.values(kinds[name]) for name in columns))
    return pd.Series(list(results), dtype=kind).take(number.to_numpy()).set_axis(frame.index)


def first(frame: pd.DataFrame, name: str) -> Any:
    """The first row's value of a column, None where unknown."""
    return packed.values(frame[name].iloc[:1])[0]


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain values, None where unknown."""
    columns = {str(name): packed.values(frame[name]) for name in frame}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def measured(figures: pd.DataFrame, *, measure: Measure, records: pd.Index) -> pd.DataFrame:
    """One measure of each record; NaN (of counts 0) where it has none.

    Columns: value (the first row of the statistic that stands for it), low and high (the least and
    the greatest of the repeats), n (how many repeats that row is of), repeats (the first count that
    any of its rows states), placed (whether it has rows of devices or at message sizes, of which
    more must be known: the other columns do not count).
    """
    rows = figures[figures["name"] == measure.metric]
    statistics = (measure.statistic,) if measure.statistic else TYPICAL
    typical = _stating(rows, statistics).drop_duplicates("record").set_index("record")
    low, high = (
        _stating(rows, [end]).drop_duplicates("record", keep="last").set_index("record")["value"]
        for end in ("min", "max")
    )
    counted = rows[rows["n"] > 0].drop_duplicates("record").set_index("record")["n"]
    columns = {"value": typical["value"], "low": low, "high": high}
    frame = pd.DataFrame(columns, index=records)
    for name, counts in (("n", typical["n"]), ("repeats", counted)):
        frame[name] = counts.reindex(records).fillna(0).astype("int64")
    frame["placed"] = records.isin(rows.loc[_is_placed(rows), "record"])
    return frame


def plain(figures: pd.DataFrame, *, metric: str, statistic: str = "") -> pd.Series:
    """The value of ``Case.plain`` by record, of those that have one."""
    rows = figures[figures["name"] == metric]
    rows = rows[~_is_placed(rows)]
    statistics = (statistic,) if statistic else TYPICAL
    parts = [_stating(rows, [name]).drop_duplicates("record", keep="last") for name in statistics]
    return pd.concat(parts).drop_duplicates("record").set_index("record")["value"]


def of_whole_case(
    figures: pd.DataFrame, *, metric: str, statistics: Sequence[str | None] = MEDIANS
) -> pd.Series:
    """By record its first figure of the whole case with one of some statistics, of those that have
    one."""
    rows = figures[figures["name"] == metric]
    rows = rows[~_is_placed(rows) & rows["statistic"].isin(list(statistics))]
    return rows.drop_duplicates("record").set_index("record")["value"]


def _is_placed(rows: pd.DataFrame) -> pd.Series:
    return rows["message_bytes"].notna() | rows["device"].notna()


def _stating(rows: pd.DataFrame, statistics: Sequence[str | None]) -> pd.DataFrame:
    """The rows of some statistics, in the order of these."""
    return pd.concat([rows[rows["statistic"].isin([name])] for name in statistics])


def work_of(parameters: Mapping[str, Any], without: Container[str] = HOW) -> str:
    """Equal texts for equal work: the parameters without the ones that say how it was done."""
    return repr(
        sorted((name, str(value)) for name, value in parameters.items() if name not in without)
    )


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
                columns = (packed.values(held[name]) for name in ("value", "low", "high"))
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
