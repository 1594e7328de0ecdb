"""Outputs of real tools, damaged at random: a parser gives the right figures or ParseError.

Of damage to the structure alone (a line lost, a unit renamed, two ranks' lines mixed, ...) no
figure may come out that the whole output has not, unless the reading says so: unverified, with a
warning that the whole one has not, or with a failed check. Of any damage (bytes flipped, digits
changed), which may make another figure that nothing in the output contradicts, only finite figures
that are not below zero.
"""

from __future__ import annotations

import importlib
import math
import random
import re
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from trueup_analysis import rooms
from trueup_node.errors import ParseError

from torture import Tally

DATA = Path(__file__).parents[1] / "data"
TOOLS = rooms.names()
# Names of files in tests/data that are no output of the tool.
NO_OUTPUT = (".md", ".py")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]\d+)?(?![\w.])")
_WORD = re.compile(r"[^\W\d_]{2,}")
_CELL = re.compile(r"\S+")
_UNIT = re.compile(
    r"\b(?:[KMGT]i?[Bb](?:ytes|its?)?(?:/s(?:ec)?|ps)?|[mun]?sec(?:onds)?|[mun]s|[KMGT]FLOPS?(?:/s)?"
    r"|[KMGT]flops|ns/day|ms|us|bytes?|W|MHz)\b"
)
_UNITS = (
    *("GB/s", "MB/s", "MiB/s", "GiB/s", "Gb/s", "KB/s", "usec", "msec", "sec", "us", "ms", "s"),
    *("MiB", "GiB", "MB", "KiB", "TFLOPS", "GFLOPS", "Gflops", "Tflops", "bytes"),
)
_MOST = 1e300
_PARTS = 4  # of a figure's key: name, message size, device, statistic
_EXPONENT = re.compile(r"\d[eE][+-]?\d+")
_SEPARATORS = re.compile(r"[,;:|=\t]| {2,}|(?<=\d)\.(?=\d)")
_HUGE = (
    "9" * 400,
    "9" * 99,
    "1e200",
    "1e308",
    "1e999",
    "9" * 5000,
    "Infinity",
    *('"1"', "null", "true", "[]", "{}"),
    "NaN",
    "-nan",
    "1e-999",
    "-0.0",
)
_ODD = (
    "\0",
    "\r",
    "²",
    "٣",
    "\x0c",
    "\x1c",
    "\u2028",
    "\ufeff",
    "\u0661",
    "\uff11",
    "\x85",
    "\x1b[0m",
)

