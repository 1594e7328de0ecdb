"""Devito's benchmark as a case: its options, its needs, and how it is started."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...errors import BadInput
from ...node.affinity import Placement
from ...node.topology import format_cpu_list
from ...options import ModuleOption, Option, RoleOption, time_limit
from ...record import Metric
from ...run.launcher import LAUNCHER, SLURM_QUEUE
from .output import ERROR_PREFIX, DevitoOutput

# Full-grid single-precision arrays that the run holds at once, by model. Acoustic: u (3 time
# levels), vp, damp and
# three more while the model is built (docs/benchmarks/devito.md).
FIELDS = {"acoustic": 8}

SHAPE = r"[0-9]+x[0-9]+x[0-9]+"
# The share of one core in a weak series.
DEFAULT_SHARE = "256x256x256"
_BINDINGS = ("none", "core", "l3", "numa")
# Devito's own halo exchange.
MPI_MODE = "basic"
_MPI_MODES = (MPI_MODE, "diag", "diag2", "overlap", "overlap2", "full")
_SERIES = ("strong", "weak")
_ROWS = "a list of ranks, threads_per_rank and binding (none, core, l3, numa)"
OPTIONS = (
    Option(
        "prefix",
        "Folder on the node for Devito's virtual environment, the driver and compiled kernels"
        " (about 500 MiB).",
        "~/.local/share/trueup/devito",
        type="path",
    ),
    RoleOption(
        "python",
        "Python for the virtual environment, 3.10 to 3.14. Where python3 is another or has no"
        " headers, one beside it is taken, or installed (role python); a named one is kept.",
        "python3",
        why="Devito 4.8.23 asks for 3.10.",
        filled=True,
    ),
    Option(
        "program",
        "A Python that has Devito already and runs the driver: of a conda environment, or a program"
        " that starts one in a container. Empty: the role's own environment.",
        "",
        type="path",
    ),
    RoleOption(
        "pip_find_links",
        "Folder on the node with the wheels of files/requirements.txt, for sites without internet."
        " Empty: the node's own pip configuration decides where from. Whatever the source, every"
        " file must match the pinned sha256.",
        "",
    ),
    RoleOption("pip_no_index", "Install from pip_find_links alone.", False),
    Option(
        "model",
        "The seismic model; acoustic is the one that published figures exist for.",
        "acoustic",
        choices=tuple(FIELDS),
    ),
    RoleOption(
        "shape",
        "Grid points along x, y and z, without the absorbing layers, such as 512x512x512; in a weak"
        " series the share of one core. Empty: a cube that fills the machine, 8.4 million points a"
        " core and at most half of the memory; in a weak series 256x256x256.",
        "",
        why="A grid that does not grow with the machine is a smoke test on a large node: 256^3"
        " points are seconds on 2 cores and a quarter of a second on 120.",
    ),
    ModuleOption(
        "shape",
        "Grid points along x, y and z, without the absorbing layers.",
        DEFAULT_SHARE,
    ),
    Option("space_order", "Order of the stencil in space.", 8, least=2, multiple_of=2),
    Option("tn_ms", "Simulated time in milliseconds.", 200, least=1),
    Option("nbl", "Absorbing boundary layers on each side, in points.", 10),
    RoleOption(
        "layouts",
        f"Layouts to measure: {_ROWS}. Empty: a sweep over thread counts and over ranks x threads"
        " at the full machine, made from the node's own NUMA nodes and L3 groups.",
        [],
        elements="dict",
    ),
    RoleOption(
        "search",
        "fastest: of the sweep that is made, layouts that cannot be the fastest, by what ran and by"
        " the machine's bounds, are skipped by name; all: none is, which a whole scaling series"
        " needs. Layouts that are asked for and a weak series are always measured.",
        "fastest",
        choices=("fastest", "all"),
    ),
    ModuleOption(
        "ranks",
        "MPI ranks of each node; the launcher starts them where there are several.",
        1,
        least=1,
    ),
    ModuleOption("threads_per_rank", "OpenMP threads of each rank.", 1, least=1),
    ModuleOption(
        "binding",
        "What each rank is bound to, from the machine's own topology; none leaves it to the"
        " operating system.",
        "core",
        choices=_BINDINGS,
    ),
    Option(
        "scaling",
        "strong: the same problem for every layout. weak: the shape is the share of one core, and"
        " grows with the cores.",
        "strong",
        choices=_SERIES,
    ),
    ModuleOption(
        "mpi_mode",
        "Devito's halo exchange where there are several ranks (DEVITO_MPI).",
        MPI_MODE,
        choices=_MPI_MODES,
    ),
    Option(
        "autotune",
        "Search for the block shape; it is not part of the time.",
        "aggressive",
        why="aggressive is what Devito's own benchmark takes.",
        choices=("off", "basic", "aggressive", "max"),
    ),
    ModuleOption(
        "tuning",
        "reuse: take the block shape that an earlier run found on the same machine with the same"
        " versions, problem and layout, where there is one. anew: search each time, and keep what"
        " is found.",
        "reuse",
        why="The search takes longer than the repeats do.",
        choices=("reuse", "anew"),
    ),
    Option(
        "repeats", "Repeats of each case, of which median, min and max are recorded.", 3, least=3
    ),
    time_limit(1800),
    RoleOption(
        "nodes",
        "Nodes to measure together, by their inventory names, in the order in which they join: the"
        " first starts the runs. The sweep over them runs after each node's own. Empty: each node"
        " alone.",
        [],
    ),
    RoleOption(
        "node_counts",
        "Empty: 1, 2, 4, 8, ... and all. How many of them, one after the other.",
        [],
        elements="int",
        least=1,
    ),
    RoleOption(
        "launchers",
        "What starts ranks on several nodes: mpirun (over ssh, which must work between the nodes"
        " without a password and with host keys known) and slurm (a job by sbatch). Each case is"
        " measured with each of them.",
        ["mpirun"],
        choices=("mpirun", "slurm"),
        filled=True,
    ),
    RoleOption(
        "node_layouts",
        f"Layouts of each node in that sweep: {_ROWS}. Empty: the node's whole-machine layout of"
        " most ranks.",
        [],
        elements="dict",
    ),
    RoleOption(
        "node_mpi_modes",
        "Devito's halo exchanges to compare there.",
        ["basic", "diag2", "full"],
        choices=_MPI_MODES,
        filled=True,
    ),
    RoleOption(
        "node_scaling",
        "strong: the same problem for every number of nodes. weak: its first extent grows with the"
        " nodes.",
        "strong",
        choices=_SERIES,
    ),
    SLURM_QUEUE,
    ModuleOption(
        "memory_bandwidth",
        "The node's measured triad bandwidth in byte/s; with it the record has a roofline"
        " fraction.",
        type="float",
    ),
    ModuleOption(
        "peak_flops",
        "The node's peak rate in single precision, flop/s, where it is known.",
        type="float",
    ),
    ModuleOption(
        "sized_by",
        "C(machine) where the shape was chosen by its cores and memory: a trial, and no published"
        " problem.",
        choices=("machine",),
    ),
    ModuleOption(
        "reference_norms",
        "Norms that other layouts of the same problem gave (field, receivers).",
        {},
    ),
    ModuleOption(
        "norm_tolerance",
        "Largest relative difference of the norms. Layouts differ by about 1e-7 in single"
        " precision.",
        1.0e-5,
    ),
    *LAUNCHER,
)

_BASE_BYTES = 300 * 1024**2  # one rank of Python with Devito imported
_BYTES_PER_POINT = 4  # the benchmark computes in single precision
# A lower bound of the benchmark's time step at 20 m spacing: it is 2.4 ms at vp 3.5 km/s, order 8.
_STEP_MS = 2.0


@dataclass(frozen=True)
class Problem:
    """The problem to compute, whatever the layout.

    Attributes:
        model: one of FIELDS.
        shape: grid points along x, y and z, without the absorbing layers.
        space_order: even, at least 2.
        tn_ms: simulated time.
        nbl: absorbing boundary layers on each side.
    """

    model: str
    shape: Tuple[int, int, int]
    space_order: int
    tn_ms: int
    nbl: int

    @classmethod
    def parse(cls, *, model: str, shape: str, space_order: int, tn_ms: int, nbl: int) -> Problem:
        """The problem that a user's parameters, each in its range, describe.

        Raises:
            BadInput: naming the parameter and the number that is wrong.
        """
        if not re.fullmatch(SHAPE, shape):
            raise BadInput(f"shape {shape!r} is not three extents such as 256x256x256")
        extents = tuple(int(extent) for extent in shape.split("x"))
        if min(extents) < space_order + 1:
            raise BadInput(
                f"shape {shape}: an extent of {min(extents)} is smaller than the stencil of "
                f"space_order {space_order} ({space_order + 1} points)"
            )
        return cls(model, (extents[0], extents[1], extents[2]), space_order, tn_ms, nbl)

    @property
    def shape_text(self) -> str:
        """The shape as users and records write it."""
        return "x".join(str(extent) for extent in self.shape)

    def parameters(self) -> Dict[str, Any]:
        """The part of a record's parameters that describes the problem."""
        return {
            "model": self.model,
            "shape": self.shape_text,
            "points": math.prod(self.shape),
            "space_order": self.space_order,
            "time_order": 2,
            "tn_ms": self.tn_ms,
            "nbl": self.nbl,
        }


