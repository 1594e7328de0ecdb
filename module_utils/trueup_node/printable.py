"""A program's output as it leaves the node: without credentials, and a long one without its middle.

The same text is shown, returned and written: every cut is made here, after credentials were
removed, so that no part of one is left at a cut.
"""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Mapping

from .redaction import redact

# Of a long output, so much of its beginning and of its end.
_FIRST_LINES, _LAST_LINES = 30, 100
_FIRST_CHARACTERS, _LAST_CHARACTERS = 1 << 14, 3 << 14
# With the line between them.
_MOST_LINES = _FIRST_LINES + _LAST_LINES + 4
_MOST_CHARACTERS = _FIRST_CHARACTERS + _LAST_CHARACTERS + 400


def printable(text: str) -> str:
    """A text without credentials and, where it is long, without its middle."""
    hidden = redact(text)
    if not _is_long(hidden):
        return str(hidden)
    encoded = text.encode("utf-8", errors="replace")
    return str(redact(ends(hidden, hidden, len(encoded), hashlib.sha256(encoded).hexdigest())))


def ends(begin: str, end: str, size: int, sha256: str) -> str:
    """The beginning and the end of an output, and a line between them that says how much it was.

    Args:
        begin: its beginning, of which the first lines are taken; without credentials.
        end: its end, of which the last lines are taken; without credentials.
        size: bytes of the whole.
        sha256: of the whole.
    """
    first, last = begin[:_FIRST_CHARACTERS], end[-_LAST_CHARACTERS:]
    # Whole lines, where there are any.
    if len(begin) > len(first):
        first = first[: first.rfind("\n") + 1] or first
    if len(end) > len(last):
        last = last[last.find("\n", 0, -1) + 1 :]
    first = "\n".join(first.split("\n")[:_FIRST_LINES]).rstrip("\n")
    last = "\n".join(last.split("\n")[-_LAST_LINES:])
    cut = f"[trueup: the middle is left out; the whole has {size} bytes, SHA-256 {sha256}]"
    return f"{first}\n{cut}\n{last}"


def failure(result: Mapping[str, Any]) -> Dict[str, Any]:
    """The result of a failed module, without credentials; each text but ``raw``, whose parts are
    printable before, without its middle where it is long."""
    hidden: Dict[str, Any] = redact(dict(result))
    return {name: item if name == "raw" else _short(item) for name, item in hidden.items()}


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(item) for item in value]
    return printable(value) if isinstance(value, str) and _is_long(value) else value


def _is_long(text: str) -> bool:
    return len(text) > _MOST_CHARACTERS or text.count("\n") >= _MOST_LINES
