"""A record: one measured case, as DESIGN's table and ``record.schema.json`` define it.

Modules build records; the callback ``trueup_records`` writes them on the controller; analysis reads
them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import stat
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .errors import BadInput, TrueupError

SCHEMA = "trueup.record/1"
# It ran well, and ended too early for its figures to stand for anything.
TOO_SHORT = "too_short"
OUTCOMES = ("ok", TOO_SHORT, "failed", "invalid")
# The ``playbook`` of a run that holds imported logs.
IMPORT = "trueup import"

Record = Dict[str, Any]

_RUN_ID = re.compile(r"\A\d{8}T\d{6}Z-[0-9a-f]{4}\Z")
# Characters of a file's name, which every file system takes.
_STEM = 180
# Of all files of a run: raw output may hold a secret that no pattern knows.
_MODE = 0o640
# Members that a look-up of a run's cases uses; analysis validates records whole.
_NEEDED = ("benchmark", "case", "outcome", "nodes", "parameters", "metrics", "started_at")


class Metric(NamedTuple):
    """One row of results.

    ``value`` is in the base unit named by ``unit`` (``s``, ``byte/s``, ``flop/s``, ``point/s``,
    ``flop/byte``, ``bit/s``, ``1/s``, ``Hz``, ``byte``, ``1``); ``device`` is the part of the node
    that it belongs to (``gpu0``, ``mlx5_ib3``; ``gpu0>gpu1`` from one to the other);
    ``direction`` says which figures are better: ``higher``, ``lower``, or ``none`` for figures that
    are not a performance.
    """

    name: str
    value: float
    unit: str
    direction: str
    message_bytes: Optional[int] = None
    device: Optional[str] = None
    statistic: Optional[str] = None
    n: Optional[int] = None

    def as_row(self) -> Dict[str, Any]:
        """The row as it stands in a record: fields that do not apply are left out."""
        return {key: value for key, value in self._asdict().items() if value is not None}


def summarise(
    name: str, values: Sequence[float], unit: str, direction: str, **where: Any
) -> List[Metric]:
    """Median, min and max of repeated measurements of one figure, each with its n; ``where`` are
    Metric's message_bytes and device.

    Raises:
        BadInput: no values.
    """
    if not values:
        raise BadInput(f"{name}: no values to summarise")
    ordered = sorted(values)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    picked = (("median", median), ("min", ordered[0]), ("max", ordered[-1]))
    return [
        Metric(name, value, unit, direction, statistic=statistic, n=len(ordered), **where)
        for statistic, value in picked
    ]


def _redacted(value: Any) -> Any:
    from .redaction import redact  # noqa: PLC0415 WHY: 8 ms of patterns that no reader needs

    return redact(value)


def written_form(raw: str) -> bytes:
    """A tool's own output as it is kept beside its record, without credentials."""
    text: str = _redacted(raw)
    return text.encode("utf-8", errors="replace")


def new_run_id(utc_time: str) -> str:
    """A run's id: ``utc_time`` (``20261120T091300Z``) and four random hex digits.

    Raises:
        BadInput: the time is not of that form.
    """
    run_id = f"{utc_time}-{os.urandom(2).hex()}"
    if not _RUN_ID.match(run_id):
        raise BadInput(f"run id: {utc_time!r} is not a UTC time like 20261120T091300Z")
    return run_id


def is_run_id(text: str) -> bool:
    """Whether a name is a run's id."""
    return bool(_RUN_ID.match(text))


