"""Advice, held against cases that were worked by hand from the catalog's figures."""

from __future__ import annotations

import importlib
import io
import json
import math
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_analysis import catalog
from trueup_analysis.figures import meters
from trueup_analysis.figures.advise import access, answers, asks
from trueup_analysis.figures.advise.estimates import MODEL, PUBLISHED, RECORD, Range, spread
from trueup_analysis.figures.advise.kinds import KINDS
from trueup_analysis.figures.advise.knowledge import Knowledge
from trueup_analysis.figures.advise.services import read_services
from trueup_analysis.figures.prices import Book, read_all
from trueup_analysis.sheets import advise as sheets
from trueup_node.cases import Case, Figure
from trueup_node.errors import BadInput

DATA = Path(__file__).resolve().parents[2] / "data"
TODAY = date(2026, 11, 23)
HOUR = 3600


def known(*cases: Case) -> Knowledge:
    return Knowledge(catalog.built_in(), TODAY, cases)


def ask(work: str, /, *cases: Case, **given: Any) -> answers.Answer:
    kind = asks.chosen(work)
    book = Book(read_all(catalog.built_in()), None)
    return answers.answer(kind, asks.read(kind, given), known(*cases), book)


def choice(found: answers.Answer, size: str, nodes: int, offer: str = "payg") -> answers.Choice:
    (one,) = [
        one
        for one in found.choices
        if (one.estimate.size, one.estimate.nodes, one.offer) == (size, nodes, offer)
    ]
    return one


NO_FAILURES = {"node_mtbf_hours": 1e9, "offers": "payg"}


def test_training_on_one_node_of_h100_by_hand() -> None:
    """8e9 parameters, 20e9 tokens: 6 x 8e9 x 20e9 = 9.6e20 operations. The two results of the size
    are 541.81 and 542.66 TFLOP/s a GPU, their median 542.235; of 8 GPUs 4337.88."""
    found = ask("training", parameters_billion=8, tokens_billion=20, **NO_FAILURES)
    one = choice(found, "Standard_ND96isr_H100_v5", 1)
    assert one.hours.value == pytest.approx(9.6e20 / (8 * 542.235e12) / HOUR, rel=1e-6)
    assert one.usd.value == pytest.approx(one.hours.value * 98.32, rel=1e-9)
    assert (one.estimate.trust, one.estimate.beyond) == (PUBLISHED, "")


def test_attention_counts_where_layers_are_given() -> None:
    """Llama 3.1 8B: 12 x 32 x 4096 x 8192 = 1.288e10 beside 6 x 8.03e9 = 4.818e10 a token."""
    plain = {"parameters_billion": 8.03, "tokens_billion": 1, **NO_FAILURES}
    without = ask("training", **plain)
    counted = ask("training", **plain, layers=32, hidden_size=4096, sequence_length=8192)
    size = "Standard_ND96isr_H100_v5"
    ratio = choice(counted, size, 1).hours.value / choice(without, size, 1).hours.value
    assert ratio == pytest.approx(1 + 12 * 32 * 4096 * 8192 / (6 * 8.03e9), rel=1e-9)


def test_stencil_on_the_published_size_by_hand() -> None:
    """The two published runs of 64 cores and one node: 331.22 and 320.04 GFLOP/s, their geometric
    mean 325.582. 1044^3 points with layers, 4000 steps, 45 operations an update."""
    found = ask("stencil", grid="1024x1024x1024", steps=4000, **NO_FAILURES)
    one = choice(found, "Standard_HB120-64rs_v3", 1)
    rate = math.sqrt(331.22e9 * 320.04e9)
    assert one.hours.value == pytest.approx(1044**3 * 4000 * 45 / rate / HOUR, rel=1e-6)


