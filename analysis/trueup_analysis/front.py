"""The front stage of ``trueup read``: a text as people paste it, to clean blocks of tools' lines,
and the tools that may have written it.

The stages stand in this order: Markdown quotes and fences; HTML's entities; JSON strings; labels of
launchers, log collectors and loggers (timestamps, levels, syslog, pods, ``0:``,
``[1,0]<stdout>:``), one within another; prompts and traced commands; indentation; Megatron's long
lines that a terminal has wrapped. A line that is not the tool's is left empty, so that a parser's
line numbers are those of the text; only the lines of one JSON string take the place of its line.
Each stage counts its lines.

A label that a tool's own lines could begin with is removed only from several neighbouring lines.
"""

from __future__ import annotations

import html
import json
import operator
import re
import string
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

from trueup_node.errors import BadInput

from .decoding import held
from .rooms import marks, tools

_FENCE: Final = re.compile(r"[ \t>]*(?:```|~~~)[\w+.{} -]*")
_QUOTE: Final = re.compile(r"(?:> ?)+(?! ?>)")
_CLOCK: Final = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ISO: Final = rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?"
_DAY: Final = r"[A-Z][a-z]{2} [ \d]\d"
_UNIX: Final = rf"(?:{_ISO}|{_DAY} {_CLOCK})"
_CTIME: Final = rf"[A-Z][a-z]{{2}} {_DAY} {_CLOCK}(?: [A-Z]{{3,4}})? \d{{4}}"
# Worse levels stay in the text.
_LEVEL: Final = r"(?:TRACE|DEBUG|INFO|NOTICE)\b"
# Labels that no tool's own line begins with.
_SURE: Final = re.compile(
    r"(?:"
    rf"[^\t\n]{{1,80}}\t[^\t\n]{{1,80}}\t\ufeff?{_ISO}(?: |$)"  # gh run view --log
    rf"|{_ISO} \d\d[OE][ +]"  # GitLab
    rf"|(?:<\d{{1,3}}>)?{_UNIX} [\w.-]+ (?:[\w./@-]+\[\d+\]|kernel): ?"  # syslog, journalctl
    # kubectl --timestamps, containerd's files; a logger's time goes with its level
    rf"|{_ISO}(?! *(?:[|-] +)?(?:[\w.:/-]+ +(?:L\d+ +|[|-] +)?)?\[?{_LEVEL})"
    r"(?: (?:stdout|stderr) [FP])?(?: |$)"
    # mpirun --tag-output, --timestamp-output
    rf"|[ \t]*(?:{_CTIME})?\[(?:[^\]\s]*@)?\d+,\d+\]<(?:stdout|stderr|stddiag)>:"
    r"|\[pod/[^\]\s]+\] "  # kubectl --prefix
    r"|\[default\d+\]:|\[rank\d+\]: "  # torchrun
    r"|\(\w+(?: \w+)? pid=\d+(?:, ip=[\d.]+)?\) ?"  # Ray
    r")"
)
# Labels that tools' own lines may have too: they count where neighbours have the same kind.
_MAYBE: Final = (
    re.compile(r" *\d{1,6}: "),  # srun --label
    re.compile(r"[A-Za-z][\w.-]* *\| ?"),  # docker compose
    # pdsh, clush; a level of a log is no host, nor is a job of fio
    re.compile(
        r"(?![A-Z]+: )[A-Za-z][\w.-]*: (?!Laying out IO file|\(g(?:roupid)?=\d)",
    ),
    re.compile(r"[a-z0-9](?:[\w.]*-)+[\w.]+ [\w.-]+ "),  # stern: a pod and its container
    re.compile(r"\[(?:[\w.-]*\d|stdout|stderr)\] "),  # Intel MPI's -l, PyTorch jobs, avocado
)
_TIME: Final = (
    rf"(?:{_CTIME}|(?:(?:\d{{4}}[-/])?\d\d[-/]\d\d[T ]|{_DAY} )?{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?)"
)
# A logger's label: a time; or a level with the time, names and places in the code beside it.
_STAMP: Final = rf"(?:\[{_TIME}[^\]\[\n]{{0,60}}\]|{_TIME})"
_PLACE: Final = r"(?:\[[^\]\[\s]{1,60}\]|[\w./-]+:\d+\])"
_LOGGER: Final = re.compile(
    # What separates the time from the level separates the level from the line. NCCL's own lines
    # have a level in their middle.
    rf"(?:{_STAMP}(?=( +[|-] )?)(?: *{_PLACE}|[ |,-]+(?!NCCL )\w[\w.<>:/-]{{0,60}}){{0,2}}[ |,-]*)?"
    rf"(?:\[{_LEVEL}\]|{_LEVEL})"
    rf"(?::[\w.]+:|(?: *{_TIME}| *{_PLACE})*"
    r"(?(1)(?: *[|-] +\w[\w.<>:/-]{0,60}(?= +[|-] ))* *[|-]|[:|]?)(?: |$))"
    rf"|(?:{_STAMP}|[IWEF]\d{{4}} {_CLOCK} +\d+)(?: *{_PLACE})*:?(?: |$)"
)
# What a web page writes for characters of its markup; others are a URL's parameters.
_ENTITY: Final = re.compile(r"&(?:lt|gt|amp|quot|apos|#39|#x27);")
# Where a JSON object has its text: Ansible's result, docker, log collectors, journalctl.
_TEXT_KEYS: Final = ("stdout", "log", "message", "msg", "MESSAGE", "textPayload")
# What Ansible prints before a list of lines.
_LIST_BEGIN: Final = re.compile(r'"[^"\n]*(?:_lines|msg)": \[\s*$')
_NEIGHBOURS: Final = 4
# What a shell prints before a command, which stays: it may say which program ran. GROMACS has a
# title between plus signs.
_PROMPT: Final = re.compile(
    r"[ \t]*(?:\([\w.-]+\) ?)*(?:\[?[\w.-]+@[\w.-]+[: ][^\n$#%>]{0,80}[$#%>]|\$)(?: |$)"
    r"|\+{1,4} (?=\S)(?!.* \+{1,4}$)"
)
# What people point at a line with.
_ARROW: Final = re.compile(r"(?<=\S)[ \t]+(?:<[-=]{2,}|\u2190).*")
# A line of Megatron, which ends in "|".
_ITERATION: Final = re.compile(r"\biteration +\d{1,12}/ *\d{1,12} \|")
_MOST_WRAPPED: Final = 8
_MARGIN: Final = re.compile(r"(?: {4}|\t)[ \t]*")
# A line of a YAML document, whose indentation says what belongs together.
_YAML: Final = re.compile(r"""[ \t]*(?:#|- |["']?[\w./-]+["']?:(?: |$))""")
_MOSTLY: Final = 0.9
# Characters of a long text that show which labels it has.
_SAMPLE: Final = 1 << 20
_OBJECT: Final = re.compile(r"^[ \t]*\{", re.MULTILINE)
# Places that look like objects and are none: each may be read to the end.
_MOST_FAILED: Final = 100


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
_NO_LETTERS: Final = bytes({*range(256)} - {*b"\n", *string.ascii_letters.encode()})
# Characters that are looked at together; letters of lines that are worth splitting, and how many of
# these are remembered.
_PIECE: Final = 1 << 18
_LONG: Final = 32
_MOST_SEEN: Final = 10_000


