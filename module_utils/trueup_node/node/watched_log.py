"""The lines of the kernel log that a health check warns of: watched entries of catalog/faults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from ..health.dictionary import Entry, Match, entries_of, find_entries
from . import sysfs, tools

# An older line is no news: its node has worked since.
_MOST_AGE_SECONDS = 24 * 3600


class Count(NamedTuple):
    """How many lines of a watched entry the kernel logged within a day; 1 for a unit of systemd.

    Attributes:
        device: as the lines name it; None where they do not.
    """

    id: str
    device: Optional[str]
    lines: int


class WatchedLog(NamedTuple):
    """The counts; or None, and a note that says why the kernel log could not be read."""

    counts: Optional[List[Count]]
    note: str = ""


def look(module: Any, document: Mapping[str, Any], procfs_root: str = "/proc") -> WatchedLog:
    """Search the kernel log of this node since its boot.

    Args:
        module: the AnsibleModule, as ``tools.ask`` takes it.
        document: as ``health.faults.watched_of`` makes it.

    Raises:
        BadInput: an entry is wrong.
    """
    categories = {str(entry.get("category", "")): None for entry in document["faults"]}
    logged = [entry for entry in document["faults"] if entry["watched"] != "units"]
    entries = list(entries_of("catalog/faults", {**document, "faults": logged}, categories))
    response = tools.ask(module, ["dmesg"])
    if not response.ok:
        return WatchedLog(None, f"the kernel log cannot be read: {response.note}")
    uptime = sysfs.text_of(Path(procfs_root, "uptime")).split(" ")[0]
    seconds = float(uptime) if re.fullmatch(r"[0-9]{1,12}\.[0-9]{1,3}", uptime) else None
    return WatchedLog(count(response.output, entries, seconds))


def count(text: str, entries: Iterable[Entry], uptime_seconds: Optional[float]) -> List[Count]:
    """The counts of a kernel log, by entry and device."""
    counts: Dict[Tuple[str, Optional[str]], int] = {}
    for match in find_entries(text, entries):
        if _is_recent(match, uptime_seconds):
            key = (match.entry.id, match.device or None)
            counts[key] = counts.get(key, 0) + 1
    return [Count(*key, number) for key, number in sorted(counts.items(), key=str)]


def _is_recent(match: Match, uptime_seconds: Optional[float]) -> bool:
    """Whether a line is of the last day; one without the seconds since boot counts."""
    if uptime_seconds is None or not re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}", match.time):
        return True
    return uptime_seconds - float(match.time) <= _MOST_AGE_SECONDS
