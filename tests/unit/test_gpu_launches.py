"""Launches on two nodes of every family, whole (tests/data/launches), against Azure's own."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import devito_bench
import megatron_bench
import nccl_bench
import pytest
import yaml
from bench_modules import FakeRun
from role_plans import HPC, ND, PYTHON, ROOT, asked, node
from test_nccl_plan import state
from trueup_controller.plans import devito, megatron, nccl
from trueup_controller.plans.nccl_setup import KINDS, job_variables
from trueup_node.node.mpi import Mpi, fact, hpcx_environment
from trueup_node.node.topology import Topology
from trueup_node.plan import Plan, PlanInputs

DATA = Path(__file__).parents[1] / "data" / "launches"
AZURES = {
    name: yaml.safe_load((DATA / f"azure-{name}.yml").read_text()) for name in ("ndv4", "ndv5")
}
AZURE = AZURES["ndv4"]
MASKS = AZURE["masks"]
SETTINGS = yaml.safe_load((ROOT / "catalog" / "nccl_settings.yml").read_text())["settings"]
HPCX = "/opt/hpcx-v2.25.1-gcc-doca_ofed-ubuntu22.04-cuda13-x86_64"
NODES = ["gpu-1", "gpu-2"]
# Whose figures hold for a family.
FIGURES = {"ndv4": "ndv4", "ndm_a100_v4": "ndv4", "nd_h100_v5": "ndv5", "nd_h200_v5": "ndv5"}
CHUNKS = {"nccl": "2097152", "training": "524288"}
SLURM = {"launcher": "slurm"}
GIB = 1024**3
FREE = {"there": False, "link": False, "path": "/home", "free_bytes": 90 * GIB}
# Of the user and the machine that starts it.
OURS_ALONE = ("OMPI_ALLOW_RUN_AS_ROOT",)


def machine_of(family: str) -> Topology:
    """A machine of the catalog's cores and NUMA nodes, in their order."""
    row = node(family)["catalog"]
    count, places = row["vcpus"], row["numa_nodes"]
    numa = {
        at: tuple(range(at * count // places, (at + 1) * count // places)) for at in range(places)
    }
    cores = tuple((cpu,) for cpu in range(count))
    return Topology(
        cpus=tuple(range(count)), numa=numa, l3_groups=tuple(numa.values()), cores=cores
    )


def there_is(family: str) -> dict[str, Any]:
    """The fact of a node of Azure's image: HPC-X is its MPI."""
    rebuilt = f"{HPCX}/hpcx-rebuild"
    made = Mpi(f"{HPCX}/ompi/bin/mpirun", "hpcx", "4.1.9", hpcx_environment(HPCX), rebuilt)
    bare = node(family)
    count = (bare["catalog"] or {}).get("rdma_nics") or 0
    adapters = [f"mlx5_ib{number}" for number in range(count)]
    chosen = fact(made, devices=adapters, has_gpu=bare["has_gpu"], rdma_expected=count)
    shown = {"topology": machine_of(family)} if family in HPC else {}
    programs = {**bare["programs"], "gcc": "/usr/bin/gcc"}
    return node(family, **shown, mpi=chosen, programs=programs)


def on(
    role: str,
    family: str,
    found: dict[str, Any],
    play: dict[str, Any] | None = None,
    **options: Any,
) -> PlanInputs:
    there = there_is(family)
    made = asked(role, there, found, **options)
    hostvars = {name: {"ansible_facts": {"trueup_node": there}} for name in NODES}
    variables = {"trueup_plan": [role], "trueup_job_directory": "/shared/jobs", **(play or {})}
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


def devito_case(family: str = "hbv3", **options: Any) -> dict[str, Any]:
    """The last case of a sweep: every node, a rank for each NUMA node."""
    size = machine_of(family)
    layout = {"ranks": 4, "threads_per_rank": len(size.cpus) // 4, "binding": "numa"}
    prefix = "/opt/trueup/devito"
    found = {
        "python": PYTHON,
        "programs": {"gcc": "/usr/bin/gcc"},
        "folders": {prefix: FREE, f"{prefix}/venv": FREE},
    }
    options = {**options, "prefix": prefix}
    there = on("devito", family, found, node_layouts=[layout], **options)
    case = (devito.plan(there).as_result()["cases"] or [])[-1]
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


DEVITO = {
    "devito-slurm": (devito_bench, devito_case, {"nodes": NODES, "launchers": ["slurm"]}),
    "devito-mpirun": (devito_bench, devito_case, {"nodes": NODES, "launchers": ["mpirun"]}),
}
ON_GPUS = [name for name, (_, _, options) in CASES.items() if options]
IN_FAMILY = [
    *((family, name) for family in (*ND, "nc_a100_v4", "nc_h100_v5") for name in ON_GPUS),
    *((family, name) for family in ("hbv3", "hbv4") for name in DEVITO),
]


@pytest.fixture(name="launched")
def _launched(runner: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    def launch(name: str, family: str = "ndv4") -> dict[str, Any]:
        monkeypatch.setattr(devito_bench, "read_topology", lambda **_: machine_of(family))
        monkeypatch.setattr(devito_bench, "available_memory_bytes", lambda: 400 * GIB)
        # A key of the CPU: the same one on every machine of the tests.
        monkeypatch.setattr(devito_bench.devito, "jit_key", lambda: "915af66939f6")
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        module, case, options = {**CASES, **DEVITO}[name]
        result = runner(module)(FakeRun(), check=True, **case(family, **options))
        environment = {
            key: value
            for key, value in result["environment"].items()
            if not key.startswith(OURS_ALONE)
        }
        return {"command": result["command"], "environment": environment}

    return launch


@pytest.mark.parametrize("name", ["nccl-local", "training-torchrun"])
def test_the_exact_command_and_environment_on_one_node(launched: Any, name: str) -> None:
    assert launched(name) == json.loads((DATA / f"ndv4-1x8-{name}.json").read_text())


@pytest.mark.parametrize(("family", "name"), IN_FAMILY)
def test_the_exact_command_and_environment(launched: Any, family: str, name: str) -> None:
    golden = json.loads((DATA / f"two-{family}-{name}.json").read_text())
    assert launched(name, family) == golden


def test_every_golden_launch_is_one_of_these() -> None:
    names = {f"two-{family}-{name}.json" for family, name in IN_FAMILY}
    assert {path.name for path in DATA.glob("two-*.json")} == names


@pytest.mark.parametrize("program", ["nccl", "training"])
@pytest.mark.parametrize(("family", "of"), [(one, FIGURES[one]) for one in ND])
def test_it_is_azures_in_every_variable_and_mask_or_says_why(
    launched: Any, family: str, of: str, program: str
) -> None:
    ours, azure = launched(f"{program}-slurm", family), AZURES[of]
    argv = ours["command"]
    step = shlex.split(argv[-1].partition("=")[2])
    [bind] = [word for word in step if word.startswith("--cpu-bind=mask_cpu:")]
    masks = [mask.removeprefix("0x") for mask in bind.partition(":")[2].split(",")]
    assert (masks == azure["masks"]) is ("otherwise_masks" not in azure)
    assert [word for word in azure["sbatch"] if word not in argv] == []
    assert [word for word in azure["srun"] if word not in step] == []
    here, theirs = ours["environment"], azure["variables"]
    theirs = theirs.get(program, theirs)
    differing = {name for name, value in theirs.items() if here.get(name) != value}
    assert differing == set(azure["otherwise"][program])
    assert set(here) - set(theirs) == set(azure["more"][program])


@pytest.mark.parametrize("family", [family for family in ND if FIGURES[family] == "ndv5"])
def test_mpirun_has_azures_options_or_says_why(launched: Any, family: str) -> None:
    argv = " ".join(launched("nccl-mpirun", family)["command"])
    options = AZURES["ndv5"]["mpirun"]
    assert [f" {option} " in argv for option in options] == [not why for why in options.values()]


def test_training_takes_other_settings_than_the_test_of_collectives(launched: Any) -> None:
    test, training = (
        launched(f"{program}-slurm", "nd_h100_v5")["environment"] for program in CHUNKS
    )
    chunk = "NCCL_P2P_NET_CHUNKSIZE"
    assert {"nccl": test[chunk], "training": training[chunk]} == CHUNKS
    of_sharp = [name for name in test if name.startswith("SHARP_") or name == "NCCL_COLLNET_ENABLE"]
    assert (len(of_sharp), [name for name in of_sharp if name in training]) == (4, [])


def test_a_server_over_nodes_takes_its_own() -> None:
    kinds = {
        kind: job_variables(on("nccl", "nd_h100_v5", state()), "multi_node", kind) for kind in KINDS
    }
    assert sorted(kinds["serving"]) == [
        "CUDA_DEVICE_ORDER",
        "NCCL_IB_PCI_RELAXED_ORDERING",
        "NCCL_IB_QPS_PER_CONNECTION",
        "NCCL_IGNORE_CPU_AFFINITY",
        "NCCL_SOCKET_IFNAME",
        "NCCL_TOPO_FILE",
    ]
    assert set(kinds["serving"].items()) <= set(kinds["training"].items())


@pytest.mark.parametrize("program", ["nccl", "training", "devito"])
def test_one_rule_for_the_mpi_of_slurms_ranks(launched: Any, program: str) -> None:
    family = "hbv3" if program == "devito" else "nd_h100_v5"
    ours = launched(f"{program}-slurm", family)
    assert " --mpi=pmix " in ours["command"][-1]
    paths = ours["environment"]["LD_LIBRARY_PATH"].split(":")
    # Training's processes load no MPI.
    assert f"{HPCX}/ompi/lib" not in paths
    assert (f"{HPCX}/hpcx-rebuild/lib" in paths) is (program != "training")


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
        kind = "collective_test" if program == "nccl" else "training"
        if "ndv4" in setting.get("for", ["ndv4"]) and kind in setting.get("kinds", [kind]):
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
    given = {"interface": "eth1", "play": {"trueup_srun_arguments": ["--mpi=none"]}}
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
