"""The only reader of records: it validates, and after it the code trusts the table."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import stat
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from trueup_node.errors import BadInput
from trueup_node.record import SCHEMA

from . import catalog, packed, records
from .published import read_published
from .selection import in_order
from .units import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import pandas as pd

    from .packed import Frames
    from .records import Record

RUN_SCHEMA = "trueup.run/1"
_TOLD_EVERY = 100  # files
# Limit of records and figures as objects, which take five times the memory of a table.
_ROWS_AT_ONCE = 2**16
# Most records are smaller: they need no look at their size.
_AT_ONCE = 2**16
# A record with 200,000 figures has 26 MiB.
_MOST_BYTES = 2**28
_RUN_ID = re.compile(r"\A[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}\Z")
# The packed runs of one day in a store.
_DAY_FILE = re.compile(r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}[.]parquet\Z")
# As frames they take 2 GiB.
_MOST_STORED = 30_000_000
_EMPTY_HINT = (
    f"{catalog.MEASURE}, or name the folder, record or packed file to read; `trueup import` makes"
    " records of tools' own outputs"
)
_IMPORT_HINT = "this is {} output: `trueup import {} --size SIZE` makes a record of it"


class Manifest(msgspec.Struct, frozen=True):
    """The fields of a run's ``run.json`` that the analysis reads."""

    schema: Literal["trueup.run/1"]
    run_id: str
    # How many runs had begun in that folder; 0: an older release's.
    count: int = 0
    started_at: str | None = None
    finished_at: str | None = None
    playbook: str | None = None
    # None: written by a release that did not have it.
    expected: list[str] | None = None
    hosts: dict[str, dict[str, int]] = {}
    failed_in: dict[str, str] = {}
    skipped: list[dict[str, str]] = []
    warnings: list[str] = []
    # Why answers of a node were refused.
    refused: dict[str, list[str]] = {}


class _Noted(msgspec.Struct, frozen=True):
    """The metadata of a packed file."""

    excluded: list[tuple[str, str]]
    runs: list[dict[str, Any]]
    notes: list[str]
    # When the first and the last record of each run began.
    times: dict[str, tuple[str, str]]
    # Benchmark, name and number of the figures that have a better direction.
    figures: list[tuple[str, str, int]]


class Stored(NamedTuple):
    """A packed day of a store whose records were not read.

    Attributes:
        times: by run when its first and its last record began.
        figures: benchmark, name and number of those that have a better direction.
    """

    path: Path
    times: Mapping[str, tuple[str, str]]
    figures: Sequence[tuple[str, str, int]]


