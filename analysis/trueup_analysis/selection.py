"""Which of the records that were read are meant: those of the last run, unless options or sources
name others; by node, benchmark, run, time and outcome."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from trueup_node.cases import MEASURED
from trueup_node.errors import BadInput
from trueup_node.record import is_run_id
from trueup_node.suggest import did_you_mean

from .units import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import pandas as pd

    from .load import Excluded, Loaded

LAST: Final = "last"
_OTHERS: Final = "--run, --since and --all choose others"
_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True)
class Selection:
    """Conditions on records; an empty field takes every record.

    Attributes:
        nodes: names of nodes, or patterns of them (``h100-00*``): a record of any of them.
        run: a run's id, its beginning, or ``LAST``.
        since: a record that began then or later; it has a time zone.
        every_run: every run, where a command would take the last one (``of_runs``).
    """

    nodes: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    run: str | None = None
    since: datetime | None = None
    outcomes: tuple[str, ...] = ()
    every_run: bool = False

    def takes_node(self, name: str) -> bool:
        """Whether a node is meant, whatever was measured on it."""
        return not self.nodes or any(fnmatchcase(name, pattern) for pattern in self.nodes)


def moment(text: str, now: datetime) -> datetime:
    """A date, a time (UTC where it does not say) or a span before now (90m, 2h, 7d).

    Raises:
        BadInput: it is none of these.
    """
    if span := _SPAN.fullmatch(text.strip()):
        try:
            return now - timedelta(**{_UNITS[span[2]]: float(span[1])})
        except OverflowError as error:
            raise BadInput(f"{text} is longer ago than any record") from error
    try:
        time = datetime.fromisoformat(text.strip())
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadInput(
            f"{text!r} is no date (2026-11-20), time (2026-11-20T09:13) or span (90m, 2h, 7d)"
        ) from error


def run_ids(loaded: Loaded) -> list[str]:
    """The runs that have a record or a manifest, also one that cannot be read, in the order in
    which they began.
    """
    places = zip(loaded.values("run_id"), loaded.values("started_at"), strict=True)
    # A published result has a run_id of its own and no time.
    begun_runs = {run_id for run_id, begun in places if begun is not None} | set(
        broken_runs(loaded)
    )
    begun_runs.update(*(day.times for day in loaded.stored))
    return in_order(begun_runs, loaded.runs)


def run_before(loaded: Loaded, run: str) -> str | None:
    """The last run before one that is of the same playbook: a benchmark of one node in between is
    no check of the fleet. None where there is none."""
    playbooks = {str(held["run_id"]): held.get("playbook") for held in loaded.runs}
    every = run_ids(loaded)
    earlier = every[: every.index(run)] if run in every else []
    alike = [other for other in earlier if playbooks.get(other) == playbooks.get(run)]
    return alike[-1] if alike else None


def in_order(run_ids: Iterable[str], manifests: Iterable[Mapping[str, Any]]) -> list[str]:
    """These runs and those of the manifests in the order in which they began: as the counts of the
    manifests say. A run without a count stands behind those with an earlier id, which is a time.
    """
    counts = {str(run["run_id"]): int(run.get("count", 0)) for run in manifests}
    counted = sorted((run_id, count) for run_id, count in counts.items() if count)

    def sort_key(run_id: str) -> tuple[int, bool, str]:
        count = counts.get(run_id, 0)
        before = (number for earlier, number in counted if earlier < run_id)
        return count or max(before, default=0), not count, run_id

    return sorted(counts.keys() | set(run_ids), key=sort_key)


def broken_runs(loaded: Loaded) -> dict[str, str]:
    """The runs whose manifest cannot be read, by their folders' names, each with the reason."""
    named = ((run_of_manifest(item), item.reason) for item in loaded.excluded)
    return {run_id: reason for run_id, reason in named if run_id is not None}


def run_of_manifest(item: Excluded) -> str | None:
    """The run whose manifest it is, by the name of its folder; None where it is another file."""
    path = PurePath(item.path)
    return path.parent.name if path.name == "run.json" else None


