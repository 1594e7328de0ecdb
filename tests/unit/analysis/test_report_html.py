"""The report's files: what stands in them, that they need nothing else and that they are stable."""

from __future__ import annotations

import csv
import hashlib
import html.parser
import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
import report_records as rr
from trueup.errors import BadInput, TrueupError
from trueup_analysis.catalog import folder
from trueup_analysis.load import Excluded, Loaded, load
from trueup_analysis.render.html import (
    Column,
    Page,
    Part,
    Row,
    Section,
    Table,
    render_csv,
    render_html,
)
from trueup_analysis.render.plots import PALETTE
from trueup_analysis.report import write_report

if TYPE_CHECKING:
    from pathlib import Path

_VOID = {"meta", "link", "br", "hr", "img", "input", "path", "use"}


@dataclass
class Seen(html.parser.HTMLParser):
    """What a page consists of, read by the standard library's parser."""

    ids: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    headings: list[tuple[int, str]] = field(default_factory=list)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    text: str = ""
    open_tags: list[str] = field(default_factory=list)
    _table: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append((tag, values))
        if tag not in _VOID:
            self.open_tags.append(tag)
        self.ids += [values["id"]] if values.get("id") else []
        self.links += [
            (name, value or "")
            for name, value in attrs
            if name in ("href", "src", "xlink:href", "action")
        ]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))
        if tag == "table":
            self._table = str(values["id"]).removeprefix("table-")
            self.tables[self._table] = []
        if tag == "tr":
            self.tables[self._table].append([])
        if tag in ("th", "td"):
            self.tables[self._table][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open_tags.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open_tags.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open_tags:
            return
        self.text += data
        if re.fullmatch("h[1-6]", self.open_tags[-1] if self.open_tags else ""):
            level, so_far = self.headings[-1]
            self.headings[-1] = (level, so_far + data)
        if {"th", "td"} & set(self.open_tags) and self.tables[self._table][-1]:
            self.tables[self._table][-1][-1] += data


def look(path: Path) -> Seen:
    seen = Seen()
    seen.feed(path.read_text(encoding="utf-8"))
    seen.close()
    return seen


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a usual run, with one unreadable file."""
    folder = tmp_path_factory.mktemp("usual")
    results = rr.write_run(folder, rr.usual(), rr.manifest())
    (results / rr.RUN_ID / "broken.json").write_text("{", encoding="utf-8")
    return write_report(load([results]), folder / "report")


def report_of(folder: Path, records: list[dict[str, Any]], **options: Any) -> Seen:
    return look(write_report(load([rr.write_run(folder, records)]), folder / "report", **options))


def test_page_is_well_formed_and_accessible(usual: Path) -> None:
    text, seen = usual.read_text(encoding="utf-8"), look(usual)
    assert text[:15] == "<!DOCTYPE html>"
    assert seen.open_tags == []
    assert [count for count in map(seen.ids.count, seen.ids) if count > 1] == []
    assert ("html", {"lang": "en"}) in seen.tags
    assert [level for level, _ in seen.headings].count(1) == 1
    steps = [b - a for (a, _), (b, _) in zip(seen.headings, seen.headings[1:], strict=False)]
    assert max(steps) <= 1
    assert {values.get("scope") for tag, values in seen.tags if tag == "th"} == {"row", "col"}
    assert sum(tag == "caption" for tag, _ in seen.tags) == len(seen.tables)
    svgs = [values for tag, values in seen.tags if tag == "svg"]
    assert len(svgs) == 4
    assert {values["role"] for values in svgs} == {"img"}
    assert min(len(values["aria-label"] or "") for values in svgs) > 40
    for name, values in ((n, v) for n, v in seen.tags if "aria-labelledby" in v):
        assert (name, values["aria-labelledby"] in seen.ids) == (name, True)


def test_page_needs_nothing_from_outside(usual: Path) -> None:
    text, seen = usual.read_text(encoding="utf-8"), look(usual)
    assert {value for _, value in seen.links if not value.startswith("#")} == {"data:,"}
    anchors = {value[1:] for _, value in seen.links if value.startswith("#")}
    assert anchors - set(seen.ids) == set()
    assert re.findall(r"https?://|@import|<script|<iframe|javascript:|[^-]\bon[a-z]+=", text) == []
    assert set(re.findall(r"url\((.)", text)) == {"#"}
    policy = next(
        v["content"] for t, v in seen.tags if v.get("http-equiv") == "Content-Security-Policy"
    )
    assert str(policy).startswith("default-src 'none'") is True


def test_page_opens_with_warnings_then_headline_figures(usual: Path) -> None:
    seen = look(usual)
    titles = [title for _, title in seen.headings]
    assert titles[:2] == ["Devito and memory bandwidth on node01 (not an Azure size)", "Warnings"]
    assert titles[2:5] == [
        "1 record failed",
        "1 record invalid (ran, but failed the correctness check)",
        "1 file left out because unreadable",
    ]
    order = [
        "Headline figures",
        "What it was measured on",
        "Notes",
        "Scaling",
        "Layouts compared",
        "Roofline",
        "Memory bandwidth",
        "Cost",
        "Published results beside this run",
        "All records",
        "Files left out",
        "Method and units",
    ]
    assert [title for level, title in seen.headings if level == 2][1:] == order
    text = " ".join(seen.text.split())
    assert f"run {rr.RUN_ID} · 2026-11-20 09:13:00 to 2026-11-20 09:18:30 UTC" in text
    assert "killed by signal 9 after 12.0 s: out of memory" in text
    assert "node01: install packages needs root, and become is off" in text
    assert "12 records: 10 ok, 1 failed, 1 invalid. 1 file was left out because unreadable." in text


def test_headline_is_the_fastest_case_in_the_fields_units(usual: Path) -> None:
    text = " ".join(look(usual).text.split())
    assert "Best run time 3.210 s 2 ranks × 2 threads, by l3, n = 3, 3.190 to 3.300 s" in text
    assert "Floating-point rate 71.03 GFLOP/s" in text
    assert "Point rate 1.307 GPts/s" in text
    assert "Fraction of the roofline 85.6 %" in text
    assert "Memory bandwidth, triad 43.00 GB/s 4 threads on node01" in text
    assert "Cost of that run unknown no price is known" in text


def test_scaling_table_and_layouts(usual: Path) -> None:
    tables = look(usual).tables
    scaling = tables["scaling-1-devito-strong"]
    assert scaling[0][:4] == ["Cores", "Layout", "n", "Run time median, s"]
    assert scaling[1][:8] == [
        "1",
        "1 × 1",
        "3",
        "8.310",
        "8.290 to 8.400",
        "1.00",
        "100.0",
        "baseline",
    ]
    assert [row[-1] for row in scaling[1:]] == ["yes", "yes", "no", "yes", "yes", "no", "no"]
    assert tables["layouts-1"][1] == [
        "2 ranks × 2 threads, by l3",
        "3",
        "3.210",
        "3.190 to 3.300",
        "fastest",
    ]
    assert tables["layouts-1"][2][-1] == "5.3"
    assert tables["roofline-1"][1] == ["2 × 2 l3", "1.930", "71.03", "82.99", "85.6"]
    assert [row[1] for row in tables["bandwidth"][1:]] == ["1", "2", "4"]


def test_every_table_is_a_csv_file_with_the_same_cells(usual: Path) -> None:
    seen = look(usual)
    written = {path.stem for path in (usual.parent / "tables").iterdir()}
    assert written == set(seen.tables)
    for name, rows in seen.tables.items():
        lines = list(csv.reader(io.StringIO((usual.parent / "tables" / f"{name}.csv").read_text())))
        assert (name, lines[1:]) == (name, rows[1:])
        titles = [re.sub(r" \[(.*)\]$", r" \1", title) for title in lines[0]]
        assert titles == rows[0]


def test_every_plot_is_a_png_file_too(usual: Path) -> None:
    seen = look(usual)
    names = {str(v["id"]).removeprefix("figure-") for tag, v in seen.tags if tag == "figure"}
    assert {path.stem for path in (usual.parent / "plots").iterdir()} == names
    heads = {path.read_bytes()[:8] for path in (usual.parent / "plots").iterdir()}
    assert heads == {b"\x89PNG\r\n\x1a\n"}


def test_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    results = rr.write_run(tmp_path, rr.usual(), rr.manifest())
    found = []
    for name in ("first", "second"):
        root = write_report(load([results]), tmp_path / name).parent
        found.append(
            {
                str(p.relative_to(root)): p.read_bytes()
                for p in sorted(root.rglob("*"))
                if p.is_file()
            }
        )
    assert sorted(found[0]) == sorted(found[1])
    assert [name for name in found[0] if found[0][name] != found[1][name]] == []
    assert len(found[0]) > 10


def test_text_from_records_is_shown_not_obeyed(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    records = [dict(one, nodes=[evil]) for one in rr.usual()]
    records[7]["reason"] = '"><img src=x onerror=alert(2)> & {{ 7*7 }}'
    records[0]["software"] = {"devito": "</style><b>4"}
    records[9]["parameters"]["binding"] = "'\"><svg onload=alert(3)>"
    seen = report_of(tmp_path, records)
    assert [tag for tag, _ in seen.tags if tag in ("script", "img")] == []
    assert [name for _, values in seen.tags for name in values if name.startswith("on")] == []
    assert f"on {evil}" in seen.text
    assert '"><img src=x onerror=alert(2)> & {{ 7*7 }}' in seen.text
    assert seen.open_tags == []


def test_colours_of_plots_are_the_pages_variables(usual: Path) -> None:
    text = usual.read_text(encoding="utf-8")
    plots = "".join(re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL))
    assert re.findall(r"#[0-9a-fA-F]{6}\b", plots) == []
    assert set(re.findall(r"var\(--([a-z]+)\)", plots)) <= set(PALETTE)
    assert "DejaVu" not in plots


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["ink", "muted", "accent", "second", "third"])
def test_contrast(name: str, theme: int) -> None:
    pair = sorted((luminance(PALETTE[name][theme]), luminance(PALETTE["paper"][theme])))
    assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5


def test_one_record(tmp_path: Path) -> None:
    seen = report_of(tmp_path, rr.usual()[:1])
    assert "1 record: 1 ok." in seen.text
    assert [tag for tag, _ in seen.tags].count("svg") == 0
    assert "Only one count of cores was measured" in seen.text
    assert seen.tables["roofline-1"][1][3] == "unknown"


def test_no_record_ok(tmp_path: Path) -> None:
    run = rr.manifest(
        finished_at=None,
        hosts={"node01": {"ok": 3, "failed": 1, "unreachable": 1}},
        warnings=["odd"],
    )
    results = rr.write_run(tmp_path, [rr.usual()[7], rr.usual()[8]], run)
    seen = look(write_report(load([results]), tmp_path / "report"))
    text = " ".join(seen.text.split())
    assert "No record is ok, so there is no figure to report: the reasons follow." in text
    assert "did not finish: it was interrupted, or it is still running." in text
    assert f"{rr.RUN_ID} node01: 1 task failed, unreachable." in text
    assert f"{rr.RUN_ID} odd" in text
    assert sorted(seen.tables) == ["records"]
    assert [row[2] for row in seen.tables["records"][1:]] == ["failed", "invalid"]


def test_nothing_loaded(tmp_path: Path) -> None:
    empty = Loaded(pd.DataFrame(), pd.DataFrame(), excluded=[Excluded("a.json", "it is truncated")])
    seen = look(write_report(empty, tmp_path / "report"))
    assert (
        "There is no record to report on: run `make run`, or name the folder of the records."
        in seen.text
    )
    assert seen.tables["left-out"][1] == ["a.json", "it is truncated"]


def test_priced_as_a_size(tmp_path: Path) -> None:
    seen = report_of(tmp_path, rr.usual(), as_size="Standard_HB120rs_v3", region="eastus")
    row = next(row for row in seen.tables["cost"] if row[0].endswith("r2t2-l3"))
    assert row[1:4] == ["Standard_HB120rs_v3", "eastus", "payg"]
    assert row[4:10] == ["1", "3.210", "0.0008917", "3.600", "0.003210", "14.08"]
    assert row[11] == "2026-06-18"
    assert row[12].startswith("Azure/karpenter-provider-azure@") is True
    text = " ".join(seen.text.split())
    assert (
        "Cost of that run 0.003210 US$ Standard_HB120rs_v3, eastus, payg, price of 2026-06-18"
        in text
    )


def test_nodes_of_a_cluster(tmp_path: Path) -> None:
    records = []
    for nodes, seconds in ((1, 121.7), (2, 75.7), (4, 60.8), (8, 51.9)):
        records.append(
            rr.devito(16 * nodes, 4, [seconds, seconds * 1.01, seconds * 0.98], "l3")
            | {
                "nodes": [f"hb{number}" for number in range(nodes)],
                "node_count": nodes,
                "vm_size": "Standard_HB120-64rs_v3",
                "region": "eastus",
            }
        )
    seen = report_of(tmp_path, records)
    assert seen.headings[0] == (1, "Devito on 8 nodes (Standard_HB120-64rs_v3)")
    rows = seen.tables["scaling-1-devito-strong"]
    assert [row[0] for row in rows[1:]] == ["1", "2", "4", "8"]
    assert [row[6] for row in rows[1:]] == ["1.00", "1.61", "2.00", "2.34"]
    beside = seen.tables["reference-2"]
    assert beside[2][:6] == ["128", "2", "Standard_HB120-64rs_v3", "75.68", "514.86", "1.61"]
    assert beside[2][9] == "75.70"


def test_two_runs_are_pooled_by_layout(tmp_path: Path) -> None:
    again = [
        dict(one, run_id="20261121T101500Z-0a0b", started_at="2026-11-21T10:15:10Z")
        for one in (rr.devito(1, 4, [3.0, 3.1, 3.2]), rr.devito(2, 2, [3.4, 3.5, 3.6], "l3"))
    ]
    seen = report_of(tmp_path, [*rr.usual()[4:6], *again])
    assert "2 runs" in seen.text
    assert seen.tables["layouts-1"][1:] == [
        ["1 rank × 4 threads", "6", "3.240", "3.000 to 3.520", "fastest"],
        ["2 ranks × 2 threads, by l3", "6", "3.355", "3.190 to 3.600", "3.5"],
    ]
    assert "may be chance" in seen.text
    assert seen.tables["records"][0][1] == "Run"


def test_files_of_an_earlier_report_go_and_those_of_others_stay(tmp_path: Path) -> None:
    results = rr.write_run(tmp_path, rr.usual())
    out = tmp_path / "report"
    write_report(load([results]), out)
    (out / "plots" / "mine.png").write_bytes(b"mine")
    (out / "tables" / "layouts-1.csv").write_text("changed by hand\n", encoding="utf-8")
    assert (out / "plots" / "layouts-1.png").is_file() is True
    write_report(load([rr.write_run(tmp_path / "b", rr.usual()[:1])]), out)
    assert sorted(path.name for path in (out / "plots").iterdir()) == ["mine.png"]
    assert (out / "tables" / "layouts-1.csv").read_text(encoding="utf-8") == "changed by hand\n"
    assert (out / "tables" / "bandwidth.csv").exists() is False
    assert sorted(path.name for path in out.iterdir()) == [
        "SHA256SUMS",
        "index.html",
        "plots",
        "tables",
    ]
    for line in (out / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        digest, name = line.split("  ")
        assert (name, hashlib.sha256((out / name).read_bytes()).hexdigest()) == (name, digest)


def test_sums_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    out, other = tmp_path / "report", tmp_path / "precious"
    out.mkdir()
    other.write_bytes(b"precious")
    digest = hashlib.sha256(b"precious").hexdigest()
    (out / "SHA256SUMS").write_text(f"{digest}  plots/../../precious\n{digest}  ../precious\n")
    write_report(load([rr.write_run(tmp_path, rr.usual()[:1])]), out)
    assert other.read_bytes() == b"precious"


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    loaded = load([rr.write_run(tmp_path, rr.usual()[:1])])
    file = tmp_path / "file"
    file.write_text("x", encoding="utf-8")
    with pytest.raises(BadInput, match="is a file; name a folder"):
        write_report(loaded, file)
    with pytest.raises(TrueupError, match="could not be written"):
        write_report(loaded, file / "below")
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "plots").write_text("in the way", encoding="utf-8")
    with pytest.raises(TrueupError, match="could not be written"):
        write_report(load([rr.write_run(tmp_path / "c", rr.usual())]), tmp_path / "report")
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == ["plots"]


def test_long_tables_are_cut_on_the_page_only() -> None:
    rows = tuple(Row((str(number),)) for number in range(5))
    table = Table("t", "Five rows.", (Column("number", "1", "number"),), rows, shown=3)
    page = Page("p", "", (), sections=(Section("s", "S", (Part(tables=(table,)),)),))
    text = render_html(page)
    assert text.count("<tr>") == 4
    assert "2 more rows stand in tables/t.csv." in text
    assert render_csv(table) == "number [1]\n0\n1\n2\n3\n4\n"


def test_published_results_are_not_called_measured(tmp_path: Path) -> None:
    seen = look(write_report(load([folder() / "reference_results.csv"]), tmp_path, region="eastus"))
    assert seen.headings[0] == (1, "Devito and vLLM on published systems (10 sizes)")
    text = " ".join(seen.text.split())
    assert "Best run time 117.61 s layout unknown" in text
    assert "measured: median, min to max" not in text
    assert "The publication states no spread." in text
    assert [row[6] for row in seen.tables["scaling-1-devito-strong"][1:]] == [
        "100.0",
        "73.1",
        "39.2",
        "23.1",
        "16.4",
    ]
