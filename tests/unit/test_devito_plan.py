"""The role devito, planned: its sweeps over layouts and nodes, what is skipped and refused, and
what a case is told when it begins."""

from __future__ import annotations

from typing import Any

import role_plans
from helpers import parametrized
from trueup_controller.plans.devito import plan
from trueup_node.benchmarks.devito.case import OPTIONS, filling
from trueup_node.options import MODULE, module_spec
from trueup_node.plan import PlanInputs

DEFAULTS = {one.name: one.default for one in OPTIONS if one.of != MODULE}
NAMES = [f"node-{number}" for number in range(1, 12)]
EACH: dict[str, dict[str, Any]] = {name: {} for name in NAMES}
ONE = {"ranks": 1, "threads_per_rank": 4, "binding": "core"}
FOUR = {"ranks": 4, "threads_per_rank": 1, "binding": "numa"}
NODE = {
    "layouts": [ONE, FOUR],
    "programs": {"gcc": "/usr/bin/gcc", "mpirun": "/usr/bin/mpirun"},
    "privilege": None,
    "catalog": {"peak_fp64_gflops": 4000.0},
}
MPI = "roles/devito/files/requirements-mpi.txt"
FOLDERS = (DEFAULTS["prefix"], f"{DEFAULTS['prefix']}/venv")
SPACE = {"path": "/home", "free_bytes": 2 * 1024**3, "there": False, "link": False}
FOUND = {
    "python": {"path": "/usr/bin/python3", "version": [3, 12, 1], "missing": [], "headers": True},
    "folders": dict.fromkeys(FOLDERS, SPACE),
}


def asked(count: int = 0, *, host: str = "node-1", found: Any = None, **options: Any) -> PlanInputs:
    """Of a play over all nodes; ``count`` of them are measured together."""
    node = {**NODE, **options.pop("node", {})}
    hosts = options.pop("hosts", NAMES)
    hostvars = options.pop("hostvars", EACH)
    variables = options.pop("variables", {})
    return PlanInputs(
        options={**DEFAULTS, "nodes": NAMES[:count], **options},
        node=node,
        host=host,
        found={**FOUND, **(found or {})},
        hostvars=hostvars,
        hosts=hosts,
        variables=variables,
        data=role_plans.data("devito"),
        catalog=role_plans.catalog,
    )


def test_the_nodes_own_sweep() -> None:
    made = plan(asked())
    cases = made.cases or []
    assert [(case["ranks"], case["binding"]) for case in cases] == [(4, "numa"), (1, "core")]
    assert {case["peak_flops"] for case in cases} == {8e12}
    assert {case["shape"] for case in cases} == {"320x320x320"}
    # completed() takes it out.
    assert set(cases[0]) - {"search"} <= set(module_spec(OPTIONS))
    assert (made.skipped, made.values["lead"], made.values["taken_over"]) == ([], "", [])
    assert made.values["environment"]["requirements"][-1] == MPI


@parametrized(("cores", "gib", "shape"))
def test_the_default_grid_fills_the_machine(cores: int, gib: int | None, shape: str) -> None:
    memory = None if gib is None else gib * 1024**3
    problem = {"model": "acoustic", "space_order": 8, "tn_ms": 200, "nbl": 10}
    assert filling(cores, memory, **problem) == shape
