"""The errors that trueup raises on purpose. Each message is one sentence for the user: the error,
where it is, and the mend."""

from __future__ import annotations

from typing import Optional


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
