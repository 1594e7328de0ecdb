"""Plain values of options, read without pydantic.

typer checks each value with pydantic, which takes 0.1 s to import and more to set up. Values that
are not plain still go through pydantic, which reports their errors.
"""

from __future__ import annotations

import os
import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from typer.core import TyperOption

if TYPE_CHECKING:
    from collections.abc import Callable

_READER: Final = "get_runtime_param"
_NOT_PLAIN: Final = object()
# Python and pydantic read these alike.
_NUMBERS: Final = {
    int: re.compile(r"[0-9]{1,15}").fullmatch,
    float: re.compile(r"[0-9]{1,15}([.][0-9]{1,15})?").fullmatch,
}


def read_plainly() -> None:
    """Have typer read plain values without pydantic; one without pydantic stays as it is."""
    kind: Any = next((base for base in TyperOption.__mro__ if _READER in vars(base)), None)
    if kind is not None:
        theirs = getattr(kind, _READER)
        setattr(kind, _READER, lambda _: _Plain(theirs))


class _Plain:
    """Stands in for typer's reader of a parameter's value; ``theirs`` makes the original reader."""

    def __init__(self, theirs: Callable[[Any], Any]) -> None:
        self._theirs = theirs

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        plain = self._found(value, param)
        if plain is _NOT_PLAIN:
            return self._theirs(param).coerce(value, param=param, ctx=ctx)
        return plain

    @staticmethod
    def _found(value: Any, param: Any) -> Any:
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        kind, about = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        if about.parser is not None:
            return _NOT_PLAIN
        if not several:
            return _plain(value, kind, about)
        if not isinstance(value, (list, tuple)):
            return _NOT_PLAIN
        plain_values = [_plain(member, get_args(kind)[0], about) for member in value]
        return _NOT_PLAIN if _NOT_PLAIN in plain_values else plain_values


def _plain(value: Any, kind: Any, about: Any) -> Any:
    """The value as a parameter's function takes it, or that it is not plainly one."""
    if kind is str:
        return value if isinstance(value, str) else _NOT_PLAIN
    if kind in _NUMBERS:
        return _number(value, kind, about)
    if kind is Path:
        return _path(value, about)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next((member for member in kind if value in {member, member.value}), _NOT_PLAIN)
    return _NOT_PLAIN


def _number(value: Any, kind: Any, about: Any) -> Any:
    if isinstance(value, str) and _NUMBERS[kind](value):
        value = kind(value)
    is_one = type(value) is kind and not about.clamp
    least = about.min is None or (is_one and value >= about.min)
    most = about.max is None or (is_one and value <= about.max)
    return value if is_one and least and most else _NOT_PLAIN


def _path(value: Any, about: Any) -> Any:
    checks = (about.exists, about.writable, about.resolve_path, about.allow_dash, about.path_type)
    if any(checks) or not (about.file_okay and about.dir_okay):
        return _NOT_PLAIN
    # typer refuses a file that exists and cannot be read.
    if about.readable and not os.access(value, os.R_OK) and os.path.exists(value):
        return _NOT_PLAIN
    return Path(value)
