"""docs/SKILL.md for agents: commands and limits. ``make options`` writes it from both."""

from __future__ import annotations

import re
from typing import Final

import family_pages
from trueup_analysis import cli, units
from trueup_analysis.catalog import spelled_size
from trueup_analysis.figures.health import expectations

PAGE: Final = "docs/SKILL.md"
_WORDS: Final = {"at_least": "at least", "at_most": "at most", "exactly": "exactly"}
_HEAD: Final = """\
---
name: trueup
description: Judge, compare and price benchmark logs of Azure HPC and AI virtual machines
---

<!-- `make options` writes this page from the commands and catalog/expectations.yml. -->

# trueup

- Read a log with `trueup read LOG --size SIZE --format json`. Turn several logs into records with
  `trueup import LOGS --size auto`, then use the commands below.
- Repeat "not measured" and "no verdict" as the command prints them. Add no figure of your own.
- `--format json` has base units (bytes, seconds, byte/s, flop/s), unrounded. Messages go to
  standard error.
- A size, price or model that the records do not state is an option, or unknown.
- The exit status says whether something failed, changed or could not be judged.
"""


def page() -> str:
    """The page's text."""
    blocks = [_HEAD]
    for group, commands in cli.GROUPS.items():
        rows = "".join(
            f"| `trueup {name}` | {' '.join(text.split())} |\n" for name, text in commands.items()
        )
        blocks.append(f"\n## {group}\n\n| command | answer |\n| --- | --- |\n{rows}")
    blocks.append(f"\n## Exit status\n\n{cli.EXIT_CODES}\n")
    blocks.append(_limits())
    return "".join(blocks)


def _limits() -> str:
    """The published limits, each with its source."""
    limits = expectations.read_catalog()
    sizes_of: dict[tuple[str, str, str], list[str]] = {}
    for size in limits.sizes:
        for item in limits.of(size):
            if item.benchmark == "node_state":
                continue
            value, unit = item.expected.value, item.expected.unit
            shown = f"{units.measure(value, unit)} {units.DISPLAYED.get(unit, unit)}"
            limit = f"{_WORDS[item.comparison]} {shown}".removesuffix(" 1")
            key = (f"{item.benchmark}: {item.what}", limit, item.source)
            name = re.sub("(?i)^standard_", "", spelled_size(size))
            sizes_of.setdefault(key, []).append(name)
    by_source = dict.fromkeys(source for *_, source in sizes_of)
    numbers = {source: str(at) for at, source in enumerate(by_source, 1)}
    cells = [
        (figure, limit, ", ".join(dict.fromkeys(sizes)), numbers[source])
        for (figure, limit, source), sizes in sizes_of.items()
    ]
    figures: dict[tuple[str, ...], list[str]] = {}
    for figure, *tail in family_pages.merged(cells):
        figures.setdefault((figure.split(":")[0], *tail), []).append(figure.split(": ", 1)[1])
    rows = "".join(
        f"| {benchmark}: {'; '.join(names)} | {' | '.join(tail)} |\n"
        for (benchmark, *tail), names in figures.items()
    )
    head = "| figure | limit | VM sizes | source |\n| --- | --- | --- | --- |\n"
    sources = "".join(f"{number}. {source}\n" for source, number in numbers.items())
    return (
        f"\n## Limits\n\nFigures that each size must reach (`trueup health`):\n\n{head}{rows}"
        f"\nSources:\n\n{sources}"
    )
