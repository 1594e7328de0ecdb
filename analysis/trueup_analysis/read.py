"""``trueup read``: a tool's own output from files through the parser that also reads it
on the nodes."""

from __future__ import annotations

import glob
import os
import re
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from trueup_node.cases import Case
from trueup_node.errors import BadInput, ParseError, TrueupError
from trueup_node.reading import unverified
from trueup_node.suggest import did_you_mean

from .decoding import Gaps, decoded
from .front import Block, Clean, claims, cleaned, cut, json_blocks
from .rooms import logs, marks, part, tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trueup_node.benchmarks import Parsed
    from trueup_node.cases import Figure
    from trueup_node.reading import Signature

    from .parsers.nccl_log.output import NcclLogOutput

STANDARD_INPUT: Final = "standard input"
# A line of trueup's own drivers, below a tool's output and with its checksum, begins so.
_DRIVERS: Final = "trueup-"
# Resources, and their names in a parser's result.
_RESOURCES: Final = {
    "nodes": "node_count",
    "ranks": "ranks",
    "threads": "threads",
    "gpus": "gpu_count",
}


@dataclass(frozen=True)
class Reading:
    """One file's figures, in base units.

    Attributes:
        resources: nodes, ranks, threads and gpus, where the text says them.
        hosts: the machines that the text names, each once.
        unverified: cross-checks that the text lacks, a sentence each; none normally.
        reasons: by the name of a check, the sentence for its failure, where a tool has one.
        not_judged: settings, fields and lines that are not known, by name, with values or counts.
        removed: what others put around the output, and on how many lines.
        first_line: of the run in its source.
        run: its number among several runs of one source.
    """

    source: str
    tool: str
    tool_version: str | None
    parameters: dict[str, str]
    figures: list[Figure]
    checks: dict[str, bool]
    warnings: list[str]
    unverified: list[str]
    resources: dict[str, int]
    hosts: list[str]
    reasons: dict[str, str]
    not_judged: dict[str, str]
    removed: dict[str, int]
    first_line: int = 1
    run: int | None = None

    @property
    def title(self) -> str:
        """The source, and which run of it."""
        return self.source if self.run is None else f"{self.source}, run {self.run}"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The figures as they stand in a record."""
        return [figure.as_row() for figure in self.figures]

    @property
    def remarks(self) -> list[str]:
        """What was removed from the text, and what in it is not known, a sentence each."""
        removed = ", ".join(f"{name} of {count} lines" for name, count in self.removed.items())
        unknown = ", ".join(f"{name} {value}" for name, value in self.not_judged.items())
        return [
            *([f"removed: {removed}"] if removed else []),
            *([f"not judged: {unknown}"] if unknown else []),
        ]

    def as_case(self, size: str, node_count: int | None = None) -> Case:
        """A case on ``node_count`` nodes of a size; without a number, on as many as the output
        says. Figures that could not be verified count as not measured."""
        outcome, reason = self.outcome()
        count = node_count or self.resources.get("nodes")
        return Case(
            nodes=tuple(self.hosts or nodes_of(slug(self.source), count)),
            node_count=count,
            vm_size=size,
            benchmark=self.tool,
            case=self.source,
            outcome=outcome,
            reason=reason,
            parameters=self.parameters,
            # Each rank of nccl-tests has a GPU.
            gpus=self.resources.get("gpus"),
            software={},
            figures=self.figures,
        )

    def failed_checks(self) -> list[str]:
        """Each failed check: its sentence, else its name."""
        return [self.reasons.get(name, name) for name, passed in self.checks.items() if not passed]

    def outcome(self) -> tuple[str, str | None]:
        """A record's outcome and reason: invalid where the tool's own check failed, failed where
        the figures could not be verified."""
        bad = self.failed_checks()
        if bad:
            return "invalid", f"its own check failed: {', '.join(bad)}"
        if self.unverified:
            return "failed", f"unverified: {'; '.join(self.unverified)}"
        return "ok", None


def read(text: str, *, source: str, tool: str | None = None, gaps: Gaps | None = None) -> Reading:
    """The one run of a text (``read_runs``).

    Raises:
        BadInput: as there, or there are several runs, or a run that cannot be read.
    """
    readings, refused = read_runs(text, source=source, tool=tool, gaps=gaps)
    if refused:
        raise BadInput(refused[0])
    if len(readings) > 1:
        raise BadInput(f"{source} holds {len(readings)} runs: {_runs(readings)}")
    return readings[0]


def _runs(readings: Sequence[Reading]) -> str:
    return ", ".join(f"{reading.tool} from line {reading.first_line}" for reading in readings)


def read_runs(
    text: str, *, source: str, tool: str | None = None, gaps: Gaps | None = None
) -> tuple[list[Reading], list[str]]:
    """The runs of a text, each with its number where there are several, and a sentence on each run
    that cannot be read.

    Args:
        gaps: where lines of the output are left out of the text.
        source: the name of the text in messages.
        tool: which tool wrote it; found out when None.

    Raises:
        BadInput: no parser of that name, no parser recognises the text, or no run can be
            understood (the message holds the line).
    """
    clean, names = _recognised(text, source, tool)
    front = _Front(source, gaps or Gaps(), dict(clean.removed))
    refused = _several(source, names)
    if len(names) == 1:
        try:
            return [front.reading(Block(names[0], clean.text, clean.text, 1))], []
        except BadInput as error:
            refused = str(error)
    runs = [front.reading_or_reason(block) for block in _blocks(clean.text, names)]
    readings = [
        replace(run, run=number if len(runs) > 1 else None)
        for number, run in enumerate(runs, 1)
        if isinstance(run, Reading)
    ]
    reasons = [run for run in runs if isinstance(run, str)]
    if not readings:
        raise BadInput(reasons[0] if len(reasons) > 1 else refused)
    return readings, reasons


def _recognised(text: str, source: str, tool: str | None) -> tuple[Clean, list[str]]:
    """The text after the front stage, and the tools that may have written it."""
    if not text or text.isspace():
        raise BadInput(f"{source} is empty")
    _refuse_tool(tool)
    clean = cleaned(text)
    return clean, [tool] if tool else claims(clean.text, source)


def _several(source: str, names: Sequence[str]) -> str:
    return f"{source}: several tools claim it: {', '.join(names)}; say which with --benchmark"


def _blocks(text: str, names: Sequence[str]) -> list[Block]:
    """The runs in a text of these tools, by the lines that begin and end a run; else its JSON, by
    the parts that a tool's room knows, or object by object."""
    signatures = {name: signature for name, signature in tools().items() if name in names}
    runs = {name: signature.run for name, signature in signatures.items() if signature.run}
    return cut(text, runs) or _values(text, signatures)


