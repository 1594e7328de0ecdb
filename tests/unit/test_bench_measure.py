"""How bench/ measures, and that the page of speeds shows what was recorded."""

from __future__ import annotations

import sys

from helpers import ROOT

sys.path.insert(0, str(ROOT / "bench"))

import measured


def test_the_page_shows_what_was_recorded() -> None:
    rows = measured.read()
    shown = measured.PAGE.read_text(encoding="utf-8").split(measured.BEGIN)[1]
    assert shown.split(measured.END)[0] == measured.markdown(rows)
    assert [one.row.figure for one in rows if not one.row.kept] == []
