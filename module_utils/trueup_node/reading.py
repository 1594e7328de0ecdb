"""Shared code of parsers: lines that know their number, the JSON that trueup's own programs print,
and how an output lists the checks that could not be made."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from re import Match
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Pattern, Tuple, Union

from .errors import ParseError

# The most of an output that is kept and read. Recorded ones are below 30 kB; a Megatron log has
# some 400 bytes an iteration, of which this holds 600,000. A parser needs about five times as much
# memory.
MOST_BYTES = 256 << 20
# The most of a tool's output about the node: the longest is `nvidia-smi -q`, some 10 kB a GPU.
MOST_ANSWER_BYTES = 8 << 20
# bench.py's heading of the second stream.
STANDARD_ERROR = "[standard error]"
# Its heading of the output of a command that ran beside the benchmark's.
BESIDE = "[beside]"
# A byte order mark, which stands before an output that another program has written to a file, and
# within one that was put together of such.
ORDER_MARK = "\ufeff"
# Characters that may be other digits than 0 to 9.
_BEYOND = re.compile(r"[^\x00-\x7f]+")
_DIGIT = re.compile(r"\d")
_PIECE = 1 << 18
# int() refuses 4300 digits and more, and its time is quadratic where it does not.
_LONG_NUMBER = re.compile(r"(?<!\d)\d{4000}")
# Such a number has 16 digits that stand so far from each other; to look at these takes a hundredth.
_APART = 250
_DIGITS_APART = re.compile(r"\d{16}")
# Of a whole number in JSON.
_MOST_DIGITS = 100


class Line(str):
    """A line of an output, and its number from 1."""

    __slots__ = ("number",)
    number: int

    def __new__(cls, text: str, number: int) -> Line:  # noqa: PYI034 WHY: 3.9 has no Self
        line = super().__new__(cls, text)
        line.number = number
        return line

    def error(self, message: str) -> ParseError:
        """That error, which names this line and shows it."""
        return ParseError(message, self.number, self)


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


def lines_of(text: str, ended_by: str = "") -> list[Line]:
    """The lines of an output; ended by any line end, or by that one alone. No other digits than
    0 to 9 are left, which no tool prints and Python takes for such, and no byte order marks.

    Raises:
        ParseError: a number has 4000 digits or more.
    """
    text = _with_digits(text)
    lines = text.split(ended_by) if ended_by else text.splitlines()
    return [Line(line, number) for number, line in enumerate(lines, 1)]


def each_line(text: str) -> Iterator[str]:
    """The same one after the other, for logs of any length.

    Raises:
        ParseError: as ``lines_of``, before the first line.
    """
    return chain.from_iterable(map(str.splitlines, pieces(text)))


def pieces(text: str) -> Iterator[str]:
    """The same as text of some whole lines, each of which but the last ends with a line feed."""
    text = _with_digits(text)
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin + _PIECE) + 1 or len(text)
        yield text[begin:end]
        begin = end


def _with_digits(text: str) -> str:
    refuse_long_numbers(text)
    return text if text.isascii() else _BEYOND.sub(_without_digits, text)


def _without_digits(beyond: Match[str]) -> str:
    return _DIGIT.sub("\ufffd", beyond[0]).replace(ORDER_MARK, "")


def unverified(output: object) -> list[str]:
    """The cross-checks that a parser's result lacks, a sentence each: its member ``unverified``. A
    parser that always has all of them needs no such member."""
    return list(getattr(output, "unverified", ()))


def sealed_by(lines: Sequence[Line], prefix: str) -> list[Line]:
    """The lines of a program of ours that begin so.

    Raises:
        ParseError: one has something before it, and would be passed over.
    """
    begins = prefix + "{"
    for line in lines:
        if begins in line and not line.startswith(prefix):
            raise line.error(f"something stands before '{prefix.strip()}' in this line: remove it")
    return [line for line in lines if line.startswith(prefix)]


def only(lines: Sequence[Line], prefix: str, second: str) -> list[Line]:
    """The line that begins so, or none; ``second`` is the error of a second one."""
    sealed_lines = sealed_by(lines, prefix)
    if len(sealed_lines) > 1:
        raise sealed_lines[1].error(second)
    return sealed_lines


def refuse_after(lines: Sequence[Line], message: str) -> None:
    """Refuse text in these lines, up to the second stream."""
    for line in lines:
        if line.strip() == STANDARD_ERROR:
            return
        if line.strip():
            raise line.error(message)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's members, for ``object_pairs_hook``.

    Raises:
        ValueError: a name stands twice, of which Python would drop the first.
    """
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError(f"{max(names, key=names.count)!r} stands twice")
    return dict(pairs)


def whole_number(text: str) -> int:
    """A whole number of a JSON text, for ``parse_int``.

    Raises:
        ValueError: no figure has so many digits, and no float holds it.
    """
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a whole number of {len(text)} characters")
    return int(text)


