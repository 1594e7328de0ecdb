"""Documents of the catalog and of users as msgspec models: ``frozen``, ``forbid_unknown_fields``.

A mismatch is one sentence: the file, the member, its value, and the valid ones. So is the
ValueError of a model's ``__post_init__``, where members do not fit together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import takewhile
from typing import Any, Literal, TypeVar, cast, get_origin

import msgspec
from msgspec import inspect
from trueup_node.errors import BadInput
from trueup_node.options import shown
from trueup_node.suggest import did_you_mean

T = TypeVar("T")
_Convert = Callable[[Any], Any]
# Of a path as msgspec writes it: a member, a number in a list, or some key of a mapping.
_STEP = re.compile(r"\.([^.\[`]+)|\[(\d+)\]|(\[\.\.\.\])")
_MEMBER = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)
_WORDS = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}
_WORDS |= {"array": "a list", "object": "a mapping"}
_MOST_DEPTH = 40
# Members that name a row of a list.
_LABELS = ("id", "service", "what", "name", "size")


def typed(
    data: Any,
    model: type[T],
    where: str,
    *,
    strict: bool = True,
    sources: Mapping[str, Source] | None = None,
) -> T:
    """A document as its model. A member of type ``re.Pattern`` is a regular expression.

    Args:
        data: as YAML, JSON or a row of CSV has it. Dates become texts.
        where: the file, as an error names it.
        strict: False takes texts such as "1e9" for numbers, too.
        sources: by their names, for members of the type ``Source``.

    Raises:
        BadInput: it does not fit the model.
    """
    hook = partial(_of_name, sources or {})
    convert = partial(msgspec.convert, type=model, strict=strict, dec_hook=hook)
    try:
        data = msgspec.to_builtins(_plain(data))
        return cast("T", convert(data))
    except msgspec.ValidationError as error:
        raise BadInput(f"{where}: {_problem(str(error), data, model, convert)[1]}") from error
    except (RecursionError, TypeError) as error:
        raise BadInput(f"{where} has a value that cannot be read: {error}") from error


def fitting(data: Any, model: type[T]) -> tuple[T, dict[str, str]]:
    """The members of a mapping that fit its model, which has defaults for all others, and by its
    path a sentence on each of these."""
    data = msgspec.to_builtins(_plain(data))
    wrong: dict[str, str] = {}
    convert = partial(msgspec.convert, type=model)
    while True:
        try:
            return cast("T", convert(data)), wrong
        except msgspec.ValidationError as error:
            steps, sentence = _problem(str(error), data, model, convert)
            names = [*takewhile(lambda step: isinstance(step, str), steps)]
            wrong[".".join(names)] = sentence
            parent = data
            for name in names[:-1]:
                parent = parent[name]
            del parent[names[-1]]


class Source:
    """A source that a catalog's file names once, with the date on which it was read or written."""

    def __init__(self, text: str, date: str, mark: str) -> None:
        self.text, self.date, self.mark = text, date, mark

    def __str__(self) -> str:
        date = f" ({self.mark}, {self.date})" if self.mark else f", read {self.date}"
        return f"{self.text}{date}"


class _Stated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    date: str
    mark: Literal["verified", "secondary", "unverified", ""] = ""


class _Sources(msgspec.Struct):
    sources: dict[str, _Stated]


def with_sources(document: Any, model: type[T], where: str) -> T:
    """A document whose rows call its ``sources`` by their names: their members are of the type
    ``Source``. Arguments and errors as of ``typed``."""
    stated = typed(document, _Sources, where).sources
    sources = {name: Source(row.text, row.date, row.mark) for name, row in stated.items()}
    names = {name: name for name in sources}
    return typed({**document, "sources": names}, model, where, sources=sources)


def _plain(value: Any, depth: int = 0) -> Any:
    """A value without the classes by which Ansible notes where a text, number or list came from.
    YAML's anchors may nest it without end: below ``_MOST_DEPTH`` it is cut."""
    if depth > _MOST_DEPTH:
        return "..."
    if isinstance(value, Mapping):
        return {_plain(key): _plain(member, depth + 1) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(member, depth + 1) for member in value]
    kinds = (kind for kind in (str, int, float) if isinstance(value, kind))
    kind = None if isinstance(value, bool) else next(kinds, None)
    return value if kind is None else kind(value)


def _of_name(sources: Mapping[str, Source], kind: type, value: Any) -> Any:
    if kind is Source:
        if not isinstance(value, str) or value not in sources:
            raise ValueError(f"there is no source {value!r}{did_you_mean(str(value), sources)}")
        return sources[value]
    if get_origin(kind) is not re.Pattern:
        raise NotImplementedError(kind)
    try:
        return re.compile(value)
    except (re.error, TypeError) as error:
        raise ValueError(f"{value!r} is no regular expression: {error}") from error


