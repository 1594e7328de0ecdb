"""The role nccl, planned for every family and package manager: packages, builds, topology file,
settings, what is wrong in the end, and the collectives that are measured."""

from __future__ import annotations

import base64
import dataclasses
import re
from typing import Any

import pytest
from role_plans import asked, catalog, node
from trueup_controller.plans.nccl import asks, completed, plan
from trueup_controller.plans.nccl_setup import KINDS, settings_that_apply, topology_used
from trueup_node.benchmarks.nccl.case import OPTIONS
from trueup_node.node.mpi import Mpi, fact, hpcx_environment
from trueup_node.node.nccl_topology import Layout, generate, generate_graphs, read_layouts
from trueup_node.options import module_spec
from trueup_node.plan import Now, PlanInputs

SYSTEMS = ("ubuntu-24.04", "almalinux-9")
FAMILIES = ("hbv3", "ndv4", "nd_h100_v5", "nc_a100_v4", "nv_a10_v5")
IMAGE = {"hpc_image": {"NCCL": "2.29.1-1"}}
CONTEXTS = ("conf", "single_node", "multi_node", "container")
NAMES = ["node-1", "node-2"]
MULTI = {"nodes": NAMES, "launcher": "mpirun"}
HPCX = "/opt/hpcx-v2.25.1-gcc-doca_ofed-ubuntu24.04-cuda13-x86_64"
LIBS = {"LD_LIBRARY_PATH": "/x/lib"}
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


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_packages_and_repository_of_each_system(family: str, system: str) -> None:
    made = values(of(family, system))
    folder, key, first = {
        "ubuntu-24.04": ("ubuntu2404", "3bf863cc.pub", "libnccl2"),
        "almalinux-9": ("rhel9", "D42D0685.pub", "libnccl"),
    }[system]
    url = f"https://developer.download.nvidia.com/compute/cuda/repos/{folder}/x86_64/"
    assert (made["repository"]["url"], made["repository"]["key_url"]) == (url, url + key)
    assert len(made["repository"]["key_fingerprint"]) == 40
    assert made["kept"] is False
    assert made["packages"][0] == {"name": first, "version": "2.30.4-1+cuda13*"}
    assert made["packages"][2] == {"name": "cuda-nvcc-13-0", "version": "13.0.*"}


def test_a_mirror_goes_before_the_drivers_repository() -> None:
    mirror, drivers = {"name": "mirror"}, {"name": "drivers"}
    play = {"gpu_driver_repository": drivers}
    assert values(of("ndv4", play=play))["repository"] == drivers
    assert values(of("ndv4", play=play, repository=mirror))["repository"] == mirror


@pytest.mark.parametrize(
    ("family", "code", "plugin"),
    [
        ("hbv3", None, True),
        ("ndv4", 80, True),
        ("nd_h100_v5", 90, True),
        ("nc_a100_v4", 80, False),
        ("nv_a10_v5", 86, False),
    ],
)
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


@pytest.mark.parametrize(
    ("family", "given", "built"),
    [
        ("ndv4", {}, ["nccl-tests", "nccl-rdma-sharp-plugins"]),
        ("nc_a100_v4", {}, ["nccl-tests"]),
        ("ndv4", {"node": IMAGE}, []),
        (
            "ndv4",
            {"node": IMAGE, "from_image": "replace"},
            ["nccl-tests", "nccl-rdma-sharp-plugins"],
        ),
        ("ndv4", {"node": {"hpc_image": {}}}, ["nccl-tests", "nccl-rdma-sharp-plugins"]),
    ],
)
def test_what_is_built_now(family: str, given: dict[str, Any], built: list[str]) -> None:
    old = state(outdated=["nccl-tests", "nccl-rdma-sharp-plugins"])
    made = values(of(family, found=old, **given))
    assert [build["name"] for build in made["to_build"]] == built


@pytest.mark.parametrize(
    ("family", "given", "exists", "written"),
    [
        ("hbv3", {}, False, []),
        ("nc_a100_v4", {}, False, []),
        ("nv_a10_v5", {}, False, []),
        ("ndv4", {}, True, [NDV4_LINK, NDV4_FILE]),
        ("ndv4", {"node": IMAGE}, True, [NDV4_LINK]),
        ("ndv4", {"node": IMAGE}, False, [NDV4_LINK, NDV4_FILE]),
    ],
)
def test_the_topology_file_is_written_where_no_image_keeps_it(
    family: str, given: dict[str, Any], exists: bool, written: list[str]
) -> None:
    found = state(topology={"exists": exists})
    files = values(of(family, found=found, **given))["files"]
    jobs = (*CONTEXTS[1:], "multi_node_training", "multi_node_serving")
    profiles = [f"/opt/trueup/nccl/profiles/{job}.sh" for job in jobs]
    assert [file["path"] for file in files] == ["/etc/nccl.conf", *profiles, *written]


