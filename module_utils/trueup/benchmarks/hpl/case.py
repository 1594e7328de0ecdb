"""HPL as a case: problem size, grid, input file, command, and whether a run counts."""

from __future__ import annotations

import math
import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...errors import BadInput
from ...node.affinity import Placement, openmpi_mpmd_argv, taskset_argv
from ...node.topology import Topology
from ...options import ModuleOption, Option, RoleOption, time_limit
from .output import HplOutput

# The distribution's program.
HPCC = "hpcc"
_RANKS = ModuleOption(
    "ranks",
    "MPI ranks; 0 means one on each GPU, or else on each NUMA node. Above 1 they are started by"
    " mpirun.",
    0,
)
_THREADS = ModuleOption(
    "threads_per_rank", "Threads of each rank; 0 means all cores, shared evenly.", 0
)
_BINDING = ModuleOption(
    "binding",
    "What each rank is pinned to, from the machine's own topology.",
    "numa",
    choices=("none", "core", "l3", "numa"),
)
_LAYOUT = (_RANKS, _THREADS, _BINDING)

OPTIONS = (
    Option(
        "program",
        "Path of an xhpl or hpcc, or of a script that starts one (NVIDIA's /workspace/hpl.sh);"
        " empty: the distribution's hpcc. A name with hpcc in it is given hpccinf.txt, any other"
        " HPL.dat, in its working folder.",
        "",
        why="Debian and Ubuntu have an hpcc.",
    ),
    Option(
        "arguments",
        "Arguments of the program. NVIDIA's hpl.sh takes [--dat, HPL.dat], and on GPUs of a size in"
        " catalog/topologies.yml the role adds the affinities of CPUs, memory, adapters and GPUs"
        " that stand not here.",
        [],
    ),
    RoleOption(
        "layouts",
        "Layouts to measure, one case each. ranks 0: one on each GPU or else NUMA node;"
        " threads_per_rank 0: all cores, shared evenly; binding: none, core, l3 or numa.",
        [{one.name: one.default for one in _LAYOUT}],
        fields=_LAYOUT,
        filled=True,
    ),
    *_LAYOUT,
    Option(
        "gpus", "GPUs that the program uses, one on each rank; 0 for a program that uses CPUs.", 0
    ),
    ModuleOption(
        "gpu_masks",
        "Hexadecimal masks of each rank's own CPUs beside its GPU, in PCI order; empty: as"
        " O(binding) says.",
        [],
    ),
    Option(
        "n",
        "Order of the matrix; 0 means the largest multiple of the block size that fits in the"
        " share of the memory.",
        0,
    ),
    Option("nb", "Block size. 192 suits most CPUs with OpenBLAS, 1024 NVIDIA's HPL.", 192, least=1),
    Option(
        "max_n",
        "Upper bound of the order, for short runs; 0 means none, and of the role 20000 with the"
        " distribution's hpcc, whose other tests would take an hour at the size of the machine.",
        0,
        why="80 % of HBv3's 448 GiB gives an order of about 219000, which takes about half an hour"
        " at 3.5 TFLOP/s.",
    ),
    Option(
        "memory_fraction",
        "Share of the memory that the matrix takes.",
        0.8,
        why="More leaves too little for the BLAS's own buffers.",
        least=0.001,
        most=0.95,
    ),
    Option(
        "memory_bytes",
        "Bytes that the share is of; 0 means what is available on the node. A run on GPUs needs it:"
        " the sum of their memory.",
        0,
    ),
    time_limit(7200),
)

_BYTES = 8  # double precision
# The run's folder: hpcc writes its result into a file, and its standard output stays empty.
# $0 is the folder, the rest the command.
_IN_FOLDER = (
    'cd "$0" || exit; "$@"; status=$?; [ ! -e hpccoutf.txt ] || cat hpccoutf.txt; exit $status'
)


class Problem(NamedTuple):
    """What HPL is asked to solve: order, block size and grid."""

    n: int
    nb: int
    p: int
    q: int

    @property
    def grid(self) -> str:
        """The grid as users and records write it: ``1x2``."""
        return f"{self.p}x{self.q}"


