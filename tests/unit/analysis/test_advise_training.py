"""Training, LoRA and QLoRA: memory and time by hand; checkpoints and evictions by default."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_analysis import catalog, spot
from trueup_analysis.figures.advise import answers, asks, stops
from trueup_analysis.figures.advise.kinds import training
from trueup_analysis.figures.advise.knowledge import Knowledge
from trueup_analysis.figures.prices import Book, read_all
from trueup_node.errors import BadInput

TODAY = date(2026, 11, 23)
H100, A100 = "Standard_ND96isr_H100_v5", "Standard_NC24ads_A100_v4"
GB = 1e9


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRUEUP_PRICES", str(tmp_path / "prices.csv"))
    monkeypatch.delenv("TRUEUP_CONTRACT", raising=False)
    return tmp_path / spot.FILE


def ask(work: str = "training", /, **given: Any) -> answers.Answer:
    kind = asks.chosen(work)
    rows = read_all(catalog.built_in())
    for size in (H100, A100):
        cells = (size, "eastus", "linux", "spot", 1.0, "2026-11-01", "a test's table", "")
        rows.append(dict(zip(catalog.PRICE_COLUMNS, cells, strict=True)))
    found = Knowledge(catalog.built_in(), TODAY)
    return answers.answer(kind, asks.read(kind, given), found, Book(rows, None))


def asked(**given: Any) -> dict[str, Any]:
    return asks.read(asks.chosen("training"), {"tokens_billion": 1, **given})


def choice(found: answers.Answer, size: str, nodes: int = 1, offer: str = "payg") -> answers.Choice:
    (only,) = [
        each
        for each in found.choices
        if (each.estimate.size, each.estimate.nodes, each.offer) == (size, nodes, offer)
    ]
    return only


# ---- memory -------------------------------------------------------------------------------------


@parametrized(("given", "held", "kept"))
def test_states_of_full_training(given: dict[str, Any], held: float, kept: float) -> None:
    assert training.states(asked(**given)) == (pytest.approx(held), pytest.approx(kept))


@pytest.mark.parametrize(("method", "each"), [("lora", 2.0), ("qlora", 4.127 / 8)])
def test_states_beside_adapters_by_hand(method: str, each: float) -> None:
    """Llama 3.1 8B: 32 layers of 4096, rank 16: PEFT counts 41.9 million with 8 heads of keys and
    values and an MLP of 14336; with all heads it is 32 x 16 x 21.5 x 4096 = 45.1 million."""
    given = asked(parameters_billion=8.03, method=method, layers=32, hidden_size=4096)
    count = 32 * 16 * 21.5 * 4096
    assert count == pytest.approx(41.9e6, rel=0.08)
    held, kept = training.states(given)
    assert held == pytest.approx(8.03e9 * each + count * 16)
    assert kept == pytest.approx(count * 14)


def test_a_65b_model_is_fine_tuned_on_48_gib_by_qlora_as_its_paper_says() -> None:
    """arXiv 2305.14314: 65B on one GPU of 48 GB, rank 64; a whole training takes more than 780
    GB."""
    given = asked(parameters_billion=65, method="qlora", lora_rank=64, sequence_length=512)
    held, _ = training.states(given)
    assert held + training.activations(given) < 48 * 2**30
    full, _ = training.states(asked(parameters_billion=65))
    assert full > 780 * GB


@pytest.mark.parametrize(
    ("parameters", "layers", "hidden"), [(8.03, 32, 4096), (70.6, 80, 8192), (405, 126, 16384)]
)
def test_the_shape_that_is_not_given_is_near_that_of_llama(
    parameters: float, layers: int, hidden: int
) -> None:
    form = training.shape(asked(parameters_billion=parameters))
    assert form.layers == pytest.approx(layers, rel=0.15)
    assert form.hidden == pytest.approx(hidden, rel=0.15)


def test_each_method_is_refused_or_taken_by_its_memory() -> None:
    """70B: 1,120 GB whole, 141 GB as LoRA, 37 GB as QLoRA; a node of 8 H100 has 640 GiB."""
    given = {"parameters_billion": 70, "tokens_billion": 0.01, "offers": "payg"}

    def fits(method: str) -> set[tuple[str, int]]:
        found = ask(**given, method=method)
        return {(each.estimate.size, each.estimate.nodes) for each in found.choices}

    assert ((H100, 1) in fits("full"), (H100, 2) in fits("full")) == (False, True)
    assert ((A100, 1) in fits("lora"), (H100, 1) in fits("lora")) == (False, True)
    assert (A100, 1) in fits("qlora")


# ---- time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "factor"), [("lora", 2 / 3), ("qlora", 2 / 3 * 1.39)])
def test_time_beside_that_of_full_training(method: str, factor: float) -> None:
    given = {"parameters_billion": 8, "tokens_billion": 1, "offers": "payg", "node_mtbf_hours": 1e9}
    full, fine = (choice(ask(**given, method=how), H100) for how in ("full", method))
    ratio = fine.estimate.seconds.value / full.estimate.seconds.value
    assert ratio == pytest.approx(factor, rel=1e-9)
    assert full.estimate.beyond == ""
    assert "no result of" in fine.estimate.beyond


# ---- checkpoints --------------------------------------------------------------------------------


@parametrized(("more", "seconds", "word"))
def test_a_checkpoint_takes_its_bytes_over_the_rate_of_the_storage(
    more: dict[str, Any], seconds: float, word: str
) -> None:
    found = ask(parameters_billion=8, tokens_billion=20, offers="payg", **more)
    assert found.checkpoint is not None
    assert found.checkpoint.seconds == pytest.approx(seconds)
    assert word in found.checkpoint.words


def test_checkpoints_are_written_at_dalys_interval_by_default() -> None:
    """8B on one node that fails once in 50 h: Young's is sqrt(2 x 48.7 s x 180000 s) = 4187 s."""
    found = ask(parameters_billion=8, tokens_billion=20, offers="payg", node_mtbf_hours=50)
    one = choice(found, H100)
    young = math.sqrt(2 * (112 / 2.3) * 180000)
    assert young == pytest.approx(4187, rel=1e-3)
    assert one.interval == pytest.approx(young, rel=0.02)
    # Daly's loss at that interval, and restarts of 15 minutes and a read.
    assert one.lost == pytest.approx(
        math.sqrt(2 * (112 / 2.3) / 180000) + (900 + 112 / 2.3) / 180000, rel=0.02
    )
    never = choice(
        ask(
            parameters_billion=8,
            tokens_billion=20,
            offers="payg",
            node_mtbf_hours=50,
            checkpoint_seconds=0,
        ),
        H100,
    )
    assert never.interval == 0
    assert never.hours.value > 1.3 * one.hours.value


