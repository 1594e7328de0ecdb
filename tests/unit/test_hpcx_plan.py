"""The role hpcx, planned for the families and systems that get it."""

from __future__ import annotations

from typing import Any

from role_plans import asked, node
from trueup_controller.plans.hpcx import plan
from trueup_node.node.mpi import hpcx_environment

NOTHING: dict[str, Any] = {"files": []}


def there(*names: str, **found: Any) -> dict[str, Any]:
    return {**NOTHING, "files": [{"path": f"/opt/{name}"} for name in names], **found}


def values(on: dict[str, Any], found: dict[str, Any] = NOTHING, /, **options: Any) -> Any:
    planned = plan(asked("hpcx", on, found, **options))
    assert planned.refused == []
    return planned.as_result()


def test_mpirun_finds_its_libraries_where_they_were_unpacked() -> None:
    result = values(node("hbv3"))
    folder = result["folder"]
    assert result["mpirun"] == f"{folder}/ompi/bin/mpirun"
    assert result["environment"] == {
        "LC_ALL": "C",
        "OPAL_PREFIX": f"{folder}/ompi",
        **hpcx_environment(folder),
    }
