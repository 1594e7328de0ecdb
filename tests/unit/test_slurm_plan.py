"""The role slurm, planned: a hook that runs. What it plans is in tests/data/plans."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from helpers import parametrized
from slurm_hosts import HEALTH, contents, values

if TYPE_CHECKING:
    from pathlib import Path


@parametrized(("gpus", "status", "message"))
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
