"""The action trueup_plan: what it hands to a plan, and what it refuses before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from action import trueup_plan
from ansible.errors import AnsibleActionFail
from helpers import ROLES, parametrized, role_files
from role_plans import RDMA as FOUND
from role_plans import node

NUL = "/srv/a\0b"


def run(role: str, /, found: Any = None, **variables: Any) -> dict[str, Any]:
    """What the action returns for a role whose variables have their defaults."""
    path = ROLES[role]
    task = SimpleNamespace(
        _role=SimpleNamespace(_role_path=str(path)),
        args={} if found is None else {"found": found},
        async_val=0,
        check_mode=False,
        action="trueup_plan",
    )
    templar = SimpleNamespace(template=lambda value: value)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nonexistent"))
    none = SimpleNamespace(has_plugin=lambda _: False)
    loaders = SimpleNamespace(action_loader=none)
    action = trueup_plan.ActionModule(task, connection, None, None, templar, loaders)
    specs = trueup_plan.described(path / "meta" / "argument_specs.yml")
    defaults = {name: spec["default"] for name, spec in specs.items()}
    return action.run(task_vars={**defaults, **variables})


def first_line(result: dict[str, Any]) -> str:
    return str(result["files"][0]["content"].splitlines()[0])


@parametrized(("variables", "python"))
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


def answering(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]) -> list[Any]:
    """The node's answer to every module; what it was asked."""
    seen: list[Any] = []

    def execute(_: Any, module_name: str, module_args: Any, **_more: Any) -> dict[str, Any]:
        seen.append((module_name, module_args))
        return dict(answer)

    monkeypatch.setattr(trueup_plan.ActionModule, "_execute_module", execute)
    return seen


def test_what_was_found_out_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = answering(monkeypatch, {"files": [{"path": "/opt/hpcx-v2"}]})
    on = node("hbv3", hpc_image={"HPCX": "2"})
    result = run("hpcx", trueup_node=on)
    assert (result["kept"], result["folder"]) == (True, "/opt/hpcx-v2")
    wanted = {"paths": "/opt", "patterns": "hpcx-v*", "file_type": "directory"}
    assert (seen, "ansible_facts" in result) == ([("ansible.builtin.find", wanted)], False)


def test_facts_that_a_plan_asked_for_are_facts_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"trueup_rdma": FOUND}
    seen = answering(monkeypatch, {"ansible_facts": facts})
    result = run("rdma", trueup_node=node("hbv3"), trueup_sysfs_root="/srv/sys")
    assert (result["ansible_facts"], result["wrong"]) == (facts, [])
    row = node("hbv3")["catalog"]
    expected = {"rate_gbps": row["rdma_gbps_per_nic"], "nics": row["rdma_nics"]}
    given = {"expected": expected, "names_expected": True, "sysfs_root": "/srv/sys"}
    assert seen == [("ib_facts", given)]
    run("rdma", trueup_node=node("hbv3"))
    assert "sysfs_root" not in seen[1][1]


def test_what_was_found_out_is_a_mapping() -> None:
    with pytest.raises(AnsibleActionFail, match=r"^trueup_plan: found is 7: it must be a mapping$"):
        run("gpu_driver", found=7, trueup_node=node("ndv4"))


def test_what_the_node_could_not_answer_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, {"failed": True, "msg": "no such folder"})
    with pytest.raises(AnsibleActionFail, match="no such folder"):
        run("rdma", trueup_node=node("hbv3"))


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


def test_a_key_that_an_entry_does_not_have_is_named() -> None:
    export = {"path": "/srv", "clients": ["10.1.0.0/16"], "client": "10.1.0.0/16"}
    with pytest.raises(AnsibleActionFail) as failed:
        run("nfs_server", trueup_node=node("hbv3"), nfs_server_exports=[export])
    said = "There is no nfs_server_exports.client. Supported parameters include: clients, group,"
    assert str(failed.value).startswith(said)


