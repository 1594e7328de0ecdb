"""trueup report --advise: the report begins with what to rent."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized

RECORD = Path(__file__).resolve().parents[2] / "data" / "records" / "valid.json"
ASK = """
work: stencil
grid: 1024x1024x1024
steps: 400000
deadline_hours: 4
region: southcentralus
access: shared
data_tb: 20
out_tb: 2
usd_per_gb_out: 0.08
"""


@pytest.fixture
def run(call_trueup: Any, tmp_path: Path) -> Any:
    """Writes a report with an ask, and gives how it ended and its folder."""

    def report(ask: str, *more: str) -> tuple[Any, Path]:
        path, folder = tmp_path / "work.yml", tmp_path / "report"
        path.write_text(ask, encoding="utf-8")
        argv = ("report", RECORD, "--advise", path, "--output", folder, *more)
        return call_trueup(*argv), folder

    return report


def section(folder: Path) -> str:
    """The words of the section."""
    text = (folder / "index.html").read_text(encoding="utf-8")
    begin = text.index('<h2 id="advice"')
    words = re.sub(r"<[^>]+>", " ", text[begin : text.index("</section>", begin)])
    return " ".join(html.unescape(words).split())


def test_the_section_says_what_the_command_says(run: Any, call_trueup: Any, tmp_path: Path) -> None:
    ended, folder = run(ASK)
    assert (ended.status, ended.err) == (0, "")
    text = section(folder)
    data = json.loads(call_trueup("advise", tmp_path / "work.yml", "--format", "json").out)
    answer = data["tables"][0]
    assert answer["recommended"] in text
    front = [row for row in answer["rows"] if row["front"]]
    shown = [
        f"{row['nodes']} x {row['size'].removeprefix('Standard_')}, {row['offer']}" for row in front
    ]
    places = [text.index(choice, text.index("Choices:")) for choice in shown]
    assert (len(places) > 2, sorted(places)) == (True, places)
    heads = [
        *("What would change the answer", "Where the data lies", "What was refused"),
        *("What cannot do it", "Not advised", "What was asked"),
    ]
    assert [text.count(head) > 0 for head in heads] == [True] * len(heads)
    assert "F16s_v2, F8s_v2 new subscriptions cannot deploy it since 2026-07" in text
    assert "--explain" not in text
    assert "2 TB leave the region: 160.00 US$ more at your 0.08 US$ a GB." in text


@parametrized(("ask", "sentence"))
def test_an_ask_that_cannot_be_answered_leaves_no_report(run: Any, ask: str, sentence: str) -> None:
    ended, folder = run(ask)
    assert (ended.status, folder.exists()) == (1, False)
    assert sentence in ended.err


def test_what_is_no_file_of_an_ask_is_refused(call_trueup: Any, tmp_path: Path) -> None:
    found = call_trueup("report", RECORD, "--advise", "stencil", "--output", tmp_path / "report")
    assert (found.status, (tmp_path / "report").exists()) == (1, False)
    assert "--advise stencil is no ask: name a file such as work.yml" in found.err


def test_a_service_is_told_as_one(run: Any) -> None:
    ask = "work: serving\nmodel: llama-3.1-8b\ninput_tokens: 1000\noutput_tokens: 200\n"
    ended, folder = run(ask + "requests_per_second: 8\nttft_ms: 200\n")
    text = section(folder)
    said = [
        *("Cheapest: ", "The rate takes about", "the cheapest of each offer"),
        *("may not hold the rate", "What cannot do it"),
    ]
    assert (ended.status, [word for word in said if word not in text]) == (0, [])
    assert "miss the deadline" not in text
    assert "With rate_of_a_node at " in text


def test_the_section_says_how_old_its_prices_are(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795953600")
    ended, folder = run(ASK)
    assert ended.status == 0
    assert "Prices of 2026-06-18: 164 days old on 2026-11-29" in section(folder)
