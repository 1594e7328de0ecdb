"""The report's files: what stands in them, that they need nothing else and that they are stable."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import fleet
import made
import pytest
import recorded_runs as runs
import report_records as rr
from report_pages import Seen, look
from trueup_analysis import cli, packed
from trueup_analysis.catalog import folder
from trueup_analysis.figures.terms import Terms
from trueup_analysis.load import Excluded, Loaded, load
from trueup_analysis.report.publish import write_report
from trueup_node.errors import BadInput, TrueupError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.xdist_group("report_html"), pytest.mark.slow]


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a usual run, with one unreadable file."""
    place = tmp_path_factory.mktemp("usual")
    results = rr.write_run(place, rr.usual(), rr.manifest())
    (results / rr.RUN_ID / "broken.json").write_text("{", encoding="utf-8")
    return write_report(load([results]), place / "report")


@pytest.fixture(scope="module")
def of_fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of 200 nodes with three planted faults, two of them without records."""
    place = tmp_path_factory.mktemp("fleet")
    results = runs.write(place / "results", runs.h100_fleet(200))
    return write_report(load([results]), place / "report", terms=Terms(region="eastus"))


@pytest.fixture(scope="module")
def at_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a machine that is no VM of Azure."""
    place = tmp_path_factory.mktemp("home")
    results = runs.write(place / "results", runs.home_run())
    return write_report(load([results]), place / "report")