@pytest.mark.parametrize("role", ["stream", "gpu_driver", "hpcx"])
def test_a_node_that_nothing_has_identified_is_asked(
    monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    identity = {"trueup_node": node("hbv3")}
    modules: list[str] = []

    def answer(_: Any, module: str, *_more: Any) -> dict[str, Any]:
        modules.append(module)
        is_identity = module == "azure_node_facts"
        return {"ansible_facts": identity} if is_identity else {"programs": {}, "files": []}

    monkeypatch.setattr(trueup_plan, "answer_of", answer)
    result = run(role, inventory_hostname="n7")
    assert (modules[0], modules.count("azure_node_facts")) == ("azure_node_facts", 1)
    assert result["ansible_facts"]["trueup_node"] == identity["trueup_node"]


def test_a_node_is_not_asked_by_an_ansible_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = answering(monkeypatch, {"ansible_facts": {"trueup_node": node("hbv3")}})
    monkeypatch.setattr(trueup_plan, "__version__", "2.18.19")
    with pytest.raises(AnsibleActionFail, match=r"^This is ansible-core 2\.18\.19, which gets no"):
        run("stream", inventory_hostname="n7")
    assert seen == []


@parametrized(("role", "folder"))
def test_a_strange_variable_is_refused_with_the_file_that_lists_the_roles(
    role: str, folder: str
) -> None:
    name = f"{role}_{'x' * 40}"
    with pytest.raises(AnsibleActionFail) as failed:
        run(role, trueup_node=node("hbv3"), **{name: 1})
    hint = f"{folder}/{role}/defaults/main.yml lists its variables."
    assert str(failed.value) == f"{name}: the role {role} has no such variable; {hint}"


def numbers() -> list[tuple[str, str]]:
    """(role, variable) of every number that a role takes."""
    found = []
    for role, path in role_files("meta/argument_specs.yml").items():
        specs = trueup_plan.described(path)
        kinds = {name: spec.get("elements", spec["type"]) for name, spec in specs.items()}
        numeric = [name for name, kind in kinds.items() if kind in {"int", "float"}]
        found += [(role, name) for name in numeric]
    return found


@pytest.mark.parametrize(("role", "variable"), numbers())
def test_no_role_takes_a_number_far_below_zero(role: str, variable: str) -> None:
    """Some take -1. The plan refuses it, which preflight asks for before anything is installed."""
    specs = trueup_plan.described(ROLES[role] / "meta" / "argument_specs.yml")
    value: Any = [-2] if specs[variable]["type"] == "list" else -2
    variables = {name: spec.get("default") for name, spec in specs.items()} | {variable: value}
    action = SimpleNamespace(_templar=SimpleNamespace(template=lambda given: given))
    path = ROLES[role]
    with pytest.raises(AnsibleActionFail, match=f"{variable} is -2"):
        trueup_plan._checked(action, role, path, variables)


def texts() -> list[tuple[str, str, Any]]:
    """(role, variable, value) of every variable that holds a text, which here has a NUL in it."""
    found = []
    for role, path in role_files("meta/argument_specs.yml").items():
        for name, spec in trueup_plan.described(path).items():
            kind, elements = spec["type"], spec.get("elements")
            text: Any = {"str": NUL, "path": NUL, "raw": NUL, "dict": {"a": NUL}}.get(kind)
            if kind == "list":
                text = {"str": [NUL], "path": [NUL], "dict": [{"a": NUL}]}.get(elements)
            if text is not None:
                found.append((role, name, text))
    return found


@pytest.mark.parametrize(("role", "variable", "value"), texts())
def test_no_role_takes_a_nul(role: str, variable: str, value: Any) -> None:
    """In a path it ends a module in a traceback, in a file it cuts what follows."""
    specs = trueup_plan.described(ROLES[role] / "meta" / "argument_specs.yml")
    variables = {name: spec.get("default") for name, spec in specs.items()} | {variable: value}
    action = SimpleNamespace(_templar=SimpleNamespace(template=lambda given: given))
    with pytest.raises(AnsibleActionFail) as failed:
        trueup_plan._checked(action, role, ROLES[role], variables)
    said = str(failed.value)
    assert (said.count(r"'\x00'"), variable in said, NUL in said) == (1, True, False)


def test_the_roles_texts_are_found() -> None:
    kinds = {str(value) for _, _, value in texts()}
    assert (len(texts()) > 200, len(kinds)) == (True, 4)


@pytest.mark.parametrize("character", ["\n", "\x1b", "\x7f", "\udcff"])
def test_a_path_of_a_role_has_no_control_character(character: str) -> None:
    with pytest.raises(AnsibleActionFail, match=r"stream_prefix holds .*a path cannot hold"):
        run("stream", trueup_node=node("hbv3"), stream_prefix=f"/opt/a{character}b")
