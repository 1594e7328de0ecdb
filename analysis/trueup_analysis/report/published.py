"""Published results beside this run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..figures.reference import compare, storage, sums
from ..load import load
from ..render.html import Part, Section
from ..sheets import reference as reference_sheets

if TYPE_CHECKING:
    from pathlib import Path

    from ..load import Loaded


def reference_section(loaded: Loaded, path: Path) -> Section | None:
    """Each published table of the benchmark that was run, this run beside it; ``path`` is
    reference_results.csv. None where nothing of it was run here.
    """
    cases = loaded.cases
    ours = cases[(cases["provenance"] == "measured") & (cases["benchmark"] == "devito")]
    ours = ours[ours["outcome"] == "ok"]
    if ours.empty:
        return None
    mine = loaded.only(ours["record"].to_list())
    published = load([path])
    sheets = reference_sheets.reference(compare(published, mine), sums(published))
    parts = [Part(sheets=(sheet,)) for sheet in sheets]
    # What `trueup reference` writes has the published rates of storage too.
    data = [*sheets, *reference_sheets.storage_sheets(storage(path, loaded))]
    return Section("reference", "Published results beside this run", parts, data=data)
