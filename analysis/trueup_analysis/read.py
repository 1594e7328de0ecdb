"""``trueup read``: a tool's own output through the parser that also reads it on the nodes."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from trueup_node.cases import Case
from trueup_node.errors import BadInput, ParseError, TrueupError
from trueup_node.reading import unverified

from . import rooms
from .decoding import Gaps, held
from .front import Block, Clean, cleaned, cut, json_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trueup_node.benchmarks import Parsed
    from trueup_node.cases import Figure
    from trueup_node.reading import Signature

    from .parsers.nccl_log.output import NcclLogOutput

# Known tools without a parser, by a pattern that only their output matches.
OTHERS: Final = {
    "iperf3": re.compile(
        r"(?m)^iperf Done\.|^\[ {0,3}(?:\d+|SUM)\](?:\[[RT]X-[CS]\])? +[\d.]+-[\d.]+ +sec +[\d.]+ "
        r"\w?Bytes"
        r'|"version":\s{0,8}"iperf 3'
    ),
    "GuideLLM's console (its benchmarks.json is read)": re.compile(
        r"Server Throughput Statistics \(All Requests\)|Request Latency Statistics \(Completed"
    ),
    "SGLang's bench_one_batch": re.compile(r"(?m)^Decode\.  median latency: [\d.]+ s, median"),
    "AIPerf's list of single requests": re.compile(r'"x_request_id":.*"benchmark_phase":'),
    "Hugging Face's Trainer": re.compile(r"\{'(?:loss|train_runtime)': '?\d[^\n]{0,300}'epoch': "),
    "Intel's Memory Latency Checker": re.compile(r"Intel\(R\) Memory Latency Checker - v\d"),
    "NAS Parallel Benchmarks": re.compile(r"NAS Parallel Benchmarks? .{0,40}- +\w\w Benchmark"),
    "NAMD": re.compile(r"(?m)^Info: Benchmark time: \d+ CPUs"),
    "LAMMPS": re.compile(r"(?m)^Loop time of [\d.]+ on \d+ procs for \d+ steps"),
    "WRF": re.compile(r"(?m)^Timing for main: time \d{4}-\d\d-\d\d_"),
    "Quantum ESPRESSO": re.compile(r"(?m)^[ \t]*Program PWSCF v\.\d"),
    "llama-bench": re.compile(r"(?m)^\| *model +\| +size +\| +params +\| +backend +\|"),
    "ucx_perftest": re.compile(r"\|    Stage     \| # iterations \|"),
    "elbencho": re.compile(r"(?m)^OPERATION +RESULT TYPE +"),
    "stress-ng": re.compile(r"(?m)^stress-ng: \w+: +\["),
    "rocm-bandwidth-test": re.compile(r"RocmBandwidthTest Version: \d"),
    "an MLPerf training log": re.compile(r":::MLLOG \{"),
    "NVIDIA's kernel messages": re.compile(r"NVRM: "),
    "nvidia-smi": re.compile(r"(?m)^GPU \d+: .*\(UUID: GPU-|^\| NVIDIA-SMI \d"),
}
STANDARD_INPUT: Final = "standard input"
# Resources, and their names in a parser's result.
_RESOURCES: Final = {
    "nodes": "node_count",
    "ranks": "ranks",
    "threads": "threads",
    "gpus": "gpu_count",
}
_NO_LETTERS: Final = bytes({*range(256)} - {*b"\n", *string.ascii_letters.encode()})
# Characters that are looked at together; letters of lines that are worth splitting, and how many of
# these are remembered.
_PIECE: Final = 1 << 18
_LONG: Final = 32
_MOST_SEEN: Final = 10_000


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


def tools() -> dict[str, Signature]:
    """The signatures by tool name (``signatures.py``); a parser is imported to parse."""
    return {name: rooms.part(name, "signatures").SIGNATURE for name in rooms.names()}


def marks(tool: str | None = None) -> list[str]:
    """The marks of one tool, or of all: a text is searched for them before any parser sees it."""
    by_tool = tools()
    signatures = [by_tool[tool]] if tool in by_tool else by_tool.values()
    return [mark for signature in signatures for mark in signature.marks]


def logs() -> list[tuple[str, str, str]]:
    """The logs that tools write between their own lines (``Signature.log``)."""
    return [signature.log for signature in tools().values() if signature.log]


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
    by_tool = tools()
    if not text or text.isspace():
        raise BadInput(f"{source} is empty")
    if tool is not None and tool not in by_tool:
        raise BadInput(f"no parser for {tool!r}; there are {', '.join(by_tool)}")
    clean = cleaned(text)
    return clean, [tool] if tool else _claims(clean.text, source)


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
            parsed = _parsed(block)
        except ParseError as error:
            above = block.first_line - 1
            lacking = above + self.gaps.above(above + (error.line_number or 0))
            raise BadInput(f"{self.source}: {error.below(lacking)}") from error
        except TrueupError as error:
            raise BadInput(f"{self.source}: {error}") from error
        log = _nccl_log(block)
        return Reading(
            source=self.source,
            tool=block.tool,
            tool_version=parsed.tool_version,
            parameters=dict(parsed.parameters),
            figures=parsed.metrics(),
            checks={**parsed.checks, **(log.checks if log else {})},
            warnings=[*parsed.warnings, *(log.warnings if log else [])],
            unverified=unverified(parsed),
            resources=_resources(parsed),
            hosts=list(dict.fromkeys(getattr(parsed, "hosts", ()))),
            reasons={**getattr(parsed, "reasons", {}), **(log.reasons if log else {})},
            not_judged=dict(getattr(parsed, "not_judged", {})),
            removed=self.removed,
            first_line=block.first_line,
        )


def _parsed(block: Block) -> Parsed:
    """The parser's result of a run; text below its end may be another program's."""
    module = rooms.part(block.tool, "output")
    parse = cast("Callable[[str], Parsed]", getattr(module, f"parse_{block.tool}"))
    try:
        return parse(block.text)
    except ParseError:
        if block.ended == block.text:
            raise
    return parse(block.ended)


def _nccl_log(block: Block) -> NcclLogOutput | None:
    """NCCL's log between the lines of a tool that does not read it itself."""
    if block.tool.startswith("nccl") or not tools()["nccl_log"].recognises(block.text):
        return None
    return cast("NcclLogOutput", rooms.part("nccl_log", "output").parse_nccl_log(block.text))


