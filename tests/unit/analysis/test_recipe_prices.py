"""Every line of every recipe has a dated price, the user's, or is named as unpriced."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from provisioning import NOW
from trueup_analysis.figures import azure
from trueup_analysis.figures.terms import is_date
from trueup_analysis.sheets import azure as sheets

RECIPES = azure.recipes()


@pytest.fixture(autouse=True)
def no_user_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUEUP_PRICES", str(tmp_path / "prices.csv"))
    monkeypatch.delenv("TRUEUP_CONTRACT", raising=False)
    monkeypatch.delenv("TRUEUP_CATALOG", raising=False)


@pytest.mark.parametrize("name", RECIPES)
def test_every_line_has_a_dated_price_or_is_named_as_unpriced(name: str) -> None:
    plan = azure.plan(name, now=NOW)
    lines = plan.cost.lines
    undated = [
        line.what
        for line in lines
        if line.each is not None and not (is_date(line.each.date) and line.each.source)
    ]
    assert undated == []
    assert not [line for line in lines if line.each and "fixture" in line.each.source]
    priced = {line.kind for line in lines if line.each is not None}
    assert {"nodes", "address", "nat"} <= priced | ({"nat"} - {line.kind for line in lines})
    [_, shown, _] = sheets.plan(plan, {"resources": []})
    unpriced = [row["what"] for row in shown.rows if row["source"] == "not priced"]
    assert unpriced == [line.what for line in plan.cost.unpriced]
    notes = " ".join(shown.notes)
    for kind in {line.kind for line in plan.cost.unpriced}:
        assert re.search(rf"Without a price, and billed all the same: [^.]*{kind}", notes)
    assert f"{len(unpriced)} of {len(lines)} lines have no price" in notes


@pytest.mark.parametrize("name", RECIPES)
def test_the_limit_counts_everything_that_bills(name: str, tmp_path: Path) -> None:
    own = tmp_path / "own.yml"
    own.write_text(
        "prices: {disks: 0.25, storage: 7.0, address: 0.5, nat: 0.75, traffic: 1.5, bastion: 0.2}\n"
    )
    plan = azure.plan(name, own, now=NOW)
    machines = sum(
        line.usd_per_hour or 0.0
        for line in plan.cost.lines
        if line.kind in ("nodes", "login", "server")
    )
    each = {"disks": 0.25, "storage": 7.0, "address": 0.5, "nat": 0.75, "traffic": 1.5}
    beside = sum(each[line.kind] * line.count for line in plan.cost.lines if line.kind in each)
    assert plan.cost.usd_per_hour == pytest.approx(machines + beside)
    assert plan.cost.unpriced == []
    limit = machines + beside / 2
    refused = azure.plan(name, own, now=NOW, limit=limit).cost.refusal()
    assert str(refused).startswith("it costs ")
    assert azure.plan(name, own, now=NOW, limit=machines + beside + 1).cost.refusal() is None
