"""The cost of a process, two sides beside each other, and the row of such a pair."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# As a user has it: modules are compiled once, and output is not written byte by byte.
_UNUSUAL = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
_USUAL = {name: value for name, value in os.environ.items() if name not in _UNUSUAL}
ROUNDS = int(os.environ.get("TRUEUP_BENCH_ROUNDS", "5"))

# A process of its own starts the measured one: a child's peak memory is never below its parent's at
# the start, and pytest with a fleet in it has hundreds of MB. 9 MB remain.
_LAUNCH = """
import json, os, sys, time
written, *argv = sys.argv[1:]
begun = time.monotonic()
child = os.posix_spawnp(argv[0], argv, os.environ)
_, status, used = os.wait4(child, 0)
with open(written, "w") as file:
    json.dump({
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "wall_seconds": time.monotonic() - begun,
        "megabytes": used.ru_maxrss * 1024 / 1e6,
        "status": os.waitstatus_to_exitcode(status),
    }, file)
"""


@dataclass(frozen=True)
class Spent:
    """The cost of one process, or of several one after another.

    Attributes:
        cpu_seconds: user and system, of the process and of those that it waited for.
        wall_seconds: from start to end.
        megabytes: resident memory of the largest process, at its peak.
        status: exit status.
        out: standard output.
        err: standard error.
    """

    cpu_seconds: float
    wall_seconds: float = 0.0
    megabytes: float = 0.0
    status: int = 0
    out: str = ""
    err: str = ""

    def __add__(self, other: Spent) -> Spent:
        """One after the other."""
        return Spent(
            self.cpu_seconds + other.cpu_seconds,
            self.wall_seconds + other.wall_seconds,
            max(self.megabytes, other.megabytes),
            max(self.status, other.status),
            self.out + other.out,
            self.err + other.err,
        )


Side = Callable[[], Spent]
Word = str | Path


def spend(
    argv: Sequence[Word],
    *,
    statuses: Sequence[int] = (0,),
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
) -> Spent:
    """Run a command and measure it; ``env`` is added to a user's environment.

    Raises:
        AssertionError: it ended with none of ``statuses``.
    """
    command = [str(argument) for argument in argv]
    with tempfile.NamedTemporaryFile(suffix=".json") as written:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _LAUNCH, written.name, *command],
            cwd=cwd,
            env={**_USUAL, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        spent = Spent(**json.load(written), out=done.stdout, err=done.stderr)
    assert spent.status in statuses, f"{command} ended with {spent.status}: {spent.err[-2000:]}"
    return spent


def command(argv: Sequence[Word], **options: Any) -> Side:
    """A side that is one command; ``options`` as :func:`spend` has them."""
    return lambda: spend(argv, **options)


def trueup(*words: Word) -> list[Word]:
    """The command ``trueup`` as it is installed."""
    return [Path(sys.executable).with_name("trueup"), *words]


def python(program: str, *words: Word) -> list[Word]:
    """A program of this environment's Python."""
    return [sys.executable, "-c", program, *words]


_READ_TABLE = "import pyarrow.parquet, sys; pyarrow.parquet.read_table(sys.argv[1])"
_DECODE = """
import msgspec, pathlib, sys
for path in pathlib.Path(sys.argv[1]).rglob("*.json"):
    msgspec.json.decode(path.read_bytes())
"""
# The cost of a plain reader for the same files.
_PLAIN = {
    "packed": ("pyarrow reads the file", _READ_TABLE),
    "folder": ("msgspec decodes the files", _DECODE),
}


def plain(kind: str, source: Path) -> tuple[str, Side]:
    """The other side of a command on a ``packed`` file or a ``folder`` of JSON."""
    name, program = _PLAIN[kind]
    return name, command(python(program, source))


def interleaved(
    sides: Mapping[str, Side], say: Callable[[str], None], rounds: int = ROUNDS
) -> dict[str, list[Spent]]:
    """The cost of each side in each round, one after another within a round."""
    by_side: dict[str, list[Spent]] = {name: [] for name in sides}
    for number in range(1, rounds + 1):
        for name, side in sides.items():
            spent = side()
            by_side[name].append(spent)
            say(
                f"  round {number} of {rounds}: {name}: {spent.cpu_seconds:.3g} s of CPU,"
                f" {spent.wall_seconds:.3g} s, {spent.megabytes:.0f} MB"
            )
    return by_side


@dataclass(frozen=True)
class Row:
    """One promise: a figure of ours beside another.

    Attributes:
        figure: name of trueup's measurement.
        beside: name of the other side.
        ours: seconds, the median of the rounds; CPU unless ``figure`` says clock.
        theirs: the same of the other side.
        ratio: ours / theirs, the median of the rounds' ratios.
        promise: the ratio is promised to be no larger.
        rounds: how many there were.
        megabytes: most memory of our largest process, None where it is not of interest.
        their_megabytes: the same of the other side.
        most_megabytes: upper limit of our memory.
        recorded: date of the record where it was not measured in this run.
    """

    figure: str
    beside: str
    ours: float
    theirs: float
    ratio: float
    promise: float
    rounds: int
    megabytes: float | None = None
    their_megabytes: float | None = None
    most_megabytes: int | None = None
    recorded: str | None = None

    @property
    def kept(self) -> bool:
        """Whether ratio and memory are as promised."""
        fits = self.most_megabytes is None or (self.megabytes or 0) <= self.most_megabytes
        return self.ratio <= self.promise and fits

    @property
    def verdict(self) -> str:
        """ok, or WORSE than promised; or when it was recorded."""
        if self.recorded is not None:
            return f"recorded {self.recorded}"
        return "ok" if self.kept else "WORSE"


def row(
    figure: str,
    beside: str,
    ours: Sequence[Spent],
    theirs: Sequence[Spent],
    *,
    promise: float,
    most_megabytes: int | None = None,
    clock: bool = False,
) -> Row:
    """The row of two sides that were measured in the same rounds."""

    def seconds(spent: Spent) -> float:
        return spent.wall_seconds if clock else spent.cpu_seconds

    return Row(
        figure,
        beside,
        statistics.median(map(seconds, ours)),
        statistics.median(map(seconds, theirs)),
        statistics.median(
            seconds(our) / seconds(their) for our, their in zip(ours, theirs, strict=True)
        ),
        promise,
        len(ours),
        max(spent.megabytes for spent in ours) or None,
        max(spent.megabytes for spent in theirs) or None,
        most_megabytes,
    )


HEAD: tuple[str, ...] = (
    "figure",
    "ours, s",
    "beside, s",
    "beside it",
    "ratio",
    "promised",
    "MB",
    "its MB",
    "",
)


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed."""
    most = "" if row.most_megabytes is None else f" ≤ {row.most_megabytes}"
    return (
        row.figure,
        f"{row.ours:.3g}",
        f"{row.theirs:.3g}",
        row.beside,
        f"{row.ratio:.3g}",
        f"≤ {row.promise:.3g}",
        "" if row.megabytes is None else f"{row.megabytes:.0f}{most}",
        "" if row.their_megabytes is None else f"{row.their_megabytes:.0f}",
        row.verdict,
    )


def table(rows: Sequence[Row]) -> str:
    """All rows for a terminal, in columns."""
    lines = [HEAD, *map(cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
