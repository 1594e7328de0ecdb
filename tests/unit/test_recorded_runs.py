"""The runs of tests/recorded_runs.py: that they load whole, and that their figures are those of the
outputs that they were read from."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fleet
import pytest
import recorded_runs as runs
from trueup import benchmarks
from trueup_analysis.load import load, verify

ROOT = Path(__file__).parents[2]
# Outputs of others, which no checkout holds; beside it where they are.
OUTPUTS = ROOT.parent / "shared" / "real_outputs"
GIB = 1024**3


def figure(record: dict[str, Any], name: str, **having: Any) -> float:
    """The one value of a record's figure; of the whole case, where no device is named."""
    wanted = {"name": name, "device": None, **having}
    [value] = [
        row["value"]
        for row in record["metrics"]
        if all(row.get(key) == asked for key, asked in wanted.items())
    ]
    return float(value)


def of_tool(run: runs.Run, tool: str) -> tuple[dict[str, Any], str]:
    """The tool's first record and the output that it was read from."""
    pairs = zip(run.records, run.outputs, strict=True)
    return next((record, output or "") for record, output in pairs if record["benchmark"] == tool)


@pytest.mark.parametrize(
    ("make", "outcomes"),
    [
        (runs.every_tool, {"ok": 14}),
        (runs.home_run, {"ok": 4}),
        (runs.nccl_sweep, {"ok": 16}),
        (lambda: runs.nccl_sweep(largest=GIB), {"ok": 16}),
        (runs.hbv3_scaling, {"ok": 12}),
        (lambda: runs.hbv3_scaling(scaling="weak"), {"ok": 12}),
        (runs.vllm_loads, {"ok": 8}),
        (runs.gromacs_run, {"ok": 3}),
        (runs.training_run, {"ok": 4}),
        (runs.fio_run, {"ok": 7, "invalid": 1}),
        (runs.h100_fleet, {"ok": 1955}),
    ],
)
def test_a_run_loads_whole(
    tmp_path: Path, make: Callable[[], runs.Run], outcomes: dict[str, int]
) -> None:
    run = make()
    assert runs.write(tmp_path, run) == tmp_path / run.run_id
    loaded = load([tmp_path])
    assert (loaded.excluded, loaded.notes, verify(loaded)) == ([], [], [])
    assert dict(Counter(loaded.values("outcome"))) == outcomes
    assert set(loaded.values("run_id")) == {run.run_id}
    [manifest] = loaded.runs
    assert (manifest["run_id"], manifest["expected"]) == (run.run_id, sorted(manifest["hosts"]))
    measured = {node for record in run.records for node in record["nodes"]}
    assert measured <= set(manifest["hosts"])


def test_there_is_a_record_of_every_benchmark() -> None:
    rooms = {path.parent.name for path in Path(benchmarks.__path__[0]).glob("*/output.py")}
    assert {record["benchmark"] for record in runs.every_tool().records} == rooms
    assert set(runs.TOOLS) == rooms


@pytest.mark.parametrize(
    ("tool", "printed", "name", "having", "value"),
    [
        ("blob_copy", '"seconds": 5.021337836002203, "cop', "upload_time", {}, 5.021337836002203),
        (
            "dcgm",
            "bidirectional bandwidth:\\t98.37 GB/s",
            "dcgm_both_ways",
            {"device": "gpu7"},
            98.37e9,
        ),
        ("devito", '"seconds": 1.2640109062194824', "run_time", {"statistic": "median"}, 1.264011),
        ("fio", '"bw_bytes" : 575565668', "read_bandwidth", {"device": "backend"}, 575565668),
        (
            *("gemm", '"calls": 11, "seconds": [0.207931456, 0.209847399', "gemm_fp64"),
            {"device": "gpu0", "statistic": "max"},
            2 * 8192**3 * 11 / 0.207931456,
        ),
        ("gpu_copy", "0     55.12     55.35", "h2d_bandwidth", {"device": "gpu1"}, 55.35e9),
        ("gromacs", "Performance:       69.864 ", "simulation_rate", {}, 69.864),
        ("hpl", "1.229e+05 ( 1.537e+04)", "hpl_rate", {}, 122.9e12),
        ("ib", " 193.42 \t", "ib_write_bandwidth", {"device": "mlx5_ib4"}, 193.42e9),
        ("megatron", "iteration (ms): 860.0 |", "step_time", {"statistic": "min"}, 0.86),
        ("nccl", "3485.05  308.10  308.10 ", "busbw", {"message_bytes": GIB}, 308.10e9),
        ("nv_a10", "stime=0.377s rtime=1.528s", "session_frame_time", {}, 1.528 / 600),
        (
            *("stream", '"triad": {"bytes": 805306368, "seconds": [0.024042027,', "triad_rate"),
            {"statistic": "max"},
            805306368 / 0.024042027,
        ),
        ("vllm", "throughput (tok/s):         84.65 ", "output_token_throughput", {}, 84.6545330),
    ],
)
def test_a_figure_is_that_of_the_recorded_output(
    tool: str, printed: str, name: str, having: dict[str, Any], value: float
) -> None:
    record, output = of_tool(runs.every_tool(), tool)
    assert output.count(printed) >= 1
    assert figure(record, name, **having) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter", "alltoall"])