def _resources(parsed: Parsed) -> dict[str, int]:
    """The resources of the case by its output; a single process runs on one node."""
    counts = {
        name: count
        for name, member in _RESOURCES.items()
        if isinstance(count := getattr(parsed, member, None), int)
    }
    return {**({"nodes": 1} if counts.get("ranks") == 1 else {}), **counts}


def _marks_in(text: str) -> set[str]:
    """The marks that stand in a text. They are looked for in its letters, and in those of long
    lines with the same ones once: in most long outputs these are a small part."""
    searched = {mark: _letters(mark) for mark in marks()}
    beyond = max(map(len, searched))
    seen_lines: set[bytes] = set()
    fresh: list[bytes] = []
    for begin in range(0, len(text), _PIECE):
        # A mark may begin in this piece and end in the next.
        piece = _letters(text[begin : begin + _PIECE + beyond])
        lines = {piece}
        if len(piece) > _LONG * piece.count(b"\n"):
            lines = {*piece.split(b"\n")} - seen_lines
            seen_lines |= lines if len(seen_lines) < _MOST_SEEN else set()
        fresh += lines
    held_letters = held(searched.values(), b"\n".join(fresh))
    return held((mark for mark, letters in searched.items() if letters in held_letters), text)


def _letters(text: str) -> bytes:
    return text.encode("ascii", "replace").translate(None, _NO_LETTERS)


def _claims(text: str, source: str) -> list[str]:
    """The tools that may have written a text.

    Raises:
        BadInput: there is none.
    """
    by_tool = tools()
    text_marks = _marks_in(text)
    claims = [
        name
        for name, signature in by_tool.items()
        if not text_marks.isdisjoint(signature.marks) and signature.recognises(text)
    ]
    alone = [name for name in claims if not by_tool[name].is_beside]
    if not claims:
        other = next((name for name, mark in OTHERS.items() if mark.search(text)), None)
        reason = f"no known tool's output; say which with --benchmark ({', '.join(by_tool)})"
        raise BadInput(
            f"{source}: {reason if other is None else f'output of {other}: there is no parser'}"
        )
    return alone or claims


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
