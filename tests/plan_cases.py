"""Plans of roles as golden cases, tests/data/plans/<role>.cases: a call of a plan's function with
the changes of its inputs, and the whole result, or its difference from the case that ``of`` names.

    PYTHONPATH=tests python tests/plan_cases.py        writes the results of all cases anew

A difference that this makes is read first.
"""

from __future__ import annotations

import base64
import collections
import copy
import dataclasses
import difflib
import functools
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import role_plans
import yaml
from trueup_controller.benchmark_roles import role_of
from trueup_node.errors import BadInput
from trueup_node.plan import Now, Plan, PlanInputs, Skipped

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "data" / "plans"
_LAYERS = ("plans", "desktops", "sites")
_NODE, _HOME = "a node of", "~"
# Members that stand for others: of the catalog, a mapping with a default, dummies of secrets.
_SIZES, _RECIPES, _OTHERWISE, _BYTES, _REPEATED = (
    *("catalog sizes", "catalog recipes", "otherwise", "base64 of bytes below", "repeated"),
)
_LONG_JSON = 4000


def role_folder(module: str) -> str:
    """The role of a plan's module, which a benchmark may call otherwise."""
    room = ROOT / "module_utils" / "trueup_node" / "benchmarks" / module
    return role_of(module) if room.is_dir() else module


class _Dumper(yaml.CSafeDumper):
    """YAML with texts of several lines as blocks."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def base_node(named: str) -> dict[str, Any]:
    """The node that a case begins with: ``ndv4 ubuntu-24.04``, or ``windows`` and a size."""
    return copy.deepcopy(_base_node(named))


@functools.cache
def _base_node(named: str) -> dict[str, Any]:
    kind, _, system = named.partition(" ")
    return role_plans.windows_node(system) if kind == "windows" else role_plans.node(kind, system)


def module_of(role: str) -> Any:
    """The module with the role's plan."""
    for layer in _LAYERS:
        if (ROOT / "controller" / "trueup_controller" / layer / f"{role}.py").is_file():
            return importlib.import_module(f"trueup_controller.{layer}.{role}")
    raise LookupError(role)


def changed(value: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """A mapping with other members; None takes one away where ``without`` names it."""
    without = changes.get("without", [])
    more = {name: given for name, given in changes.items() if name != "without"}
    return {name: given for name, given in {**value, **more}.items() if name not in without}


def _recipes(_: Any, more: dict[str, Any]) -> dict[str, Any]:
    return {**role_plans.catalog("vllm_recipes.yml")["recipes"], **more}


_NAMED: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    _NODE: lambda named, more: changed(base_node(named), more),
    _SIZES: lambda _, more: {**role_plans.SIZES, **more},
    _RECIPES: _recipes,
    _OTHERWISE: lambda default, more: collections.defaultdict(lambda: default, more),
    _BYTES: lambda count, _: base64.b64encode(bytes(range(count))).decode(),
    _REPEATED: lambda parts, _: parts[0] * parts[1] + parts[2],
}


def decoded(value: Any) -> Any:
    """A value of a case, in which a node stands as changes of one of the catalog."""
    if isinstance(value, dict):
        more = {name: decoded(given) for name, given in value.items() if name not in _NAMED}
        name = next((name for name in _NAMED if name in value), "")
        return _NAMED[name](value[name], more) if name else more
    return [decoded(item) for item in value] if isinstance(value, list) else value


def inputs_of(role: str, case: dict[str, Any]) -> PlanInputs:
    """The inputs of a case."""
    base = role_plans.asked(role_folder(role), base_node(case["node"]))
    given = decoded(case.get("given", {}))
    return dataclasses.replace(
        base,
        **{
            name: changed(getattr(base, name), value) if isinstance(value, dict) else value
            for name, value in given.items()
        },
    )


def result_of(role: str, case: dict[str, Any]) -> str:
    """The result of a case's call, as text."""
    module, _, name = f"{role}.{case['call']}".rpartition(".")
    function = getattr(module_of(module.rpartition(".")[2]), name)
    try:
        if "args" in case:
            result = function(*decoded(case["args"]), **decoded(case.get("more", {})))
        elif name == "completed":
            given = decoded(case["now"])
            result = function(decoded(case["case"]), Now(**given))
        else:
            result = function(inputs_of(role, case))
    except BadInput as error:
        result = {"BadInput": str(error)}
    return shown(result)


def shown(result: Any) -> str:
    """A result as YAML, without the places of this machine."""
    if isinstance(result, Plan):
        result = {
            **({"refused": result.refused} if result.refused else {}),
            **({} if result.refused else result.as_result()),
        }
    elif isinstance(result, Skipped):
        result = {"skipped": result._asdict()}
    plain = _without_catalog(json.loads(json.dumps(result, default=str)))
    text = yaml.dump(plain, Dumper=_Dumper, sort_keys=True, width=110, allow_unicode=True)
    return text.replace(str(ROOT), "ROOT").replace(str(Path.home()), _HOME)


def _without_catalog(value: Any) -> Any:
    """The value; of a long JSON text, which holds parts of the catalog, the members' names."""
    if isinstance(value, dict):
        return {name: _without_catalog(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_without_catalog(item) for item in value]
    if isinstance(value, str) and len(value) > _LONG_JSON and value.startswith("{\n"):
        return f"JSON: {', '.join(sorted(json.loads(value)))}"
    return value


def difference(before: str, after: str) -> str:
    """The lines that differ, with their places."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return "\n".join([*lines][2:]) + "\n"


def checked(role: str, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases with the results of today's code."""
    whole: dict[str, str] = {}
    results = []
    for case in cases:
        text = result_of(role, case)
        whole[case["name"]] = text
        gives = difference(whole[case["of"]], text) if "of" in case else text
        results.append({**case, "gives": gives})
    return results


def read(folder: Path, name: str) -> list[dict[str, Any]]:
    """The cases of a file."""
    cases: list[dict[str, Any]] = yaml.load(
        (folder / f"{name}.cases").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
    )
    return cases


def write(folder: Path, name: str, cases: list[dict[str, Any]]) -> None:
    """Write the cases of a file."""
    text = yaml.dump(cases, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
    (folder / f"{name}.cases").write_text(text, encoding="utf-8")


ROLES = tuple(sorted(path.stem for path in FOLDER.glob("*.cases")))

if __name__ == "__main__":
    for each in ROLES:
        write(FOLDER, each, checked(each, read(FOLDER, each)))
