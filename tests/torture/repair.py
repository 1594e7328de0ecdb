"""Repairs of planted faults of each of Azure's categories, their controller killed at every kind of
point; the emulated cloud and the nodes' state say what was done."""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

from torture import Tally

ROOT = Path(__file__).parents[2]
MOST_SECONDS = 60


def killed(count: int, seed: int) -> Tally:
    tally = Tally()
    folders = ("tests", "module_utils", "controller", "analysis")
    sys.path[:0] = [str(ROOT / folder) for folder in folders]
    import repair_loop

    total: Counter[str] = Counter()
    seconds: list[float] = []
    with (
        repair_loop.cloud_process(count) as connection,
        tempfile.TemporaryDirectory(prefix="trueup-repair-") as folder,
    ):
        for label, figures, problems in repair_loop.campaign(Path(folder), count, seed, connection):
            total.update(figures)
            if figures["reports"]:
                seconds.append(figures["report_milliseconds"] / 1000)
            if problems:
                tally.lose(f"{label} (seed {seed}): {'; '.join(problems)}")
            else:
                tally.survived()
    tally.figures.append(
        f"{total['kills']} kills, {total['reports']} reports, {total['closed']} cases closed"
    )
    median = statistics.median(seconds)
    tally.figures.append(
        f"from a planted fault to its report: median {median:.1f} s, kills included"
    )
    if median >= MOST_SECONDS:
        tally.lose(f"the median is not below {MOST_SECONDS} s")
    return tally
