"""Tables and texts of the commands, to standard output or a file."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trueup_node.errors import BadInput

from .messages import write_out
from .options import CatalogOption, Format, FormatOption, OutputOption

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..sheets.sheet import Sheet


@dataclass(frozen=True, kw_only=True)
class Common:
    """The options of nearly every command: the catalog, how tables are written, and where to."""

    catalog: CatalogOption = None
    format_: FormatOption = Format.table
    output: OutputOption = None

    def write(self, sheets: Sequence[Sheet]) -> None:
        write(sheets, self.format_, self.output)


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
