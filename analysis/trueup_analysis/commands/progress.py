"""Progress of long work on a terminal, in a line that vanishes."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status

# Nobody wonders before that, seconds.
PATIENCE = 2.0


class Progress:
    """One line on standard error, from ``begin`` or two seconds later until ``end``; nothing where
    that is no terminal."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._status: Status | None = None
        self._text = "working"

    def begin(self) -> None:
        if sys.stderr.isatty():
            self._timer = threading.Timer(PATIENCE, self._show)
            self._timer.daemon = True
            self._timer.start()

    def step(self, text: str) -> None:
        """Show the current step."""
        self._text = text
        if self._status is not None:
            self._status.update(text)

    def end(self) -> None:
        """Before anything else is written."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            if self._status is not None:
                self._status.stop()
            self._timer = self._status = None

    def _show(self) -> None:
        from rich.console import Console

        with self._lock:
            if self._timer is not None:
                self._status = Console(stderr=True).status(self._text)
                self._status.start()


# A process has one terminal.
PROGRESS = Progress()
