"""Write what follows from the options that the benchmarks' rooms declare: each role's ``defaults``
and the options in its ``argument_specs``, and of a new role the files that all of them begin with;
and the pages of the plays' own variables, of what is not tested, of NCCL's and FSLogix's settings
and of what a deployment on Azure is made of.
``make options`` runs it; a contract compares."""

from __future__ import annotations

import importlib
import json
import re
import textwrap
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import family_pages
import fslogix_page
import launch_page
import monitoring
import nccl_page
import skill_page
import untested
import yaml
from msgspec import inspect
from trueup_controller import settings
from trueup_controller.azure import parameters
from trueup_controller.settings import PREFIX
from trueup_node import benchmarks
from trueup_node.options import MODULE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trueup_node.options import Option

ROOT = Path(__file__).parent.parent
WIDTH = 120
# PyYAML ends a line only after it, and what is dumped is indented by up to six.
_DUMPED = 90
_IN_A_LINE = 70
HEAD = "# Written by `make options` from module_utils/trueup_node/benchmarks/{}/case.py.\n"

# Of a new role: what its files hold until somebody writes more into them.
MAIN = {
    "short_description": "Install the benchmark",
    "description": "Installs the benchmark; docs/benchmarks has a page of its name.",
}
SKELETON = {
    "meta/main.yml": """\
---
galaxy_info:
  author: trueup contributors
  description: The benchmark TOOL
  license: MIT
  min_ansible_version: "2.19"
  platforms:
    - name: Ubuntu
      versions: [jammy, noble]
""",
    "tasks/main.yml": """\
---
- name: Check variables and programs
  ansible.builtin.include_tasks:
    file: preflight.yml
    apply: {tags: [ROLE, install]}
  when: "'ROLE' not in trueup_preflighted | default([])"
  tags: [ROLE, install]
""",
    "tasks/preflight.yml": """\
---
- name: Plan ROLE
  trueup_plan:
  register: __ROLE_plan
""",
    "tasks/benchmark.yml": """\
---
- name: Plan ROLE
  trueup_plan:
  register: __ROLE_plan

- name: Measure TOOL
  ansible.builtin.include_tasks: "{{ role_path }}/../../playbooks/tasks/cases.yml"
  vars:
    cases_benchmark: TOOL
    cases_plan: "{{ __ROLE_plan }}"
""",
}


def declared() -> Iterator[tuple[str, str, tuple[Option, ...]]]:
    """(role, benchmark, its role's options) of every room that declares them."""
    for path in sorted(Path(benchmarks.__file__).parent.glob("*/case.py")):
        tool = path.parent.name
        case = importlib.import_module(f"trueup_node.benchmarks.{tool}.case")
        output = importlib.import_module(f"trueup_node.benchmarks.{tool}.output")
        if hasattr(case, "OPTIONS"):
            options = tuple(one for one in case.OPTIONS if one.of != MODULE)
            yield getattr(output, "ROLE", tool), tool, options


def defaults(role: str, tool: str, options: tuple[Option, ...]) -> str:
    """``defaults/main.yml``: each variable with what it is and why."""
    parts = ["---\n" + HEAD.format(tool)]
    for one in options:
        text = " ".join(filter(None, (one.described(), one.why)))
        comment = textwrap.fill(text, WIDTH, initial_indent="# ", subsequent_indent="# ")
        parts.append(f"{comment}\n{_dumped({f'{role}_{one.name}': _default(one)})}")
    return "\n".join(parts)


def _default(one: Option) -> Any:
    if one.variable:
        return f"{{{{ lookup('ansible.builtin.env', '{one.variable}') }}}}"
    return one.default


def argument_specs(root: Path, role: str, tool: str, options: tuple[Option, ...]) -> str:
    """``meta/argument_specs.yml``: its entry point as it is, with these options."""
    path = root / "roles" / role / "meta" / "argument_specs.yml"
    main = MAIN
    if path.exists():
        main = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]["main"]
    said = {key: value for key, value in main.items() if key != "options"}
    shown = {f"{role}_{one.name}": _specified(one) for one in options}
    head = "---\n" + HEAD.format(tool) + "argument_specs:\n  main:\n"
    described = textwrap.indent(_dumped(shown), " " * 6)
    return head + textwrap.indent(_dumped(said), " " * 4) + "    options:\n" + described


def _specified(one: Option) -> dict[str, Any]:
    spec = {key: value for key, value in one.spec().items() if key != "required"}
    if one.secret:
        # Ansible shows every default when it refuses a variable.
        spec.pop("default", None)
    if one.fields:
        parts = {part.name: {"description": part.described(), **part.spec()} for part in one.fields}
        spec["options"] = parts
    return {"description": one.described(), **spec}


class _Dumper(yaml.SafeDumper):
    """Lists stand indented, as yamllint asks; short ones of plain values in one line."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, False)


def _listed(dumper: _Dumper, data: Sequence[Any]) -> yaml.SequenceNode:
    plain = not any(isinstance(one, (dict, list)) for one in data)
    short = plain and len(", ".join(map(str, data))) <= _IN_A_LINE
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=short)


_Dumper.add_representer(list, _listed)
_Dumper.add_representer(tuple, _listed)


def _dumped(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_DUMPED, allow_unicode=True)


VARIABLES = """\
# Variables of the plays

