"""The result of a comparison: figures of two sets of records, and how they differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from .measured import nodes_of
from .significance import Estimate, chances
from .titles import Titles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .measured import FigureKey, Keys, Place, Work
    from .settings import Explanation
    from .sides import Side

    Floats = NDArray[np.float64]

WORSE, BETTER, UNCHANGED = "worse", "better", "unchanged"
MIXED: Final = "better and worse"
UNSURE: Final = "too few repeats"
NOT_JUDGED: Final = "not judged"


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
class Shifts(Sequence[Shift]):
    """The changes at the places of a figure, as columns.

    Attributes:
        places: their numbers in ``keys``, ascending.
        errors, freedoms: the standard errors and degrees of freedom; NaN where nothing says how
            much the figure varies.
    """

    places: NDArray[np.int64]
    before: Floats
    after: Floats
    logs: Floats
    errors: Floats
    freedoms: Floats
    keys: Keys

    @classmethod
    def none(cls, keys: Keys) -> Shifts:
        """Those of no place."""
        return cls.of([], keys)

    @classmethod
    def of(cls, shifts: Sequence[Shift], keys: Keys) -> Shifts:
        """Those of some places, of which nobody says how much they vary."""
        places = np.array([keys.number(shift.place) for shift in shifts], np.int64)
        columns = np.array([shift[1:4] for shift in shifts], float).reshape(-1, 3)
        unknown = np.full(len(shifts), np.nan)
        before, after, logs = columns.T
        return cls(places, before, after, logs, unknown, unknown, keys)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        error, log_ratio = float(self.errors[index]), float(self.logs[index])
        return Shift(
            self.keys.place(int(self.places[index])),
            *(float(self.before[index]), float(self.after[index]), log_ratio),
            None if math.isnan(error) else Estimate(log_ratio, error, float(self.freedoms[index])),
        )

    @cached_property
    def nodes(self) -> list[str]:
        """The nodes, each once."""
        return self.keys.names(self.places)

    @cached_property
    def node_codes(self) -> NDArray[np.int64]:
        """The place in ``nodes`` of each place's node."""
        codes: NDArray[np.int64] = np.unique(nodes_of(self.places), return_inverse=True)[1]
        return codes

    @cached_property
    def node_means(self) -> Floats:
        """The mean logarithm of each node: devices of one node are not independent."""
        return np.bincount(self.node_codes, self.logs) / np.bincount(self.node_codes)

    def chances(self) -> Floats:
        """The probability of each without a change, of those whose error is known."""
        known = ~np.isnan(self.errors)
        return chances(self.logs[known], self.errors[known], self.freedoms[known])

    def changed(self, limit: float, least: float) -> NDArray[np.bool_]:
        """Which are at least so large, with at most such a probability."""
        is_changed = np.zeros(len(self), np.bool_)
        rows = np.flatnonzero(~np.isnan(self.errors) & (abs(self.logs) >= least))
        is_changed[rows] = chances(self.logs[rows], self.errors[rows], self.freedoms[rows]) <= limit
        return is_changed


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
    shifts: Shifts
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
