"""trueup advise architecture: roles, sizes, counts and prices, and what no source says."""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT, parametrized
from trueup_analysis.figures.advise import architectures
from trueup_analysis.figures.advise.knowledge import Knowledge
from trueup_node.errors import BadInput

TODAY = date(2026, 11, 24)
KNOWN = Knowledge(ROOT / "catalog", TODAY)
HEAD = "sources: {a: {text: A, date: '2026-11-24'}}\narchitectures:\n"
ROW = (
    "  - {{name: x, title: X, region: eastus, service: '', recipe: '', roles: [{role}],"
    " bills: [], by_hand: [all], differs: [], unsaid: [], outdated: [], sources: [a]}}\n"
)
ROLE = "{role: nodes, size: Standard_D4d_v5, count: 2, size_by: source, count_by: trueup}"


@pytest.fixture
def run(call_trueup: Any) -> Any:
    return lambda *argv: call_trueup("advise", "architecture", *argv)


def tables(text: str) -> dict[str, Any]:
    return {table["kind"]: table for table in json.loads(text)["tables"]}


def test_minerva_as_worked_by_hand(run: Any) -> None:
    found = tables(run("ansys-minerva", "--format", "json").out)
    roles = {
        row["role"]: (row["size"], row["source_size"], row["usd_each"])
        for row in found["advise_architecture"]["rows"]
    }
    assert roles == {
        "core server": ("Standard_D16ls_v6", "Standard_F16s_v2", 0.714),
        "agent server": ("Standard_D8ls_v6", "Standard_F8s_v2", 0.357),
        "license server": ("Standard_D4d_v5", "", 0.226),
        "extraction server": ("Standard_D8ls_v6", "Standard_F8s_v2", 0.357),
        "database server": ("Standard_E32-16ds_v4", "", 2.304),
        "volume server": ("Standard_L32s_v3", "", 2.784),
        "web server": ("", "", None),
    }
    # 0.714 + 2 x 0.357 + 0.226 + 2.304 + 2.784 = 6.742; 730 hours are 4,921.66.
    assert found["advise_architecture"]["usd_per_hour"] == pytest.approx(6.742)
    assert found["advise_architecture"]["unpriced"] == ["web server"]
    said = {row["says"]: row["instead"] for row in found["advise_architecture_outdated"]["rows"]}
    assert said == {"Standard_F16s_v2": "Standard_D16ls_v6", "Standard_F8s_v2": "Standard_D8ls_v6"}
    assert "4921.66 US$ a month" in run("ansys-minerva").out


def test_the_overview_has_each_with_its_price(run: Any) -> None:
    [table] = json.loads(run("--format", "json").out)["tables"]
    usd = {row["name"]: row["usd_per_hour"] for row in table["rows"]}
    every = architectures.read(None, KNOWN.sizes)
    assert list(usd) == list(every)
    # 2 x 98.32 + 0.226 and 2 x 3.96 + 0.271
    assert (usd["deepseek-r1-h100"], usd["devito-hbv3"]) == (
        pytest.approx(196.866),
        pytest.approx(8.191),
    )
    rows = list(csv.DictReader(io.StringIO(run("--format", "csv").out)))
    assert [float(row["usd_per_month"]) for row in rows] == [
        pytest.approx(730 * value) for value in usd.values()
    ]
    assert run("--format", "markdown").out.count("\n| ") == len(every) + 1


def test_another_region_has_its_own_price(run: Any) -> None:
    found = tables(run("devito-hbv3", "region=East US", "--format", "json").out)
    # 2 x 3.60 + 0.226
    assert found["advise_architecture"]["usd_per_hour"] == pytest.approx(7.426)
    assert found["advise_architecture"]["region"] == "eastus"


@parametrized(("words", "sentence"))
def test_what_is_not_known_is_said(run: Any, words: tuple[str, ...], sentence: str) -> None:
    found = run(*words)
    assert (found.status, found.out) == (1, "")
    assert sentence in found.err


def site(tmp_path: Path, rows: str) -> Path:
    (tmp_path / "prices.csv").write_bytes((ROOT / "catalog" / "prices.csv").read_bytes())
    (tmp_path / "architectures.yml").write_text(HEAD + rows, encoding="utf-8")
    return tmp_path


@parametrized(("role", "what"))
def test_a_row_that_cannot_be_is_refused(tmp_path: Path, role: str, what: str) -> None:
    with pytest.raises(BadInput, match=what):
        architectures.read(site(tmp_path, ROW.format(role=role)), KNOWN.sizes)


@parametrized(("old", "new", "what"))
def test_a_row_that_names_what_is_not_there_is_refused(
    tmp_path: Path, old: str, new: str, what: str
) -> None:
    with pytest.raises(BadInput, match=what):
        architectures.read(site(tmp_path, ROW.format(role=ROLE).replace(old, new)), KNOWN.sizes)