def json_object(
    text: str,
    start: int = 0,
    *,
    pairs: Callable[[List[Tuple[str, Any]]], Dict[str, Any]] = unique,
) -> Tuple[Dict[str, Any], int]:
    """The JSON object that begins at a place of a text, and its end. Its numbers may be NaN.

    Args:
        text: the whole text, for the lines of errors.
        start: where the object begins.
        pairs: makes an object of its members.

    Raises:
        ParseError: it is cut off, damaged or no object, a name stands twice, or a whole number
            has more than 100 digits.
    """
    decoder = json.JSONDecoder(object_pairs_hook=pairs, parse_int=whole_number)
    first = Line(text[start : start + 80].partition("\n")[0], text.count("\n", 0, start) + 1)
    try:
        data, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        at = min(error.pos, len(text.rstrip()) - 1)
        near = text[max(text.rfind("\n", 0, at) + 1, at - 60) : at + 60].partition("\n")[0]
        line = Line(near, text.count("\n", 0, at) + 1)
        raise line.error(f"the JSON is cut off or damaged ({error.msg})") from None
    except ValueError as error:
        raise first.error(f"the JSON is damaged: {error}") from None
    except RecursionError:
        raise first.error("the JSON is nested too deeply") from None
    if not isinstance(data, dict):
        raise first.error("the JSON is no object")
    return data, end


def only_json(
    text: str,
    start: int = 0,
    *,
    pairs: Callable[[List[Tuple[str, Any]]], Dict[str, Any]] = unique,
) -> Dict[str, Any]:
    """The same of a text that holds nothing behind it but the second stream.

    Raises:
        ParseError: as there, or there is more.
    """
    data, end = json_object(text, start, pairs=pairs)
    below = enumerate(text[end:].splitlines(), text.count("\n", 0, end) + 1)
    refuse_after([Line(line, number) for number, line in below], "text after the JSON object")
    return data


def decoded(
    line: Line, prefix: str, description: str, *, version: int, role: str
) -> dict[str, Any]:
    """The JSON object behind the prefix of a line that a program of ours has printed.

    Args:
        line: the line.
        prefix: the text before the object.
        description: an error's name for the line: "the driver's line".
        version: its member ``format``.
        role: which installs the program anew.

    Raises:
        ParseError: it is none, or one of another format.
    """
    try:
        data = json.loads(line[len(prefix) :], object_pairs_hook=unique, parse_int=whole_number)
    except (ValueError, RecursionError) as error:
        raise line.error(f"{description} is cut off or damaged ({error})") from None
    if not isinstance(data, dict) or data.get("format") != version:
        raise line.error(f"{description} is not of format {version}: run the role {role} again")
    return data


@contextlib.contextmanager
def members_of(line: Line, description: str) -> Iterator[None]:
    """Takes members of such an object. A checksum says that the line is whole, and not that the
    program wrote it: a member that is missing or of another type is an error of the line."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise line.error(f"{description} lacks or spoils {error}") from None


def digest(data: Mapping[str, Any]) -> str:
    """The SHA-256 by which our programs seal an object."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def is_count(value: Any) -> bool:
    """Whether JSON gave a whole number of 0 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_number(value: Any) -> bool:
    """Whether JSON gave a number, finite or not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Signature(NamedTuple):
    """Identifies a tool's output, before any parser is imported.

    Attributes:
        marks: strings of which one stands in or soon after the first line that the parser needs;
            text long before the first mark of a log is not read.
        forms: strings that stand in the output and patterns that match in it, by form: all of one
            form.
        lines: patterns of which one matches an entire line.
        check: a function, where no form and no line tells.
        run: of several runs in one text, a pattern of the lines that begin a run, each a group
            where there are several, and a pattern of the lines that end it.
        parts: cuts one JSON value that holds several runs.
        log: of a log that the tool writes between its own lines: a string in each line, the
            pattern of the text before it, with the host, and of the text after it to read.
        is_beside: whether its lines stand in another tool's output.
    """

    marks: Tuple[str, ...]
    forms: Tuple[Tuple[Union[str, Pattern[str]], ...], ...] = ()
    lines: Tuple[Pattern[str], ...] = ()
    check: Optional[Callable[[str], bool]] = None
    run: Optional[Tuple[str, str]] = None
    parts: Optional[Callable[[str], List[str]]] = None
    log: Optional[Tuple[str, str, str]] = None
    is_beside: bool = False

    def recognises(self, text: str) -> bool:
        """Whether a text is the tool's output, undamaged or not."""
        if any(all(_holds(text, mark) for mark in form) for form in self.forms):
            return True
        if self.lines and any(
            pattern.fullmatch(line) for line in text.splitlines() for pattern in self.lines
        ):
            return True
        return self.check is not None and self.check(text)


def without(pattern: str) -> Pattern[str]:
    """A pattern that matches a text without that pattern."""
    return re.compile(rf"(?m)\A(?![\s\S]*(?:{pattern}))")


def _holds(text: str, mark: Union[str, Pattern[str]]) -> bool:
    return mark in text if isinstance(mark, str) else mark.search(text) is not None
