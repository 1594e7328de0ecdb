"""Plans of roles on a machine whose answers are known beforehand, without Ansible and a node.

The action ``trueup_plan`` asks the same rooms in a play. Variables are checked by the same
argument_specs.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from trueup_node import benchmarks
from trueup_node.errors import TrueupError
from trueup_node.options import MODULE, Option, misfits, refusals
from trueup_node.plan import Plan, PlanInputs

from trueup_controller.plan_loader import room_of, tool_of
from trueup_controller.removed_options import unknown_option
from trueup_controller.role_folders import role_files, role_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import ModuleType

# Types of argument_specs, as options call them; the rest is not checked.
_TYPES = {"path": "str", "str": "str"}
# Where the role nvme_scratch mounts local disks.
SCRATCH = "/mnt/resource_nvme"
# Texts that Ansible takes for true and false.
_YES, _NO = ("yes", "on", "1", "true", "y", "t"), ("no", "off", "0", "false", "n", "f")
# In the place of a secret that the run will have.
_PLANNED = "planned"


@dataclass(frozen=True)
class Machine:
    """A node with all that its plans ask.

    Attributes:
        node: the fact ``trueup_node``.
        answer: its answer to a module with arguments, facts among the keys.
        host: its name.
        hosts: all nodes of the play.
        hostvars, groups: as Ansible has them.
        variables: the play's.
        secrets: names of variables whose secret the run will have.
    """

    node: Mapping[str, Any]
    answer: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
    host: str
    hosts: Sequence[str]
    hostvars: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, list[str]]
    variables: Mapping[str, Any]
    secrets: frozenset[str] = field(default_factory=frozenset)


class Unforeseen(TrueupError):
    """A plan that cannot be made beforehand."""


class Planned(NamedTuple):
    """A role's plan, and the question that it answers."""

    inputs: PlanInputs
    plan: Plan


