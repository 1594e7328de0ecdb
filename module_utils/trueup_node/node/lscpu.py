"""Understand ``lscpu --json``.

Shape (util-linux 2.30 and later): ``{"lscpu": [{"field": "Model name:", "data": "..."}, ...]}``; in
its hierarchic form fields hold others in ``children``. Field names are translated, so lscpu must
run in the C locale. Source: lscpu(1) of util-linux.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ParseError
from ..reading import refuse_long_numbers, unique

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Lscpu:
    """CPU facts from lscpu that sysfs does not have.

    Attributes:
        model: the CPU's trade name, e.g. ``AMD EPYC 7V73X 64-Core Processor``; None when unnamed.
        sockets: number of sockets; None where lscpu cannot tell (it prints ``-``).
    """

    model: str | None
    sockets: int | None


def parse_lscpu(text: str) -> Lscpu:
    """Parse the output of ``LC_ALL=C lscpu --json``.

    Raises:
        ParseError: not JSON, not lscpu's shape, a field twice, or no architecture.
    """
    refuse_long_numbers(text)
    try:
        document = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"lscpu: expected JSON ({error})", 1, text[:200]) from error
    entries = document.get("lscpu") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ParseError("lscpu: expected an object with a list 'lscpu'", 1, text[:200])
    try:
        fields = unique(list(_fields(entries)))
    except ValueError as error:
        raise ParseError(f"lscpu: the field {error}") from None
    if not fields.get("Architecture"):
        raise ParseError("lscpu: no field 'Architecture'; was it run in the C locale?")
    sockets = fields.get("Socket(s)", "-")
    if not re.fullmatch(r"[0-9]{1,6}|-", sockets):
        raise ParseError(f"lscpu: Socket(s) {sockets[:60]!r} is no count")
    return Lscpu(
        model=fields.get("Model name") or None,
        sockets=None if sockets == "-" else int(sockets),
    )


def _fields(entries: list[Any]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        if not isinstance(entry, dict):
            raise ParseError(
                f"lscpu: expected an object with 'field' and 'data', got {str(entry)[:60]!r}"
            )
        if isinstance(entry.get("field"), str) and isinstance(entry.get("data"), str):
            yield entry["field"].rstrip(":"), entry["data"].strip()
        if isinstance(entry.get("children"), list):
            yield from _fields(entry["children"])
