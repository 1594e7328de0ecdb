"""The back-test of advice: whole publishers held out, ranges by distance."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

import pytest
from trueup_analysis import catalog
from trueup_analysis.figures.advise import backtest, nearby
from trueup_analysis.figures.advise.estimates import FAR, NEAR, PUBLISHED, SAME, Evidence, Range
from trueup_analysis.figures.advise.kinds import TOLD, mlperf, training
from trueup_analysis.figures.advise.knowledge import Knowledge
from trueup_analysis.figures.advise.points import Point, Prediction
from trueup_analysis.figures.evidence import rows
from trueup_analysis.figures.models import results
from trueup_analysis.sheets import advise as sheets

if TYPE_CHECKING:
    from collections.abc import Sequence


def known() -> Knowledge:
    return Knowledge(catalog.built_in(), date(2026, 11, 24))


@dataclass
class Kind:
    """A kind whose prediction is the mean of the others, and which notes who they were."""

    told: list[Point]
    name: str = "test"
    unit: str = "1/s"
    distance: str = SAME
    asked: list[tuple[str, set[str]]] = field(default_factory=list)

    def points(self, _: Knowledge) -> Sequence[Point]:
        return self.told

    def predict(self, target: Point, peers: Sequence[Point], _: Knowledge) -> Prediction | None:
        self.asked.append((target.source, {peer.source for peer in peers}))
        rate = math.fsum(peer.rate for peer in peers) / len(peers)
        return Prediction(rate, (), distance=self.distance)


def point(source: str, rate: float) -> Point:
    return Point(f"{source} {rate}", "size", 1, rate, evidence=Evidence(PUBLISHED, source))


def test_all_results_of_a_publisher_are_held_out_together() -> None:
    kind = Kind([point(source, 10.0 + index) for source in "abc" for index in range(4)])
    tested = backtest.test(kind, known())
    assert len(tested) == 12
    assert {trial.held for trial in tested} == {backtest.SOURCE}
    assert all(peers == set("abc") - {source} for source, peers in kind.asked)


def test_of_one_publisher_each_result_is_held_out() -> None:
    kind = Kind([point("a", 10.0 + index) for index in range(5)])
    assert {trial.held for trial in backtest.test(kind, known())} == {backtest.ROW}


def test_a_publisher_has_no_part_in_the_width_of_its_range_by_hand() -> None:
    """Ten results each of a, b and c, all 10, and of d 30: d is predicted at 10, and the others'
    errors among themselves are those of (10 x 20 + 30 x 10) / 30 = 16.67 over 10."""
    every = [point(source, 10.0) for source in "abc" for _ in range(10)]
    tested = backtest.test(Kind([*every, *(point("d", 30.0) for _ in range(10))]), known())
    (bounds,) = {trial.range for trial in tested if trial.point.source == "d"}
    assert bounds is not None
    assert bounds.value == 10
    assert bounds.high == pytest.approx(10 * 16.6667 / 10, rel=1e-4)
    assert not any(trial.covered for trial in tested if trial.point.source == "d")


def test_errors_count_over_their_doubt_by_hand() -> None:
    """19 predictions that are 1.1 times off at a tenth of the doubt, one 9 times: 1.1^10 at a doubt
    of 1, and the root of it at a half."""

    def trial(ratio: float, doubt: float, index: int) -> backtest.Trial:
        return backtest.Trial(
            point(f"{index % 5}", 1.0), Prediction(ratio, (), doubt=doubt), backtest.SOURCE
        )

    every = [trial(1.1, 0.1, index) for index in range(19)]
    wide = backtest._width([*every, trial(9.0, 0.1, 19)])
    assert wide is not None
    assert wide == pytest.approx(1.1**10)
    at_half = backtest.expected(Prediction(2.0, (), distance=SAME, doubt=0.5), wide)
    assert (at_half.low, at_half.high) == pytest.approx((2 / 1.1**5, 2 * 1.1**5))
    assert backtest._width(every[:2]) is None


def test_all_distances_of_a_kind_have_a_line_where_there_are_several() -> None:
    """Of two distances a third line; of one, and of results without a prediction, none."""

    def tested(condition: str, distance: str, bounds: Range | None) -> backtest.Tested:
        each = replace(point("a", 1.0), condition=condition)
        return backtest.Tested("serving", each, bounds, distance=distance)

    wide, off = Range(0.5, 1, 2), Range(2, 3, 4)
    table, *_ = sheets.backtest(
        [
            tested("x", SAME, wide),
            tested("x", NEAR, off),
            tested("x", "", None),
            tested("y", NEAR, wide),
        ]
    )
    lines = [
        (row["condition"], row["distance"], row["results"], row["covered"]) for row in table.rows
    ]
    assert lines == [
        ("x", "not predicted", 1, None),
        ("x", SAME, 1, 1),
        ("x", NEAR, 1, 0),
        ("x", "all", 2, 1),
        ("y", NEAR, 1, 1),
    ]


def test_training_on_other_gpus_is_far_and_other_methods_are_untested() -> None:
    known_points = [
        each
        for each in training.points(known())
        if each.size == "Standard_ND96isr_H100_v5" and each.condition == ""
    ]
    assert len(known_points) == 2

    def distance(size: str, **more: object) -> str:
        target = Point("", size, 1, traits=more)
        told = training.predict(target, known_points, known())
        assert told is not None
        return told.distance

    assert distance("Standard_ND96isr_H100_v5") == NEAR
    assert distance("Standard_ND96amsr_A100_v4") == FAR
    assert distance("Standard_ND96isr_H100_v5", method="lora") == ""


def test_mlperf_is_told_by_systems_of_the_same_round() -> None:
    """Two of a round count before one of another whose number of GPUs is nearer."""

    def system(source: str, rate: float, gpus: int, edition: str) -> Point:
        traits = {"gpus": gpus, "publisher": source, "round": edition, "setup": ("a", "b")}
        return Point(source, "size", 1, rate, traits, Evidence(PUBLISHED, source))

    peers = [system("a", 16.0, 4, "v5"), system("b", 32.0, 4, "v5"), system("c", 800.0, 8, "v6")]
    told = mlperf.predict(system("d", 1.0, 8, "v5"), peers, known())
    later = mlperf.predict(system("d", 1.0, 8, "v7"), peers, known())
    assert told is not None
    assert later is not None
    assert (told.rate, told.distance) == (pytest.approx(8 * 6.0), SAME)
    assert (later.rate, later.distance) == (pytest.approx(800.0), NEAR)


def served(**given: str) -> list[Point]:
    """The points of a row of evidence.csv: Llama 3.1 70B on 16 x H100."""
    columns = dict.fromkeys(rows.COLUMNS, "") | {
        "source": "s",
        "publisher": "p",
        "repository": "r",
        "date": "2026-01-01",
        "kind": rows.SERVING,
        "engine": "vllm",
        "model": "llama-3.1-70b",
        "precision": "bf16",
        "hardware": "H100-SXM5-80GB",
        "count": "16",
        "parallelism": "tp2 x8",
        "tokens_in": "1000",
        "tokens_out": "500",
        "concurrency": "3",
        "metric": rows.OUTPUT_RATE,
        "value": "60",
        "unit": "tokens/s",
        **given,
    }
    knowledge = known()
    row = rows.of_text(columns, "test")
    knowledge.once("evidence", lambda: rows.results([row]))
    return list(results._outside(knowledge))


def test_engines_beyond_the_requests_in_flight_wait() -> None:
    """8 replicas of 2 GPUs with 3 requests in flight: three engines work, one request each."""
    (three,) = served()
    traits = three.traits
    assert (traits["groups"], traits["in_flight"], traits["layout"].tensor) == (3, 1.0, 2)


def test_a_pipeline_is_no_layout_of_a_point() -> None:
    assert served(parallelism="tp2 pp4", count="8") == []
    assert [each.traits["layout"].tensor for each in served(parallelism="tp8 pp1")] == [8]


def test_requests_that_fit_depend_on_the_engine_by_hand() -> None:
    """Llama 3.1 70B on 2 x H100: 80 GiB x 0.92 - 65.7 - 3 = 4.9 GiB each have room for the cache of
    10999 tokens of 2 x 80 x 4 x 128 x 2 bytes twice, and of 10499 three times: vLLM fills the cache
    as answers grow, TensorRT-LLM keeps room for whole answers."""
    flights = []
    for engine in ("vllm", "TensorRT-LLM"):
        (full,) = served(
            engine=engine, count="2", tokens_in="9999", tokens_out="1000", concurrency="64"
        )
        seen = nearby.seen(full, known())
        assert seen is not None
        flights.append(2 ** seen.logs[2])
    assert flights == pytest.approx([3, 2])


def test_a_benchmark_without_a_limit_has_as_many_in_flight_as_its_program_takes() -> None:
    offline = {"scenario": "offline", "concurrency": ""}
    assert [each.traits["in_flight"] for each in served(**offline)] == [1024]
    trt = served(engine="TensorRT-LLM", **offline)
    assert [each.traits["in_flight"] for each in trt] == [4096]


def test_the_catalogs_results_hold_what_the_guide_promises() -> None:
    """At least 100 results of at least 5 publishers, nine of ten in their range; and DeepSeek R1 on
    8 H200, 1.75 requests/s, from results of everyone but its publisher."""
    knowledge = known()
    tested = [trial for kind in TOLD.values() for trial in backtest.test(kind, knowledge)]
    reached = backtest.coverage(tested)
    assert (reached.tried >= 100, reached.sources >= 5) == (True, True)
    assert reached.inside / reached.tried == pytest.approx(0.9, abs=0.05)
    assert reached.width < 2.0
    dense = [trial for trial in tested if trial.point.condition == "dense, no prefix cache"]
    assert len(dense) > 150
    assert backtest.coverage(dense).width < 1.76
    (deepseek,) = [
        trial
        for trial in tested
        if trial.point.evidence
        and "InferenceX#870" in trial.point.evidence.source
        and trial.point.traits["in_flight"] == 64
    ]
    work = deepseek.point.traits["work"]
    rate = deepseek.point.rate / (work.tokens_in + work.tokens_out)
    assert rate == pytest.approx(1.75, rel=0.01)
    assert (deepseek.covered, deepseek.held) == (True, backtest.SOURCE)
    assert deepseek.point.source == "SemiAnalysis"
