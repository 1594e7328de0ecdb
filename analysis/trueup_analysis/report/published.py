"""Published results that this run reproduces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup_controller.presets import read_all
from trueup_node.cases import MEASURED

from ..cases import read_cases
from ..catalog import rows
from ..figures import presets
from ..figures.reference import compare, own, storage, sums
from ..load import load
from ..render.html import Part, Section
from ..sheets import presets as preset_sheets
from ..sheets import reference as reference_sheets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ..figures.reference import Comparison
    from ..figures.scaling.tables import Series
    from ..load import Loaded


def reference_section(
    loaded: Loaded, catalog: Path, compared: Mapping[str, Sequence[Series]]
) -> Section | None:
    """The figures of a run with a preset beside the published rows that it reproduces, and the
    published scaling tables of Devito where it has their work; None where no record names a
    preset.

    Args:
        catalog: the folder of presets and reference_results.csv.
        compared: the scaling series of the loaded records, by benchmark.
    """
    mine = loaded.only(loaded.records["provenance"] == MEASURED)
    cases = [case for case in read_cases(mine) if case.parameters.get("preset")]
    if not cases:
        return None
    path = catalog / "reference_results.csv"
    offered = read_all(catalog)
    reproduced = presets.reproduced(offered, rows(path), cases)
    notes = presets.beside_nothing(offered, cases, reproduced)
    if not reproduced and not notes:
        return None
    sheets = [preset_sheets.reproduced(reproduced, notes)]
    published = load([path])
    # The output of `trueup reference` has every published table, reproduced or not.
    every = compare(published, own(mine))
    data = [*sheets, *reference_sheets.reference(every, sums(published), storage(path, mine))]
    if any(case.benchmark == "devito" for case in cases):
        beside = [series for series in compared.get("devito", ()) if series.kind == "strong"]
        tables = [item for item in compare(published, beside) if _is_reproduced(item)]
        sheets += reference_sheets.scaling_tables(tables)
    parts = [Part(sheets=(sheet,)) for sheet in sheets]
    return Section("reference", "Published results that this run reproduces", parts, data=data)


def _is_reproduced(item: Comparison) -> bool:
    """Whether this run has a figure beside a published one."""
    return any(row.get("mine_seconds") and row.get("published_seconds") for row in item.table)
