"""A check of the words of pages: faults that readers of another mother tongue stumble over.

``python tests/prose.py [FILE ...]`` prints each with its line; exit status 1 if there is one.
Without files it reads README, SECURITY, CONTRIBUTING and docs/, the help of every command and the
options of every role. Code is not read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
# Pattern, and the words to take instead.
FAULTS = (
    (r"\bof ours\b|\bof theirs\b", "name the owner: trueup's, the site's"),
    (r"\bwho has\b", "you have, or: a person who has"),
    (r"\bwas (?:to be had|at hand)\b", "was available"),
    (r"\bwhat is (?:said|told|asked|wanted|left|gone|owed|known|given)\b", "name the thing"),
    (r"\bone's own\b|\bone (?:manages|brings|keeps)\b", "you, your"),
    (r"\bin the place of\b", "instead of, or: replaces"),
    (r"\bby whomever\b|\bwhosever\b", "by any user"),
    (r"\bmade anew\b|\bsearches anew\b|\bbegins anew\b", "again"),
    (r"\bis of no use\b|\bto no avail\b", "does not help"),
    (r"\bthose that\b|\bthat which\b", "name the thing"),
    (r"(?<![/\w])(?:utilize|utilise|leverage)\b", "use"),
    (r"\bplease\b|\bsimply\b|\bjust\b(?! before)", "leave it out"),
    (r"\bit has not run since\b|\bmended by this\b", "histories are not documentation"),
    (r"\bload (?:of )?\d+ to \d+\b|, a load of\b", "machine loads are not documentation"),
    (r"\bat [0-9a-f]{7,12}\b, \d{4}-\d\d-\d\d", "commits are not documentation"),
)
LONGEST_SENTENCE = 45
_CODE = re.compile(r"^```.*?^```$|^ {4,}.*?$|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
_COMPILED = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in FAULTS]


def faults(text: str) -> list[tuple[int, str]]:
    """Line and sentence of each fault of a page."""
    prose = _CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    found = [
        (prose.count("\n", 0, match.start()) + 1, f"{match[0]!r}: {instead}")
        for pattern, instead in _COMPILED
        for match in pattern.finditer(prose)
    ]
    return sorted(found + list(_long(prose)))


def _long(prose: str) -> list[tuple[int, str]]:
    """Sentences of more words than a reader holds; rows of tables are no sentences."""
    long = []
    for block in re.finditer(r"^(?![|#])\S.*(?:\n(?![|#*-] ?|\s*$|\d\. ).+)*", prose, re.MULTILINE):
        at = prose.count("\n", 0, block.start()) + 1
        for sentence in re.split(r"(?<=[.:;?!])\s|\s{3,}", block[0]):
            count = len(sentence.split())
            if count > LONGEST_SENTENCE:
                long.append(
                    (at, f"a sentence of {count} words: {' '.join(sentence.split()[:8])} ...")
                )
    return long


def pages() -> list[Path]:
    """The pages that people read; those that `make options` writes have the words of their data."""
    named = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")]
    docs = sorted((ROOT / "docs").rglob("*.md"))
    return [
        path
        for path in named + docs
        if "`make options` writes this page" not in path.read_text(encoding="utf-8")
    ]


def helps() -> Iterator[tuple[str, str]]:
    """Each text of ``trueup COMMAND --help``, with the command and option."""
    from trueup_analysis import cli
    from typer.main import get_group

    get_group(cli.app)
    for name, summary in cli.COMMANDS.items():
        yield f"trueup {name}", summary
        yield from _of_command(f"trueup {name}", cli.command(name))


def _of_command(name: str, command: Any) -> Iterator[tuple[str, str]]:
    yield name, command.help or ""
    for option in command.params:
        yield f"{name} {option.opts[0]}", getattr(option, "help", None) or ""
    for word, inner in getattr(command, "commands", {}).items():
        yield from _of_command(f"{name} {word}", inner)


def role_options() -> Iterator[tuple[str, str]]:
    """Each description of a role and its variables, with the file and variable."""
    for path in sorted((ROOT / "roles").rglob("meta/argument_specs.yml")):
        file = str(path.relative_to(ROOT))
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            yield from _of_specification(file, entry)


def _of_specification(name: str, spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield name, spec.get("short_description", "")
    description = spec.get("description", "")
    # Paragraphs of a description are sentences of their own.
    yield name, description if isinstance(description, str) else "\n\n".join(description)
    for option, inner in (spec.get("options") or {}).items():
        yield from _of_specification(f"{name} {option}", inner)


def main() -> int:
    """1 if a page has a fault."""
    paths = [Path(name) for name in sys.argv[1:]] or pages()
    found = [
        f"{path.relative_to(ROOT) if path.is_absolute() else path}:{line}: {fault}"
        for path in paths
        for line, fault in faults(path.read_text(encoding="utf-8"))
    ]
    if not sys.argv[1:]:
        texts = (*helps(), *role_options())
        found += [f"{name}: {fault}" for name, text in texts for _, fault in faults(text)]
    for each in found:
        print(each)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