`make options` writes this page from trueup_controller.settings. A variable `trueup_*` that is
not here, or has another type, is rejected by name before any node is asked. The variables of a role
begin with its name: `roles/<role>/defaults/main.yml` lists them (`roles/desktops/` for Windows,
`roles/sites/` for a site's services). Set both in your inventory, or for one run with `-e`; a list
needs JSON: `-e '{"trueup_benchmarks": ["stream"]}'`.

| variable | default | what it is |
| --- | --- | --- |
"""
RESULTS = """
Records go to the folder that the environment variable `TRUEUP_RESULTS` names (default: `results`).
"""


def variables() -> str:
    """docs/reference/variables.md."""
    rows = [
        f"| `{PREFIX}{one.name}` ({one.type}) | {_shown(one)} | {one.described()} |\n"
        for one in settings.OPTIONS
    ]
    return VARIABLES + "".join(rows) + RESULTS


DEPLOYMENT = """\
# Parameters of a deployment on Azure

`make options` writes this page from trueup_controller.azure.parameters. A recipe and a
user's file of parameters hold them ([azure_provision](../guides/azure_provision.md)).
`nodes.count` stands for `count` below `nodes`. A name that is not here is refused.

| parameter | default | what it is |
| --- | --- | --- |
"""


def deployment() -> str:
    """docs/reference/azure_parameters.md."""
    rows = "".join(_rows(inspect.type_info(parameters.Stated), ""))
    return DEPLOYMENT + rows


def _rows(kind: Any, where: str) -> Iterator[str]:
    """A row for each member of a model, and for the members of a model in it."""
    texts = _described(kind.cls)
    for field in kind.fields:
        metas = getattr(field.type, "types", (field.type,))
        inner = getattr(field.type, "item_type", field.type)
        is_list = inner is not field.type
        if not isinstance(inner, inspect.StructType) or is_list:
            text, default = texts[field.encode_name]
            name, kind_name = f"{where}{field.encode_name}", _KINDS[type(metas[0])]
            about = f"{text[:-1]}{_limits(metas[0])}"
            yield f"| `{name}` ({kind_name}) | {default or _written(field)} | {about} |\n"
        if isinstance(inner, inspect.StructType):
            yield from _rows(inner, f"{where}{field.encode_name}{'[]' if is_list else ''}.")


_KINDS = {
    inspect.StrType: "str",
    inspect.LiteralType: "str",
    inspect.BoolType: "bool",
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.ListType: "list",
    inspect.DictType: "dict",
}


def _described(model: type) -> dict[str, tuple[str, str]]:
    """Of a model's docstring: each member's text, and its default in words."""
    _, _, listed = cleandoc(str(model.__doc__)).partition("Attributes:\n")
    entries = re.findall(r"^    (\w+): ((?:.|\n     )+)", listed, re.MULTILINE)
    texts = {}
    for name, lines in entries:
        text, _, default = " ".join(lines.split()).partition(" Default: ")
        text, required, _ = text.partition(" Required.")
        texts[name] = (text, "must be given" if required else default.removesuffix("."))
    return texts


def _limits(kind: Any) -> str:
    choices = getattr(getattr(kind, "item_type", kind), "values", ())
    least, most = (getattr(kind, name, None) for name in ("ge", "le"))
    parts = [f"{least:g} or more"] if least not in (None, -1e300) else []
    parts += [f"{most:g} or less"] if most not in (None, 1e300) else []
    listed = ", ".join(f"`{word}`" for word in choices if word)
    return (f": {', '.join(parts)}." if parts else ".") + (f" One of {listed}." if choices else "")


def _written(field: Any) -> str:
    return f"`{json.dumps(field.default)}`" if field.default != "" else "empty"


def _shown(one: Option) -> str:
    if one.why:
        return one.why
    return f"`{json.dumps(one.default)}`" if one.default != "" else "empty"


def files(root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """Every file that follows from a declaration, and its text."""
    yield root / settings.PAGE, variables()
    yield root / untested.PAGE, untested.page(root)
    yield root / nccl_page.PAGE, nccl_page.page(root)
    yield root / launch_page.PAGE, launch_page.page(root)
    yield root / fslogix_page.PAGE, fslogix_page.page()
    yield root / monitoring.PAGE, monitoring.dashboard()
    yield root / skill_page.PAGE, skill_page.page()
    for name, text in family_pages.pages(root):
        yield root / name, text
    yield root / "docs" / "reference" / "azure_parameters.md", deployment()
    for role, tool, options in declared():
        folder = root / "roles" / role
        yield folder / "defaults" / "main.yml", defaults(role, tool, options)
        yield folder / "meta" / "argument_specs.yml", argument_specs(root, role, tool, options)
        for name, text in SKELETON.items():
            if not (folder / name).exists():
                yield folder / name, text.replace("TOOL", tool).replace("ROLE", role)


if __name__ == "__main__":
    for path, text in files(Path.cwd()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
