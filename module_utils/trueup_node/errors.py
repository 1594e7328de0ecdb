"""The errors that trueup raises on purpose. Each message is one sentence for the user: the error,
where it is, and the mend."""

from __future__ import annotations

import re
from typing import Optional

# int() refuses 4300 digits and more, and its time is quadratic where it does not.
_LONG_NUMBER = re.compile(r"(?<!\d)\d{4000}")
# Such a number has 16 digits that stand so far from each other; to look at these takes a hundredth.
_APART = 250
_DIGITS_APART = re.compile(r"\d{16}")


class TrueupError(Exception):
    """Base of all errors whose message is meant for the user."""


class BadInput(TrueupError):
    """A parameter that cannot be used, refused before anything ran. The message holds the number
    that is wrong."""


class ParseError(TrueupError):
    """A tool's output that cannot be understood.

    Args:
        message: the expected text and the text that stood there instead.
        line_number: 1-based line of the output, or None when something is missing as a whole.
        line: the text of that line.
    """

    def __init__(self, message: str, line_number: Optional[int] = None, line: str = "") -> None:
        self.message = message
        self.line_number = line_number
        self.line = line
        where = "" if line_number is None else f" (line {line_number}: {line.strip()[:200]!r})"
        super().__init__(message + where)

    def below(self, lacking: int) -> ParseError:
        """The same with the line's number in the whole output, of which the parsed text lacks so
        many lines above it."""
        number = None if self.line_number is None else self.line_number + lacking
        return ParseError(self.message, number, self.line)


def refuse_long_numbers(text: str) -> None:
    """Refuse an output with a number that no tool prints and no Python reads.

    Raises:
        ParseError: a number has 4000 digits or more.
    """
    match = _DIGITS_APART.search(text[::_APART]) and _LONG_NUMBER.search(text)
    if match:
        begin = text.rfind("\n", 0, match.start()) + 1
        line = text[begin : begin + 200]
        number = text.count("\n", 0, begin) + 1
        raise ParseError("a number of 4000 digits or more", number, line)