class Clean(NamedTuple):
    """A text without the marks of those who handed it on.

    Attributes:
        text: with as many lines as before, and those that stood in one JSON string.
        removed: by kind, how many lines it was removed from.
    """

    text: str
    removed: Mapping[str, int]


def cleaned(text: str) -> Clean:
    """A text after all stages."""
    if len(text) > _SAMPLE and not cleaned(text[:_SAMPLE]).removed:
        return Clean(text, {})
    lines = text.replace("\u00a0", " ").replace("\u200b", "").split("\n")
    removed: dict[str, int] = {}
    for name, stage in _STAGES.items():
        lines, count = stage(lines)
        if count:
            removed[name] = count
    return Clean("\n".join(lines), removed)


class Block(NamedTuple):
    """The lines of one run of one tool.

    Attributes:
        text: up to the next run's beginning, or to the end.
        ended: up to the last line that ends the run.
        first_line: its place in the whole text.
    """

    tool: str
    text: str
    ended: str
    first_line: int


def cut(text: str, runs: Mapping[str, tuple[str, str]]) -> list[Block]:
    """The runs of tools in a text.

    Args:
        runs: by tool, a pattern of the lines that begin a run, and of the lines that end it. Of a
            beginning of several lines each is a group of the pattern.
    """
    begins = {tool: re.compile(begin) for tool, (begin, _) in runs.items()}
    ends = {tool: re.compile(end) for tool, (_, end) in runs.items()}
    lines = text.split("\n")
    starts: list[tuple[str, int]] = []
    last: dict[int, int] = {}  # by a run's first line, the last line that ends it
    kinds: set[int | None] = set()
    for at, line in enumerate(lines):
        for tool, begin in begins.items():
            match = begin.match(line)
            if match and (not starts or starts[-1][0] != tool or match.lastindex in kinds):
                starts.append((tool, at))
                kinds = set()
            if match:
                kinds.add(match.lastindex)
            elif starts and starts[-1][0] == tool and ends[tool].match(line):
                kinds = {None, *range(1, begin.groups + 1)}
                last[starts[-1][1]] = at + 1
    bounds = [*(at for _, at in starts[1:]), *([len(lines)] if starts else [])]
    return [
        Block(tool, "\n".join(lines[at:end]), "\n".join(lines[at : last.get(at, end)]), at + 1)
        for (tool, at), end in zip(starts, bounds, strict=True)
    ]