class Excluded(NamedTuple):
    """A file (or one record in a file) that could not be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True, eq=False)
class Loaded:
    """The loaded records.

    Attributes:
        records: one row a record; columns: run_id, benchmark, case, outcome (ok, failed, invalid),
            reason, nodes ("a+b"), vm_size, region, offer, node_count, ranks, threads_per_rank
            (publications do not always say), cores (ranks x threads_per_rank, over all nodes),
            gpus, parameters, software, system, command and environment (JSON text), started_at (UTC
            text), duration_seconds, raw_path, raw_sha256, source (file), provenance ("measured", or
            the publication). A record's number is its index. Texts are categories.
        figures: one row a figure; columns: record (its number, ascending), name, value, unit,
            direction, message_bytes, device, statistic, n.
        excluded: files and records that could not be read, by name.
        runs: the run manifests (``run.json``), by their count and then by time, oldest first.
        notes: sentences for the user on the reader's decisions.
        stored: days of a store that were not read; of these, only manifests and excluded files are
            here.
    """

    records: pd.DataFrame
    figures: pd.DataFrame
    excluded: list[Excluded] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)

    def values(self, name: str) -> list[Any]:
        """A column of the records as plain values, None where unknown; equal ones are one."""
        return packed.values(self.records[name])

    def only(self, rows: Sequence[int] | pd.Index | pd.Series) -> Loaded:
        """The same with some records alone, by their numbers or a mask, in their order."""
        return replace(self, **packed.only(self.records, self.figures, rows)._asdict())


def load(
    sources: Sequence[Path],
    tell: Callable[[int], None] | None = None,
    *,
    may_be_empty: bool = False,
    runs: Collection[str] | None = None,
    day: str | None = None,
) -> Loaded:
    """Read results folders, run folders, record files, packed Parquet files, stores, fact caches,
    reference_results.csv.

    A file, or one of several sources, that cannot be read is listed in ``excluded`` and the rest is
    read. Copies of a record count once.

    Args:
        tell: called now and then with the number of files so far.
        may_be_empty: whether manifests without any record are an answer: they measured nothing.
        runs: the only runs of which the days of a store are read; None for all. Other sources are
            read whole.
        day: read no folder of a run that began on another day ("20261120").

    Raises:
        BadInput: the only source does not exist or is of no known kind, or none holds any record.
    """
    reader = _Reader(tell, runs, day)
    for source in sources:
        reader.read(Path(source), alone=len(sources) == 1)
    return reader.finish([str(source) for source in sources], may_be_empty=may_be_empty)


def pack(loaded: Loaded, path: Path) -> None:
    """Write everything that was loaded into one Parquet file, whole or not at all; ``load`` reads
    it back identically.

    Raises:
        BadInput: the file cannot be written.
    """
    packed.write(packed.Frames(loaded.records, loaded.figures), metadata(loaded), path)


def metadata(loaded: Loaded) -> dict[str, Any]:
    """The contents of a packed file beside its records."""
    begun = loaded.records.assign(started_at=loaded.records["started_at"].astype("str"))
    ends = begun.dropna(subset=["started_at"]).groupby("run_id", observed=True)["started_at"]
    judged = loaded.figures[loaded.figures["direction"] != "none"]
    benchmarks = loaded.records["benchmark"].take(judged["record"].to_numpy())
    benchmarks = benchmarks.set_axis(judged.index)
    counts = judged.groupby([benchmarks, "name"], observed=True).size()
    names = [counts.index.get_level_values(level).tolist() for level in (0, 1)]
    return {
        "excluded": [[item.path, item.reason] for item in loaded.excluded],
        "runs": loaded.runs,
        "notes": loaded.notes,
        "times": {run: [min(times), max(times)] for run, times in ends},
        "figures": sorted(map(list, zip(*names, counts.tolist(), strict=True))),
    }


def verify(loaded: Loaded) -> list[Excluded]:
    """The records whose raw output is gone or no longer has the sha256 that was recorded."""
    problems = []
    columns = map(loaded.values, ("source", "raw_path", "raw_sha256"))
    for source, raw_path, expected in zip(*columns, strict=True):
        if expected is None:
            continue
        try:
            digest = _sha256_beside(source, raw_path)
        except OSError as error:
            problems.append(Excluded(source, f"raw output {raw_path}: {error.strerror}"))
            continue
        if digest != expected:
            problems.append(
                Excluded(
                    source,
                    f"raw output {raw_path} has sha256 {digest[:12]}..., not the recorded"
                    f" {expected[:12]}...",
                )
            )
    return problems


def _sha256_beside(source: str, path: str) -> str:
    """That of a file beside the record, of which neither a link nor a pipe or device is read.

    Raises:
        OSError: it cannot be read, or is something else.
    """
    if os.path.dirname(path) != os.path.dirname(source.partition("#")[0]):
        raise OSError(errno.EINVAL, "not beside its record")
    with open(path, "rb", opener=_opener) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _opener(path: str, flags: int) -> int:
    return _waiting_for_nothing(path, flags | os.O_NOFOLLOW)


def _waiting_for_nothing(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


class _Reader:
    """Collects rows from all sources; one call of ``finish`` turns them into frames."""

    def __init__(
        self,
        tell: Callable[[int], None] | None,
        runs: Collection[str] | None,
        day: str | None,
    ) -> None:
        self._tell, self._meant_runs, self._day = tell, runs, day
        self.excluded: list[Excluded] = []
        self.runs: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.stored: list[Stored] = []
        self._stored_figures = 0
        self._parts: list[Frames] = []
        self._waiting: list[tuple[Record, str]] = []
        self._figures = 0  # of the waiting records
        self._packed = 0
        self._sources = 0
        self._seen: set[str] = set()

    def read(self, source: Path, *, alone: bool) -> None:
        """Read a source.

        Raises:
            BadInput: it cannot be read, and there is no other.
        """
        self._sources += 1
        try:
            self._read(source)
        except BadInput as error:
            if alone:
                raise
            self.excluded.append(Excluded(str(source), str(error).removeprefix(f"{source} ")))

    def _read(self, source: Path) -> None:
        try:
            kind = source.stat().st_mode
        except FileNotFoundError as error:
            raise BadInput(f"{source} does not exist: {_EMPTY_HINT}") from error
        except OSError as error:
            raise BadInput(f"{source} cannot be read: {error.strerror}") from error
        if stat.S_ISDIR(kind):
            self._read_folder(source)
        elif not stat.S_ISREG(kind):
            # A pipe would be waited for, and a device may have no end.
            raise BadInput(f"{source} is neither a folder nor a regular file")
        elif source.suffix == ".parquet":
            self._read_packed(source)
        elif source.suffix == ".csv":
            self._flush()
            rows, notes = read_published(source)
            self._parts.append(packed.from_rows(rows))
            self.notes += notes
        elif source.name == "run.json":
            self._read_manifest(str(source))
        else:
            self._read_file(str(source), fact_cache="unknown")

    def finish(self, names: list[str], *, may_be_empty: bool = False) -> Loaded:
        self._flush()
        parts = [frames for frames in self._parts if len(frames.records)]
        is_answer = may_be_empty and (self.runs or self._day is not None)
        if not parts and not self.stored and not is_answer:
            self._refuse_nothing(names)
        held = packed.join(parts or [packed.from_rows([])])
        # Packed files of one source hold nothing twice.
        if len(parts) > self._packed or self._sources > 1:
            held = self._once(held)
        runs: dict[str, dict[str, Any]] = {}
        for run in self.runs:
            run_id = str(run.get("run_id"))
            runs[run_id] = _of_both(runs[run_id], run) if run_id in runs else run
        return Loaded(
            records=held.records,
            figures=held.figures,
            excluded=self.excluded,
            runs=[runs[run_id] for run_id in in_order((), runs.values())],
            notes=self.notes,
            stored=self.stored,
        )

    def _once(self, held: Frames) -> Frames:
        """The records without copies, which are counted in a note."""
        again = records.copies(*held)
        if not again:
            return held
        self.notes.append(
            f"{plural(len(again), 'record')} equal in every field and figure to another one:"
            " copies count once."
        )
        return packed.only(*held, held.records.index.difference(again))

    def _refuse_nothing(self, names: list[str]) -> None:
        where = ", ".join(names) or "nothing"
        if self.excluded:
            first = self.excluded[0]
            if len(self.excluded) == 1 and names == [first.path]:
                raise BadInput(f"{first.path} holds no readable record: {first.reason}")
            more = len(self.excluded) - 1
            message = f"{where} holds no readable record; {first.path}: {first.reason}" + (
                f" (and {more} more)" if more else ""
            )
        else:
            message = f"{where} holds no records: {_EMPTY_HINT}"
        raise BadInput(message)

    def _read_folder(self, folder: Path) -> None:
        """A run folder, a results folder (holding run folders) or a fact cache."""
        real = os.path.realpath(folder)
        if real in self._seen or self._is_of_other_day(os.path.basename(real)):
            return
        self._seen.add(real)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self.excluded.append(Excluded(str(folder), f"cannot be listed: {error.strerror}"))
            return
        is_run = bool(_RUN_ID.match(os.path.basename(real)))
        for entry in entries:
            if not entry.name.startswith("."):
                is_link = entry.is_symlink()
                self._read_entry(entry, "" if is_link else f"{real}/{entry.name}", is_run=is_run)

    def _is_of_other_day(self, name: str) -> bool:
        is_run = self._day is not None and _RUN_ID.match(name)
        return bool(is_run) and not name.startswith(f"{self._day}T")

    def _read_entry(self, entry: os.DirEntry[str], real: str, *, is_run: bool) -> None:
        if not _is_utf8(entry.path):
            printable = os.fsencode(entry.path).decode("utf-8", "backslashreplace")
            self.excluded.append(
                Excluded(printable, "its name is not UTF-8, so no table can hold it; rename it")
            )
            return
        try:
            is_folder, is_file = entry.is_dir(), entry.is_file()
            holds_run = is_folder and (_RUN_ID.match(entry.name) or _has_manifest(entry.path))
        except OSError as error:
            # A link that loops, a stale handle of NFS, a folder that may not be searched.
            self.excluded.append(Excluded(entry.path, error.strerror or str(error)))
            return
        if is_folder:
            if holds_run:
                self._read_folder(Path(entry.path))
        elif not is_file:
            # A pipe or a device would be waited for; a dangling link leads nowhere.
            self.excluded.append(Excluded(entry.path, "not a regular file"))
        elif entry.name == "run.json":
            self._read_manifest(entry.path)
        elif entry.name.endswith(".json"):
            self._read_file(entry.path, "no" if is_run else "unknown", real)
        elif _DAY_FILE.match(entry.name):
            self._read_day(Path(entry.path))
        elif not is_run and _starts_as_object(entry.path):
            # Ansible's jsonfile cache names a host's file after the host, without a suffix
            # (ansible-core 2.19 puts "s1_" before it).
            self._read_file(entry.path, fact_cache="yes")

    def _bytes(self, path: str, real: str = "") -> bytes | None:
        """The file's content; None when it was read before or cannot be read."""
        real = real or os.path.realpath(path)
        if real in self._seen:
            return None
        self._seen.add(real)
        if self._tell is not None and len(self._seen) % _TOLD_EVERY == 0:
            self._tell(len(self._seen))
        try:
            content = _content(path)
        except OSError as error:
            self.excluded.append(Excluded(path, error.strerror or str(error)))
            return None
        if content is None:
            reason = f"larger than {_MOST_BYTES >> 20} MiB, which no record is"
            self.excluded.append(Excluded(path, reason))
            return None
        return content

    def _read_manifest(self, path: str) -> None:
        content = self._bytes(path)
        if content is None:
            return
        try:
            manifest = msgspec.json.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.excluded.append(Excluded(path, str(error)))
            return
        if not isinstance(manifest, dict) or manifest.get("schema") != RUN_SCHEMA:
            self.excluded.append(Excluded(path, f"not a {RUN_SCHEMA} object"))
            return
        try:
            msgspec.convert(manifest, Manifest)
        except msgspec.ValidationError as error:
            self.excluded.append(Excluded(path, str(error)))
            return
        self.runs.append(manifest)

    def _read_file(
        self, path: str, fact_cache: Literal["yes", "no", "unknown"], real: str = ""
    ) -> None:
        content = self._bytes(path, real)
        if content is None:
            return
        try:
            if fact_cache == "no":
                self._add(content, path)
                return
            if fact_cache == "unknown" and b'"__payload__"' not in content[:200]:
                value = msgspec.json.decode(content)
                if isinstance(value, dict) and not any(
                    str(key).startswith("trueup_") for key in value
                ):
                    self._add(content, path)
                    return
            self._read_facts(content, path)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            of_tool = _tool_of(content) if fact_cache == "unknown" else None
            reason = str(error) if of_tool is None else _IMPORT_HINT.format(of_tool, path)
            self.excluded.append(Excluded(path, reason))

    def _read_facts(self, content: bytes, path: str) -> None:
        """One host's facts from the jsonfile cache: each value that says it is a record is one."""
        facts = msgspec.json.decode(content)
        if isinstance(facts, dict) and isinstance(facts.get("__payload__"), str):
            facts = _untagged(msgspec.json.decode(facts["__payload__"]))
        if not isinstance(facts, dict):
            self.excluded.append(Excluded(path, "neither a record nor a host's cached facts"))
            return
        for key in sorted(facts):
            values = facts[key] if isinstance(facts[key], list) else [facts[key]]
            for value in values:
                if not (key.startswith("trueup_") and isinstance(value, dict)):
                    continue
                if not str(value.get("schema", "")).startswith(SCHEMA.partition("/")[0] + "/"):
                    continue
                try:
                    self._add(msgspec.json.encode(value), f"{path}#{key}")
                except msgspec.MsgspecError as error:
                    self.excluded.append(Excluded(f"{path}#{key}", str(error)))

    def _add(self, content: bytes, path: str) -> None:
        """A record.

        Raises:
            msgspec.MsgspecError, UnicodeDecodeError, RecursionError: it is none.
        """
        record = records.decode(content)
        self._waiting.append((record, path))
        self._figures += len(record.metrics)
        if self._figures + len(self._waiting) >= _ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        """Turn the records so far into frames, so that sources keep the order in which they
        came."""
        if self._waiting:
            self._parts.append(records.frames(self._waiting))
        self._waiting, self._figures = [], 0

    def _read_day(self, path: Path) -> None:
        """A day of a store: the runs that are meant, of others the manifests alone."""
        try:
            noted = _noted_of(path)
            if self._meant_runs is not None and noted.times.keys().isdisjoint(self._meant_runs):
                self._note(noted)
                self.stored.append(Stored(path, noted.times, noted.figures))
                return
            self._stored_figures += packed.figure_count(path)
            if self._stored_figures > _MOST_STORED:
                raise _TooMany(
                    f"{path.parent} holds more than {_MOST_STORED:,} figures, too many to read at"
                    " once: --run or --since choose fewer runs"
                )
            self._read_packed(path)
        except _TooMany:
            raise
        except BadInput as error:
            self.excluded.append(Excluded(str(path), str(error).removeprefix(f"{path} ")))

    def _read_packed(self, path: Path) -> None:
        self._flush()
        held, rest = packed.read(path)
        self._note(_noted(rest, path))
        self._parts.append(held)
        self._packed += 1

    def _note(self, noted: _Noted) -> None:
        self.excluded += [Excluded(*item) for item in noted.excluded]
        self.runs += noted.runs
        self.notes += [note for note in noted.notes if note not in self.notes]


