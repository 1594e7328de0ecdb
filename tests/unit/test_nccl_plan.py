"""The role nccl, planned for every family and package manager: packages, builds, topology file,
settings, what is wrong in the end, and the collectives that are measured."""

from __future__ import annotations

import base64
import dataclasses
import re
from typing import Any

import pytest
from helpers import parametrized
from role_plans import asked, catalog, node
from trueup_controller.plans.nccl import asks, plan
from trueup_controller.plans.nccl_setup import KINDS, topology_used
from trueup_node.benchmarks.nccl.case import OPTIONS
from trueup_node.node.mpi import Mpi, fact, hpcx_environment
from trueup_node.node.nccl_topology import Layout, generate, generate_graphs, read_layouts
from trueup_node.options import module_spec
from trueup_node.plan import PlanInputs

IMAGE = {"hpc_image": {"NCCL": "2.29.1-1"}}
CONTEXTS = ("conf", "single_node", "multi_node", "container")
NAMES = ["node-1", "node-2"]
HPCX = "/opt/hpcx-v2.25.1-gcc-doca_ofed-ubuntu24.04-cuda13-x86_64"
NDV4_FILE = "/opt/microsoft/ndv4-topo.xml"
NDV4_LINK = "/opt/microsoft/ndv4/topo.xml"


@pytest.fixture(name="layouts")
def _layouts() -> dict[str, Layout]:
    return read_layouts(asked("nccl", node("local")).catalog("topologies.yml"))


def of(family: str, system: str = "ubuntu-24.04", /, **given: Any) -> PlanInputs:
    """What the plan is asked; ``node`` and ``found`` change the node and what was found."""
    on = node(family, system, **given.pop("node", {}))
    variables = given.pop("play", {"trueup_plan": ["nccl"]})
    found = {**state(), **given.pop("found", {})}
    made = asked("nccl", on, found, **given)
    hostvars: dict[str, dict[str, Any]] = {name: {} for name in NAMES}
    return dataclasses.replace(made, variables=variables, hostvars=hostvars, hosts=NAMES)


def nc96(**given: Any) -> PlanInputs:
    """The plan of an NC96ads_A100_v4, which has a graph file too."""
    size = given.pop("vm_size", "Standard_NC96ads_A100_v4")
    return of("nc_a100_v4", node={"vm_size": size, **given.pop("node", {})}, **given)


def state(**changes: Any) -> dict[str, Any]:
    """What nccl_facts says of a node on which everything is as it should be."""
    there = {"exists": False, "content": None, "link": None, **changes.pop("topology", {})}
    return {"libraries": ["2.30.4"], "unbuilt": [], "outdated": [], "topology": there, **changes}


def hpcx() -> dict[str, Any]:
    """The fact of a node whose MPI is HPC-X."""
    made = Mpi(f"{HPCX}/ompi/bin/mpirun", "hpcx", "4.1.9", hpcx_environment(HPCX))
    return dict(fact(made, devices=(), has_gpu=True, rdma_expected=8) or {})


def values(wanted: PlanInputs) -> dict[str, Any]:
    made = plan(wanted)
    assert made.refused == []
    return dict(made.values)


def test_kinds_are_spelt_and_nccls_own_file_knows_none() -> None:
    told = catalog("nccl_settings.yml")["settings"]
    assert {kind for one in told for kind in one.get("kinds", [])} <= set(KINDS)
    assert [one["name"] for one in told if "conf" in one["in"] and "kinds" in one] == []


def exported(text: str) -> dict[str, str]:
    lines = [line.removeprefix("export ") for line in text.splitlines() if "=" in line]
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


