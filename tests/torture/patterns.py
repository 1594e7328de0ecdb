"""Every regular expression of what is shipped, on floods.

A pattern is taken apart. Each of its repetitions gets a text of 64,000 characters: what comes
before it, and what it repeats, over and over, with an end that does not match. A time that is
square in the length needs seconds for it, and a linear one milliseconds; SIGPROF ends a process
that takes longer.
"""

from __future__ import annotations

import ast
import importlib
import os
import random
import re
import signal
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from re import _constants as codes
from re import _parser as parser
from typing import TYPE_CHECKING, Any

from torture import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2]
_LENGTH = 64_000
_SECONDS = 0.6
_VARIANTS = 5
_SEARCHING = {"search", "finditer", "findall", "sub", "subn", "split"}
_ANCHORED = {"match", "fullmatch"}
# How patterns are used that their module hands to a function.
_USED = {
    ("gromacs/output.py", "_DT"): "match",
    ("gromacs/output.py", "_STEPS"): "match",
    ("gromacs/output.py", "_TIME"): "match",
    ("gromacs/output.py", "_TIME_HEADER"): "match",
    ("gromacs/output.py", "_BUILD"): "match",
    ("hpl/output.py", "_ENDING"): "fullmatch",
    ("nv_a10/output.py", "_ENCODED"): "match",
    ("controller/trueup_controller/plans/shared_storage.py", "_SOURCES"): "fullmatch",
    # On 64 characters, _LOOK_BACK.
    ("trueup/redaction.py", "_BEGIN"): "match",
}
_OF_CATEGORY = {
    codes.CATEGORY_DIGIT: ("1", r"\d"),
    codes.CATEGORY_NOT_DIGIT: ("a ", r"\D"),
    codes.CATEGORY_SPACE: (" \n", r"\s"),
    codes.CATEGORY_NOT_SPACE: ("a1-", r"\S"),
    codes.CATEGORY_WORD: ("a1", r"\w"),
    codes.CATEGORY_NOT_WORD: (" -", r"\W"),
}
_OTHERS = 'a1 -=:."/\\\n'


