"""Links from the report to the records of its figures and to their raw outputs."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ..render.html import LINKS, Link

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trueup_node.cases import Case
    from trueup_node.health.verdicts import Verdict

    from ..figures.groups import Group

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
