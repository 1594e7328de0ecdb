"""From a checkpoint's figures to a sheet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import units
from .sheet import Column, Sheet, unshown

if TYPE_CHECKING:
    from ..figures.checkpoint import Intervals, Transfer

_HOUR = 3600


def checkpoint(size_bytes: float, sent: Transfer, overhead: float, intervals: Intervals) -> Sheet:
    """One figure a row."""
    cap, rate = sent.cap_bits_per_second, sent.rate_bits_per_second
    least = f"at least from one to the next, for {overhead:.1%} of the time"
    rows = [
        _row("size", "checkpoint", size_bytes, "byte", f"{size_bytes / 1e9:g}", "GB"),
        _row("copies", "copies at the same time", sent.copies, "1", str(sent.copies)),
        _row("cap", "cap of each", cap, "bit/s", f"{cap / 1e6:g}", "Mb/s"),
        _row("rate", "all of them together", rate, "bit/s", f"{rate / 1e9:g}", "Gb/s"),
        _time("checkpoint_time", "one checkpoint takes", sent.seconds),
        _time("least_interval", least, intervals.least_seconds),
    ]
    if intervals.failure_seconds is not None:
        lost = intervals.lost_share
        share_text = "all of it" if lost == 1 else units.percent(lost, 1)
        label = "lost at that, to checkpoints and work done again"
        rows += [
            _time("failure_interval", "between failures of the job", intervals.failure_seconds),
            _time("young_interval", "best work between two (Young)", intervals.young_seconds),
            _time("daly_interval", "best work between two (Daly)", intervals.daly_seconds),
            _row("lost_share", label, lost, "1", share_text),
        ]
    return Sheet(
        title="Checkpoints to Blob",
        columns=[
            Column("name"),
            Column("what", "figure", words=True),
            *unshown("value", "base_unit"),
            Column("shown", "value", data=False),
            Column("unit", "unit", words=True, data=False),
        ],
        rows=rows,
        notes=[
            "No work is done while a checkpoint is written; a restart's own time is not counted."
        ],
        facts={"kind": "checkpoint"},
    )


def _row(
    name: str, label: str, value: Any, base_unit: str, text: str, unit: str = ""
) -> dict[str, Any]:
    keys = ("name", "what", "value", "base_unit", "shown", "unit")
    return dict(zip(keys, (name, label, value, base_unit, text, unit), strict=True))


def _time(name: str, label: str, seconds: float | None) -> dict[str, Any]:
    if seconds is not None and seconds >= _HOUR:
        return _row(name, label, seconds, "s", f"{seconds / _HOUR:.2f}", "h")
    return _row(name, label, seconds, "s", units.seconds(seconds), "s")
