"""Each benchmark's headline figure, as its tool printed it, wherever figures are shown: `trueup
list`, the report, its CSV files and `trueup cost`."""

from __future__ import annotations

import csv
import io
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import recorded_runs as runs
from report_pages import look
from trueup_analysis import cli, rooms
from trueup_analysis.figures.terms import Terms
from trueup_analysis.load import load
from trueup_analysis.report.publish import write_report

if TYPE_CHECKING:
    from report_pages import Seen

pytestmark = pytest.mark.xdist_group("every_benchmark")

ROOT = Path(__file__).resolve().parents[3]
# Outputs of others, which no checkout holds; beside it where they are.
OUTPUTS = ROOT.parent / "shared" / "real_outputs"


@dataclass(frozen=True)
class Expected:
    """A headline figure, read by eye.

    Attributes:
        base: in base units, worked out of what the output prints.
        unit: the base unit, as records name it.
        shown: what people are to read, and the unit beside or above it.
        column: of the benchmark's CSV file in the report.
        priced: what stands in the cost tables and the unit; None where nobody pays for the work.
    """

    base: float
    unit: str
    shown: str
    shown_unit: str
    column: str
    priced: tuple[str, str] | None


def gb(base: float, shown: str, column: str) -> Expected:
    return Expected(
        base, "byte/s", shown, "GB/s", f"{column}_bytes_per_second", (f"{shown} GB/s", "")
    )


def busbw(base: float, shown: str) -> Expected:
    """A rate of a collective, which nobody pays for."""
    return replace(gb(base, shown, "busbw"), priced=None)


def tokens(base: float, shown: str, priced: str) -> Expected:
    column = "output_token_throughput_per_second"
    return Expected(base, "1/s", shown, "tokens/s", column, (priced, "output tok/s"))


def linpack(base: float, shown: str, unit: str) -> Expected:
    column = "hpl_rate_flop_per_second"
    return Expected(base, "flop/s", shown, unit, column, (f"{shown} {unit}", ""))


def gromacs(base: float, shown: str) -> Expected:
    column = "simulation_rate_ns_per_day"
    return Expected(base, "ns/day", shown, "ns/day", column, (f"{shown} ns/day", ""))


def perftest(base: float, shown: str) -> Expected:
    return Expected(base, "bit/s", shown, "Gb/s", "ib_write_bandwidth_bits_per_second", None)


def step_time(base: float, shown: str) -> Expected:
    return Expected(base, "s", shown, "s", "step_time_seconds", (f"{shown} s", ""))