def test_spot_comes_to_an_end_by_default() -> None:
    """61 h of training on spot nodes: without checkpoints it would lose nearly all of its time."""
    found = ask(parameters_billion=8, tokens_billion=20, sizes=H100, most_nodes=1)
    spot_choice = choice(found, H100, offer="spot")
    assert spot_choice.lost < 0.15
    assert spot_choice.interval > 0
    assert found.lossy == []


def test_a_file_system_that_is_not_sold_is_named() -> None:
    with pytest.raises(BadInput, match="lustre-500 is sold from 4 to"):
        ask(parameters_billion=8, tokens_billion=1, checkpoint_to="lustre-500", checkpoint_tib=1)


def test_loss_without_stops_is_none_and_a_short_job_writes_nothing() -> None:
    each = stops.Checkpoint(60, "")
    assert stops.loss(3600, 0, each, 15) == (0, 0)
    short = stops.loss(10, 0.05, each, 0)
    assert (short.interval, short.share) == (0, pytest.approx(10 / 3600 * 0.05 / 2, rel=1e-2))


# ---- evictions ----------------------------------------------------------------------------------


def test_the_rate_of_size_and_region_counts_where_it_is_known(own: Path) -> None:
    given = {"parameters_billion": 8, "tokens_billion": 20, "sizes": H100, "most_nodes": 1}
    assumed = choice(ask(**given), H100, offer="spot")
    assert assumed.evicted == (0.05, "assumed, not known", False)
    row = f"{H100},eastus,15,20,2026-11-20,Resource Graph"
    own.write_text(f"{','.join(spot.COLUMNS)}\n{row}\n")
    known = choice(ask(**given), H100, offer="spot")
    assert known.evicted is not None
    assert (known.evicted.per_hour, known.evicted.known) == (pytest.approx(0.175), True)
    assert "15 to 20 % an hour" in known.evicted.source
    assert known.hours.value > assumed.hours.value
    mine = choice(ask(**given, spot_evictions_per_hour=0.01), H100, offer="spot")
    assert mine.evicted == (0.01, "yours", True)


@pytest.mark.parametrize("work", ["stencil", "md"])
def test_other_work_writes_checkpoints_too(work: str) -> None:
    given = {"stencil": {"grid": "512x512x512", "steps": 1000}, "md": {"atoms": 1e6, "ns": 1}}[work]
    kind = asks.chosen(work)
    found = Knowledge(catalog.built_in(), TODAY)
    need = kind.need(asks.read(kind, given), {"flops_per_update": 45.0}, found)  # type: ignore[union-attr]
    each = {"stencil": 532**3 * 8, "md": 1e6 * 48}[work]
    assert need.state == pytest.approx(each)


def test_a_named_model_has_its_parameters_and_shape() -> None:
    given = {"parameters_billion": 8.030261248, "layers": 32, "hidden_size": 4096}
    named = ask(model="meta-llama/Llama-3.1-8B", tokens_billion=1)
    assert named.choices
    assert named.choices == ask(tokens_billion=1, **given).choices


@parametrized(("given", "message"))
def test_a_model_that_cannot_be_trained_here_is_refused(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        ask(tokens_billion=1, **given)
