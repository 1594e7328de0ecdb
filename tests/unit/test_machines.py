"""One machine under two names: the word that tells, the comparison, cases and records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trueup_controller import launch_nodes
from trueup_controller.machines import compare
from trueup_node.run.bench import Case

RECORDS = Path(__file__).parents[1] / "data" / "records"


def test_names_of_one_machine_are_refused_and_the_controllers_are_warned_of() -> None:
    machines = {"a": "vm-1", "b": "vm-2", "c": "vm-1", "d": None, "e": None, "f": "boot-1"}
    refused, warnings = compare({**machines, "g": "boot-1", "h": "boot-2", "i": "boot-2"}, "boot-2")
    assert sorted(refused) == ["a", "c", "f", "g"]
    assert refused["c"].startswith("a and c are one Azure VM, and would count as 2 nodes: keep one")
    assert refused["f"].startswith("f and g are one machine, and would count")
    assert [text.partition(":")[0] for text in warnings] == [
        "h and i are this controller, one machine under 2 names"
    ]
    # An Azure VM that is its own controller has no two names either.
    assert compare({"a": "vm-1", "c": "vm-1"}, "boot-1").refused.keys() == {"a", "c"}


def facts(**machines: str | None) -> dict[str, Any]:
    return {
        name: {"ansible_facts": {"trueup_node": {"machine": machine}}}
        for name, machine in machines.items()
    }


def test_a_case_over_two_names_of_one_machine_is_refused() -> None:
    hostvars = {**facts(a="vm-1", b="vm-2", c="vm-1", d=None, e=None), "f": {}}
    sentence = "a and c are one machine, which a record would count as two nodes"
    assert launch_nodes.unlike(["a", "b", "c"], hostvars) == sentence
    assert launch_nodes.one_machine(["a", "b", "d", "e", "f", "elsewhere"], hostvars) == ""


@pytest.mark.parametrize(("machine", "kept"), [("vm-1", "vm-1"), ("boot-1", None), (None, None)])
def test_a_record_keeps_the_word_of_an_azure_vm(machine: str | None, kept: str | None) -> None:
    case = Case("stream", "20261120T091300Z-7c1e", "a", {"os": "Ubuntu", "machine": machine})
    assert case.record("failed", reason="r")["system"].get("machine") == kept


def written(folder: Path, *names: str, run: str = "20261120T091300Z-7c1e") -> Path:
    """Records of these names, all of one VM."""
    like = json.loads((RECORDS / "valid.json").read_text())
    (folder / run).mkdir(parents=True, exist_ok=True)
    for name in names:
        record = {**like, "run_id": run, "nodes": [name], "node_count": 1}
        record["system"] = {**like["system"], "machine": "vm-1"}
        (folder / run / f"{name}.json").write_text(json.dumps(record))
    return folder


def test_list_says_it(call_trueup: Any, tmp_path: Path) -> None:
    done = call_trueup("list", written(tmp_path, "a", "b"))
    assert "a and b are one Azure VM by their records, which count 2 nodes." in done.err
    assert done.status == 0
    alone = call_trueup("list", written(tmp_path / "other", "a"))
    assert "one Azure VM" not in alone.err


def test_health_fails_both_names(call_trueup: Any, tmp_path: Path) -> None:
    done = call_trueup("health", written(tmp_path, "a", "b"), "--format", "json")
    rows = [row for table in json.loads(done.out)["tables"] for row in table["rows"]]
    found = {
        (row["node"], row["verdict"], row["reason"])
        for row in rows
        if row["what"] == "one machine under several names"
    }
    why = "a and b are one Azure VM, which counts as 2 nodes"
    assert found == {("a", "fail", why), ("b", "fail", why)}
    assert done.status == 1
