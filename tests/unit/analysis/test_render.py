"""What the command writes, compared whole: ``pytest --update-golden`` is not offered on purpose.

A golden file that changes is looked at: write it anew with the command in its row of ``GOLDEN``.
"""

from __future__ import annotations

import json
from csv import reader as csv_reader
from pathlib import Path

import made
import numpy as np
import pytest
from trueup_analysis import cli, units
from trueup_analysis.render import csv, markdown, table
from trueup_analysis.render import json as json_format
from trueup_analysis.sheets.sheet import Column, Columns, Folded, Sheet

ROOT = Path(__file__).resolve().parents[3]
GOLDEN_FOLDER = ROOT / "tests" / "data" / "records" / "golden"
REFERENCE = str(ROOT / "catalog" / "reference_results.csv")
GOLDEN = [
    *(("scaling", (), name) for name in ("table", "markdown", "csv", "json")),
    *(("cost", ("--region", "eastus"), name) for name in ("table", "markdown", "csv", "json")),
    ("list", (), "table"),
]
SUFFIX = {"table": "txt", "markdown": "md", "csv": "csv", "json": "json"}


@pytest.fixture
def from_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def output(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    cli.app(list(argv), standalone_mode=False)
    return capsys.readouterr().out


@pytest.mark.usefixtures("from_root")
@pytest.mark.parametrize(("command", "options", "name"), GOLDEN)
def test_published_results_are_written_as_the_golden_files_say(
    capsys: pytest.CaptureFixture[str], command: str, options: tuple[str, ...], name: str
) -> None:
    source = "catalog/reference_results.csv"
    found = output(capsys, command, source, *options, "--format", name)
    golden = (GOLDEN_FOLDER / f"{command}.{SUFFIX[name]}").read_text(encoding="utf-8")
    assert found == golden


@pytest.mark.usefixtures("from_root")
@pytest.mark.parametrize("name", ["table", "markdown"])
def test_the_reference_tables_are_written_as_the_golden_files_say(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    records = [made.record(100 / n**0.8, threads=n) for n in (1, 2, 4, 16, 64)]
    made.write(tmp_path, records)
    found = output(capsys, "reference", str(tmp_path), "--format", name)
    golden = (GOLDEN_FOLDER / f"reference.{SUFFIX[name]}").read_text(encoding="utf-8")
    assert found == golden


def test_the_same_input_gives_the_same_bytes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made.write(tmp_path, [made.record(100 / n, threads=n) for n in (1, 2, 4, 8)])
    for name in SUFFIX:
        once, again = (output(capsys, "scaling", str(tmp_path), "-f", name) for _ in range(2))
        assert once == again


HOSTILE = Sheet(
    title="[red]x[/red]",
    columns=[Column("a", "a", words=True), Column("b", "b", units.count), Column("c")],
    rows=[{"a": "[bold]|<b>\x1b[31m\u202e", "b": None, "c": True}, {"a": "x", "b": 3, "c": False}],
    notes=["[link=x]note"],
)


def test_data_never_becomes_markup_or_a_terminal_command() -> None:
    shown = table.render([HOSTILE])
    assert "[bold]|<b>?[31m?" in shown
    assert "[red]x[/red]" in shown
    assert "[link=x]note" in shown
    assert "\x1b" not in table.render([HOSTILE])
    assert "\\[bold\\]\\|\\<b\\>?\\[31m?" in markdown.render([HOSTILE])


def test_formats_for_programs_hold_plain_values() -> None:
    assert csv.render([HOSTILE]).splitlines()[0] == "table,a,b,c"
    assert csv.render([HOSTILE]).splitlines()[2] == "[red]x[/red],x,3,false"
    rows = json.loads(json_format.render([HOSTILE]))["tables"][0]["rows"]
    assert rows[1] == {"a": "x", "b": 3, "c": False}
    assert rows[0]["b"] is None


def test_csv_is_what_pythons_own_reader_takes_apart() -> None:
    texts = ["a,b", 'say "x"', '"', ",", "", " x ", "a;b", "é"]
    codes = np.arange(2500) % (len(texts) + 1) - 1
    rows = Columns({"folded": Folded(codes, texts), "listed": [*Folded(codes, texts)]})
    sheet = Sheet("t, u", [Column("folded"), Column("listed")], rows)
    found = list(csv_reader(csv.render([sheet]).splitlines()))
    assert found[0] == ["table", "folded", "listed"]
    cells = ["" if code < 0 else texts[code] for code in codes.tolist()]
    assert found[1:] == [["t, u", cell, cell] for cell in cells]


def test_no_format_for_programs_holds_what_a_terminal_or_a_spreadsheet_obeys() -> None:
    texts = ["=1+1", "+x", "-x", "@SUM(A1)", "\t=1", "\u202e=1", "\x9b31m", "-", "-1.5", "é"]
    sheet = Sheet("t", [Column("a", "a")], [{"a": text} for text in [*texts, -1.5]])
    assert csv.render([sheet]).splitlines()[1:] == [
        f"t,{cell}"
        for cell in (
            *("'=1+1", "'+x", "'-x", "'@SUM(A1)", "?=1", "?=1", "?31m", "-", "'-1.5", "é", "-1.5"),
        )
    ]
    text = json_format.render([sheet])
    assert "\\u202e=1" in text
    assert "\u202e" not in text
    assert [row["a"] for row in json.loads(text)["tables"][0]["rows"]] == [*texts, -1.5]


def test_json_never_holds_nan() -> None:
    assert (
        json_format.dump({"a": [float("nan"), 1.5]}) == '{\n  "a": [\n    null,\n    1.5\n  ]\n}\n'
    )


def test_a_table_too_wide_is_wider_rather_than_cut() -> None:
    columns = [Column(f"c{n}", f"c{n}", units.text) for n in range(20)]
    rows = [{f"c{n}": f"{n:010d}" for n in range(20)}]
    shown = table.render([Sheet(title="wide", columns=columns, rows=rows)], width=60)
    assert [f"{n:010d}" in shown for n in range(20)] == [True] * 20


@pytest.mark.parametrize(
    ("value", "written"),
    [(184.39, "184.39"), (9.87654, "9.877"), (0.00123456, "0.001235"), (None, "-"), (0, "0")],
)
def test_seconds(value: float | None, written: str) -> None:
    assert units.seconds(value) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.99996, "1.000"), (1234567.0, "1.235e+06"), (0.00001, "1.000e-05"), (12.3456, "12.35")],
)
def test_significant(value: float, written: str) -> None:
    assert units.significant(value, 4) == written


def test_junit_holds_nothing_that_a_terminal_obeys() -> None:
    from trueup_analysis.render.junit import _plain

    assert _plain("a\u202eb\x00c\u2028d\ue000")[:6] == "a?b?c?"
    assert _plain("bus bandwidth 308 GB/s, µs") == "bus bandwidth 308 GB/s, µs"
