"""Rows of frames as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import units

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd


def rows_of(frame: pd.DataFrame, keys: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """A frame's rows as plain Python values, what is missing as None."""
    names = list(frame.columns if keys is None else keys)
    columns = [[_plain(value) for value in frame[name]] for name in names]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _plain(value: Any) -> Any:
    if units.is_missing(value):
        return None
    return value.item() if hasattr(value, "item") else value
