"""Floods one parser: recorded output with a part of it fifty thousand characters long.

    python tests/flood.py trueup_node.benchmarks.hpl.output parse_hpl RECORDING...

Parts of every kind of line are repeated, one at a time, and lines of one repeated part are put in
between. The parser must understand the text or refuse it with ParseError. Each text has so much
of this process's own time that a pattern whose time is square in the length needs more; then
SIGPROF ends the process. The last line printed says which text it was.
"""

from __future__ import annotations

import importlib
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

LENGTH = 50_000
SECONDS = 1.0
PART = re.compile(r"\d+|[^\W\d_]+|\s+|[^\w\s]+|_+")
UNITS = ("1", " ", "a", "1 ", "a=")
# Of all the parts of a recording, evenly spread.
MOST_PARTS = 200


def kinds(lines: list[str]) -> Iterator[int]:
    """The first line of each kind: of lines with the same words, whatever their numbers."""
    seen = set()
    for number, line in enumerate(lines):
        kind = re.sub(r"[\d\s.+-]+", " ", line)[:60]
        if kind not in seen:
            seen.add(kind)
            yield number


def floods(text: str) -> Iterator[tuple[str, str]]:
    """(what was repeated, the text with it)."""
    lines = text.split("\n")
    yield "blank lines", "\n" * LENGTH + text
    chosen = list(kinds(lines))
    parts = [(number, part) for number in chosen for part in PART.finditer(lines[number])]
    for number, part in parts[:: len(parts) // MOST_PARTS + 1]:
        flood = lines[number][: part.start()] + part[0] * (LENGTH // len(part[0])) + "!"
        name = f"line {number + 1}, {part[0]!r} at {part.start()}"
        yield name, "\n".join([*lines[:number], flood, *lines[number + 1 :]])
    for number in chosen:
        for unit in UNITS:
            flood = unit * (LENGTH // len(unit)) + "!"
            name = f"line {number + 1}, before it {unit!r}"
            yield name, "\n".join([*lines[:number], flood, *lines[number:]])
        if "{" in lines[number]:
            # Where an object is expected, one as deep as it is long.
            flood = lines[number].partition("{")[0] + '{"a":' * LENGTH
            yield f"line {number + 1}, nested", "\n".join([*lines[:number], flood])


def main(module: str, function: str, *recordings: str) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "module_utils"))
    parse = getattr(importlib.import_module(module), function)
    recognises: Callable[[str], bool] = bool
    if module.endswith(".output"):
        recognises = importlib.import_module(
            module.replace(".output", ".signatures")
        ).SIGNATURE.recognises
    from trueup_node.errors import ParseError

    for recording in recordings:
        for name, text in floods(Path(recording).read_text(encoding="utf-8")):
            print(Path(recording).name, name, flush=True)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            recognises(text)
            try:
                parse(text)
            except ParseError:
                continue
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
