"""The fault dictionary (catalog/faults) for the messages of failed tasks."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import yaml
from trueup_node.errors import BadInput
from trueup_node.health import dictionary
from trueup_node.health.faults import Faults, of_document, watched_of

from .project import CATALOG

if TYPE_CHECKING:
    from trueup_node.health.dictionary import Dictionary

_FOLDER = CATALOG / "faults"
_CODES = "xid.yml"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MOST_LINE = 200


@functools.lru_cache(maxsize=1)
def codes() -> Faults:
    """XIDs and SXids.

    Raises:
        BadInput: the file cannot be read, or is wrong.
    """
    return of_document(_document(_CODES), str(_FOLDER / _CODES))


@functools.lru_cache(maxsize=1)
def watched() -> dict[str, Any]:
    """The entries whose lines a node counts in its kernel log, as ``watched_of`` makes them."""
    return watched_of(map(_document, _names()))


def explanation(text: str) -> str:
    """The first cause that the dictionary recognises in a program's output, its line and its fix,
    as a sentence; empty where it recognises none."""
    match = _dictionary().first_cause(text)
    if match is None:
        return ""
    line = match.line.strip()[:_MOST_LINE]
    return f"Known cause: {match.entry.meaning} ({line}). Fix: {match.entry.fix}."


def fix_of(text: str) -> str:
    """The fix of the first cause that the dictionary recognises in a message; or empty."""
    match = _dictionary().first_cause(text)
    return "" if match is None or match.entry.fix in text else match.entry.fix


def explained(response: dict[str, Any]) -> dict[str, Any]:
    """The answer of a failed module; its message names the cause where its ``output_tail`` holds
    one."""
    tail = response.get("output_tail")
    if not response.get("failed") or not tail:
        return response
    known = explanation("\n".join(map(str, tail)))
    return {**response, "msg": f"{response.get('msg', '')}\n{known}"} if known else response


@functools.lru_cache(maxsize=1)
def _dictionary() -> Dictionary:
    return dictionary.of_documents({name: _document(name) for name in _names()}, codes())


def _names() -> list[str]:
    return sorted(path.name for path in _FOLDER.glob("*.yml") if path.name != _CODES)


def _document(name: str) -> Any:
    path = _FOLDER / name
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 WHY: a safe one
    except (OSError, yaml.YAMLError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error
