"""Which runs a command works on: the last one, unless options or sources name others."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

import pandas as pd
from trueup_node.errors import BadInput
from trueup_node.record import is_run_id

from .packed import MEASURED
from .selection import LAST, find_run, run_before, run_ids, run_of_manifest, select
from .units import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .load import Excluded, Loaded
    from .selection import Selection

_OTHERS: Final = "--run, --since and --all choose others"


def is_record(path: Path) -> bool:
    """Whether a source is one record, or published results: no run of whole nodes."""
    return path.suffix in {".json", ".csv"} and path.is_file()


def of_runs(
    loaded: Loaded, sources: Sequence[Path], chosen: Selection, *, may_be_empty: bool = False
) -> Loaded:
    """The chosen records of the last run, with a note that says which runs these are of how many.

    Runs and records that the sources name one by one are taken as they are, and so are published
    results. ``--run``, ``--since`` and ``--all`` choose runs.

    Args:
        sources: where the records were read.
        may_be_empty: whether a run that measured nothing is an answer.

    Raises:
        BadInput: no record is left, or no run is as chosen.
    """
    all_runs = run_ids(loaded)
    if chosen.run is not None:
        meant = [find_run(chosen.run, all_runs)]
        selected = select(loaded, replace(chosen, run=meant[0]), may_be_empty=may_be_empty)
        selected = replace(selected, excluded=_without(selected.excluded, {*all_runs} - {*meant}))
        return replace(selected, notes=[*selected.notes, *_chosen(meant, all_runs)])
    named = _Named(sources)
    last = next((run for run in reversed(all_runs) if run not in named.outside(loaded)), None)
    if chosen.every_run or chosen.since or named.every or last is None:
        selected = select(loaded, chosen, may_be_empty=may_be_empty)
        return replace(selected, notes=[*selected.notes, *_chosen(run_ids(selected), all_runs)])
    meant = [last, *named.runs(loaded)]
    rows = (loaded.records["run_id"] == last) | named.rows(loaded)
    narrowed = replace(
        loaded.only(rows),
        runs=[run for run in loaded.runs if str(run["run_id"]) in meant],
        excluded=_without(loaded.excluded, {*all_runs} - {*meant}),
    )
    try:
        if not rows.any() and not may_be_empty:
            raise BadInput("it has no record")
        selected = select(narrowed, chosen, may_be_empty=may_be_empty)
    except BadInput as error:
        raise BadInput(f"run {last}, the last: {error} ({_OTHERS})") from error
    return replace(selected, notes=[*selected.notes, *_how_last(loaded, all_runs, meant)])


def needed_runs(loaded: Loaded, chosen: Selection) -> set[str] | None:
    """The runs of a store that ``of_runs`` and a comparison with the run before need; None for
    all."""
    if chosen.every_run:
        return None
    if chosen.since is not None:
        first = f"{chosen.since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        times = ((run, last) for day in loaded.stored for run, (_, last) in day.times.items())
        return {run for run, last in times if last >= first}
    every = run_ids(loaded)
    in_store = {run for day in loaded.stored for run in day.times}
    last = find_run(chosen.run or LAST, every)
    # Sources that name a run beside the store leave the last one of the store.
    runs = {last, next(run for run in reversed(every) if run in in_store)}
    return runs | {earlier for run in runs if (earlier := run_before(loaded, run)) is not None}


def _how_last(loaded: Loaded, all_runs: Sequence[str], meant: Sequence[str]) -> list[str]:
    """Which run is shown where there are others, and how it is known to be the last."""
    other_count = len({*all_runs} - {*meant})
    if not other_count:
        return []
    last, *more = meant
    counted = any(run.get("count") for run in loaded.runs if str(run["run_id"]) == last)
    how = "" if counted else ", by its time: its run.json has no count"
    beside = f", and {', '.join(more)}, which the command names" if more else ""
    rest = f"{plural(other_count, 'other run')} left out: {_OTHERS}"
    return [f"run {last} is shown, the last of {len(all_runs):,} runs{how}{beside}; {rest}."]


def _chosen(runs: Sequence[str], all_runs: Sequence[str]) -> list[str]:
    """Which runs of several are shown."""
    other_count = len({*all_runs} - {*runs})
    rest = f"; {plural(other_count, 'other run')} left out" if other_count else ""
    if runs[1:]:
        return [f"{len(runs):,} runs are shown together, {runs[0]} to {runs[-1]}{rest}."]
    return [f"run {run} is shown{rest}." for run in runs if other_count]


def _without(excluded: Sequence[Excluded], other_runs: Collection[str]) -> list[Excluded]:
    """The files that could not be read, without those of other runs. A run of which nothing could
    be read may be the last."""
    return [item for item in excluded if run_of(item) not in other_runs]


def run_of(item: Excluded) -> str | None:
    """The run of a file that could not be read, by the name of its folder; None where that is
    none's."""
    path = PurePath(item.path)
    named = (name for name in (path.parent.name, path.name) if is_run_id(name))
    return run_of_manifest(item) or next(named, None)


class _Named:
    """The sources that name one run or one record."""

    def __init__(self, sources: Sequence[Path]) -> None:
        self._files = {os.path.realpath(path) for path in sources if is_record(path)}
        self._folders = {os.path.realpath(path) for path in sources if _is_run(path)}
        taken = self._files | self._folders
        self._stores = {os.path.realpath(path) for path in sources} - taken
        self.every = not self._stores

    def outside(self, loaded: Loaded) -> set[str]:
        """The named runs that lie in none of the other sources: none of these is their last."""
        beyond = {folder for folder in self._folders if os.path.dirname(folder) not in self._stores}
        return self._runs_in(loaded, beyond)

    def runs(self, loaded: Loaded) -> list[str]:
        """The named runs."""
        return sorted(self._runs_in(loaded, self._folders))

    def rows(self, loaded: Loaded) -> pd.Series:
        """The records that are taken as they are."""
        rows = loaded.records["provenance"] != MEASURED
        if not self._files and not self._folders:
            return rows
        real = cache(os.path.realpath)
        sources = (source.partition("#")[0] for source in loaded.values("source"))
        places = ((real(os.path.dirname(path)), os.path.basename(path)) for path in sources)
        named = [
            folder in self._folders or f"{folder}/{name}" in self._files for folder, name in places
        ]
        return rows | pd.Series(named, rows.index)

    def _runs_in(self, loaded: Loaded, folders: Collection[str]) -> set[str]:
        """The runs of some folders, by their records or the folder's name."""
        if not folders:
            return set()
        real = cache(os.path.realpath)
        pairs = zip(loaded.values("source"), loaded.values("run_id"), strict=True)
        held = {run for source, run in pairs if real(os.path.dirname(source)) in folders}
        return held | {os.path.basename(folder) for folder in folders}


def _is_run(path: Path) -> bool:
    """Whether a source is the folder of one run."""
    return path.is_dir() and (
        is_run_id(os.path.basename(os.path.realpath(path))) or (path / "run.json").is_file()
    )
