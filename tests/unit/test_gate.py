"""What a node returns is checked before anything on the controller uses it."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from helpers import ROOT, a_record, parametrized, said
from trueup_controller import gate
from trueup_node.errors import BadInput

RETURNS = gate.documented(ROOT / "library")
RUN = "20261120T091300Z-7c1e"
RECORD = a_record(case="x")
GIVEN = {"run_id": RUN, "node_name": "node-1", "node": {}, "nodes": [], "earlier": []}
problem = functools.partial(gate.answer_problem, returns=RETURNS)


def asked(module: str = "devito_bench", *, check: bool = False, **arguments: Any) -> gate.Asked:
    return gate.Asked("node-1", module, {**GIVEN, **arguments}, check)


def answer(**changes: Any) -> dict[str, Any]:
    record = {**RECORD, **changes}
    return {"changed": False, "record": record, "ansible_facts": {"trueup_devito": record}}


@parametrized(("given", "record"))
def test_a_record_of_what_was_asked_is_taken(given: dict[str, Any], record: dict[str, Any]) -> None:
    assert problem(asked(**given), answer(**record)) is None


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"run_id": "20261121T091300Z-7c1e"}, "has run_id '20261121T091300Z-7c1e', asked was"),
        ({"benchmark": "nccl"}, "has benchmark 'nccl', asked was 'devito'"),
        ({"nodes": ["b"]}, "is of nodes ['b'], asked was ['node-1']"),
        ({"nodes": ["node-1", "b"], "node_count": 2}, "is of nodes ['node-1', 'b'], asked was"),
        ({"node_count": 2}, "has node_count 2"),
        ({"region": "eastus"}, "has region 'eastus', asked was None"),
        ({"raw": {"path": "x", "sha256": "0" * 64}}, "names a file of raw output"),
        ({"ranks": 0}, ": ranks: 0 is less than the minimum of 1"),
        ({"software": {"x": "y" * (9 << 20)}}, ": 9437"),
    ],
)
def test_another_record_is_refused(record: dict[str, Any], why: str) -> None:
    assert f"its record{'' if why.startswith(':') else ' '}{why}" in str(
        problem(asked(), answer(**record))
    )


def test_a_run_of_another_form_is_no_run_even_if_it_was_asked() -> None:
    found = problem(asked(run_id="../x"), answer(run_id="../x"))
    assert found == "its record has run_id '../x', which is no run's"


@parametrized(("given", "more", "why"))
def test_an_answer_without_a_record_says_why(
    given: dict[str, Any], more: dict[str, Any], why: str | None
) -> None:
    whole = {"changed": False, "record": None, "ansible_facts": {}, **more}
    found = problem(asked(**given), whole)
    assert (found is None, why or "" in str(found)) == (why is None, why or True)
    if not more:
        assert problem(asked(check=True, **given), whole) is None


def test_facts_are_the_record_and_nothing_else() -> None:
    for facts in ({"trueup_devito": {}}, {"trueup_nccl": RECORD}, {"trueup_run_id": RUN}):
        found = problem(asked(), {**answer(), "ansible_facts": facts})
        assert found == "its facts are not its record"


@pytest.mark.parametrize(
    ("module", "facts", "why"),
    [
        ("command", {"trueup_run_id": RUN}, "it has the fact 'trueup_run_id', which that module"),
        ("setup", {"ansible_distribution": "Debian"}, None),
        ("slurm_facts", {"trueup_gpu": {}}, "it has 'trueup_gpu', which it never has"),
        ("slurm_facts", {"trueup_slurm": None}, "'trueup_slurm' is nothing"),
        ("slurm_facts", {"trueup_slurm": {}}, "trueup_slurm lacks hostname"),
        ("storage_facts", {"trueup_storage": {"/x": float("nan")}}, "its facts cannot be kept"),
        ("storage_facts", {"trueup_storage": {"/x": "\ud800"}}, "its facts cannot be kept"),
        ("storage_facts", {"trueup_storage": {"/x": "y" * (5 << 20)}}, "more than 4 MiB"),
    ],
)
def test_facts_are_those_of_the_module(module: str, facts: dict[str, Any], why: str | None) -> None:
    found = problem(asked(module), {"changed": False, "ansible_facts": facts})
    assert (found is None, (why or "") in str(found)) == (why is None, True)


def test_a_record_of_another_module_is_refused_but_of_a_job_that_was_left_to_itself() -> None:
    late = {"changed": False, "record": RECORD}
    assert problem(asked("command"), late) == "it has a record, and that module is no benchmark"
    assert problem(asked("async_status"), late) is None


def test_what_ansible_says_of_a_module_without_an_answer_is_taken() -> None:
    words = {"_ansible_parsed": False, "failed": True, "msg": "no JSON", "anything": 1}
    assert problem(asked(), words) is None


def test_a_node_is_in_the_family_of_its_size() -> None:
    node: dict[str, Any] = dict.fromkeys(
        RETURNS["azure_node_facts"]["ansible_facts"]["contains"]["trueup_node"]["contains"]
    )
    row = {"family": "hbv3", "vcpus": 120}

    def found(given: str = "", **changes: Any) -> str | None:
        whole = {**node, **changes}
        ask = asked("azure_node_facts", vm_size=given, catalog=json.dumps({"HB": row}))
        return problem(ask, {"changed": False, "ansible_facts": {"trueup_node": whole}})

    assert found(vm_size="HB", family="hbv3", catalog=row) is None
    assert found("hb", vm_size="HB", family="hbv3", catalog=row) is None
    assert found(family="local") is None
    assert found(vm_size="new", family="unknown") is None
    assert found(vm_size="HB", family="ndv4", catalog=row) == "family is 'ndv4', and not hbv3"
    assert found(family="all") == "family is 'all', and not local or unknown"
    assert found(vm_size="HB", family="hbv3") == "catalog is not the row of 'HB'"
    assert found("NC", vm_size="HB", family="hbv3", catalog=row) == (
        "vm_size is 'HB', and NC was given by hand"
    )


def test_a_peer_has_the_names_that_it_was_given() -> None:
    def found(names: list[str]) -> str | None:
        peer = {"names": names, "addresses": [], "public_key": "", "host_keys": []}
        return problem(asked("ssh_keys", names=["a", "a.b"]), {"changed": False, "peer": peer})

    assert found(["a", "a.b"]) is None
    assert found(["b"]) == "its peer is called ['b'], asked was ['a', 'a.b']"


@pytest.mark.parametrize("name", ["add_host", "add_group", "ansible_stats", "unreachable"])
def test_no_answer_steers_ansible(name: str) -> None:
    found = gate.shape_problem({"changed": False, name: {}})
    assert found == f"it has {name}, which only an action of the controller may return"


def test_size_and_depth_have_limits() -> None:
    deep: Any = 0
    for _ in range(gate.MOST_DEPTH - 1):
        deep = [deep]
    assert gate.shape_problem({"x": deep}) == "it is nested deeper than 40 levels"
    assert gate.shape_problem({"x": deep[0]}) is None
    assert gate.shape_problem({"x": [0] * gate.MOST_VALUES}) == "it has more than 1000000 values"
    assert gate.shape_problem({"ansible_facts": None}) == "its ansible_facts are no object"
    assert gate.text_problem("x" * gate.MOST_BYTES) is None
    assert "more than 64 MiB" in str(gate.text_problem("x" * (gate.MOST_BYTES + 1)))


class Base:
    """Stands in for Ansible's ActionBase: what the node prints is the module's argument."""

    def __init__(self) -> None:
        self._task = SimpleNamespace(action="normal", args={}, delegate_to=None, check_mode=False)
        self._discovered_interpreter_key: str | None = None

    def _execute_module(
        self,
        module_name: str = "",
        module_args: Any = None,
        tmp: Any = None,
        task_vars: Any = None,
        wrap_async: bool = False,
    ) -> Any:
        answer = self._parse_returned_data({"stdout": module_args["prints"]}, "legacy")
        if self._discovered_interpreter_key:
            # As Ansible's own code does where it has looked for the host's Python.
            facts = answer.setdefault("ansible_facts", {})
            facts[self._discovered_interpreter_key] = "/usr/bin/python3.12"
        return answer

    def _parse_returned_data(self, res: dict[str, Any], profile: str) -> Any:
        assert profile == "legacy"
        return json.loads(res["stdout"])


class Stopped(Exception):
    """The task failed."""


def refuse(sender: str, why: str) -> NoReturn:
    raise Stopped(f"{sender}: {why}")


@pytest.mark.parametrize(
    ("module", "prints", "why"),
    [
        ("command", {"rc": 0}, None),
        ("ansible.legacy.devito_bench", {}, "devito_bench: it measured nothing, and does not"),
        ("command", {"ansible_stats": {}}, "command: it has ansible_stats"),
        ("command", "[" * 100_000, "command: it is nested deeper than 40 levels"),
        ("command", " " * (gate.MOST_BYTES + 1), "command: it has 67108865 characters"),
    ],
)
@pytest.mark.parametrize(("delegated", "sender"), [(None, "node-1"), ("b", "b")])
def test_every_answer_passes_the_guard(
    module: str, prints: Any, why: str | None, delegated: str | None, sender: str
) -> None:
    class Action(Base):
        pass

    gate.guard(Action, RETURNS, refuse)
    gate.guard(Action, RETURNS, refuse)
    action = Action()
    action._task.delegate_to = delegated
    text = prints if isinstance(prints, str) else json.dumps(prints)
    given = {"module_args": {"prints": text}, "task_vars": {"inventory_hostname": "node-1"}}
    if why is None:
        assert action._execute_module(module, **given) == prints
        return
    with pytest.raises(Stopped) as stopped:
        action._execute_module(module, **given)
    assert str(stopped.value).startswith(f"{sender}: answer of {why}")


def test_an_answer_that_ansible_hands_on_as_an_object_passes_the_guard() -> None:
    """ansible-core 2.21: ``_parse_returned_data`` returns it, ``_execute_module`` its dict."""

    class Action(Base):
        def _execute_module(self, module_name: str = "", module_args: Any = None) -> Any:
            return super()._execute_module(module_name, module_args).as_result_dict()

        def _parse_returned_data(self, res: dict[str, Any], profile: str) -> Any:
            response = super()._parse_returned_data(res, profile)
            return SimpleNamespace(as_result_dict=lambda: response)

    gate.guard(Action, RETURNS, refuse)
    assert Action()._execute_module("command", {"prints": '{"rc": 0}'}) == {"rc": 0}
    with pytest.raises(Stopped, match="command: it has ansible_stats"):
        Action()._execute_module("command", {"prints": '{"ansible_stats": {}}'})


def test_the_python_that_ansible_discovered_is_no_answer_of_the_node() -> None:
    """The first module on a host whose inventory names no interpreter."""

    class Action(Base):
        pass

    gate.guard(Action, RETURNS, refuse)
    key = "discovered_interpreter_python"
    action = Action()
    action._discovered_interpreter_key = key
    answer = action._execute_module("config_files", {"prints": "{}"})
    assert answer["ansible_facts"] == {key: "/usr/bin/python3.12"}
    # One that a node sends of its own accord is none of Ansible's.
    sent = json.dumps({"ansible_facts": {key: "/tmp/python"}})
    with pytest.raises(Stopped, match="'discovered_interpreter_python', which it never has"):
        Action()._execute_module("config_files", {"prints": sent})


def test_a_job_that_is_left_to_itself_answers_later() -> None:
    class Action(Base):
        pass

    gate.guard(Action, RETURNS, refuse)
    begun = {"ansible_job_id": "j1", "started": 1, "results_file": "/x"}
    given = {"prints": json.dumps(begun)}
    assert Action()._execute_module("devito_bench", given, wrap_async=True) == begun


def test_a_refusal_has_no_character_that_a_terminal_obeys() -> None:
    class Action(Base):
        pass

    gate.guard(Action, RETURNS, refuse)
    record = {**RECORD, "environment": {"\x1b[2J": 5}}
    facts = {"trueup_devito": record}
    given = {**GIVEN, "prints": json.dumps({"record": record, "ansible_facts": facts})}
    with pytest.raises(Stopped) as stopped:
        Action()._execute_module("devito_bench", given)
    assert "its record: environment/?[2J: 5 is not of type 'string'" in str(stopped.value)


def test_a_line_that_a_full_disk_has_cut_hides_no_other(tmp_path: Path) -> None:
    gate.note(str(tmp_path), "a", "x")
    [path] = tmp_path.iterdir()
    path.write_text(path.read_text() + '{"node": "b')
    assert gate.noted(str(tmp_path)) == {"a": ["x"]}


def test_what_was_refused_is_kept_by_node_each_once(tmp_path: Path) -> None:
    assert gate.noted(str(tmp_path)) == {}
    for node, why in (("a", "x"), ("b\n", "y"), ("a", "x"), ("a", "z")):
        gate.note(str(tmp_path), node, why)
    assert gate.noted(str(tmp_path)) == {"a": ["x", "z"], "b\n": ["y"]}


def test_a_record_that_the_controller_makes_keeps_to_the_schema() -> None:
    assert gate.checked(RECORD) == RECORD
    found = said(lambda: gate.checked({**RECORD, "ranks": 0}), BadInput)
    assert found == "devito: its record: ranks: 0 is less than the minimum of 1"
