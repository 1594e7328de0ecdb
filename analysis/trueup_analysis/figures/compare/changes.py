"""The result of a comparison: figures of two sets of records, and how they differ."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from .titles import Titles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .measured import FigureKey, Place, Work
    from .settings import Explanation
    from .sides import Side
    from .significance import Estimate

WORSE, BETTER, UNCHANGED = "worse", "better", "unchanged"
MIXED: Final = "better and worse"
UNSURE: Final = "too few repeats"
NOT_JUDGED: Final = "not judged"
FAILS: Final = "now fails"


class Shift(NamedTuple):
    """The change at one place.

    Attributes:
        log_ratio: the logarithm of after over before.
        estimate: None where nothing says how much such a figure varies.
    """

    place: Place
    before: float
    after: float
    log_ratio: float
    estimate: Estimate | None

    @property
    def ratio(self) -> float:
        """After over before, less 1."""
        return math.expm1(self.log_ratio)


@dataclass(frozen=True)
class Change:
    """One figure on both sides.

    Attributes:
        before, after: medians over places, in base units.
        estimate: the mean of the logarithms of after over before; None where it is not known how
            much the figure varies, or where a value is not above 0.
        nodes: the paired nodes; of sides without a common node those of both.
        paired: whether nodes are paired.
        shifts: each paired place.
        verdict: "worse", "better", "better and worse", "unchanged", "too few repeats" or "not
            judged".
        group: the paired nodes on which a setting changed and that differ from the others.
        worse, better: the places that alone changed so, those of the group included.
        detectable: the least change of the mean that would have been seen, as a share.
        explanations: settings that changed with it, the most likely first.
        is_published: whether the value before is a publication's, whose settings are not recorded.
    """

    figure: FigureKey
    before: float
    after: float
    estimate: Estimate | None
    nodes: tuple[str, ...]
    paired: bool
    shifts: tuple[Shift, ...]
    group: frozenset[str] = frozenset()
    verdict: str = UNCHANGED
    worse: tuple[Shift, ...] = ()
    better: tuple[Shift, ...] = ()
    detectable: float | None = None
    explanations: tuple[Explanation, ...] = ()
    is_published: bool = False

    @property
    def ratio(self) -> float | None:
        """After over before, less 1: of the mean of logarithms."""
        if self.estimate is not None:
            return math.expm1(self.estimate.mean)
        return self.after / self.before - 1 if self.before > 0 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of ``ratio``."""
        if self.estimate is None:
            return None
        low, high = self.estimate.interval()
        return math.expm1(min(low, 700.0)), math.expm1(min(high, 700.0))


class Failure(NamedTuple):
    """Work that was ok before, and now is not."""

    work: Work
    node: str
    outcome: str
    reason: str | None


class Missing(NamedTuple):
    """A figure of one side alone.

    Attributes:
        side: "before" or "after".
        nodes: the nodes that lack it on the other side.
    """

    figure: FigureKey
    side: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Two sides beside each other.

    Attributes:
        changes: each figure of both, the worst first.
        at_least: the least change that counts, as a share.
        how: the judgement in a sentence, where it is not that of two sets of records.
    """

    before: Side
    after: Side
    changes: Sequence[Change]
    failures: Sequence[Failure]
    missing: Sequence[Missing]
    at_least: float
    counts: Counter[str] = field(default_factory=Counter)
    how: str = ""

    @property
    def status(self) -> int:
        """Exit status: 1 something is worse; 2 something could not be compared; else 0."""
        if self.failures or self.counts[WORSE] or self.counts[MIXED]:
            return 1
        lost = any(item.side == "before" for item in self.missing)
        works = {change.figure.work for change in self.changes}
        sure = {
            change.figure.work
            for change in self.changes
            if change.verdict not in {UNSURE, NOT_JUDGED}
        }
        return 2 if lost or works - sure else 0

    @cached_property
    def titles(self) -> Titles:
        """The names of its figures."""
        alone = [item.figure for item in self.missing]
        return Titles([*(change.figure for change in self.changes), *alone])
