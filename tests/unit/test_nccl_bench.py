"""The module nccl_bench: success, check mode, missing tool, bad output, fall-backs, refusals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nccl_bench
import pytest
from ansible.module_utils.trueup_node.benchmarks.nccl import case as nccl
from ansible.module_utils.trueup_node.run import launcher
from bench_modules import LAUNCHED, FakeRun, checks_only, ends_badly, goes_well, refuses, resumes
from record_schema import RECORDS

DATA = Path(__file__).parent.parent / "data" / "nccl"
TOPOLOGY = "/opt/microsoft/ndv4/topo.xml"
SIZES = {"bytes_from": 1024, "bytes_to": 1 << 30, "warmup": 1}
LOGGING = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,GRAPH"}


def recorded(name: str) -> str:
    return (DATA / name).read_text()


NVLINK = recorded("nvlink.txt")
INFINIBAND = recorded("infiniband.txt")
ONE_NODE = {"operation": "all_reduce", "gpus_per_node": 2, **SIZES}
TWO_NODES = {**ONE_NODE, "nodes": ["gpu-1", "gpu-2"], "launcher": "mpirun"}


@pytest.fixture(name="run_module")
def _run_module(runner: Any) -> Any:
    return runner(nccl_bench)


def test_a_good_run_gives_a_record(run_module: Any) -> None:
    run = FakeRun(stdout=NVLINK)
    variables = {"NCCL_TOPO_FILE": TOPOLOGY, "NCCL_IGNORE_CPU_AFFINITY": 1}
    result, record = goes_well(
        run_module, run, **ONE_NODE, transports=["nvlink"], variables=variables
    )
    assert record["case"] == "all_reduce-1x2"
    assert (record["ranks"], record["gpus"], record["nodes"]) == (2, 2, ["node-1"])
    assert result["ansible_facts"] == {"trueup_nccl": record}
    assert run.calls[0]["argv"] == [
        "/opt/nccl-tests/build/all_reduce_perf",
        *("-b", "1024", "-e", "1073741824", "-f", "2"),
        *("-g", "2", "-n", "20", "-w", "1", "-c", "1"),
    ]
    assert run.calls[0]["environment"] == {
        "NCCL_TOPO_FILE": TOPOLOGY,
        "NCCL_IGNORE_CPU_AFFINITY": "1",
        **LOGGING,
    }
    assert len(run.calls) == 1
    assert record["software"] == {
        "nccl": "2.30.4",
        "nccl_tests": "2.19.6",
        "nccl_net_plugins": "IBext_v11,SHARP",
        "topology_file": TOPOLOGY,
    }
    wanted = {"operation": "all_reduce", "transport": "nvlink", "bytes_to": 1 << 30, "factor": 2}
    assert {name: record["parameters"][name] for name in wanted} == wanted
    rows = {(row["name"], row["message_bytes"]): row for row in record["metrics"]}
    assert len(rows) == 21 * 8
    assert rows["busbw", 1 << 30]["unit"] == "byte/s"
    assert rows["wrong", 1 << 30]["value"] == 0


def test_a_loopback_has_a_name_of_its_own_and_needs_the_adapters(run_module: Any) -> None:
    told = {**ONE_NODE, "loopback": True, "transports": ["ib"], "gpudirect": True}
    record = run_module(FakeRun(stdout=NVLINK), **told)["record"]
    assert (record["case"], record["parameters"]["loopback"]) == ("all_reduce-1x2-ib", True)
    assert record["reason"] == "ib was not used within the node: it took NVLink"


def test_several_nodes_by_mpirun(run_module: Any) -> None:
    run = FakeRun(stdout=INFINIBAND)
    result = run_module(
        run,
        **TWO_NODES,
        launcher_path="/opt/hpcx/ompi/bin/mpirun",
        launcher_arguments=["--allow-run-as-root"],
        transports=["nvlink", "ib"],
        gpudirect=True,
        variables={"NCCL_TOPO_FILE": TOPOLOGY},
    )
    record = result["record"]
    RECORDS.validate(record)
    assert (record["outcome"], record["case"]) == ("ok", "all_reduce-2x2")
    assert (record["nodes"], record["node_count"]) == (["gpu-1", "gpu-2"], 2)
    assert (record["ranks"], record["gpus"]) == (4, 4)
    assert run.calls[0]["argv"][:24] == [
        *("/opt/hpcx/ompi/bin/mpirun", "-np", "4", "--map-by", "ppr:2:node", "--bind-to", "none"),
        *("--host", "gpu-1:2,gpu-2:2"),
        *("--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "plm_rsh_num_concurrent", "800"),
        *("-x", "NCCL_DEBUG", "-x", "NCCL_DEBUG_SUBSYS", "-x", "NCCL_TOPO_FILE"),
        *("--allow-run-as-root", "/opt/nccl-tests/build/all_reduce_perf", "-b"),
    ]
    assert run.calls[0]["argv"][-8:-6] == ["-g", "1"]
    assert record["parameters"]["sharp"] == "yes"


test_check_mode_returns_the_same_keys_and_runs_nothing = checks_only(NVLINK, **ONE_NODE)


test_a_bad_end_gives_a_record_with_the_reason = ends_badly(
    ({"returncode": 3, "stdout": NVLINK}, "failed", "exit status 3"),
    ({"stdout": NVLINK[: NVLINK.index("# Out of")]}, "failed", "it may be cut off"),
    ({"stdout": re.sub(r"\n +524288 .*", "", NVLINK)}, "failed", "1048576 stands where 524288"),
    ({"stdout": ""}, "failed", "no table of nccl-tests"),
    (
        {"stdout": recorded("wrong_values.txt")},
        "invalid",
        "wrong values in the results of 1048576",
    ),
    (
        {"stdout": re.sub(r"(Avg bus bandwidth .*)", r"\1FAILED", NVLINK)},
        "invalid",
        "below NCCL_TESTS_MIN_BW",
    ),
    (
        {"stdout": re.sub("validation: 1", "validation: 0", NVLINK)},
        "invalid",
        "did not check its results",
    ),
    (
        {"stdout": recorded("shared_memory.txt")},
        "invalid",
        "nvlink was not used within the node: it fell back to host memory",
    ),
    (
        {"stdout": re.sub(".*NCCL INFO.*\n", "", NVLINK)},
        "invalid",
        "whether nvlink was used within the node cannot be told",
    ),
    (
        {"stdout": re.sub(r"/NVL\)", "/PHB)", NVLINK)},
        "invalid",
        "not over NVLink",
    ),
    (
        {"stdout": INFINIBAND},
        "invalid",
        "4 GPUs on 2 nodes took part instead of 2 on 1",
    ),
    (
        {"stdout": NVLINK.replace("Loading topology", "Could not open XML topology")},
        "invalid",
        f"the topology file {TOPOLOGY} was not loaded",
    ),
    **ONE_NODE,
    transports=["nvlink"],
    variables={"NCCL_TOPO_FILE": TOPOLOGY},
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (recorded("sockets.txt"), "ib was not used between nodes: it fell back to TCP sockets"),
        (
            re.sub(r"mlx5_ib(\d):1/IB", r"mlx5_an\1:1/RoCE", INFINIBAND),
            "ib was not used between nodes: it took an adapter whose link is Ethernet",
        ),
        (
            re.sub(r".*\[(?:send|receive)\].*\n", "", INFINIBAND),
            "whether ib was used between nodes cannot be told: NCCL's log has no channel of gpu-1",
        ),
        (INFINIBAND.replace("/GDRDMA", ""), "GPUDirect RDMA was not used on all of the channels"),
        (NVLINK, "2 GPUs on 1 nodes took part instead of 4 on 2"),
    ],
)
def test_a_silent_fall_back_is_invalid(run_module: Any, text: str, reason: str) -> None:
    result = run_module(
        FakeRun(stdout=text), **TWO_NODES, transports=["nvlink", "ib"], gpudirect=True
    )
    assert result["record"]["outcome"] == "invalid"
    assert reason in result["record"]["reason"]


def test_a_topology_file_that_was_not_to_be_loaded_is_invalid(run_module: Any) -> None:
    result = run_module(FakeRun(stdout=NVLINK), **ONE_NODE, variables={"NCCL_TOPO_FILE": ""})
    assert result["record"]["outcome"] == "invalid"
    assert f"the topology file {TOPOLOGY} was loaded" in result["record"]["reason"]


def test_wrong_values_come_before_the_way() -> None:
    output = nccl.parse_nccl(recorded("wrong_values.txt"))
    job = nccl.Job("/b", "all_reduce", 1024, 1 << 30, 2, 20, 1, 1, 2, launcher.Launcher())
    assert nccl.judge(output, job, transports=["ib"]) == (
        "wrong values in the results of 1048576 bytes"
    )
    assert nccl.explain(recorded("wrong_values.txt")) == (
        "wrong values in the results of 1048576 bytes"
    )
    assert nccl.explain(NVLINK) is None
    assert nccl.explain("nothing") is None


test_bad_input_is_refused_before_anything_runs = refuses(
    ({"bytes_from": 0}, "bytes_from is 0: it must be 1 or more"),
    ({"bytes_to": 8}, "bytes_from 1024 and bytes_to 8"),
    ({"factor": 1}, "factor is 1: it must be 2 or more"),
    ({"iterations": 0}, "iterations is 0: it must be 1 or more"),
    ({"warmup": -1}, "warmup is -1: it must be 0 or more"),
    ({"cycles": 0}, "cycles is 0: it must be 1 or more"),
    ({"gpus_per_node": -1}, "gpus_per_node is -1: it must be 0 or more"),
    ({"gpus_per_node": 0}, "1 GPU on 1 node has nobody to talk to"),
    ({"gpus_per_node": 1}, "1 GPU on 1 node has nobody to talk to"),
    ({"nodes": ["a", "b"]}, "launcher local cannot run on 2 nodes"),
    ({"nodes": ["a", "a"], "launcher": "mpirun"}, "nodes has a twice"),
    ({"nodes": ["-x"], "launcher": "mpirun"}, "'-x' among the nodes is no host name"),
    ({"variables": {"NCCL_DEBUG": "WARN"}}, "variables sets NCCL_DEBUG"),
    ({"variables": {"NCCL_DEBUG_FILE": "/tmp/log"}}, "variables sets NCCL_DEBUG_FILE"),
    ({"variables": {"A B": "1"}}, "'A B', which is no variable's name"),
    ({"timeout_seconds": 0}, "timeout_seconds is 0: it must be 1 or more"),
    **ONE_NODE,
)


def test_a_record_of_the_run_stands_for_its_case(run_module: Any) -> None:
    several = {"launcher": "mpirun", "nodes": ["gpu-1", "gpu-2"]}
    job = {**several, "launcher": "slurm", "job_directory": "/shared"}
    changed = {
        "operation": "alltoall",
        "binary_dir": "/opt/other",
        "bytes_from": 8,
        "bytes_to": 1 << 20,
        "factor": 4,
        "iterations": 30,
        "warmup": 2,
        "cycles": 3,
        "gpus_per_node": 3,
        "gpu_masks": ["3", "c"],
        "loopback": True,
        "variables": {"NCCL_ALGO": "Tree"},
        **LAUNCHED,
        "nodes": ["gpu-2", "gpu-1"],
        "job_directory": "/else",
        "job_options": ["--partition=nd"],
    }
    along = {
        # A record made with Ring does not stand for Tree.
        "variables": {"variables": {"NCCL_ALGO": "Ring"}},
        **dict.fromkeys(
            ("nodes", "hosts", "launcher_path", "launcher_arguments", "gpu_masks"), several
        ),
        **dict.fromkeys(("job_directory", "job_options"), job),
    }
    idle = {
        "queue_seconds": 7,
        # A case that is recorded needs its nodes no more.
        "absent": ["gpu-2"],
        # These judge a run.
        "transports": ["nvlink"],
        "gpudirect": True,
    }
    fixed = {"operation": "all_reduce", "gpus_per_node": 2, **SIZES}

    def run(asked: FakeRun, **arguments: Any) -> Any:
        return run_module(asked, **{**fixed, **arguments})

    resumes(run, lambda: FakeRun(stdout=NVLINK), nccl_bench, changed, along=along, idle=idle)
