"""The report's lists of everything that was read, with links to its files, and how its figures are
made."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from trueup_node.record import OUTCOMES

from .. import units
from ..render.html import LINKS, ROWS_SHOWN, Fact, Link, Part, Section
from ..rooms import names_of, view_of
from ..sheets import listing as list_sheets
from ..sheets.sheet import Column, Sheet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trueup_node.cases import Case
    from trueup_node.health.verdicts import Verdict

    from ..figures.frames import Heads
    from ..figures.groups import Group
    from ..load import Loaded


_RECORD: Final = "record"
_RAW: Final = "raw output"


class Evidence:
    """The files that figures are read from.

    Args:
        folder: the folder of the report; None where it is not known, and nothing is linked.
        cases: the records.
    """

    def __init__(self, folder: Path | None, cases: Sequence[Case]) -> None:
        self._folder = None if folder is None else folder.resolve()
        self._cases = cases

    def of(self, case: Case) -> tuple[Link, ...]:
        """The record of a case, and the output of its tool where it names one."""
        return self._files(case.source, case.raw_path) if case.measured else ()

    def of_group(self, group: Group) -> tuple[Link, ...]:
        """The files of a row of the page: of its only case, or of its worst one by name."""
        if len(group.cases) == 1:
            return self.of(group.cases[0])
        if group.head is None:
            return ()
        worst = group.head.worst
        return tuple(link._replace(text=f"{worst.node}: {link.text}") for link in self.of(worst))

    def of_verdict(self, verdict: Verdict) -> tuple[Link, ...]:
        """The files of the case that a verdict is on; none where nothing ran."""
        case = self._by_name.get((verdict.run_id, verdict.nodes, verdict.benchmark, verdict.case))
        return () if case is None else self.of(case)

    def linked(self, row: Mapping[str, object]) -> dict[str, object]:
        """A row of the list of records, with its links."""
        record, raw = row.get("source"), row.get("raw_path")
        if row.get("provenance") != "measured" or not isinstance(record, str):
            return dict(row)
        return {**row, LINKS: self._files(record, raw if isinstance(raw, str) else None)}

    @property
    def records_at(self) -> str:
        """The folder that holds the records, relative to the report; "" where there is none."""
        folders = {os.path.dirname(case.source) for case in self._cases if case.measured}
        held = [os.path.realpath(name) for name in folders if name and os.path.isdir(name)]
        if self._folder is None or not held:
            return ""
        return f"{os.path.relpath(os.path.commonpath(held), self._folder)}/"

    def _files(self, record: str, raw: str | None) -> tuple[Link, ...]:
        """A missing file is named without a link."""
        if self._folder is None or not record:
            return ()
        path = record.partition("#")[0]
        links = [self._link(_RECORD, path, self._folder)]
        # Raw outputs lie beside their record: a record cannot lead to another folder's file.
        if raw:
            beside = os.path.join(os.path.dirname(path), os.path.basename(raw))
            links.append(self._link(_RAW, beside, self._folder))
        return tuple(links)

    def _link(self, text: str, path: str, folder: Path) -> Link:
        if not os.path.isfile(path):
            return Link(f"{text} is not there", "")
        return Link(text, quote(os.path.relpath(os.path.realpath(path), folder)))

    @cached_property
    def _by_name(self) -> dict[tuple[str | None, tuple[str, ...], str, str], Case]:
        return {(case.run_id, case.nodes, case.benchmark, case.case): case for case in self._cases}


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