def test_a_family_without_a_result_says_so_and_is_less_sure() -> None:
    """HBv4: the best of HBv3 by bandwidth (331.22 GFLOP/s of 350 GB/s) at 780 GB/s."""
    found = ask("stencil", grid="1024x1024x1024", steps=4000, flops_per_update=45, **NO_FAILURES)
    seen = choice(found, "Standard_HB120-64rs_v3", 1)
    other = choice(found, "Standard_HB176rs_v4", 1)
    rate = 331.22e9 * 780 / 350
    best = max(331.22e9, math.sqrt(331.22e9 * 320.04e9))
    assert best == 331.22e9
    assert other.hours.value == pytest.approx(1044**3 * 4000 * 45 / rate / HOUR, rel=1e-6)
    assert "no result of HBv4" in other.estimate.beyond
    assert other.estimate.trust == MODEL
    assert other.hours.width == pytest.approx(seen.hours.width * 1.5**2, rel=1e-3)


def test_a_record_of_ours_counts_before_published_results() -> None:
    mine = Case(
        nodes=("n1",),
        vm_size="Standard_HB120-64rs_v3",
        benchmark="devito",
        case="so8",
        outcome="ok",
        reason=None,
        parameters={"model": "acoustic", "space_order": 8},
        software={},
        figures=[Figure("flop_rate", 500e9, "flop/s", "higher", statistic="median")],
        node_count=1,
        run_id="20261120T091300Z-7c1e",
        started_at="2026-11-20T09:13:00Z",
    )
    found = ask("stencil", mine, grid="512x512x512", steps=100, **NO_FAILURES)
    one = choice(found, "Standard_HB120-64rs_v3", 1)
    assert one.hours.value == pytest.approx(532**3 * 100 * 45 / 500e9 / HOUR, rel=1e-6)
    assert [each.kind for each in one.estimate.evidence] == [RECORD]
    assert one.estimate.evidence[0].date == "2026-11-20"


def test_spot_without_checkpoints_costs_what_is_done_again() -> None:
    """At 0.2 evictions an hour, a job of t hours takes (exp(0.2 t) - 1) / 0.2 of them."""
    given = {"parameters_billion": 8, "tokens_billion": 0.2, "node_mtbf_hours": 1e9}
    given |= {"spot_evictions_per_hour": 0.2, "sizes": "Standard_ND96isr_H100_v5"}
    given |= {"checkpoint_seconds": 0, "restart_minutes": 0}
    found = ask("training", **given)
    steady, spot = (choice(found, "Standard_ND96isr_H100_v5", 1, how) for how in ("payg", "spot"))
    hours = steady.hours.value
    assert spot.hours.value == pytest.approx(math.expm1(0.2 * hours) / 0.2, rel=1e-4)
    with_checkpoints = choice(
        ask("training", **{**given, "checkpoint_seconds": 10}),
        "Standard_ND96isr_H100_v5",
        1,
        "spot",
    )
    assert with_checkpoints.hours.value < spot.hours.value


def test_a_retired_size_is_never_advised() -> None:
    """HC ends 2027-05-31, Fsv2 is closed."""
    assert "2027-05-31" in known().withheld["Standard_HC44rs"]
    found = ask("stencil", grid="512x512x512", steps=100, most_nodes=1)
    sizes = {one.estimate.size for one in found.choices}
    assert sizes.isdisjoint(known().withheld)
    assert "Standard_HB120rs_v3" in sizes
    with pytest.raises(BadInput, match="F16s_v2 is not advised: "):
        ask("stencil", grid="64x64x64", steps=1, sizes="Standard_F16s_v2")


def test_spread_of_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="nothing is known"):
        spread([])


@pytest.mark.parametrize("ends", [(0, 1, 2), (2, 1, 3), (1, 2, math.inf), (1, math.nan, 2)])
def test_a_range_is_positive_and_in_order(ends: tuple[float, float, float]) -> None:
    with pytest.raises(BadInput, match="no range"):
        Range(*ends)