def test_a_sweep_holds_what_its_generated_table_prints(operation: str) -> None:
    run = runs.nccl_sweep()
    for record, output in zip(run.records, run.outputs, strict=True):
        if record["parameters"]["operation"] != operation:
            continue
        rows = [line.split() for line in (output or "").splitlines() if re.match(r" +\d+ ", line)]
        assert len(rows) == 32
        printed = {int(row[0]): float(row[7]) * 1e9 for row in rows if row[0] != "0"}
        assert {
            row["message_bytes"]: row["value"]
            for row in record["metrics"]
            if row["name"] == "busbw"
        } == pytest.approx(printed)
        assert max(printed) == 16 * GIB


def test_sweeps_are_on_four_numbers_of_nodes_over_the_network_that_ib_is() -> None:
    found = {
        (len(record["nodes"]), record["gpus"], record["parameters"]["transport"])
        for record in runs.nccl_sweep().records
    }
    assert found == {(1, 8, "nvlink"), (2, 16, "ib"), (4, 32, "ib"), (8, 64, "ib")}


def test_a_sweep_may_end_below_the_size_that_is_judged() -> None:
    sizes = {row["message_bytes"] for row in runs.nccl_sweep(largest=GIB).records[0]["metrics"]}
    assert sizes == {2**power for power in range(3, 31)}


def test_devito_runs_over_nodes_in_layouts_of_different_cores() -> None:
    run = runs.hbv3_scaling()
    cores = {
        (record["node_count"], record["parameters"]["layout"]): record["ranks"]
        * record["threads_per_rank"]
        for record in run.records
    }
    layouts = {"4x30": 120, "8x15": 120, "16x7": 112}
    assert cores == {
        (count, layout): count * each for count in (1, 2, 4, 8) for layout, each in layouts.items()
    }
    for record, output in zip(run.records, run.outputs, strict=True):
        line = next(text for text in (output or "").splitlines() if text.startswith("trueup-"))
        times = sorted(item["seconds"] for item in json.loads(line.partition(" ")[2])["repeats"])
        assert figure(record, "run_time", statistic="median") == times[1]
        assert f"ran in {times[1] + 0.005:.2f} s" in (output or "")


def test_the_fastest_layout_of_a_node_uses_fewer_cores_and_that_of_many_all() -> None:
    times: dict[int, dict[str, float]] = {}
    for record in runs.hbv3_scaling().records:
        layout = record["parameters"]["layout"]
        time = figure(record, "run_time", statistic="median")
        times.setdefault(record["node_count"], {})[layout] = time
    fastest = {count: min(found, key=found.__getitem__) for count, found in times.items()}
    assert fastest == {1: "16x7", 2: "16x7", 4: "8x15", 8: "8x15"}


def test_more_requests_in_flight_give_more_tokens_and_longer_waits() -> None:
    run = runs.vllm_loads()
    rates: dict[str, list[float]] = {}
    waits: dict[str, list[float]] = {}
    for record, output in zip(run.records, run.outputs, strict=True):
        rate = figure(record, "output_token_throughput")
        assert f"Output token throughput (tok/s):         {rate:<10.2f}" in (output or "")
        rates.setdefault(record["vm_size"], []).append(rate)
        waits.setdefault(record["vm_size"], []).append(figure(record, "ttft", statistic="p99"))
    assert [record["parameters"]["max_concurrency"] for record in run.records] == [1, 4, 16, 64] * 2
    assert list(rates) == [runs.NC_A100, runs.NC_H100]
    for figures in (*rates.values(), *waits.values()):
        assert figures == sorted(set(figures))


def test_fio_has_four_workloads_of_scratch_and_the_recorded_ones() -> None:
    run = runs.fio_run()
    assert [record["parameters"]["workload"] for record in run.records] == [
        *("sequential_read", "sequential_write", "random_read", "random_write"),
        *("eda_mixed", "metadata_create", "metadata_stat", "metadata_delete"),
    ]
    by_workload = {record["parameters"]["workload"]: record for record in run.records}
    assert figure(by_workload["sequential_read"], "read_bandwidth") == pytest.approx(
        6.9e9, rel=1e-3
    )
    assert figure(by_workload["random_write"], "write_latency", statistic="mean") == pytest.approx(
        0.00291
    )
    assert figure(by_workload["metadata_create"], "create_rate") == pytest.approx(51948.051948)
    assert by_workload["metadata_stat"]["reason"].startswith("4000 operations took 0.013 s")