class _TooMany(BadInput):
    """More figures are meant than fit into memory."""


def _noted_of(path: Path) -> _Noted:
    """The metadata of a packed file, read again only where the file is another one.

    Raises:
        BadInput: it is none that ``packed.write`` wrote.
    """
    try:
        now = path.stat()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error
    return _noted_once(path, now.st_ino, now.st_size, now.st_mtime_ns)


@lru_cache(maxsize=2048)
def _noted_once(path: Path, *_: int) -> _Noted:
    return _noted(packed.about(path), path)


def _noted(rest: Mapping[str, Any], path: Path) -> _Noted:
    """The metadata of a packed file.

    Raises:
        BadInput: its types are others.
    """
    try:
        noted = msgspec.convert(rest, _Noted)
        # As they were packed, with the fields of a newer release.
        for run in noted.runs:
            msgspec.convert(run, Manifest)
    except msgspec.ValidationError as error:
        raise BadInput(f"{path} is not a file that `trueup pack` wrote ({error})") from error
    return noted


def _of_both(first: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """One manifest of two of a run: of the same nodes the later one; of different nodes, which
    configured themselves (docs/guides/azure_sets.md), both merged."""
    if not {*(first.get("expected") or ())}.isdisjoint(other.get("expected") or ()):
        return other
    merged = {**first, **other}
    for name in first.keys() & other.keys():
        before, now = first[name], other[name]
        if isinstance(before, list) and isinstance(now, list):
            merged[name] = [*before, *(item for item in now if item not in before)]
        elif isinstance(before, dict) and isinstance(now, dict):
            merged[name] = {**before, **now}
    for name, choose in (("count", max), ("started_at", min), ("finished_at", max)):
        values: list[Any] = [run.get(name) for run in (first, other)]
        # A run of which a part goes on goes on.
        merged[name] = None if None in values else choose(values)
    return merged


def _content(path: str) -> bytes | None:
    """A file's content, None of one that no record is as large as.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    # It may have become a pipe or a device since its folder was listed. Not open(), whose objects
    # take longer to make than a record to read.
    number = _waiting_for_nothing(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(number, _AT_ONCE)
        if 0 < len(content) < _AT_ONCE:
            return content
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if status.st_size > _MOST_BYTES:
            return None
        while len(content) < status.st_size and (chunk := os.read(number, status.st_size)):
            content += chunk
    finally:
        os.close(number)
    return content


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _has_manifest(folder: str) -> bool:
    """Whether the folder is a run's, of any name.

    Raises:
        OSError: that cannot be known.
    """
    try:
        return stat.S_ISREG(os.stat(os.path.join(folder, "run.json")).st_mode)
    except FileNotFoundError:
        return False


def _starts_as_object(path: str) -> bool:
    try:
        with Path(path).open("rb") as stream:
            return stream.read(1) == b"{"
    except OSError:
        # Unreadable: let the reader say why.
        return True


def _tool_of(content: bytes) -> str | None:
    """The tool whose own output a file is; None where it is another file."""
    from . import decoding, read, rooms  # noqa: PLC0415 WHY: parsers, which reading records does not need

    try:
        text, _ = decoding.decoded(io.BytesIO(content), "", rooms.marks(), rooms.logs())
        return read.read(text, source="").tool
    except BadInput:
        return None


def _untagged(value: Any) -> Any:
    """Plain values from ansible-core 2.19's cache, which wraps values of known origin.

    Source: ansible/_internal/_json/_profiles/_cache_persistence.py of ansible-core 2.19.
    """
    if isinstance(value, dict):
        if str(value.get("__ansible_type", "")).startswith("_AnsibleTagged"):
            return _untagged(value.get("value"))
        return {key: _untagged(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_untagged(item) for item in value]
    return value