# Printed with three digits, and computed from six where that line is lost.
_DIGITS = {"energy_drift": 0.0051}
# Of a recording, what no line of it contradicts: kinds of damage, and figures.
_LINES = ("line lost", "lines lost", "lines swapped", "line moved", "middle lost", "line doubled")
UNSEEN = {
    # The table does not count its tests; a text of DCGM 4 belongs to the GPU that it stands under.
    "dcgm/dcgm3_table": (_LINES, "dcgm_.*"),
    "dcgm/dcgm4_table": ((*_LINES, "mixed inside a line"), "dcgm_tests_failed"),
    "dcgm/dcgm4_level2": (("lines swapped", "line moved"), "dcgm_(?!tests_failed).*"),
    # A line of a GPU holds one rate, and nothing else says it.
    "dcgm/proftester": (
        (
            *(*_LINES, "exponent", "mixed inside a line", "cut, then whole", "word renamed"),
            *("column dropped", "odd character", "ranks mixed"),
        ),
        "dcgm_.*",
    ),
    # How many tests there are is said nowhere else.
    "dcgm/dcgm3_level2_4gpu_fails.json": (
        (*_LINES, "middle lost", "mixed inside a line"),
        "dcgm_tests_failed",
    ),
    # A number that is cut between its digits is a number.
    "azcopy": (("odd character",), "cop(?:y|ied)_.*"),
    "serving/synthetic_sglang_table": (
        ("odd character", "mixed inside a line", "middle lost"),
        ".*",
    ),
    # A percentile may be any figure between its neighbours.
    "serving/synthetic_vllm_latency": (("middle lost", "mixed inside a line"), "e2el"),
    # A count that is not there is no failure.
    "serving/synthetic_llmd_v02": (("mixed inside a line", "word renamed", "odd character"), ".*"),
    # Rows of two directions differ in the figure alone.
    "gpu_copy/bandwidthtest": (_LINES, ".*_bandwidth"),
    "gpu_copy/nvbandwidth_0.8.json": (_LINES, ".*_bandwidth"),
    # Both ends print the same table: its row may be the other end's.
    "ib/send_lat_loopback": (_LINES, "ib_send_latency"),
    "ib/send_lat_two_ends": (_LINES, "ib_send_latency"),
    # Without the first start it is the log of the second.
    # Without both starts nothing says that it has warm-up.
    "megatron/synthetic_megatron_lm_restarted": (
        _LINES,
        ".*_clocked|step_time|sample_throughput|train_flops_printed",
    ),
    # How many samples of the GPU there are is said nowhere else.
    "nv_a10": ((*_LINES, "cut"), "encoder_latency"),
    # How many reports there are is said nowhere else.
    "gpu_burn": ((*_LINES, "cut", "mixed inside a line"), "burn_rate"),
    # A name may be any, and how many there are is said nowhere else.
    "superbench": (
        (*_LINES, "mixed inside a line", "word renamed", "odd character", "sign", "separator"),
        "sb_.*|superbench_.*",
    ),
    # A row says nothing of its neighbours: the name of one and the figures of another are a row.
    "mdtest": ((*_LINES, "mixed inside a line", "cut"), "mdtest_.*"),
    "babelstream": (("middle lost", "mixed inside a line"), "babel_.*"),
    # The sixth digit is below the rounding of the figures that it is compared with.
    "hpcg": (("odd character",), "hpcg_.*"),
    # Of six digits those behind a cut may have been zeros.
    "babelstream/omp_5.0.csv": (("cut", "odd character"), "babel_.*"),
    # Its times have two digits.
    "babelstream/synthetic_cuda": (("unit renamed",), "babel_.*"),
    # Nothing says how many repetitions there are.
    "ior/ior_4.0.0.csv": (("lines lost", "cut", "middle lost", "line ends"), "ior_.*"),
    # How many verdicts there are is said nowhere else.
    "aznhc": ((*_LINES, "cut", "mixed inside a line"), "nhc_.*"),
    # How many warnings there are is said nowhere else.
    "nccl_log": (
        (*_LINES, "cut", "middle lost", "mixed inside a line", "column dropped", "word renamed"),
        "nccl_warnings",
    ),
    # YAML 1.1 reads 20:1 as 1201, to the base of 60; its unit is the only word on it.
    "serving/synthetic_llmd_v01_yaml": (("separator", "unit renamed"), ".*"),
    "serving/synthetic_sglang_offline": (("middle lost",), ".*_throughput"),
    # Two rows differ in the figure alone.
    "gpu_copy/p2p_test": (_LINES, ".*_bandwidth"),
    # Lines of two ranks within each other may make a row of another size.
    "nccl/sendrecv_h100_real": (("mixed inside a line",), "busbw"),
    # A figure may have any digits, and nothing else says it.
    "training": (("mixed inside a line",), ".*"),
    "training/synthetic_nemo": (
        ("odd character", "cut", "middle lost"),
        "step_time|sample_throughput|loss_.*",
    ),
    # A row says nothing of its neighbours; a joined one may end where they do.
    "osu": (("middle lost", "cut", "mixed inside a line"), "mpi_.*"),
    # Names and figures stand in lines of their own.
    "serving/aiperf_0.13.0.json": (_LINES, ".*"),
    "serving/synthetic_vllm_latency.json": (("middle lost",), "e2el"),
    # It has neither lengths nor a number of requests.
    "serving/synthetic_genai_perf": (("unit renamed",), "ttft|tpot|e2el"),
    # Labels and figures stand in lines of their own.
    "lscpu": ((*_LINES, "mixed inside a line"), "sockets"),
    # Between them a section of the table ends and another begins, of which nothing is left.
    "vllm/published_pr18566": (("middle lost", "lines lost"), "ttft|tpot|itl"),
    # An encoder's name may be any word.
    "nv_a10/ffmpeg51_uncoded": (
        ("word renamed", "mixed inside a line", "odd character", "middle lost"),
        "session_.*|frame_.*",
    ),
}


@dataclass(frozen=True)
class Recording:
    """A recorded output, its parser, and what that makes of it; ``right`` is None where it is
    refused."""

    name: str
    text: str
    parse: Callable[[str], Any]
    right: Reading | None
    lines: Sequence[str]

    @property
    def tool(self) -> str:
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Reading:
    """What a parser made of a text."""

    figures: dict[tuple[Any, ...], tuple[Any, ...]]
    said: frozenset[str]


