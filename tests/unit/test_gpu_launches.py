"""Launches on the GPUs of two NDv4 nodes, whole (tests/data/launches), against Azure's own."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import megatron_bench
import nccl_bench
import pytest
import yaml
from bench_modules import FakeRun
from role_plans import PYTHON, ROOT, asked, node
from test_nccl_plan import state
from trueup.benchmarks.megatron import plan as megatron
from trueup.benchmarks.nccl import plan as nccl
from trueup.node.mpi import Mpi, fact, hpcx_environment
from trueup.plan import Asked, Plan

DATA = Path(__file__).parents[1] / "data" / "launches"
AZURE = yaml.safe_load((DATA / "azure-ndv4.yml").read_text())
MASKS = AZURE["masks"]
SETTINGS = yaml.safe_load((ROOT / "catalog" / "nccl_settings.yml").read_text())["settings"]
HPCX = "/opt/hpcx-v2.25.1-gcc-doca_ofed-ubuntu22.04-cuda13-x86_64"
NODES = ["gpu-1", "gpu-2"]
SLURM = {"launcher": "slurm", "job_directory": "/shared/jobs"}
GIB = 1024**3
FREE = {"there": False, "link": False, "path": "/home", "free_bytes": 90 * GIB}
# Of the user and the machine that starts it.
OURS_ALONE = ("OMPI_MCA_orte_tmpdir_base", "OMPI_ALLOW_RUN_AS_ROOT")


def there_is(family: str) -> dict[str, Any]:
    """The fact of a node of Azure's image: HPC-X is its MPI."""
    rebuilt = f"{HPCX}/hpcx-rebuild"
    made = Mpi(f"{HPCX}/ompi/bin/mpirun", "hpcx", "4.1.9", hpcx_environment(HPCX), rebuilt)
    adapters = [f"mlx5_ib{number}" for number in range(8 if family.startswith("nd") else 0)]
    count = len(adapters)
    return node(family, mpi=fact(made, devices=adapters, has_gpu=True, rdma_expected=count))


def on(role: str, family: str, found: dict[str, Any], **options: Any) -> Asked:
    there = there_is(family)
    made = asked(role, there, found, **options)
    hostvars = {name: {"ansible_facts": {"trueup_node": there}} for name in NODES}
    variables = {"trueup_plan": [role]}
    return dataclasses.replace(
        made, host=NODES[0], hosts=NODES, hostvars=hostvars, variables=variables
    )


def nccl_case(family: str = "ndv4", **options: Any) -> dict[str, Any]:
    case = nccl.plan(on("nccl", family, state(), **options)).as_result()["cases"][0]
    return {**case, "node": there_is(family)}


def training_plan(family: str, **options: Any) -> Plan:
    prefix = "/opt/trueup/training"
    found = {
        "python": PYTHON,
        "programs": {"git": "/usr/bin/git"},
        "folders": {prefix: FREE, f"{prefix}/venv": FREE},
    }
    return megatron.plan(on("training", family, found, prefix=prefix, **options))


def training_case(family: str = "ndv4", **options: Any) -> dict[str, Any]:
    made = training_plan(family, **options)
    assert made.refused == []
    [case] = made.as_result()["cases"]
    return {**case, "node": there_is(family)}


CASES = {
    "nccl-local": (nccl_bench, nccl_case, {}),
    "training-torchrun": (megatron_bench, training_case, {}),
    "nccl-slurm": (nccl_bench, nccl_case, {"nodes": NODES, **SLURM}),
    "nccl-mpirun": (nccl_bench, nccl_case, {"nodes": NODES, "launcher": "mpirun"}),
    "training-slurm": (megatron_bench, training_case, {"hosts": NODES, **SLURM}),
    "training-mpirun": (
        megatron_bench,
        training_case,
        {"hosts": NODES, "launcher": "mpirun", "rendezvous_address": "10.0.0.4"},
    ),
}


@pytest.fixture(name="launched")
def _launched(runner: Any) -> Any:
    def launch(name: str) -> dict[str, Any]:
        module, case, options = CASES[name]
        result = runner(module)(FakeRun(), check=True, **case(**options))
        environment = {
            key: value
            for key, value in result["environment"].items()
            if not key.startswith(OURS_ALONE)
        }
        return {"command": result["command"], "environment": environment}

    return launch


@pytest.mark.parametrize("name", CASES)
def test_the_exact_command_and_environment(launched: Any, name: str) -> None:
    golden = json.loads((DATA / f"{golden_name(name)}.json").read_text())
    assert launched(name) == golden


def golden_name(name: str) -> str:
    return f"ndv4-{2 if CASES[name][2] else 1}x8-{name}"


@pytest.mark.parametrize("program", ["nccl", "training"])
def test_it_is_azures_in_every_variable_and_mask_or_says_why(launched: Any, program: str) -> None:
    ours = launched(f"{program}-slurm")
    argv = ours["command"]
    step = shlex.split(argv[-1].partition("=")[2])
    [bind] = [word for word in step if word.startswith("--cpu-bind=mask_cpu:")]
    masks = bind.partition(":")[2].split(",")
    assert [mask.removeprefix("0x") for mask in masks] == AZURE["masks"]
    assert [word for word in AZURE["sbatch"] if word not in argv] == []
    assert [word for word in AZURE["srun"] if word not in step] == []
    here, theirs = ours["environment"], AZURE["variables"]
    differing = {name for name, value in theirs.items() if here.get(name) != value}
    assert differing == set(AZURE["otherwise"][program])
    assert set(here) - set(theirs) == set(AZURE["more"][program])


