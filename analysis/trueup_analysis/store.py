"""A store: a folder with a packed file for each day, which holds the runs that began on it."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from trueup_node.cases import MEASURED
from trueup_node.errors import BadInput
from trueup_node.record import is_run_id

from .load import Excluded, load, metadata, pack
from .selection import run_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from .load import Loaded

# No folder of a run is of this day.
_NO_DAY = "00000000"


class Day(NamedTuple):
    """A day of which runs were read.

    Attributes:
        records: how many its file holds now. added: how many of them are new in it.
        excluded: files of its runs that could not be read.
    """

    path: Path
    records: int
    added: int
    excluded: Sequence[Excluded]


class Packed(NamedTuple):
    """All days, and the files that could not be read or belong to no day."""

    days: Sequence[Day]
    excluded: Sequence[Excluded]


def pack_days(
    sources: Sequence[Path],
    folder: Path,
    *,
    first: str = _NO_DAY,
    tell: Callable[[str], None] = lambda _: None,
) -> Packed:
    """Put the runs of each day into the file of that day, beside those that it holds already.

    A day's file is replaced at once, after the new one was read back. No record is deleted.

    Args:
        first: the first day that counts ("20261120").
        tell: called with each day.

    Raises:
        BadInput: no run is there, or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder} could not be made: {error.strerror}") from error
    with _locked(folder):
        return _pack_days(sources, folder, first, tell)


def _pack_days(
    sources: Sequence[Path], folder: Path, first: str, tell: Callable[[str], None]
) -> Packed:
    rest = load(sources, day=_NO_DAY, may_be_empty=True) if _beside_runs(sources) else None
    days = {run[:8] for run in (*_folders(sources), *(() if rest is None else _runs(rest)))}
    excluded = [] if rest is None else [item for item in rest.excluded if _day(item) is None]
    packed_days = []
    for day in sorted(each for each in days if each >= first):
        tell(day)
        path = folder / f"{day[:4]}-{day[4:6]}-{day[6:]}.parquet"
        try:
            packed_days.append(_pack_day(sources, path, day))
            excluded += packed_days[-1].excluded
        except BadInput as error:
            excluded.append(Excluded(str(path), str(error).removeprefix(f"{path} ")))
    if not packed_days and not excluded:
        raise BadInput(f"{', '.join(map(str, sources))}: no run began then")
    return Packed(packed_days, excluded)


def _pack_day(sources: Sequence[Path], path: Path, day: str) -> Day:
    before = load([path], may_be_empty=True) if path.exists() else None
    # Of two manifests of a run the later one counts: that of the folder.
    parts = [load([*([path] if before else []), *sources], day=day, may_be_empty=True)]
    held = _of_day(parts[0], day)
    count = 0 if before is None else len(before.records)
    if before is None or count != len(held.records) or metadata(before) != metadata(held):
        pack(held, path)
    return Day(path, len(held.records), len(held.records) - count, held.excluded)


def _of_day(loaded: Loaded, day: str) -> Loaded:
    """The measured records of a day, with the manifests and unreadable files of its runs. A file
    that an earlier pack could not read is listed as long as it is there."""
    records = loaded.records
    of_day = records["run_id"].astype("str").str.startswith(f"{day}T")
    items = dict.fromkeys(item for item in loaded.excluded if _day(item) == day)
    return replace(
        loaded.only((records["provenance"] == MEASURED) & of_day),
        runs=[run for run in loaded.runs if str(run["run_id"])[:8] == day],
        excluded=[item for item in items if os.path.exists(item.path.partition("#")[0])],
        notes=[],
    )


def _day(item: Excluded) -> str | None:
    run = run_of(item)
    return None if run is None else run[:8]


def _runs(loaded: Loaded) -> Iterable[str]:
    measured = loaded.records[loaded.records["provenance"] == MEASURED]
    return {*measured["run_id"].unique(), *(str(run["run_id"]) for run in loaded.runs)}


def _folders(sources: Sequence[Path]) -> Iterator[str]:
    """The runs that have a folder."""
    for source in sources:
        if is_run_id(os.path.basename(os.path.realpath(source))):
            yield os.path.basename(os.path.realpath(source))
        elif source.is_dir():
            yield from (name for name in os.listdir(source) if is_run_id(name))


def _beside_runs(sources: Sequence[Path]) -> bool:
    """Whether anything but folders of runs is in the sources."""
    return any(
        not is_run_id(os.path.basename(os.path.realpath(source)))
        and (
            not source.is_dir()
            or any(not name.startswith(".") and not is_run_id(name) for name in os.listdir(source))
        )
        for source in sources
    )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait until no other process packs into the folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