def _figures(parsed: Any) -> Reading:
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for one in parsed.metrics():
        key: tuple[Any, ...] = (one.name, one.message_bytes, one.device, one.statistic)
        while key in rows:  # figures that nothing tells apart but their order
            key = (*key, "again")
        rows[key] = (one.value, one.unit, one.n)
    failed = [name for name, passed in parsed.checks.items() if not passed]
    said = [*parsed.warnings, *getattr(parsed, "unverified", ()), *failed]
    return Reading(rows, frozenset(said))


def _facts(parsed: Any) -> Reading:
    """Of a parser of the node's facts: sockets, or each GPU's memory; names are any text."""
    if isinstance(parsed, tuple):
        rows = [((gpu.pci,), gpu.memory_bytes) for gpu in parsed]
        if len({key for key, _ in rows}) != len(rows):
            raise AssertionError("a GPU stands twice")
    else:
        rows = [(("sockets",), parsed.sockets)]
    return Reading({key: (value,) for key, value in rows if value is not None}, frozenset())


def _of_tool(tool: str) -> Callable[[str], Any]:
    output, signatures = (rooms.part(tool, name) for name in ("output", "signatures"))
    parse, recognises = getattr(output, f"parse_{tool}"), signatures.SIGNATURE.recognises

    def read(text: str) -> Reading:
        recognises(text)
        return _figures(parse(text))

    return read


def _of_node(name: str) -> Callable[[str], Any]:
    parse = getattr(importlib.import_module(f"trueup_node.node.{name}"), f"parse_{name}")
    return lambda text: _facts(parse(text))


def recordings() -> list[Recording]:
    """All recorded outputs of all parsers."""
    found = [
        (f"{tool}/{path.name}", path, _of_tool(tool))
        for tool in TOOLS
        for path in sorted((DATA / tool).iterdir())
        if path.is_file() and path.suffix not in NO_OUTPUT
    ]
    for name, pattern in (("lscpu", "*/lscpu.json"), ("nvidia_smi", "*/nvidia-smi.csv")):
        found += [
            (f"{name}/{path.parent.name}", path, _of_node(name))
            for path in sorted((DATA / "machines").glob(pattern))
        ]
    made = []
    for name, path, read in found:
        text = path.read_text(encoding="utf-8")
        try:
            right = read(text)
        except ParseError:
            right = None
        made.append(Recording(name, text, read, right, text.splitlines(keepends=True)))
    return made


# ---- damage --------------------------------------------------------------------------------------
Damage = Callable[[Recording, random.Random], str]


def _in_line(pattern: re.Pattern[str], new: Callable[[str, random.Random], str]) -> Damage:
    """A match of the pattern, in a line that has one, replaced."""

    def damage(one: Recording, chance: random.Random) -> str:
        for _ in range(20):
            place = chance.randrange(len(one.lines))
            matches = list(pattern.finditer(one.lines[place]))
            if matches:
                match = chance.choice(matches)
                line = one.lines[place]
                put = f"{line[: match.start()]}{new(match[0], chance)}{line[match.end() :]}"
                return _put(one.lines, place, put)
        return one.text

    return damage


def _put(lines: Sequence[str], place: int, *new: str) -> str:
    return "".join([*lines[:place], *new, *lines[place + 1 :]])


def _cut(one: Recording, chance: random.Random) -> str:
    return one.text[: chance.randrange(len(one.text) + 1)]


def _lost(one: Recording, chance: random.Random) -> str:
    return _put(one.lines, chance.randrange(len(one.lines)))


def _several_lost(one: Recording, chance: random.Random) -> str:
    first, last = sorted(chance.randrange(len(one.lines)) for _ in range(2))
    return "".join([*one.lines[:first], *one.lines[last + 1 :]])


def _doubled(one: Recording, chance: random.Random) -> str:
    place = chance.randrange(len(one.lines))
    return _put(one.lines, place, one.lines[place], one.lines[place])


def _swapped(one: Recording, chance: random.Random) -> str:
    lines = list(one.lines)
    first, second = (chance.randrange(len(lines)) for _ in range(2))
    lines[first], lines[second] = lines[second], lines[first]
    return "".join(lines)


def _moved(one: Recording, chance: random.Random) -> str:
    lines = list(one.lines)
    line = lines.pop(chance.randrange(len(lines)))
    lines.insert(chance.randrange(len(lines) + 1), line)
    return "".join(lines)


