"""Finds the module that plans a role."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from trueup_node import benchmarks, node
from trueup_node.errors import BadInput

if TYPE_CHECKING:
    from types import ModuleType

# Packages that hold a role's plan, in the order of the search. Plans in trueup_node.node share code
# with modules of the node.
_PACKAGES = (
    *(f"{__package__}.{room}" for room in ("plans", "desktops", "sites")),
    node.__name__,
)


@functools.lru_cache(maxsize=64)
def tool_of(role: str) -> str:
    """The benchmark that a role measures; empty where it measures none."""
    for folder in sorted(Path(benchmarks.__file__).parent.iterdir()):
        if folder.name == role and (folder / "output.py").is_file():
            return role
        if (folder / "output.py").is_file():
            output = importlib.import_module(f"{benchmarks.__name__}.{folder.name}.output")
            if getattr(output, "ROLE", None) == role:
                return folder.name
    return ""


@functools.lru_cache(maxsize=64)
def room_of(role: str) -> ModuleType:
    """The module with ``plan`` of a role."""
    tool = tool_of(role)
    names = [f"{package}.{tool or role}" for package in _PACKAGES]
    names += [f"{benchmarks.__name__}.{tool}.case"] if tool else []
    for name in names:
        if importlib.util.find_spec(name) is not None:
            module = importlib.import_module(name)
            if hasattr(module, "plan"):
                return module
    message = f"no module plans the role {role}: one of {', '.join(names)} must have plan(inputs)"
    raise BadInput(message)
