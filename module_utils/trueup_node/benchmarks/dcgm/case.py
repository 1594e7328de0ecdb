"""dcgmi diag and dcgmproftester as cases: options, commands, and whether a run counts."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...errors import ParseError
from ...options import ModuleOption, Option, RoleOption
from ...run import process
from . import proftester
from .output import DEPLOYMENT, PROGRAM, DcgmOutput, parse_dcgm

DCGMI = "dcgmi"
# The test that computes: products of matrices in fp64, fp32 and fp16. It is in levels 3 and 4.
ARITHMETIC = "diagnostic"
ARITHMETIC_LEVEL = 3
# The load of the tensor cores, products of fp16 matrices.
STRESS = "stress"
# A rate is printed a second; its report takes a moment.
_LEAST_RATES_A_SECOND = 0.8
# Time limit of each level in seconds. NVIDIA's user guide gives level 2 some 2 minutes, level 3 up
# to 30 minutes and level 4 up to 2 hours on 8 GPUs.
LIMITS = {1: 300, 2: 900, 3: 3600, 4: 10800}
# dcgmi stops the diagnostic in its host engine on SIGTERM alone, which comes this much earlier.
_STOP_SECONDS = 30
LEAST_LIMIT = 60
_MOST_REASONS = 5

OPTIONS = (
    ModuleOption("program", "The program dcgmi; of thermal stress dcgmproftester.", DCGMI),
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
        "stress_program",
        "The program dcgmproftester. Empty: dcgmproftester13, 12 or 11, the first that the node"
        " has; the number is the driver's version of CUDA.",
        "",
    ),
    Option(
        "stress_seconds",
        "Time in seconds of thermal stress, a case of its own: dcgmproftester loads the tensor"
        " cores of all GPUs at once. 0: no such case.",
        0,
        why="Azure's own thermal test takes 900 s; it heats the node, so ask for it.",
    ),
    RoleOption(
        "timeout_seconds",
        "Time limit of a case in seconds, 60 or more; 0: 300, 900, 3600 and 10800 for levels 1 to"
        " 4, and 300 more than the stress takes.",
        0,
    ),
    ModuleOption(
        "timeout_seconds",
        "Time limit of the case in seconds; dcgmi is told to stop 30 s before.",
        LIMITS[2],
        least=LEAST_LIMIT,
    ),
)


def test_of(given: Mapping[str, Any]) -> Dict[str, Any]:
    """The parameters of a case."""
    for name, option in ((STRESS, "stress_seconds"), (ARITHMETIC, "test_seconds")):
        if given[option]:
            program = proftester.PROGRAM if name == STRESS else PROGRAM
            return {"test": name, "test_seconds": given[option], "program": program}
    return {"level": given["level"], "program": PROGRAM}


def command(parameters: Mapping[str, Any]) -> List[str]:
    """The program's argv. dcgmproftester runs as in Azure/ai-infrastructure-on-azure@a01b073
    infrastructure_validations/slurm/thermal_test/thermal_test.sh: all GPUs at once."""
    if parameters["stress_seconds"]:
        load = ["-t", str(proftester.FIELD), "-d", str(parameters["stress_seconds"])]
        return [parameters["program"], "--no-dcgm-validation", "--max-processes", "0", *load]
    which = ["-r", str(parameters["level"])]
    if parameters["test_seconds"]:
        which = ["-r", ARITHMETIC, "-p", f"{ARITHMETIC}.test_duration={parameters['test_seconds']}"]
    return [parameters["program"], "diag", *which, "-v", "-j"]


def start(argv: Sequence[str], *, timeout_seconds: float, **how: Any) -> process.Completed:
    """Run the program below ``timeout``, so that dcgmi can stop the diagnostic in its host engine.
    The exit status is not 0 where a test failed; such a run has a result. dcgmproftester writes a
    log where it runs: a folder that is removed."""
    stop = ["timeout", "--foreground", "--verbose", f"{timeout_seconds - _STOP_SECONDS:g}"]
    with tempfile.TemporaryDirectory(prefix="trueup-dcgm-") as folder:
        done = process.run([*stop, *argv], timeout_seconds=timeout_seconds, cwd=folder, **how)
    done = replace(done, argv=tuple(argv))
    if done.returncode <= 0 or done.timed_out or done.reason:
        return done
    try:
        failed = parse_dcgm(done.stdout).failed
    except ParseError:
        return done
    return replace(done, returncode=0) if failed else done


def judge(output: DcgmOutput, gpus: int, parameters: Mapping[str, Any]) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None."""
    failed = output.failed
    if failed:
        texts = [f"{row.test} failed{str(row)[len(row.test) :]}" for row in failed[:_MOST_REASONS]]
        more = [f"{len(failed) - _MOST_REASONS} more"] if len(failed) > _MOST_REASONS else []
        return "; ".join(texts + more)
    if output.gpu_count != gpus:
        return f"{output.gpu_count} GPUs were tested instead of {gpus}"
    if parameters["stress_seconds"]:
        return _stopped_early(output, parameters["stress_seconds"])
    if parameters["test_seconds"] == 0 and parameters["level"] == 1:
        return None
    hardware = [row for row in output.results if row.category != DEPLOYMENT]
    for number in output.gpus:
        rows = [row for row in hardware if row.device == f"gpu{number}"]
        if not any(row.status == "pass" for row in rows):
            skipped = ", ".join(f"{row.status}: {row}" for row in rows) or "no test has a result"
            return f"no test of the hardware passed on gpu{number} ({skipped})"
    return None


def _stopped_early(output: DcgmOutput, seconds: int) -> Optional[str]:
    counts = {row.device: row.n or 0 for row in output.rates if row.name == proftester.RATE}
    for number in output.gpus:
        count = counts.get(f"gpu{number}", 0)
        if count < seconds * _LEAST_RATES_A_SECOND - 1:
            return f"gpu{number} has rates of {count} s instead of {seconds}"
    return None
