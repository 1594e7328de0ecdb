"""The report's lists of everything that was read, and how its figures are made."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trueup_node.record import OUTCOMES

from .. import units
from ..render.html import ROWS_SHOWN, Fact, Part, Section
from ..rooms import names_of, view_of
from ..sheets import listing as list_sheets
from ..sheets.sheet import Column, Sheet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup_node.cases import Case

    from ..figures.heads import Heads
    from ..load import Loaded
    from .evidence import Evidence


def records_section(
    loaded: Loaded, cases: Sequence[Case], heads: Heads, evidence: Evidence
) -> Section:
    """Every record, with links to its files; of many their number by benchmark and outcome, and
    those that are not ok."""
    sheets = list_sheets.run_by_run(loaded, heads.every)
    data = [*sheets, *list_sheets.excluded(loaded)]
    listed = sheets
    parts = []
    if len(cases) > ROWS_SHOWN:
        bad = [case.record for case in cases if case.outcome != "ok"]
        titles = {sheet.name: sheet.title for sheet in sheets}
        listed = [
            replace(sheet, title=titles[sheet.name])
            for sheet in list_sheets.run_by_run(
                loaded.only(bad), [heads.every[record] for record in bad]
            )
        ]
        parts = [Part(sheets=(_tally(cases),))]
    for sheet in listed:
        rows = [evidence.linked(row) for row in sheet.rows[:ROWS_SHOWN]]
        # A page shows no more of them; the CSV file has all.
        parts.append(
            Part(sheets=(replace(sheet, rows=[*rows, *sheet.rows[ROWS_SHOWN:]], name=""),))
        )
    if len(cases) > ROWS_SHOWN:
        parts[-1] = replace(parts[-1], notes=("tables/list.csv has every record.",))
    return Section("list", "All records", parts, data=data)


def _tally(cases: Sequence[Case]) -> Sheet:
    counts = Counter((case.benchmark, case.outcome) for case in cases)
    names = list(dict.fromkeys(case.benchmark for case in cases))
    return Sheet(
        title=f"{units.plural(len(cases), 'record')} by benchmark and outcome",
        columns=[
            Column("benchmark", "benchmark", words=True),
            *(Column(outcome, outcome.replace("_", " "), units.count) for outcome in OUTCOMES),
        ],
        rows=[
            {
                "benchmark": names_of(name),
                **{outcome: counts[name, outcome] for outcome in OUTCOMES},
            }
            for name in names
        ],
        name="tally",
    )


def excluded_section(loaded: Loaded) -> Section | None:
    """Files that could not be read; their data stand in the list of records."""
    sheets = list_sheets.excluded(loaded)
    if not sheets:
        return None
    return Section("left-out", "Files left out", (Part(sheets=sheets),), data=())


_METHOD: Final = (
    Fact(
        "Median, spread",
        "The median of the repeats stands for a case; the spread is the least and the greatest"
        " measurement. It is no confidence interval.",
    ),
    Fact(
        "Speed-up, efficiency",
        "Speed-up is how many times faster than the baseline; efficiency is that / how many times"
        " the resources of the baseline were used. Where the work grows along, or a figure belongs"
        " to each device, efficiency is the share of the baseline's figure that is kept.",
    ),
    Fact(
        "Cost",
        "US$ = nodes × time × price of a node-hour. Storage, network, provisioning and idle time"
        " are not in it.",
    ),
    Fact(
        "Sources",
        "Measured figures come from the records of this run, each with the tool's own output beside"
        " it. Sizes, prices, expectations and published results come from the catalog, with the"
        " source and date that the tables name.",
    ),
)


def method_section(cases: Sequence[Case]) -> Section:
    """How the figures of measured records are made."""
    benchmarks = list(dict.fromkeys(case.benchmark for case in cases))
    terms = [Fact(view.title, view.method) for view in map(view_of, benchmarks) if view is not None]
    return Section("method", "Method and units", (Part(terms=(*terms, *_METHOD)),), data=())