# (tool, case). tests/data/<tool> has the outputs; those of the second part are of OUTPUTS.
HEADLINES = {
    # 274877906944 bytes in 200.052 s.
    ("azcopy", "azcopy"): gb(274877906944 / 200.052, "1.374", "copy_rate"),
    # The slower one of two GPUs: the middle of 50334 and 50123.
    ("gpu_burn", "gpu_burn"): Expected(
        50228.5e9, "flop/s", "50.23", "TFLOP/s", "burn_rate_flop_per_second", None
    ),
    ("nccl_log", "nccl_log"): Expected(1.0, "1", "1.000", "", "nccl_warnings", None),
    # The middle of 17 lines: 6395 tokens/s of each GPU.
    ("training", "training"): Expected(
        6395.0,
        *("1/s", "6395.00", "tokens/s", "device_token_throughput_per_second"),
        ("6395.00 tokens/s", ""),
    ),
    ("hpl_mxp", "hpl_mxp"): Expected(
        891360e9,
        *("flop/s", "891.36", "TFLOP/s", "mxp_rate_flop_per_second", ("891.36 TFLOP/s", "")),
    ),
    # Its triad's best rate in 0.00711 s, of 0.01397 s on average.
    ("babelstream", "babelstream"): replace(
        gb(14155.342e6 * 0.00711 / 0.01397, "7.204", "babel_triad_rate"), priced=None
    ),
    ("superbench", "superbench"): Expected(0.0, "1", "0", "", "superbench_failed", None),
    ("topo", "topo"): Expected(18.0, "1", "18.00", "", "topo_gpu_nvlinks", None),
    ("hpcg", "hpcg"): Expected(
        1.4593e9,
        *("flop/s", "1.459", "GFLOP/s", "hpcg_rating_flop_per_second", ("1.459 GFLOP/s", "")),
    ),
    # The mean of three repetitions, in MiB/s.
    ("ior", "ior"): replace(gb(2508.56 * 2**20, "2.630", "ior_write_bandwidth"), priced=None),
    ("mdtest", "mdtest"): Expected(
        6152.977, "1/s", "6152.98", "operations/s", "mdtest_file_creation_per_second", None
    ),
    # trtllm-bench on two GPUs.
    ("serving", "serving"): tokens(6400.0, "6400.00", "6400"),
    ("aznhc", "aznhc"): Expected(
        478.125e9, "byte/s", "478.12", "GB/s", "nhc_nccl_busbw_bytes_per_second", None
    ),
    # 268435456 bytes in 5.021337836002203 s.
    ("blob_copy", "8x100mbps-random"): Expected(
        427671612.25,
        *("bit/s", "0.4277", "Gb/s", "upload_rate_bits_per_second", ("0.4277 Gb/s", "")),
    ),
    ("dcgm", "level2"): Expected(
        98.30e9, "byte/s", "98.30", "GB/s", "dcgm_both_ways_bytes_per_second", None
    ),
    # The middle one of 1.2047, 1.2640 and 1.2708 s.
    ("devito", "acoustic-so8-128x128x128-tn200-r1t2-core"): Expected(
        1.2640109, "s", "1.264", "s", "run_time_seconds", ("1.264", "s")
    ),
    # Another operator than Forward: "Operator `Kernel` run in 0.04 s".
    ("devito", "elastic_notebook"): Expected(
        0.04, "s", "0.04000", "s", "run_time_seconds", ("0.04000", "s")
    ),
    # The slower one of two groups of jobs.
    ("fio", "eda_mixed-direct"): gb(3604971, "0.003605", "read_bandwidth"),
    # GPU 0: 16 products in 0.197236909 s, the middle one of five.
    ("gemm", "n16384-g4-all-numa"): Expected(
        2 * 16384**3 * 16 / 0.197236909,
        *("flop/s", "713.55", "TFLOP/s", "gemm_bf16_flop_per_second", ("713.55 TFLOP/s", "")),
    ),
    ("gpu_copy", "nvbandwidth-g8-numa"): gb(54.92e9, "54.92", "h2d_bandwidth"),
    ("gromacs", "water2.5nm-r1t2"): gromacs(69.864, "69.86"),
    ("hpl", "n264192-nb1024-4x2-t12-numa"): linpack(1.229e14, "122.90", "TFLOP/s"),
    ("ib", "write_bw-mlx5_ib4-8388608-gpu2"): perftest(193.42e9, "193.42"),
    # The middle of the last 16 iterations: between 867.5 and 869.4 ms.
    ("megatron", "megatron-l24h2048-s2048-mb8-n1p8"): step_time(0.86845, "0.8684"),
    ("nccl", "all_reduce-1x2"): busbw(308.10e9, "308.10"),
    # 600 frames in 1.528 s; its users pay by the hour.
    ("nv_a10", "h264_nvenc-640x360-444-s5"): Expected(
        *(600 / 1.528, "1/s", "392.67", "frames/s", "session_frame_rate_per_second"),
        ("392.67", "each"),
    ),
    # The largest message; nobody pays for it.
    ("osu", "Bandwidth"): Expected(
        24070.45e6, "byte/s", "24.07", "GB/s", "mpi_bandwidth_bytes_per_second", None
    ),
    # The middle one of five: 805306368 bytes in 0.031806934 s.
    ("stream", "streaming-t2-core"): gb(805306368 / 0.031806934, "25.32", "triad_rate"),
    ("vllm", "random-tiny-i64o48-n40-rateinf-c8"): tokens(84.654533, "84.65", "84.7"),
    # Of others.
    # The slowest of three jobs that read; 6456 KiB in 5.084 s.
    ("fio", "fio_2_1_4"): gb(1300415, "0.001300", "read_bandwidth"),
    ("fio", "fio_3_26"): gb(8876980, "0.008877", "write_bandwidth"),
    ("gpu_copy", "bandwidthtest_a100"): gb(12.3e9, "12.30", "h2d_bandwidth"),
    ("gpu_copy", "bandwidthtest_after_prompt"): gb(9.7e9, "9.700", "h2d_bandwidth"),
    ("gpu_copy", "bandwidthtest_csv"): gb(8494.3 * 1.024e6, "8.698", "h2d_bandwidth"),
    # The slowest pair; nobody pays for copies between GPUs.
    ("gpu_copy", "nvbandwidth_h100x8_d2d_read"): Expected(
        395.05e9, "byte/s", "395.05", "GB/s", "p2p_bandwidth_bytes_per_second", None
    ),
    ("gpu_copy", "nvbandwidth_h100x8_h2d"): gb(55.33e9, "55.33", "h2d_bandwidth"),
    ("gpu_copy", "nvbandwidth_v02"): gb(55.28e9, "55.28", "h2d_bandwidth"),
    ("gromacs", "gromacs_2024_2"): gromacs(4.243, "4.243"),
    ("hpl", "hpl_2_1"): linpack(1.71587e12, "1.716", "TFLOP/s"),
    ("ib", "post_list"): perftest(0.48e9, "0.4800"),
    # The third of three lines, two of which are warm-up.
    # The median of 87.0, 86.5 and 88.4 ms: a log of a resumed job has no warm-up.
    ("megatron", "resumed"): step_time(0.0870, "0.08700"),
    ("nccl", "old_times_k80"): busbw(0.61e9, "0.6100"),
    ("nccl", "srun_2node"): busbw(122.57e9, "122.57"),
    # 3 arrays of 134217728 doubles in 0.0508 s on average.
    ("stream", "stream_5_8"): gb(24 * 134217728 / 0.0508, "63.41", "triad_rate"),
    # It prints its best rate; the average is what its average time makes of that.
    ("stream", "stream_5_10"): gb(23314.0e6 * 0.276334 / 0.291828, "22.08", "triad_rate"),
    ("vllm", "deepseek_v3"): tokens(61.00, "61.00", "61.0"),
    ("vllm", "percentiles_90_95"): tokens(62.49, "62.49", "62.5"),
}


