"""Scheduled events: what they say, and real processes that end for one.

The metadata service is emulated: a server on the loopback.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from helpers import parametrized
from metadata_server import COMPUTE, document, send, serving
from trueup_node.errors import ParseError
from trueup_node.node import events
from trueup_node.run import process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

    from metadata_server import Behaviour

HERE = COMPUTE["name"]
# What machines were really told: `Reboot` by flatcar's log of 2021, `Preempt` by `az vm
# simulate-eviction` in Microsoft's spot VM baseline of 2022; names of machines as in these tests.
REBOOT = {
    "EventId": "4CAEA225-0000-0000-0000-000000000000",
    "EventStatus": "Scheduled",
    "EventType": "Reboot",
    "ResourceType": "VirtualMachine",
    "Resources": [HERE],
    "NotBefore": "Thu, 22 Jul 2021 04:50:17 GMT",
    "Description": "",
    "EventSource": "User",
    "DurationInSeconds": -1,
}
PREEMPT = {
    **REBOOT,
    "EventType": "Preempt",
    "NotBefore": "Tue, 09 Aug 2022 17:07:32 GMT",
    "EventSource": "Platform",
}
SENTENCE = "Azure evicts this machine (Preempt, not before 2022-08-09T17:07:32Z)"


def told(*listed: Any) -> dict[str, Any]:
    return {"DocumentIncarnation": 2, "Events": list(listed)}


def ending(*listed: Any, others: tuple[str, ...] = ()) -> str:
    return events.ending(events.events_of(told(*listed)), [HERE], others)


@parametrized(("changes", "sentence"))
def test_an_event_ends_this_machine_or_not(changes: dict[str, Any], sentence: str) -> None:
    assert ending(REBOOT, {**PREEMPT, **changes}) == sentence


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({}, "without a list 'Events'"),
        ({"Events": {"EventType": "Preempt"}}, "without a list 'Events'"),
        (told("Preempt"), "no object"),
        (told({**PREEMPT, "EventType": None}), "without EventType or EventStatus"),
        (told({**PREEMPT, "Resources": HERE}), "without a list of names 'Resources'"),
        (told({**PREEMPT, "Resources": [1]}), "without a list of names 'Resources'"),
    ],
)
def test_another_document_is_refused(content: dict[str, Any], named: str) -> None:
    with pytest.raises(ParseError, match=named):
        events.events_of(content)


def service(events_of: Behaviour, name: str = HERE) -> Behaviour:
    """Answers for the machine, and ``events_of`` for its events."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        asked = handler.path.startswith("/metadata/scheduledevents")
        (events_of if asked else send(document(name=name)))(handler)

    return behave


def listing(*listed: Any) -> Behaviour:
    return send(json.dumps(told(*listed)).encode())


@contextlib.contextmanager
def watched(
    monkeypatch: pytest.MonkeyPatch, behave: Behaviour, others: tuple[str, ...] = ()
) -> Iterator[list[tuple[str, dict[str, str]]]]:
    """What is run in the block is watched by a service that behaves so."""
    with serving(behave) as (url, requests):
        watch = functools.partial(
            events.Watch,
            metadata_url=url,
            events_url=url.replace("instance", "scheduledevents"),
            poll_seconds=0.1,
        )
        monkeypatch.setattr(events, "Watch", watch)
        with process.evictable(others):
            yield requests


def run(script: str, **how: Any) -> process.Completed:
    return process.run(["sh", "-c", script], timeout_seconds=120, environment={}, **how)


def after(begun: Path, then: Behaviour) -> Behaviour:
    """No event until the file is there."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        (then if begun.exists() else listing(REBOOT))(handler)

    return behave


def test_one_that_does_not_end_for_a_notice_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    monkeypatch.setattr(process, "_NOTICE_SECONDS", 0.3)
    with watched(monkeypatch, service(after(begun, listing(PREEMPT)))):
        done = run(f"trap '' TERM; touch {begun}; sleep 500")
    assert (done.reason, done.returncode) == (SENTENCE, -signal.SIGKILL)


SILENT = "an eviction was not seen meanwhile"


def hang(_: BaseHTTPRequestHandler) -> None:
    time.sleep(60)


def run_until_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, behave: Behaviour
) -> process.Completed:
    """What ends at the third request: of the name, of the events, and one after a failure."""
    asked_again = tmp_path / "asked again"
    times = itertools.count(1)

    def noted(handler: BaseHTTPRequestHandler) -> None:
        if next(times) == 3:
            asked_again.touch()
        behave(handler)

    with watched(monkeypatch, noted):
        return run(f"until [ -e '{asked_again}' ]; do sleep 0.05; done")


@pytest.mark.parametrize(
    ("behave", "why"),
    [
        (send(b"gone", 410), "status 410 'Gone'"),
        (send(b"oops", 500), "status 500 'Internal Server Error'"),
        (send(b"wait", 429), "status 429: asked more often than five times a second"),
        (send(b"<html>"), "an answer that is not JSON ('<html>')"),
        (send(b'{"Events": [{}]}'), "a scheduled event without EventType or EventStatus"),
        (send(b'{"Events": null}'), "scheduled events without a list 'Events'"),
        (hang, "no whole answer within 0.2 s"),
    ],
)
def test_a_service_that_does_not_say_is_no_eviction(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, behave: Behaviour, why: str
) -> None:
    # A machine that is busy takes its time for the other answers.
    monkeypatch.setattr(events, "_FIRST_SECONDS", 0.2 if behave is hang else 60.0)
    done = run_until_asked_again(monkeypatch, tmp_path, service(behave))
    assert (done.returncode, done.reason) == (0, None)
    [warning] = done.warnings
    assert warning.startswith("scheduled events could not be read ")
    assert warning.endswith(f" times ({why}): {SILENT}")


def test_a_machine_without_a_service_or_a_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nameless = service(listing(PREEMPT), name="")
    done = run_until_asked_again(monkeypatch, tmp_path, nameless)
    assert "does not say this machine's name" in done.warnings[0]
    watch = events.Watch(metadata_url="http://127.0.0.1:9/", poll_seconds=0.1)
    deadline = time.monotonic() + 60
    while not watch._failed and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (watch.seen, "nothing listens" in watch.close()[0]) == ("", True)
