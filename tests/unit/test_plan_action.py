"""The action trueup_plan: what it hands to a plan, and what it refuses before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from action import trueup_plan
from ansible.errors import AnsibleActionFail
from role_plans import ROOT, node


def run(role: str, /, found: dict[str, Any] | None = None, **variables: Any) -> dict[str, Any]:
    """What the action returns for a role whose variables have their defaults."""
    path = ROOT / "roles" / role
    task = SimpleNamespace(
        _role=SimpleNamespace(get_name=lambda: role, _role_path=str(path)),
        args={} if found is None else {"found": found},
        async_val=0,
        check_mode=False,
        action="trueup_plan",
    )
    templar = SimpleNamespace(template=lambda value: value)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nonexistent"))
    action = trueup_plan.ActionModule(task, connection, None, None, templar, None)
    specs = trueup_plan.described(path / "meta" / "argument_specs.yml")
    defaults = {name: spec["default"] for name, spec in specs.items()}
    return action.run(task_vars={**defaults, **variables})


def first_line(result: dict[str, Any]) -> str:
    return str(result["files"][0]["content"].splitlines()[0])


@pytest.mark.parametrize(
    ("variables", "python"),
    [
        ({"ansible_python_interpreter": "/opt/python3.11"}, "/opt/python3.11"),
        (
            {
                "ansible_python_interpreter": "auto_silent",
                "ansible_facts": {"discovered_interpreter_python": "/usr/bin/python3.9"},
            },
            "/usr/bin/python3.9",
        ),
        ({}, "/usr/bin/python3"),
    ],
)
def test_a_plan_is_told_the_python_that_ansible_uses(
    variables: dict[str, Any], python: str
) -> None:
    result = run("gpu_clocks", trueup_node=node("ndv4"), **variables)
    assert first_line(result) == f"#!{python} -I"


def test_the_plays_trueup_node_goes_before_the_fact() -> None:
    facts = {"trueup_node": node("hbv3")}
    assert run("gpu_driver", ansible_facts=facts)["skipped_here"][0]["what"] == "gpu_driver"
    assert run("gpu_driver", ansible_facts=facts, trueup_node=node("ndv4"))["skipped_here"] == []


def test_a_plan_reads_what_its_role_keeps_as_data() -> None:
    result = run("gpu_driver", trueup_node=node("ndv4", "almalinux-9"))
    assert result["repository"]["key_fingerprint"] == "610C7B14E068A878070DA4E99CD0A493D42D0685"


def test_what_was_found_out_is_handed_on() -> None:
    found = {"files": [{"path": "/opt/hpcx-v2"}], "rdma_persistent_names": False}
    result = run("hpcx", found, trueup_node=node("hbv3", hpc_image={"HPCX": "2"}))
    assert (result["kept"], result["folder"]) == (True, "/opt/hpcx-v2")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"gpu_clocks_lockt": "boot"}, "did you mean gpu_clocks_locked?"),
        ({"gpu_clocks_locked": "sometimes"}, "value of gpu_clocks_locked must be one of"),
        ({"trueup_node": node("hbv3")}, "gpu_clocks: this machine shows no NVIDIA GPU"),
    ],
)
def test_what_is_wrong_fails_the_task(variables: dict[str, Any], said: str) -> None:
    with pytest.raises(AnsibleActionFail) as failed:
        run("gpu_clocks", **{"trueup_node": node("ndv4"), **variables})
    assert said in str(failed.value)
