"""Outputs and figures of real machines: a healthy machine neither fails nor has a warning at its
size, and a faulty one fails.

Files are those of tests/data and of ../shared/real_outputs. Each file of a benchmark that is judged
stands below: with the size of its machine, or with the reason why it is of no size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_analysis.decoding import decoded
from trueup_analysis.figures.health import expectations
from trueup_analysis.read import read
from trueup_analysis.rooms import marks
from trueup_node.cases import Case, Figure
from trueup_node.errors import BadInput
from trueup_node.health.verdicts import judge_case

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data"
SHARED = ROOT.parent / "shared" / "real_outputs"
FACTS = expectations.read(ROOT / "catalog" / "expectations.yml")
GIB = 1024**3

H100, H200 = "Standard_ND96isr_H100_v5", "Standard_ND96isr_H200_v5"
NDV4, HB120, HB176 = "Standard_ND96asr_v4", "Standard_HB120rs_v3", "Standard_HB176rs_v4"

# Of a healthy machine: file, the size whose hardware it has, nodes.
HEALTHY = [
    # One GPU of that kind in a virtual machine that is not Azure's (SOURCES.md).
    ("gemm/h100_real.json", H100, 1),
    ("gemm/h200_real.json", H200, 1),
    ("gpu_copy/sections_h100_real.txt", H100, 1),
    ("gpu_copy/sections_h100_pytorch_real.txt", H100, 1),
    ("gpu_copy/nvbandwidth_0.8_h100_real.txt", H100, 1),
    ("gpu_copy/nvbandwidth_0.8_h100_real.json", H100, 1),
    ("nccl/one_h200_real.txt", H200, 1),
    # Two ranks on one GPU, told to be two nodes: the sockets were asked for.
    ("nccl/sendrecv_h100_real.txt", H100, 2),
]
FAULTY = [
    # An all-reduce of two nodes over sockets where InfiniBand is.
    ("nccl/sockets.txt", NDV4, 1),
    ("nccl/wrong_values.txt", H100, 1),
    # The adapter of a 400 Gb/s link at 193.42 Gb/s.
    ("ib/write_bw_gpu.txt", H100, 1),
    # GPUs with PCIe of the generation before.
    ("gpu_copy/nvbandwidth_0.8.json", H100, 1),
]
# Why the others of tests/data are of no healthy machine of a size.
NO_SIZE = {
    "rxe_": "soft-RoCE between processes",
    "hpcc150_": "two cores of a virtual machine that is not Azure's",
    "fio333_": "a virtual disk of a virtual machine that is not Azure's",
    "kernel_streaming": "two cores of a virtual machine that is not Azure's",
    "sockets_h100_real": "two ranks on one GPU, told to be two nodes, over sockets",
    "no_device": "no adapter",
}


def words(path: Path, size: str, nodes: int) -> set[str]:
    """The verdicts on an output as measured on a size."""
    with path.open("rb") as stream:
        text = decoded(stream, path.name, marks())[0]
    reading = read(text, source=path.name)
    return {item.verdict for item in judge_case(reading.as_case(size, nodes), FACTS)}


@pytest.mark.parametrize(("name", "size", "nodes"), HEALTHY)
def test_a_healthy_machine_neither_fails_nor_is_warned_of(name: str, size: str, nodes: int) -> None:
    assert words(DATA / name, size, nodes) & {"fail", "warn"} == set()


@parametrized(("name", "size", "nodes"))
def test_no_healthy_machine_of_others_fails_or_is_warned_of(
    name: str, size: str, nodes: int
) -> None:
    if not (SHARED / name).is_file():
        pytest.skip(f"no ../shared/real_outputs/{name} here")
    try:
        judged = words(SHARED / name, size, nodes)
    except BadInput as error:
        pytest.skip(f"{name} is not read: {error}")
    assert judged & {"fail", "warn"} == set()


@pytest.mark.parametrize(("name", "size", "nodes"), FAULTY)
def test_a_faulty_machine_fails(name: str, size: str, nodes: int) -> None:
    assert "fail" in words(DATA / name, size, nodes)


def test_each_real_output_of_a_judged_benchmark_has_its_row() -> None:
    judged = {item.benchmark for size in FACTS.sizes for item in FACTS.of(size)}
    real = set()
    for folder in judged - {"node_state"}:
        sources = (DATA / folder / "SOURCES.md").read_text(encoding="utf-8")
        for path in (DATA / folder).iterdir():
            rows = [line for line in sources.splitlines() if f"{path.stem}" in line and "|" in line]
            synthetic = any("synthetic" in row for row in rows)
            if path.name != "SOURCES.md" and ("real" in path.stem or not synthetic):
                real.add(f"{folder}/{path.name}")
    rows = {name for name, *_ in (*HEALTHY, *FAULTY)}
    left = {name for name in real - rows if not Path(name).name.startswith(tuple(NO_SIZE))}
    assert left == set()


# Published figures of healthy machines: size, benchmark, parameters, metric, value in base units,
# message size, nodes.
SUM = {"operation": "all_reduce", "datatype": "float", "reduction": "sum", "transport": "unknown"}


def word_on(
    size: str,
    benchmark: str,
    parameters: dict[str, Any],
    metric: str,
    value: float,
    message_bytes: int | None,
    nodes: int,
) -> set[str]:
    """The verdict on one figure of a size's own program."""
    unit = "bit/s" if benchmark == "ib" else "byte/s"
    statistic = "max" if benchmark == "stream" else None
    row = Figure(metric, value, unit, "higher", message_bytes=message_bytes, statistic=statistic)
    case = Case(
        nodes=tuple(f"n{number}" for number in range(nodes)),
        vm_size=size,
        benchmark=benchmark,
        case="published",
        outcome="ok",
        reason=None,
        parameters=parameters,
        software={},
        figures=[row],
        node_count=nodes,
        gpus=8 * nodes,
    )
    return {item.verdict for item in judge_case(case, FACTS) if item.measured is not None}


