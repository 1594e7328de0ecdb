"""The role gromacs, planned: what is asked for, what is skipped, refused and measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from role_plans import node as machine
from trueup_controller.plans.gromacs import asks, plan, programs
from trueup_controller.sites.eessi import gpu_target
from trueup_node.benchmarks.gromacs import case as gromacs
from trueup_node.benchmarks.gromacs.case import OPTIONS
from trueup_node.errors import BadInput
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
SUM = "ab" * 32
EESSI = {"source": "eessi"}
IMAGE = {
    "source": "container",
    "container_image": "/images/gromacs.sif",
    "container_sha256": SUM,
}
INIT = "/cvmfs/software.eessi.io/versions/2023.06/init/lmod/bash"


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


@pytest.mark.parametrize(
    ("cores", "gpus", "edge"),
    [(2, 0, 4.0), (120, 0, 15.7), (24, 1, 13.6), (96, 8, 27.3), (0, 0, 3.2)],
)
def test_the_default_box_fills_the_node(cores: int, gpus: int, edge: float) -> None:
    assert gromacs.filling(cores, gpus) == edge


def test_a_box_that_would_see_itself_is_refused_before_the_node_is_asked() -> None:
    assert plan(asked(water_box=1.0)).refused == [
        "gromacs_water_box is 1: it must be 0, or 2.4 to 60"
    ]


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


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        # The distribution's build leaves GPUs alone.
        ({}, [(1, 64)]),
        ({"nb": "gpu"}, [(1, 12), (8, 12)]),
        ({"program": "/opt/gmx", "nb": "cpu"}, [(1, 64)]),
        ({**EESSI}, [(1, 12), (8, 12)]),
        ({"layouts": [{"ranks": 2, "threads_per_rank": 3, "pme_ranks": 1}]}, [(2, 3)]),
    ],
)
def test_gpus_count_where_the_program_uses_them(
    options: dict[str, Any], wanted: list[tuple[int, int]]
) -> None:
    node = {"cores": 96, "gpus": [{}] * 8, "numa": [], "l3_groups": []}
    assert layouts(asked(node=node, water_box=10.0, **options)) == wanted


def test_an_input_file_has_no_box() -> None:
    wanted = {"tpr": "/data/a.tpr", "tpr_sha256": SUM, "water_box": 2.4}
    assert layouts(asked(**wanted)) == [(1, 64), (4, 30)]


ADDRESS = "https://www.mpinat.mpg.de/benchPEP-h.zip"


def test_an_input_with_an_address_is_downloaded_with_its_sum() -> None:
    made = plan(asked(tpr_url=ADDRESS, tpr_sha256=SUM.upper(), prefix="~/gmx"))
    place = "~/gmx/benchPEP-h.zip"
    assert made.values["downloads"] == [
        {"url": ADDRESS, "dest": place, "checksum": f"sha256:{SUM}"}
    ]
    assert {(case["tpr"], case["tpr_sha256"]) for case in made.cases or []} == {
        (place, SUM.upper())
    }
    elsewhere = plan(asked(tpr_url=ADDRESS, tpr="/data/x.zip", tpr_sha256=SUM))
    assert elsewhere.values["downloads"][0]["dest"] == "/data/x.zip"


@pytest.mark.parametrize(
    "url", ["benchPEP-h.zip", "https://host/", "https://host/.zip", "ftp://h/a.tpr"]
)
def test_an_address_of_no_input_is_refused(url: str) -> None:
    assert ["gromacs_tpr_url" in one for one in plan(asked(tpr_url=url)).refused] == [True]


def test_an_address_without_a_sum_is_refused() -> None:
    with pytest.raises(BadInput, match="is no sha256"):
        plan(asked(tpr_url=ADDRESS))


@pytest.mark.parametrize(
    ("gpus", "module"),
    [(0, "GROMACS/2024.4-foss-2023b"), (1, "GROMACS/2024.4-foss-2023b-CUDA-12.4.0")],
)
def test_the_module_of_eessi_follows_the_node(gpus: int, module: str) -> None:
    wanted = asked(node={"gpus": [{}] * gpus}, **EESSI)
    assert programs(wanted) == {"programs": ["gmx"], "module": {"init": INIT, "name": module}}
    case = (plan(wanted).cases or [])[0]
    assert (case["eessi_init"], case["eessi_module"]) == (INIT, module)


@pytest.mark.parametrize(
    ("version", "family", "target", "module"),
    [
        ("2023.06", "nc_a100_v4", "cc80", "GROMACS/2024.4-foss-2023b-CUDA-12.4.0"),
        ("2023.06", "nc_h100_v5", "cc90", "GROMACS/2024.4-foss-2023b-CUDA-12.4.0"),
        ("2025.06", "nc_a100_v4", "cc80", "GROMACS/2025.4-foss-2025b-CUDA-12.9.1"),
        ("2025.06", "nc_h100_v5", "cc90", "GROMACS/2025.4-foss-2025b-CUDA-12.9.1"),
        # An A10 has 8.6, and runs builds for 8.0.
        ("2025.06", "nv_a10_v5", "cc80", "GROMACS/2025.4-foss-2025b-CUDA-12.9.1"),
        ("2025.06", "hbv3", "", "GROMACS/2025.4-foss-2025b"),
    ],
)
def test_a_size_gets_the_module_that_eessi_builds_for_it(
    version: str, family: str, target: str, module: str
) -> None:
    size = machine(family)
    assert gpu_target(size) == target
    wanted = asked(node=size, variables={"eessi_version": version}, **EESSI)
    made = plan(wanted)
    assert (made.refused, programs(wanted)["module"]["name"]) == ([], module)
    assert {case["eessi_module"] for case in made.cases or []} == {module}


def test_gpus_without_a_build_are_refused() -> None:
    wanted = asked(node=machine("nc_h100_v5"), **EESSI)
    versions = yaml.safe_load((CATALOG / "eessi.yml").read_text())
    versions["versions"]["2023.06"]["gpu_targets"] = ["cc70", "cc80"]
    made = plan(replace(wanted, catalog=lambda name: versions if name == "eessi.yml" else {}))
    assert ["knows no module for this node" in one for one in made.refused] == [True]


OMPI = {"OMPI_MCA_pml": "ucx", "OMPI_MCA_btl": "^uct,ofi", "OMPI_MCA_mtl": "^ofi"}
NEWER = "GROMACS/2025.4-foss-2025b-CUDA-12.9.1"


def test_one_version_is_eessis_and_the_benchmarks() -> None:
    wanted = asked(node={"gpus": [{}]}, variables={"eessi_version": "2025.06"}, **EESSI)
    init = INIT.replace("2023.06", "2025.06")
    assert programs(wanted)["module"] == {"init": init, "name": NEWER}
    (case, *_) = plan(wanted).cases or []
    assert (case["eessi_init"], case["eessi_module"]) == (init, NEWER)
    role = yaml.safe_load((CATALOG.parent / "roles/sites/eessi/defaults/main.yml").read_text())
    assert f"/{role['eessi_version']}/" in programs(asked(**EESSI))["module"]["init"]


@pytest.mark.parametrize(
    ("node", "given", "told"),
    [
        ({"has_rdma": True}, {}, OMPI),
        (
            {"has_rdma": True},
            {"environment": {"OMPI_MCA_pml": "ob1"}},
            OMPI | {"OMPI_MCA_pml": "ob1"},
        ),
        ({"has_rdma": False}, {}, {}),
        ({"has_rdma": True}, {"source": "system"}, {}),
        ({"has_rdma": True, "gpus": [{}]}, {"variables": {"eessi_version": "2025.06"}}, {}),
    ],
)
def test_what_open_mpi_is_told_stands_in_the_catalog(
    node: dict[str, Any], given: dict[str, Any], told: dict[str, str]
) -> None:
    (case, *_) = plan(asked(node=node, **{**EESSI, **given})).cases or []
    assert case["environment"] == told


def test_an_image_is_looked_for() -> None:
    wanted = asked(**IMAGE)
    assert programs(wanted) == {"programs": ["apptainer"], "files": ["/images/gromacs.sif"]}
    assert plan(wanted).skipped == []


@pytest.mark.parametrize(
    ("given", "why", "install"),
    [
        ({}, "installing it needs root", False),
        ({"node": {"privilege": "sudo"}}, "", True),
        ({"node": {"package_manager": "dnf"}}, "no package of its distribution", False),
        ({"program": "gmx_mpi"}, "no gmx_mpi on this node", False),
        ({**EESSI}, "cannot be loaded from /cvmfs", False),
        ({**EESSI, "variables": {"trueup_cluster_roles": ["eessi"]}}, "", False),
        ({**IMAGE}, "apptainer or /images/gromacs.sif is not on this node", False),
        (
            {**IMAGE, "container_image": "/images/gromacs.sqsh"},
            "enroot or /images/gromacs.sqsh is not on this node",
            False,
        ),
    ],
)
def test_what_a_node_without_the_program_gets(
    given: dict[str, Any], why: str, install: bool
) -> None:
    made = plan(asked(None, **given))
    assert [why in one.why for one in made.skipped] == ([True] if why else [])
    assert made.values["install_package"] is install


def test_what_would_cost_the_node_its_stack_is_skipped_by_name() -> None:
    question = asked(None, node={"privilege": "root"})
    assert asks(question) == {
        "package_transaction": {"manager": "apt", "names": ["gromacs"], "asked": True}
    }
    lost = {"refused": True, "removed": {"ucx": "1.18.0-1"}, "downgraded": {"libevent": "2.0"}}
    made = plan(replace(question, found={**question.found, **lost}))
    assert (made.values["install_package"], [one.what for one in made.skipped]) == (
        False,
        ["gromacs"],
    )
    assert (
        "would remove or downgrade libevent (2.0), ucx (1.18.0-1): set gromacs_source to eessi"
        in (made.skipped[0].why)
    )
    # What cannot be told is tried: the installation itself refuses then.
    unknown = {"refused": False, "unknown": "no lists", "removed": {}, "downgraded": {}}
    made = plan(replace(question, found={**question.found, **unknown}))
    assert (made.values["install_package"], made.skipped) == (True, [])
    for given in ({**EESSI}, {**IMAGE}, {"program": "gmx_mpi"}):
        assert asks(asked(None, node={"privilege": "root"}, **given)) == {}
    assert asks(asked(None)) == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**EESSI, "variables": {"eessi_version": "2026.06"}}, "catalog/eessi.yml knows no module"),
        ({**EESSI, "variables": {"eessi_version": "1999"}}, "catalog/eessi.yml knows no module"),
        ({"layouts": [{"ranks": 2}]}, "each of gromacs_layouts has"),
        ({"layouts": [{"ranks": 2, "threads_per_rank": "x"}]}, "x: it must be a whole number"),
        ({"layouts": [{"ranks": 1, "threads_per_rank": 1, "pin": 1}]}, "each of gromacs_layouts"),
        ({"layouts": [{"ranks": 0, "threads_per_rank": 1}]}, "gromacs_layouts: ranks is 0"),
    ],
)
def test_what_is_refused(given: dict[str, Any], said: str) -> None:
    made = plan(asked(**given))
    assert made.cases is None
    assert said in " ".join(made.refused)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"reset_step": 5000}, "reset_step 5000 is not before the end"),
        ({"tpr": "/data/a.tpr"}, "is no sha256"),
        ({"nb": "cpu", "pme": "gpu"}, "nb is cpu"),
        ({**IMAGE, "container_sha256": "ab"}, "is none"),
    ],
)
def test_options_that_do_not_go_together(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        plan(asked(**given))


@pytest.mark.parametrize(
    ("node", "given", "order"),
    [
        # The first cores are beside GPUs 2 and 3.
        ("Standard_ND96asr_v4", {"nb": "gpu"}, "2,3,0,1,6,7,4,5"),
        ("Standard_ND96asr_v4", {"nb": "cpu"}, None),
        ("Standard_ND96asr_v4", {}, None),
        ("Standard_ND96isr_H100_v5", {"nb": "gpu"}, None),
        ("", {"nb": "gpu"}, None),
        ("Standard_ND96asr_v4", {"nb": "gpu", "environment": {"CUDA_VISIBLE_DEVICES": "0"}}, "0"),
    ],
)
def test_ranks_take_the_gpus_beside_their_cores(
    node: str, given: dict[str, Any], order: str | None
) -> None:
    there = {"vm_size": node, "gpus": [{}] * 8, "cores": 96}
    cases = plan(asked(node=there, layouts=[{"ranks": 8, "threads_per_rank": 12}], **given)).cases
    (case,) = cases or []
    assert case["environment"].get("CUDA_VISIBLE_DEVICES") == order
