"""What `trueup read` costs over 200 MB before a table: of other programs' lines, and of NCCL's log.

A process of its own reads it, as a user's does: less than 300 MB of memory, and less CPU time than
MOST_RATIO times what Python takes to decode and split the same file into lines. Measured on 2 cores
under load: 54 MB, 4.4 times (3.6 s); of NCCL's log 47 MB, 4.2 to 5.3 times (3.8 s). A parser that
is given every line takes 1070 to 1700 MB, and 29 times.

    make bench ARGS="-s -k read"
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
BYTES = 200_000_000
MOST_MEGABYTES = 300
MOST_RATIO = 8
TABLE = ROOT / "tests" / "data" / "nccl" / "nvlink.txt"
SPLIT = "import sys; len(open(sys.argv[1], encoding='utf-8').read().splitlines())"
# Its own peak: what the kernel tells the parent is never below the parent's own.
READ = """
import sys
from trueup_analysis.cli import main
try:
    main()
finally:
    status = open("/proc/self/status").read()
    sys.stderr.write(status.partition("VmHWM:")[2].split()[0])
"""


def spent(*argv: str) -> tuple[float, str]:
    """CPU seconds of one process of Python, and its standard error."""
    path = os.pathsep.join(str(ROOT / name) for name in ("module_utils", "analysis"))
    environment = {**os.environ, "PYTHONPATH": path}
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", *argv], env=environment, capture_output=True, text=True, check=True
    )
    after = os.times()
    used = after.children_user + after.children_system
    return used - before.children_user - before.children_system, done.stderr


FRONTS = {
    "other": "2026-11-22T19:00:00 node-{:04d} worker[7]: loaded shard {} of the set in 1.5 ms\n",
    "nccl": "gpu-{:04d}:4000:4100 [0] NCCL INFO AllReduce: opCount {} datatype 7 op 0 root 0\n",
    "channels": "gpu-{0:04d}:4000:4100 [0] NCCL INFO Channel 00/0 : {0}[0] -> 9[1] via P2P\n",
}


@pytest.mark.parametrize("front", FRONTS)
def test_a_long_front_costs_little_to_read(
    tmp_path: Path, record_property: Any, front: str
) -> None:
    log = tmp_path / "job.log"
    some = "".join(FRONTS[front].format(number % 600, number) for number in range(10_000))
    log.write_text(some * (BYTES // len(some) + 1) + TABLE.read_text(encoding="utf-8"))
    split, _ = spent(SPLIT, str(log))
    seconds, said = spent(READ, "read", str(log))
    megabytes = int(said.split()[-1]) / 1e3
    print(f"\n200 MB before a table: {seconds:.1f} s of CPU, {megabytes:.0f} MB; ", end="")
    print(f"{seconds / split:.1f} times reading and splitting ({split:.1f} s)")
    record_property("ratio", seconds / split)
    assert megabytes < MOST_MEGABYTES
    assert seconds < MOST_RATIO * split
