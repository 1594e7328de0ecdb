"""A role is planned once, in Python: a plan's inputs go in, and data that the role's tasks go
through comes out.

The action ``trueup_plan`` collects the inputs, calls ``plan(inputs)`` of the role's module
(``trueup_controller.plan_loader`` finds it), fails with the plan's refusals, and returns the rest.
Tests plan a role without a node and without root.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from .errors import BadInput


def _no_catalog(name: str) -> Any:
    raise BadInput(f"no catalog was handed over, and catalog/{name} is asked for")


class Templated(Dict[str, Any]):
    """Variables of a play; a value is worked out when it is first looked at."""

    def __init__(self, variables: Mapping[str, Any], template: Callable[[Any], Any]) -> None:
        super().__init__(variables)
        self._template = template
        self._known: Dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = self._template(super().__getitem__(name))
        return self._known[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 WHY: it is this method


@dataclass(frozen=True)
class PlanInputs:
    """The inputs of a role's plan.

    Attributes:
        options: the role's variables without its prefix, of the types that its argument_specs say,
            but for the secret ones: values made of these end in a registered result.
        secrets: the secret ones.
        node: the fact ``trueup_node``; empty where nobody has identified the node.
        host: the node's name in the inventory.
        found: the modules' facts of the node, as the task hands them over.
        hostvars: variables of every host of the inventory, by name.
        hosts: the names of the hosts that this play has not lost.
        groups: the inventory's groups: the names of their hosts.
        variables: the play's, worked out when looked at: ``trueup_*``, and those that one role must
            know of another, such as ``python_*`` and ``eessi_version``. No secret is looked at.
        project: the folder with catalog/ and roles/.
        catalog: gives a YAML file of catalog/ by its name, read.
        data: the role's vars/main.yml as it is written, names without ``__<role>_``: versions, URLs
            and names by operating system.
        python: the Python that Ansible uses on the node.
    """

    options: Mapping[str, Any]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    node: Mapping[str, Any] = field(default_factory=dict)
    host: str = ""
    found: Mapping[str, Any] = field(default_factory=dict)
    hostvars: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    hosts: List[str] = field(default_factory=list)
    groups: Mapping[str, List[str]] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    project: Path = field(default_factory=Path)
    catalog: Callable[[str], Any] = _no_catalog
    data: Mapping[str, Any] = field(default_factory=dict)
    python: str = "/usr/bin/python3"

    def text(self, path: str) -> str:
        """A file of the project, such as ``roles/stream/files/stream_kernel.c``."""
        return (self.project / path).read_text(encoding="utf-8")

    def program(self, source: str) -> Dict[str, Any]:
        """A program of the project in the role's folder, as config_files takes it."""
        path = f"{self.options['prefix']}/{source.rpartition('/')[2]}"
        return {"path": path, "source": source, "mode": "0755"}


class Now(NamedTuple):
    """Facts known when a case of a benchmark begins, beyond those of its plan. A room that needs
    them has ``completed(case, now)``, which gives the case that is measured, or ``Skipped`` where
    earlier figures have shown that this one need not be.

    Attributes:
        host: the node's name in the inventory.
        records: those of this run that ended ok, of all benchmarks, oldest first: of a case of one
            node those that begin on it, of one of several those of all nodes.
        hosts: the names of the hosts that this play has not lost.
        hostvars: variables of every host of the inventory, by name.
    """

    host: str
    records: Sequence[Mapping[str, Any]]
    hosts: Sequence[str]
    hostvars: Mapping[str, Mapping[str, Any]]


class Skipped(NamedTuple):
    """A benchmark or feature that this node cannot have, and why; reports name it."""

    what: str
    why: str


def _nothing(_: Mapping[str, Any]) -> bool:
    return False


class Look(NamedTuple):
    """A question to the node, whether a role has something to do there: a module that is run in
    check mode and would change nothing.

    Attributes:
        module: the module, or the action of that name.
        arguments: of the module; None is left out.
        wrong: whether something is to be done all the same, by its result.
        reads: whether it is not told of check mode, and a reported change means nothing: a command
            that reads, but for the changes that ``renewed`` finds.
        renewed: whether the answer says that something was changed.
        environment: of a command, the variables that it is run with.
    """

    module: str
    arguments: Mapping[str, Any]
    wrong: Callable[[Mapping[str, Any]], Any] = _nothing
    reads: bool = False
    renewed: Callable[[Mapping[str, Any]], Any] = _nothing
    environment: Optional[Mapping[str, str]] = None


@dataclass(frozen=True)
class Convergence:
    """The conditions under which a role has nothing to do on a node.

    Attributes:
        looks: the queries to the node, in this order, until a response shows work.
        has_work: whether the plan itself shows work.
        stats: the values that run.json keeps of the role, by name (``trueup_*``).
    """

    looks: Sequence[Look] = ()
    has_work: bool = False
    stats: Mapping[str, Any] = field(default_factory=dict)


def files_look(files: Sequence[Mapping[str, Any]]) -> Look:
    """Whether the role's files are in place."""
    return Look("config_files", {"files": files})


def packages_look(
    node: Mapping[str, Any], pins: Sequence[Mapping[str, Any]], *, held: bool = True, **more: Any
) -> Look:
    """Whether packages are installed, and held where they are to be. ``more`` as vendor_repository
    takes it."""

    def wrong(response: Mapping[str, Any]) -> Any:
        return response["wrong"] or (held and (response["hold"] or response["unheld"]))

    arguments = {"package_manager": node["package_manager"], "pins": pins, **more}
    return Look("vendor_repository", arguments, wrong)


def unit_look(**arguments: Any) -> Look:
    """Whether a unit is as wanted, or a command has read its files, in service_current's terms."""

    def wrong(response: Mapping[str, Any]) -> Any:
        # The role's own task repeats a lenient unit's problem, and writes the missing record.
        return response["problem"] or response["not_restarted"] or response["unrecorded"]

    return Look("service_current", arguments, wrong)


def sentences(wrong: Mapping[str, Any]) -> List[str]:
    """The sentences whose condition holds, in their order: a plan's refusals."""
    return [sentence for sentence, is_wrong in wrong.items() if is_wrong]


@dataclass(frozen=True)
class Plan:
    """The data that a role's tasks go through.

    Attributes:
        values: by name, as JSON has them; each is one key of the action's result.
        skipped: benchmarks and features that this node cannot have.
        refused: errors in the inputs, a sentence each, with the mend. Any fails the task.
        cases: of a benchmark, the module's arguments for each case, in the order of measuring;
            without ``None`` members.
        notes: sentences on choices of the plan, for the reader of the run.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    skipped: List[Skipped] = field(default_factory=list)
    refused: List[str] = field(default_factory=list)
    cases: Optional[List[Dict[str, Any]]] = None
    notes: List[str] = field(default_factory=list)

    def as_result(self) -> Dict[str, Any]:
        """The keys of the registered result."""
        result = dict(self.values)
        result["skipped_here"] = [
            {"what": skipped.what, "why": skipped.why} for skipped in self.skipped
        ]
        if self.notes:
            result["notes"] = list(self.notes)
        if self.cases is not None:
            result["cases"] = [
                {name: value for name, value in case.items() if value is not None}
                for case in self.cases
            ]
        # A plan is data: a value that JSON cannot hold fails here and not in a worker of Ansible.
        plain: Dict[str, Any] = json.loads(json.dumps(result))
        return plain
