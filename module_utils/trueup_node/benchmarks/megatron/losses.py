"""Judgement of the losses of a training run."""

from __future__ import annotations

import math
import statistics
from typing import Dict, Optional, Sequence, Tuple

# The end of the losses lies above their start, or their best, where it does so by this many times
# their scatter, and by this share; of fewer lines by the last share, since these show no scatter.
_SCATTERS, _SHARE_OF_START, _SHARE_OF_BEST = 3, 0.05, 0.25
_FEW_LINES, _SHARE_OF_FEW = 8, 1.0
_FEWEST = 4


def judged(
    losses: Sequence[float], *, least_fall: Optional[float]
) -> Tuple[Dict[str, bool], Dict[str, str]]:
    """The checks of the losses, and the sentence for the failure of each that has one.

    Args:
        losses: in their order.
        least_fall: the share of the first losses by which the last ones must be lower at least;
            None where the run is too short a part to say so.
    """
    checks = {} if least_fall is None else {"loss_falls": _falls(losses, least_fall)}
    reasons: Dict[str, str] = {}
    pairs = [max(pair) for pair in zip(losses, losses[1:])]
    for name, start, share in (
        ("start", pairs[:1], _SHARE_OF_START),
        ("best", [min(pairs)] if pairs else [], _SHARE_OF_BEST),
    ):
        key = f"loss_not_above_{name}"
        checks[key] = not (start and _ends_above(losses, start[0], share))
        if not checks[key]:
            first = losses[0] if name == "start" else min(losses)
            reasons[key] = f"loss ended above its {name} ({first:.4g} to {losses[-1]:.4g})"
            break
    return checks, reasons


def _falls(losses: Sequence[float], share: float) -> bool:
    """Whether the mean of the last quarter of the losses (two at least) is below that of the first
    quarter, by more than three standard errors and by ``share`` of it.

    The standard error is that of the difference of the two means.
    """
    count = max(2, len(losses) // 4) if len(losses) >= _FEWEST else 1
    if len(losses) < 2:
        return False
    first, last = (math.fsum(quarter) / count for quarter in (losses[:count], losses[-count:]))
    return first - last > max(3 * _scatter(losses) * math.sqrt(2 / count), share * first)


def _scatter(losses: Sequence[float]) -> float:
    """The standard deviation of a single loss, by the median of second differences, which neither
    a steady fall nor a jump adds to."""
    bends = [abs(a - 2 * b + c) for a, b, c in zip(losses, losses[1:], losses[2:])]
    # A second difference of normal figures has sqrt(6) times their deviation.
    return 1.4826 * statistics.median(bends or [0.0]) / math.sqrt(6)


def _ends_above(losses: Sequence[float], start: float, share: float) -> bool:
    """Whether each of the last quarter of the losses (two at least) lies above a start by more than
    three times their scatter and by a share of it. Of fewer than eight losses the end must lie
    above twice the start.

    The start is the higher one of the first two losses, or of the best two neighbours. Of losses
    that only scatter, 4 in 10,000 logs of eight lines end so high where a loss scatters by 2 %, and
    5 in 1,000 where it scatters by 20 %.
    """
    if len(losses) < _FEWEST:
        return False
    rise = min(losses[-max(2, len(losses) // 4) :]) - start
    if len(losses) < _FEW_LINES:
        return rise > _SHARE_OF_FEW * start
    return rise > max(_SCATTERS * _scatter(losses), share * start)
