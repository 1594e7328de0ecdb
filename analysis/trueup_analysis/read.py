"""``trueup read``: a tool's own output through the parser that also reads it on the nodes."""

from __future__ import annotations

import importlib
import pkgutil
import re
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from trueup import benchmarks
from trueup.errors import BadInput, ParseError, TrueupError
from trueup.reading import unverified

from .decoding import held

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from trueup.benchmarks import Parsed

    from .decoding import Gaps

# Known tools without a parser, by a pattern that only their output matches.
OTHERS: Final = {
    "BabelStream": re.compile(r"(?m)^BabelStream$|^Function +MBytes/sec +Min \(sec\)"),
    "superbench": re.compile(r'/return_code(?::\d+)?"\s*:|"reduce_op"\s*:'),
    "OSU micro-benchmarks": re.compile(r"(?m)^# OSU "),
    "IOR": re.compile(r"(?m)^IOR-\d\S*: MPI Coordinated Test of Parallel I/O"),
    "HPCG": re.compile(r"(?m)^HPCG-Benchmark"),
    "iperf3": re.compile(r"(?m)^iperf Done\."),
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
    """

    source: str
    tool: str
    tool_version: str | None
    parameters: dict[str, str]
    rows: list[dict[str, Any]]
    checks: dict[str, bool]
    warnings: list[str]
    unverified: list[str]
    resources: dict[str, int]
    hosts: list[str]
    reasons: dict[str, str]

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


def tools() -> dict[str, ModuleType]:
    """The signatures by tool name (``signatures.py``); a parser is imported to parse."""
    rooms = sorted(info.name for info in pkgutil.iter_modules(benchmarks.__path__))
    return {
        name: importlib.import_module(f"{benchmarks.__name__}.{name}.signatures") for name in rooms
    }


def marks(tool: str | None = None) -> list[str]:
    """The marks of one tool, or of all: a text is searched for them before any parser sees it."""
    by_tool = tools()
    rooms = [by_tool[tool]] if tool in by_tool else by_tool.values()
    return [mark for room in rooms for mark in room.MARKS]


def logs() -> list[tuple[str, str, str]]:
    """The logs that tools write between their own lines (LOG of their rooms): a string that stands
    in each line; the pattern of all before it, with the host, and of the text to read behind it."""
    return [room.LOG for room in tools().values() if hasattr(room, "LOG")]


def read(text: str, *, source: str, tool: str | None = None, gaps: Gaps | None = None) -> Reading:
    """Parse one text.

    Args:
        gaps: where lines of the output are left out of the text.
        source: the name of the text in messages.
        tool: which tool wrote it; found out when None.

    Raises:
        BadInput: no parser of that name, none or several recognise the text, or it cannot be
            understood (the message holds the line).
    """
    by_tool = tools()
    if not text or text.isspace():
        raise BadInput(f"{source} is empty")
    if tool is None:
        tool = _told(text, source)
    if tool not in by_tool:
        raise BadInput(f"no parser for {tool!r}; there are {', '.join(by_tool)}")
    module = importlib.import_module(f"{benchmarks.__name__}.{tool}.output")
    parse = cast("Callable[[str], Parsed]", getattr(module, f"parse_{tool}"))
    try:
        parsed = parse(text)
    except ParseError as error:
        lacking = 0 if gaps is None else gaps.above(error.line_number or 0)
        raise BadInput(f"{source}: {error.below(lacking)}") from error
    except TrueupError as error:
        raise BadInput(f"{source}: {error}") from error
    return Reading(
        source=source,
        tool=tool,
        tool_version=parsed.tool_version,
        parameters=dict(parsed.parameters),
        rows=[metric.as_row() for metric in parsed.metrics()],
        checks=dict(parsed.checks),
        warnings=list(parsed.warnings),
        unverified=unverified(parsed),
        resources=_resources(parsed),
        hosts=list(dict.fromkeys(getattr(parsed, "hosts", ()))),
        reasons=dict(getattr(parsed, "reasons", {})),
    )


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


def _told(text: str, source: str) -> str:
    """Which tool wrote a text.

    Raises:
        BadInput: none of ours, or several may have.
    """
    by_tool = tools()
    text_marks = _marks_in(text)
    claims = [
        name
        for name, module in by_tool.items()
        if not text_marks.isdisjoint(module.MARKS) and module.recognises(text)
    ]
    if len(claims) > 1:
        raise BadInput(
            f"{source}: several tools claim it: {', '.join(claims)}; say which with --benchmark"
        )
    if not claims:
        other = next((name for name, mark in OTHERS.items() if mark.search(text)), None)
        reason = f"no known tool's output; say which with --benchmark ({', '.join(by_tool)})"
        raise BadInput(
            f"{source}: {reason if other is None else f'output of {other}: there is no parser'}"
        )
    return claims[0]


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
