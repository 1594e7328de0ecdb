"""The role slurm, planned: a hook that runs. What it plans is in tests/data/plans."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from slurm_hosts import HEALTH, contents, values

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("gpus", "status", "message"),
    [
        (None, 1, "7 of 8 GPUs answer (nvidia-smi)"),
        ("0,1", 0, ""),
        ("0-3,5", 0, ""),
        ("2,7", 1, "1 of 2 GPUs answer (nvidia-smi -i 2,7)"),
        ("6-7", 1, "1 of 2 GPUs answer (nvidia-smi -i 6,7)"),
    ],
)
def test_before_a_job_its_gpus_alone_are_asked(
    tmp_path: Path, gpus: str | None, status: int, message: str
) -> None:
    """A stand-in of nvidia-smi on a node whose GPU 7 does not answer."""
    health = (contents(values("nd"))[HEALTH] or "").partition("found=0\n")[0]
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        '#!/bin/sh\nif [ "$1" = -i ]; then asked=$2; shift 2; else asked=0,1,2,3,4,5,6,7; fi\n'
        '[ "$*" = "--query-gpu=uuid --format=csv,noheader" ] || exit 9\n'
        'for gpu in $(echo "$asked" | tr , " "); do [ "$gpu" = 7 ] || echo "GPU-$gpu"; done\n'
    )
    smi.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", **({"SLURM_JOB_GPUS": gpus} if gpus else {})}
    done = subprocess.run(
        ["sh", "-c", health], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (status, message, "")