# 256^3 points on 2 cores: some seconds of run time, on 120 cores as well.
_POINTS_PER_CORE = 256**3 / 2
_EXTENT_STEP = 16


def filling(cores: int, memory: Optional[int], **problem: Any) -> str:
    """The largest cube of at most 8.4 million points a core whose arrays take half of the memory.

    Args:
        cores: physical cores of the node.
        memory: its memory in bytes; None where it is not known.
        problem: the other members of ``Problem.parse``.
    """
    extent = int((_POINTS_PER_CORE * max(1, cores)) ** (1 / 3) / _EXTENT_STEP + 1e-9) * _EXTENT_STEP
    smallest = -(-(problem["space_order"] + 1) // _EXTENT_STEP) * _EXTENT_STEP
    while extent > smallest and memory is not None:
        cube = Problem.parse(shape=f"{extent}x{extent}x{extent}", **problem)
        if memory_bytes(cube, 0) <= memory / 2:
            break
        extent -= _EXTENT_STEP
    extent = max(extent, smallest)
    return f"{extent}x{extent}x{extent}"


def memory_bytes(problem: Problem, ranks: int = 1) -> int:
    """An estimate of the memory that the whole run takes: arrays with their halos, receivers, and
    the ranks' base."""
    halo = 2 * (problem.nbl + problem.space_order)
    points = math.prod(extent + halo for extent in problem.shape)
    receivers = math.prod(problem.shape[:2]) * math.ceil(problem.tn_ms / _STEP_MS)
    arrays = (FIELDS[problem.model] * points + receivers) * _BYTES_PER_POINT
    return int(arrays + ranks * _BASE_BYTES)


def require_memory(
    problem: Problem, ranks: int, available: Optional[int], node_count: int = 1
) -> None:
    """Refuse a problem whose share of each node will not fit.

    Raises:
        BadInput: with both figures.
    """
    needed = memory_bytes(problem, ranks * node_count) // node_count
    if available is not None and needed > available:
        where = "" if node_count == 1 else f" on each of {node_count} nodes"
        raise BadInput(
            f"shape {problem.shape_text} needs about {needed / 1024**3:.1f} GiB{where} with "
            f"{ranks} rank(s), and {available / 1024**3:.1f} GiB are available: choose a "
            "smaller shape or a larger size"
        )


def program(
    problem: Problem,
    placement: Placement,
    *,
    python: str,
    driver: str,
    repeats: int,
    autotune: str,
    jit_dir: str,
    tuning: str,
) -> List[str]:
    """The argv of one rank: the driver, which binds each rank of a node to the CPUs of our plan and
    each of its threads to one of them. It is the same whether a tuning is known or not, so that a
    run that is resumed knows its cases."""
    argv = [python, driver, "--model", problem.model, "--shape", problem.shape_text]
    argv += ["--space-order", str(problem.space_order), "--tn", str(problem.tn_ms)]
    argv += ["--nbl", str(problem.nbl), "--autotune", autotune, "--repeats", str(repeats)]
    if autotune != "off":
        argv += ["--tunings", f"{jit_dir}/tunings"]
        argv += ["--tune-anew"] if tuning == "anew" else []
    if placement.binding != "none":
        argv += ["--cpus", "/".join(format_cpu_list(cpus) for cpus in placement.per_rank)]
    return argv


def environment(
    *, ranks: int, threads_per_rank: int, mpi_mode: str, jit_dir: str
) -> Dict[str, str]:
    """The variables that are set for the ranks of a case."""
    variables = {
        "DEVITO_ARCH": "gcc",
        "DEVITO_LANGUAGE": "openmp",
        "DEVITO_LOGGING": "PERF",
        "OMP_NUM_THREADS": str(threads_per_rank),
        # Devito keeps compiled kernels under the temporary folder; -march=native makes them this
        # CPU's alone.
        "TMPDIR": jit_dir,
    }
    if ranks > 1:
        variables["DEVITO_MPI"] = mpi_mode
    return variables


def jit_key(cpuinfo: str = "/proc/cpuinfo") -> str:
    """A name for this kind of CPU, so that machines that share a file system never share compiled
    kernels."""
    cpu_fields = []
    with open(cpuinfo, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "flags", "Features", "CPU part"):
                cpu_fields.append(value.strip())
            if not line.strip():
                break  # the first CPU stands for all
    return hashlib.sha256("\n".join(cpu_fields).encode()).hexdigest()[:12]


def roofline_fraction(
    output: DevitoOutput,
    memory_bandwidth: Optional[float],
    peak_flops: Optional[float],
) -> Optional[Metric]:
    """The fraction of the roofline reached: flop rate over min(peak, bandwidth x operational
    intensity).

    Args:
        output: the run.
        memory_bandwidth: byte/s, the node's measured triad.
        peak_flops: flop/s in single precision, where known.

    Returns:
        None when the roof is unknown.
    """
    rows = {(row.name, row.statistic): row for row in output.metrics()}
    rate, intensity = (
        rows.get(("flop_rate", "median")),
        rows.get(("operational_intensity", "median")),
    )
    if not (memory_bandwidth and rate and intensity):
        return None
    roof = memory_bandwidth * intensity.value
    if peak_flops:
        roof = min(roof, peak_flops)
    return Metric(
        "roofline_fraction", rate.value / roof, "1", "higher", statistic="median", n=rate.n
    )


def explain(text: str) -> Optional[str]:
    """The driver's error message and its node, from a run that ended with another exit status than
    0; None where it printed none."""
    match = re.search(rf"(?m)^(?:.*\s)?{re.escape(ERROR_PREFIX)}(.+)$", text)
    return match.group(1).strip() if match else None


def judge(
    output: DevitoOutput,
    placement: Placement,
    *,
    repeats: int,
    reference_norms: Mapping[str, float],
    tolerance: float,
    node_count: int = 1,
) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None.

    Checked: the number of repeats, ranks and nodes, that every rank ran where it should, that the
    norms are finite, and that they equal those of the other layouts of the same problem.
    """
    if not output.exact:
        return "the driver's result line is missing: Devito's log alone is rounded"
    if len(output.repeats) != repeats:
        return f"{len(output.repeats)} repeats came out of {repeats}"
    if output.ranks != placement.ranks * node_count:
        return f"{output.ranks} ranks ran instead of {placement.ranks * node_count}"
    misplaced = _misplaced(output, placement, node_count)
    if misplaced:
        return misplaced
    broken = sorted(name for name, passed in output.checks.items() if not passed)
    if broken:
        return f"the result is not finite: {', '.join(broken)} failed"
    return _compare_norms(output.norms, reference_norms, tolerance)


def _misplaced(output: DevitoOutput, placement: Placement, node_count: int) -> Optional[str]:
    """Which ranks ran on other nodes or CPUs than planned."""
    if node_count > 1:
        if not output.hosts:
            return "the driver does not say its nodes: run the role devito again on all of them"
        on = [output.hosts.count(host) for host in dict.fromkeys(output.hosts)]
        if on != [placement.ranks] * node_count:
            return (
                f"{'+'.join(map(str, on))} ranks ran on {len(on)} nodes instead of "
                f"{placement.ranks} on each of {node_count}"
            )
    if placement.binding != "none":
        planned = tuple(format_cpu_list(cpus) for cpus in placement.per_rank) * node_count
        if output.cpus != planned:
            return f"ranks ran on CPUs {'/'.join(output.cpus)} instead of {'/'.join(planned)}"
    return None


def _compare_norms(
    norms: Mapping[str, float], reference: Mapping[str, float], tolerance: float
) -> Optional[str]:
    for name, expected in sorted(reference.items()):
        got = norms.get(name)
        if got is None:
            return f"the norm of the {name} is missing; other layouts gave {expected:.9g}"
        if abs(got - expected) > tolerance * abs(expected):
            return (
                f"the norm of the {name} is {got:.9g}, other layouts of the same problem gave "
                f"{expected:.9g} (tolerance {tolerance:g})"
            )
    return None


def case_name(
    problem: Problem,
    placement: Placement,
    mpi_mode: str,
    *,
    node_count: int = 1,
    launcher: str = "local",
) -> str:
    """The case's name: problem and layout of each node, stable from run to run."""
    layout = f"r{placement.ranks}t{placement.threads_per_rank}-{placement.binding}"
    if placement.ranks * node_count > 1:
        layout += f"-{mpi_mode}"
    if launcher != "local":
        layout = f"n{node_count}{layout}-{launcher}"
    return (
        f"{problem.model}-so{problem.space_order}-{problem.shape_text}-tn{problem.tn_ms}-{layout}"
    )
