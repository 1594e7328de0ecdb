"""Documentation of options that are declared in Python: those of a benchmark's room
(``trueup_options.<tool>``), with options and results of all benchmarks; ``OPTIONS`` of another
module (``trueup_options.<module>``); and those of a launcher alone."""

from __future__ import annotations

import importlib
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ansible.module_utils
import yaml
from trueup_node import benchmarks
from trueup_node.options import ROLE
from trueup_node.run.bench import COMMON
from trueup_node.run.launcher import LAUNCHER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trueup_node.options import Option

ROOT = Path(__file__).resolve().parents[2]
# A module imports ansible.module_utils.trueup_node, as in the archive that Ansible sends to a node.
if str(ROOT / "module_utils") not in ansible.module_utils.__path__:
    ansible.module_utils.__path__.append(str(ROOT / "module_utils"))

AUTHOR = "trueup contributors (@trueup)"
# By key; {} is the benchmark.
RETURNED = {
    "record": "the record of the case (schema C(trueup.record/1)); null in check mode, where the"
    " input was refused, and on a node whose peer has the record",
    "raw": "what the program printed, without credentials; of a long output of a run that failed or"
    " is invalid, the beginning and end; null when nothing ran",
    "command": "the command line",
    "environment": "the variables set for it, without secrets",
    "resumed": "which of O(earlier) stands for this case, from 0; null where it was measured",
    "holder": "where another benchmark holds the node, what that said of itself; null otherwise",
    "ansible_facts": "the record once more, as the fact C(trueup_{})",
}


def described(options: Iterable[Option]) -> dict[str, Any]:
    """A module's options as documentation."""
    by_name: dict[str, Any] = {}
    for option in options:
        if option.of != ROLE:
            spec = {"description": option.described(), **option.spec()}
            spec.pop("no_log", None)
            if spec.pop("options", None):
                spec["suboptions"] = described(option.fields)
            by_name[option.name] = spec
    return by_name


def page_of(tool: str) -> str | None:
    """The module's options as documentation; None where the room declares none."""
    case = importlib.import_module(f"{benchmarks.__name__}.{tool}.case")
    if not hasattr(case, "OPTIONS"):
        return None
    check = "Returns the command that would run, and runs nothing."
    page = {
        "author": AUTHOR,
        "options": described((*COMMON, *case.OPTIONS)),
        "attributes": {"check_mode": {"support": "full", "description": check}},
        "notes": [f"Returns C({key}): {text.format(tool)}." for key, text in RETURNED.items()],
    }
    return yaml.safe_dump(page, sort_keys=False)


def pages() -> dict[str, str]:
    """By the name that a module extends, in capital letters."""
    rooms = Path(benchmarks.__file__).parent.glob("*/case.py")
    page_by_tool = {path.parent.name: page_of(path.parent.name) for path in rooms}
    for path in (ROOT / "library").rglob("*.py"):
        if "\nOPTIONS = (" in path.read_text(encoding="utf-8"):
            options = described(runpy.run_path(str(path))["OPTIONS"])
            page_by_tool[path.stem] = yaml.safe_dump({"options": options}, sort_keys=False)
    launcher = {"author": AUTHOR, "options": described(LAUNCHER)}
    page_by_tool["launcher"] = yaml.safe_dump(launcher, sort_keys=False)
    return {tool.upper(): page for tool, page in page_by_tool.items() if page is not None}


# Ansible's entry: a class with a text for each tool.
ModuleDocFragment = type("ModuleDocFragment", (), pages())