def test_training_and_gromacs_are_the_recorded_outputs() -> None:
    cases = [record["case"] for record in runs.training_run().records]
    assert cases == [
        "gpt_driver-l2h128-s64-mb4-n1p1",
        "gpt_driver-l2h128-s64-mb4-n1p2",
        "megatron-l24h2048-s2048-mb8-n1p8",
        "megatron_deepspeed-l96h12288-s512-mb32-n32p8-zero3-slurm",
    ]
    assert [record["gpus"] for record in runs.training_run().records] == [0, 0, 8, 256]
    cases = [record["case"] for record in runs.gromacs_run().records]
    assert cases == ["water2.5nm-r1t2", "water2.5nm-r2t1", "water-r2t1"]


def test_a_home_run_is_of_a_machine_without_a_size() -> None:
    run = runs.home_run()
    assert {(record["vm_size"], record["region"], *record["nodes"]) for record in run.records} == {
        (None, None, "localhost")
    }
    assert [record["benchmark"] for record in run.records] == [
        *("node_state", "stream", "devito", "devito"),
    ]


def test_a_fleet_has_three_faults_and_two_nodes_without_records() -> None:
    run = runs.h100_fleet(600)
    assert len(run.records) == 5955
    lost, failed = fleet.node(runs.UNREACHABLE), fleet.node(runs.ROLE_FAILED)
    measured = {node for record in run.records for node in record["nodes"]}
    expected = set(run.manifest["expected"])
    assert (len(expected), expected - measured) == (600, {lost, failed})
    assert run.manifest["hosts"][lost]["unreachable"] == 1
    assert run.manifest["failed_in"] == {failed: "gpu_driver"}
    # Of each figure what none but a faulty node is below.
    least = {"ib_write_bandwidth": 391e9, "gemm_bf16": 765e12, "p2p_bandwidth": 390e9}
    slow: dict[str, set[str]] = {}
    for record in run.records:
        for row in record["metrics"]:
            judged = row["name"] == "busbw" and row["message_bytes"] == 16 * GIB
            bound = 483.5e9 if judged else least.get(row["name"], 0.0)
            if row["value"] < bound:
                slow.setdefault(row["name"], set()).update(record["nodes"])
    assert slow == {
        "ib_write_bandwidth": {fleet.node(17)},
        "gemm_bf16": {fleet.node(58)},
        "p2p_bandwidth": {fleet.node(101)},
        "busbw": {fleet.node(101)},
    }


def test_each_node_of_a_fleet_has_a_sweep_and_the_first_keeps_its_output() -> None:
    run = runs.h100_fleet()
    pairs = list(zip(run.records, run.outputs, strict=True))
    nccl = [record for record in run.records if record["benchmark"] == "nccl"]
    for record in nccl:
        sizes = [row["message_bytes"] for row in record["metrics"] if row["name"] == "busbw"]
        assert sizes == [2**power for power in range(14, 35)]
    assert len(nccl) == 198
    [(record, output)] = [pair for pair in pairs if pair[1] is not None]
    assert record is nccl[0]
    read = runs.parsed(output or "", "nccl")
    assert [row.as_row() for row in read.metrics()] == record["metrics"]
    assert record["parameters"].items() >= read.parameters.items()


def test_a_fleet_is_what_it_was_where_nothing_is_asked() -> None:
    usual = list(fleet.fleet(20))
    assert usual == list(fleet.fleet(20, faults=fleet.FAULTS, noisy_pair=fleet.NOISY_PAIR))
    assert len(usual) == 20 * 5 + 5 * 20 - 15
    slow = [record["nodes"] for record in usual if figure_of_pair(record) == 210e9]
    assert slow == [[fleet.node(number) for number in fleet.NOISY_PAIR]]


def figure_of_pair(record: dict[str, Any]) -> float | None:
    return record["metrics"][0]["value"] if record["node_count"] == 2 else None


def test_more_outputs_add_the_files_that_their_parsers_read(tmp_path: Path) -> None:
    for tool, name in (("nccl", "infiniband.txt"), ("stream", "stream510.txt")):
        (tmp_path / tool).mkdir()
        shutil.copy(ROOT / "tests" / "data" / tool / name, tmp_path / tool / name)
    (tmp_path / "nccl" / "broken.txt").write_text("# nThread 1 nGpus")
    (tmp_path / "unknown").mkdir()
    (tmp_path / "unknown" / "file.txt").write_text("no tool's")
    more = runs.every_tool(tmp_path).records[14:]
    assert [(record["benchmark"], record["case"]) for record in more] == [
        ("nccl", "infiniband"),
        ("stream", "stream510"),
    ]
    assert more[0]["parameters"]["transport"] == "ib"


@pytest.mark.skipif(not OUTPUTS.is_dir(), reason="no folder ../shared/real_outputs here")
def test_outputs_of_others_load_too(tmp_path: Path) -> None:
    run = runs.every_tool(OUTPUTS)
    more = Counter(record["benchmark"] for record in run.records[13:])
    assert {"fio", "gpu_copy", "gromacs", "hpl", "ib", "stream", "vllm"} <= set(more)
    runs.write(tmp_path, run)
    loaded = load([tmp_path])
    assert (loaded.excluded, loaded.table.num_rows) == ([], 13 + more.total())