def layout(topology: Topology, *, ranks: int, threads_per_rank: int, gpus: int) -> Tuple[int, int]:
    """Ranks and threads of each, where 0 stands for: one rank on each GPU, or else on each NUMA
    node; as many threads as the smallest share of the cores has.

    Raises:
        BadInput: other ranks than GPUs.
    """
    home = {cpu: node for node, cpus in topology.numa.items() for cpu in cpus}
    in_node: Dict[int, int] = {}
    for core in topology.cores:
        node = home.get(core[0], 0)
        in_node[node] = in_node.get(node, 0) + 1
    chosen = ranks or gpus or len(in_node)
    if gpus and chosen != gpus:
        raise BadInput(f"{chosen} ranks for {gpus} GPUs: HPL takes one rank for each GPU")
    if threads_per_rank:
        return chosen, threads_per_rank
    share = -(-chosen // len(in_node))
    return chosen, max(1, min(in_node.values()) // share)


def grid(ranks: int) -> Tuple[int, int]:
    """Rows and columns of processes, as square as possible, rows no more than columns."""
    rows = next(rows for rows in range(math.isqrt(ranks), 0, -1) if ranks % rows == 0)
    return rows, ranks // rows


def order(
    *,
    n: int,
    nb: int,
    max_n: int,
    memory_fraction: float,
    memory_bytes: Optional[int],
) -> int:
    """The order of the matrix.

    Args:
        n: as the user wants it, or 0 for the largest multiple of ``nb`` that fits.
        nb: block size.
        max_n: an upper bound for short runs; 0 for none.
        memory_fraction: share of ``memory_bytes`` that the matrix may take.
        memory_bytes: memory that may be taken, None when unknown.

    Raises:
        BadInput: a matrix that does not fit, or is smaller than a block; with both figures.
    """
    if n:
        if n < nb:
            raise BadInput(f"n {n} is smaller than one block, nb {nb}")
        if memory_bytes is not None and n * n * _BYTES > memory_bytes:
            raise BadInput(
                f"n {n} needs {n * n * _BYTES / 1024**3:.1f} GiB, and "
                f"{memory_bytes / 1024**3:.1f} GiB are available"
            )
        return n
    if memory_bytes is None and not max_n:
        raise BadInput("the machine does not say how much memory is available: set n or max_n")
    largest = max_n
    if memory_bytes is not None:
        fitting = math.isqrt(int(memory_fraction * memory_bytes) // _BYTES)
        largest = min(fitting, max_n) if max_n else fitting
    if largest < nb:
        raise BadInput(
            f"a matrix of order {largest} is smaller than one block, nb {nb}: set nb or max_n"
        )
    return largest // nb * nb


def input_name(program: str) -> str:
    """The file in which the program looks for its input."""
    return "hpccinf.txt" if "hpcc" in os.path.basename(program) else "HPL.dat"


def input_file(problem: Problem) -> str:
    """HPL.dat for one test; hpcc reads the same form.

    The algorithm's choices are those of most published CPU runs: row-major grid, right-looking
    panels by Crout, ring broadcast (modified), one panel ahead, mixed row swaps. Output goes to
    standard output, and a residual below 16 passes.
    """
    rows = (
        ("HPLinpack input file", ""),
        ("written for this run", ""),
        ("HPL.out", "output file, not used"),
        (6, "device out: standard output"),
        (1, "number of N"),
        (problem.n, "N"),
        (1, "number of NB"),
        (problem.nb, "NB"),
        (0, "PMAP: row-major"),
        (1, "number of grids"),
        (problem.p, "P"),
        (problem.q, "Q"),
        (16.0, "threshold of the residual"),
        (1, "number of panel factorisations"),
        (2, "PFACT: right"),
        (1, "number of NBMIN"),
        (4, "NBMIN"),
        (1, "number of NDIV"),
        (2, "NDIV"),
        (1, "number of recursive factorisations"),
        (1, "RFACT: Crout"),
        (1, "number of broadcasts"),
        (1, "BCAST: ring, modified"),
        (1, "number of depths"),
        (1, "DEPTH"),
        (2, "SWAP: mix"),
        (64, "swapping threshold"),
        (0, "L1: transposed"),
        (0, "U: transposed"),
        (1, "equilibration: yes"),
        (8, "alignment in doubles"),
    )
    return "".join(f"{value!s:<12} {text}".rstrip() + "\n" for value, text in rows)


def command(
    placement: Placement, *, program: str, arguments: Sequence[str], mpirun: str, folder: str
) -> List[str]:
    """The argv of one case, run in its folder; under mpirun when there is more than one rank.

    mpirun's own binding gives a rank with threads a single core, so it binds nothing and each rank
    is pinned to the CPUs of our plan.
    """
    words = [program, *arguments]
    if placement.ranks == 1:
        run = [*taskset_argv(placement.per_rank[0]), *words]
    else:
        run = [mpirun, "--bind-to", "none", *openmpi_mpmd_argv(placement, words)]
    return ["sh", "-c", _IN_FOLDER, folder, *run]


def environment(placement: Placement, *, root: bool, gpus: int = 0) -> Dict[str, str]:
    """The variables that are set: threads of each rank for whichever BLAS it is, and on GPUs the
    order of these."""
    threads = str(placement.threads_per_rank)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS")
    variables = dict.fromkeys(names, threads)
    if gpus:
        variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # what masks and affinities go by
    if placement.ranks > 1 and root:
        variables["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
        variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return variables


def blas_of(ldd: str) -> Optional[str]:
    """The BLAS that a program loads, from what ldd prints of it: the path of libblas (resolved:
    distributions choose it by a link) or else of another BLAS; None where it shows none.

    Raises:
        BadInput: it is the reference BLAS, an order of magnitude slower than any other: 12 against
            124 to 171 GFLOP/s on 2 cores of an AMD EPYC (2026-11-20).
    """
    found: Dict[str, str] = dict(re.findall(r"^[ \t]*(\S+) => (/\S+)", ldd, re.MULTILINE))
    for name in ("libblas", "libopenblas", "libblis", "libmkl", "libflexiblas"):
        for library, path in found.items():
            if library.startswith(name):
                real = os.path.realpath(path)
                if re.search(r"/blas/libblas\.so|/libblas\.so\.3\.\d+", real):
                    raise BadInput(
                        f"{real} is the reference BLAS, ten times slower than an optimised one: "
                        "install libopenblas0-pthread"
                    )
                return real
    return None


def require(name: str, program: Optional[str], mpirun: Optional[str], ranks: int) -> None:
    """Refuse to start without the programs.

    Raises:
        BadInput: naming the one that is missing.
    """
    if program is None:
        raise BadInput(f"{name} is not on this node: the role hpl installs hpcc, or set program")
    if mpirun is None and ranks > 1:
        raise BadInput(f"no mpirun on this node for {ranks} ranks: set ranks to 1, or install MPI")


def require_memory_of_gpus(gpus: int, memory_bytes: int) -> None:
    """Refuse a run on GPUs whose memory nobody has said.

    Raises:
        BadInput: naming the option.
    """
    if gpus and not memory_bytes:
        raise BadInput("memory_bytes 0: a run on GPUs needs the sum of their memory")


def judge(output: HplOutput, problem: Problem) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None."""
    if len(output.tests) != 1:
        return f"{len(output.tests)} tests ran instead of 1"
    test = output.tests[0]
    ran: Dict[str, Any] = {"N": test.n, "NB": test.nb, "P x Q": f"{test.p}x{test.q}"}
    asked = {"N": problem.n, "NB": problem.nb, "P x Q": problem.grid}
    other = [
        f"{name} {ran[name]} instead of {asked[name]}" for name in ran if ran[name] != asked[name]
    ]
    if other:
        return f"HPL ran another problem than it was given: {', '.join(other)}"
    if not test.passed:
        return f"the residual failed: {'not a number' if test.residual is None else test.residual}"
    failed = [name for name, passed in output.checks.items() if not passed]
    return f"failed: {', '.join(failed)}" if failed else None
