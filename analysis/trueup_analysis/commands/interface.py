"""Interface of the commands: options that several take, each declared once; messages and progress
to standard error; texts and tables to standard output or a file."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, get_type_hints

import typer
from trueup_node.errors import BadInput, TrueupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.status import Status

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


def option(metavar: str, about: str, *names: str, **more: Any) -> Any:
    """An option with a value: its placeholder, and a line of help."""
    return typer.Option(*names, metavar=metavar, help=about, **more)


def flag(name: str, about: str) -> Any:
    """An option without a value, and a line of help."""
    return typer.Option(name, help=about)


FormatOption = Annotated[
    Format, typer.Option("--format", "-f", help="csv and json hold base units, unrounded.")
]
OutputOption = Annotated[
    Path | None,
    option("FILE", "Write here instead of standard output.", "--output", "-o"),
]
ContractOption = Annotated[
    Path | None,
    option(
        "FILE",
        "Your contract's prices, discounts and currency; else TRUEUP_CONTRACT, else contract.yml"
        " beside your own prices.",
        "--contract",
    ),
]
CatalogOption = Annotated[
    Path | None,
    option(
        "FOLDER", "A catalog of your own; else TRUEUP_CATALOG, else the built-in one.", "--catalog"
    ),
]


@dataclass(frozen=True, kw_only=True)
class Common:
    """The options of nearly every command: the catalog, how tables are written, and where to."""

    catalog: CatalogOption = None
    format_: FormatOption = Format.table
    output: OutputOption = None

    def write(self, sheets: Sequence[Sheet]) -> None:
        write(sheets, self.format_, self.output)


Command = Callable[..., None]


def taking(**bundles: Callable[..., Any]) -> Callable[[Command], Command]:
    """Replaces the parameter of each bundle's name by the options of the bundle. The command gets
    the value that the bundle makes of them."""

    def decorate(command: Command) -> Command:
        options = {name: _parameters(bundle) for name, bundle in bundles.items()}

        @functools.wraps(command)
        def bundled(**arguments: Any) -> None:
            bundle_values = {
                name: bundle(
                    **{option_name: arguments.pop(option_name) for option_name in options[name]}
                )
                for name, bundle in bundles.items()
            }
            command(**arguments, **bundle_values)

        parameters = [
            parameter
            for name, declared in _parameters(command).items()
            for parameter in (options[name].values() if name in options else [declared])
        ]
        bundled.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        bundled.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return bundled

    return decorate


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a function, their annotations as objects."""
    hints = get_type_hints(function, include_extras=True)
    return {
        name: parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
    }


def examples(*lines: str) -> str:
    """Commands to copy whole, also those with a comment; they fit into 80 columns."""
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(lines)


def group(name: str, about: str, *lines: str) -> typer.Typer:
    """A command that has several of its own, with examples of them."""
    return typer.Typer(
        name=name,
        help=about,
        epilog=examples(*lines),
        no_args_is_help=True,
        rich_markup_mode="rich",
    )


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


def raise_all(refused: Sequence[str]) -> NoReturn:
    """Say why each of some files is refused, where none is left.

    Raises:
        BadInput: with the last of the sentences.
    """
    *reasons, last = refused
    for text in reasons:
        say(f"trueup: error: {text}")
    raise BadInput(last)


def once_each(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Sentences on files, each once whatever number of files it is on: pairs of file and text."""
    files: dict[str, list[str]] = {}
    for source, text in dict.fromkeys(texts):
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


def write(sheets: Sequence[Sheet], format_: Format, output: Path | None) -> None:
    from ..render import csv, json, markdown, table

    if format_ is Format.table:
        is_looked_at = output is None and sys.stdout.isatty()
        colour = is_looked_at and "NO_COLOR" not in os.environ
        # Not os.get_terminal_size, which knows neither COLUMNS nor terminals that say 0.
        columns = shutil.get_terminal_size((table.WIDTH, 24)).columns
        width = columns if is_looked_at else table.WIDTH
        put(table.render(sheets, width=width, colour=colour), output)
    elif format_ is Format.csv:
        _put(csv.parts(sheets), output)
    else:
        render = {Format.markdown: markdown.render, Format.json: json.render}[format_]
        put(render(sheets), output)


def put(text: str, output: Path | None = None) -> None:
    """Write a text to a file, else to standard output."""
    _put([text], output)


def _put(parts: Iterable[str], output: Path | None) -> None:
    """Write a text that is made as it is written. Standard output is flushed while an error can
    still be told; typer ends quietly on a broken pipe."""
    if output is None:
        PROGRESS.end()
        try:
            sys.stdout.writelines(parts)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise BadInput(unwritten(error)) from error
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
