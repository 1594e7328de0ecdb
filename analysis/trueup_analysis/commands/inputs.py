"""Inputs of the commands: records, a tool's output, the catalog's expectations."""

from __future__ import annotations

import glob
import os
import sys
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from trueup_node.errors import BadInput
from trueup_node.reading import MOST_BYTES
from trueup_node.suggest import did_you_mean

from .messages import PROGRESS, say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ..decoding import Gaps
    from ..figures.compare.comparing import Deltas
    from ..load import Loaded
    from ..read import Reading
    from ..selection import Selection

RESULTS = Path("results")


def load_results(
    sources: Sequence[Path] | None, chosen: Selection, *, may_be_empty: bool = False
) -> Loaded:
    """The chosen records of the sources, or of ``results/``: of the last run, unless others are
    chosen."""
    return load_with_others(sources, chosen, may_be_empty=may_be_empty)[1]


def load_with_others(
    sources: Sequence[Path] | None, chosen: Selection, *, may_be_empty: bool = False
) -> tuple[Loaded, Loaded]:
    """All records of the sources, of a store those of the needed runs, and the chosen ones."""
    from ..runs import needed_runs, of_runs

    named = list(sources) if sources else [RESULTS]
    loaded = load_all(named, may_be_empty=may_be_empty, runs=())
    if loaded.stored:
        runs = needed_runs(loaded, chosen)
        loaded = load_all(named, may_be_empty=may_be_empty, runs=runs)
    return loaded, of_runs(loaded, named, chosen, may_be_empty=may_be_empty)


def deltas_of(every: Loaded, loaded: Loaded) -> Deltas:
    """The changes since the run before; where there is none it says so."""
    from ..figures.compare.comparing import Deltas, since_run_before

    changes = since_run_before(every, loaded)
    if changes is None:
        say("--changes: no run before this one measured the same, so no figure has a change")
    return Deltas(changes)


def load_all(
    sources: Sequence[Path], *, may_be_empty: bool = False, runs: Collection[str] | None = None
) -> Loaded:
    """All records of the sources; of a store those of some runs, or of all."""
    from ..load import load

    loaded = load(
        sources,
        tell=lambda files: PROGRESS.step(f"reading records: {files:,} files"),
        may_be_empty=may_be_empty,
        runs=runs,
    )
    PROGRESS.step(f"working on {len(loaded.records):,} records")
    return loaded


def read_bytes(name: str) -> bytes:
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise BadInput(f"{name} has more than {MOST_BYTES >> 20} MiB")
    return content


class Output(NamedTuple):
    """A tool's output as it was read, and its text: of several runs in a file the run's own, below
    the lines above the first one."""

    reading: Reading
    text: str


def output_of(name: str, tool: str | None) -> Output:
    """The one run of a tool's output, from a file or, for "-", from standard input.

    Raises:
        BadInput: it cannot be read, or holds several runs.
    """
    from ..read import read

    text, source, gaps = _decoded(name, tool)
    return Output(read(text, source=source, tool=tool, gaps=gaps), text)


def _decoded(name: str, tool: str | None) -> tuple[str, str, Gaps]:
    """A file's text, its name, and where lines of it are left out."""
    from .. import decoding, read

    source = read.STANDARD_INPUT if name == "-" else name
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as stream:
            text, gaps = decoding.decoded(stream, source, read.marks(tool), read.logs())
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}") from error
    return text, source, gaps


def files_of(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files that are meant: of a folder all below it but runs of trueup and hidden ones, of a
    pattern in quotes all that match; and a sentence on each name that means none."""
    files: list[str] = []
    refused: list[str] = []
    for name in names:
        path = Path(name)
        if name == "-" or path.is_file():
            files.append(name)
        elif path.is_dir():
            held = sorted(_files_below(path))
            files += held
            refused += [] if held else [f"{name} holds no file"]
        elif glob.has_magic(name) and not path.exists():
            matching = _matching(name)
            files += filter(os.path.isfile, matching)
            refused += [] if matching else [f"no file matches {name!r}"]
        else:
            files.append(name)
    return files, refused


def _matching(pattern: str) -> list[str]:
    return sorted(path for path in glob.glob(pattern, recursive=True) if path != pattern)


def _files_below(folder: Path) -> Iterator[str]:
    for directory, below, files in os.walk(folder):
        if "run.json" in files:
            below.clear()
            continue
        below[:] = [name for name in below if not name.startswith(".")]
        yield from (str(Path(directory, name)) for name in files if not name.startswith("."))


def refuse_tool(tool: str | None) -> None:
    """Check the name of a tool once, before any file is read.

    Raises:
        BadInput: there is no parser of that name.
    """
    from ..read import tools

    names = list(tools())
    if tool is not None and tool not in names:
        hint = did_you_mean(tool, names) or f"; there are {', '.join(names)}"
        raise BadInput(f"no parser for {tool!r}{hint}")


def _each_once(files: Sequence[str]) -> list[str]:
    """The files, each once whatever it is called."""
    by_path: dict[str, str] = {}
    for name in files:
        path = name if name == "-" else os.path.realpath(name)
        if path in by_path:
            say(f"note: {name} is the same file as {by_path[path]}, and counts once.")
        by_path.setdefault(path, name)
    return list(by_path.values())


def outputs_of(
    names: Sequence[str], tool: str | None, *, each_once: bool = False
) -> tuple[list[Output], list[str]]:
    """The runs in some files, folders and patterns that can be read, and a sentence on each of the
    others.

    Args:
        each_once: whether a file that is named twice is read once.

    Raises:
        BadInput: none can be read, or the tool has no parser.
    """
    refuse_tool(tool)
    files, refused = files_of(names)
    files = _each_once(files) if each_once else files
    runs = [_runs_or_reason(name, tool) for name in files]
    outputs = [output for read, _ in runs for output in read]
    refused += [reason for _, reasons in runs for reason in reasons]
    if not outputs:
        raise_all(refused)
    return outputs, refused


def raise_all(refused: Sequence[str]) -> NoReturn:
    """Say why each of some files is refused, where none is left.

    Raises:
        BadInput: with the last of the sentences.
    """
    *reasons, last = refused
    for text in reasons:
        say(f"trueup: error: {text}")
    raise BadInput(last)


def _runs_or_reason(name: str, tool: str | None) -> tuple[list[Output], list[str]]:
    from ..read import read_runs

    try:
        text, source, gaps = _decoded(name, tool)
        readings, reasons = read_runs(text, source=source, tool=tool, gaps=gaps)
    except BadInput as error:
        return [], [_wrong_guess(name, tool) or str(error)]
    return [*map(Output, readings, _own_texts(text, readings))], reasons


def _own_texts(text: str, readings: Sequence[Reading]) -> list[str]:
    """The text of each run of a file. A fleet's file has a run for each of its nodes."""
    if len(readings) == 1:
        return [text]
    lines = text.split("\n")
    first, *later = (reading.first_line - 1 for reading in readings)
    head = lines[:first]
    bounds = pairwise([first, *later, len(lines)])
    return ["\n".join([*head, *lines[begin:end]]) for begin, end in bounds]


def _wrong_guess(name: str, tool: str | None) -> str | None:
    """A sentence where a file is another tool's output than the user says."""
    if tool is None or name == "-":
        return None
    try:
        other = output_of(name, None).reading.tool
    except BadInput:
        return None
    return f"{name}: not {tool} output; it is {other} output, which is read without --benchmark"