def test_the_topology_file_is_that_of_the_catalog(layouts: dict[str, Layout]) -> None:
    files = {file["path"]: file for file in values(of("ndv4", found=state()))["files"]}
    assert files[NDV4_FILE]["content"] == generate(layouts["ndv4"])
    assert files[NDV4_LINK] == {"path": NDV4_LINK, "state": "link", "target": NDV4_FILE}


@pytest.mark.parametrize(
    ("family", "told"),
    [
        ("hbv3", [["NCCL_IB_PCI_RELAXED_ORDERING"], 6, 4, 3]),
        ("ndv4", [3, 9, 10, 4]),
        ("nd_h100_v5", [3, 9, 17, 4]),
        ("nc_a100_v4", [[], 5, 3, 2]),
        ("nv_a10_v5", [[], 5, 3, 2]),
    ],
)
def test_what_each_family_is_told(family: str, told: list[Any]) -> None:
    files = values(of(family, found=state()))["files"][:4]
    found = [exported(file["content"]) for file in files]
    # The plugin's folder is no setting.
    names = [[name for name in each if name != "LD_LIBRARY_PATH"] for each in found]
    shown = [
        each if isinstance(wanted, list) else len(each)
        for each, wanted in zip(names, told, strict=True)
    ]
    assert shown == told
    plugin = family in {"hbv3", "ndv4", "nd_h100_v5"}
    assert ("LD_LIBRARY_PATH" in found[2], "LD_LIBRARY_PATH" in found[1]) == (plugin, False)


def test_a_sites_variables_win_and_each_line_says_why() -> None:
    given = {"variables": {"NCCL_NET_GDR_LEVEL": 3, "FOO": "a b"}, "found": state()}
    conf, _, multi, container = values(of("ndv4", **given))["files"][:4]
    said = "\n# Set by this site (nccl_variables).\n"
    assert multi["content"].count("NCCL_NET_GDR_LEVEL=") == 1
    assert f"{said}export NCCL_NET_GDR_LEVEL=3\n" in multi["content"]
    assert f"{said}export FOO='a b'\n" in container["content"]
    # NCCL's own file takes NCCL's variables only.
    assert f"{said}NCCL_NET_GDR_LEVEL=3\n" in conf["content"]
    assert "FOO" not in conf["content"]
    lines = [line for file in (conf, multi, container) for line in file["content"].splitlines()]
    assert max(map(len, lines)) <= 120
    assert "# In the container nothing of /etc/nccl.conf is seen" in container["content"]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("by_context", [True, False, True, True]),
        ("always", [True, True, True, True]),
        ("never", [False, False, False, False]),
    ],
)
def test_whether_the_file_is_used(
    layouts: dict[str, Layout], choice: str, expected: list[bool]
) -> None:
    used = {"single_node": False, "multi_node": True, "container": True}
    layout = dataclasses.replace(layouts["ndv5"], used=used)
    assert topology_used(layout, choice) == dict(zip(CONTEXTS, expected, strict=True))
    assert topology_used(None, choice) == dict.fromkeys(CONTEXTS, False)


@pytest.mark.parametrize(
    ("family", "choice", "layout", "reason"),
    [
        ("hbv3", "always", None, "the catalog has no topology of Standard_HB"),
        ("local", "by_context", None, "the catalog has no topology of this machine"),
        ("ndv4", "never", "ndv4", "nccl_topology_file_used is never"),
    ],
)
def test_what_run_json_says_of_the_topology(
    family: str, choice: str, layout: str | None, reason: str
) -> None:
    told = values(of(family, topology_file_used=choice))["topology"]
    assert (told["layout"], told["choice"]) == (layout, choice)
    assert told["reason"].startswith(reason)
    assert told["used"] == dict.fromkeys(CONTEXTS, False)


def test_the_catalogs_reason_is_told(layouts: dict[str, Layout]) -> None:
    told = values(of("ndv4"))["topology"]
    assert (told["reason"], told["file"]) == (layouts["ndv4"].why, NDV4_FILE)