def _problem(message: str, data: Any, model: Any, convert: _Convert) -> tuple[list[Any], str]:
    """The path that a message of msgspec is of, and a sentence with the value there."""
    text, _, path = message.replace("`key` in ", "").partition(" - at `$")
    place, steps, value, kind = "", [], data, inspect.type_info(model)
    alternatives: Any = kind
    for member, number, some in _STEP.findall(path):
        step: Any = int(number) if number else member
        step = _culprit(value, data, message, convert) if some else step
        alternatives, kind = kind, _inner(_alternative(kind, value), step)
        value = value[step]
        steps.append(step)
        place += f"[{step}]{_label(value)}" if number else f".{step}"
    expected_kind, place = _alternative(kind, value), place.lstrip(".") or "it"
    if match := _MEMBER.fullmatch(text):
        return [*steps, match[2]], _of_member(match, f"{place}.".removeprefix("it."), expected_kind)
    if not text.startswith(("Expected ", "Invalid ")):
        return steps, f"{place}: {text}".removeprefix("it: ")
    problem = "is"
    if "`key` in " in message:
        problem, expected_kind = (
            "has a wrong key, of",
            getattr(expected_kind, "key_type", expected_kind),
        )
    subject = f"{place} {problem} {shown(value)}: it must be"
    return steps, f"{subject} {_requirement(text, value, kind, expected_kind, alternatives)}"


def _requirement(text: str, value: Any, kind: Any, expected_kind: Any, alternatives: Any) -> str:
    """The valid values of a member, which has a type, among alternatives ``expected_kind``."""
    if text.startswith("Invalid "):
        tags = [option.tag for option in getattr(alternatives, "types", ())]
        choices = getattr(expected_kind, "values", tags)
        listed = ", ".join(choice or "empty" for choice in choices)
        hint = did_you_mean(str(value), choices)
        return f"one of {listed}{hint}" if choices else "a date, as 2026-11-20"
    return _description(kind) or _in_words(text)


def _of_member(match: re.Match[str], prefix: str, model: Any) -> str:
    """A member that is missing, or not known."""
    if match[1] == "missing required":
        return f"{prefix}{match[2]} is missing"
    members = [field.encode_name for field in getattr(model, "fields", ())]
    hint = did_you_mean(match[2], members) or f"; there are {', '.join(members)}"
    return f"{prefix}{match[2]} is not known{hint}"


def _in_words(text: str) -> str:
    """The types that msgspec expected."""
    expected = text.removeprefix("Expected ").partition(", got ")[0]
    for kinds in re.findall(r"`.*?`", expected):
        words = [_WORDS[name] for name in kinds.strip("`").split(" | ") if name in _WORDS]
        expected = expected.replace(kinds, " or ".join(words))
    return expected


def _culprit(mapping: dict[Any, Any], data: Any, message: str, convert: _Convert) -> Any:
    """The key of a mapping in the document whose value the message is of."""
    for key, value in list(mapping.items()):
        mapping.clear()
        mapping[key] = value
        try:
            convert(data)
        except msgspec.ValidationError as error:
            if str(error) == message:
                break
    return key


def _label(row: Any) -> str:
    """The name of a row of a list, which tells more than its number."""
    names = [row[name] for name in _LABELS if name in row] if isinstance(row, dict) else []
    return f" ({shown(names[0])})" if names else ""


def _alternative(kind: Any, value: Any) -> Any:
    """The type among alternatives that a value is to have: by its tag, else by its shape."""
    if isinstance(kind, inspect.Metadata):
        return _alternative(kind.type, value)
    kinds = getattr(kind, "types", (kind,))
    if isinstance(value, dict):
        kinds = [
            option for option in kinds if hasattr(option, "fields") or hasattr(option, "value_type")
        ]
        kinds = [
            option for option in kinds if getattr(option, "tag", None) in value.values()
        ] or kinds
    elif isinstance(value, list):
        kinds = [option for option in kinds if hasattr(option, "item_type")]
    return kinds[0] if kinds else kind


def _inner(kind: Any, step: Any) -> Any:
    """The type of a member, of a list's item or of a mapping's value."""
    members = {field.encode_name: field.type for field in getattr(kind, "fields", ())}
    kind = getattr(kind, "item_type", getattr(kind, "value_type", inspect.AnyType()))
    return members.get(step, kind)


def _description(kind: Any) -> str | None:
    """The description that the type of a member states."""
    kinds = [kind, *getattr(kind, "types", ())]
    texts = [
        (getattr(option, "extra_json_schema", None) or {}).get("description") for option in kinds
    ]
    return next(filter(None, texts), None)
