"""Stops of a job by failures and evictions, the checkpoints that keep its work, and the time that
both cost.

Sources: as of module figures.checkpoint. Young's and Daly's interval takes the time of a
checkpoint, which is its bytes over the write rate of the storage, and the mean time between stops.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.errors import BadInput
from trueup_node.options import Option

from ..checkpoint import intervals, transfer
from .services import read_services

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .knowledge import Knowledge

_HOUR: Final = 3600
# Evictions of a node an hour where no rate of its size and region is known. Ours, not measured.
ASSUMED_EVICTIONS: Final = 0.05
_BLOB: Final = "blob"
# Eight copies of 2300 Mb/s each, below the 20 Gb/s that one storage account takes in (module
# figures.checkpoint).
_COPIES, _COPY_BITS, _ACCOUNT_BITS = 8, 2.3e9, 20e9
_LEVELS: Final = {
    "standard": "Standard",
    "premium": "Premium",
    "ultra": "Ultra",
    **{f"lustre-{rate}": f"AMLFS-Durable-Premium-{rate}" for rate in (40, 125, 250, 500)},
}
_MB: Final = 1e6
_GIB: Final = 2**30

OPTIONS: Final = (
    Option(
        "spot_evictions_per_hour",
        "How often each spot node is taken away, 1/h (0.05: one of 20 in an hour); else the rate of"
        " its size and region by `trueup prices spot`, else 0.05.",
        type="float",
        most=10,
    ),
    Option(
        "node_mtbf_hours",
        "Mean hours between failures of one node.",
        50000.0,
        type="float",
        least=1,
    ),
    Option(
        "checkpoint_seconds",
        "What one checkpoint takes; else its size over the rate of checkpoint_to. 0: none can be"
        " written, and lost work begins anew.",
        type="float",
    ),
    Option(
        "checkpoint_to",
        "Where checkpoints go: Blob storage, a level of Azure NetApp Files, or Managed Lustre.",
        _BLOB,
        choices=(_BLOB, *_LEVELS),
    ),
    Option(
        "checkpoint_tib",
        "TiB of that file system, on which its rate depends; else the smallest that is sold.",
        type="float",
        least=0.1,
        most=12800,
    ),
    Option(
        "restart_minutes",
        "Minutes until a lost node is replaced and the work goes on (ours, not measured).",
        15.0,
        type="float",
        most=1440,
    ),
)
NAMES: Final = tuple(option.name for option in OPTIONS)


class Checkpoint(NamedTuple):
    """One checkpoint of a job.

    Attributes:
        seconds: how long it takes; 0 where none can be written.
        words: its size and where it goes, for a reader.
    """

    seconds: float
    words: str


class Evictions(NamedTuple):
    """Evictions of a spot node, 1/h, and the source of the rate.

    Attributes:
        known: whether the user or Azure says it for this size and region.
    """

    per_hour: float
    source: str
    known: bool


def evictions(ask: Mapping[str, Any], knowledge: Knowledge, size: str, region: str) -> Evictions:
    """The eviction rate of a size in a region."""
    if ask["spot_evictions_per_hour"] is not None:
        return Evictions(ask["spot_evictions_per_hour"], "yours", known=True)
    rate = knowledge.evictions.get((size.lower(), region))
    if rate is None:
        return Evictions(ASSUMED_EVICTIONS, "assumed, not known", known=False)
    band = f"{rate.low:g} to {rate.high:g} % an hour"
    return Evictions(rate.per_hour, f"{band} ({rate.source}, {rate.date})", known=True)


def checkpoint(ask: Mapping[str, Any], state: float, knowledge: Knowledge) -> Checkpoint:
    """The checkpoint of a job.

    Args:
        state: bytes that it has; 0 where they are not known.

    Raises:
        BadInput: a size of the file system that is not sold.
    """
    if ask["checkpoint_seconds"] is not None:
        seconds = ask["checkpoint_seconds"]
        return Checkpoint(seconds, f"yours, {seconds:g} s" if seconds else "none, as you say")
    if not state:
        return Checkpoint(0.0, "none: the size of its state is not known")
    rate, place = _write_rate(ask, knowledge)
    return Checkpoint(state / rate, f"{state / _GIB:.3g} GiB to {place}")


def _write_rate(ask: Mapping[str, Any], knowledge: Knowledge) -> tuple[float, str]:
    """Bytes/s of the storage of checkpoints, and its name."""
    target = ask["checkpoint_to"]
    if target == _BLOB:
        copied = transfer(1.0, copies=_COPIES, limit=_ACCOUNT_BITS, cap=_COPY_BITS)
        rate = copied.rate_bits_per_second / 8
        return rate, f"Blob storage at {rate / _MB:,.0f} MB/s"
    services = knowledge.once("services", lambda: read_services(knowledge.folder))
    level = next(
        level for row in services.storage for level in row.levels if level.name == _LEVELS[target]
    )
    tib = ask["checkpoint_tib"] or level.least_tib
    if not level.least_tib <= tib <= level.most_tib:
        raise BadInput(
            f"checkpoint_tib is {tib:g}: {target} is sold from {level.least_tib:g} to"
            f" {level.most_tib:g} TiB"
        )
    rate = tib * level.mb_s_per_tib * _MB
    return rate, f"{level.name} of {tib:g} TiB at {rate / _MB:,.0f} MB/s"


class Loss(NamedTuple):
    """The time that stops cost.

    Attributes:
        share: of the whole time, to checkpoints, lost work and restarts.
        interval: seconds between checkpoints; 0 where none are written.
    """

    share: float
    interval: float


def loss(seconds: float, per_hour: float, each: Checkpoint, restart_minutes: float) -> Loss:
    """The loss of a job of so many seconds that is stopped so often.

    Without checkpoints a stop begins it anew: the expected time is ``(exp(r t) - 1) (1/r + R)``
    with the time R of a restart. With them it is Daly's, whose restart reads the checkpoint back;
    or the former where the job is shorter than his interval.
    """
    if per_hour <= 0:
        return Loss(0.0, 0.0)
    restart = restart_minutes / 60
    work = seconds / _HOUR * per_hour
    anew = 1.0
    if work < 700:
        anew = 1 - work / (math.expm1(work) * (1 + per_hour * restart))
    if not each.seconds:
        return Loss(anew, 0.0)
    daly = intervals(each.seconds, overhead=0.5, nodes=1, node_hours=1 / per_hour)
    stopped = per_hour * (restart + each.seconds / _HOUR)
    kept = (1 - (daly.lost_share or 0.0)) * math.exp(-stopped)
    return Loss(anew, 0.0) if anew <= 1 - kept else Loss(1 - kept, daly.daly_seconds or 0.0)
