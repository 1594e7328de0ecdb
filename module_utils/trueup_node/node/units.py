"""Whether a running unit is older than its files: the start, restart or reload that is due, and the
record of it in case a run breaks off in between.

A service, a mount, or settings that hold for a boot (udev's rules, modules) are read from files at
the start. Nothing shows afterwards which content was read. So trueup records, for each *run* of
such a unit, the sha256 of the files that are in force in it. A run is known by systemd's
invocation, or by the boot.

- The record is of this run: a file with another sha256 is not in force.
- There is none, or it is of an earlier run: a file that changed after the run began is not in
  force. The inode's time of change (ctime) counts, which no program can set.

The record is written once its content is true, and a restart is noted before it. A kill in between
leads to one restart too many, and never to one too few.
"""

from __future__ import annotations

import calendar
import enum
import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass, field
from typing import Dict, Iterable, List, Mapping, NamedTuple, Tuple

from ..errors import BadInput

PROPERTIES = (
    *("LoadState", "ActiveState", "InvocationID", "MainPID", "NeedDaemonReload"),
    *("InactiveExitTimestamp", "InactiveExitTimestampMonotonic"),
)
# A unit that is being started has read its files, or reads them as they are now: it counts as
# running.
_RUNNING = ("active", "reloading", "refreshing", "activating")
# An inode's time is that of the kernel's last tick, up to 10 ms old.
_TICK_SECONDS = 0.01
# Files of these folders systemd reads, and not the unit's program.
_DEFINITIONS = ("/etc/systemd/", "/run/systemd/", "/usr/lib/systemd/", "/lib/systemd/")


class Step(enum.Enum):
    """The action on a unit."""

    NONE = "none"
    START = "start"
    STOP = "stop"
    RESTART = "restart"
    RELOAD = "reload"


class File(NamedTuple):
    """A file's sha256, empty where there is none, and when its inode changed (since 1970)."""

    sha256: str
    changed_at: float = 0.0


@dataclass(frozen=True)
class Run:
    """A unit's present run, or the boot: its ``name`` and whether it is ``active``.

    ``since`` is when it began (seconds since 1970), ``unread`` whether systemd has read older files
    than those that are there, ``replaced`` whether its program's file is another one by now.
    """

    name: str
    active: bool = True
    since: float = 0.0
    unread: bool = False
    load: str = "loaded"
    process: int = 0
    replaced: bool = False


@dataclass(frozen=True)
class Record:
    """The sha256 of the files that are in force in a run: ``files`` since its start, ``reloaded``
    since it was last told to read them again. ``owed``: a restart of this run was begun."""

    run: str = ""
    owed: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    reloaded: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetState:
    """A role's request: ``state`` (started, stopped or as_found), and the files that it wrote."""

    state: str = "started"
    files: Tuple[str, ...] = ()
    reloaded: Tuple[str, ...] = ()


class Decision(NamedTuple):
    """A step, and its reasons: a few words each, with the path of a file and never its content."""

    step: Step
    why: Tuple[str, ...] = ()


def run_of(output: str, *, now: float, monotonic: float, boot: str) -> Run:
    """The run that ``systemctl show`` tells of.

    Args:
        output: its output for PROPERTIES, with times in UTC.
        now, monotonic: both clocks of the node, read at the same time.
        boot: the id of the boot, for a mount that systemd found and gave no invocation.
    """
    properties = dict(line.partition("=")[::2] for line in output.splitlines())
    micro = properties.get("InactiveExitTimestampMonotonic") or "0"
    active = properties.get("ActiveState", "") in _RUNNING
    return Run(
        name=(properties.get("InvocationID") or f"{boot} {micro}") if active else "",
        active=active,
        since=_since(
            properties.get("InactiveExitTimestamp", ""), now - monotonic + int(micro) / 1e6
        ),
        unread=properties.get("NeedDaemonReload") == "yes",
        load=properties.get("LoadState", ""),
        process=int(properties.get("MainPID") or 0),
    )


def _since(timestamp: str, by_uptime: float) -> float:
    """When a run began, at the earliest.

    systemd shows the second by the clock of then; the time since is known by the clock that nobody
    sets. They agree unless the clock was set meanwhile: then the earlier one counts, so that a file
    written after the start is never taken for an older one.
    """
    try:
        second = float(calendar.timegm(time.strptime(timestamp, "%a %Y-%m-%d %H:%M:%S UTC")))
    except ValueError:
        return by_uptime
    return by_uptime if second <= by_uptime < second + 1 else min(second, by_uptime)


