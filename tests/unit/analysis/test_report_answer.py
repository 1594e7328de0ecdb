"""The report opens with the answer to its question; findings are cards with links to records."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import made
import pytest
import recorded_runs as runs
from report_pages import look

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from report_pages import Seen

pytestmark = [pytest.mark.slow]


@pytest.fixture
def devito(tmp_path: Path) -> Path:
    """Devito alone on five HBv3 nodes: a question on price, no check of a node."""
    nodes = [f"hb-{number}" for number in range(5)]
    records = [made.record(10.0 + number, nodes=[name]) for number, name in enumerate(nodes)]
    return made.write(tmp_path / "results", records)


def report(call_trueup: Callable[..., Any], results: Path, *options: object) -> Seen:
    output = results.parent / "report"
    ended = call_trueup("report", results, "--output", output, *options)
    assert ended.status == 0
    return look(output / "index.html")


def test_a_price_question_opens_with_the_price(call_trueup: Any, devito: Path) -> None:
    seen = report(call_trueup, devito, "--price", "3.60")
    assert [*seen.sections][:2] == ["answer", "cost"]
    assert seen.section("answer").startswith("The answer Devito, acoustic-so8-r1t1: ")
    assert " at 3.600 US$ an hour" in seen.section("answer")
    assert "not measured" not in seen.headings[0][1] + seen.section("answer")


def test_a_benchmark_alone_does_not_open_with_health(call_trueup: Any, devito: Path) -> None:
    seen = report(call_trueup, devito)
    names = [*seen.sections]
    assert "not measured" not in seen.headings[0][1]
    assert names.index("health") > names.index("devito") > names.index("headline")


def test_missing_nodes_stay_in_front_of_a_price(call_trueup: Any, tmp_path: Path) -> None:
    results = runs.write(tmp_path / "results", runs.h100_fleet(60))
    seen = report(call_trueup, results.parent, "--region", "eastus")
    assert [*seen.sections][:3] == ["answer", "cost", "health"]
    assert "nodes fail" in seen.section("answer")
    assert "InfiniBand write from GPU memory, each adapter at 8 MiB 260.00" in seen.section(
        "answer"
    )


def test_equal_findings_of_many_nodes_are_one_card(call_trueup: Any, tmp_path: Path) -> None:
    records = [
        record
        for record in runs.h100_fleet(30).records
        if record["benchmark"] == "ib" and len(record["nodes"]) == 1
    ]
    for number, record in enumerate(records):
        for row in record["metrics"]:
            row["value"] *= 0.5 + number / 1e4
    seen = report(call_trueup, made.write(tmp_path / "results", records))
    failing = [card for card in seen.cards if card.startswith("fail")]
    names = {name for record in records for name in record["nodes"]}
    assert len(failing) == 1
    assert {name for name in names if name not in failing[0]} == set()
    # Six stand open, the others are folded.
    assert re.findall("([0-9]+) more nodes", failing[0]) == [str(len(names) - 6)]


def test_rows_link_to_the_record_and_name_a_missing_raw_output(
    call_trueup: Any, tmp_path: Path
) -> None:
    records = [
        made.record(10.0, raw={"path": "held.txt", "sha256": "0" * 64}),
        made.record(11.0, ranks=2, raw={"path": "lost.txt", "sha256": "0" * 64}),
    ]
    results = made.write(tmp_path / "results", records)
    folder = next(path.parent for path in results.rglob("*.json"))
    (folder / "held.txt").write_text("output", encoding="utf-8")
    seen = report(call_trueup, results)
    links = [str(values["href"]) for tag, values in seen.tags if tag == "a"]
    targets = {
        (results.parent / "report" / unquote(link)).resolve()
        for link in links
        if not link.startswith("#")
    }
    assert targets == {*folder.glob("*.json"), folder / "held.txt"}
    rows = [row[-1] for row in seen.tables["devito-figures"][1:]]
    assert rows == ["record, raw output", "record, raw output is not there"]
    assert "lead to ../results/" in seen.words


@pytest.mark.parametrize(("preset", "tables"), [("devito-article", 2), ("", 0)])
def test_published_tables_stand_where_a_run_reproduces_them(
    call_trueup: Any, tmp_path: Path, preset: str, tables: int
) -> None:
    marked = {"preset": preset, "preset_scale": 1.0, "launcher": "local"} if preset else {}
    records = [
        made.record(seconds, threads=cores, parameters=marked, work=38_950e9)
        for cores, seconds in ((16, 180.0), (32, 120.0), (64, 60.0))
    ]
    seen = report(call_trueup, made.write(tmp_path / "results", records))
    published = [name for name in seen.tables if name.startswith("reference")]
    assert (len(published), "reference" in seen.sections) == (tables, tables > 0)
    if preset:
        assert "single node" in seen.section("reference")
        assert "multi-node" not in seen.section("reference")


def test_sizes_that_measured_the_same_are_lines_of_one_chart(
    call_trueup: Any, tmp_path: Path
) -> None:
    records = [
        {**record, "vm_size": size, "nodes": [f"{size[-4:]}-{name}" for name in record["nodes"]]}
        for size in ("Standard_ND96isr_H100_v5", "Standard_ND96isr_H200_v5")
        for record in runs.nccl_sweep(largest=runs.GIB, counts=(1,)).records
        if record["parameters"]["operation"] == "all_reduce"
    ]
    results = made.write(tmp_path / "results", [{**record, "raw": None} for record in records])
    report(call_trueup, results)
    page = (tmp_path / "report" / "index.html").read_text("utf-8")
    figures = re.findall(r'<figure id="figure-(nccl-1[^"]*)">(.*?)</figure>', page, re.DOTALL)
    labels = [
        {text.split(",")[0] for text in re.findall("<title>([^<]*)</title>", drawing)}
        for _, drawing in figures
    ]
    assert labels == [{"ND96isr_H100_v5", "ND96isr_H200_v5"}]


def test_scaling_of_several_sizes_is_one_chart(call_trueup: Any, tmp_path: Path) -> None:
    records = [
        made.record(seconds / ranks, ranks=ranks, vm_size=size, nodes=[size[-5:]])
        for size, seconds in (("Standard_HB120rs_v3", 80.0), ("Standard_HB176rs_v4", 50.0))
        for ranks in (1, 2, 4)
    ]
    report(call_trueup, made.write(tmp_path / "results", records))
    page = (tmp_path / "report" / "index.html").read_text("utf-8")
    figure = page[page.index('id="figure-devito-scaling-sizes-1"') :].partition("</figure>")[0]
    assert re.findall("<title>([^<]*)</title>", figure) == [
        *("HB120rs_v3, 1: 80.00 s", "HB120rs_v3, 2: 40.00 s", "HB120rs_v3, 4: 20.00 s"),
        *("HB176rs_v4, 1: 50.00 s", "HB176rs_v4, 2: 25.00 s", "HB176rs_v4, 4: 12.50 s"),
    ]