Key = tuple[str, str]


@dataclass(frozen=True)
class Shown:
    """A run of all benchmarks as each command shows it.

    Attributes:
        found: (tool, case) of its ok records.
        report: the report's folder. page: its page.
    """

    found: frozenset[Key]
    listed: str
    listed_csv: str
    cost: str
    cost_csv: str
    report: Path
    page: Seen


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    folder = tmp_path_factory.mktemp("every")
    run = runs.every_tool(OUTPUTS if OUTPUTS.is_dir() else None)
    results = runs.write(folder / "results", run)
    page = write_report(load([results]), folder / "report", terms=Terms(region="eastus"))

    def command(*argv: str) -> str:
        out = folder / "out"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["trueup", *argv, str(results), "--output", str(out)])
            with pytest.raises(SystemExit) as stopped:
                cli.main()
        assert stopped.value.code in (0, None)
        return out.read_text(encoding="utf-8")

    return Shown(
        frozenset((r["benchmark"], r["case"]) for r in run.records if r["outcome"] == "ok"),
        command("list", "--all", "--format", "markdown"),
        command("list", "--format", "csv"),
        command("cost", "--region", "eastus", "--format", "markdown"),
        command("cost", "--region", "eastus", "--format", "csv"),
        page.parent,
        look(page),
    )


def every_row(text: str) -> list[dict[str, str]]:
    """Rows of Markdown tables by their heads; of tables with a column "case"."""
    rows, heads = [], None
    for line in text.replace("\\", "").splitlines():
        if not line.startswith("|"):
            heads = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if heads is None:
            heads = cells
        elif not cells[0].startswith(":-"):
            rows.append(dict(zip(heads, cells, strict=True)))
    return [row for row in rows if "case" in row]


