"""The role gpu_copy, planned: the tool that is found, what is skipped and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import parametrized
from trueup_controller.plans.gpu_copy import _COMMIT, _FOLDERS, plan, programs
from trueup_node.benchmarks.gpu_copy.case import OPTIONS
from trueup_node.options import MODULE, module_spec
from trueup_node.plan import PlanInputs

CATALOG = Path(__file__).parents[2] / "catalog"
DEFAULTS = {one.name: one.default for one in OPTIONS if one.of != MODULE}
SEARCH = _FOLDERS
TORCH = {"path": "/usr/bin/python3.12", "version": [3, 12, 3], "missing": []}
PYTHON = {**TORCH, "missing": ["torch"]}
COMMIT = _COMMIT
SOURCE = f"{DEFAULTS['prefix']}/nvbandwidth-{COMMIT[:12]}"
OWN = f"{SOURCE}/build/nvbandwidth"
COMPILERS = ("git", "cmake", "make", "g++")
NVCC = "/usr/local/cuda/bin/nvcc"
HEADER = "/usr/include/boost/program_options.hpp"
BOOST = (HEADER, "/usr/lib/x86_64-linux-gnu/libboost_program_options.a")
A100 = {"catalog": {"gpu_model": "A100-SXM4-40GB"}, "cores": 96, "package_manager": "apt"}
NDV4 = {
    "vm_size": "Standard_ND96asr_v4",
    "gpus": [{"pci": f"000{n}:0"} for n in range(8)],
    "catalog": None,
}


def asked(*there: str, python: Any = PYTHON, node: Any = NDV4, **options: Any) -> PlanInputs:
    given = PlanInputs(
        options={**DEFAULTS, **options},
        node=node,
        catalog=lambda name: yaml.safe_load((CATALOG / name).read_text()),
    )
    question = programs(given)
    places = question["programs"]
    files = {name: name in there for name in question["files"]}
    paths = {place: place if place in there else None for place in places}
    return PlanInputs(
        options=given.options,
        node=node,
        found={"programs": paths, "files": files, "python": python},
        catalog=given.catalog,
    )


def test_the_node_is_asked_in_path_and_in_each_folder() -> None:
    names = ("nvbandwidth", "bandwidthTest")
    own = {"nvbandwidth": [OWN], "bandwidthTest": []}
    wanted = [
        place
        for name in names
        for place in (name, *own[name], *(f"{one}/{name}" for one in SEARCH))
    ]
    question = {"python": "python3", "imports": ["torch"]}
    compilers = [*COMPILERS, "nvcc", NVCC]
    whole = {"programs": [*wanted, *compilers], "files": [*BOOST], **question}
    assert programs(asked()) == whole
    assert programs(asked(source_repository="")) == {**whole, "programs": wanted, "files": []}
    assert programs(asked(tool="pytorch"))["programs"] == []


@pytest.mark.parametrize(
    ("wanted", "tool", "program"),
    [
        (asked("nvbandwidth", "bandwidthTest"), "nvbandwidth", "nvbandwidth"),
        (asked(f"{SEARCH[0]}/nvbandwidth"), "nvbandwidth", f"{SEARCH[0]}/nvbandwidth"),
        (asked("bandwidthTest", python=TORCH), "bandwidthTest", "bandwidthTest"),
        (asked(python=TORCH), "pytorch", None),
        (asked("nvbandwidth", python=TORCH, tool="pytorch"), "pytorch", None),
        (
            asked("nvbandwidth", "bandwidthTest", tool="bandwidthTest"),
            "bandwidthTest",
            "bandwidthTest",
        ),
    ],
)
def test_the_first_tool_that_is_there_measures(
    wanted: PlanInputs, tool: str, program: str | None
) -> None:
    made = plan(wanted)
    assert (made.skipped, made.refused) == ([], [])
    (case,) = made.cases or []
    assert (case["tool"], case["program"]) == (tool, program)
    assert case["python"] == "/usr/bin/python3.12"
    assert set(module_spec(OPTIONS)) - set(case) == {"peers", "samples"}
    # The masks of the catalog, one for each GPU.
    assert (len(case["gpu_masks"]), case["gpu_masks"][0]) == (8, "ffffff000000")


@parametrized(("there", "privilege", "packages"))
def test_nvbandwidth_is_built_where_there_is_no_tool(
    there: tuple[str, ...], privilege: str | None, packages: list[str]
) -> None:
    made = plan(asked(*there, node={**NDV4, **A100, "privilege": privilege}))
    assert made.skipped == []
    (build,) = made.values["build"]
    assert build == {
        "repository": "https://github.com/NVIDIA/nvbandwidth.git",
        "commit": COMMIT,
        "source": SOURCE,
        "made": f"{SOURCE}/build",
        "environment": {"LC_ALL": "C"},
        "packages": packages,
        "commands": [
            [
                *("cmake", "-S", ".", "-B", "build", f"-DCMAKE_CUDA_COMPILER={NVCC}"),
                "-DCMAKE_CUDA_ARCHITECTURES=80",
            ],
            ["cmake", "--build", "build", "--parallel", "16"],
        ],
    }
    (case,) = made.cases or []
    assert (case["tool"], case["program"]) == ("nvbandwidth", OWN)


def test_what_is_there_is_not_built() -> None:
    for there, python in (((OWN,), PYTHON), (("bandwidthTest",), PYTHON), ((), TORCH)):
        made = plan(asked(*there, *COMPILERS, NVCC, *BOOST, python=python))
        assert made.values["build"] == []
    # A machine without GPUs builds nothing, and a GPU of no known size is left to nvbandwidth.
    assert plan(asked(*COMPILERS, NVCC, *BOOST, node={})).values["build"] == []
    ((configure, _),) = (
        one["commands"] for one in plan(asked(*COMPILERS, NVCC, *BOOST)).values["build"]
    )
    assert configure[-1] == f"-DCMAKE_CUDA_COMPILER={NVCC}"