@parametrized("row", ids=lambda row: f"{row[0]}-{row[3]}-{row[4]:.3g}")
def test_a_published_figure_of_a_healthy_machine_passes(row: tuple[Any, ...]) -> None:
    assert word_on(*row) == {"pass"}


@parametrized("row", ids=lambda row: f"{row[0]}-{row[3]}-{row[4]:.3g}")
def test_a_figure_of_a_sick_machine_fails(row: tuple[Any, ...]) -> None:
    assert word_on(*row) == {"fail"}


@parametrized(("benchmark", "parameters", "metric", "message_bytes", "size"))
def test_a_slow_figure_of_another_program_or_input_has_no_verdict(
    benchmark: str, parameters: dict[str, Any], metric: str, message_bytes: int | None, size: str
) -> None:
    assert word_on(size, benchmark, parameters, metric, 1e9, message_bytes, 1) == set()


@pytest.mark.parametrize(("gpus", "measured"), [(4, 0), (8, 1), (None, 0)])
def test_an_all_reduce_over_some_of_the_gpus_is_not_judged(gpus: int | None, measured: int) -> None:
    row = Figure("busbw", 300e9, "byte/s", "higher", message_bytes=16 * GIB)
    case = Case(
        *(("n",), H100, "nccl", "made", "ok", None, SUM, {}, [row]), node_count=1, gpus=gpus
    )
    judged = judge_case(case, FACTS)
    assert sum(item.measured is not None for item in judged) == measured


def test_a_real_h100_has_no_verdict_on_its_matrix_product_and_the_reason_is_named(
    call_trueup: Any,
) -> None:
    done = call_trueup("read", DATA / "gemm" / "h100_real.json", "--size", H100)
    shown = " ".join(done.out.split())
    assert (done.status, "report the node" in shown, "No verdict: " in shown) == (2, False, True)
    [verdict] = judge_case(
        read((DATA / "gemm" / "h100_real.json").read_text(), source="h100_real.json").as_case(
            H100, 1
        ),
        FACTS,
    )
    assert verdict.reason == (
        "no expectation holds for this case: it has program pytorch, and the limit is of ubergemm"
        " of NVIDIA's DCGM, 60 s"
    )


def test_each_expectation_of_a_benchmark_names_its_program_and_matches_records_by_it() -> None:
    items = [item for size in FACTS.sizes for item in FACTS.of(size)]
    programs = [item for item in items if item.benchmark != "node_state"]
    assert [item.what for item in programs if not item.program or not item.parameters] == []
    assert [item.what for item in items if item.benchmark == "node_state" and item.program] == []