SETTINGS = [
    {"name": "NCCL_A", "value": "1", "in": ["conf", "multi_node"]},
    {"name": "NCCL_B", "value": "1", "for": ["ndv5"]},
    {"name": "UCX_C", "value": "1"},
    {"name": "NCCL_D", "value": "1", "rdma": True},
    {"name": "NCCL_E", "value": "1", "kinds": ["collective_test"]},
    {"name": "NCCL_E", "value": "2", "kinds": ["training"]},
    {"name": "NCCL_A", "value": "2"},
]


@pytest.mark.parametrize(
    ("context", "kind", "layout", "rdma", "expected"),
    [
        # Only NCCL's variables stand in NCCL's file, for jobs of every kind; the last of a name
        # wins.
        ("conf", "", "ndv4", False, ["NCCL_A=2"]),
        ("single_node", "serving", "ndv5", False, ["NCCL_B=1", "UCX_C=1", "NCCL_A=2"]),
        ("multi_node", "serving", "", True, ["UCX_C=1", "NCCL_D=1", "NCCL_A=2"]),
        ("multi_node", "training", "", False, ["UCX_C=1", "NCCL_E=2", "NCCL_A=2"]),
        ("multi_node", "collective_test", "", False, ["UCX_C=1", "NCCL_E=1", "NCCL_A=2"]),
    ],
)
def test_the_settings_that_apply(
    context: str, kind: str, layout: str, rdma: bool, expected: list[str]
) -> None:
    chosen = settings_that_apply(SETTINGS, context, kind, layout, rdma=rdma)
    assert [f"{item['name']}={item['value']}" for item in chosen] == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tests_commit": "v2.19.6"}, "nccl_tests_commit: give the whole commit"),
        ({"sharp_plugin_commit": "AB" * 20}, "nccl_sharp_plugin_commit: give the whole commit"),
        ({"node": {"package_manager": None}}, "is neither apt nor dnf"),
    ],
)
def test_what_is_refused(given: dict[str, Any], said: str) -> None:
    assert said in " ".join(plan(of("ndv4", **given)).refused)


def test_nodes_of_one_record_are_alike() -> None:
    sizes = {name: {"ansible_facts": {"trueup_node": {"vm_size": name}}} for name in NAMES}
    [refused] = plan(dataclasses.replace(of("ndv4", **MULTI), hostvars=sizes)).refused
    assert refused.startswith("nccl_nodes: nodes measured together differ in vm_size")


def test_a_conf_that_the_image_rewrites_at_boot_is_put_back() -> None:
    """azhpc-images@8e9d055: sku-customizations rewrites /etc/nccl.conf at start, empties it at
    stop."""
    image = {file["path"]: file for file in values(of("ndv4"))["files"]}
    assert not any("sku-customizations" in path for path in image)
    there = of(
        "ndv4", node=IMAGE, found={"sku_customizations": True}, variables={"NCCL_ALGO": "Tree"}
    )
    files = {file["path"]: file for file in values(there)["files"]}
    kept = "/opt/trueup/nccl/nccl.conf"
    assert "NCCL_ALGO=Tree" in files[kept]["content"]
    assert files[kept]["content"] == files["/etc/nccl.conf"]["content"]
    drop_in = files["/etc/systemd/system/sku-customizations.service.d/trueup-nccl.conf"]["content"]
    _, command = drop_in.split("ExecStartPost=-")
    # What runs after the image's script leaves mode and content as config_files expects them.
    assert command.split() == ["/usr/bin/install", "-m", "0644", kept, "/etc/nccl.conf"]


@pytest.mark.parametrize(("choice", "off"), [("by_gpus", True), ("unused", True), ("used", False)])
def test_hcoll_is_decided_once(choice: str, off: bool) -> None:
    """hpcx_hcoll is the role hpcx's: module file, launches and NCCL's profiles follow it."""
    wanted = dataclasses.replace(of("ndv4"), hostvars={"node-1": {"hpcx_hcoll": choice}})
    found = {
        job: exported(file["content"]).get("OMPI_MCA_coll_hcoll_enable")
        for job, file in zip(CONTEXTS, values(wanted)["files"], strict=False)
    }
    told = "0" if off else None
    assert found == {"conf": None, "single_node": told, "multi_node": told, "container": None}
    made = [each["variables"] for each in plan(wanted).cases or []]
    assert {each.get("OMPI_MCA_coll_hcoll_enable") for each in made} == {told}


