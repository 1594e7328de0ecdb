"""The role gromacs, planned: what is asked for, what is skipped, refused and measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from helpers import parametrized
from role_plans import node as machine
from trueup_controller.plans.gromacs import plan, programs
from trueup_node.benchmarks.gromacs import case as gromacs
from trueup_node.benchmarks.gromacs.case import OPTIONS
from trueup_node.options import MODULE, module_spec
from trueup_node.plan import PlanInputs

CATALOG = Path(__file__).parents[2] / "catalog"
DEFAULTS = {one.name: one.default for one in OPTIONS if one.of != MODULE}
HBV3 = {
    "catalog": None,
    "cores": 120,
    "numa": [1] * 4,
    "l3_groups": [1] * 16,
    "package_manager": "apt",
}
EESSI = {"source": "eessi"}


def asked(found: str | None = "/usr/bin/gmx", *, node: Any = None, **options: Any) -> PlanInputs:
    variables = options.pop("variables", {})
    given = {**DEFAULTS, **options}
    return PlanInputs(
        options=given,
        node={"privilege": None, **HBV3, **(node or {})},
        found={
            "programs": {given["program"]: found, "apptainer": found, "enroot": found},
            "files": {"/images/gromacs.sif": True},
        },
        variables=variables,
        catalog=lambda name: yaml.safe_load((CATALOG / name).read_text()),
    )


def layouts(wanted: PlanInputs) -> list[tuple[int, int]]:
    return [(case["ranks"], case["threads_per_rank"]) for case in plan(wanted).cases or []]


@parametrized(("cores", "gpus", "edge"))
def test_the_default_box_fills_the_node(cores: int, gpus: int, edge: float) -> None:
    assert gromacs.filling(cores, gpus) == edge


def test_cases_of_the_topology_with_the_options_that_the_module_takes() -> None:
    made = plan(asked(water_box=10.0))
    assert layouts(asked(water_box=10.0)) == [(1, 64), (4, 30)]
    assert made.skipped == []
    assert (made.values["install_package"], made.values["downloads"]) == (False, [])
    (driver,) = made.values["files"]
    assert (driver["path"].rpartition("/")[2], driver["mode"]) == ("gromacs_driver.py", "0755")
    case = (made.cases or [])[0]
    assert set(case) <= set(module_spec(OPTIONS))
    assert (case["steps"], case["container_runtime"], case["eessi_module"]) == (
        5000,
        "apptainer",
        "",
    )
    assert programs(asked()) == {"programs": ["gmx"]}


def test_gpus_without_a_build_are_refused() -> None:
    wanted = asked(node=machine("nc_h100_v5"), **EESSI)
    versions = yaml.safe_load((CATALOG / "eessi.yml").read_text())
    versions["versions"]["2023.06"]["gpu_targets"] = ["cc70", "cc80"]
    made = plan(replace(wanted, catalog=lambda name: versions if name == "eessi.yml" else {}))
    assert ["knows no module for this node" in one for one in made.refused] == [True]