def _values(text: str, signatures: Mapping[str, Signature]) -> list[Block]:
    parts = [
        Block(name, part, part, 1)
        for name, signature in signatures.items()
        for part in (signature.parts(text) if signature.parts else ())
    ]
    return parts or [
        block
        for name, signature in signatures.items()
        for block in json_blocks(text, name)
        if signature.recognises(block.text)
    ]


@dataclass(frozen=True)
class _Front:
    """What the parsed texts of one source share."""

    source: str
    gaps: Gaps
    removed: dict[str, int]

    def reading_or_reason(self, block: Block) -> Reading | str:
        try:
            return self.reading(block)
        except BadInput as error:
            return str(error)

    def reading(self, block: Block) -> Reading:
        try:
            parsed, below = _parsed(block)
        except ParseError as error:
            raise BadInput(f"{self.source}: {self._in_source(error, block)}") from error
        except TrueupError as error:
            raise BadInput(f"{self.source}: {error}") from error
        log = _nccl_log(block)
        is_drivers = below is not None and below.line.startswith(_DRIVERS)
        unread = [_unread(self._in_source(below, block))] if below else []
        return Reading(
            source=self.source,
            tool=block.tool,
            tool_version=parsed.tool_version,
            parameters=dict(parsed.parameters),
            figures=parsed.metrics(),
            checks={**parsed.checks, **(log.checks if log else {})},
            warnings=[
                *parsed.warnings,
                *(log.warnings if log else []),
                *([] if is_drivers else unread),
            ],
            unverified=[*unverified(parsed), *(unread if is_drivers else [])],
            resources=_resources(parsed),
            hosts=list(dict.fromkeys(getattr(parsed, "hosts", ()))),
            reasons={**getattr(parsed, "reasons", {}), **(log.reasons if log else {})},
            not_judged=dict(getattr(parsed, "not_judged", {})),
            removed=self.removed,
            first_line=block.first_line,
        )

    def _in_source(self, error: ParseError, block: Block) -> ParseError:
        """The error of a run with the line's number in the source."""
        above = block.first_line - 1
        return error.below(above + self.gaps.above(above + (error.line_number or 0)))


