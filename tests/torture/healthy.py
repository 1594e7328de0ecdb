"""Node-days of healthy nodes with their noise, of which none may be drained; and planted faults,
which one check must drain (tests/simulated_nodes.py)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from torture import Tally

ROOT = Path(__file__).parents[2]


def node_days(count: int, seed: int) -> Tally:
    folders = ("tests", "module_utils", "controller", "analysis")
    sys.path[:0] = [str(ROOT / folder) for folder in folders]
    import simulated_nodes

    with tempfile.TemporaryDirectory(prefix="trueup-nodes-") as folder:
        done = simulated_nodes.trial(count, max(1, count // 10), seed, Path(folder))
    tally = Tally(tried=done.node_days + done.planted)
    tally.losses = [f"{sentence} (seed {seed})" for sentence in [*done.drained, *done.missed]]
    tally.lost = len(tally.losses)
    mended = f"{done.given_back} nodes given back at the check after their mend"
    tally.figures = [
        f"{done.node_days} healthy node-days: {len(done.drained)} drained, {done.warned} warned of",
        f"{done.planted} faults: {len(done.missed)} not drained by one check; {mended}",
    ]
    return tally