def find_run(name: str, all_runs: Sequence[str]) -> str:
    """The run that ``LAST``, an id or its beginning names.

    Args:
        all_runs: the ids in the order in which the runs began.

    Raises:
        BadInput: it names none, or several.
    """
    if not all_runs:
        raise BadInput(f"--run {name}: no run is among these records")
    if name == LAST:
        return all_runs[-1]
    matches = [run_id for run_id in all_runs if run_id == name] or [
        run_id for run_id in all_runs if name and run_id.startswith(name)
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise BadInput(
            f"--run {name} is the beginning of {len(matches)} runs ({matches[0]} to {matches[-1]});"
            " write more of the one that is meant"
        )
    hint = did_you_mean(name, all_runs) or f"; the last is {all_runs[-1]}"
    raise BadInput(f"--run {name}: no record is of such a run{hint}")


def select(loaded: Loaded, chosen: Selection, *, may_be_empty: bool = False) -> Loaded:
    """The records that are meant, with a note that says how many were left out. Manifests keep the
    runs and nodes that are meant.

    Args:
        may_be_empty: whether a selection without any record is an answer: a run that measured
            nothing.

    Raises:
        BadInput: no record is left, or no record has such a node, benchmark or run.
    """
    if replace(chosen, every_run=False) == Selection():
        return loaded
    all_runs = run_ids(loaded) if chosen.run is not None else []
    chosen = replace(chosen, run=None if chosen.run is None else find_run(chosen.run, all_runs))
    nodes = list(map(_names, loaded.values("nodes"), loaded.values("node_count")))
    notes = _check_names(loaded, chosen, nodes)
    kept_rows = _kept(loaded, chosen, nodes)
    if not kept_rows and not may_be_empty:
        begun = max((time for time in loaded.values("started_at") if time), default=None)
        last = "" if begun is None else f"; the last of them began at {begun}"
        raise BadInput(f"none of the {len(nodes):,} records is left by {_said(chosen)}{last}")
    left_out = len(nodes) - len(kept_rows)
    notes += [f"{left_out:,} of {len(nodes):,} records are left out by {_said(chosen)}."] * (
        left_out > 0
    )
    return replace(
        loaded.only(kept_rows),
        runs=_manifests(loaded, chosen, nodes, kept_rows),
        notes=[*loaded.notes, *notes],
    )


def _names(nodes: str | None, count: int | None) -> tuple[str, ...]:
    """The nodes of a record; a single one may have a + in its name."""
    if nodes is None:
        return ()
    return tuple(nodes.split("+")) if count is not None and count > 1 else (nodes,)


def _utc(time: datetime) -> str:
    """As records write it."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def rows_meant(loaded: Loaded, chosen: Selection) -> list[int]:
    """The places of the records that are meant; ``run`` is a run's id."""
    return _kept(
        loaded, chosen, list(map(_names, loaded.values("nodes"), loaded.values("node_count")))
    )


def _kept(loaded: Loaded, chosen: Selection, nodes: Sequence[Collection[str]]) -> list[int]:
    """The places of the records that are meant."""
    tests: list[tuple[Sequence[Any], Callable[[Any], bool]]] = []
    if chosen.nodes:
        meant = {name: chosen.takes_node(name) for names in set(nodes) for name in names}
        tests.append((nodes, lambda names: any(meant[name] for name in names)))
    if chosen.benchmarks:
        tests.append((loaded.values("benchmark"), chosen.benchmarks.__contains__))
    if chosen.outcomes:
        tests.append((loaded.values("outcome"), chosen.outcomes.__contains__))
    if chosen.run is not None:
        tests.append((loaded.values("run_id"), chosen.run.__eq__))
    if chosen.since is not None:
        first = _utc(chosen.since)
        # A published result has no time.
        tests.append((loaded.values("started_at"), lambda begun: (begun or "") >= first))
    kept_rows = list(range(len(nodes)))
    for values, passes in tests:
        kept_rows = [row for row in kept_rows if passes(values[row])]
    return kept_rows


def _check_names(loaded: Loaded, chosen: Selection, nodes: Sequence[Collection[str]]) -> list[str]:
    """Refuse names that no record has; notes on nodes that a run expected in vain."""
    notes = []
    measured = {name for names in set(nodes) for name in names} if chosen.nodes else set()
    expected = {name for run in loaded.runs for name in run.get("expected") or ()}
    for pattern in chosen.nodes:
        if any(fnmatchcase(name, pattern) for name in measured):
            continue
        if not any(fnmatchcase(name, pattern) for name in expected):
            hint = did_you_mean(pattern, measured | expected)
            raise BadInput(f"--node {pattern}: no record is of such a node{hint}")
        notes.append(f"node {pattern} was expected by a run, and no record is of it.")
    held = dict.fromkeys(loaded.values("benchmark")) if chosen.benchmarks else {}
    for benchmark in chosen.benchmarks:
        if benchmark not in held:
            hint = did_you_mean(benchmark, held) or f"; there are {', '.join(held)}"
            raise BadInput(f"--benchmark {benchmark}: no record is of such a benchmark{hint}")
    return notes


def _said(chosen: Selection) -> str:
    """The options as they may be given."""
    words = [f"--node {name}" for name in chosen.nodes]
    words += [f"--benchmark {name}" for name in chosen.benchmarks]
    words += [] if chosen.run is None else [f"--run {chosen.run}"]
    words += [] if chosen.since is None else [f"--since {_utc(chosen.since)}"]
    return " ".join(words + [f"--outcome {name}" for name in chosen.outcomes])


def _manifests(
    loaded: Loaded, chosen: Selection, nodes: Sequence[Collection[str]], kept_rows: Sequence[int]
) -> list[dict[str, Any]]:
    """The manifests of the runs that are meant, without nodes that are not, or whose records were
    all left out: nobody may think that these were never measured.
    """
    runs = loaded.values("run_id")
    pairs = [{(runs[row], name) for name in nodes[row]} for row in range(len(nodes))]
    remaining: set[tuple[str, str]] = set().union(*(pairs[row] for row in kept_rows))
    removed = set().union(*pairs) - remaining
    held = {run_id for run_id, _ in remaining}

    def meant(run: Mapping[str, Any]) -> bool:
        run_id, begun = str(run["run_id"]), run.get("started_at")
        if chosen.run not in {None, run_id}:
            return False
        return chosen.since is None or run_id in held or not begun or begun >= _utc(chosen.since)

    return [_narrowed(run, chosen, removed) for run in loaded.runs if meant(run)]


def _narrowed(
    run: Mapping[str, Any], chosen: Selection, removed: Collection[tuple[str, str]]
) -> dict[str, Any]:
    """A manifest with its entries on the selected nodes alone."""
    narrow = dict(run)

    def takes(name: str) -> bool:
        return chosen.takes_node(name) and (str(run["run_id"]), name) not in removed

    if narrow.get("expected") is not None:
        narrow["expected"] = [name for name in narrow["expected"] if takes(name)]
    for key in ("hosts", "failed_in", "refused"):
        if narrow.get(key):
            narrow[key] = {name: details for name, details in narrow[key].items() if takes(name)}
    if narrow.get("skipped"):
        narrow["skipped"] = [
            step for step in narrow["skipped"] if "node" not in step or takes(step["node"])
        ]
    return narrow


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
        rows[named] = True
        return rows

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
