"""Azure's plans for this machine: its Scheduled Events, and a watch of them.

``GET /metadata/scheduledevents?api-version=2020-07-01`` of the instance metadata service answers
with ``Events``, an empty list when idle. A machine is told the events of its whole availability set
or placement group; ``Resources`` names the machines that one is for, as ``compute.name`` of their
metadata. An eviction of a spot machine (Preempt) is announced at least 30 s before, the deletion of
a machine whose set asks for it (Terminate) 5 to 15 minutes. The first call may take two minutes.
Source: learn.microsoft.com/azure/virtual-machines/linux/scheduled-events. Nothing here approves an
event, which would bring it forward.
"""

from __future__ import annotations

import os
import threading
import time
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from ..errors import ParseError
from . import metadata

EVENTS_URL = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"

_POLL_SECONDS = 2.0
# The first call switches the service on: Azure says that it may take two minutes.
_FIRST_SECONDS = 120.0
_ANSWER_SECONDS = 10.0
_ENDS = {"Preempt": "evicts", "Terminate": "deletes"}
# All that end or move the jobs of a machine. A Freeze pauses it for some seconds.
_INTERRUPTS = {**_ENDS, "Reboot": "reboots", "Redeploy": "moves"}
_PAUSES = {"Freeze": "pauses"}
# Those that the service is documented to give; an event that is over or cancelled is not listed.
_COMING = ("Scheduled", "Started")


class Event(NamedTuple):
    """One scheduled event.

    Attributes:
        kind: EventType: Freeze, Reboot, Redeploy, Preempt or Terminate.
        status: EventStatus: Scheduled or Started.
        machines: names of the machines that it is for.
        not_before: when it begins at the earliest, ``2026-11-24T18:00:00Z``, or as the document
            writes it; empty where it does not say, as of an event that has started.
    """

    kind: str
    status: str
    machines: Tuple[str, ...]
    not_before: str = ""


def events_of(document: Mapping[str, Any]) -> List[Event]:
    """The events of the service's answer.

    Raises:
        ParseError: it is no such document.
    """
    events = document.get("Events")
    if not isinstance(events, list):
        raise ParseError("scheduled events without a list 'Events'")
    return [_event(entry) for entry in events]


def _event(entry: object) -> Event:
    if not isinstance(entry, dict):
        raise ParseError(f"a scheduled event that is no object: {str(entry)[:60]!r}")
    kind, status, names = (entry.get(key) for key in ("EventType", "EventStatus", "Resources"))
    if not isinstance(kind, str) or not isinstance(status, str):
        raise ParseError("a scheduled event without EventType or EventStatus")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ParseError(f"a scheduled event ({kind[:20]!r}) without a list of names 'Resources'")
    return Event(kind, status, tuple(names), _time(entry.get("NotBefore")))


def _time(text: object) -> str:
    """``Tue, 09 Aug 2022 17:07:32 GMT`` as records write times; another text as it came."""
    if not isinstance(text, str):
        return ""
    try:
        return parsedate_to_datetime(text).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (TypeError, ValueError, IndexError):
        return "".join(filter(str.isprintable, text))[:40]


def ending(
    events: Iterable[Event], local_names: Iterable[str], peer_names: Iterable[str] = ()
) -> str:
    """Of the first event that takes a machine of ours away, a sentence; empty where none does.

    Args:
        local_names: names of this machine.
        peer_names: names of the other machines that a case runs on.
    """
    return _first(events, _ENDS, local_names, peer_names)


def interrupting(events: Iterable[Event], local_names: Iterable[str]) -> str:
    """Of the first event that ends or moves the jobs of this machine, a sentence, as ``ending``."""
    return _first(events, _INTERRUPTS, local_names)


def pausing(events: Iterable[Event], local_names: Iterable[str]) -> str:
    """Of the first event that pauses this machine, a sentence, as ``ending``."""
    return _first(events, _PAUSES, local_names)


def _first(
    events: Iterable[Event],
    kinds: Mapping[str, str],
    local_names: Iterable[str],
    peer_names: Iterable[str] = (),
) -> str:
    local, ours = ({name.lower() for name in names} for names in (local_names, peer_names))
    for event in events:
        if event.kind not in kinds or event.status not in _COMING:
            continue
        named = [name for name in event.machines if name.lower() in local | ours]
        if named:
            machine = "this machine" if named[0].lower() in local else f"node {named[0]}"
            when = f"not before {event.not_before}" if event.not_before else "at once"
            return f"Azure {kinds[event.kind]} {machine} ({event.kind}, {when})"
    return ""


def planned(
    metadata_url: str, events_url: str, answer_seconds: float
) -> Tuple[List[Event], Tuple[str, ...]]:
    """The events that Azure plans now, of this machine and its set, and this machine's names.

    Raises:
        ParseError: the service does not answer, or not with events.
    """
    documents = []
    for url in (metadata_url, events_url):
        answer = metadata.document(url, answer_seconds=answer_seconds)
        if answer.status != "ok":
            raise ParseError(answer.detail)
        documents.append(answer.content)
    return events_of(documents[1]), _names_of(documents[0])


def _names_of(content: Mapping[str, Any]) -> Tuple[str, ...]:
    compute = content.get("compute")
    name = compute.get("name") if isinstance(compute, dict) else None
    if not isinstance(name, str) or not name:
        raise ParseError("the metadata service does not say this machine's name")
    return name, os.uname().nodename


class Watch:
    """Asks for events in a thread of its own until it is closed.

    A service that does not answer, or not with events, is no eviction: that is counted.

    Args:
        peer_names: names of the other machines of the case.
        ask: fetches a document; metadata.document.
    """

    def __init__(
        self,
        peer_names: Iterable[str] = (),
        *,
        ask: Callable[..., metadata.Document] = metadata.document,
        events_url: str = EVENTS_URL,
        metadata_url: str = metadata.METADATA_URL,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        self.seen = ""
        self._others = tuple(peer_names)
        self._ask, self._urls, self._poll_seconds = ask, (events_url, metadata_url), poll_seconds
        self._names: Tuple[str, ...] = ()
        self._asked = self._failed = 0
        self._why = "no answer yet"
        self._answered_at: Optional[float] = None
        self._began_at = time.monotonic()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> List[str]:
        """Ask no more; a sentence where an eviction could not have been seen for a while."""
        self._closed.set()
        silent = time.monotonic() - (self._answered_at or self._began_at)
        if not self._failed and silent < self._poll_seconds + _ANSWER_SECONDS:
            return []
        times = f"{self._failed or 1} of {self._asked} times ({self._why})"
        return [f"scheduled events could not be read {times}: an eviction was not seen meanwhile"]

    def _watch(self) -> None:
        while not self._closed.is_set() and not self.seen:
            self._asked += 1
            try:
                self.seen = ending(self._events(), self._names, self._others)
                self._answered_at = time.monotonic()
            except ParseError as error:
                self._failed, self._why = self._failed + 1, str(error)
            self._closed.wait(self._poll_seconds)

    def _events(self) -> List[Event]:
        if not self._names:
            self._names = _names_of(self._get(self._urls[1]))
        return events_of(self._get(self._urls[0]))

    def _get(self, url: str) -> Dict[str, Any]:
        seconds = _FIRST_SECONDS if self._answered_at is None else _ANSWER_SECONDS
        came = self._ask(url, answer_seconds=seconds)
        if came.status != "ok":
            raise ParseError(came.detail)
        return came.content
