"""The verdicts of ``trueup health``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..figures.health import expectations, measured
from ..figures.health.examine import Health, examine
from ..figures.health.required import roster

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..load import Loaded


def health(
    loaded: Loaded,
    *,
    as_size: str | None = None,
    site_file: Path | None = None,
    catalog: Path | None = None,
    benchmarks: Sequence[str] = (),
    required: Sequence[str] = (),
    listed: Sequence[str] | None = None,
    has_roster: bool = True,
) -> Health:
    """Verdicts on the figures.

    Args:
        as_size: the VM size to judge every record as.
        site_file: limits of the site, in the format of the catalog's.
        benchmarks: the benchmarks to judge; none: all.
        required: benchmarks of which every node must have a record.
        listed: the nodes to expect beside those of the runs' manifests.
        has_roster: whether the records are of whole runs, whose manifests say who is missing.

    Raises:
        BadInput: nothing can be judged.
    """
    expected = expectations.for_size(as_size, catalog, site_file)
    cases = measured.cases(loaded, as_size=as_size)
    return examine(
        cases,
        expected.only(list(benchmarks)) if benchmarks else expected,
        expected=roster(loaded, cases, listed) if has_roster or listed else None,
        required=required,
        faults=expectations.read_faults(catalog),
    )
