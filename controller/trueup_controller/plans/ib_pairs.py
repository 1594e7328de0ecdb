"""Rounds of pairs: every two nodes meet once, and in a round a node is in one pair."""

from __future__ import annotations

from collections.abc import Sequence

# Server and client.
Pair = list[str]


def round_pair(nodes: Sequence[str], number: int, node: str) -> Pair:
    """The pair of ``node`` in a round, counted from 0, of a tournament by the circle method: one
    node stays, the others go round. Empty where it rests."""
    ring = [*nodes, None] if len(nodes) % 2 else list(nodes)
    return next((pair for pair in _round(ring, number) if node in pair), [])


def _round(ring: Sequence[str | None], number: int) -> list[Pair]:
    """The pairs of one round: the first stays, the others have moved on by ``number`` places."""
    moved = len(ring) - 1 - number
    turned = [ring[0], *ring[1 + moved :], *ring[1 : 1 + moved]]
    half = len(ring) // 2
    facing = zip(turned[:half], reversed(turned[half:]))
    pairs = [[first, two] for first, two in facing if first is not None and two is not None]
    # The one that stays would be the server in every round.
    if number % 2 and pairs and pairs[0][0] == ring[0]:
        pairs[0].reverse()
    return pairs
