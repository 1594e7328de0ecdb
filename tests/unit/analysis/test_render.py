"""What the command writes, compared whole: ``pytest --update-golden`` is not offered on purpose.

A golden file that changes is looked at: write it anew with the command in its row of ``GOLDEN``.
"""

from __future__ import annotations

import json
from pathlib import Path

import made
import pytest
from trueup_analysis import cli, units
from trueup_analysis.render import csv, markdown, table
from trueup_analysis.render import json as json_format
from trueup_analysis.sheets.sheet import Column, Sheet

ROOT = Path(__file__).resolve().parents[3]
GOLDEN_FOLDER = ROOT / "tests" / "data" / "records" / "golden"
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


def test_junit_holds_nothing_that_a_terminal_obeys() -> None:
    from trueup_analysis.render.junit import _plain

    assert _plain("a\u202eb\x00c\u2028d\ue000")[:6] == "a?b?c?"
    assert _plain("bus bandwidth 308 GB/s, µs") == "bus bandwidth 308 GB/s, µs"
