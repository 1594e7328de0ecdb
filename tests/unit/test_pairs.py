"""Rounds of pairs: every two nodes meet once, and in a round a node is in one pair."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_controller.plans.ib_pairs import pair_rounds, round_pair
from trueup_node.errors import BadInput


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40))
def test_every_two_nodes_meet_once(count: int) -> None:
    nodes = [f"node-{number}" for number in range(count)]
    rounds = pair_rounds(nodes)
    assert len(rounds) == max(0, count - 1 if count % 2 == 0 else count)
    met = [tuple(sorted(pair)) for pairs in rounds for pair in pairs]
    assert sorted(met) == sorted(tuple(sorted(pair)) for pair in itertools.combinations(nodes, 2))
    for pairs in rounds:
        busy = [node for pair in pairs for node in pair]
        assert len(busy) == len(set(busy)) == count - count % 2
    # No node is the server, or the client, in much more than half of its pairs.
    for node in nodes:
        served = sum(pair[0] == node for pairs in rounds for pair in pairs)
        assert abs(2 * served - (count - 1)) <= 2 + count % 2


def test_a_node_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="a stands more than once"):
        pair_rounds(["a", "b", "a"])


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 17))
def test_a_nodes_pair_is_that_of_the_round(count: int) -> None:
    nodes = [f"node-{number}" for number in range(count)]
    for number, pairs in enumerate(pair_rounds(nodes)):
        for node in nodes:
            expected = next((pair for pair in pairs if node in pair), [])
            assert round_pair(nodes, number, node) == expected
    assert round_pair(nodes, 0, "another") == []
