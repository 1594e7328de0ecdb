"""A GROMACS benchmark as a case: its options, and whether the run was as asked."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ...errors import BadInput
from ...options import ModuleOption, Option, RoleOption
from .output import GromacsOutput, fatal_error

# mdrun's options for the work on a GPU, in its own order.
OFFLOAD = ("nb", "pme", "bonded", "update")

# The counters are reset when that part of the steps is done: then mdrun has settled.
_DEFAULT_RESET = 0.5

# GROMACS is built for 64 OpenMP threads a rank at least.
_MOST_THREADS = 64
# Up to so many cores a rank for each is worth a run.
_MOST_SINGLE_RANKS = 16
# A domain is not smaller than the cut-off and the pair list's reach beyond it.
_NM_FOR_A_RANK = 1.2
# A smaller box would see itself.
LEAST_BOX_NM = 2.4
# SPC water as gmx solvate fills a box, and the atoms of a default box: 5000 steps take half a
# minute on any number of cores.
_ATOMS_PER_NM3 = 98.4
_ATOMS_PER_CORE = 3150
_ATOMS_PER_GPU = 250_000

_PLACES = ("auto", "cpu", "gpu")
_ELSEWHERE = "A part that ran elsewhere than asked for makes the run invalid."
OPTIONS = (
    Option(
        "prefix",
        "Folder on the node for the driver, one file.",
        "~/.local/share/trueup/gromacs",
        type="path",
    ),
    Option(
        "source",
        "Where the program comes from: system (the node's, or the distribution's package), eessi (a"
        " module of what the role eessi mounts) or container (an image).",
        "system",
        choices=("system", "eessi", "container"),
    ),
    ModuleOption(
        "eessi_init",
        "With source eessi: its file to source, init/lmod/bash of a version.",
        type="path",
    ),
    Option(
        "eessi_module",
        "With source eessi: the module to load, name and version. Of an empty one the role makes"
        " that of catalog/eessi.yml for the version, the CUDA build where the node has GPUs.",
        "",
    ),
    Option(
        "container_image",
        "With source container: an image on the node, which apptainer (.sif) or enroot (.sqsh)"
        " runs.",
        "",
        type="path",
    ),
    Option("container_sha256", "Its sha256; another file is refused.", ""),
    ModuleOption(
        "container_runtime",
        "What runs the image: apptainer (.sif) or enroot (.sqsh).",
        "apptainer",
        choices=("apptainer", "enroot"),
    ),
    Option(
        "program",
        "GROMACS' program, by name or as an absolute path: gmx, or gmx_mpi of a build with an MPI"
        " library. Where the node's own is asked for and there is no gmx, the role installs"
        " Debian's and Ubuntu's package; other distributions have none in their own repositories.",
        "gmx",
        filled=True,
    ),
    ModuleOption(
        "mpirun",
        "Launcher for a program that was built with an MPI library (gmx_mpi). One built with"
        " thread-MPI needs none.",
        "mpirun",
        filled=True,
    ),
    Option(
        "environment", "Variables for the program, such as UCX_TLS; they stand in the record.", {}
    ),
    ModuleOption(
        "directory",
        "Existing folder for the files of a run, removed at its end. Empty: the system's for"
        " temporary files.",
        "",
        type="path",
    ),
    Option(
        "tpr",
        "Input file on the node, an absolute path: a .tpr, or a .zip with one in it. Empty: what"
        " tpr_url gives, else a box of water that is built there.",
        "",
        type="path",
    ),
    Option("tpr_sha256", "Its sha256, of a .zip as it is; another file is refused.", ""),
    RoleOption(
        "tpr_url",
        "Where the input file is downloaded from, such as benchPEP-h's (docs/benchmarks/gromacs.md)"
        " or a mirror's; it needs tpr_sha256, and is kept in prefix where tpr names no path.",
        "",
    ),
    RoleOption(
        "water_box",
        "Edge in nm of the box of water, where there is no input file: 2.4 to 60. 0: the box fills"
        " the node, with about 3100 atoms for each core (4 nm on 2 cores) or 250000 for each GPU.",
        0.0,
        least=0,
        most=60,
    ),
    ModuleOption(
        "water_box",
        "Edge in nm of the box of water, where there is no input file: 4 nm are about 6300 atoms,"
        " 10 nm about 100000 atoms.",
        4.0,
        why="The cut-offs are 0.9 nm and the pair list reaches further: a smaller box than 2.4 nm"
        " would see itself.",
        least=LEAST_BOX_NM,
        most=60,
    ),
    RoleOption(
        "layouts",
        "Layouts to measure: a list of ranks and threads_per_rank, and pme_ranks where some ranks"
        " are to do PME alone. Empty: from the topology. Without GPUs all cores as one rank, a rank"
        " for each NUMA node and for each L3 group, and up to 16 cores a rank for each core; with"
        " GPUs one rank on one GPU, and one for each GPU with the cores that are its share. A box"
        " of water has too few atoms for more than (edge / 1.2 nm)^3 ranks, and gets none of these"
        " layouts.",
        [],
        elements="dict",
    ),
    ModuleOption(
        "ranks", "MPI ranks, or thread-MPI ranks where the program was built with that.", 1, least=1
    ),
    ModuleOption(
        "pme_ranks",
        "Of the ranks, how many do PME alone; -1 leaves it to mdrun. PME on a GPU with more than"
        " one rank wants 1.",
        -1,
        least=-1,
    ),
    ModuleOption("threads_per_rank", "OpenMP threads of each rank.", 1, least=1),
    *(
        Option(name, f"Where {sentence}. {_ELSEWHERE}", "auto", choices=_PLACES)
        for name, sentence in (
            ("nb", "short-ranged interactions are computed"),
            ("pme", "long-ranged electrostatics are computed"),
            ("bonded", "bonded interactions are computed"),
            ("update", "positions are updated and constrained"),
        )
    ),
    Option(
        "steps",
        "Steps of each run, whatever the input says.",
        5000,
        why="5000 of the default box take about half a minute on any number of cores.",
        least=100,
    ),
    Option(
        "reset_step",
        "Step from which time is counted, since load balancing settles in the first ones; -1 means"
        " half of the steps.",
        -1,
        least=-1,
    ),
    ModuleOption(
        "pin", "Whether mdrun pins its threads to cores.", "on", choices=("on", "off", "auto")
    ),
    Option(
        "tune_pme",
        "Let mdrun shift work between PME and short-ranged interactions while it runs, as it does"
        " by itself in production. The work then differs from run to run, and reset_step must come"
        " after the tuning (thousands of steps).",
        False,
    ),
    ModuleOption(
        "drift_allowed",
        "Drift of the conserved energy in kJ/mol/ps per atom above which a run is invalid.",
        0.005,
        why="0.005 is verlet-buffer-tolerance's default, the error that GROMACS chooses its pair"
        " list for; SPC water in mixed precision stays below 0.001.",
        least=1e-9,
    ),
    Option(
        "timeout_seconds",
        "Time limit of one case in seconds, the building of the water included.",
        1800,
        least=1,
    ),
)
# The whole driver runs in EESSI's environment: initialised once, and mpirun is that of the module.
_IN_EESSI = '. "$1" >/dev/null || exit 1; module load "$2" || exit 1; shift 2; exec "$@"'
_EESSI_INIT = re.compile(r"/.*/versions/([^/]+)/init/.+")
_LMOD_ERROR = "Lmod has detected the following error:"


@dataclass(frozen=True)
class Settings:
    """One run of mdrun.

    Attributes:
        tpr, sha256: the input file and its sum; empty for water.
        water_box: edge of the box of water in nm; 0 for an input file.
        reset_step: time is counted from it.
        offload: for each of OFFLOAD: auto, cpu or gpu.
        pme_ranks: ranks for PME alone; -1 leaves it to mdrun.
        eessi: EESSI's file to source and the module to load; empty for another source.
        image: an image's runtime, path and sha256; empty for another source.
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
    pme_ranks: int = -1
    eessi: Sequence[str] = ()
    image: Sequence[str] = ()

    @property
    def source(self) -> str:
        """Where the program comes from, whole: two of them are never the same case."""
        if self.eessi:
            return f"eessi {self.software()['eessi']} {self.eessi[1]}"
        return f"container {self.image[2]}" if self.image else "system"

    def software(self) -> Dict[str, str]:
        """A record's software besides GROMACS' own version."""
        if self.eessi:
            match = _EESSI_INIT.fullmatch(self.eessi[0])
            version = match.group(1) if match else self.eessi[0]
            return {"eessi": version, "gromacs_module": self.eessi[1]}
        return {"container_sha256": self.image[2]} if self.image else {}

    @property
    def case(self) -> str:
        """The case's name: problem and layout, stable from run to run."""
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", os.path.splitext(os.path.basename(self.tpr))[0])
        problem = f"water{self.water_box:g}nm" if self.water_box else (stem.strip("._-") or "tpr")
        placed = [f"{n}_{self.offload[n]}" for n in OFFLOAD if self.offload[n] != "auto"]
        layout = f"r{self.ranks}t{self.threads}"
        if self.tune_pme:
            placed.append("tuned")
        if self.pme_ranks >= 0:
            layout += f"p{self.pme_ranks}"
        return "-".join([problem, layout, *placed])

    def parameters(self) -> Dict[str, Any]:
        """The requested settings, as a record's parameters."""
        return {
            "tpr": os.path.basename(self.tpr),
            "sha256_asked": self.sha256,
            "water_box_nm": self.water_box,
            "layout": f"{self.ranks}x{self.threads}",
            "steps": self.steps,
            "reset_step": self.reset_step,
            "source": self.source,
            "pme_ranks_asked": self.pme_ranks,
            "pin": self.pin,
            "tune_pme": self.tune_pme,
            **{f"{name}_asked": self.offload[name] for name in OFFLOAD},
        }


