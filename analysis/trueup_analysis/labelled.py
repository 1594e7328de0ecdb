"""The result of a parser whose tool prints a few labelled figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from trueup_node.errors import ParseError
from trueup_node.reading import Line, lines_of
from trueup_node.record import Metric

# Characters of the longest line that holds a figure of such a tool.
_LONGEST = 2000


@dataclass(frozen=True)
class Labelled:
    """Figures of one run, with the members that every parser's result has
    (``trueup_node.benchmarks.Parsed``)."""

    rows: tuple[Metric, ...]
    parameters: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, bool] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    tool_version: str | None = None
    node_count: int | None = None
    ranks: int | None = None
    threads: int | None = None
    gpu_count: int | None = None
    hosts: tuple[str, ...] = ()
    not_judged: Mapping[str, str] = field(default_factory=dict)

    def metrics(self) -> list[Metric]:
        """The rows, in base units."""
        return list(self.rows)


def short_lines(text: str) -> list[Line]:
    """The lines of an output. A line that is longer than those with figures is left empty."""
    return [line if len(line) <= _LONGEST else Line("", line.number) for line in lines_of(text)]


def only(lines: list[Line], pattern: re.Pattern[str], name: str) -> tuple[Line, re.Match[str]]:
    """The one line that a pattern fits.

    Raises:
        ParseError: there is none, or a second one.
    """
    fitting = [(line, match) for line in lines if (match := pattern.fullmatch(line))]
    if not fitting:
        raise ParseError(f"no line {name!r}: the output is not complete")
    if len(fitting) > 1:
        raise fitting[1][0].error(f"a second {name!r}: read one run at a time")
    return fitting[0]