class Roles:
    """The roles of a project.

    Args:
        project: the folder with roles/ and catalog/.
    """

    def __init__(self, project: Path) -> None:
        self._project = project
        self._folders = role_folders(project / "roles")
        self._planned = role_files(project / "roles", "tasks/preflight.yml")
        self._documents: dict[Path, Any] = {}

    def has_plan(self, role: str) -> bool:
        """Whether a role is planned: those that a room has are."""
        return role in self._planned

    def catalog(self, name: str) -> Any:
        """A file of catalog/, read."""
        return self._read(self._project / "catalog" / name)

    def plan(self, role: str, machine: Machine) -> Planned:
        """The plan of a role on a machine; of wrong variables the refusal alone.

        Raises:
            Unforeseen: the plan needs an answer that only the node gives.
        """
        specs = self._specs(role)
        values, wrong = self._values(role, specs, machine.variables)
        inputs = self._inputs_of(role, machine, values, specs)
        if wrong:
            return Planned(inputs, Plan(refused=wrong))
        room = room_of(role)
        try:
            for module, arguments in _questions(room, inputs):
                answers = machine.answer(module, arguments)
                inputs = replace(inputs, found={**inputs.found, **answers})
            return Planned(inputs, room.plan(inputs))
        except TrueupError as error:
            return Planned(inputs, Plan(refused=[str(error)]))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # A plan takes the answers of its modules as they are. One that is not foreseen here is
            # for the role's own preflight, and no reason to refuse a recipe.
            raise Unforeseen(f"{role} is checked on the node alone ({error!r})") from error

    def _inputs_of(
        self,
        role: str,
        machine: Machine,
        values: Mapping[str, Any],
        specs: Mapping[str, Mapping[str, Any]],
    ) -> PlanInputs:
        """The question of a role."""
        prefix = f"{role}_"
        hidden = {name for name, spec in specs.items() if spec.get("no_log")}
        plain = {name: value for name, value in values.items() if name not in hidden}
        return PlanInputs(
            options={name.removeprefix(prefix): value for name, value in plain.items()},
            secrets={
                name.removeprefix(prefix): _PLANNED if name in machine.secrets else ""
                for name in hidden
            },
            node=machine.node,
            host=machine.host,
            found={"scratch": machine.variables.get("nvme_scratch_mount_point", SCRATCH)},
            hostvars=machine.hostvars,
            hosts=list(machine.hosts),
            groups=machine.groups,
            variables=machine.variables,
            project=self._project,
            catalog=self.catalog,
            data=self._data(role),
        )

    def _values(
        self, role: str, specs: Mapping[str, Mapping[str, Any]], variables: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        """A role's variables over its defaults, and everything that is wrong with them."""
        prefix = f"{role}_"
        role_variables = {
            name: value for name, value in variables.items() if name.startswith(prefix)
        }
        unknown = sorted(set(role_variables) - set(specs))
        typed = {
            name: _typed(role_variables[name], spec.get("type", ""))
            for name, spec in specs.items()
            if role_variables.get(name) is not None
        }
        wrong = [unknown_option(name, role, specs, self._project / "catalog") for name in unknown]
        # A template is filled in on the node.
        checked = {name: value for name, value in typed.items() if not _is_template(value)}
        options = [_option(name, spec) for name, spec in specs.items()]
        wrong += [text for _, text in misfits(options, checked)]
        defaults = self._read(self._folders[role] / "defaults" / "main.yml") or {}
        values = {
            name: _filled(value, specs.get(name, {}))
            for name, value in {**defaults, **typed}.items()
        }
        return values, wrong or _out_of_range(role, values)

    def _specs(self, role: str) -> dict[str, Mapping[str, Any]]:
        specs = self._read(self._folders[role] / "meta" / "argument_specs.yml")
        return {
            name: spec
            for entry in specs["argument_specs"].values()
            for name, spec in entry.get("options", {}).items()
        }

    def _data(self, role: str) -> dict[str, Any]:
        """A role's vars/main.yml, names without its prefix."""
        path = self._folders[role] / "vars" / "main.yml"
        rows = (self._read(path) if path.is_file() else None) or {}
        return {name.removeprefix(f"__{role}_"): value for name, value in rows.items()}

    def _read(self, path: Path) -> Any:
        if path not in self._documents:
            self._documents[path] = yaml.safe_load(path.read_text(encoding="utf-8"))
        return self._documents[path]


def _questions(room: ModuleType, inputs: PlanInputs) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Modules with their arguments, in the order of a play."""
    if hasattr(room, "programs"):
        yield "program_facts", room.programs(inputs)
    if hasattr(room, "asks"):
        yield from room.asks(inputs).items()


def _out_of_range(role: str, values: Mapping[str, Any]) -> list[str]:
    """Values outside the ranges that a benchmark's room declares."""
    tool, prefix = tool_of(role), f"{role}_"
    if not tool:
        return []
    case = importlib.import_module(f"{benchmarks.__name__}.{tool}.case")
    options = [option for option in getattr(case, "OPTIONS", ()) if option.of != MODULE]
    plain = {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if not isinstance(value, str)
    }
    return refusals(options, plain, prefix)


def _option(name: str, spec: Mapping[str, Any]) -> Option:
    """A variable of argument_specs as an option."""
    kind = spec.get("type", "str")
    return Option(
        name,
        "",
        type=_TYPES.get(kind, kind),
        elements=_TYPES.get(spec.get("elements", ""), spec.get("elements", "")),
        choices=tuple(spec.get("choices", ())),
        fields=tuple(
            _option(each, field_spec) for each, field_spec in spec.get("options", {}).items()
        ),
        least=None,
    )


def _is_template(value: Any) -> bool:
    return isinstance(value, str) and "{{" in value


def _typed(value: Any, kind: str) -> Any:
    """A text as the type that argument_specs name, where Ansible would make it; else the text."""
    if not isinstance(value, str) or _is_template(value):
        return value
    if kind == "list":
        return [text.strip() for text in value.split(",")]
    if kind == "bool":
        return {**dict.fromkeys(_YES, True), **dict.fromkeys(_NO, False)}.get(value.lower(), value)
    try:
        return {"int": int, "float": float}.get(kind, str)(value)
    except ValueError:
        return value


def _filled(value: Any, spec: Mapping[str, Any]) -> Any:
    """A value with the defaults of members that it leaves out, as Ansible fills them in."""
    inner = spec.get("options")
    if not inner:
        return value
    if isinstance(value, list):
        return [_filled(member, spec) for member in value]
    if not isinstance(value, dict):
        return value
    defaults = {name: member_spec.get("default") for name, member_spec in inner.items()}
    return {
        name: _filled(value.get(name, default), inner.get(name, {}))
        for name, default in {**value, **defaults}.items()
    }
