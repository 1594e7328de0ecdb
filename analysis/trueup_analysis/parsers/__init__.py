"""Tools whose output is read, a room each with ``output``, ``signatures`` and ``view``
(``trueup_node.benchmarks`` describes these).

The rooms of tools that nodes run are in ``trueup_node.benchmarks``. This package holds the rooms of
tools that only other people run.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from trueup_node import benchmarks

if TYPE_CHECKING:
    from types import ModuleType


@cache
def _packages() -> dict[str, str]:
    """The package of each tool's room."""
    return {
        info.name: f"{package}.{info.name}"
        for package, path in ((benchmarks.__name__, benchmarks.__path__), (__name__, __path__))
        for info in pkgutil.iter_modules(path)
    }


def names() -> list[str]:
    """All tools, sorted."""
    return sorted(_packages())


def part(tool: str, name: str) -> ModuleType:
    """A module of a tool's room, such as ``output``.

    Raises:
        KeyError: there is no such tool.
    """
    return importlib.import_module(f"{_packages()[tool]}.{name}")
