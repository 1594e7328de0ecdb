"""From a publication to rows of an evidence file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from trueup_node.errors import BadInput
from trueup_node.suggest import did_you_mean

from . import rows
from .readers import READERS
from .readers.reading import Reading
from .tree import opened

if TYPE_CHECKING:
    from pathlib import Path


def read(
    source: str,
    path: Path,
    *,
    repository: str | None = None,
    commit: str | None = None,
    day: str | None = None,
) -> Reading:
    """The rows of a publication that lies at a path.

    Raises:
        BadInput: no reader is called so, the path cannot be read, or it holds no result.
    """
    if source not in READERS:
        raise BadInput(
            f"{source} is no source that trueup reads{did_you_mean(source, READERS)}:"
            f" {', '.join(READERS)}"
        )
    reader = READERS[source]
    tree = opened(path, repository or reader.repository, commit, day)
    reading = Reading(tree, source)
    try:
        reader.read(reading)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise BadInput(f"{path} is not in the form that {source} reads: {error}") from error
    if not reading.rows:
        reasons = "; ".join(f"{count} x {reason}" for reason, count in reading.skipped.items())
        raise BadInput(
            f"{path} holds no result that {source} reads{f' ({reasons})' if reasons else ''}"
        )
    return reading


def keep(path: Path, reading: Reading) -> tuple[int, int]:
    """Merge the rows into a file; how many it had and has."""
    earlier = rows.read_file(path) if os.path.lexists(path) else []
    merged = rows.merged([*earlier, *reading.rows])
    rows.write(path, merged)
    return len(earlier), len(merged)