def _joined(text: str, *places: int) -> bool:
    """Whether one of the places is inside a number: to lose or join its digits is to change them,
    and no damage to what stands around them."""
    parts = (text[max(place - 1, 0) : place + 1] for place in places)
    return any(re.fullmatch(r"[\d.]{2}", part) is not None for part in parts)


def _without_middle(one: Recording, chance: random.Random) -> str:
    first, last = sorted(chance.randrange(len(one.text) + 1) for _ in range(2))
    made = one.text[:first] + one.text[last:]
    inside = any(_joined(one.text, place) for place in (first, last))
    return one.text if inside or _joined(made, first) else made


def _mixed(one: Recording, chance: random.Random) -> str:
    ranks = [list(one.lines), list(one.lines)]
    mixed: list[str] = []
    while all(ranks):
        rank = chance.choice(ranks)
        count = chance.choice((1, 2, 5, 50))
        mixed += rank[:count]
        del rank[:count]
    return "".join([*mixed, *ranks[0], *ranks[1]])


def _mixed_in_lines(one: Recording, chance: random.Random) -> str:
    """A part of the output inside a line of it, as of two writers of one file."""
    first, second = (chance.randrange(len(one.text) + 1) for _ in range(2))
    part = one.text[second : second + chance.choice((1, 10, 80, 4096))]
    made = one.text[:first] + part + one.text[first:]
    return one.text if _joined(made, first, first + len(part)) else made


def _again(one: Recording, chance: random.Random) -> str:
    joint = chance.choice(("", "\n", "\r\n", "\0"))
    return one.text + joint + one.text


def _again_cut(one: Recording, chance: random.Random) -> str:
    place = chance.randrange(len(one.text) + 1)
    made = one.text[:place] + one.text
    return one.text if _joined(made, place) else made


def _odd(one: Recording, chance: random.Random) -> str:
    place = chance.randrange(len(one.text) + 1)
    return one.text[:place] + chance.choice(_ODD) + one.text[place:]


def _line_ends(one: Recording, chance: random.Random) -> str:
    return one.text.replace("\n", chance.choice(("\r\n", "\r", "\n\n", "\x0b", " ")))


def _renamed(word: str, chance: random.Random) -> str:
    place = chance.randrange(len(word))
    return word[:place] + chance.choice("abcdexyzABCDEXYZ_") + word[place + 1 :]


