"""A GROMACS benchmark as a case: what may be asked for, and whether the run was as asked."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional

from .errors import BadInput
from .parsers.gromacs import GromacsOutput

__all__ = ["OFFLOAD", "Settings", "command", "judge", "settings"]

# mdrun's options for what runs on a GPU, in its own order.
OFFLOAD = ("nb", "pme", "bonded", "update")

# The cut-offs are 0.9 nm and the pair list reaches further: a smaller box would see itself.
_SMALLEST_BOX = 2.4
_LARGEST_BOX = 60.0
# The counters are reset when that part of the steps is done: then mdrun has settled.
_DEFAULT_RESET = 0.5
_FEWEST_STEPS = 100


@dataclass(frozen=True)
class Settings:
    """One run of mdrun.

    Attributes:
        tpr, sha256: the input file and its sum; empty for water.
        water_box: edge of the box of water in nm; 0 for an input file.
        reset_step: time is counted from it.
        offload: for each of OFFLOAD: auto, cpu or gpu.
    """

    tpr: str
    sha256: str
    water_box: float
    ranks: int
    threads: int
    steps: int
    reset_step: int
    offload: Mapping[str, str]
    pin: str
    tune_pme: bool

    @property
    def case(self) -> str:
        """The case's name: problem and layout, stable from run to run."""
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", os.path.splitext(os.path.basename(self.tpr))[0])
        what = f"water{self.water_box:g}nm" if self.water_box else (stem.strip("._-") or "tpr")
        placed = [f"{n}_{self.offload[n]}" for n in OFFLOAD if self.offload[n] != "auto"]
        layout = f"r{self.ranks}t{self.threads}"
        return "-".join([what, layout, *placed])

    def parameters(self) -> Dict[str, Any]:
        """What a record says of what was asked for."""
        return {
            "tpr": os.path.basename(self.tpr),
            "sha256_asked": self.sha256,
            "water_box_nm": self.water_box,
            "layout": f"{self.ranks}x{self.threads}",
            "steps": self.steps,
            "reset_step": self.reset_step,
            "pin": self.pin,
            "tune_pme": self.tune_pme,
            **{f"{name}_asked": self.offload[name] for name in OFFLOAD},
        }


def settings(given: Mapping[str, Any], *, cpus: int) -> Settings:
    """What the module's parameters ask for.

    Args:
        given: the module's parameters.
        cpus: that the run may use.

    Raises:
        BadInput: naming the parameter that is wrong.
    """
    tpr, sha256, box = given["tpr"] or "", (given["tpr_sha256"] or "").lower(), given["water_box"]
    _require_input(tpr, sha256, box)
    for name in ("ranks", "threads_per_rank"):
        if given[name] < 1:
            raise BadInput(f"{name} {given[name]} is not at least 1")
    ranks, threads = given["ranks"], given["threads_per_rank"]
    # mdrun only warns, and its ranks wait for each other busily: minutes for what takes a second.
    if ranks * threads > cpus:
        raise BadInput(f"{ranks} ranks x {threads} threads are more than the {cpus} CPUs there are")
    steps, reset = given["steps"], given["reset_step"]
    if steps < _FEWEST_STEPS:
        raise BadInput(f"steps {steps} are below {_FEWEST_STEPS}: nothing is measured in so few")
    if reset < 0:
        reset = int(steps * _DEFAULT_RESET)
    if reset >= steps:
        raise BadInput(f"reset_step {reset} is not before the end at {steps} steps")
    if not given["drift_allowed"] > 0:
        raise BadInput(f"drift_allowed {given['drift_allowed']} is not a positive energy")
    offload = {name: given[name] for name in OFFLOAD}
    # mdrun's own rule, said before anything is built.
    if offload["nb"] == "cpu" and "gpu" in offload.values():
        raise BadInput("nb is cpu: pme, bonded and update can be on a GPU only where nb is")
    return Settings(
        tpr=tpr,
        sha256=sha256,
        water_box=box,
        ranks=ranks,
        threads=threads,
        steps=steps,
        reset_step=reset,
        offload=offload,
        pin=given["pin"],
        tune_pme=given["tune_pme"],
    )


def _require_input(tpr: str, sha256: str, box: float) -> None:
    """One input, and a whole one."""
    if bool(tpr) == bool(box):
        raise BadInput("give either tpr with tpr_sha256, or water_box, the edge of a box in nm")
    if tpr and not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise BadInput(f"tpr_sha256 {sha256!r} is no sha256: sha256sum {tpr} prints it")
    if sha256 and not tpr:
        raise BadInput("tpr_sha256 is of an input file, and water_box builds one: leave it out")
    if box and not _SMALLEST_BOX <= box <= _LARGEST_BOX:
        raise BadInput(
            f"water_box {box:g} nm is not between {_SMALLEST_BOX:g} (the cut-offs) and "
            f"{_LARGEST_BOX:g} nm"
        )


def command(
    chosen: Settings, *, python: str, driver: str, program: str, mpirun: str, folder: str
) -> List[str]:
    """The argv: the driver, which builds the input, runs mdrun and prints its log."""
    argv = [python, driver, "--program", program, "--mpirun", mpirun, "--folder", folder]
    if chosen.tpr:
        argv += ["--tpr", chosen.tpr, "--sha256", chosen.sha256]
    else:
        argv += ["--water-box", f"{chosen.water_box:g}"]
    argv += ["--ranks", str(chosen.ranks), "--threads", str(chosen.threads)]
    argv += ["--steps", str(chosen.steps), "--reset-step", str(chosen.reset_step)]
    argv += ["--pin", chosen.pin, *(["--tune-pme"] if chosen.tune_pme else [])]
    for name in OFFLOAD:
        argv += [f"--{name}", chosen.offload[name]]
    return argv


def judge(output: GromacsOutput, chosen: Settings, *, drift_allowed: float) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None.

    Args:
        drift_allowed: of the conserved energy, kJ/mol/ps per atom.
    """
    reason = _not_as_asked(output, chosen)
    if reason:
        return reason
    if output.unsettled:
        return f"constraints did not hold: {output.unsettled[0]}"
    if output.drift is None:
        return "the log has no energies, so that their drift is not known: set nstlog in the input"
    if abs(output.drift) > drift_allowed:
        return (
            f"the conserved energy drifts by {output.drift:.3g} kJ/mol/ps per atom, and "
            f"{drift_allowed:g} are allowed"
        )
    return None


def _not_as_asked(output: GromacsOutput, chosen: Settings) -> Optional[str]:
    if not output.driver:
        return "the driver's result line is missing"
    if chosen.sha256 and output.driver["tpr_sha256"] != chosen.sha256:
        return f"{chosen.tpr} was another file when it ran: {output.driver['tpr_sha256']}"
    if output.ranks != chosen.ranks:
        return f"{output.ranks} ranks ran instead of {chosen.ranks}"
    if output.threads != chosen.threads:
        return f"{output.threads} threads ran in a rank instead of {chosen.threads}"
    if output.steps_done != chosen.steps:
        why = f" ({output.stopped})" if output.stopped else ""
        return f"{output.steps_done} of {chosen.steps} steps were done{why}"
    if output.steps_timed != chosen.steps - chosen.reset_step + 1:
        return f"{output.steps_timed} steps were timed: the counters were not reset as asked"
    for name in OFFLOAD:
        asked, ran = chosen.offload[name], output.offload[name]
        if asked == "cpu" and ran != "cpu":
            return f"{name} ran on a GPU, and the CPU was asked for"
        if asked == "gpu" and ran == "cpu":
            return f"{name} ran on the CPU, and a GPU was asked for"
    return None
