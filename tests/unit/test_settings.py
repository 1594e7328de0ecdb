"""What is refused of the plays' own variables, and with which word of help."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from action import trueup_variables
from ansible.errors import AnsibleActionFail
from helpers import ROOT, parametrized, role_files
from trueup_controller.removed_options import removed_options
from trueup_controller.settings import INTERNAL, OPTIONS, PREFIX, problems

RIGHT: dict[str, Any] = {
    "trueup_benchmarks": ["stream", "nccl"],
    "trueup_health_benchmarks": [],
    "trueup_health_fatal": "no",
    "trueup_health_slurm": True,
    "trueup_vm_size": "Standard_HB120rs_v3",
    "trueup_needs": {"nccl": ["hpcx"]},
    "trueup_families": [{"families": ["mine"], "roles": [], "benchmarks": []}],
}


def test_what_is_right_is_not_refused() -> None:
    assert problems({**RIGHT, **dict.fromkeys(INTERNAL)}) == []
    assert problems({"trueup_gpu": {}}, allowed=["trueup_gpu"]) == []


@parametrized(("name", "value", "said"))
def test_what_is_wrong_is_one_sentence(name: str, value: Any, said: str) -> None:
    [sentence] = problems({**RIGHT, name: value})
    assert sentence.startswith(f"{name}")
    assert said in sentence


def test_no_name_stands_twice() -> None:
    names = [f"{PREFIX}{one.name}" for one in OPTIONS]
    assert sorted({*names, *INTERNAL}) == sorted([*names, *INTERNAL])


def run(**variables: Any) -> dict[str, Any]:
    task = SimpleNamespace(args={}, async_val=0, check_mode=True, action="trueup_variables")
    templar = SimpleNamespace(template=lambda value: ["ib"] if value == "{{ lists }}" else value)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nonexistent"))
    action = trueup_variables.ActionModule(task, connection, None, None, templar, None)
    return action.run(task_vars=variables)


def test_the_action_templates_what_users_set_and_refuses_the_rest() -> None:
    given = {"trueup_resume": "{{ lists }}", "trueup_nodee": {}, "stream_arrays": 5}
    with pytest.raises(AnsibleActionFail) as failed:
        run(**given)
    assert "trueup_nodee" in str(failed.value)
    assert "trueup_resume is ['ib']" in str(failed.value)
    assert "stream" not in str(failed.value)
    assert not run(trueup_resume="last", trueup_plan="{{ 1 / 0 }}").get("failed")


@parametrized(("name", "value", "place"))
def test_no_variable_of_a_play_holds_a_nul(name: str, value: Any, place: str) -> None:
    """Roles without a plan have variables too (hf_model), and some of a play's go to none."""
    with pytest.raises(AnsibleActionFail) as failed:
        run(**{name: value})
    assert str(failed.value).startswith(f"{place} holds '\\")
    assert not run(ansible_x="a\0", hostvars={"n": {"x": "a\0"}}, notes="two\nlines").get("failed")


def test_a_removed_option_is_refused_with_its_replacement() -> None:
    """Also of a role that has no plan, where nothing else would look at it."""
    with pytest.raises(AnsibleActionFail) as failed:
        run(compiler_packages=["clang"])
    step = removed_options(ROOT / "catalog")["compiler_packages"]
    assert str(failed.value) == f"compiler_packages was removed: {step}."


def test_a_removed_option_belongs_to_a_role_that_lacks_it() -> None:
    specs = role_files("meta/argument_specs.yml")
    wrong = {}
    for name, step in removed_options(ROOT / "catalog").items():
        roles = [role for role in specs if name.startswith(f"{role}_")]
        if not roles or f" {name}:" in specs[roles[0]].read_text() or step.endswith("."):
            wrong[name] = step
    assert wrong == {}


@parametrized(("version", "reason"))
def test_another_ansible_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, version: str, reason: str
) -> None:
    monkeypatch.setattr(trueup_variables, "__version__", version)
    with pytest.raises(AnsibleActionFail) as failed:
        run()
    assert str(failed.value) == (
        f"This is ansible-core {version}, which {reason}: use 2.19 to 2.21, as in trueup's own"
        " environment (`make controller-venv`, .venv/bin)."
    )


@pytest.mark.parametrize("version", ["2.19.0", "2.20.10", "2.21.5"])
def test_the_supported_releases_run(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(trueup_variables, "__version__", version)
    assert run() == {}