def decide(target: TargetState, run: Run, record: Record, files: Mapping[str, File]) -> Decision:
    """The action that is due.

    Args:
        target: the role's.
        run: the present run.
        record: the files in force before.
        files: the files of ``target`` and of the record.
    """
    if target.state == "stopped":
        return Decision(Step.STOP) if run.active else Decision(Step.NONE)
    if not run.active:
        start = target.state == "started"
        return Decision(Step.START, ("it is not running",)) if start else Decision(Step.NONE)
    reasons = _outdated({*target.files, *record.files}, record.files, run, record, files)
    if record.owed and record.run == run.name:
        reasons.insert(0, "a restart was begun and not finished")
    if run.replaced:
        reasons.append("its program was replaced")
    if reasons:
        return Decision(Step.RESTART, tuple(reasons))
    reasons = _outdated(set(target.reloaded), record.reloaded, run, record, files)
    return Decision(Step.RELOAD, tuple(reasons)) if reasons else Decision(Step.NONE)


def _outdated(
    paths: Iterable[str],
    recorded: Mapping[str, str],
    run: Run,
    record: Record,
    files: Mapping[str, File],
) -> List[str]:
    """Why files are not in force, for each that is not."""
    reasons = (
        (path, _reason(path, files[path], recorded.get(path), run, same=record.run == run.name))
        for path in sorted(paths)
    )
    return [f"{path} {reason}" for path, reason in reasons if reason]


def _reason(path: str, file: File, recorded_sha256: str | None, run: Run, *, same: bool) -> str:
    if same and recorded_sha256 is not None:
        return "is another one than at the start" if file.sha256 != recorded_sha256 else ""
    if not file.sha256:
        # When it went cannot be told.
        return "was removed" if recorded_sha256 else ""
    if file.changed_at >= run.since - _TICK_SECONDS:
        return "changed after the start"
    # A unit may have started again since, with the files that systemd had read before.
    if run.unread and path.startswith(_DEFINITIONS) and file.sha256 != recorded_sha256:
        return "was not read by systemd"
    return ""


def begun(run: Run, record: Record) -> Record:
    """The record before a restart."""
    return Record(run.name, True, record.files, record.reloaded)


def record_after(
    target: TargetState, step: Step, run: Run, record: Record, files: Mapping[str, File]
) -> Record:
    """The record after a step, with the run as it is then and the files as they were before.

    Records of another role on this unit stay. A start reads all files; otherwise files that another
    role reloads are as they were.
    """
    fresh = step in (Step.START, Step.RESTART)
    started = {path: files[path].sha256 for path in (*record.files, *target.files)}
    earlier = {path: files[path].sha256 if fresh else sha for path, sha in record.reloaded.items()}
    reloaded = {path: files[path].sha256 for path in target.reloaded}
    target_files = {*target.files, *target.reloaded}

    def pruned(entries: Mapping[str, str]) -> Dict[str, str]:
        return {path: sha for path, sha in entries.items() if sha or path in target_files}

    return Record(run.name, False, pruned(started), pruned({**earlier, **reloaded}))


def look_at(path: str) -> File:
    """A file as it is now.

    Raises:
        BadInput: it cannot be read.
    """
    try:
        with open(path, "rb") as stream:
            content = stream.read()
            return File(hashlib.sha256(content).hexdigest(), os.fstat(stream.fileno()).st_ctime)
    except (FileNotFoundError, NotADirectoryError):
        return File("")
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror or error})") from error


def read(path: str) -> Record:
    """The record of that file; an empty one where there is none.

    Raises:
        BadInput: it is no record.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            content = json.load(stream)
    except FileNotFoundError:
        return Record()
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is no record ({error})") from error
    if not isinstance(content, dict) or set(content) != set(asdict(Record())):
        raise BadInput(f"{path} is no record (other members than trueup writes)")
    for name in ("files", "reloaded"):
        entries = content[name]
        if not isinstance(entries, dict) or not all(isinstance(v, str) for v in entries.values()):
            raise BadInput(f"{path} is no record ({name} holds no paths and sha256)")
    if not isinstance(content["run"], str) or not isinstance(content["owed"], bool):
        raise BadInput(f"{path} is no record (run or owed is of another kind)")
    return Record(**content)


def write(path: str, record: Record) -> None:
    """Put a record in its place, whole, and on the disk; for root alone, as it tells of keys.

    Raises:
        BadInput: it cannot be written.
    """
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # One name in a folder of root alone, or lost power would leave another each time.
        beside = os.path.join(folder, f".{os.path.basename(path)}.part")
        number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(number, "w", encoding="utf-8") as stream:
            json.dump(asdict(record), stream, indent=1, sort_keys=True)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror or error})") from error
