"""Steps on frames of records and figures that several tables share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from trueup_node.cases import TYPICAL

from .. import packed

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from trueup_node.view import Measure

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
