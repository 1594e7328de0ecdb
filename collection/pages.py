"""Documentation of modules and plugins in the form that Ansible's tools read in a collection: each
page whole in its own file, before the imports, with full names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
NAME = "trueup.azure_hpc"
AUTHOR = "trueup maintainers (@trueup)"
_BLOCKS = re.compile(
    r'^(DOCUMENTATION|EXAMPLES|RETURN) = r"""\n(.*?)^"""\n+', re.DOTALL | re.MULTILINE
)
_FUTURE = "from __future__ import annotations\n\n"
_DEFINITION = re.compile(r"\n{2,}(?=(?:class|def) )")
# M(name) and P(name#kind) of trueup's own, which have no dot.
_MODULE = re.compile(r"\bM\((\w+)\)")
_PLUGIN = re.compile(r"\bP\((\w+)#(\w+)\)")
# Values of an action's result, and members of lists, which a page of options cannot name.
_RETURNED = re.compile(r"\bRV\((\w+)\)|\bO\((\w+\[\]\.\w+)\)")
_SIDECAR = """#!/usr/bin/python
# The action plugin of this name runs on the controller.

"""


def whole(
    text: str, fragments: Callable[[str], dict[str, Any]], tasks: Callable[[str], str]
) -> str:
    """A module or plugin with its pages whole, first and with full names.

    Args:
        text: the file.
        fragments: the page that a name of ``extends_documentation_fragment`` stands for.
        tasks: gives tasks full names.
    """
    blocks: dict[str, str] = dict(_BLOCKS.findall(text))
    if "DOCUMENTATION" not in blocks or _FUTURE not in text:
        return text
    page = _joined(yaml.safe_load(blocks["DOCUMENTATION"]), fragments)
    blocks["DOCUMENTATION"] = _dumped(page)
    if "EXAMPLES" in blocks:
        blocks["EXAMPLES"] = _examples(blocks["EXAMPLES"], tasks)
    head, _, rest = without(text).partition(_FUTURE)
    written = "\n".join(f'{kind} = r"""\n{body}"""\n' for kind, body in blocks.items())
    return f"{head}{_FUTURE}{_full(written)}\n{rest}"


def of_action(text: str, tasks: Callable[[str], str]) -> str:
    """The page of an action that has no module, as the module of its name."""
    page = yaml.safe_load(dict(_BLOCKS.findall(text))["DOCUMENTATION"])
    name = page.pop("name")
    page = {"module": name, "version_added": "0.1.0", **page, "author": [AUTHOR]}
    required = [key for key, spec in page["options"].items() if spec.get("required")]
    example: dict[str, Any] = {"name": page["short_description"]}
    example[name] = {key: f"{{{{ {key} }}}}" for key in required} or None
    body = tasks(yaml.safe_dump([example], sort_keys=False))
    shown = _RETURNED.sub(lambda match: f"C({match[1] or match[2]})", _dumped(page))
    documentation = f'DOCUMENTATION = r"""\n{shown}"""\n\nEXAMPLES = r"""\n{body}"""\n'
    return f"{_SIDECAR}{_FUTURE}{_full(documentation)}"


def without(text: str) -> str:
    """The text without pages."""
    return _DEFINITION.sub("\n\n\n", _BLOCKS.sub("", text))


def fragments() -> Callable[[str], dict[str, Any]]:
    """Pages that modules extend, by name: ``trueup_options.stream``."""
    namespaces: dict[str, dict[str, Any]] = {}

    def page(name: str) -> dict[str, Any]:
        file, _, part = name.partition(".")
        if file not in namespaces:
            path = ROOT / "plugins" / "doc_fragments" / f"{file}.py"
            namespace: dict[str, Any] = {"__name__": file, "__file__": str(path)}
            exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)  # noqa: S102 WHY: our own file
            namespaces[file] = namespace
        text = getattr(namespaces[file]["ModuleDocFragment"], (part or "documentation").upper())
        read: dict[str, Any] = yaml.safe_load(text)
        return read

    return page


def _joined(page: dict[str, Any], fragments: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """A page with those of trueup that it extends."""
    extended = page.pop("extends_documentation_fragment", [])
    names = [extended] if isinstance(extended, str) else extended
    own = [name for name in names if name.startswith("trueup_")]
    if others := [name for name in names if name not in own]:
        page["extends_documentation_fragment"] = others
    for name in own:
        for key, value in fragments(name).items():
            if isinstance(value, dict):
                page[key] = {**value, **page.get(key, {})}
            elif isinstance(value, list):
                page[key] = [*page.get(key, []), *value]
    page["author"] = [AUTHOR]
    return page


def _dumped(page: dict[str, Any]) -> str:
    dumped: str = yaml.safe_dump(page, sort_keys=False, width=90, allow_unicode=True)
    return dumped


def _examples(text: str, tasks: Callable[[str], str]) -> str:
    if text.lstrip().startswith("- "):
        return tasks(text)
    return re.sub(r"(?m)^plugin: (\w+)$", rf"plugin: {NAME}.\1", text)


def _full(text: str) -> str:
    # An action has the page of a module.
    text = re.sub(r"\bP\((\w+)#action\)", r"M(\1)", text)
    return _PLUGIN.sub(rf"P({NAME}.\1#\2)", _MODULE.sub(rf"M({NAME}.\1)", text))
