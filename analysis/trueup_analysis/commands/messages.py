"""Output of the commands: messages and progress to standard error, texts and tables to standard
output or a file."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from trueup_node.errors import BadInput, TrueupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.status import Status

    from ..load import Loaded
    from ..sheets.sheet import Sheet

# A folder with a thousand bad files must not bury the table; `trueup list` names them all.
MESSAGES_SHOWN = 20
FILES_NAMED = 3
# Nobody wonders before that, seconds.
PATIENCE = 2.0


class Format(str, Enum):
    """How a table is written."""

    table = "table"
    markdown = "markdown"
    csv = "csv"
    json = "json"


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


def sentence(error: TrueupError | OSError) -> str:
    """The message for a known error."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)} cannot be used: {error.strerror}"
    return str(error)


@contextlib.contextmanager
def errors_end_with(status: int) -> Iterator[None]:
    """Known errors with a status of their own, of a command whose status 1 is a finding."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (TrueupError, OSError) as error:
        say(f"trueup: error: {sentence(error)}")
        raise typer.Exit(status) from error


def print_(text: str) -> None:
    """Write and flush, while an error can still be told; typer ends quietly on a broken pipe."""
    write_out([text])


def write_out(parts: Iterable[str]) -> None:
    PROGRESS.end()
    try:
        sys.stdout.writelines(parts)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BadInput(unwritten(error)) from error


def unwritten(error: OSError) -> str:
    """The message where standard output cannot be written. The rest of its buffer goes nowhere: it
    would fail once more when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return f"standard output could not be written: {error.strerror}"


def say(text: str) -> None:
    from .. import units

    PROGRESS.end()
    sys.stderr.write(units.text(text) + "\n")


def say_all(texts: Sequence[str]) -> None:
    for text in texts[:MESSAGES_SHOWN]:
        say(f"warning: {text}")
    if len(texts) > MESSAGES_SHOWN:
        say(f"warning: and {len(texts) - MESSAGES_SHOWN} more like these")


def end_incomplete(loaded: Loaded, status: int = 1) -> None:
    """End with a status that is not 0 where files could not be read: the tables lack them.

    Raises:
        Exit: some could not.
    """
    if loaded.excluded:
        from .. import units

        say(f"{units.plural(len(loaded.excluded), 'file')} could not be read.")
        raise typer.Exit(status)


def say_refused(sentences: Sequence[str], count: int, verb: str = "read") -> None:
    """The refused files, each with the reason, and how many of how many they are. A list of tools
    that several sentences end in stands in the first."""
    lists: set[str] = set()
    for text in sentences:
        reason, hint, tools = text.partition("; say which with --benchmark (")
        say(f"trueup: error: {reason if tools in lists else text}")
        lists |= {tools} if hint else set()
    if sentences and count > 1:
        others = "none was" if len(sentences) == count else "the others were"
        say(f"{len(sentences)} of {count} files could not be {verb}; {others}.")


def once_each(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Sentences on files, each once whatever number of files it is on: pairs of file and text."""
    files: dict[str, list[str]] = {}
    for source, text in texts:
        files.setdefault(text, []).append(source)
    return [
        f"{sources[0]}: {text}"
        if len(sources) == 1
        else f"{text} ({len(sources):,} files: {', '.join(sources[:FILES_NAMED])}"
        f"{', ...' * (len(sources) > FILES_NAMED)})"
        for text, sources in files.items()
    ]


def say_warnings(sheets: Sequence[Sheet]) -> None:
    say_all(list(dict.fromkeys(text for sheet in sheets for text in sheet.warnings)))


def say_notes(loaded: Loaded, *, not_read: bool = True) -> None:
    """Notes of the reader, and files that it could not read unless a table lists them."""
    for note in loaded.notes:
        say(f"note: {note}")
    if not_read:
        say_all([f"not read: {item.path}: {item.reason}" for item in loaded.excluded])


def write(sheets: Sequence[Sheet], format_: Format, output: Path | None) -> None:
    from ..render import csv, json, markdown, table

    if format_ is Format.table:
        colour = output is None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
        looked_at = output is None and sys.stdout.isatty()
        # Not os.get_terminal_size, which knows neither COLUMNS nor terminals that say 0.
        width = shutil.get_terminal_size((table.WIDTH, 24)).columns if looked_at else table.WIDTH
        put(table.render(sheets, width=width, colour=colour), output)
    elif format_ is Format.csv:
        _put(csv.parts(sheets), output)
    else:
        render = {Format.markdown: markdown.render, Format.json: json.render}[format_]
        put(render(sheets), output)


def put(text: str, output: Path | None) -> None:
    _put([text], output)


def _put(parts: Iterable[str], output: Path | None) -> None:
    """Write a text that is made as it is written."""
    if output is None:
        write_out(parts)
        return
    if not output.name:
        raise BadInput(f"--output {output} is no file; name one")
    # Whole or not at all: who reads a file that is written again and again must not see half of it.
    beside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        if output.exists() and not output.is_file():
            _write(parts, output)  # /dev/stderr, a pipe
            return
        _write(parts, beside)
        beside.replace(output)
    except OSError as error:
        raise BadInput(f"{output} could not be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _write(parts: Iterable[str], path: Path) -> None:
    with path.open("w", encoding="utf-8", errors="replace") as stream:
        stream.writelines(parts)