def write_record(results_dir: str, record: Record, raw: Optional[str] = None) -> str:
    """Write a record into ``results_dir/<run_id>/``, whole or not at all, and return its path.

    The tool's own output (``raw``) is kept beside it, and its name and sha256 are put into the
    record first.
    Two writers of the same case give two files. Credentials are removed from both.

    Raises:
        TrueupError: the run id, benchmark or case cannot be part of a path, or the disk refuses.
    """
    record = _redacted(record)
    run_id, benchmark, case = str(record["run_id"]), str(record["benchmark"]), str(record["case"])
    if not _RUN_ID.match(run_id):
        raise BadInput(f"run_id {run_id!r} is not of the form 20261120T091300Z-7c1e")
    stem = _plain(f"{benchmark}-{case}-{'+'.join(record['nodes'][:1])}")[:_STEM]
    directory = os.path.join(results_dir, run_id)
    try:
        os.makedirs(directory, exist_ok=True)
        if raw is not None:
            text = written_form(raw)
            raw_path = _place(directory, stem, ".raw.txt", text)
            record["raw"] = {
                "path": os.path.basename(raw_path),
                "sha256": hashlib.sha256(text).hexdigest(),
            }
        body = (
            json.dumps(record, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"
        )
        return _place(directory, stem, ".json", body.encode("utf-8"))
    except OSError as error:
        raise TrueupError(
            f"record of {benchmark} {case} could not be written in {directory}: {error.strerror}"
        ) from error
    except ValueError as error:
        raise TrueupError(
            f"record of {benchmark} {case} holds a number that JSON cannot carry: {error}"
        ) from error


def new_manifest(run_id: str, count: int, playbook: str, started_at: str) -> Dict[str, Any]:
    """The ``run.json`` of a run that has only begun; ``started_at`` is UTC."""
    return {
        "schema": "trueup.run/1",
        "run_id": run_id,
        "count": count,
        "playbook": playbook,
        "started_at": started_at,
        "finished_at": None,
        "expected": [],
        "hosts": {},
        "failed_in": {},
        "skipped": [],
        "chosen": {},
        "warnings": [],
        "refused": {},
    }


def write_manifest(results_dir: str, manifest: Dict[str, Any]) -> str:
    """Write a run's ``run.json`` into ``results_dir/<run_id>/`` in the place of the one before,
    whole or not at all and without credentials, and return its path. Where its ``count`` is 0 it
    is the run's first, and gets the next one.

    Raises:
        TrueupError: the disk refuses, or the manifest holds a value that JSON cannot carry.
    """
    directory = os.path.join(results_dir, str(manifest["run_id"]))
    path = os.path.join(directory, "run.json")
    try:
        os.makedirs(directory, exist_ok=True)
        first = manifest.get("count") == 0
        with counting(results_dir) if first else contextlib.nullcontext():
            document = {**manifest, "count": next_count(results_dir)} if first else manifest
            body = json.dumps(_redacted(document), indent=2, sort_keys=True, allow_nan=False) + "\n"
            with _written(directory, body.encode()) as temporary:
                os.rename(temporary, path)
        _sync(directory)
    except OSError as error:
        raise TrueupError(f"{path} could not be written: {error.strerror}") from error
    except (TypeError, ValueError) as error:
        raise TrueupError(f"{path} would hold what JSON cannot carry: {error}") from error
    return path


@contextlib.contextmanager
def counting(results: str) -> Iterator[None]:
    """While the block lasts, no other run that begins in the folder gets a count."""
    handle = os.open(results, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # A file system that locks no folders (NFS) counts as well as it can.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _written(directory: str, content: bytes) -> Iterator[str]:
    """A temporary file with that content, on the disk; gone afterwards unless it was renamed."""
    temporary = os.path.join(directory, f".{os.urandom(8).hex()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _sync(directory: str) -> None:
    """Bring the folder's names to the disk."""
    folder = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _place(directory: str, stem: str, suffix: str, content: bytes) -> str:
    """Put ``content`` under the first free name ``stem[.k]suffix``: temporary file, fsync, then a
    name that is new."""
    with _written(directory, content) as temporary:
        attempt = 1
        while True:
            path = os.path.join(directory, stem + ("" if attempt == 1 else f".{attempt}") + suffix)
            try:
                # link, not rename: rename would replace the record of a second writer.
                os.link(temporary, path)
                break
            except FileExistsError:
                attempt += 1
    _sync(directory)
    return path


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)


def _named_for(name: str, node: str) -> bool:
    """Whether a file may hold a record that names the node first."""
    stem = name[: -len(".json")]
    # The second of a case ends with its number, as may a node's name.
    first, _, number = stem.rpartition(".")
    either = (stem, first) if number.isdigit() else (stem,)
    return any(candidate.endswith(f"-{node}") or len(candidate) >= _STEM for candidate in either)


def read_records(
    run_dir: str, node: str = ""
) -> Iterator[Tuple[str, Optional[Record], Optional[str]]]:
    """Every ``*.json`` record of one run: (path, record, None), or (path, None, why it could not be
    read). With ``node`` only files that ``write_record`` named so for a case that begins on it."""
    if not os.path.isdir(run_dir):
        return
    for name in sorted(os.listdir(run_dir)):
        if name.startswith(".") or not name.endswith(".json") or name == "run.json":
            continue
        if node and not _named_for(name, _plain(node)):
            continue
        path = os.path.join(run_dir, name)
        try:
            record = _document(path)
        except (OSError, ValueError, RecursionError) as error:
            yield path, None, str(error)
            continue
        if not isinstance(record, dict) or record.get("schema") != SCHEMA:
            yield path, None, f"not a {SCHEMA} object"
        elif missing := [name for name in _NEEDED if name not in record]:
            yield path, None, f"without {', '.join(missing)}"
        else:
            yield path, record, None


def _document(path: str) -> Any:
    """The content of a JSON file. A pipe or a device would be waited for, and is not read.

    Raises:
        OSError: it cannot be read, or is no file.
        ValueError: it is no JSON.
        RecursionError: it is nested too deep.
    """
    with open(path, encoding="utf-8", opener=_opener) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return json.load(stream)


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def manifest_of(results: str, run_id: str) -> Dict[str, Any]:
    """A run's ``run.json``; empty where it cannot be read."""
    try:
        document = _document(os.path.join(results, run_id, "run.json"))
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def run_counts(results: str) -> Dict[str, int]:
    """Run id to its ``count``, which each run begins one above all others in the folder, in the
    order in which they began. A clock may be wrong, a count is not; 0 where a run has none (an
    older release, a lost ``run.json``): of these the ids, which are times, say the order.
    """
    names = os.listdir(results) if os.path.isdir(results) else []
    counts = {}
    for name in filter(is_run_id, names):
        count = manifest_of(results, name).get("count", 0)
        counts[name] = count if isinstance(count, int) else 0
    return {name: counts[name] for name in sorted(counts, key=lambda name: (counts[name], name))}


def next_count(results: str) -> int:
    """The ``count`` of a run that begins now."""
    return 1 + max(run_counts(results).values(), default=0)


def run_of(results: str, resume: str = "") -> str:
    """A new run's id; with ``resume`` that run's, where ``last`` is the one that began last and
    holds no imported logs.

    Raises:
        BadInput: there is no such run.
    """
    folder = os.path.expanduser(results)
    if not resume:
        return new_run_id(time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
    runs = list(run_counts(folder))
    if resume == "last":
        measured = (run for run in runs[::-1] if manifest_of(folder, run).get("playbook") != IMPORT)
        resume = next(measured, resume)
    if resume in runs:
        return resume
    hint = f"the newest there is {runs[-1]}" if runs else "there is none"
    raise BadInput(
        f"resume: no run {resume!r} in {folder} ({hint}); leave resume out to start a new run"
    )
