"""Rounds of pairs: every two nodes meet once, and in a round a node is in one pair."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_controller.plans.ib_pairs import round_pair


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 24))
def test_every_two_nodes_meet_once(count: int) -> None:
    nodes = [f"node-{number}" for number in range(count)]
    rounds = []
    for number in range(count - 1 + count % 2):
        of_nodes = {node: round_pair(nodes, number, node) for node in nodes}
        # Both nodes of a pair have the same one, and of an odd number one node rests.
        assert all(of_nodes[two] == pair for pair in of_nodes.values() for two in pair)
        assert sum(pair == [] for pair in of_nodes.values()) == count % 2
        rounds.append({tuple(pair) for pair in of_nodes.values() if pair})
    met = [tuple(sorted(pair)) for pairs in rounds for pair in pairs]
    assert sorted(met) == sorted(tuple(sorted(pair)) for pair in itertools.combinations(nodes, 2))
    # No node is the server, or the client, in much more than half of its pairs.
    for node in nodes:
        served = sum(pair[0] == node for pairs in rounds for pair in pairs)
        assert abs(2 * served - (count - 1)) <= 2 + count % 2


def test_another_node_has_no_pair() -> None:
    assert round_pair(["a", "b", "c"], 0, "another") == []
