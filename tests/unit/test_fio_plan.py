"""The role fio, planned: a case for each workload, what is skipped and what is refused."""

from __future__ import annotations

from typing import Any

from trueup_controller.plans.fio import plan, programs
from trueup_node.benchmarks.fio.case import OPTIONS
from trueup_node.options import MODULE, module_spec
from trueup_node.plan import PlanInputs

DEFAULTS = {one.name: one.default for one in OPTIONS if one.of != MODULE}


def asked(
    path: str | None = "/usr/bin/fio", privilege: str | None = None, **options: Any
) -> PlanInputs:
    return PlanInputs(
        options={**DEFAULTS, "directory": "/mnt/nvme", **options},
        node={"privilege": privilege},
        found={"programs": {"fio": path}},
    )


def test_a_case_for_each_workload_with_what_the_module_takes() -> None:
    made = plan(asked(jobs=3, workloads=["random_read", "metadata_stat"]))
    assert (made.refused, made.skipped, made.values) == ([], [], {"install": False})
    cases = made.cases or []
    assert [case["workload"] for case in cases] == ["random_read", "metadata_stat"]
    assert {case["directory"] for case in cases} == {"/mnt/nvme"}
    assert {case["jobs"] for case in cases} == {3}
    assert set(cases[0]) == set(module_spec(OPTIONS)) - {"block_bytes", "engine"}
    assert programs(asked()) == {"programs": ["fio"]}
    assert len(plan(asked()).cases or []) == 4