def _flipped(one: Recording, chance: random.Random) -> str:
    data = bytearray(one.text.encode())
    for _ in range(chance.choice((1, 1, 1, 2, 8, 64))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data.decode("utf-8", "replace")


def _random_bytes(one: Recording, chance: random.Random) -> str:
    data = bytearray(one.text.encode())
    place = chance.randrange(len(data) + 1)
    data[place : place + chance.randrange(1, 64)] = chance.randbytes(chance.randrange(1, 64))
    return data.decode("utf-8", "replace")


def _digit(text: str, chance: random.Random) -> str:
    place = chance.choice([at for at, char in enumerate(text) if char.isdigit()])
    return text[:place] + chance.choice("0123456789") + text[place + 1 :]


# Damage to what stands around the numbers, by kind.
STRUCTURE: dict[str, Damage] = {
    "cut": _cut,
    "line lost": _lost,
    "lines lost": _several_lost,
    "line doubled": _doubled,
    "lines swapped": _swapped,
    "line moved": _moved,
    "middle lost": _without_middle,
    "ranks mixed": _mixed,
    "mixed inside a line": _mixed_in_lines,
    "output twice": _again,
    "cut, then whole": _again_cut,
    "column dropped": _in_line(_CELL, lambda _cell, _chance: ""),
    "separator": _in_line(
        _SEPARATORS, lambda _old, chance: chance.choice([",", ";", ":", "|", "=", "\t"])
    ),
    "word renamed": _in_line(_WORD, _renamed),
    "unit renamed": _in_line(_UNIT, lambda _unit, chance: chance.choice(_UNITS)),
    "sign": _in_line(_NUMBER, lambda number, _chance: f"-{number}"),
    "exponent": _in_line(_EXPONENT, lambda old, chance: old[: chance.randrange(1, len(old))]),
    "odd character": _odd,
    "line ends": _line_ends,
}
# Damage that may make another number of one.
ANY: dict[str, Damage] = {
    "bits flipped": _flipped,
    "random bytes": _random_bytes,
    "digit": _in_line(_NUMBER, _digit),
    "huge": _in_line(_NUMBER, lambda _number, chance: chance.choice(_HUGE)),
}


# ---- judging -------------------------------------------------------------------------------------
def judged(one: Recording, kind: str, text: str) -> str:
    """refused, same, fewer (figures of the whole output, not all), said (others, and it says so),
    other (a digit may be another), unseen (UNSEEN says why), or ``wrong: ...``."""
    try:
        got = one.parse(text)
    except ParseError:
        return "refused"
    except Exception as error:  # noqa: BLE001 WHY: any other error is what is looked for
        return f"wrong: {type(error).__name__}: {str(error)[:120]}"
    right = one.right
    odd = _unfit(got, right)
    if odd:
        return f"wrong: {odd}"
    if right is None:
        return "other" if kind in ANY else "wrong: figures of what is refused"
    changed = [key for key, row in got.figures.items() if not _known(key, row, right)]
    if not changed:
        return "same" if len(got.figures) == len(right.figures) else "fewer"
    if got.said - right.said:
        return "said"
    if kind in ANY:
        return "other"
    if all(_unseen(one.name, kind, str(key[0])) for key in changed):
        return "unseen"
    key = changed[0]
    return f"wrong: {key} is {got.figures[key]}, not {right.figures.get(key)}"


def _unseen(name: str, kind: str, figure: str) -> bool:
    return any(
        name.startswith(begin) and kind in kinds and re.fullmatch(figures, figure) is not None
        for begin, (kinds, figures) in UNSEEN.items()
    )


def _known(key: tuple[Any, ...], row: tuple[Any, ...], right: Reading) -> bool:
    """Whether it is a figure of the whole output; the device may have got another name, which is
    none of that."""
    known = right.figures.get(key)
    if known and key[0] in _DIGITS and math.isclose(row[0], known[0], rel_tol=_DIGITS[key[0]]):
        return True
    if known == row or (known and row == (*known[:2], None)):  # of repeats that are not counted
        return True
    if len(key) < _PARTS or key[2] in {other[2] for other in right.figures}:
        return False
    return any(
        (*key[:2], *key[3:]) == (*other[:2], *other[3:]) and row == figure
        for other, figure in right.figures.items()
    )


def _unfit(got: Reading, right: Reading | None) -> str:
    """A figure that no measurement can be."""
    for key, row in got.figures.items():
        value = row[0]
        known = right is not None and right.figures.get(key) == row
        # Less than nothing may be what a check has failed of.
        least = -_MOST if got.said - (right.said if right else frozenset()) else 0
        if not known and not (isinstance(value, (int, float)) and least <= value < math.inf):
            return f"{key} is {value}"
    return ""


def damaged(
    chosen: Sequence[Recording], weights: Sequence[float], seed: int, number: int
) -> tuple[Recording, str, str]:
    """One damaged output, always the same one of a seed and number: its recording, kind, text."""
    chance = random.Random(seed << 32 | number)
    one = chosen[min(bisect(weights, chance.random() * weights[-1]), len(chosen) - 1)]
    kinds = {**STRUCTURE, **ANY}
    kind = chance.choice(list(kinds))
    text = kinds[kind](one, chance)
    return one, kind, text


def _weights(chosen: Sequence[Recording]) -> list[float]:
    """Short recordings are taken more often, and tools with few of them too: a long one costs a
    hundred times as much."""
    own = [1 / (2000 + len(one.text)) for one in chosen]
    of_tool: dict[str, float] = {}
    for one, weight in zip(chosen, own, strict=True):
        of_tool[one.tool] = of_tool.get(one.tool, 0.0) + weight
    return [weight / of_tool[one.tool] ** 0.5 for one, weight in zip(chosen, own, strict=True)]


def mutated_outputs(count: int, seed: int) -> Tally:
    """Damage so many outputs, and judge what the parsers make of them."""
    tally = Tally()
    chosen = recordings()
    weights = list(accumulate(_weights(chosen)))
    outcomes: Counter[str] = Counter()
    tools: Counter[str] = Counter()
    for number in range(count):
        one, kind, text = damaged(chosen, weights, seed, number)
        outcome = judged(one, kind, text)
        outcomes[outcome.partition(":")[0]] += 1
        tools[one.tool] += 1
        if outcome.startswith("wrong"):
            tally.lose(f"{one.name}, {kind} (seed {seed}, number {number}): {outcome}")
        else:
            tally.survived()
    tally.figures.append(", ".join(f"{what} {n}" for what, n in outcomes.most_common()))
    tally.figures.append(", ".join(f"{tool} {n}" for tool, n in sorted(tools.items())))
    return tally
