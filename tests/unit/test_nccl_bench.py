"""The module nccl_bench: success, check mode, missing tool, bad output, fall-backs, refusals."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nccl_bench
import nccl_stand_in
import pytest
from ansible.module_utils.trueup_node.benchmarks.nccl import case as nccl
from ansible.module_utils.trueup_node.benchmarks.nccl.report import FILE_MARK
from ansible.module_utils.trueup_node.errors import ParseError
from ansible.module_utils.trueup_node.run import launcher, process
from ansible.module_utils.trueup_node.run.resume import identity
from bench_modules import LAUNCHED, FakeRun, checks_only, ends_badly, goes_well, refuses, resumes
from helpers import parametrized
from record_schema import RECORDS
from trueup_analysis.read import read
from trueup_node.errors import BadInput

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


class StandIn(FakeRun):
    """Runs nccl_stand_in.py as all_reduce_perf, and changes the file that it wrote."""

    def __init__(self, folder: Path, *, has_json: bool = True, edit: Any = None) -> None:
        super().__init__()
        self.edit = edit
        program = folder / "all_reduce_perf"
        program.write_text(
            f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(DATA.parent.parent)!r})\n"
            f"import nccl_stand_in\nnccl_stand_in.main(sys.argv, has_json={has_json})\n"
        )
        program.chmod(0o755)

    def __call__(self, argv: list[str], **options: Any) -> process.Completed:
        self.calls.append({"argv": list(argv), **options})
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        if self.edit:
            path = Path(argv[argv.index("-J") + 1])
            path.write_text(self.edit(path.read_text()))
        return process.Completed(argv=tuple(argv), returncode=0, stdout=done.stdout)


def test_figures_come_from_the_json_file_where_the_build_has_one(
    run_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_PASSPHRASE", 'dummy-quoted-\\-"env":[')
    run = StandIn(tmp_path)
    result, record = goes_well(run_module, run, **ONE_NODE, binary_dir=str(tmp_path))
    rows = {(row["name"], row["message_bytes"]): row["value"] for row in record["metrics"]}
    exact = {
        (name, size): json.loads(nccl_stand_in.body(size, 0))[key] * unit
        for size in (1024, 1 << 20, 1 << 30)
        for name, key, unit in (("time", "time", 1e-6), ("busbw", "bus_bw", 1e9))
    }
    assert {key: rows[key] for key in exact} == pytest.approx(exact, rel=1e-12)
    # The table has 0.05 GB/s.
    assert rows["busbw", 1024] == pytest.approx(0.04791e9)
    assert (len(record["metrics"]), record["software"]["nccl_tests"]) == (21 * 8, "2.19.6")
    assert record["parameters"]["transport"] == "nvlink"
    assert [word for word in run.calls[0]["argv"] if word == "-J"] == ["-J"]
    # The raw output gives the record's figures again, and has no variable of the process.
    assert nccl.parse_nccl(result["raw"]).metrics() == nccl.parse_nccl(run_output(result)).metrics()
    assert (result["raw"].count('"env":[]'), "dummy-quoted" in result["raw"]) == (1, False)
    assert [path.name for path in tmp_path.iterdir()] == ["all_reduce_perf"]
    # The folder's name differs from run to run.
    earlier = [identity(record)]
    again = run_module(run, **ONE_NODE, binary_dir=str(tmp_path), earlier=earlier)
    assert (again["resumed"], len(run.calls)) == (0, 1)


def run_output(result: dict[str, Any]) -> str:
    """The file alone, as `trueup read` is given it."""
    return str(result["raw"].split(FILE_MARK)[1].split("\n")[1])


def test_a_build_without_the_option_is_run_as_before(run_module: Any, tmp_path: Path) -> None:
    run = StandIn(tmp_path, has_json=False)
    result, record = goes_well(run_module, run, **ONE_NODE, binary_dir=str(tmp_path))
    assert ("-J" in record["command"], FILE_MARK in result["raw"]) == (False, False)
    rows = {(row["name"], row["message_bytes"]): row["value"] for row in record["metrics"]}
    assert rows["busbw", 1024] == pytest.approx(0.05e9)


@pytest.mark.parametrize("text", ["", '{"version":3,"env":["A=secret', '{"version":3}', "[]\n[]"])
def test_a_file_that_cannot_be_read_is_named_and_the_table_counts(
    run_module: Any, tmp_path: Path, text: str
) -> None:
    run = StandIn(tmp_path, edit=lambda _: text)
    result, record = goes_well(run_module, run, **ONE_NODE, binary_dir=str(tmp_path))
    assert [warning["event"]["msg"][:46] for warning in result["warnings"]] == [
        "nccl-tests left no JSON file that can be read "
    ]
    assert "secret" not in result["raw"]
    rows = {(row["name"], row["message_bytes"]): row["value"] for row in record["metrics"]}
    assert rows["busbw", 1024] == pytest.approx(0.05e9)


@parametrized(("old", "new", "contradiction"))
def test_a_file_that_contradicts_the_table_fails_the_case(
    run_module: Any, tmp_path: Path, old: str, new: str, contradiction: str
) -> None:
    run = StandIn(tmp_path, edit=lambda text: text.replace(old, new))
    result = run_module(run, **ONE_NODE, binary_dir=str(tmp_path))
    assert result["record"]["outcome"] == "failed"
    assert contradiction in result["record"]["reason"]


def test_figures_of_another_run_contradict_the_table() -> None:
    text = nccl_stand_in.report(NVLINK, ["all_reduce_perf"])
    both = f"{NVLINK}\n{FILE_MARK}\n{text}\n"
    assert len(nccl.parse_nccl(both).rows) == 21
    slower = NVLINK.replace("   21.37    0.05    0.05", "   21.87    0.05    0.05", 1)
    with pytest.raises(ParseError, match=r"time of 1024 bytes out of place is 21\.87"):
        nccl.parse_nccl(both.replace(NVLINK, slower))
    # The end of the table is no reason to leave the file below it out.
    with pytest.raises(BadInput, match=r"time of 1024 bytes out of place is 21\.87"):
        read(both.replace(NVLINK, slower), source="raw.txt")


@pytest.mark.parametrize("launched", [{}, {"launcher": "mpirun", "nodes": ["gpu-1", "gpu-2"]}])
def test_check_mode_shows_the_option_and_leaves_nothing(
    run_module: Any, tmp_path: Path, launched: dict[str, Any]
) -> None:
    StandIn(tmp_path)
    result = run_module(FakeRun(), check=True, **{**ONE_NODE, **launched}, binary_dir=str(tmp_path))
    path = f"{tempfile.gettempdir()}/trueup-nccl-XXXXXXXX/report.json"
    assert result["command"][-2:] == ["-J", path]
    assert [path.name for path in tmp_path.iterdir()] == ["all_reduce_perf"]


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
    ({"stdout": recorded("wrong_values.txt")}, "invalid", "wrong values in the results of 1048576"),
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
    ({"stdout": re.sub(r"/NVL\)", "/PHB)", NVLINK)}, "invalid", "not over NVLink"),
    ({"stdout": INFINIBAND}, "invalid", "4 GPUs on 2 nodes took part instead of 2 on 1"),
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
