"""Plan a role: check its variables, and compute the lists of its tasks in Python."""

from __future__ import annotations

import functools
import importlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.release import __version__

# In a playbook of one's own the callback of that name, which says so too, may not be enabled.
try:
    from trueup_controller.project import CATALOG, FOLDER, PREFIX, ROLES, require_libraries

    require_libraries()
    from trueup_controller.actions import answer_of, in_check_mode, node_of
    from trueup_controller.plan_loader import room_of, tool_of
    from trueup_controller.removed_options import unknown_option
    from trueup_controller.role_folders import role_files
    from trueup_controller.settings import ansible_problem
    from trueup_node import benchmarks
    from trueup_node.errors import TrueupError
    from trueup_node.options import MODULE, Option, refusals, unwritable
    from trueup_node.plan import PlanInputs, Templated
except ModuleNotFoundError as missing:
    message = (
        f"The Python of this Ansible has no {missing.name}, which trueup's plays need: run `make"
        " controller-venv` in trueup's checkout, and use the ansible-playbook in its .venv/bin."
    )
    raise AnsibleError(message) from None
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from trueup_node.plan import Look, Plan

DOCUMENTATION = r"""
name: trueup_plan
short_description: Plan a role once, in Python
description:
  - Takes the variables of the role that it stands in, of the types that its argument_specs say, and
    refuses those that the role does not have, that are out of range, and what the plan refuses.
  - Returns what the plan of the role's room says (C(trueup_node.plan.Plan)). Nothing is changed;
    the node is asked what the room's C(asks) says, modules or actions of ours, and with
    M(program_facts) for its C(programs). What these publish as facts of the host, this does too.
  - A node that no play has identified is asked first, and its fact C(trueup_node) is published.
  - RV(is_converged) says whether the role has nothing to do on the node.
options:
  found:
    description: What modules found out about the node, for the plan.
    type: dict
    default: {}
  measuring:
    description:
      - Whether cases are to be measured now. The node is asked what the room's C(asks_to_measure)
        says too.
    type: bool
    default: false
  converging:
    description:
      - Whether the role's tasks follow. The node is asked, in check mode, all queries of the room's
        C(convergence); without them RV(is_converged) is true only of a role that is skipped here.
      - Where tags choose steps or roles, the node is not asked, and the chosen tasks run.
    type: bool
    default: false
  roles:
    description:
      - Roles that are planned one after the other, as with O(converging), in place of the role that
        this stands in. RV(unconverged) are those from the first on that has something to do, or
        that cannot be planned here. Those before it need not be included, which costs the
        controller several times as much (docs/dev/measurements.md).
    type: list
    elements: str
"""

