"""What the commands write: data to standard output or a file, messages to standard
error."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trueup.errors import BadInput, TrueupError

from .options import CatalogOption, Format, FormatOption, OutputOption
from .progress import PROGRESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..load import Loaded
    from ..sheets.sheet import Sheet

# A folder with a thousand bad files must not bury the table; `trueup list` names them all.
MESSAGES_SHOWN = 20


def sentence(error: TrueupError | OSError) -> str:
    """What is said of a known error."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)} cannot be used: {error.strerror}"
    return str(error)


@dataclass(frozen=True, kw_only=True)
class Common:
    """The options of nearly every command: the catalog, how tables are written, and where to."""

    catalog: CatalogOption = None
    format_: FormatOption = Format.table
    output: OutputOption = None

    def write(self, made: Sequence[Sheet]) -> None:
        write(made, self.format_, self.output)


def write(made: Sequence[Sheet], format_: Format, output: Path | None) -> None:
    from ..render import csv, json, markdown, table

    if format_ is Format.table:
        colour = output is None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
        looked_at = output is None and sys.stdout.isatty()
        # Not os.get_terminal_size, which knows neither COLUMNS nor terminals that say 0.
        width = shutil.get_terminal_size((table.WIDTH, 24)).columns if looked_at else table.WIDTH
        put(table.render(made, width=width, colour=colour), output)
    elif format_ is Format.csv:
        _put(csv.parts(made), output)
    else:
        render = {Format.markdown: markdown.render, Format.json: json.render}[format_]
        put(render(made), output)


def put(text: str, output: Path | None) -> None:
    _put([text], output)


def _put(parts: Iterable[str], output: Path | None) -> None:
    """Write a text that is made as it is written."""
    if output is None:
        _print(parts)
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


def print_(text: str) -> None:
    """Write and flush, while an error can still be told; typer ends quietly on a broken pipe."""
    _print([text])


def _print(parts: Iterable[str]) -> None:
    PROGRESS.end()
    try:
        sys.stdout.writelines(parts)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is left in the buffer would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise BadInput(f"standard output could not be written: {error.strerror}") from error


def say(text: str) -> None:
    from .. import units

    PROGRESS.end()
    sys.stderr.write(units.text(text) + "\n")


def say_all(texts: Sequence[str]) -> None:
    for text in texts[:MESSAGES_SHOWN]:
        say(f"warning: {text}")
    if len(texts) > MESSAGES_SHOWN:
        say(f"warning: and {len(texts) - MESSAGES_SHOWN} more like these")


def say_warnings(made: Sequence[Sheet]) -> None:
    say_all(list(dict.fromkeys(text for sheet in made for text in sheet.warnings)))


def say_notes(loaded: Loaded, *, not_read: bool = True) -> None:
    """What the reader has to say, and what it could not read unless a table says that."""
    for note in loaded.notes:
        say(f"note: {note}")
    if not_read:
        say_all([f"not read: {item.path}: {item.reason}" for item in loaded.excluded])
