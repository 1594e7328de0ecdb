"""dcgmi diag as a case: its options, its command, and whether a run counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, List, Mapping, Optional, Sequence

from ...errors import ParseError
from ...options import ModuleOption, Option, RoleOption
from ...run import process
from .output import DEPLOYMENT, DcgmOutput, parse_dcgm

# The test that computes: products of matrices in fp64, fp32 and fp16. It is in levels 3 and 4.
ARITHMETIC = "diagnostic"
ARITHMETIC_LEVEL = 3
# Time limit of each level in seconds. NVIDIA's user guide gives level 2 some 2 minutes, level 3 up
# to 30 minutes and level 4 up to 2 hours on 8 GPUs.
LIMITS = {1: 300, 2: 900, 3: 3600, 4: 10800}
# dcgmi stops the diagnostic in its host engine on SIGTERM alone, which comes this much earlier.
_STOP_SECONDS = 30
LEAST_LIMIT = 60
_MOST_REASONS = 5

OPTIONS = (
    Option("program", "The program dcgmi.", "dcgmi"),
    Option(
        "level",
        "Level of the diagnostic: 1 takes seconds, 2 some minutes, 3 up to half an hour, 4 hours.",
        2,
        why="Level 3 loads power and cooling for 15 minutes and more: ask for it.",
        least=1,
        most=4,
    ),
    RoleOption(
        "arithmetic_seconds",
        "Time in seconds of DCGM's test diagnostic, which computes matrix products, as a case"
        " beside level 1 or 2; levels 3 and 4 contain it. 0: no such case.",
        60,
        why="DCGM's own default is 180 s.",
    ),
    ModuleOption(
        "test_seconds",
        "Time in seconds of the test diagnostic, which is then run instead of the level.",
        0,
    ),
    RoleOption(
        "timeout_seconds",
        "Time limit of a case in seconds, 60 or more; 0: 300, 900, 3600 and 10800 for levels 1 to"
        " 4.",
        0,
    ),
    ModuleOption(
        "timeout_seconds",
        "Time limit of the case in seconds; dcgmi is told to stop 30 s before.",
        LIMITS[2],
        least=LEAST_LIMIT,
    ),
)


def command(given: Mapping[str, Any]) -> List[str]:
    """dcgmi's argv."""
    which = ["-r", str(given["level"])]
    if given["test_seconds"]:
        which = ["-r", ARITHMETIC, "-p", f"{ARITHMETIC}.test_duration={given['test_seconds']}"]
    return [given["program"], "diag", *which, "-v", "-j"]


def start(argv: Sequence[str], *, timeout_seconds: float, **how: Any) -> process.Completed:
    """Run dcgmi below ``timeout``, so that it can stop the diagnostic in its host engine. Its exit
    status is not 0 where a test failed; such a run has a result."""
    stop = ["timeout", "--foreground", "--verbose", f"{timeout_seconds - _STOP_SECONDS:g}"]
    done = process.run([*stop, *argv], timeout_seconds=timeout_seconds, **how)
    done = replace(done, argv=tuple(argv))
    if done.returncode <= 0 or done.timed_out or done.reason:
        return done
    try:
        failed = parse_dcgm(done.stdout).failed
    except ParseError:
        return done
    return replace(done, returncode=0) if failed else done


def judge(output: DcgmOutput, gpus: int, given: Mapping[str, Any]) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None."""
    failed = output.failed
    if failed:
        texts = [f"{row.test} failed{str(row)[len(row.test) :]}" for row in failed[:_MOST_REASONS]]
        more = [f"{len(failed) - _MOST_REASONS} more"] if len(failed) > _MOST_REASONS else []
        return "; ".join(texts + more)
    if output.gpu_count != gpus:
        return f"{output.gpu_count} GPUs were tested instead of {gpus}"
    if given["test_seconds"] == 0 and given["level"] == 1:
        return None
    hardware = [row for row in output.results if row.category != DEPLOYMENT]
    for number in output.gpus:
        rows = [row for row in hardware if row.device == f"gpu{number}"]
        if not any(row.status == "pass" for row in rows):
            skipped = ", ".join(f"{row.status}: {row}" for row in rows) or "no test has a result"
            return f"no test of the hardware passed on gpu{number} ({skipped})"
    return None
