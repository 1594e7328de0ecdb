"""Records of runs with a preset, one of each kind of benchmark, beside the published rows."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import nccl_bench
import nv_a10_bench
import pytest
from bench_modules import FakeRun
from helpers import ROOT, parametrized
from recorded_runs import nccl_text, training_run
from test_nv_a10_bench import ASKED, BESIDE, GPU, OWN
from test_shared_load import ladder
from trueup_analysis import catalog
from trueup_analysis.figures import presets as figures
from trueup_analysis.rooms import views
from trueup_analysis.sheets import presets as sheets
from trueup_controller import presets
from trueup_node.cases import Case, Figure, of_record

CATALOG = ROOT / "catalog"
PUBLISHED = CATALOG / "reference_results.csv"
PRESETS = presets.read_all(CATALOG)
DATA = ROOT / "tests" / "data"
GIB8 = 8 * 1024**3
HOSTS = [f"node-{at + 1}" for at in range(32)]


def marked(preset: str, **more: Any) -> dict[str, Any]:
    """The parameters by which a record names its preset."""
    return {"preset": preset, "preset_scale": 1.0, **more}


def compared(*records: Case) -> list[tuple[Any, ...]]:
    rows = figures.reproduced(PRESETS, catalog.rows(PUBLISHED), records)
    return [(row["published"], round(row["share"], 3), row["verdict"]) for row in rows]


@parametrized(("count", "rate", "published", "verdict"))
def test_nccl_beside_its_row(
    runner: Any, count: int, rate: float, published: float, verdict: str
) -> None:
    """An output of nccl-tests from this number of nodes, read by the module."""
    hosts = HOSTS[:count]
    result = runner(nccl_bench)(
        FakeRun(stdout=nccl_text("all_reduce", hosts, most=GIB8, busbw=rate)),
        operation="all_reduce",
        gpus_per_node=8,
        bytes_from=8,
        bytes_to=GIB8,
        preset=marked("ndv4-nccl-at-scale"),
        **({"nodes": hosts, "launcher": "mpirun"} if count > 1 else {}),
    )
    assert result["record"]["outcome"] == "ok"
    assert compared(of_record(result["record"])) == [
        (published, pytest.approx(rate / published, abs=0.002), verdict)
    ]


def test_a_served_model_beside_the_row_of_its_profile_and_size() -> None:
    """Figures of vLLM's own server on CPUs, as if they were of one H100."""
    records = (DATA / "records" / "vllm_sweep.jsonl").read_text().splitlines()
    case = of_record(json.loads(records[0]))
    parameters = {**case.parameters, **marked("llama-3.1-8b"), "profile": "classification"}
    given = {"vm_size": "Standard_ND96isr_H100_v5", "gpus": 1, "parameters": parameters}
    [generated] = case.typical("output_token_throughput", "")
    [hits] = case.typical("prefix_cache_hit_rate", "")
    rows = figures.reproduced(
        PRESETS, catalog.rows(PUBLISHED), [dataclasses.replace(case, **given)]
    )
    assert [(row["published"], row["own"]) for row in rows] == [
        (1291.0, generated.value),
        (0.98, hits.value),
    ]
    assert {row["verdict"][:50] for row in rows} == {
        "beside only: the article's rates of requests are n"
    }


def test_training_beside_its_row() -> None:
    """Megatron-DeepSpeed's log of 175B on 256 GPUs, laid out as that program prints it."""
    record = training_run().records[-1]
    case = of_record({**record, "parameters": {**record["parameters"], **marked("megatron-175b")}})
    [(published, share, verdict)] = compared(case)
    assert (published, verdict) == (204.49e12, "reproduced")
    assert share == pytest.approx(1.0, abs=0.01)
    # Another batch is other work.
    other = dataclasses.replace(case, parameters={**case.parameters, "micro_batch": 16})
    assert compared(other) == []