def json_blocks(text: str, tool: str) -> list[Block]:
    """The JSON objects of a text that has other lines too."""
    blocks: list[Block] = []
    decoder = json.JSONDecoder()
    end = 0
    failed, counted, first_line = 0, 0, 1
    for match in _OBJECT.finditer(text):
        begin = match.end() - 1
        if begin < end:
            continue
        try:
            _, end = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            failed += 1
            if failed > _MOST_FAILED:
                break
            continue
        first_line += text.count("\n", counted, begin)
        counted = begin
        blocks.append(Block(tool, text[begin:end], text[begin:end], first_line))
    return blocks


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


def claims(text: str, source: str) -> list[str]:
    """The tools that may have written a text.

    Raises:
        BadInput: there is none.
    """
    by_tool = tools()
    text_marks = _marks_in(text)
    claiming = [
        name
        for name, signature in by_tool.items()
        if not text_marks.isdisjoint(signature.marks) and signature.recognises(text)
    ]
    alone = [name for name in claiming if not by_tool[name].is_beside]
    if not claiming:
        other = next((name for name, mark in OTHERS.items() if mark.search(text)), None)
        reason = f"no known tool's output; say which with --benchmark ({', '.join(by_tool)})"
        raise BadInput(
            f"{source}: {reason if other is None else f'output of {other}: there is no parser'}"
        )
    return alone or claiming


def _without_quotes(lines: list[str]) -> tuple[list[str], int]:
    fences = {at for at, line in enumerate(lines) if _is_fence(line)}
    lines = ["" if at in fences else line for at, line in enumerate(lines)]
    lines, count = _without_shared(lines, _QUOTE, lambda _: ">")
    return lines, count + len(fences)


def _is_fence(line: str) -> bool:
    return ("```" in line or "~~~" in line) and _FENCE.fullmatch(line.rstrip()) is not None


def _without_entities(lines: list[str]) -> tuple[list[str], int]:
    """With the characters that a web page writes as entities. Where quotes stand as they are, an
    entity of one is the tool's own, as in a JSON string."""
    if any("&quot;" in line for line in lines) and any('"' in line for line in lines):
        return lines, 0
    decoded = [
        _ENTITY.sub(lambda entity: html.unescape(entity[0]), line) if "&" in line else line
        for line in lines
    ]
    return decoded, sum(map(operator.ne, decoded, lines))


def _without_json(lines: list[str]) -> tuple[list[str], int]:
    """With the lines that stand in JSON strings: those of a task's list, the standard output in a
    task's result, and those that a log collector keeps as objects."""
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip()[:1] in {"{", "["} and _packed(first) is None:
        return lines, 0
    unpacked: list[str] = []
    is_list = False
    count = 0
    for line in lines:
        packed = _in_list(line) if is_list else _packed(line)
        if packed is None:
            is_list = _LIST_BEGIN.search(line) is not None
            unpacked.append(line)
        else:
            unpacked += packed.split("\n")
            count += 1
    return unpacked, count


def _in_list(line: str) -> str | None:
    text = line.strip().removesuffix(",")
    return _from_json(text) if text[:1] == text[-1:] == '"' else None


def _packed(line: str) -> str | None:
    """The text that a JSON object holds, which is the line or the result of a task."""
    text = line.strip().partition(" => ")[2] if " => {" in line else line.strip()
    if text[:1] + text[-1:] != "{}":
        return None
    fields = _from_json(text)
    if not isinstance(fields, dict):
        return None
    value = next((fields[key] for key in _TEXT_KEYS if key in fields), None)
    return value.removesuffix("\n") if isinstance(value, str) else None


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _without_labels(lines: list[str]) -> tuple[list[str], int]:
    """Without any label, however many stand one behind another."""
    total: set[int] = set()
    while True:
        before = lines
        lines = [_without_sure(line) for line in lines]
        for pattern in _MAYBE:
            lines, _ = _without_shared(lines, pattern, str.strip)
        lines, _ = _without_shared(lines, _LOGGER, _without_time)
        changed = {at for at, line in enumerate(lines) if line is not before[at]}
        if not changed:
            break
        total |= changed
    if all(lines[at].startswith(" ") for at in total if lines[at]):
        # Open MPI 5 ends its label with a space, Open MPI 4 has none.
        lines = [line[1:] if at in total else line for at, line in enumerate(lines)]
    return lines, len(total)


