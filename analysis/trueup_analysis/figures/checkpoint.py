"""How long a checkpoint to Blob storage takes, and how often to write one.

Sources: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9),
1974; J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
Future Generation Computer Systems 22(3), 2006. The caps of copies that run at the same time:
article "Performance considerations for large scale deep learning training on Azure NDv4", 8 copies
of 2300 Mb/s each below an account's 20 Gb/s.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from trueup_node.benchmarks.blob_copy.case import capped
from trueup_node.errors import BadInput


class Transfer(NamedTuple):
    """One checkpoint on its way.

    Attributes:
        copies: how many files are copied at the same time.
        cap_bits_per_second: the most that each may take.
        rate_bits_per_second: the rate of all of them together, below the account's limit.
        seconds: how long it takes at that rate.
    """

    copies: int
    cap_bits_per_second: float
    rate_bits_per_second: float
    seconds: float


class Intervals(NamedTuple):
    """How often.

    Attributes:
        least_seconds: the fewest seconds from one checkpoint's beginning to the next one's, for
            checkpoints to take no more than the given share of the time.
        failure_seconds: the mean time between failures of the whole job; None where no rate of
            failures was given.
        young_seconds: seconds of work between two checkpoints that lose the least time, by Young.
        daly_seconds: the same by Daly, which holds for short times between failures too.
        lost_share: the share of time that is lost at Daly's interval, to checkpoints and to work
            that is done again.
    """

    least_seconds: float
    failure_seconds: float | None = None
    young_seconds: float | None = None
    daly_seconds: float | None = None
    lost_share: float | None = None


def transfer(size_bytes: float, *, copies: int, limit: float, cap: float | None = None) -> Transfer:
    """How long a checkpoint takes.

    Args:
        size_bytes: the whole checkpoint.
        copies: how many files of it are copied at the same time.
        limit: the account's limit for incoming data, bit/s.
        cap: the most that each copy may take, bit/s; None for the most, in steps of 100 Mb/s, that
            keeps all of them below the limit.

    Raises:
        BadInput: a size, count or rate that is not positive; copies that reach the limit together
            (says the cap that would do).
    """
    if not (math.isfinite(size_bytes) and size_bytes > 0):
        raise BadInput(f"size {size_bytes:g} is not a positive number")
    cap = capped(copies, limit, cap)
    rate = copies * cap
    return Transfer(copies, cap, rate, size_bytes * 8 / rate)


def intervals(
    seconds: float, *, overhead: float, nodes: int = 1, node_hours: float | None = None
) -> Intervals:
    """How often to write a checkpoint that takes ``seconds``, during which no work is done.

    Args:
        seconds: how long one takes.
        overhead: the share of the time that checkpoints may take, above 0 and below 1.
        nodes: nodes of the job; a failure of any one ends it.
        node_hours: mean time between failures of one node, hours.

    Raises:
        BadInput: a share outside 0 to 1, or a count or time that is not positive.
    """
    if not 0 < overhead < 1:
        raise BadInput(f"overhead {overhead:g} is not a share between 0 and 1")
    least = seconds / overhead
    for name, value in (("nodes", nodes), ("node-mtbf-hours", node_hours)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise BadInput(f"{name} {value:g} is not a positive number")
    if node_hours is None:
        return Intervals(least)
    between = node_hours * 3600 / nodes
    daly = between
    if seconds < 2 * between:
        ratio = seconds / (2 * between)
        daly = math.sqrt(2 * seconds * between) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - seconds
    return Intervals(
        least_seconds=least,
        failure_seconds=between,
        young_seconds=math.sqrt(2 * seconds * between),
        daly_seconds=daly,
        lost_share=_lost(daly, seconds, between),
    )


def _lost(work: float, seconds: float, between: float) -> float:
    """Daly's model of the wall time for an interval, without the time of a restart: the share of it
    that is no work kept; all of it where no checkpoint comes to its end."""
    try:
        wall = between * math.expm1((work + seconds) / between) / work
    except (OverflowError, ZeroDivisionError):
        return 1.0
    return 1 - 1 / wall