# Of a role whose options no room declares: upper limits by the last word of a number's name.
_LIMITS = {"percent": 100.0}
# The parser in C is ten times as fast, where PyYAML was built with it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# The tags of a role's steps.
_STEPS = ("install", "configure", "verify")
_SPEC_KEYS = ("type", "elements", "choices", "no_log", "options")


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"found", "measuring", "converging", "roles"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The plan's values, ``skipped_here`` and, of a benchmark, ``cases``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        if "roles" in self._task.args:
            result.update(self._unconverged(self._task.args["roles"], variables))
            return result
        role = self._task._role
        if role is None:
            message = "trueup_plan stands in no role, and plans the role that it stands in"
            raise AnsibleActionFail(message)
        path = Path(role._role_path)
        result.update(self.plan_of(path, variables))
        if boolean(self._task.args.get("converging", False)):
            self._check_convergence(path.name, result, variables)
        return result

    def _unconverged(self, roles: list[str], variables: dict[str, Any]) -> dict[str, Any]:
        """``unconverged``: the roles from the first one with work on, and what the others before it
        report."""
        result: dict[str, Any] = {"changed": False}
        facts: dict[str, Any] = {}
        stats: dict[str, Any] = {}
        for number, role in enumerate(roles):
            plan = self._converged(role, variables)
            if plan is None:
                result["unconverged"] = roles[number:]
                break
            facts.update(plan.get("ansible_facts", {}))
            stats.update(plan.get("ansible_stats", {}).get("data", {}))
            result["changed"] = result["changed"] or plan.get("changed", False)
        return {"unconverged": [], **result, **_reported(facts, stats)}

    def _converged(self, role: str, variables: dict[str, Any]) -> dict[str, Any] | None:
        """The plan of a role without work; None of one that has work, or cannot tell."""
        path = _path_of(role, variables)
        if not (_is_planned_ahead(path) and hasattr(room_of(role), "convergence")):
            return None
        try:
            plan = self.plan_of(path, {**_defaults(path), **variables})
        except AnsibleActionFail:
            # The role's own tasks report the problem.
            return None
        self._check_convergence(role, plan, variables)
        return plan if plan["is_converged"] else None

    def plan_ahead(
        self, role: str, variables: dict[str, Any], node: dict[str, Any]
    ) -> dict[str, Any] | None:
        """The plan of a role outside of its tasks; None where its preflight has tasks beside the
        plan, or it is not a role of this project."""
        path = _path_of(role, variables)
        if not _is_planned_ahead(path):
            return None
        return self.plan_of(path, {**_defaults(path), **variables}, node)

    def plan_of(
        self, path: Path, variables: dict[str, Any], node: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The plan of the role in a folder, with the facts that were asked for; ``node`` where its
        caller has looked at it already."""
        name = path.name
        facts: dict[str, Any] = {}
        identity = self._node(variables, facts) if node is None else node
        role_options = _checked(self, name, path, variables)
        hidden = secrets_of(path / "meta" / "argument_specs.yml", name)
        room = room_of(name)
        inputs = PlanInputs(
            options={key: value for key, value in role_options.items() if key not in hidden},
            secrets={key: value for key, value in role_options.items() if key in hidden},
            node=identity,
            host=str(variables.get("inventory_hostname", "")),
            found=self._found(),
            hostvars=variables.get("hostvars") or {},
            hosts=beside_it(variables),
            groups=variables.get("groups") or {},
            variables=Templated(variables, self._templar.template),
            project=FOLDER,
            catalog=_catalog,
            data=_data(name, path),
            python=self._python(variables),
        )
        try:
            plan = self._planned(room, inputs, facts, variables)
        except TrueupError as error:
            raise AnsibleActionFail(f"{name}: {error}") from error
        if plan.refused:
            raise AnsibleActionFail(" ".join(plan.refused))
        is_skipped = any(skipped.what == name for skipped in plan.skipped)
        planned = {"is_converged": is_skipped, **plan.as_result()}
        return {**planned, **({"ansible_facts": facts} if facts else {})}

    def _check_convergence(
        self, role: str, planned: dict[str, Any], variables: dict[str, Any]
    ) -> None:
        """Set ``is_converged`` of a plan by the node's answers, with their facts and what run.json
        records of the role."""
        room = room_of(role)
        if planned["is_converged"] or not hasattr(room, "convergence"):
            return
        if not _all_steps(role, variables):
            return
        node = {"trueup_node": self._node(variables, planned.get("ansible_facts", {}))}
        known = Templated({**variables, **node}, self._templar.template)
        convergence = room.convergence(planned, known)
        facts: dict[str, Any] = {}
        if convergence.has_work or any(
            self._has_work(look, variables, planned, facts) for look in convergence.looks
        ):
            return
        planned["is_converged"] = True
        planned.update(_reported({**planned.get("ansible_facts", {}), **facts}, convergence.stats))

    def _has_work(
        self,
        look: Look,
        variables: dict[str, Any],
        planned: dict[str, Any],
        facts: dict[str, Any],
    ) -> bool:
        """Whether the node's answer shows work; ``facts`` gets the answer's facts, ``planned``
        whether the query changed something."""
        arguments = {name: value for name, value in look.arguments.items() if value is not None}
        try:
            with in_check_mode(self, not look.reads):
                response = answer_of(self, look.module, arguments, variables, look.environment)
        except AnsibleActionFail:
            return True
        changes = response.get("changed") and not look.reads
        if response.get("failed") or changes or look.wrong(response):
            return True
        if look.renewed(response):
            planned["changed"] = True
        facts.update(response.get("ansible_facts") or {})
        return False

    def _planned(
        self, room: ModuleType, inputs: PlanInputs, facts: dict[str, Any], variables: dict[str, Any]
    ) -> Plan:
        """The room's plan, after its questions to the node; ``facts`` gets the node's facts."""
        measuring = boolean(self._task.args.get("measuring", False))
        for module, arguments in _asks(room, inputs, measuring=measuring):
            response = self._ask(module, arguments, variables)
            facts.update(response.pop("ansible_facts", {}))
            inputs = replace(inputs, found={**inputs.found, **response, **facts})
        plan: Plan = room.plan(inputs)
        return plan

    def _found(self) -> dict[str, Any]:
        """Results of the role's tasks before the plan."""
        results: Any = self._task.args.get("found") or {}
        if not isinstance(results, dict):
            raise AnsibleActionFail(f"trueup_plan: found is {results!r}: it must be a mapping")
        return dict(results)

    def _node(self, variables: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
        """The node's identity: the play's ``trueup_node``, which is the fact of that name. A node
        that nothing has identified is asked now, and ``facts`` gets its answer."""
        known = {**(variables.get("ansible_facts") or {}), **facts}.get("trueup_node")
        node: dict[str, Any] = node_of(self, variables) or known or {}
        if not node:
            if problem := ansible_problem(__version__):
                raise AnsibleActionFail(problem)
            facts.update(self._ask("azure_node_facts", {}, variables)["ansible_facts"])
            node = facts["trueup_node"]
        return node

    def _python(self, variables: dict[str, Any]) -> str:
        """The path that is given as ansible_python_interpreter, or that Ansible found."""
        interpreter = str(self._templar.template(variables.get("ansible_python_interpreter") or ""))
        if interpreter.startswith("/"):
            return interpreter
        discovered = (variables.get("ansible_facts") or {}).get("discovered_interpreter_python")
        return str(discovered or "/usr/bin/python3")

    def _ask(
        self, module: str, arguments: dict[str, Any], variables: dict[str, Any]
    ) -> dict[str, Any]:
        """The response of a module on the node, or of trueup's action of that name."""
        response = answer_of(self, module, arguments, variables)
        if response.get("failed"):
            raise AnsibleActionFail(str(response.get("msg")), result=response)
        return response


def preload() -> None:
    """Load the inputs of plans: rooms, argument_specs, defaults, vars and the catalog. Called
    before workers are forked (callback trueup_records), so that not each of them does it again."""
    for preflight in role_files(ROLES, "tasks/preflight.yml").values():
        path = preflight.parents[1]
        room_of(path.name)
        described(path / "meta" / "argument_specs.yml")
        _data(path.name, path)
        _defaults(path)
    for catalog in sorted(CATALOG.glob("*.yml")):
        _catalog(catalog.name)


def _reported(facts: Mapping[str, Any], stats: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of the host and values of run.json as Ansible takes them from a result."""
    per_host = {"data": dict(stats), "per_host": True, "aggregate": True}
    return {
        **({"ansible_facts": dict(facts)} if facts else {}),
        **({"ansible_stats": per_host} if stats else {}),
    }


def beside_it(variables: Mapping[str, Any]) -> list[str]:
    """The hosts that a play has not lost, less those of Windows: no case of several nodes holds
    them."""
    windows = set((variables.get("groups") or {}).get("windows") or ())
    return [host for host in variables.get("ansible_play_hosts") or [] if host not in windows]


def _asks(
    room: ModuleType, inputs: PlanInputs, *, measuring: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Modules of facts with their arguments; None is left out."""
    questions = {"program_facts": room.programs(inputs)} if hasattr(room, "programs") else {}
    for name in ("asks", *(["asks_to_measure"] if measuring else [])):
        if hasattr(room, name):
            questions.update(getattr(room, name)(inputs))
    for module, arguments in questions.items():
        yield module, {name: value for name, value in arguments.items() if value is not None}


def _checked(action: Any, role: str, path: Path, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The role's variables without its prefix, typed; or fail with all that is wrong of them."""
    specs = described(path / "meta" / "argument_specs.yml")
    prefix = f"{role}_"
    variable_names = {name for name in variables if name.startswith(prefix)}
    wrong = [
        unknown_option(name, role, specs, CATALOG) for name in sorted(variable_names - set(specs))
    ]
    values = {
        name: action._templar.template(variables[name]) for name in specs if name in variables
    }
    wrong += _taken_out(values, specs)
    validator = ArgumentSpecValidator({name: _typed(spec) for name, spec in specs.items()})
    checked = validator.validate(values)
    wrong += [
        f"{'There is no ' if isinstance(error, UnsupportedError) else ''}{error.msg}."
        for error in checked.errors
    ]
    typed = {
        name.removeprefix(prefix): value
        for name, value in checked.validated_parameters.items()
        if name in values
    }
    if not checked.error_messages:
        wrong += [f"{text}." for text in refusals(options_of(role, specs), typed, prefix)]
    if wrong:
        # A node's unmet need costs it the benchmark; wrong variables end the run (preflight.yml).
        raise AnsibleActionFail(" ".join(wrong), result={"wrong_variables": True})
    return typed


def _taken_out(values: dict[str, Any], specs: Mapping[str, Any]) -> list[str]:
    """A sentence of each value that nothing can be given, which is taken out: Ansible's own
    sentence of a wrong value would show it."""
    wrong = []
    for name in list(values):
        kinds = (specs[name].get("type"), specs[name].get("elements"))
        text = unwritable(values[name], name, path="path" in kinds)
        if text:
            wrong.append(f"{text}.")
            del values[name]
    return wrong


def _typed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a described variable that define its type. A path stays as it is written: ``~``
    is the home of the user on the node, and would become this machine's here."""
    typed_spec = {key: spec[key] for key in _SPEC_KEYS if key in spec}
    for key in ("type", "elements"):
        if typed_spec.get(key) == "path":
            typed_spec[key] = "str"
    return typed_spec


def secrets_of(path: Path, role: str) -> set[str]:
    """The variables whose values no result may show, without the role's prefix."""
    specs = described(path).items()
    return {name.removeprefix(f"{role}_") for name, spec in specs if spec.get("no_log")}


def described(path: Path) -> dict[str, dict[str, Any]]:
    """Every variable that a role's argument_specs describe, by name."""
    try:
        return _described(path, path.stat().st_mtime_ns)
    except (OSError, KeyError, TypeError, yaml.YAMLError) as error:
        raise AnsibleActionFail(f"{path}: no readable argument_specs ({error})") from error


# Each of a play's 600 hosts asks for the same files; their times tell whether they changed.
@functools.lru_cache(maxsize=64)
def _described(path: Path, _changed_ns: int) -> dict[str, dict[str, Any]]:
    specs = _loaded(path)["argument_specs"]
    return {
        name: spec for entry in specs.values() for name, spec in entry.get("options", {}).items()
    }


def _all_steps(role: str, variables: Mapping[str, Any]) -> bool:
    """Whether the run's tags leave no task of the role out."""
    run, skip = (set(variables.get(f"ansible_{kind}_tags") or ()) for kind in ("run", "skip"))
    return run <= {"all", "health"} and skip.isdisjoint({role, *_STEPS, "all", "always", "tagged"})


def _is_planned_ahead(path: Path) -> bool:
    """Whether a role of this project has a preflight that is its plan alone."""
    is_own = ROLES.resolve() in path.resolve().parents
    has_preflight = (path / "tasks" / "preflight.yml").is_file()
    return is_own and has_preflight and not getattr(room_of(path.name), "OWN_PREFLIGHT", False)


def _defaults(path: Path) -> dict[str, Any]:
    """The defaults of a role as they are written."""
    file = path / "defaults" / "main.yml"
    if not file.is_file():
        return {}
    values: dict[str, Any] = _read(file, file.stat().st_mtime_ns) or {}
    return values


def _path_of(role: str, variables: Mapping[str, Any]) -> Path:
    """The folder of a role, as Ansible finds it."""
    folders = [Path(variables["playbook_dir"], "roles"), *map(Path, constants.DEFAULT_ROLES_PATH)]
    # A collection finds its own roles first.
    folders = [ROLES, *folders] if PREFIX else folders
    return next(
        (folder / role for folder in folders if (folder / role).is_dir()), folders[-1] / role
    )


def _data(role: str, path: Path) -> dict[str, Any]:
    file = path / "vars" / "main.yml"
    if not file.is_file():
        return {}
    read = _read(file, file.stat().st_mtime_ns)
    return {name.removeprefix(f"__{role}_"): value for name, value in (read or {}).items()}


def _catalog(name: str) -> Any:
    path = CATALOG / name
    return _read(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=256)
def _read(path: Path, _changed_ns: int) -> Any:
    return _loaded(path)


def _loaded(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 WHY: a safe one


def options_of(role: str, specs: Mapping[str, Mapping[str, Any]]) -> tuple[Option, ...]:
    """The role's options with their ranges: those that a benchmark's room declares; of other roles
    the numbers of argument_specs.yml, none of which is below zero."""
    tool = tool_of(role)
    if tool:
        case = importlib.import_module(f"{benchmarks.__name__}.{tool}.case")
        return tuple(option for option in getattr(case, "OPTIONS", ()) if option.of != MODULE)
    return tuple(
        Option(
            name.removeprefix(f"{role}_"),
            "",
            type=spec["type"],
            least=0,
            most=_LIMITS.get(name.rpartition("_")[2]),
        )
        for name, spec in specs.items()
        if spec.get("type") in {"int", "float"}
    )
