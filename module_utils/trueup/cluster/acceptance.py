"""What no test can show is a row of catalog/acceptance.yml: a check that a person with the machine
runs by hand, or that playbooks/acceptance.yml runs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ..errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "catalog/acceptance.yml"


@dataclass(frozen=True)
class Row:
    """One row; the head of the file describes each member."""

    id: str
    what: str
    minutes: int
    test: str
    expected: str
    applies: Mapping[str, Any]


_TYPES = {"minutes": int, "applies": dict}


def rows(data: Any) -> list[Row]:
    """The rows of the file, in its order.

    Raises:
        BadInput: it is not of that form, or an id stands twice.
    """
    listed = data.get("rows") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        raise BadInput(f"{FILE}: a mapping with a list `rows` is expected")
    found = [_row(place, item) for place, item in enumerate(listed, 1)]
    ids = [row.id for row in found]
    if twice := sorted({one for one in ids if ids.count(one) > 1}):
        raise BadInput(f"{FILE}: the id {twice[0]} stands twice; give one of them another")
    return found


def _row(place: int, item: Any) -> Row:
    where = f"{FILE}: row {place}"
    if not isinstance(item, dict):
        raise BadInput(f"{where} is not a mapping")
    where += f" ({item.get('id', 'without id')})"
    given = {"applies": {}, **item}
    for one in fields(Row):
        kind = _TYPES.get(one.name, str)
        if not isinstance(given.get(one.name), kind) or given[one.name] == "":
            raise BadInput(f"{where}: {one.name} is missing or no {kind.__name__}")
    if unknown := sorted(set(given) - {one.name for one in fields(Row)}):
        raise BadInput(f"{where}: there is no {unknown[0]} in a row")
    return Row(**given)