def layouts(
    cores: int, *, numa: int, l3_groups: int, gpus: int, pme: str, water_box: float
) -> List[Dict[str, int]]:
    """The layouts worth measuring on a node: ranks, threads_per_rank and, on GPUs, pme_ranks.

    Args:
        numa, l3_groups: how many the cores are in; 0 where that is not known.
        gpus: that the program uses.
        pme: where long-ranged electrostatics are to be: auto, cpu or gpu.
        water_box: edge in nm; 0 for an input whose size is not known.
    """
    single = cores if cores <= _MOST_SINGLE_RANKS else 0
    counts = {1, gpus} if gpus else {1, numa, l3_groups, single}
    share = cores // gpus if gpus else 0
    candidates = []
    for ranks in sorted(counts & _ranks_of(water_box, cores)):
        threads = min(share or cores // ranks, _MOST_THREADS)
        # Uneven groups would leave cores idle.
        if threads < 1 or (cores % ranks and not share):
            continue
        layout = {"ranks": ranks, "threads_per_rank": threads}
        # PME on a GPU is one rank's work; mdrun itself leaves it on the CPU with several.
        if gpus > 1 and ranks > 1 and pme != "cpu":
            layout["pme_ranks"] = 1
        candidates.append(layout)
    return candidates


def filling(cores: int, gpus: int) -> float:
    """Edge in nm, to a tenth, of the box of water that fills a node: with as many atoms for each
    core, or for each GPU that is used, on every node."""
    atoms = _ATOMS_PER_GPU * gpus if gpus else _ATOMS_PER_CORE * max(1, cores)
    edge: float = (atoms / _ATOMS_PER_NM3) ** (1 / 3)
    return max(LEAST_BOX_NM, round(edge, 1))


def _ranks_of(water_box: float, cores: int) -> Set[int]:
    """Numbers of ranks that the input has enough atoms for."""
    most = int(water_box / _NM_FOR_A_RANK) ** 3 if water_box else cores
    return {*range(1, max(most, 1) + 1)}


def settings(parameters: Mapping[str, Any], *, cpus: Optional[int] = None) -> Settings:
    """The settings that the module's parameters ask for.

    Args:
        parameters: the module's parameters, each in its range.
        cpus: that the run may use; None where that is not known yet.

    Raises:
        BadInput: parameters that do not go together, naming them.
    """
    tpr, sha256 = _tpr(parameters)
    ranks, threads = parameters["ranks"], parameters["threads_per_rank"]
    # mdrun only warns, and its ranks wait for each other busily: a second's work takes minutes.
    if cpus is not None and ranks * threads > cpus:
        raise BadInput(f"{ranks} ranks x {threads} threads are more than the {cpus} CPUs there are")
    steps, reset = parameters["steps"], parameters["reset_step"]
    if reset < 0:
        reset = int(steps * _DEFAULT_RESET)
    if reset >= steps:
        raise BadInput(f"reset_step {reset} is not before the end at {steps} steps")
    offload = {name: parameters[name] for name in OFFLOAD}
    # mdrun's own rule, said before anything is built.
    if offload["nb"] == "cpu" and "gpu" in offload.values():
        raise BadInput("nb is cpu: pme, bonded and update can be on a GPU only where nb is")
    if parameters["pme_ranks"] >= ranks:
        raise BadInput(
            f"pme_ranks {parameters['pme_ranks']} is not -1 (mdrun's choice) to {ranks - 1}, one"
            f" less than there are ranks"
        )
    return Settings(
        tpr=tpr,
        sha256=sha256,
        water_box=0.0 if tpr else parameters["water_box"],
        ranks=ranks,
        threads=threads,
        steps=steps,
        reset_step=reset,
        offload=offload,
        pin=parameters["pin"],
        tune_pme=parameters["tune_pme"],
        pme_ranks=parameters["pme_ranks"],
        eessi=_eessi(parameters),
        image=_image(parameters),
    )


def _tpr(parameters: Mapping[str, Any]) -> Tuple[str, str]:
    tpr, sha256 = parameters["tpr"], parameters["tpr_sha256"].lower()
    if tpr and not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise BadInput(f"tpr_sha256 {sha256!r} is no sha256: sha256sum {tpr} prints it")
    if sha256 and not tpr:
        raise BadInput("tpr_sha256 is of an input file, and water_box builds one: leave it out")
    return tpr, sha256


def _eessi(parameters: Mapping[str, Any]) -> Sequence[str]:
    if parameters["source"] != "eessi":
        return ()
    init, module = parameters["eessi_init"] or "", parameters["eessi_module"]
    if not init.startswith("/") or not re.fullmatch(r"[A-Za-z0-9._+-]+/[A-Za-z0-9._+-]+", module):
        raise BadInput(
            f"source is eessi: give eessi_init {init!r} as an absolute path, and eessi_module "
            f"{module!r} as name/version"
        )
    return (init, module)


def _image(parameters: Mapping[str, Any]) -> Sequence[str]:
    if parameters["source"] != "container":
        return ()
    image, sha256 = parameters["container_image"], parameters["container_sha256"].lower()
    if not image.startswith("/") or not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise BadInput(
            f"source is container: give container_image {image!r} as an absolute path, and its "
            f"sha256 in container_sha256 ({sha256!r} is none)"
        )
    return (parameters["container_runtime"], image, sha256)


def _inside(chosen: Settings, folder: str, variables: Sequence[str]) -> List[str]:
    """The words before each program of GROMACS that run it in the image."""
    if not chosen.image:
        return []
    runtime, image, _ = chosen.image
    folders = [folder, *([os.path.dirname(chosen.tpr)] if chosen.tpr else [])]
    if runtime == "enroot":
        mounts = [argument for each in folders for argument in ("--mount", f"{each}:{each}")]
        passed = [argument for name in variables for argument in ("--env", name)]
        return ["enroot", "start", *passed, *mounts, image, "env", "--chdir", folder]
    # --nv is harmless without a GPU: it warns.
    nv = ["--nv"] if "gpu" in chosen.offload.values() else []
    binds = [argument for each in folders for argument in ("--bind", each)]
    return ["apptainer", "exec", *nv, *binds, "--pwd", folder, image]


def command(
    chosen: Settings,
    *,
    python: str,
    driver: str,
    program: str,
    mpirun: str,
    folder: str,
    variables: Sequence[str] = (),
) -> List[str]:
    """The argv: the driver, which builds the input, runs mdrun and prints its log.

    Args:
        variables: names of those that an image is to see too.
    """
    enter = ["bash", "-c", _IN_EESSI, "bash", *chosen.eessi] if chosen.eessi else []
    argv = [*enter, python, driver, "--program", program, "--mpirun", mpirun, "--folder", folder]
    if chosen.eessi:
        # EasyBuild's variable in each of its modules: else a gmx of the node could have run.
        argv += ["--below", "EBROOTGROMACS"]
    if chosen.image:
        argv += ["--image", chosen.image[1], "--image-sha256", chosen.image[2]]
        argv += [f"--inside={argument}" for argument in _inside(chosen, folder, variables)]
    if chosen.tpr:
        argv += ["--tpr", chosen.tpr, "--sha256", chosen.sha256]
    else:
        argv += ["--water-box", f"{chosen.water_box:g}"]
    argv += ["--ranks", str(chosen.ranks), "--threads", str(chosen.threads)]
    argv += ["--steps", str(chosen.steps), "--reset-step", str(chosen.reset_step)]
    argv += ["--pme-ranks", str(chosen.pme_ranks)]
    argv += ["--pin", chosen.pin, *(["--tune-pme"] if chosen.tune_pme else [])]
    for name in OFFLOAD:
        argv += [f"--{name}", chosen.offload[name]]
    return argv


def why_failed(text: str) -> Optional[str]:
    """The sentence that says why a run failed: GROMACS', or that of EESSI's module command."""
    for line in text.splitlines():
        if _LMOD_ERROR in line:
            return line.strip()
    return fatal_error(text)


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
    if chosen.pme_ranks >= 0 and output.pme_ranks != chosen.pme_ranks:
        return f"{output.pme_ranks} ranks did PME alone instead of {chosen.pme_ranks}"
    if output.threads != chosen.threads:
        return f"{output.threads} threads ran in a rank instead of {chosen.threads}"
    if output.steps_done != chosen.steps:
        stop_note = f" ({output.stopped})" if output.stopped else ""
        return f"{output.steps_done} of {chosen.steps} steps were done{stop_note}"
    if output.steps_timed != chosen.steps - chosen.reset_step + 1:
        return f"{output.steps_timed} steps were timed: the counters were not reset as asked"
    return _elsewhere(output, chosen)


def _elsewhere(output: GromacsOutput, chosen: Settings) -> Optional[str]:
    for name in OFFLOAD:
        requested, ran = chosen.offload[name], output.offload[name]
        if requested == "cpu" and ran != "cpu":
            return f"{name} ran on a GPU, and the CPU was asked for"
        if requested == "gpu" and ran == "cpu":
            return f"{name} ran on the CPU, and a GPU was asked for"
    return None
