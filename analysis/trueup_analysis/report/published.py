"""Published results beside this run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..figures.reference import compare, own, storage, sums
from ..load import load
from ..packed import MEASURED
from ..render.html import Part, Section
from ..sheets import reference as reference_sheets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ..figures.scaling.tables import Series
    from ..load import Loaded


def reference_section(
    loaded: Loaded, path: Path, compared: Mapping[str, Sequence[Series]]
) -> Section | None:
    """Each published table of the benchmark that was run, this run beside it; None where nothing of
    it was run here.

    Args:
        path: reference_results.csv.
        compared: the scaling series of the loaded records, by benchmark.
    """
    records = loaded.records
    is_ok = (records["outcome"] == "ok") & (records["benchmark"] == "devito")
    is_measured = is_ok & (records["provenance"] == MEASURED)
    if not is_measured.any():
        return None
    published = load([path])
    if is_measured.equals(is_ok):
        beside = compare(
            published, [series for series in compared["devito"] if series.kind == "strong"]
        )
    else:
        beside = compare(published, own(loaded.only(is_measured)))
    sheets = reference_sheets.reference(beside, sums(published))
    parts = [Part(sheets=(sheet,)) for sheet in sheets]
    # The output of `trueup reference` has the published rates of storage too.
    data = [*sheets, *reference_sheets.storage_sheets(storage(path, loaded))]
    return Section("reference", "Published results beside this run", parts, data=data)
