"""Scaling: the published tables, the laws, and what must not be mixed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import made
import pytest
from helpers import parametrized
from trueup_analysis.catalog import folder
from trueup_analysis.cli import app
from trueup_analysis.figures.health import expectations
from trueup_analysis.figures.scaling.points import host_family
from trueup_analysis.figures.scaling.tables import Series, series
from trueup_analysis.load import Loaded, load
from trueup_node.errors import BadInput

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "catalog" / "reference_results.csv"


def measured(tmp_path: Path, records: list[dict[str, Any]]) -> Loaded:
    return load([made.write(tmp_path, records)])


def best(item: Series, name: str) -> list[Any]:
    return [getattr(row, name) for row in item.best]


def column(item: Series, name: str) -> list[Any]:
    return [getattr(row, name) for row in item.rows]


# The tables of the article, and the efficiencies that node_setup section 8 recomputed from them.
@parametrized(("number", "resource", "seconds", "gflops", "speedup", "efficiency"))
def test_the_articles_tables_come_out_digit_for_digit(
    number: int,
    resource: list[int],
    seconds: list[str],
    gflops: list[str],
    speedup: list[str],
    efficiency: list[str],
) -> None:
    found = series(load([REFERENCE]))
    assert len(found) == 3
    item = found[number]
    assert column(item, "resource") == resource
    assert [f"{value:.2f}" for value in column(item, "median")] == seconds
    assert [f"{value / 1e9:.2f}" for value in column(item, "flop_rate")] == gflops
    assert [f"{value:.2f}" for value in column(item, "speedup")] == speedup
    assert [f"{value:.2f}" for value in column(item, "published_speedup")] == speedup
    assert [f"{value:.3f}" for value in column(item, "efficiency")] == efficiency
    assert item.warnings == []
    assert item.kind == "strong"


def test_the_published_single_node_gets_slower_from_64_to_96_cores() -> None:
    item = series(load([REFERENCE]), over="cores")[0]
    assert item.stops_paying == (
        "Going from 16 to 32 cores brings 46 % of the added cores as speed (under 50 %)."
        " It gets slower from 64 to 96 cores (117.61 s to 132.86 s)."
    )


def test_a_run_after_amdahl_gives_back_its_serial_fraction(tmp_path: Path) -> None:
    records = [made.record(100 * (0.1 + 0.9 / cores), threads=cores) for cores in (1, 2, 4, 8, 16)]
    item = series(measured(tmp_path, records))[0]
    assert column(item, "serial_fraction")[1:] == pytest.approx([0.1] * 4)
    assert item.amdahl is not None
    assert item.amdahl.parameters["sigma"][0] == pytest.approx(0.1)
    assert item.amdahl.residual == pytest.approx(0, abs=1e-9)
    assert item.amdahl.points == 5
    assert column(item, "work") == pytest.approx([made.WORK] * 5)


def test_a_run_after_the_universal_law_gives_back_both_parameters(tmp_path: Path) -> None:
    sigma, kappa = 0.05, 0.002
    records = [
        made.record(
            100 * (1 + sigma * (cores - 1) + kappa * cores * (cores - 1)) / cores, threads=cores
        )
        for cores in (1, 2, 4, 8, 16, 32)
    ]
    item = series(measured(tmp_path, records))[0]
    assert item.usl is not None
    assert item.usl.parameters["sigma"][0] == pytest.approx(sigma, rel=1e-4)
    assert item.usl.parameters["kappa"][0] == pytest.approx(kappa, rel=1e-4)
    assert item.usl.peak == pytest.approx(((1 - sigma) / kappa) ** 0.5, rel=1e-4)
    assert item.stops_paying is not None
    assert "slower from 16 to 32 cores" in item.stops_paying


@parametrized(("counts", "amdahl", "usl", "note"))
def test_too_few_points_are_not_fitted_and_it_says_so(
    tmp_path: Path, counts: tuple[int, ...], amdahl: bool, usl: bool, note: str
) -> None:
    item = series(measured(tmp_path, [made.record(10 / n, threads=n) for n in counts]))[0]
    assert (item.amdahl is not None, item.usl is not None) == (amdahl, usl)
    assert [text.startswith(note) for text in item.notes] == [True]


def test_the_best_layout_counts_and_the_others_stay_visible(tmp_path: Path) -> None:
    records = [
        made.record(10.0, threads=1),
        made.record(7.0, ranks=1, threads=2),
        made.record(6.0, ranks=2, threads=1, parameters={"binding": "l3"}),
    ]
    item = series(measured(tmp_path, records))[0]
    assert column(item, "layout") == ["1x1", "2x1 l3 basic", "1x2"]
    assert column(item, "best") == [True, True, False]
    assert column(item, "resource") == [1, 2, 2]
    assert column(item, "speedup") == pytest.approx([1, 10 / 6, 10 / 7])


def test_repeats_over_runs_are_pooled_not_best_of(tmp_path: Path) -> None:
    records = [
        made.record(seconds, run_id=f"20261120T09130{number}Z-7c1e")
        for number, seconds in enumerate((10.0, 8.0, 30.0))
    ]
    [row] = series(measured(tmp_path, records))[0].rows
    assert (row.median, row.min, row.max) == (10.0, 0.9 * 8, 1.2 * 30)
    assert (type(row.n), row.n, row.records) == (float, 9, 3)


@parametrized("changes")
def test_different_work_size_or_version_is_another_series(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    found = series(measured(tmp_path, [made.record(), made.record(5.0, threads=2, **changes)]))
    assert [len(item.rows) for item in found] == [1, 1]
    assert found[0].warnings == []
    assert found[0].notes[0] == (
        "Only one count of cores was measured: there is no scaling to show."
    )


def test_constrained_sizes_are_one_series_only_when_asked(tmp_path: Path) -> None:
    loaded = measured(
        tmp_path,
        [
            made.record(10.0, threads=16, vm_size="Standard_HB120-16rs_v3"),
            made.record(6.0, threads=120),
        ],
    )
    assert len(series(loaded)) == 2
    together = series(loaded, across_sizes=True)
    assert [len(item.rows) for item in together] == [2]
    assert together[0].vm_size is None
    assert column(together[0], "vm_size") == ["Standard_HB120-16rs_v3", "Standard_HB120rs_v3"]


@parametrized(("size", "host"))
def test_host_family(size: str, host: str) -> None:
    assert host_family(size) == host


def test_work_that_changes_along_a_strong_series_is_named(tmp_path: Path) -> None:
    records = [made.record(100 / n, threads=n) for n in (1, 2, 4)]
    records[2] = made.record(25.0, threads=4, work=made.WORK * 1.02)
    item = series(measured(tmp_path, records))[0]
    warning = (
        "Not the same work: GFLOP/s x time differs from the series' median by more than 0.5 % at"
        " 4 cores (2.00 %); speed-ups of these rows compare different problems."
    )
    assert item.warnings == [warning]


def weak(cores: int, seconds: float) -> dict[str, Any]:
    shape = {"shape": f"{128 * cores}x128x128", "points": 128**3 * cores, "scaling": "weak"}
    return made.record(seconds, threads=cores, parameters=shape, work=made.WORK * cores)


def test_weak_scaling_is_judged_by_work_per_core(tmp_path: Path) -> None:
    records = [weak(1, 10.0), weak(2, 11.0), weak(4, 12.5), made.record(9.0)]
    found = series(measured(tmp_path, records))
    assert [item.kind for item in found] == ["weak", "strong"]
    item = found[0]
    assert column(item, "efficiency") == pytest.approx([1, 10 / 11, 10 / 12.5])
    assert column(item, "speedup") == pytest.approx([1, 20 / 11, 40 / 12.5])
    assert item.warnings == []
    assert (item.amdahl, item.usl) == (None, None)
    assert column(item, "serial_fraction") == [None] * 3


def test_the_baseline_can_be_chosen(tmp_path: Path) -> None:
    loaded = measured(tmp_path, [made.record(100 / n, threads=n) for n in (1, 2, 4)])
    item = series(loaded, baseline=2)[0]
    assert column(item, "speedup") == pytest.approx([0.5, 1, 2])
    assert column(item, "baseline") == [False, True, False]
    with pytest.raises(
        BadInput, match=r"baseline of 3 cores was not measured .* has 1, 2, 4 cores"
    ):
        series(loaded, baseline=3)


def test_failed_and_invalid_records_give_no_figures(tmp_path: Path) -> None:
    records = [
        made.record(10.0),
        made.record(1.0, threads=2, outcome="invalid", reason="norms differ"),
        made.record(1.0, threads=4, outcome="failed", reason="killed"),
    ]
    assert column(series(measured(tmp_path, records))[0], "resource") == [1]


def test_why_nothing_scales_is_what_is_true(tmp_path: Path, call_trueup) -> None:
    bad = [made.record(threads=n, outcome="failed", reason="no") for n in (1, 2)]
    copies = made.figure("h2d_bandwidth", 5e10, "byte/s", "higher", device="gpu0")
    by_device = made.record(benchmark="gpu_copy", case="all", gpus=1, metrics=[copies])
    state = made.record(benchmark="node_state", case="state")
    failed = made.write(tmp_path / "failed", bad)
    devices = made.write(tmp_path / "devices", [by_device, state])
    for source, asked, words in (
        (failed, ("--benchmark", "devito"), "none has outcome ok (2 failed)"),
        (failed, (), "none has outcome ok (2 failed)"),
        (devices, ("--benchmark", "gpu_copy"), "gpu_copy does not scale"),
        (devices, ("--benchmark", "node_state"), "'node_state' is not known"),
        (devices, (), "gpu_copy, node_state measure each node, pair or device by itself"),
    ):
        done = call_trueup("scaling", source, *asked)
        assert (done.status, done.out) == (1, "")
        assert words in done.err


GIB = 1024**3
H100 = "Standard_ND96isr_H100_v5"


def collective(
    nodes: int, busbw: float, *, gpus: int = 8, largest: int = 16 * GIB, **changes: Any
) -> dict[str, Any]:
    """A made NCCL record: half of ``busbw`` at 1 GiB, all of it at the largest size."""
    sizes = {GIB: busbw / 2, largest: busbw}
    fields = {
        "benchmark": "nccl",
        "case": f"all_reduce-{nodes}x{gpus}-{largest}",
        "vm_size": H100,
        "nodes": [f"made-{number}" for number in range(nodes)],
        "node_count": nodes,
        "gpus": nodes * gpus,
        "software": {},
        "metrics": [
            made.figure("busbw", value, "byte/s", "higher", message_bytes=size)
            for size, value in sizes.items()
        ],
    }
    parameters = {
        "operation": "all_reduce",
        "datatype": "float",
        "reduction": "sum",
        "gpus_per_node": gpus,
        "transport": "nvlink" if nodes == 1 else "ib",
    }
    return {**made.record(ranks=nodes * gpus), **fields, "parameters": parameters, **changes}


def nccl(tmp_path: Path, records: list[dict[str, Any]], **options: Any) -> list[Series]:
    return series(measured(tmp_path, records), benchmark="nccl", **options)


def test_bus_bandwidth_over_nodes_stays_the_same_at_best(tmp_path: Path) -> None:
    rates = {1: 480e9, 2: 480e9, 4: 460e9, 8: 240e9}
    [item] = nccl(tmp_path, [collective(*pair) for pair in rates.items()])
    assert (item.kind, item.over, item.flat, item.message_bytes) == (
        "weak",
        "nodes",
        True,
        16 * GIB,
    )
    assert (item.label, item.metric, item.shown) == ("bus bandwidth", "busbw", "GB/s")
    assert item.title == f"nccl, all_reduce at 16 GiB, {H100}"
    assert column(item, "median") == list(rates.values())
    assert column(item, "efficiency") == pytest.approx([1, 1, 46 / 48, 0.5])
    assert column(item, "speedup") == pytest.approx([1, 2, 4 * 46 / 48, 4])
    assert column(item, "gpus") == [8, 16, 32, 64]
    assert (item.amdahl, item.usl, item.warnings) == (None, None, [])
    assert item.stops_paying == (
        "Going from 4 to 8 nodes, bus bandwidth falls from 460.00 to 240.00 GB/s."
    )
    assert item.notes[0].startswith("Bus bandwidth stays the same where scaling is perfect:")
    assert "transport (nvlink at 1 node; ib at 2, 4 and 8 nodes)" in item.notes[1]


def test_more_bus_bandwidth_on_more_nodes_is_no_cache(tmp_path: Path) -> None:
    [item] = nccl(tmp_path, [collective(2, 400e9), collective(4, 440e9)])
    assert item.warnings[0].startswith("Better than perfect: an efficiency of 1.100 at 4 nodes (")


def test_a_run_that_never_reached_the_judged_size_is_apart(tmp_path: Path) -> None:
    judged = expectations.read(folder() / "expectations.yml")
    records = [collective(1, 480e9), collective(2, 470e9), collective(2, 300e9, largest=4 * GIB)]
    whole, short = nccl(tmp_path, records, expectations=judged)
    assert (whole.message_bytes, best(whole, "median")) == (16 * GIB, [480e9, 470e9])
    assert (short.message_bytes, best(short, "median")) == (4 * GIB, [300e9])
    assert whole.title != short.title
    note = "The judged size is 16 GiB; the largest measured size is 4 GiB."
    assert (note in short.notes, note in whole.notes) == (True, False)


def test_one_node_judged_at_another_size_stays_in_the_series(tmp_path: Path) -> None:
    size = "Standard_ND96asr_v4"  # 4 GiB on one node, 16 GiB on several
    judged = expectations.read(folder() / "expectations.yml")
    records = [collective(n, 200e9, vm_size=size) for n in (1, 2)]
    for made_record in records:
        made_record["metrics"].append(
            made.figure("busbw", 190e9, "byte/s", "higher", message_bytes=4 * GIB)
        )
    [item] = nccl(tmp_path, records, expectations=judged)
    assert (item.message_bytes, best(item, "median")) == (16 * GIB, [200e9, 200e9])


def test_gpus_are_what_scales_within_a_node(tmp_path: Path) -> None:
    records = [collective(1, 480e9, gpus=gpus) for gpus in (1, 4, 8)]
    for over in ("auto", "gpus"):
        [item] = nccl(tmp_path, records, over=over)
        assert (item.over, column(item, "resource")) == ("gpus", [1, 4, 8])
        assert column(item, "efficiency") == [1, 1, 1]
    assert [one.over for one in nccl(tmp_path, records, over="cores")] == ["cores"]
    with pytest.raises(BadInput, match="no devito record says that it used GPUs"):
        series(measured(tmp_path / "none", [made.record()]), over="gpus")


def rivals(counts: tuple[int, ...] = (1, 2, 8)) -> list[dict[str, Any]]:
    """Layouts of 112 and of 120 cores a node; the one wins on one node, the other on several."""
    return [
        made.record(
            seconds / nodes,
            ranks=ranks * nodes,
            threads=threads,
            nodes=[f"made-{number}" for number in range(nodes)],
            node_count=nodes,
            parameters={"layout": f"{ranks}x{threads}"},
        )
        for nodes in counts
        for ranks, threads, seconds in ((16, 7, 99.5 + nodes), (8, 15, 102))
    ]


def test_slower_layouts_over_nodes_are_shown_when_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made.write(tmp_path, rivals())
    written = {}
    for options in ((), ("--layouts",), ("-f", "csv")):
        app(["scaling", str(tmp_path), *options], standalone_mode=False)
        written[options] = capsys.readouterr().out
    written = {options: " ".join(text.split()) for options, text in written.items()}
    lines = {options: text.count("basic") for options, text in written.items()}
    assert lines == {(): 3, ("--layouts",): 6, ("-f", "csv"): 6}
    assert "trueup scaling --layouts shows 3 slower rows more." in written[()]
    assert "slower rows" not in written["--layouts",]


def test_a_batch_that_grows_with_the_processes_is_weak_scaling(tmp_path: Path) -> None:
    records = [
        made.record(
            benchmark="megatron",
            case=f"made-n{nodes}",
            vm_size=H100,
            nodes=[f"made-{number}" for number in range(nodes)],
            node_count=nodes,
            ranks=8 * nodes,
            gpus=8 * nodes,
            parameters={"scaling": None, "micro_batch": 4, "global_batch": 4 * 8 * nodes},
            metrics=[made.figure("step_time", seconds, "s", "lower", statistic="median", n=9)],
        )
        for nodes, seconds in ((1, 2.0), (2, 2.0), (4, 2.5))
    ]
    [item] = series(measured(tmp_path, records), benchmark="megatron")
    assert (item.kind, item.over, item.flat) == ("weak", "nodes", False)
    assert column(item, "efficiency") == pytest.approx([1, 1, 0.8])
