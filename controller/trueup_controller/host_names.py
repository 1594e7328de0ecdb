"""Names of an inventory's hosts: they name files of facts and records, and nodes in reports."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

# Azure's longest fully qualified name of a VM has 116 characters: 64 of its own, and the zone's.
_MOST_CHARACTERS: Final = 128
_NAME: Final = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.:@-]{{0,{_MOST_CHARACTERS - 1}}}")
_SHOWN_CHARACTERS: Final = 60


def problems(names: Iterable[str]) -> list[str]:
    """Reasons why a run cannot use these names, a sentence each that says the fix."""
    by_folded: dict[str, list[str]] = {}
    refused = []
    for name in sorted(set(names)):
        by_folded.setdefault(name.casefold(), []).append(name)
        if not _NAME.fullmatch(name):
            refused.append(
                f"{_shown(name)} in the inventory cannot be a node's name, since files are named"
                f" after it: use letters, digits and . _ : @ - (a letter, digit or _ first, at most"
                f" {_MOST_CHARACTERS}), and give the host's address as ansible_host."
            )
    refused += [
        f"{' and '.join(map(_shown, alike))} in the inventory differ in upper and lower case alone,"
        " which host names and some file systems do not tell apart: rename one of them."
        for alike in by_folded.values()
        if len(alike) > 1
    ]
    return refused


def _shown(name: str) -> str:
    """A name on one line; a long one is cut, and its length said."""
    if len(name) <= _SHOWN_CHARACTERS:
        return repr(name)
    return f"{name[:_SHOWN_CHARACTERS]!r}... ({len(name)} characters)"
