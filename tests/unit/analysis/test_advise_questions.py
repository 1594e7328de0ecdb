"""Questions that people asked in public (tests/data/advise/questions.tsv): each answer as it was
judged, and none advises machines that cannot be had, hold the work or be joined."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from trueup_analysis import catalog
from trueup_analysis.figures.advise.knowledge import Knowledge, number

DATA = Path(__file__).resolve().parents[2] / "data" / "advise" / "questions.tsv"
with DATA.open(encoding="utf-8", newline="") as stream:
    QUESTIONS = list(
        csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE, escapechar="\\")
    )
KNOWN = Knowledge(catalog.built_in(), date(2026, 11, 30))


@pytest.fixture(autouse=True)
def same_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUEUP_PRICES", str(tmp_path / "prices.csv"))
    monkeypatch.delenv("TRUEUP_CONTRACT", raising=False)
    monkeypatch.delenv("TRUEUP_CATALOG", raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795953600")
    monkeypatch.chdir(tmp_path)


def test_there_are_forty_with_a_public_source_and_a_verdict() -> None:
    verdicts = Counter(row["verdict"].partition(":")[0] for row in QUESTIONS)
    assert len(QUESTIONS) >= 40
    assert set(verdicts) == {"right", "useful", "honest"}
    assert [row for row in QUESTIONS if not row["source"].startswith("https://")] == []
    assert len({row["source"] for row in QUESTIONS}) >= 35


@pytest.mark.parametrize("row", QUESTIONS, ids=[row["question"][:40] for row in QUESTIONS])
def test_an_answer_is_the_judged_one_and_can_be_had(row: dict[str, str], call_trueup: Any) -> None:
    done = call_trueup("advise", *row["ask"].split(), "--format", "json")
    assert "Traceback" not in done.err
    tables = json.loads(done.out)["tables"] if done.out else [{"title": "", "rows": []}]
    said = " ".join([tables[0]["title"], *tables[0].get("notes", ()), done.err])
    assert re.search(row["answer"], " ".join(said.split())), said
    machines = [each for each in tables[0]["rows"] if each.get("size") in KNOWN.sizes]
    withheld = KNOWN.without_cuda_13 if row["ask"].split()[0] == "training" else KNOWN.withheld
    assert [each["size"] for each in machines if each["size"] in withheld] == []
    if row["ask"].split()[0] not in ("serving", "desktops"):
        joined = [each for each in machines if each["nodes"] > 1]
        assert [e["size"] for e in joined if not number(KNOWN.sizes[e["size"]], "rdma_nics")] == []
        assert [each["size"] for each in machines if not each["usd"] > 0] == []