@pytest.mark.parametrize("program", ["nccl", "training"])
def test_mpirun_binds_each_rank_to_the_same_cores_and_passes_all_variables(
    launched: Any, program: str
) -> None:
    ours = launched(f"{program}-mpirun")
    argv = ours["command"]
    cpus = "24-47/24-47/0-23/0-23/72-95/72-95/48-71/48-71"
    assert argv[argv.index("sh") + 4] == cpus
    passed = {argv[place + 1] for place, word in enumerate(argv) if word == "-x"}
    assert passed == set(ours["environment"])


@pytest.mark.parametrize("program", ["nccl", "training"])
def test_variables_of_several_nodes_are_not_on_one_nor_the_reverse(
    launched: Any, program: str
) -> None:
    alone = launched(f"{program}-{'local' if program == 'nccl' else 'torchrun'}")["environment"]
    several = launched(f"{program}-mpirun")["environment"]
    of_context: dict[str, set[tuple[str, str]]] = {"single_node": set(), "multi_node": set()}
    for setting in SETTINGS:
        if "ndv4" in setting.get("for", ["ndv4"]):
            for context in of_context.keys() & set(setting["in"]):
                of_context[context].add((setting["name"], setting["value"]))
    one, more = of_context["single_node"], of_context["multi_node"]
    assert one <= set(alone.items())
    assert more <= set(several.items())
    assert (more - one).isdisjoint(alone.items())
    assert (one - more).isdisjoint(several.items())
    # NCCL's plugin is for the network.
    here = [
        "nccl-rdma-sharp-plugins/lib" in one.get("LD_LIBRARY_PATH", "") for one in (alone, several)
    ]
    assert here == [False, True]


def test_one_node_is_another_context() -> None:
    alone, several = nccl_case(), nccl_case(nodes=NODES, **SLURM)
    assert ("NCCL_NET_GDR_LEVEL" in alone["variables"], alone["gpu_masks"]) == (False, [])
    assert several["launcher_arguments"] == ["--mpi=pmix"]
    trained = training_case()
    assert "NCCL_NET_GDR_LEVEL" not in trained["variables"]
    assert (len(trained["gpu_masks"]), trained["launcher_arguments"]) == (8, [])
    # H100: the file's use differs by context.
    one, two = training_case("nd_h100_v5"), training_case("nd_h100_v5", hosts=NODES, **SLURM)
    files = [case["variables"]["NCCL_TOPO_FILE"] for case in (one, two)]
    assert files == ["", "/opt/microsoft/ndv5/topo.xml"]
    assert two["gpu_masks"][0] == "ffffffffffff"


def test_who_says_otherwise_has_it_so() -> None:
    given = {"launcher_arguments": ["--mpi=none"], "interface": "eth1"}
    case = training_case(hosts=NODES, **SLURM, **given, variables={"UCX_TLS": "rc"})
    assert case["launcher_arguments"] == ["--mpi=none"]
    assert (case["variables"]["UCX_TLS"], "NCCL_SOCKET_IFNAME" in case["variables"]) == (
        "rc",
        False,
    )
    # More processes than GPUs are bound to none of them.
    assert training_case(processes=16)["gpu_masks"] == []
    assert nccl_case(gpus_per_node=2, nodes=NODES, **SLURM)["gpu_masks"] == ["ffffff000000"] * 2
    # A size without a layout, and a machine that is none of Azure's.
    assert training_case("nc_a100_v4")["gpu_masks"] == []
    assert training_case("local")["gpu_masks"] == []


def test_torchrun_starts_each_process_beside_its_gpu(runner: Any) -> None:
    result = runner(megatron_bench)(FakeRun(), check=True, **training_case())
    argv = result["command"]
    place = argv.index("--no_python")
    assert argv[place + 1 : place + 3] == ["sh", "-c"]
    assert argv[place + 5].startswith("24-47/24-47/0-23/")
    assert argv[place + 6].endswith("/venv/bin/python")
    assert argv[place + 7] == "-u"


def test_the_launchers_for_a_users_own_jobs_bind_too() -> None:
    values = training_plan("ndv4").values
    assert (
        values["srun"].strip() == f"--cpu-bind=mask_cpu:{','.join('0x' + mask for mask in MASKS)}"
    )
    assert values["bind"].endswith(" 24-47/24-47/0-23/0-23/72-95/72-95/48-71/48-71 ")
    assert values["torchrun"] == f"--no_python {values['bind']}./venv/bin/python -u "
    bare = training_plan("nc_a100_v4").values
    assert [bare[name] for name in ("srun", "bind", "torchrun")] == ["", "", ""]


def test_an_mpi_outside_the_loaders_path_keeps_its_libraries(runner: Any) -> None:
    mpi = {
        "path": "/opt/hpcx-v2.25/ompi/bin/mpirun",
        "kind": "hpcx",
        "version": "4.1.9",
        "environment": {
            "OPAL_PREFIX": "/opt/hpcx-v2.25/ompi",
            "LD_LIBRARY_PATH": "/opt/hpcx-v2.25/ompi/lib:/opt/hpcx-v2.25/ucx/lib",
            "UCX_NET_DEVICES": "mlx5_ib0:1",
        },
    }
    module, made, options = CASES["training-mpirun"]
    case = made(**options)
    result = runner(module)(FakeRun(), check=True, **{**case, "node": {**case["node"], "mpi": mpi}})
    found = result["environment"]
    plugin = "/usr/local/nccl-rdma-sharp-plugins/lib"
    assert found["LD_LIBRARY_PATH"] == f"{plugin}:{mpi['environment']['LD_LIBRARY_PATH']}"
    assert (found["UCX_NET_DEVICES"], found["OPAL_PREFIX"]) == ("eth0", "/opt/hpcx-v2.25/ompi")
