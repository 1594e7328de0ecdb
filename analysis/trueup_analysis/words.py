"""A word of the user's held against those that are known."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Which of the known words may have been meant, if any."""
    lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), lower, n=1)
    return lower[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence that refuses a word: "; did you mean eastus?", or nothing where none
    of the known ones is near."""
    near = nearest(word, known)
    return "" if near is None else f"; did you mean {near}?"
