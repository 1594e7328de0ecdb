"""Actions before modules that look at a node: the plays' variables reach the module, and a Windows
host, where no Python runs, is asked and recorded in its own way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from action import gpu_facts, node_state
from role_plans import node
from trueup_controller import known_faults
from trueup_node.record import SCHEMA

RUN = "20261123T180000Z-7c1e"
WINDOWS = {
    **node("nv_a10_v5"),
    "system": "windows",
    "os": "Windows 11 Enterprise multi-session 25H2",
    "kernel": "10.0.26200.6584",
    "cores": 6,
    "memory_bytes": 118111600640,
    "gpus": [{"name": "NVIDIA A10-8Q", "pci": "0002:00:00.0", "memory_bytes": 8589934592}],
    "nvme": None,
}
GPU = {
    "kernel_module": "574.24",
    "problems": [],
    "xids": None,
    "devices": [{"licence": "Unlicensed (Unrestricted)", "memory_bytes": 8589934592}],
}


def made(monkeypatch: pytest.MonkeyPatch, module: Any, **more: Any) -> tuple[Any, list[Any]]:
    """The action, and what its modules are given."""
    seen: list[Any] = []

    def execute(_: Any, **given: Any) -> dict[str, Any]:
        seen.append(given)
        return {"changed": False}

    monkeypatch.setattr(module.ActionBase, "run", lambda *_: {})
    monkeypatch.setattr(module.ActionModule, "_execute_module", execute)
    action = module.ActionModule.__new__(module.ActionModule)
    action._task = SimpleNamespace(args={}, check_mode=False, **more)
    action._templar = SimpleNamespace(template=lambda value: value)
    return action, seen


def variables(of: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {
        "trueup_run_id": RUN,
        "inventory_hostname": "nv0",
        "trueup_node": of,
        "ansible_facts": {"trueup_node": of, **facts},
    }


def test_a_linux_node_is_recorded_by_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    action, seen = made(monkeypatch, node_state)
    rdma = {"devices": []}
    given = variables(node("hbv3"), trueup_rdma=rdma)
    assert action.run(task_vars=given) == {"changed": False}
    about = {"run_id": RUN, "node_name": "nv0", "node": node("hbv3"), "gpu": {}, "ib": rdma}
    about["watched"] = known_faults.watched()
    assert seen == [{"module_args": about, "task_vars": given}]


def test_a_windows_host_is_recorded_on_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    action, seen = made(monkeypatch, node_state)
    found = action.run(task_vars=variables(WINDOWS, trueup_gpu=GPU))
    record = found["record"]
    assert (seen, found["changed"], found["raw"]) == ([], False, None)
    assert found["ansible_facts"] == {"trueup_node_state": record}
    assert (record["schema"], record["outcome"]) == (SCHEMA, "ok")
    assert (record["run_id"], record["nodes"], record["gpus"]) == (RUN, ["nv0"], 1)
    assert record["software"] == {"kernel": "10.0.26200.6584", "nvidia_driver": "574.24"}
    assert record["system"]["os"] == "Windows 11 Enterprise multi-session 25H2"
    rows = {(row["name"], row.get("device")): row["value"] for row in record["metrics"]}
    # Nobody looks for NVMe disks there: no row says that there are none.
    assert rows == {
        ("cores", None): 6,
        ("memory", None): 118111600640,
        ("gpus", None): 1,
        ("gpu_memory", "gpu0"): 8589934592,
        ("gpu_licensed", "gpu0"): 0,
    }


def test_what_is_wrong_with_its_gpus_is_the_records_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    action, _ = made(monkeypatch, node_state)
    code = {"name": "gpu_code_43", "message": "GPU NVIDIA A10-8Q has code 43: reboot."}
    found = action.run(task_vars=variables(WINDOWS, trueup_gpu={**GPU, "problems": [code]}))
    assert (found["record"]["outcome"], found["record"]["reason"]) == ("invalid", code["message"])


def test_check_mode_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    action, _ = made(monkeypatch, node_state)
    action._task.check_mode = True
    found = action.run(task_vars=variables(WINDOWS))
    assert (found["record"], found["ansible_facts"]) == (None, {})


@pytest.mark.parametrize("of", [node("nv_a10_v5"), WINDOWS])
def test_gpus_are_asked_for_in_the_hosts_own_way(
    of: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    action, seen = made(monkeypatch, gpu_facts)
    action._task.args = {"settle_seconds": 0, "sysfs_root": "/srv/sys"}
    asked: list[Any] = []

    def beside(_: Any, name: str, given: dict[str, Any]) -> Any:
        asked.append((name, given))
        return SimpleNamespace(run=lambda task_vars: {"of": task_vars["inventory_hostname"]})

    monkeypatch.setattr(gpu_facts, "beside", beside)
    answer = action.run(task_vars=variables(of))
    if of["system"] == "windows":
        assert (asked, answer) == ([("windows_gpu_facts", {"settle_seconds": 0})], {"of": "nv0"})
        assert seen == []
    else:
        given = {"settle_seconds": 0, "sysfs_root": "/srv/sys"}
        assert [(one["module_name"], one["module_args"]) for one in seen] == [("gpu_facts", given)]
        assert asked == []