@parametrized(("family", "code", "plugin"))
def test_what_is_built_for_each_family(family: str, code: int | None, plugin: bool) -> None:
    given = {"node": {"mpi": hpcx()}}
    tests, *others = asks(of(family, **given))["nccl_facts"]["builds"]
    assert (tests["name"], [build["name"] for build in others]) == (
        "nccl-tests",
        ["nccl-rdma-sharp-plugins"] if plugin else [],
    )
    made = [f"NVCC_GENCODE=-gencode=arch=compute_{code},code=sm_{code}"] if code else []
    [command] = tests["commands"]
    assert command[0] == "make"
    assert command[2:] == [
        *("MPI=1", f"MPI_HOME={HPCX}/ompi", "CUDA_HOME=/usr/local/cuda-13.0"),
        *made,
    ]
    if plugin:
        assert others[0]["commands"][1][-1] == f"--with-sharp={HPCX}/sharp"
        assert others[0]["commands"][2] == command[:2]


def test_the_topology_file_is_that_of_the_catalog(layouts: dict[str, Layout]) -> None:
    files = {file["path"]: file for file in values(of("ndv4", found=state()))["files"]}
    assert files[NDV4_FILE]["content"] == generate(layouts["ndv4"])
    assert files[NDV4_LINK] == {"path": NDV4_LINK, "state": "link", "target": NDV4_FILE}


@parametrized(("choice", "expected"))
def test_whether_the_file_is_used(
    layouts: dict[str, Layout], choice: str, expected: list[bool]
) -> None:
    used = {"single_node": False, "multi_node": True, "container": True}
    layout = dataclasses.replace(layouts["ndv5"], used=used)
    assert topology_used(layout, choice) == dict(zip(CONTEXTS, expected, strict=True))
    assert topology_used(None, choice) == dict.fromkeys(CONTEXTS, False)


def test_the_catalogs_reason_is_told(layouts: dict[str, Layout]) -> None:
    told = values(of("ndv4"))["topology"]
    assert (told["reason"], told["file"]) == (layouts["ndv4"].why, NDV4_FILE)


def good_topology(layout: Layout) -> dict[str, Any]:
    content = base64.b64encode(generate(layout).encode()).decode()
    return {"exists": True, "content": content, "link": layout.file}


def test_nothing_is_wrong_in_the_end(layouts: dict[str, Layout]) -> None:
    whole = state(topology=good_topology(layouts["ndv4"]))
    assert values(of("ndv4", found=whole))["wrong"] == []
    kept = {**whole, "libraries": ["2.29.1"], "outdated": ["nccl-tests"]}
    assert values(of("ndv4", node=IMAGE, found=kept))["wrong"] == []
    assert values(of("hbv3", found=state()))["wrong"] == []


