"""HPL as a case: problem size, grid, input file, command, and whether a run counts."""

from __future__ import annotations

import math
import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...errors import BadInput
from ...node.topology import Topology
from ...options import ModuleOption, Option, RoleOption, time_limit
from ...run.launcher import LAUNCHER, SLURM_QUEUE
from .output import HplOutput

# NVIDIA's container, and the program in it.
NVIDIA_PROGRAM = "/workspace/hpl.sh"
# Block sizes: of CPUs with OpenBLAS or AOCL, and of NVIDIA's HPL.
_BLOCK, _BLOCK_OF_NVIDIA = 192, 1024
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
    RoleOption(
        "prefix",
        "Folder on the node for the release and the program that is built from it; for a run on"
        " several nodes the same path on each.",
        "~/.local/share/trueup/hpl",
        type="path",
        why="Yours without root; a site that shares one sets /opt/trueup/hpl.",
    ),
    RoleOption(
        "url",
        "Address of HPL's release, or of a mirror's copy.",
        "https://www.netlib.org/benchmark/hpl/hpl-2.3.tar.gz",
        filled=True,
    ),
    RoleOption(
        "sha256",
        "Its sha256; another file is not built.",
        "32c5c17d22330e6f2337b681aded51637fb6008d3f0eb7c277b163fadd612830",
        why="The sum that Spack's and EasyBuild's recipes for HPL 2.3 have.",
    ),
    RoleOption(
        "blas",
        "Shared library of a BLAS to link, an absolute path. Empty: the AOCL of an Azure HPC image"
        " on AMD's CPUs, else OpenBLAS, which is installed where apt has it.",
        "",
        type="path",
    ),
    Option(
        "program",
        "Path of an xhpl on the node. Empty: the role builds one, and takes /workspace/hpl.sh in a"
        " container.",
        "",
    ),
    Option(
        "container_image",
        "NVIDIA's HPL container: its name by digest (name@sha256:...) at nvcr.io or a mirror, which"
        " docker runs, or the path of a .sqsh file on the node, which enroot runs. Empty: no"
        " container.",
        "",
    ),
    Option("container_sha256", "Of a .sqsh file: its sha256; another file is refused.", ""),
    Option(
        "arguments",
        "More arguments of the program. NVIDIA's hpl.sh is also given --dat, and on GPUs of a size"
        " in catalog/topologies.yml the affinities of CPUs, memory, adapters and GPUs that are not"
        " here.",
        [],
    ),
    RoleOption(
        "layouts",
        "Layouts to measure, one case each. ranks 0: one on each GPU or else NUMA node;"
        " threads_per_rank 0: all cores, shared evenly; binding: none, core, l3 or numa.",
        [{option.name: option.default for option in _LAYOUT}],
        fields=_LAYOUT,
        filled=True,
    ),
    *_LAYOUT,
    Option(
        "gpus",
        "GPUs that the program uses, one on each rank; 0 for a program that uses CPUs. With a"
        " container the role takes all of the node for 0.",
        0,
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
    Option("nb", "Block size; 0 means 192 on CPUs and 1024 on GPUs.", 0),
    Option(
        "max_n",
        "Upper bound of the order, for short runs; 0 means none.",
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
        "Bytes of a node that the share is of; 0 means what is available. A run on GPUs needs the"
        " sum of their memory, and the role takes the catalog's for 0.",
        0,
    ),
    time_limit(7200),
    RoleOption(
        "nodes",
        "Nodes to measure together, by their inventory names; the first starts the runs. Empty:"
        " each node alone.",
        [],
    ),
    RoleOption(
        "node_counts",
        "How many of them, one after the other. Empty: all.",
        [],
        elements="int",
        least=1,
    ),
    RoleOption(
        "launcher",
        "What starts ranks on several nodes: mpirun (over ssh, which must work between the nodes"
        " without a password and with host keys known) or slurm (a job by sbatch).",
        "mpirun",
        choices=("mpirun", "slurm"),
    ),
    SLURM_QUEUE,
    *LAUNCHER,
)

_BYTES = 8  # double precision
# A rank's folder, $0: only the first rank reads the input, and its node has the folder.
_IN_FOLDER = 'cd "$0" 2>/dev/null || cd /; exec "$@"'
INPUT = "HPL.dat"
_BY_DIGEST = re.compile(r"[a-z0-9][a-zA-Z0-9.:_/-]*@sha256:[0-9a-f]{64}")


class Problem(NamedTuple):
    """The problem that HPL is asked to solve: order, block size and grid."""

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


def block(nb: int, gpus: int) -> int:
    """The block size, where 0 stands for the size that suits CPUs or NVIDIA's HPL."""
    return nb or (_BLOCK_OF_NVIDIA if gpus else _BLOCK)


