"""The result of an export to another project's format."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from trueup_node.errors import ParseError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trueup_node.cases import Case


@dataclass
class Exported:
    """Texts in a format, and what the format cannot say.

    Attributes:
        texts: by the name of a file, its text.
        left_out: by a sentence on a kind of record or figure, how many of it are in no text.
    """

    texts: dict[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def sentences(self) -> Iterator[str]:
        """What is left out, with its number."""
        return (f"{count} x {text}" for text, count in sorted(self.left_out.items()))


def seconds_of(case: Case) -> float | None:
    """When a case began, as seconds since 1970; None where nobody says it."""
    if case.started_at is None:
        return None
    try:
        moment = datetime.fromisoformat(case.started_at)
    except ValueError as error:
        raise ParseError(f"{case.started_at!r} is no time") from error
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return zoned.timestamp()


def node_of(case: Case) -> str:
    """The nodes of a case as one name."""
    return "+".join(case.nodes)