@parametrized(("given", "changes", "said"))
def test_what_is_wrong_in_the_end(
    layouts: dict[str, Layout], given: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    there = state(topology=good_topology(layouts["ndv4"]), **changes)
    [wrong] = values(of("ndv4", found=there, **given))["wrong"]
    assert said in wrong


def test_what_is_wrong_with_the_topology_file(layouts: dict[str, Layout]) -> None:
    missing = values(of("ndv4", found=state()))["wrong"]
    assert [one.split(": ", 1)[1].split(";")[0] for one in missing] == [
        f"{NDV4_FILE} is missing",
        f"{NDV4_LINK} leads to nowhere, expected {NDV4_FILE}",
    ]
    good = good_topology(layouts["ndv4"])
    spoilt = generate(layouts["ndv4"]).replace('"0003:', '"00000003:').encode()
    bad = state(topology={**good, "content": base64.b64encode(spoilt).decode()})
    [wrong] = values(of("ndv4", found=bad))["wrong"]
    assert "line 4, pci 00000003:00:00.0: the domain of" in wrong
    assert values(of("ndv4", topology_file_used="never", found=bad))["wrong"] == []


OLD = "0000ffff,0000ffff"


def test_a_wrong_file_of_an_old_image_is_found_before_anything_changes(
    layouts: dict[str, Layout],
) -> None:
    """The masks that NDv4's file had on images before February 2025 (azhpc-images@3409a5b1)."""
    good = good_topology(layouts["ndv4"])
    text = re.sub('affinity="[^"]*"', f'affinity="{OLD}"', generate(layouts["ndv4"]))
    old = {**good, "content": base64.b64encode(text.encode()).decode()}
    given = {"node": IMAGE}
    made = plan(of("ndv4", found=state(topology=old), **given))
    assert made.refused == []
    assert f"affinity {OLD} is cores 0-15,32-47, expected" in made.values["topology"]["mended"][0]
    assert NDV4_FILE in [file["path"] for file in made.values["files"]]
    # Ansible prints it where the role is planned: in preflight, before any role has run.
    (printed,) = made.values["warnings"]
    assert f"nccl: wrong for Standard_ND96asr_v4: {NDV4_FILE}: " in printed
    assert f"affinity {OLD} is cores 0-15,32-47, expected" in printed
    # A right one is kept and not touched.
    right = plan(of("ndv4", found=state(topology=good), **given))
    paths = [file["path"] for file in right.values["files"]]
    assert (right.refused, NDV4_FILE in paths) == ([], False)
    assert right.values["warnings"] == []


def test_a_size_with_a_graph_file_is_given_both(layouts: dict[str, Layout]) -> None:
    wanted = asks(nc96())["nccl_facts"]
    folder = "/opt/microsoft"
    assert wanted["graphs_file"] == f"{folder}/ncv4-graph.xml"
    files = {file["path"]: file for file in values(nc96())["files"]}
    assert files[f"{folder}/ncv4/graph.xml"]["target"] == f"{folder}/ncv4-graph.xml"
    assert files[f"{folder}/ncv4-graph.xml"]["content"] == generate_graphs(layouts["ncv4"])
    conf = exported(files["/etc/nccl.conf"]["content"])
    assert conf == {
        "NCCL_TOPO_FILE": f"{folder}/ncv4/topo.xml",
        "NCCL_GRAPH_FILE": f"{folder}/ncv4/graph.xml",
        "NCCL_IGNORE_CPU_AFFINITY": "1",
    }
    never = {file["path"]: file for file in values(nc96(topology_file_used="never"))["files"]}
    profile = exported(never["/opt/trueup/nccl/profiles/single_node.sh"]["content"])
    assert (profile["NCCL_TOPO_FILE"], profile["NCCL_GRAPH_FILE"]) == ("", "")
    lacking = values(nc96(found=state(topology=good_topology(layouts["ncv4"]))))["wrong"]
    assert [one.split(";")[0] for one in lacking] == [
        f"nccl: {folder}/ncv4-graph.xml is missing",
        f"nccl: {folder}/ncv4/graph.xml leads to nowhere, expected {folder}/ncv4-graph.xml",
    ]


def test_it_is_measured_where_there_is_a_floor_for_it(layouts: dict[str, Layout]) -> None:
    entries = of("ndv4").catalog("expectations.yml")["expectations"]
    floors = {
        size
        for entry in entries
        if entry.get("parameters", {}).get("transport") == ["ib"] and entry["nodes"] == 1
        for value in entry["values"]
        for size in value["sizes"]
    }
    looped = [layout.sizes for layout in layouts.values() if layout.ib_loopback]
    assert sorted(floors) == sorted(size for sizes in looped for size in sizes)


def test_a_case_for_each_collective_with_what_the_module_takes() -> None:
    given = {"operations": ["all_reduce", "alltoall"], "ib_loopback": "never"}
    cases = plan(of("ndv4", **given)).cases or []
    assert [each["operation"] for each in cases] == ["all_reduce", "alltoall"]
    assert set(cases[0]) <= set(module_spec(OPTIONS))
    assert (cases[0]["gpus_per_node"], cases[0]["bytes_to"], cases[0]["warmup"]) == (8, 1 << 34, 5)
    assert ("launcher_path" in cases[0], cases[0]["job_directory"]) == (False, None)