def input_file(problem: Problem) -> str:
    """HPL.dat for one test.

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


def rank_argv(program: str, arguments: Sequence[str], folder: str) -> List[str]:
    """The argv of one rank, run in the folder where it is there."""
    return ["sh", "-c", _IN_FOLDER, folder, program, *arguments]


class Container(NamedTuple):
    """NVIDIA's HPL container.

    Attributes:
        image: a name by digest, which docker runs, or the path of a file, which enroot runs.
        sha256: of a file.
    """

    image: str
    sha256: str

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Optional[Container]:
        """The container that the options name; None for none.

        Raises:
            BadInput: an image without its digest, or a file without sha256.
        """
        image, sha256 = parameters["container_image"], parameters["container_sha256"].lower()
        if not image:
            return None
        if image.startswith("/"):
            if not re.fullmatch("[0-9a-f]{64}", sha256):
                raise BadInput(
                    f"container_sha256 {sha256!r} is no sha256: `sha256sum {image}` prints it"
                )
        elif not _BY_DIGEST.fullmatch(image):
            raise BadInput(
                f"container_image {image!r} names no digest: give it as name@sha256:... with 64"
                " hexadecimal digits, which `docker buildx imagetools inspect` prints, or as the"
                " path of a .sqsh file"
            )
        return cls(image, sha256)

    @property
    def runtime(self) -> str:
        """The program that runs the image."""
        return "enroot" if self.image.startswith("/") else "docker"

    @property
    def recorded(self) -> str:
        """The image as records name it: by its digest, or by the sha256 of the file."""
        return f"sha256:{self.sha256}" if self.runtime == "enroot" else self.image

    def argv(
        self, program: Sequence[str], *, folder: str, variables: Mapping[str, str], rdma: bool
    ) -> List[str]:
        """The argv that runs a program in the container, with all GPUs and in the folder."""
        named = sorted(variables)
        if self.runtime == "enroot":
            passed = [argument for name in named for argument in ("--env", name)]
            mounted = ["--mount", f"{folder}:{folder}"]
            start = ["enroot", "start", *passed, *mounted, self.image]
            return [*start, "env", "--chdir", folder, *program]
        passed = [argument for name in named for argument in ("--env", f"{name}={variables[name]}")]
        return [
            # The role pulls the image; --init hands a signal on to mpirun.
            *("docker", "run", "--rm", "--init", "--pull=never", "--gpus=all"),
            *("--network=host", "--ipc=host", "--ulimit=memlock=-1", "--ulimit=stack=67108864"),
            *(["--device=/dev/infiniband"] if rdma else []),
            *passed,
            f"--volume={folder}:{folder}",
            f"--workdir={folder}",
            self.image,
            *program,
        ]


def in_container(program: str, arguments: Sequence[str], *, ranks: int, folder: str) -> List[str]:
    """mpirun of the container with NVIDIA's script, which binds each rank by its affinities."""
    input_arguments = [] if "--dat" in arguments else ["--dat", os.path.join(folder, INPUT)]
    start = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-np", str(ranks)]
    return [*start, program, *input_arguments, *arguments]


def environment(threads_per_rank: int, *, gpus: int = 0) -> Dict[str, str]:
    """The variables that are set: threads of each rank for whichever BLAS it is, and on GPUs the
    order of these."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS")
    variables = dict.fromkeys(names, str(threads_per_rank))
    if gpus:
        variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # masks and affinities follow it
    return variables


def blas_of(ldd: str) -> Optional[str]:
    """The BLAS that a program loads, from ldd's output: the path of libblas (resolved:
    distributions choose it by a link) or else of another BLAS; None where it shows none.

    Raises:
        BadInput: it is the reference BLAS, an order of magnitude slower than any other: 12 against
            124 to 171 GFLOP/s on 2 cores of an AMD EPYC (2026-11-20).
    """
    libraries: Dict[str, str] = dict(re.findall(r"^[ \t]*(\S+) => (/\S+)", ldd, re.MULTILINE))
    for name in ("libblas", "libopenblas", "libblis", "libmkl", "libflexiblas"):
        for library, path in libraries.items():
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
    if not name:
        raise BadInput("program is empty: the role hpl builds one and names it")
    if program is None:
        raise BadInput(f"{name} is not on this node: the role hpl builds xhpl, or set program")
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
    expected = {"N": problem.n, "NB": problem.nb, "P x Q": problem.grid}
    other = [
        f"{name} {ran[name]} instead of {expected[name]}"
        for name in ran
        if ran[name] != expected[name]
    ]
    if other:
        return f"HPL ran another problem than it was given: {', '.join(other)}"
    if not test.passed:
        return f"the residual failed: {'not a number' if test.residual is None else test.residual}"
    failed = [name for name, passed in output.checks.items() if not passed]
    return f"failed: {', '.join(failed)}" if failed else None
