"""Random histories of local disks against real mdadm (nvme_histories.py says how)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from torture import Tally

PROGRAM = Path(__file__).parents[1] / "nvme_histories.py"


def histories(count: int, seed: int) -> Tally:
    tally = Tally()
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--count", str(count), "--seed", str(seed)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    ends = [one for one in told if "histories" in one]
    if not ends or (done.returncode and not ends[-1]["wrong"]):
        tally.skipped = f"the machine of user-mode Linux ended with status {done.returncode}"
        return tally
    tally.tried, tally.lost = ends[-1]["histories"], ends[-1]["wrong"]
    tally.losses = [f"seed {one['seed']}: {one['wrong']}" for one in told if "seed" in one]
    tally.figures.append(f"decided: {ends[-1]['said']}")
    return tally
