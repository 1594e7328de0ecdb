"""JSON for other programs: base units, unrounded, with the warnings and notes of each table."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from .. import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..sheets.sheet import Sheet


def render(sheets: Sequence[Sheet]) -> str:
    """``{"tables": [{title, ..., rows, notes, warnings}]}``; an unknown value is null."""
    return dump(
        {
            "tables": [
                {
                    "title": sheet.title,
                    **sheet.facts,
                    "rows": [{key: row.get(key) for key in sheet.data()} for row in sheet.rows],
                    "notes": list(sheet.notes),
                    "warnings": list(sheet.warnings),
                }
                for sheet in sheets
            ]
        }
    )


def dump(value: Any) -> str:
    """JSON text with a line end, never with NaN, which is no JSON."""
    text = json.dumps(_clean(value), indent=2, ensure_ascii=False, allow_nan=False)
    return units.escaped(text) + "\n"


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    infinite = isinstance(value, float) and not math.isfinite(value)
    return None if infinite or units.is_missing(value) else value
