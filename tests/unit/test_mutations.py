"""The attack by damaged outputs (`make torture`) in little, and that it notices damage."""

from __future__ import annotations

from torture.mutations import mutated_outputs


def test_some_hundred_damaged_outputs_give_their_figures_or_an_error() -> None:
    tally = mutated_outputs(400, seed=9)
    assert (tally.tried, tally.losses) == (400, [])