@parametrized(("work", "given", "message"))
def test_what_cannot_be_answered_is_said(work: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        ask(work, **given)
    assert message in str(caught.value)


def test_the_command_says_what_it_knows_and_asks(told: Any, monkeypatch: Any) -> None:
    assert "training" in told("advise")[0]
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "flops_per_update" in told("advise", "stencil")[0]


def test_the_command_reads_a_file(told: Any, tmp_path: Path) -> None:
    (tmp_path / "work.yml").write_text(
        "work: stencil\ngrid: 512x512x512\nsteps: 100\nsizes: [Standard_HB120rs_v3]\n"
    )
    assert "HB120rs_v3" in told("advise", "work.yml", "--explain")[0]
    assert "in limits" in told("advise", "work.yml", "deadline_hours=5")[0]
    (tmp_path / "bad.yml").write_text("steps: 100\n")
    assert "work: stencil" in told("advise", "bad.yml", status=1)[1]
    assert "is not NAME=VALUE" in told("advise", "stencil", "grid", status=1)[1]


def test_the_back_test_is_printed(told: Any) -> None:
    assert "lie in their range" in told("advise", "--backtest")[0]


@parametrized(("work", "tool", "metric", "parameters"))
def test_records_are_found_by_the_figures_that_their_views_show(
    work: str, tool: str, metric: str, parameters: dict[str, str]
) -> None:
    view = importlib.import_module(f"trueup_node.benchmarks.{tool}.view").VIEW
    assert metric in {one.metric for one in (*view.headlines, *view.figures)}
    mine = Case(
        *(("n1",), "Standard_ND96asr_v4", tool, "c", "ok", None, parameters, {}),
        figures=[Figure(metric, 7e12, "flop/s", "higher", statistic="median")],
        node_count=1,
        gpus=8,
    )
    found = [one for one in KINDS[work].points(known(mine)) if one.evidence.kind == RECORD]
    assert [one.rate for one in found] == [7e12 * (8 if work == "training" else 1)]


def test_a_log_from_elsewhere_takes_its_work_along(told: Any) -> None:
    """Devito, 25.9 GFLOP/s for 3.02 s: 7.8218e10 operations, on HB120-64rs_v3 at 325.58 GFLOP/s."""
    log = DATA / "devito" / "openmp.log"
    words = ("--from-log", str(log), "region=eastus", "node_mtbf_hours=1e9", "offers=payg")
    rows = json.loads(told("advise", *words, "--format", "json")[0])["tables"][0]["rows"]
    (one,) = [r for r in rows if (r["size"], r["nodes"]) == ("Standard_HB120-64rs_v3", 1)]
    rate = math.sqrt(331.22e9 * 320.04e9)
    assert one["hours"] == pytest.approx(25.9e9 * 3.02 / rate / HOUR, rel=1e-6)
    assert "does not say its grid" in " ".join(told("advise", *words)[0].split())


def test_a_log_of_another_kind_is_refused(told: Any) -> None:
    log = DATA / "nccl" / "infiniband.txt"
    assert (
        "a log of nccl; advice is there for" in told("advise", "--from-log", str(log), status=1)[1]
    )
    bad = DATA / "megatron" / "gpt_driver_idle.log"
    assert "no good measure" in told("advise", "--from-log", str(bad), status=1)[1]


def test_services_are_advised_by_words(told: Any) -> None:
    words = ("service", "nodes=150", "coupled=yes")
    assert "No rule of thumb speaks of these needs" in " ".join(told("advise", *words)[0].split())
    tables = json.loads(told("advise", *words, "--format", "json")[0])["tables"]
    services = {one["service"]: one for one in tables[0]["rows"]}
    assert services["cyclecloud-slurm"]["advised"]
    assert not services["scale-set-uniform"]["advised"]
    assert "100" in services["scale-set-uniform"]["refused"]
    assert "Standard_NC6" in told("advise", *words, "--explain", "--format", "json")[0]


@parametrized(("word", "message"))
def test_needs_that_cannot_be_are_said(told: Any, word: str, message: str) -> None:
    assert message in told("advise", "service", word, status=1)[1]


def stored(found: answers.Answer) -> access.Storage | None:
    services = read_services(catalog.built_in())
    return access.storage(
        found, known().sizes, services, TODAY, meters.Meters(meters.read_all(), TODAY)
    )


GRID = {"grid": "1024x1024x1024", "steps": 4000, "region": "southcentralus"}


def test_storage_is_not_advised_unless_it_is_asked_for() -> None:
    assert stored(ask("stencil", **GRID)) is None


def test_storage_of_large_shared_files_by_hand() -> None:
    found = stored(ask("stencil", access="shared", data_tb=20, mb_s=4000, **GRID))
    assert found is not None
    first = found.found[0]
    # 20 TB are 18.2 TiB: 20 in steps of 4 TiB at 500 MB/s a TiB; 32 at 125, for 4000 MB/s.
    levels = {one.name[-3:]: (one.tib, one.mb_s) for one in first.levels}
    assert (first.service, levels["500"], levels["125"]) == ("amlfs", (20, 10000), (32, 4000))


@pytest.mark.parametrize(("data_tb", "refused"), [(2.0, False), (2.1, True)])
def test_local_disks_hold_what_they_hold(data_tb: float, refused: bool) -> None:
    words = {"sizes": "Standard_HB120rs_v3", "most_nodes": 1, "access": "scratch"}
    found = stored(ask("stencil", data_tb=data_tb, **words, **GRID))
    assert found is not None
    [disks] = [one for one in found.found if one.service == "local-nvme"]
    # 2 disks of 960 GiB are 2.0616 TB.
    assert (bool(disks.refused), found.local) == (
        refused,
        "A node of Standard_HB120rs_v3 has 2.06 TB of local disks.",
    )


def test_storage_and_transfer_at_prices_of_ones_own_by_hand(told: Any) -> None:
    words = ("stencil", "grid=512x512x512", "steps=1000", "access=shared", "data_tb=20", "out_tb=2")
    own = ("usd_per_tib_month=lustre-500:340", "usd_per_gb_out=0.08")
    tables = json.loads(told("advise", *words, *own, "--format", "json")[0])["tables"]
    found = {one["kind"]: one for one in tables}
    # 20 TB are 18.2 TiB: 20 in steps of 4, at 340 US$ a TiB and month.
    levels = found["advise_storage"]["rows"][0]["levels"].split("; ")
    [priced] = [one for one in levels if "US$" in one]
    assert priced == "AMLFS-Durable-Premium-500: 20 TiB, 10000 MB/s, 6,800.00 US$ a month"
    shown = " ".join(told("advise", *words, *own)[0].split())
    assert "2 TB leave the region: 160.00 US$ more at your 0.08 US$ a GB." in shown
    without = " ".join(told("advise", *words)[0].split())
    assert "no price of transfer from centralus is known" in without
    assert "No price of storage is known" in without


@parametrized(("words", "sentence"))
def test_what_would_say_nothing_is_refused(told: Any, words: Any, sentence: str) -> None:
    assert sentence in told("advise", *words, status=1)[1]


def test_where_nothing_keeps_the_limits_the_nearest_is_named() -> None:
    found = ask("stencil", deadline_hours=0.001, **GRID)
    quickest = min(found.choices, key=lambda one: one.hours.high)
    name = f"{quickest.estimate.nodes} x {quickest.estimate.size.removeprefix('Standard_')}"
    assert sheets.recommended(found).startswith(
        f"No choice is sure to stay within 0.001 h. The nearest is {name}"
    )
    assert sheets.changes(found) == [
        "At neither end of any assumption does a choice stay within the limits."
    ]
    late = len(found.choices)
    assert sheets.refusals(found)[0] == f"{late} of {late} choices may miss the deadline."