@pytest.mark.parametrize(
    ("name", "count", "rate", "expected"),
    [
        ("megatron-1t", 128, 150e12, [(165.36e12, 0.907, "reproduced")]),
        ("megatron-2t", 128, 130e12, [(157e12, 0.828, "below the published figure")]),
        (
            "megatron-530b",
            128,
            160e12,
            [(171.37e12, 0.934, "reproduced"), (140e12, 1.143, "reproduced")],
        ),
        # The row of steady state is of any number of GPUs.
        ("megatron-530b", 64, 130e12, [(140e12, 0.929, "below the published figure")]),
    ],
)
def test_rows_of_the_larger_models(
    name: str, count: int, rate: float, expected: list[tuple[Any, ...]]
) -> None:
    case = of_record(training_run().records[-1])
    larger = dataclasses.replace(
        case,
        parameters={**case.parameters, **marked(name, sequence_length=1024, micro_batch=8)},
        figures=[Figure("train_flops_article", rate, "flop/s", "higher", statistic="median", n=9)],
        node_count=count,
        gpus=8 * count,
    )
    assert compared(larger) == expected


def test_storage_beside_each_row_of_its_kind() -> None:
    """Ten clients together: each volume of Azure NetApp Files that the article has the rate of."""
    latencies = {1: 0.0005, 2: 0.001, 4: 0.003, 8: 0.009}
    clients = [
        dataclasses.replace(
            case, parameters={**case.parameters, **marked("eda-2ms-7ms", filesystem="lustre")}
        )
        for case in ladder(10, latencies, rate=6500.0)
    ]
    reason = "beside only: the published load has metadata operations too"
    [(published, share, verdict)] = compared(*clients)
    assert (published, share) == (195000, 1.0)
    assert verdict.startswith(reason)
    volumes = [
        dataclasses.replace(case, parameters={**case.parameters, "filesystem": "nfs"})
        for case in clients
    ]
    rates = [published for published, _, _ in compared(*volumes)]
    assert sorted(rates) == [90e3, 255e3, 500e3, 500e3, 652260, 705500, 826379]
    # Nine clients are not ten; the article that it cites gives no number.
    nine = [case for case in volumes if case.node != "c9"]
    assert [published for published, _, _ in compared(*nine)] == [652260, 826379]


def test_sessions_beside_the_users_of_the_nodes_own_size(runner: Any) -> None:
    """ffmpeg's output of five sessions on an A10, laid out as that program prints it."""
    result = runner(nv_a10_bench)(
        FakeRun(stdout=OWN, beside=BESIDE),
        preset=marked("nx-5-users"),
        **{**ASKED, "encoder": "h264_nvenc", "node": {"gpus": [GPU] * 2}},
    )
    case = of_record(result["record"])
    case = dataclasses.replace(case, vm_size="Standard_NV18ads_A10_v5")
    unit = "beside only: an encoded session is no user of NX"
    assert (case.outcome, compared(case)) == ("ok", [(5.0, 1.0, unit)])
    rows = figures.reproduced(PRESETS, catalog.rows(PUBLISHED), [case])
    assert "1/2 of an A10" in rows[0]["configuration"]


@pytest.mark.parametrize("name", [name for name, one in PRESETS.items() if one.unpublished])
def test_a_preset_without_a_published_figure_is_named_beside_the_run(name: str) -> None:
    case = dataclasses.replace(of_record(training_run().records[0]), parameters=marked(name))
    notes = figures.beside_nothing(PRESETS, [case, case], [])
    assert notes == [f"{name} is compared with nothing: {PRESETS[name].unpublished}."]
    assert sheets.reproduced([], notes).notes == notes


@pytest.mark.parametrize("name", PRESETS)
def test_each_figure_to_compare_is_one_of_the_benchmark(name: str) -> None:
    of_clients = {"rate_at_2ms", "rate_at_7ms"}
    unknown = [
        one.metric
        for one in PRESETS[name].reference
        if one.metric not in {*of_clients, *metrics(one.benchmark)}
    ]
    assert unknown == []


def metrics(benchmark: str) -> set[str]:
    """The figures that a benchmark shows."""
    view = views()[benchmark]
    return {one.metric for one in (*view.headlines, *view.figures)}
