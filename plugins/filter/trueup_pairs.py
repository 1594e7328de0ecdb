"""The filter that pairs nodes, so that every two of them meet once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCUMENTATION = r"""
name: trueup_pairs
short_description: Rounds in which every two nodes meet once
description:
  - C(pair_rounds) takes a list of nodes and returns rounds of pairs [server, client] - each pair of
    nodes is in one round, and in a round each node is in one pair at most. An even number of nodes
    gives one round less than there are nodes; of an odd number one rests in each round.
  - C(round_pair) takes the same list, the number of a round from 0 and a node, and returns the
    node's pair, or an empty list where it rests. It works out that round only.
"""


def pair_rounds(nodes: list[str]) -> list[list[list[str]]]:
    """The rounds of a tournament by the circle method: one node stays, the others go round.

    Raises:
        AnsibleFilterError: a node stands twice.
    """
    ring: list[str | None] = list(nodes)
    if len(set(ring)) < len(ring):
        twice = sorted({node for node in nodes if nodes.count(node) > 1})
        message = f"pair_rounds: {', '.join(twice)} stands more than once"
        raise AnsibleFilterError(message)
    if len(ring) % 2:
        ring.append(None)
    return [_round(ring, number) for number in range(max(0, len(ring) - 1))]


def round_pair(nodes: list[str], number: int, node: str) -> list[str]:
    """The pair of ``node`` in round ``number`` of ``pair_rounds``, from 0; empty where it rests."""
    ring = [*nodes, None] if len(nodes) % 2 else list(nodes)
    return next((pair for pair in _round(ring, int(number)) if node in pair), [])


def _round(ring: Sequence[str | None], number: int) -> list[list[str]]:
    """The pairs of one round: the first stays, the others have moved on by ``number`` places."""
    moved = len(ring) - 1 - number
    turned = [ring[0], *ring[1 + moved :], *ring[1 : 1 + moved]]
    half = len(ring) // 2
    facing = zip(turned[:half], reversed(turned[half:]))
    pairs = [[one, two] for one, two in facing if one is not None and two is not None]
    # The one that stays would be the server in every round.
    if number % 2 and pairs and pairs[0][0] == ring[0]:
        pairs[0].reverse()
    return pairs


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {"pair_rounds": pair_rounds, "round_pair": round_pair}