def _without_time(label: str) -> str:
    """What a logger's labels share while time passes."""
    return re.sub(r"[A-Z][a-z]{2}(?= )|\d+", "", label)


def _without_sure(line: str) -> str:
    match = _SURE.match(line)
    return line[match.end() :] if match else line


def _without_shared(
    lines: list[str], pattern: re.Pattern[str], kind_of: Callable[[str], str]
) -> tuple[list[str], int]:
    """Without a label where it stands on several neighbouring lines, and the names in it are far
    fewer than these."""
    matches = [pattern.match(line) for line in lines]
    if not any(matches):
        return lines, 0
    cleaned_lines = list(lines)
    count = 0
    filled = [at for at, line in enumerate(lines) if line.strip()]
    for labelled, group in groupby(filled, key=lambda at: matches[at] is not None):
        block = list(group)
        if not labelled or (len(block) < _NEIGHBOURS and not _is_object(lines, matches, filled)):
            continue
        ends = {at: match for at in block if (match := matches[at])}
        names = {kind_of(match[0]) for match in ends.values()}
        if len(names) > 1 and len(names) * _NEIGHBOURS > len(block):
            continue
        if not any(lines[at][match.end() :].strip() for at, match in ends.items()):
            continue  # Nothing stands behind it, such as nvbandwidth's "Waived: ".
        for at, match in ends.items():
            cleaned_lines[at] = lines[at][match.end() :]
        count += len(block)
    return cleaned_lines, count


def _is_object(lines: list[str], matches: list[re.Match[str] | None], filled: list[int]) -> bool:
    """Whether a few labelled lines are the whole text, and a JSON object."""
    rest = [lines[at][match.end() :] for at in filled if (match := matches[at])]
    return len(rest) == len(filled) and rest[0].startswith("{")


def _without_prompts(lines: list[str]) -> tuple[list[str], int]:
    cleaned_lines = [
        _PROMPT.sub("", line, count=1) if _PROMPT.match(line) else line for line in lines
    ]
    return cleaned_lines, sum(map(operator.is_not, cleaned_lines, lines))


def _without_arrows(lines: list[str]) -> tuple[list[str], int]:
    cleaned_lines = [
        _ARROW.sub("", line) if "<" in line or "\u2190" in line else line for line in lines
    ]
    return cleaned_lines, sum(map(operator.ne, cleaned_lines, lines))


def _without_margin(lines: list[str]) -> tuple[list[str], int]:
    """Without the common margin of the text, or of its longest run that is indented by four, where
    it is most of the text; a YAML document keeps it."""
    filled = [at for at, line in enumerate(lines) if line.strip()]
    if sum(bool(_YAML.match(lines[at])) for at in filled) >= _MOSTLY * len(filled):
        return lines, 0
    # Megatron's own lines begin with one blank.
    is_block = all(lines[at].startswith(("  ", "\t")) for at in filled)
    runs = [
        list(group)
        for is_indented, group in groupby(filled, lambda at: bool(_MARGIN.match(lines[at])))
        if is_indented
    ]
    longest = filled if is_block else max(runs, key=len, default=[])
    if len(longest) * 2 <= len(filled):
        return lines, 0
    margin = min((_margin(lines[at]) for at in longest), key=len)
    dedented = list(lines)
    for at in longest:
        dedented[at] = lines[at].removeprefix(margin)
    return dedented, len(longest)


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _without_wrapping(lines: list[str]) -> tuple[list[str], int]:
    """With the lines of an iteration put together again that a terminal has wrapped."""
    joined = list(lines)
    count = 0
    for at, line in enumerate(lines):
        if not _ITERATION.search(line) or line.rstrip().endswith("|"):
            continue
        rest = lines[at + 1 : at + _MOST_WRAPPED]
        end = next((n for n, text in enumerate(rest, 1) if text.rstrip().endswith("|")), 0)
        parts = rest[:end]
        if parts and all(part.strip() and not _ITERATION.search(part) for part in parts):
            joined[at] = "".join((line, *parts))
            joined[at + 1 : at + 1 + end] = [""] * end
            count += end
    return joined, count


_STAGES: Final[dict[str, Callable[[list[str]], tuple[list[str], int]]]] = {
    "Markdown": _without_quotes,
    "HTML": _without_entities,
    "JSON": _without_json,
    "labels": _without_labels,
    "prompts": _without_prompts,
    "arrows": _without_arrows,
    "indentation": _without_margin,
    "wrapping": _without_wrapping,
}
