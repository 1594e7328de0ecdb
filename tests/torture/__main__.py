"""Run the long attacks and print what was tried, what survived and what was lost.

    make torture ARGS="--only kills_local --scale 0.1 --seed 7"

The exit status is 1 where anything was lost, and 2 where an attack could not be tried on this
machine.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torture import Tally

# An attack: its module and function, how often `make torture` tries it, and what it does.
ATTACKS = {
    "kills_local": ("torture.kills:local", 100, "controller killed at a benchmark's start, local"),
    "kills_ssh": ("torture.kills:ssh", 100, "the same by ssh, to an sshd of its own"),
    "kills_beside": ("torture.kills:beside", 100, "the same of a case beside another task, by ssh"),
    "kills_slurm": ("torture.kills:slurm", 100, "the same, as a job of a Slurm of its own"),
    "kills_stand_ins": ("torture.kills:stand_ins", 100, "the same, Slurm's commands stand-ins"),
    "patterns": (
        "torture.patterns:floods",
        1000,
        "each regular expression, on floods of each of its repetitions",
    ),
    "mutated_outputs": (
        "torture.mutations:mutated_outputs",
        1_000_000,
        "recorded outputs of tools, damaged, put to their parsers",
    ),
    "hostile_records": (
        "torture.hostile:records",
        1000,
        "hostile records, packed files and folders, through every command",
    ),
    "full_disk": (
        "torture.full_disk:operations",
        12,
        "each write refused: full, read-only, EIO, EDQUOT",
    ),
    "kills_anywhere": (
        "torture.anywhere:kills",
        200,
        "controller, worker, module, driver or node killed; then resumed",
    ),
    "kills_repair": (
        "torture.repair:killed",
        500,
        "repairs of faults of each category of Azure's, killed at each step",
    ),
    "reports": (
        "torture.repair:reports",
        12,
        "a fault in a node's log, reported by the commands of docs/guides/cases.md",
    ),
    "healthy_nodes": (
        "torture.healthy:node_days",
        10_000,
        "days of healthy nodes with noise, and faults: who is drained",
    ),
    "clock": ("torture.clock:moves", 60, "the clock a day back or on, amid and between runs"),
    "disk_histories": ("torture.disks:histories", 1000, "random histories of local disks"),
    "environments": ("torture.environments:damage", 18, "virtual environments cut, pip killed"),
    "power_venvs": ("torture.power:venvs", 100, "power lost while packages are installed"),
    "full_roles": ("torture.full:roles", 60, "nodes without space while a role configures them"),
    "power_roles": ("torture.power:roles", 60, "power lost between two tasks of a role"),
}


def _run(name: str, scale: float, seed: int) -> Tally:
    place, count, _ = ATTACKS[name]
    module, _, function = place.partition(":")
    attack = getattr(importlib.import_module(module), function)
    tally: Tally = attack(max(1, round(count * scale)), seed)
    return tally


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n\n", maxsplit=1)[0],
        epilog="\n".join(f"  {name:18} {one[1]:>8} x {one[2]}" for name, one in ATTACKS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=ATTACKS, default=list(ATTACKS), metavar="NAME")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="part of the counts (0.1: a tenth)"
    )
    parser.add_argument("--seed", type=int, default=1, help="the same seed tries the same again")
    given = parser.parse_args()
    lost = skipped = 0
    rows = []
    for name in given.only:
        print(f"{name}: {ATTACKS[name][2]}", file=sys.stderr, flush=True)
        begun = time.monotonic()
        tally = _run(name, given.scale, given.seed)
        seconds = time.monotonic() - begun
        for what in [*tally.losses, *tally.figures]:
            print(f"  {what}", file=sys.stderr, flush=True)
        lost += tally.lost
        skipped += bool(tally.skipped)
        cells = [tally.tried, tally.tried - tally.lost, tally.lost]
        said = tally.skipped or f"{seconds:.0f} s"
        rows.append(f"| {name} | {ATTACKS[name][2]} | {' | '.join(map(str, cells))} | {said} |")
    print(
        "| attack | what | tried | survived | lost | took |\n| --- | --- | --- | --- | --- | --- |"
    )
    print("\n".join(rows))
    if lost:
        return 1
    return 2 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
