"""``trueup`` alone: the next commands for the files in the folder."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from trueup_node.record import run_counts

from ..catalog import MEASURE
from ..units import text
from .records import RESULTS

# Ends of names that logs have.
_LOGS: Final = (".log", ".out", ".txt")
_FEW: Final = 3


def next_commands(folder: Path) -> str:
    """A sentence on the folder, and three commands, each with its answer."""
    results = folder / RESULTS
    runs = list(run_counts(str(results)))
    names = sorted(
        path.name for path in folder.iterdir() if path.suffix in _LOGS and path.is_file()
    )
    logs = [shlex.quote(text(name)) for name in names]
    if len(runs) > 1:
        state = f"{results} holds {len(runs):,} runs, the last of them {runs[-1]}."
        commands = [
            ("trueup compare", "what changed since the run before"),
            ("trueup health", "each node against the limits of its size"),
            ("trueup report", "one page of everything"),
        ]
    elif runs:
        state = f"{results} holds one run, {runs[0]}."
        commands = [
            ("trueup health", "each node against the limits of its size"),
            ("trueup cost --region eastus", "US$ of each run and by unit of work"),
            ("trueup report", "one page of everything"),
        ]
    elif logs:
        state = f"No results here; {len(logs):,} files may be logs ({', '.join(logs[:_FEW])})."
        commands = [
            (f"trueup read {logs[0]}", "the figures of a tool's output"),
            (f"trueup import {logs[0]}", "a record of it, for health, cost and report"),
            ("trueup advise", "which VM size for which work"),
        ]
    else:
        state = f"No results here: {MEASURE}, or import logs."
        commands = [
            ("trueup read LOG", "the figures of a tool's output"),
            ("trueup import LOGS", "records of them, for health, cost and report"),
            ("trueup sizes --gpu H100", "VM sizes and their prices"),
        ]
    width = max(len(command) for command, _ in commands)
    lines = [f"    {command:{width}}  # {answer}" for command, answer in commands]
    return "\n".join([state, "Next:", *lines, "`trueup --help` lists all commands.", ""])