def _named(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """The patterns of a constant of a module, also in its tables."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 4:
        inner: Iterable[Any] = ()
        if isinstance(value, (list, tuple, set, frozenset)):
            inner = value
        elif isinstance(value, dict):
            inner = value.values()
        elif is_dataclass(value) and not isinstance(value, type):
            inner = [getattr(value, one.name, None) for one in fields(value)]
        for one in inner:
            yield from _named(one, depth + 1)


def _namespace(path: Path) -> dict[str, Any]:
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] not in ("module_utils", "analysis") or parts[-1] == "__main__":
        return {}
    return vars(importlib.import_module(".".join(parts[1:]).removesuffix(".__init__")))


def _mode(path: Path, name: str, used: set[str]) -> str:
    told = _USED.get(("/".join(path.parts[-2:]), name))
    if told or used & _SEARCHING or not used & _ANCHORED:
        return told or "search"
    return "match" if "match" in used else "fullmatch"


def found() -> Iterator[tuple[str, re.Pattern[Any], str]]:
    """Each pattern: where, and how it is used. What is made at run time is not found."""
    for folder in (
        "module_utils/trueup_node",
        "analysis/trueup_analysis",
        "plugins",
        "roles",
        "library",
    ):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            if re.search(r"\bre\.", text):
                yield from _of_module(path, ast.parse(text))


def _of_module(path: Path, tree: ast.Module) -> Iterator[tuple[str, re.Pattern[Any], str]]:
    names = _namespace(path)
    where = str(path.relative_to(ROOT))
    calls = [
        (node, node.func.value.id, node.func.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
    ]
    for name, value in _constants(tree):
        known = names.get(name) if names else _evaluated(value, {"re": re})
        used = {how for _, of, how in calls if of == name}
        for pattern in _named(known):
            yield f"{where} {name}", pattern, _mode(path, name, used)
    for call, of, how in calls:
        if of == "re" and how in _SEARCHING | _ANCHORED:
            pattern = _evaluated(call.args[0], names)
            flags = [*call.args[1:], *(one.value for one in call.keywords if one.arg == "flags")]
            if isinstance(pattern, (str, bytes)):
                told = [_evaluated(one, {"re": re}) for one in flags]
                both = sum(one for one in told if isinstance(one, re.RegexFlag))
                yield f"{where}:{call.lineno}", re.compile(pattern, both), how


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                yield target.id, node.value


def _evaluated(node: ast.expr, names: dict[str, Any]) -> Any:
    """A constant expression; None for what only a call knows."""
    try:
        return eval(compile(ast.Expression(node), "pattern", "eval"), dict(names))
    except (NameError, AttributeError, TypeError, LookupError, ValueError):
        return None


def _signs(item: tuple[Any, Any]) -> str:
    """Characters that a part of one character takes."""
    code, value = item
    if code is codes.LITERAL:
        return chr(value)
    if code is codes.CATEGORY:
        return _OF_CATEGORY[value][0]
    if code is codes.IN and value[0][0] is not codes.NEGATE:
        return "".join(
            chr(one[0] if kind is codes.RANGE else one)
            if kind is not codes.CATEGORY
            else _signs((kind, one))
            for kind, one in value
        )[:6]
    if code in (codes.NOT_LITERAL, codes.IN):
        refused = [(codes.LITERAL, value)] if code is codes.NOT_LITERAL else value[1:]
        return "".join(sign for sign in _OTHERS if not _is_one(sign, refused))[:5] or "\x01"
    return "a 1" if code is codes.ANY else ""


def _is_one(sign: str, kinds: list[tuple[Any, Any]]) -> bool:
    for kind, one in kinds:
        if kind is codes.CATEGORY:
            if re.match(_OF_CATEGORY[one][1], sign):
                return True
        else:
            low, high = one if kind is codes.RANGE else (one, one)
            if low <= ord(sign) <= high:
                return True
    return False


def _sample(parts: Iterable[tuple[Any, Any]], variant: int = 0) -> str:
    """A text that these parts take, as short as may be."""
    text = ""
    for code, value in parts:
        if code is codes.SUBPATTERN:
            text += _sample(value[3], variant)
        elif code is codes.BRANCH:
            text += _sample(value[1][variant % len(value[1])], variant)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            text += _sample(value[2], variant) * min(value[0], 200)
        elif signs := _signs((code, value)):
            text += signs[variant % len(signs)]
    return text


def _floods(parts: Iterable[tuple[Any, Any]], before: str = "") -> Iterator[tuple[str, str]]:
    """For each repetition: what stands before it, and what is said over and over."""
    parts = list(parts)
    for place, (code, value) in enumerate(parts):
        begin = before + _sample(parts[:place])
        inner = []
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            inner = [value[2]]
            for variant in range(_VARIANTS if value[1] > 40 else 0):
                unit = _sample(value[2], variant)
                yield begin, unit
                yield begin, unit + _sample(parts[place + 1 : place + 3], variant)
                yield "", begin + unit
        elif code is codes.SUBPATTERN:
            inner = [value[3]]
        elif code is codes.BRANCH:
            inner = value[1]
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            inner = [value[1]]
        for one in inner:
            yield from _floods(one, begin)


def slow(pattern: re.Pattern[Any], how: str) -> str:
    """The flood that takes it too long; nothing where none does."""
    parts = parser.parse(pattern.pattern, pattern.flags)
    chosen = {(begin, unit) for begin, unit in _floods(parts) if unit}
    chosen |= {("", unit) for _, unit in chosen} | {
        ("", unit) for unit in ("a", "1", " ", "\n", '"')
    }
    chosen.add(("", _sample(parts) or "a"))
    source, end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _flood(pattern, how, sorted(chosen), end)
        finally:
            os._exit(0)
    os.close(end)
    said = b""
    while more := os.read(source, 1 << 16):
        said = (said + more)[-400:]
    os.close(source)
    status = os.waitpid(child, 0)[1]
    return said.decode(errors="replace").splitlines()[-1] if status else ""


def _flood(pattern: re.Pattern[Any], how: str, chosen: list[tuple[str, str]], end: int) -> None:
    for begin, unit in chosen:
        for last in ("", "\x00"):
            text: Any = begin + unit * (_LENGTH // len(unit)) + last
            text = text.encode() if isinstance(pattern.pattern, bytes) else text
            os.write(end, f"{begin[:40]!r} {unit[:40]!r} {last!r}\n".encode())
            signal.setitimer(signal.ITIMER_PROF, _SECONDS)
            if how in _ANCHORED:
                getattr(pattern, how)(text)
            else:
                for _ in pattern.finditer(text):
                    pass


def floods(count: int, seed: int) -> Tally:
    """All of them, or so many that are drawn."""
    sys.path[:0] = [str(ROOT / one) for one in ("module_utils", "analysis", "")]
    tally = Tally()
    every = list(found())
    for where, pattern, how in random.Random(seed).sample(every, min(count, len(every))):
        flood = slow(pattern, how)
        if flood:
            tally.lose(f"{where}: {how} of {pattern.pattern!r:.100} on {flood}")
        else:
            tally.survived()
    return tally