@pytest.mark.parametrize(
    ("mpi", "home", "libraries"),
    [
        (None, "/opt/hpcx", "/opt/hpcx/ompi/lib:/opt/hpcx/sharp/lib:"),
        ({"path": "/usr/bin/mpirun"}, "/opt/hpcx", "/opt/hpcx/ompi/lib:"),
        (
            {"path": f"{HPCX}/hpcx-rebuild/bin/mpirun", "kind": "hpcx-pmix", "environment": LIBS},
            HPCX,
            "/x/lib",
        ),
        (
            {"path": "/opt/openmpi-5.0.10/bin/mpirun", "kind": "openmpi", "environment": LIBS},
            "/opt/hpcx",
            "/x/lib",
        ),
    ],
)
def test_the_mpi_to_build_with_has_a_folder(
    mpi: dict[str, Any] | None, home: str, libraries: str
) -> None:
    wanted = of("ndv4", node={"mpi": mpi})
    tests, sharp = asks(wanted)["nccl_facts"]["builds"]
    given = mpi or {"path": ""}
    own = given["path"].removesuffix("/bin/mpirun") if "environment" in given else f"{home}/ompi"
    assert f"MPI_HOME={own}" in tests["commands"][0]
    assert sharp["commands"][1][-1] == f"--with-sharp={home}/sharp"
    made = values(dataclasses.replace(wanted, found=state(outdated=["nccl-tests"])))["to_build"]
    assert made[0]["environment"]["LD_LIBRARY_PATH"].startswith(libraries)
    assert made[0]["packages"][:2] == ["git", "make"]


def good_topology(layout: Layout) -> dict[str, Any]:
    content = base64.b64encode(generate(layout).encode()).decode()
    return {"exists": True, "content": content, "link": layout.file}


def test_nothing_is_wrong_in_the_end(layouts: dict[str, Layout]) -> None:
    whole = state(topology=good_topology(layouts["ndv4"]))
    assert values(of("ndv4", found=whole))["wrong"] == []
    kept = {**whole, "libraries": ["2.29.1"], "outdated": ["nccl-tests"]}
    assert values(of("ndv4", node=IMAGE, found=kept))["wrong"] == []
    assert values(of("hbv3", found=state()))["wrong"] == []


@pytest.mark.parametrize(
    ("given", "changes", "said"),
    [
        ({}, {"libraries": []}, "library is missing, expected 2.30.4; run this role again"),
        ({}, {"libraries": ["2.28", "2.30.4"]}, "library is 2.28, 2.30.4, expected 2.30.4"),
        (
            {"node": IMAGE},
            {},
            "expected 2.29.1; set nccl_from_image=replace to install over the image",
        ),
        ({}, {"outdated": ["nccl-tests"]}, "not built: /opt/nccl-tests/build; run"),
        (
            {"node": IMAGE},
            {"libraries": ["2.29.1"], "unbuilt": ["nccl-tests"]},
            "not built: /opt/nccl-tests/build; set nccl_from_image",
        ),
    ],
)
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


def test_a_size_that_is_to_have_no_file_says_why() -> None:
    """Azure/azhpc-images 327: NC96's files on smaller sizes."""
    made = values(nc96(vm_size="Standard_NC48ads_A100_v4"))
    assert "NC96ads_A100_v4's file and graphs name GPUs" in made["topology"]["reason"]
    assert [file["path"] for file in made["files"] if "microsoft" in file["path"]] == []


@pytest.mark.parametrize(
    ("family", "given", "host", "why"),
    [
        ("hbv3", {}, "node-1", "no GPU on this node"),
        ("ndv4", {}, "node-1", ""),
        ("ndv4", {"gpus_per_node": 1}, "node-1", "one GPU has nobody to talk to"),
        ("ndv4", {"gpus_per_node": 1, **MULTI}, "node-1", ""),
        ("ndv4", MULTI, "node-2", "measured from node-1, the first of nccl_nodes"),
        # It is configured without being measured.
        ("hbv3", {"play": {"trueup_plan": ["stream"]}}, "node-1", ""),
        ("hbv3", {"play": {"trueup_health_plan": ["nccl"]}}, "node-1", "no GPU on this node"),
    ],
)
def test_where_it_is_not_measured(family: str, given: dict[str, Any], host: str, why: str) -> None:
    skipped = plan(dataclasses.replace(of(family, **given), host=host)).skipped
    assert [one.why.startswith(why) for one in skipped] == ([True] if why else [])


def case(family: str, **given: Any) -> dict[str, Any]:
    return (plan(of(family, **given)).cases or [])[0]


