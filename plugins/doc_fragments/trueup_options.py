"""Documentation of the options that a benchmark's room declares: ``trueup_options.<tool>``."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import yaml
from trueup import benchmarks
from trueup.options import ROLE


def page_of(tool: str) -> str | None:
    """The module's options as documentation; None where the room declares none."""
    case = importlib.import_module(f"{benchmarks.__name__}.{tool}.case")
    if not hasattr(case, "OPTIONS"):
        return None
    options: dict[str, Any] = {}
    for one in case.OPTIONS:
        if one.of != ROLE:
            spec = {name: value for name, value in one.spec().items() if name != "no_log"}
            options[one.name] = {"description": one.described(), **spec}
    return yaml.safe_dump({"options": options}, sort_keys=False)


def pages() -> dict[str, str]:
    """By the name that a module extends, in capital letters."""
    rooms = Path(benchmarks.__file__).parent.glob("*/case.py")
    found = {path.parent.name: page_of(path.parent.name) for path in rooms}
    return {tool.upper(): page for tool, page in found.items() if page is not None}


# Ansible's entry: a class with a text for each tool.
ModuleDocFragment = type("ModuleDocFragment", (), pages())