@pytest.fixture(scope="module")
def of_nccl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of collectives on 1 and 2 nodes."""
    place = tmp_path_factory.mktemp("nccl")
    run = runs.nccl_sweep(largest=runs.GIB, counts=(1, 2))
    results = runs.write(place / "results", run)
    return write_report(load([results]), place / "report", terms=Terms(region="eastus"))


@pytest.fixture(params=["usual", "of_fleet", "at_home", "of_nccl"])
def any_report(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


def report_of(place: Path, records: list[dict[str, Any]], **options: Any) -> Seen:
    return look(
        write_report(load([rr.write_run(place, records)]), place / "report", terms=Terms(**options))
    )


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What a command writes."""

    def call(*argv: object, statuses: tuple[int | None, ...] = (0, None)) -> str:
        out = tmp_path / "written"
        monkeypatch.setattr(sys, "argv", ["trueup", *map(str, argv), "--output", str(out)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        assert stopped.value.code in statuses
        return out.read_text(encoding="utf-8")

    return call


# --- the page ------------------------------------------------------------------------------------


def test_page_is_well_formed_and_accessible(any_report: Path) -> None:
    text, seen = any_report.read_text(encoding="utf-8"), look(any_report)
    assert text[:15] == "<!DOCTYPE html>"
    assert seen.open_tags == []
    assert [name for name in seen.ids if seen.ids.count(name) > 1] == []
    assert ("html", {"lang": "en"}) in seen.tags
    assert [level for level, _ in seen.headings].count(1) == 1
    steps = [b - a for (a, _), (b, _) in zip(seen.headings, seen.headings[1:], strict=False)]
    assert max(steps) <= 1
    assert {values.get("scope") for tag, values in seen.tags if tag == "th"} == {"row", "col"}
    assert sum(tag == "caption" for tag, _ in seen.tags) == len(seen.tables)
    for name, values in ((n, v) for n, v in seen.tags if "aria-labelledby" in v):
        assert (name, values["aria-labelledby"] in seen.ids) == (name, True)


def test_every_drawing_says_a_finding(any_report: Path) -> None:
    svgs = [values for tag, values in look(any_report).tags if tag == "svg"]
    assert len(svgs) >= 2
    assert {values["role"] for values in svgs} == {"img"}
    said = [str(values["aria-label"]) for values in svgs]
    assert [text for text in said if not re.search(r"\d", text) or len(text) < 40] == []
    assert len(set(said)) == len(said)


def test_page_needs_nothing_from_outside(any_report: Path) -> None:
    text, seen = any_report.read_text(encoding="utf-8"), look(any_report)
    others = [value for _, value in seen.links if not value.startswith("#")]
    beside = [value for value in others if not value.startswith("data:")]
    # Records and raw outputs beside the report, which it does not need.
    results = (any_report.parent.parent / "results").resolve()
    targets = [(any_report.parent / unquote(value)).resolve() for value in beside]
    assert [path for path in targets if results not in path.parents or not path.is_file()] == []
    assert {values.get("href") for tag, values in seen.tags if tag == "a"} >= set(beside)
    # The icon that is none, and the cells of a large matrix.
    embedded = {value.split(",")[0] for value in others if value.startswith("data:")}
    assert embedded <= {"data:", "data:image/png;base64"}
    anchors = {value[1:] for _, value in seen.links if value.startswith("#")}
    assert anchors - set(seen.ids) == set()
    assert re.findall(r"@import|<iframe|javascript:|[^-]\bon[a-z]+=\"", text) == []
    assert re.findall(r"(?:src|href)=\"https?:", text) == []
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    policy = next(
        v["content"] for t, v in seen.tags if v.get("http-equiv") == "Content-Security-Policy"
    )
    assert str(policy).startswith("default-src 'none'") is True
    # The policy admits the page's own script by its digest; the other is data.
    kinds = [values.get("type") for tag, values in seen.tags if tag == "script"]
    digest = hashlib.sha256(seen.scripts[-1].encode()).digest()
    allowed = f"script-src 'sha256-{base64.b64encode(digest).decode()}'"
    assert (kinds, allowed in str(policy)) == (["application/json", None], True)


def test_page_opens_with_health_then_warnings_then_headlines(usual: Path) -> None:
    seen = look(usual)
    assert [title for level, title in seen.headings if level == 2] == [
        "The answer",
        "Health",
        "Warnings",
        "Headline figures",
        "What it was measured on",
        "Notes",
        "Devito",
        "Memory bandwidth (STREAM)",
        "Cost",
        "All records",
        "Files left out",
        "Method and units",
    ]
    assert seen.headings[0][1].startswith(
        "Devito and Memory bandwidth (STREAM) on node01 (not an Azure size)"
    )
    warned = seen.section("warnings")
    for words in (
        "1 record failed",
        "1 record invalid (ran, but failed the correctness check)",
        "1 file left out because unreadable",
        "killed by signal 9 after 12.0 s: out of memory",
        "the field's norm is 12.1, other layouts have 12.7",
    ):
        assert (words, words in warned) == (words, True)
    assert f"run {rr.RUN_ID} · 2026-11-20 09:13:00 to 2026-11-20 09:18:30 UTC" in seen.words
    assert "node01: install packages needs root, and become is off" in seen.section("notes")
    records = "12 records: 10 ok, 1 failed, 1 invalid. 1 file was left out because unreadable."
    assert records in seen.words


def test_headline_is_the_fastest_case_in_the_fields_units(usual: Path) -> None:
    said = look(usual).section("headline")
    assert "Devito: run time 3.210 s node01, 2 ranks × 2 threads, by l3, 3.190 to 3.300" in said
    assert "Memory bandwidth (STREAM): triad 43.00 GB/s node01, 42.14 to 43.43" in said


def test_tables_of_a_benchmark(usual: Path) -> None:
    tables = look(usual).tables
    heads = ["cores", "layout", "wins", "n", "median s", "min s", "max s", "speed-up"]
    scaling = tables["devito-scaling-1"]
    assert scaling[0][:8] == heads
    assert scaling[1][:8] == ["1", "1x1", "*", "3", "8.310", "8.290", "8.400", "1.00"]
    assert [row[2] for row in scaling[1:]].count("*") == 4
    best = ["2 ranks × 2 threads, by l3", "node01", "3", "3.210", "3.190 to 3.300"]
    assert [row[:5] for row in tables["devito-figures"] if row[3] == "3.210"] == [best]
    roofline = ["2 ranks × 2 threads, by l3", "1.930", "71.03", "82.99", "85.6 %"]
    assert tables["roofline-1"][1] == roofline
    triads = [row[3] for row in tables["stream-figures"][1:]]
    assert triads == ["24.60", "38.20", "43.00"]


def test_only_what_was_measured_is_explained(of_nccl: Path, of_fleet: Path, at_home: Path) -> None:
    for page in (of_nccl, of_fleet):
        seen = look(page)
        assert (page, re.findall("(?i)devito|grid point|seismic", seen.words)) == (page, [])
        assert "reference" not in seen.sections
        assert (page.parent / "tables" / "reference.csv").exists() is False
    assert [name for name in look(of_fleet).sections if name in runs.TOOLS] == [
        *("gemm", "gpu_copy", "ib", "nccl")
    ]
    seen = look(at_home)
    assert [name for name in seen.sections if name in runs.TOOLS] == ["devito", "stream"]
    assert "NCCL" not in seen.words


# --- health --------------------------------------------------------------------------------------


def test_fleet_says_which_nodes_fail_and_why(of_fleet: Path) -> None:
    seen = look(of_fleet)
    assert seen.headings[0][1].endswith(": 2 of 200 nodes fail, 2 not measured")
    assert seen.section("health").startswith(
        "Health pass195 of 200warn1 of 200fail2 of 200not measured2 of 200no verdict0 of 200"
    )
    planted = sorted(fleet.node(number) for number in runs.PLANTED)
    health = seen.section("health")
    failing = [card for card in seen.cards if card.startswith("fail")]
    # Node, figure, limit and source stand above the fix.
    assert [card for card in failing if not re.search("limit .* Fix: .* Source: ", card)] == []
    # Of the matrix product no limit is published: the slow GPU is a warning beside the other nodes.
    slow_gpu = [fleet.node(n) for n, fault in runs.PLANTED.items() if fault == "cold GPU"]
    failed = set(re.findall(r"h100-\d+", " ".join(failing)))
    assert sorted({*failed, *slow_gpu}) == planted
    lost = seen.tables["missing"]
    assert [(row[0], row[-1]) for row in lost[1:]] == [
        (fleet.node(runs.UNREACHABLE), "unreachable"),
        (fleet.node(runs.ROLE_FAILED), "failed in gpu_driver"),
    ]
    # Nobody else is named but as the ends of the map, and of its ranges of passing nodes.
    told = {row[0] for name, rows in seen.tables.items() for row in rows if name != "missing"}
    told |= set(re.findall(r"h100-\d+", " ".join(seen.cards)))
    blamed = {name for name in told if re.fullmatch(r"h100-\d+", name)}
    assert blamed == set(planted)
    assert health.count("What fails") == 1


def test_off_azure_says_once_that_there_is_no_price(at_home: Path) -> None:
    seen = look(at_home)
    assert "cost" in seen.sections
    said = seen.section("cost")
    assert said.startswith("Cost No price is known, so no cost is shown.")
    assert seen.words.count("--size SIZE or --price US$") == 1
    assert [name for name in seen.tables if name.startswith("cost")] == []
    assert seen.words.count("US$") == said.count("US$") + seen.section("method").count("US$")


# --- tables as CSV -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["usual", "of_fleet", "at_home", "of_nccl"])
@pytest.mark.parametrize("table", ["list", "health", "cost", "reference"])
def test_csv_of_the_report_is_that_of_the_command(
    request: pytest.FixtureRequest, command: Callable[..., str], name: str, table: str
) -> None:
    page: Path = request.getfixturevalue(name)
    priced = ("--region", "eastus") if name == "of_fleet" and table == "cost" else ()
    file = page.parent / "tables" / f"{table}.csv"
    if table == "reference" or (table, name) == ("cost", "of_nccl"):
        # None of these runs has a preset, and nothing of NCCL has a price.
        assert file.exists() is False
        return
    # That of health says what it found; one of the usual files cannot be read.
    statuses = (0, 1, 2) if table == "health" else (0, None, *([1] if name == "usual" else []))
    # These reports are of every run.
    where = page.parent.parent / "results"
    passes = ("--passes",) if table == "health" else ()
    options = ("--all", "--format", "csv", *priced, *passes)
    asked = command(table, where, *options, statuses=statuses)
    assert file.read_text(encoding="utf-8") == asked


def number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_every_section_with_a_table_is_a_csv_file(any_report: Path) -> None:
    seen = look(any_report)
    written = {path.stem for path in (any_report.parent / "tables").iterdir()}
    assert written <= set(seen.sections)
    assert {name for name in seen.sections if name in runs.TOOLS} <= written
    assert {"health", "list"} <= written


def test_every_plot_is_a_png_file_too(any_report: Path) -> None:
    seen = look(any_report)
    names = {str(v["id"]).removeprefix("figure-") for tag, v in seen.tags if tag == "figure"}
    assert {path.stem for path in (any_report.parent / "plots").iterdir()} == names
    heads = {path.read_bytes()[:8] for path in (any_report.parent / "plots").iterdir()}
    assert heads == {b"\x89PNG\r\n\x1a\n"}


# --- text from records ---------------------------------------------------------------------------

_EVIL = "<script>alert(1)</script>"
# Right-to-left override, escape, bell, a line separator, a zero-width space.
_OBEYED = "\u202e\x1b[31m\x07\u2028\u200b"


def test_text_from_records_is_shown_not_obeyed(tmp_path: Path) -> None:
    records = [dict(one, nodes=[_EVIL]) for one in rr.usual()]
    records[7]["reason"] = '"><img src=x onerror=alert(2)> & {{ 7*7 }}'
    records[0]["software"] = {"devito": "</style><b>4"}
    records[9]["parameters"]["binding"] = "'\"><svg onload=alert(3)>"
    seen = report_of(tmp_path, records)
    assert [tag for tag, _ in seen.tags if tag in ("script", "img")] == ["script"] * 2
    assert [name for _, values in seen.tags for name in values if name.startswith("on")] == []
    assert f"on {_EVIL}" in seen.text
    assert '"><img src=x onerror=alert(2)> & {{ 7*7 }}' in seen.text
    assert seen.open_tags == []


def test_names_of_nodes_are_harmless_in_map_and_cells(tmp_path: Path) -> None:
    names = {f"h{number}{_EVIL}{_OBEYED}</svg>" for number in range(3)}
    records = [
        dict(one, nodes=[name], vm_size="Standard_HB120rs_v3", reason=f"because {name}")
        for one in (rr.stream(4, 43.0), dict(rr.usual()[7]))
        for name in sorted(names)
    ]
    place = write_report(load([rr.write_run(tmp_path, records)]), tmp_path / "report")
    text, seen = place.read_text(encoding="utf-8"), look(place)
    assert [tag for tag, _ in seen.tags if tag in ("script", "img")] == ["script"] * 2
    assert seen.open_tags == []
    assert [name for name, rows in seen.tables.items() if _EVIL in str(rows)] != []
    assert (_EVIL in seen.text, [char for char in _OBEYED if char in text and char > "\x7f"]) == (
        True,
        [],
    )
    assert [char for char in "\x1b\x07" if char in text] == []


# --- looks ---------------------------------------------------------------------------------------


# --- few or no records ---------------------------------------------------------------------------


def test_no_record_ok(tmp_path: Path) -> None:
    run = rr.manifest(
        finished_at=None,
        hosts={"node01": {"ok": 3, "failed": 1, "unreachable": 1}},
        warnings=["odd"],
    )
    results = rr.write_run(tmp_path, [rr.usual()[7], rr.usual()[8]], run)
    seen = look(write_report(load([results]), tmp_path / "report"))
    assert "No record is ok, so there is no figure to report: the reasons follow." in seen.words
    assert "did not finish: it was interrupted, or it is still running." in seen.words
    assert f"{rr.RUN_ID} node01: 1 task failed, unreachable." in seen.words
    assert f"{rr.RUN_ID} odd" in seen.words
    assert [row[2] for row in seen.tables["list"][1:]] == ["failed", "invalid"]
    assert [name for name in seen.sections if name in ("headline", "devito", "cost")] == []


def test_nothing_loaded(tmp_path: Path) -> None:
    empty = Loaded(*packed.from_rows([]), excluded=[Excluded("a.json", "it is truncated")])
    seen = look(write_report(empty, tmp_path / "report"))
    assert (
        "There is no record to report on: run `make run`, or name the folder of the records."
        in seen.text
    )
    assert seen.tables["left-out"][1] == ["a.json", "it is truncated"]


# --- prices, nodes, several runs, publications ---------------------------------------------------


def test_two_runs_are_pooled_by_layout(tmp_path: Path) -> None:
    again = [
        dict(one, run_id="20261121T101500Z-0a0b", started_at="2026-11-21T10:15:10Z")
        for one in (rr.devito(1, 4, [3.0, 3.1, 3.2]), rr.devito(2, 2, [3.4, 3.5, 3.6], "l3"))
    ]
    seen = report_of(tmp_path, [*rr.usual()[4:6], *again])
    assert "2 runs" in seen.text
    rows = [(row[0], row[3], row[4]) for row in seen.tables["devito-figures"][1:]]
    assert rows == [
        ("1 rank × 4 threads", "3.240", "3.000 to 3.520"),
        ("2 ranks × 2 threads, by l3", "3.355", "3.190 to 3.600"),
    ]


def test_published_results_are_not_called_measured(tmp_path: Path) -> None:
    seen = look(
        write_report(
            load([folder() / "reference_results.csv"]), tmp_path, terms=Terms(region="eastus")
        )
    )
    assert "on published systems (12 sizes)" in seen.headings[0][1]
    assert "health" not in seen.sections
    assert "measured: median, min to max" not in seen.words
    assert "The publication states no spread." in seen.words
    heads, *rows = seen.tables["devito-scaling-1"]
    place = heads.index("parallel effic.")
    assert [row[place] for row in rows] == ["1.000", "0.731", "0.392", "0.231", "0.164"]


# --- files ---------------------------------------------------------------------------------------


def test_files_of_an_earlier_report_go_and_those_of_others_stay(tmp_path: Path) -> None:
    results = rr.write_run(tmp_path, rr.usual())
    out = tmp_path / "report"
    write_report(load([results]), out)
    (out / "plots" / "mine.png").write_bytes(b"mine")
    (out / "tables" / "reference.csv").write_text("changed by hand\n", encoding="utf-8")
    written = [out / "plots" / "devito-layouts-1.png", out / "tables" / "devito.csv"]
    assert [path.is_file() for path in written] == [True, True]
    write_report(load([rr.write_run(tmp_path / "b", rr.usual()[9:10])]), out)
    assert sorted(path.name for path in (out / "plots").iterdir()) == ["mine.png", "stream-1.png"]
    assert (out / "tables" / "reference.csv").read_text(encoding="utf-8") == "changed by hand\n"
    assert [path.exists() for path in written] == [False, False]
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


# --- what changed --------------------------------------------------------------------------------


def test_the_report_begins_with_the_changes_since_the_run_before(
    call_trueup: Any, tmp_path: Path
) -> None:
    runs = (
        ("20261113T091300Z-7c1e", "2026-11-13", 10.0),
        ("20261120T091300Z-00aa", "2026-11-20", 12.0),
    )
    records = [
        made.record(
            seconds * (1 + 0.001 * number),
            run_id=run,
            started_at=f"{day}T09:15:00Z",
            nodes=[f"n-{number}"],
        )
        for run, day, seconds in runs
        for number in range(5)
    ]
    results = made.write(tmp_path / "results", records)
    done = call_trueup("report", results, "--output", tmp_path / "report")
    seen = look(tmp_path / "report" / "index.html")
    assert (done.status, [*seen.sections][:2]) == (0, ["answer", "changes"])
    assert "Devito run time rose by 20.0 %" in seen.section("answer")
    rows = seen.tables["devito-figures"]
    since = [row[rows[0].index("since the run before")] for row in rows[1:]]
    assert since == ["+20.0 % worse"]
    csv = (tmp_path / "report" / "tables" / "changes.csv").read_text()
    assert "worse,Devito run time" in csv


def test_a_report_of_several_runs_or_of_the_first_has_no_changes(at_home: Path) -> None:
    assert "changes" not in look(at_home).sections