def _parsed(block: Block) -> tuple[Parsed, ParseError | None]:
    """The parser's result of a run; text below its end may be another program's, and the error
    says what of it could not be read."""
    module = part(block.tool, "output")
    parse = cast("Callable[[str], Parsed]", getattr(module, f"parse_{block.tool}"))
    try:
        return parse(block.text), None
    except ParseError as error:
        if block.ended == block.text:
            raise
        below = error
    return parse(block.ended), below


def _unread(error: ParseError) -> str:
    return f"what stands below the results was not read: {error}"


def _nccl_log(block: Block) -> NcclLogOutput | None:
    """NCCL's log between the lines of a tool that does not read it itself."""
    if block.tool.startswith("nccl") or not tools()["nccl_log"].recognises(block.text):
        return None
    return cast("NcclLogOutput", part("nccl_log", "output").parse_nccl_log(block.text))


def _resources(parsed: Parsed) -> dict[str, int]:
    """The resources of the case by its output; a single process runs on one node."""
    counts = {
        name: count
        for name, member in _RESOURCES.items()
        if isinstance(count := getattr(parsed, member, None), int)
    }
    return {**({"nodes": 1} if counts.get("ranks") == 1 else {}), **counts}


def nodes_of(label: str, count: int | None, names: Sequence[str] = ()) -> list[str]:
    """The names of the nodes that a log is of: those given, else the log's label, numbered where
    there are several. Where their number is unknown, one name stands for all.

    Raises:
        BadInput: as many as that were not given, or one twice.
    """
    if names:
        if len(set(names)) != len(names) or len(names) != count:
            raise BadInput(f"--node names {len(set(names))} different nodes, and there are {count}")
        return list(names)
    if count in {None, 1}:
        return [label]
    return [f"{label}-{number}" for number in range(1, (count or 0) + 1)]


def slug(source: str) -> str:
    """A file's name without folders, in characters that names of nodes and cases may have."""
    name = source.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "log"


class Output(NamedTuple):
    """A tool's output as it was read, and its text: of several runs in a file the run's own, below
    the lines above the first one."""

    reading: Reading
    text: str


def file_reading(name: str) -> Reading:
    """The one run of a tool's output, from a file or, for "-", from standard input.

    Raises:
        BadInput: it cannot be read, or holds several runs.
    """
    text, source, gaps = _decoded(name, None)
    return read(text, source=source, gaps=gaps)


def _decoded(name: str, tool: str | None) -> tuple[str, str, Gaps]:
    """A file's text, its name, and where lines of it are left out."""
    source = STANDARD_INPUT if name == "-" else name
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as stream:
            text, gaps = decoded(stream, source, marks(tool), logs())
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


def outputs_of(files: Sequence[str], tool: str | None) -> tuple[list[Output], list[str]]:
    """The runs in some files that can be read, and a sentence on each of the others.

    Raises:
        BadInput: the tool has no parser.
    """
    _refuse_tool(tool)
    runs = [_runs_or_reason(name, tool) for name in files]
    outputs = [output for of_file, _ in runs for output in of_file]
    return outputs, [reason for _, reasons in runs for reason in reasons]


def _refuse_tool(tool: str | None) -> None:
    """
    Raises:
        BadInput: there is no parser of that name.
    """
    if tool is not None and tool not in (names := list(tools())):
        hint = did_you_mean(tool, names) or f"; there are {', '.join(names)}"
        raise BadInput(f"no parser for {tool!r}{hint}")


def _runs_or_reason(name: str, tool: str | None) -> tuple[list[Output], list[str]]:
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
        other = file_reading(name).tool
    except BadInput:
        return None
    return f"{name}: not {tool} output; it is {other} output, which is read without --benchmark"
