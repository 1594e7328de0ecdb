"""The room of a role: the module that plans it."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from . import benchmarks
from .errors import BadInput

if TYPE_CHECKING:
    from types import ModuleType

# Where the plan of a role may stand.
_ROOMS = ("node", "cluster")


@functools.lru_cache(maxsize=64)
def tool_of(role: str) -> str:
    """The benchmark that a role measures; empty where it measures none."""
    for folder in sorted(Path(benchmarks.__file__).parent.iterdir()):
        if folder.name == role and (folder / "output.py").is_file():
            return role
        if (folder / "output.py").is_file():
            output = importlib.import_module(f"trueup.benchmarks.{folder.name}.output")
            if getattr(output, "ROLE", None) == role:
                return folder.name
    return ""


@functools.lru_cache(maxsize=64)
def room_of(role: str) -> ModuleType:
    """The module with ``plan`` of a role."""
    tool = tool_of(role)
    rooms = ("plan", "case") if tool else ()
    names = [f"trueup.benchmarks.{tool}.{room}" for room in rooms]
    names += [f"trueup.{room}.{role}" for room in _ROOMS]
    for name in names:
        if importlib.util.find_spec(name) is not None:
            module = importlib.import_module(name)
            if hasattr(module, "plan"):
                return module
    message = f"no room plans the role {role}: one of {', '.join(names)} must have plan(asked)"
    raise BadInput(message)