@pytest.mark.parametrize(
    ("family", "given", "transports", "gpudirect"),
    [
        ("ndv4", {}, ["nvlink"], False),
        ("ndv4", MULTI, ["nvlink", "ib"], True),
        ("nd_h100_v5", MULTI, ["nvlink", "ib"], True),
        ("ndv4", {**MULTI, "gpus_per_node": 1}, ["ib"], True),
        ("nc_a100_v4", MULTI, [], False),
        ("nv_a10_v5", {}, [], False),
        ("ndv4", {"transport_expected": "any"}, [], False),
        ("ndv4", {"transport_expected": "ib"}, ["ib"], False),
    ],
)
def test_the_transport_that_a_size_must_show(
    family: str, given: dict[str, Any], transports: list[str], gpudirect: bool
) -> None:
    made = case(family, **given)
    assert (made["transports"], made["gpudirect"]) == (transports, gpudirect)


@pytest.mark.parametrize(
    ("family", "given", "looped"),
    [
        ("ndv4", {}, True),
        ("ndm_a100_v4", {}, True),
        # No floor, no adapter, several nodes, one GPU.
        ("nd_h100_v5", {}, False),
        ("nd_h100_v5", {"ib_loopback": "always"}, True),
        ("nc_a100_v4", {"ib_loopback": "always"}, False),
        ("ndv4", {"ib_loopback": "never"}, False),
        ("ndv4", MULTI, False),
        ("ndv4", {"gpus_per_node": 1}, False),
    ],
)
def test_where_the_adapters_of_one_node_are_measured(
    family: str, given: dict[str, Any], looped: bool
) -> None:
    cases = plan(of(family, **given)).cases or []
    assert [each.get("loopback", False) for each in cases] == [False, True][: 1 + looped]


def test_over_its_adapters_a_node_has_no_other_way() -> None:
    """What AzNHC's azure_nccl_allreduce_ib_loopback.nhc sets, and InfiniBand with GPUDirect in
    NCCL's log."""
    usual, looped = plan(of("ndv4", variables={"NCCL_P2P_DISABLE": "0"})).cases or []
    added = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET_GDR_LEVEL": "5"}
    assert looped["variables"] == {**usual["variables"], **added}
    assert looped["variables"]["NCCL_TOPO_FILE"] == NDV4_LINK
    assert (looped["transports"], looped["gpudirect"]) == (["ib"], True)
    assert (looped["bytes_from"], looped["bytes_to"]) == (1 << 32, 1 << 34)
    small = (plan(of("ndv4", bytes_to=1 << 20)).cases or [])[1]
    assert (small["bytes_from"], small["bytes_to"]) == (1 << 20, 1 << 20)
    gathered = plan(of("ndv4", operations=["all_gather"])).cases or []
    assert [each["operation"] for each in gathered] == ["all_gather", "all_reduce"]


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


def test_the_variables_of_a_case_are_its_profiles() -> None:
    alone, several = case("ndv4")["variables"], case("ndv4", **MULTI)["variables"]
    assert (alone["UCX_TLS"], "LD_LIBRARY_PATH" in alone) == ("tcp", False)
    plugin = "/usr/local/nccl-rdma-sharp-plugins/lib"
    assert several["LD_LIBRARY_PATH"] == plugin
    assert (several["NCCL_NET_GDR_LEVEL"], several["NCCL_TOPO_FILE"]) == ("5", NDV4_LINK)
    own = case("ndv4", **MULTI, variables={"LD_LIBRARY_PATH": "/site/lib"})["variables"]
    assert own["LD_LIBRARY_PATH"] == f"/site/lib:{plugin}"
    site = case("ndv4", variables={"NCCL_ALGO": "Tree"})["variables"]
    assert site["NCCL_ALGO"] == "Tree"


def test_a_case_is_told_who_is_gone_when_it_begins() -> None:
    each: dict[str, dict[str, Any]] = {name: {} for name in NAMES}
    now = Now("node-1", [], ["node-1"], each)
    assert completed(case("ndv4", **MULTI), now)["absent"] == ["node-2"]
    assert completed(case("ndv4"), now)["absent"] == []


AZURE_LINUX = {"distribution": "azurelinux", "distribution_version": "3.0"}


def test_azure_linux_has_what_its_image_brought() -> None:
    assert values(of("ndv4", "almalinux-9", node={**AZURE_LINUX, **IMAGE}))["kept"] is True
    (refused,) = plan(of("ndv4", "almalinux-9", node=AZURE_LINUX)).refused
    assert "no repository with NCCL is known for Azure Linux" in refused
    given = {"name": "site", "url": "https://mirror/nccl"}
    assert plan(of("ndv4", "almalinux-9", node=AZURE_LINUX, repository=given)).refused == []
