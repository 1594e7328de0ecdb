"""The figures that stand for many cases at once are those of each case alone."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import made
from hypothesis import given
from hypothesis import strategies as st
from trueup_analysis import packed
from trueup_analysis.cases import read_cases
from trueup_analysis.figures.heads import Heads
from trueup_analysis.figures.health import expectations
from trueup_analysis.figures.views import at_headline, headline, view_of, views
from trueup_analysis.load import Loaded, load

FACTS = expectations.read(Path(__file__).resolve().parents[3] / "catalog" / "expectations.yml")
with tempfile.TemporaryDirectory() as folder:
    (ROW,) = load([made.write(Path(folder), [made.record()])]).table.whole().to_pylist()
SIZES = [None, "Standard_ND96asr_v4", "Standard_HB120rs_v3"]


@st.composite
def _rows(draw: st.DrawFn) -> dict[str, Any]:
    """A record of any benchmark, or of none, with some of what its view shows."""
    benchmark = draw(st.sampled_from([*views(), "node_state"]))
    view = view_of(benchmark)
    names = [one.metric for one in view.headlines + view.figures] if view else ["gpu_count"]
    statistics = [None, "single", "median", "mean", "min", "max", "p50", "p99"]
    metrics = [
        {
            "name": draw(st.sampled_from([*names, "other"])),
            "value": draw(st.sampled_from([0.0, 1.0, 2.5, 4e9])),
            "unit": "1",
            "direction": draw(st.sampled_from(["higher", "lower", "none"])),
            # Figures at a size and of devices are rarer than those of the whole case.
            "message_bytes": draw(st.sampled_from([None] * 4 + [8, 8 * 1024**2])),
            "device": draw(st.sampled_from([None] * 4 + ["0", "1"])),
            "statistic": draw(st.sampled_from(statistics)),
            "n": draw(st.sampled_from([None, 1, 3])),
        }
        for _ in range(draw(st.integers(0, 5)))
    ]
    size = draw(st.sampled_from(SIZES))
    return {**ROW, "benchmark": benchmark, "vm_size": size, "metrics": metrics}


@given(st.lists(_rows(), max_size=5))
def test_headlines_at_once_are_those_one_by_one(rows: list[dict[str, Any]]) -> None:
    loaded = Loaded(packed.from_rows(rows))
    heads = Heads(loaded, FACTS)
    cases = read_cases(loaded)
    alone = [headline(case, FACTS) for case in cases]
    assert [heads.of(case) for case in cases] == alone
    assert [heads.every[case.record] for case in cases] == alone
    for case, one in zip(cases, alone, strict=True):
        assert heads.place(case) == (one and (one.measure.metric, one.message_bytes))
        view = view_of(case.benchmark)
        for measure in (*view.headlines, *view.figures) if view else ():
            assert heads.at(case, measure) == at_headline(case, measure, FACTS)
