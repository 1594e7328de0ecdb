"""A word of the user's held against those that are known."""

from __future__ import annotations

import difflib
from typing import Iterable, Optional


def nearest(text: str, choices: Iterable[str], cutoff: float = 0.6) -> Optional[str]:
    """Which of the known words may have been meant, if any: the one that begins so, else the most
    alike; ``cutoff`` is how alike they must be, 0 to 1."""
    lower = {name.lower(): name for name in choices}
    begun = [name for key, name in lower.items() if key.startswith(text.lower())]
    if len(begun) == 1:
        return begun[0]
    near = difflib.get_close_matches(text.lower(), lower, n=1, cutoff=cutoff)
    return lower[near[0]] if near else None


def did_you_mean(text: str, choices: Iterable[str]) -> str:
    """The end of a sentence that refuses a word: "; did you mean eastus?", or nothing where none
    of the known ones is near."""
    near = nearest(text, choices)
    return "" if near is None else f"; did you mean {near}?"
