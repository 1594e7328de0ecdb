"""PSRP sessions of the simulated Windows host: runspace pools and their pipelines (psrpcore)."""

from __future__ import annotations

import json
import threading
import time
import traceback
import uuid
from collections import defaultdict
from dataclasses import dataclass, field

from psrpcore import (
    CreatePipelineEvent,
    EndOfPipelineInputEvent,
    PipelineInputEvent,
    PSRPPayload,
    ServerPipeline,
    ServerRunspacePool,
    StreamType,
)
from psrpcore.types import HostMethodIdentifier, NETException, PSInvocationState

from . import pipeline
from .host import Host

# What one answer carries at most: the client says how large an envelope it takes, at least 150 KiB.
_BLOCK = 64 * 1024


@dataclass
class _Running:
    """A pipeline: its script and its input so far."""

    pipeline: ServerPipeline
    script: str = ""
    given: list[str] = field(default_factory=list)
    no_input: bool = True
    begun: bool = False


class Session:
    """One runspace pool of one user; ``boots`` is the boot it belongs to."""

    def __init__(self, host: Host, user: str) -> None:
        self.host = host
        self.user = user
        self.boots = host.boots
        self.pool = ServerRunspacePool()
        self._news = threading.Condition()
        self._ready: defaultdict[uuid.UUID | None, bytearray] = defaultdict(bytearray)
        self._running: dict[uuid.UUID, _Running] = {}

    def take(self, data: bytes, command: uuid.UUID | None = None) -> None:
        """Take what the client sent to the pool, or to a pipeline.

        Raises:
            ValueError, psrpcore.PSRPCoreError, struct.error: it is no PSRP.
        """
        with self._news:
            if command and command not in self.pool.pipeline_table:
                self._running[command] = _Running(ServerPipeline(self.pool, command))
            self.pool.receive_data(PSRPPayload(data, StreamType.default, command))
            while event := self.pool.next_event():
                if isinstance(event, CreatePipelineEvent):
                    running = self._running[event.pipeline_id]
                    asked = event.pipeline
                    running.script = "\n".join(each.command_text for each in asked.commands)
                    running.no_input = asked.no_input
                    # Windows says how a pipeline ended, never that it runs: of that word alone, as
                    # first answer, Ansible's fetch makes a file that is not there.
                    running.pipeline.state = PSInvocationState.Running
                elif isinstance(event, PipelineInputEvent):
                    self._running[event.pipeline_id].given.append(str(event.data))
                elif isinstance(event, EndOfPipelineInputEvent):
                    self._begin(self._running[event.pipeline_id])
            if command and self._running[command].no_input and self._running[command].script:
                self._begin(self._running[command])
            self._collect()

    def give(self, command: uuid.UUID | None, seconds: float) -> bytes:
        """What there is for the client; empty when nothing came within the time."""
        until = time.monotonic() + seconds
        with self._news:
            while not self._ready[command]:
                left = until - time.monotonic()
                if left <= 0 or not self._news.wait(left):
                    return b""
            ready = self._ready[command]
            # Whole fragments only where that is possible: the client puts them together anyway.
            block = bytes(ready[:_BLOCK]) if len(ready) <= _BLOCK else _whole(ready)
            del ready[: len(block)]
            return block

    def drop(self, command: uuid.UUID) -> None:
        """Forget a pipeline that the client stopped."""
        with self._news:
            self._running.pop(command, None)
            self.pool.pipeline_table.pop(command, None)

    def knows(self, command: uuid.UUID) -> bool:
        """Whether that pipeline was begun here."""
        return command in self._running

    def _begin(self, running: _Running) -> None:
        if not running.begun:
            running.begun = True
            threading.Thread(target=self._run, args=(running,), daemon=True).start()

    def _run(self, running: _Running) -> None:
        try:
            answer = pipeline.answer(self.host, self.user, running.script, running.given)
        except Exception as error:  # noqa: BLE001 (a pipeline that never ends hangs its client)
            traceback.print_exc()
            said = f"simulated Windows host: it broke, which is its own mistake: {error!r}"
            answer = pipeline.Answer([json.dumps({"failed": True, "msg": said})], said, 1)
        with self._news:
            ours = running.pipeline
            for text in answer.output:
                ours.write_output(text)
            if answer.error is not None:
                ours.write_error(NETException(Message=answer.error))
            if answer.status:
                ours.host_call(HostMethodIdentifier.SetShouldExit, [answer.status])
            ours.complete()
            self._collect()

    def _collect(self) -> None:
        while payload := self.pool.data_to_send(_BLOCK // 2):
            self._ready[payload.pipeline_id] += payload.data
        self._news.notify_all()


def _whole(ready: bytearray) -> bytes:
    """As many whole fragments as a block holds: 21 bytes of header, the last 4 of them a length."""
    end = 0
    while end < len(ready):
        following = end + 21 + int.from_bytes(ready[end + 17 : end + 21], "big")
        if following > _BLOCK and end:
            break
        end = following
    return bytes(ready[:end])
