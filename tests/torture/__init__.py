"""Long attacks: each tries many times what must never lose a record or leave something behind.

``make torture`` runs all of them and prints a table (docs/explain/guarantees.md). An attack is a
function in a module of this folder: how often, a seed, and back comes a :class:`Tally`.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Tally:
    """What an attack tried and what got through."""

    tried: int = 0
    lost: int = 0
    # Sentences: what was lost (each with the seed that repeats it), and figures worth a reader.
    losses: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    # Why it could not be tried at all on this machine.
    skipped: str = ""

    def survived(self) -> None:
        self.tried += 1

    def lose(self, what: str) -> None:
        self.tried += 1
        self.lost += 1
        self.losses.append(what)