def data(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def close(text: str, base: float) -> bool:
    """Whether a cell is the figure, to what its tool prints of it."""
    return float(text) == pytest.approx(base, rel=1e-5)


def test_every_benchmark_has_a_figure_here() -> None:
    tools = set(rooms.names())
    own = {(record["benchmark"], record["case"]) for record in runs.every_tool().records}
    assert tools - {tool for tool, _ in HEADLINES} == set()
    assert own - set(HEADLINES) == set()
    assert {tool for tool, _ in own} == tools


def test_what_others_printed_has_a_figure_here(shown: Shown) -> None:
    assert shown.found - set(HEADLINES) == set()


def test_list_has_each_headline(shown: Shown) -> None:
    said = {
        (row["benchmark"], row["case"]): row["headline figure"]
        for row in every_row(shown.listed)
        if row["outcome"] == "ok"
    }
    assert set(said) == shown.found
    wrong = {
        key: text
        for key, text in said.items()
        if f" {HEADLINES[key].shown} {HEADLINES[key].shown_unit}" not in f"{text.split(',')[0]} "
    }
    assert wrong == {}


def test_list_as_csv_has_each_headline_in_base_units(shown: Shown) -> None:
    rows = {
        (row["benchmark"], row["case"]): row
        for row in data(shown.listed_csv)
        if row["outcome"] == "ok"
    }
    assert set(rows) == shown.found
    units = {
        key: (row["unit"], close(row["value"], HEADLINES[key].base)) for key, row in rows.items()
    }
    assert units == {key: (HEADLINES[key].unit, True) for key in rows}


def test_report_has_each_headline_below_its_unit(shown: Shown) -> None:
    found = {}
    for tool, case in shown.found:
        want = HEADLINES[tool, case]
        heads, *rows = shown.page.tables[f"{tool}-figures"]
        of_unit = [
            place
            for place, head in enumerate(heads)
            if head.endswith(f" {want.shown_unit}".rstrip())
        ]
        found[tool, case] = [
            row[place] for row in rows for place in of_unit if row[place] == want.shown
        ][:1]
    assert found == {key: [HEADLINES[key].shown] for key in shown.found}


@pytest.mark.parametrize("tool", runs.TOOLS)
def test_report_says_each_headline_in_words(shown: Shown, tool: str) -> None:
    words = shown.page.section(tool)
    said = [
        f" {want.shown} {want.shown_unit}".rstrip() in words
        for (name, case), want in HEADLINES.items()
        if name == tool and (name, case) in shown.found
    ]
    assert said.count(True) >= min(len(said), 1)


def test_csv_of_the_report_has_each_headline_in_base_units(shown: Shown) -> None:
    missing = []
    for tool, case in sorted(shown.found):
        want = HEADLINES[tool, case]
        rows = data((shown.report / "tables" / f"{tool}.csv").read_text(encoding="utf-8"))
        values = [row.get(want.column) for row in rows if row["case"] == case]
        if not any(value and close(value, want.base) for value in values):
            missing.append((tool, case, want.column, values))
    assert missing == []


def test_cost_has_each_headline_whose_work_is_paid_for(shown: Shown) -> None:
    rows = every_row(shown.cost)
    missing = []
    for tool, case in sorted(shown.found):
        want = HEADLINES[tool, case]
        mine = [row for row in rows if row["case"].removesuffix(", random") == case]
        if want.priced is None:
            assert (case, mine) == (case, [])
            continue
        text, unit = want.priced
        written = re.compile(rf"(^| ){re.escape(text)}($|,| at )")
        if not any(
            written.search(value) and head.endswith(unit)
            for row in mine
            for head, value in row.items()
        ):
            missing.append((tool, case, mine))
    assert missing == []


def test_cost_as_csv_is_in_the_report(shown: Shown) -> None:
    written = (shown.report / "tables" / "cost.csv").read_text(encoding="utf-8")
    assert written == shown.cost_csv
    priced = {key for key in shown.found if HEADLINES[key].priced}
    assert {row["case"] for row in data(written)} >= {case for _, case in priced}
