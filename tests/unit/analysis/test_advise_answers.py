"""An answer for a person: the advice in its first line, five choices, and what would change it;
CFD by hand."""

from __future__ import annotations

import json
import math
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_analysis import catalog
from trueup_analysis.figures.advise import answers, asks
from trueup_analysis.figures.advise.knowledge import Knowledge
from trueup_analysis.figures.prices import Book, read_all
from trueup_node.errors import BadInput

HBV3, HBV4 = "Standard_HB120rs_v3", "Standard_HB176rs_v4"
TRAIN = ("advise", "training", "parameters_billion=8", "tokens_billion=1", "region=southcentralus")


@pytest.fixture(autouse=True)
def no_user_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUEUP_PRICES", str(tmp_path / "prices.csv"))
    monkeypatch.delenv("TRUEUP_CONTRACT", raising=False)
    monkeypatch.chdir(tmp_path)


def plain(text: str) -> str:
    return " ".join(text.split())


def tables(call_trueup: Any, *words: str) -> list[dict[str, Any]]:
    done = call_trueup(*words, "--format", "json")
    assert done.status == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)["tables"]
    return found


@parametrized(("words", "start", "sure"))
def test_the_first_line_is_the_advice(
    call_trueup: Any, words: tuple[str, ...], start: str, sure: str
) -> None:
    done = call_trueup(*words)
    assert done.status == 0, done.err
    first = plain(done.out.partition("\nbest ")[0].partition("\nchoice ")[0])
    assert first.startswith(start)
    assert sure in first


def test_at_most_five_choices_and_then_what_would_change_them(call_trueup: Any) -> None:
    done = call_trueup(*TRAIN)
    lines = done.out.splitlines()
    rule = next(index for index, line in enumerate(lines) if line.startswith("──"))
    rows = [line for line in lines[rule + 1 :] if not line.startswith("  ") or " x " in line]
    shown = [line for line in rows[: rows.index("")] if " x " in line and "southcentralus " in line]
    assert 0 < len([line for line in shown if not line.startswith("  C")]) <= 5
    assert "more choices: --explain lists them." in plain(done.out)
    assert done.out.index("What would change the answer") > done.out.index(lines[rule])
    assert len(tables(call_trueup, *TRAIN)[0]["rows"]) > 5


def test_dates_of_prices_and_unknown_evictions_are_said(call_trueup: Any) -> None:
    said = plain(call_trueup(*TRAIN[:4], "region=eastus").out)
    assert "Prices are of 2026-" in said
    assert "is taken away is not known" in said
    assert "`trueup prices spot` asks Azure" in said
    assert "Checkpoints: 104 GiB to Blob storage at 2,300 MB/s, 48.7 s each" in said


@parametrized(("work", "start"))
def test_a_kind_says_what_it_knows_before_it_asks(
    call_trueup: Any, monkeypatch: pytest.MonkeyPatch, work: str, start: str
) -> None:
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115 WHY: no terminal
    done = call_trueup("advise", work)
    first = done.out.splitlines()[0]
    assert (done.status, first.startswith(start) or work == "eda") == (0, True)


# ---- CFD ----------------------------------------------------------------------------------------


def ask(**given: Any) -> answers.Answer:
    kind = asks.chosen("cfd")
    usual = {"hours": 10, "on_size": HBV3, "on_nodes": 2, "memory_gib": 500, "offers": "payg"}
    values = asks.read(kind, {**usual, "node_mtbf_hours": 1e9, **given})
    found = Knowledge(catalog.built_in(), date(2026, 11, 23))
    return answers.answer(kind, values, found, Book(read_all(catalog.built_in()), None))


def seconds(found: answers.Answer, size: str, nodes: int) -> float:
    (only,) = [
        each for each in found.choices if (each.estimate.size, each.estimate.nodes) == (size, nodes)
    ]
    return only.estimate.seconds.value


def test_a_run_on_its_own_size_takes_as_long_again() -> None:
    assert seconds(ask(), HBV3, 2) == pytest.approx(36000)


def test_another_size_by_bandwidth_and_cores_by_hand() -> None:
    """HBv4 over HBv3: 780 / 350 = 2.229 of bandwidth, 176 / 120 = 1.467 of cores; their geometric
    mean is 1.808."""
    assert 36000 / seconds(ask(), HBV4, 2) == pytest.approx(math.sqrt(2.2286 * 1.4667), rel=1e-4)


def test_twice_the_nodes_at_the_efficiency_of_doubling() -> None:
    assert 36000 / seconds(ask(doubling_efficiency=0.9), HBV3, 4) == pytest.approx(1.8)


def test_a_case_that_does_not_fit_is_refused_with_the_nodes_that_would_do() -> None:
    """800 GiB on nodes of 448 GiB, of which 85 % are for it: three."""
    found = ask(memory_gib=800, on_nodes=4)
    assert (HBV3, 2) not in {(each.estimate.size, each.estimate.nodes) for each in found.choices}
    refused = next(each for each in found.refused if each.size == HBV3)
    assert refused.least_nodes == 3


@pytest.mark.parametrize("size", ["Standard_D4d_v5", "HB", "Standard_ND96asr_v4"])
def test_a_base_without_bandwidth_is_one_sentence(size: str) -> None:
    with pytest.raises(BadInput, match="has no memory bandwidth of it"):
        ask(on_size=size)
