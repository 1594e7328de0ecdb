"""Rows and columns of the loaded frames as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import units

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from .load import Loaded


def figures(loaded: Loaded, names: Sequence[tuple[str, str | None]]) -> pd.DataFrame:
    """Chosen figures side by side, indexed by record: a column for each (metric, statistic), named
    ``metric`` for the median (or the single value) and ``metric:statistic`` otherwise; ``metric:n``
    beside each median.
    """
    wanted = loaded.metrics[loaded.metrics["name"].isin({name for name, _ in names})]
    wanted = wanted[wanted["message_bytes"].isna() & wanted["device"].isna()]
    out = loaded.cases.set_index("record")[[]]
    for name, statistic in names:
        rows = wanted[wanted["name"] == name]
        if statistic in (None, "median"):
            rows = rows[rows["statistic"].isna() | rows["statistic"].isin(["median", "single"])]
            rows = rows.drop_duplicates("record").set_index("record")
            out[name] = rows["value"]
            out[f"{name}:n"] = rows["n"]
        else:
            rows = rows[rows["statistic"] == statistic].drop_duplicates("record")
            out[f"{name}:{statistic}"] = rows.set_index("record")["value"]
    return out


def rows_of(frame: pd.DataFrame, keys: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """A frame's rows as plain Python values, what is missing as None."""
    names = list(frame.columns if keys is None else keys)
    columns = [[_plain(value) for value in frame[name]] for name in names]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _plain(value: Any) -> Any:
    if units.is_missing(value):
        return None
    return value.item() if hasattr(value, "item") else value
