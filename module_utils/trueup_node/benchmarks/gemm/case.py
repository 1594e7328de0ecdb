"""The matrix-product benchmark as a case: its options, and whether a run counts."""

from __future__ import annotations

from typing import Optional, Sequence

from ...node.topology import format_cpu_list
from ...options import ModuleOption, Option, time_limit
from .output import GemmOutput, largest_error

PRECISIONS = ("fp64", "tf32", "bf16", "fp8")

OPTIONS = (
    Option(
        "prefix",
        "Folder on the node for the program.",
        "~/.local/share/trueup/gemm",
        type="path",
        why="Yours without root.",
    ),
    Option(
        "python",
        "Python that has torch with CUDA, 3.9 or newer.",
        "python3",
        why="The role installs no PyTorch: name the one that your jobs run with.",
    ),
    Option(
        "precisions",
        "What to measure; fp8 is skipped by name on a GPU that has none (before compute capability"
        " 8.9).",
        list(PRECISIONS),
        choices=PRECISIONS,
        filled=True,
    ),
    Option(
        "n",
        "Rows and columns of the matrices.",
        16384,
        why="Three matrices of 1 GiB in tf32: enough for the highest rate of today's GPUs.",
        least=64,
        multiple_of=16,
    ),
    ModuleOption(
        "n_fp64",
        "Rows and columns of the fp64 matrices.",
        8192,
        why="An eighth of the work, since an A10 does 0.5 Tflop/s of it.",
        least=64,
        multiple_of=16,
    ),
    ModuleOption("repeats", "Repeats of each precision, of about 0.2 s each.", 5, least=3),
    Option(
        "gpus_at_once",
        "all: every GPU at once, which loads power and cooling as a job does; one: one after the"
        " other.",
        "all",
        choices=("all", "one"),
    ),
    ModuleOption(
        "gpu_masks",
        "Hexadecimal masks of the CPUs beside each GPU, in PCI order; empty: those of"
        " catalog/topologies.yml for the node's size, and where it has none what sysfs says.",
        [],
    ),
    time_limit(900, "the case", reason="Loading PyTorch takes most of it on a cold disk."),
)


def judge(output: GemmOutput, cpus: Sequence[str]) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None.

    Args:
        output: the parsed output.
        cpus: for each GPU by number, the CPUs that its process was to run on.
    """
    for gpu in output.gpus:
        for name, error in gpu.errors.items():
            bound = largest_error(name, gpu.sizes[name])
            if not error <= bound:
                return (
                    f"gpu{gpu.number} computes {name} wrongly: the sampled block is off by"
                    f" {error:.3g} of its root mean square, the bound is {bound:g}"
                )
    numbers = sorted(gpu.number for gpu in output.gpus)
    if numbers != list(range(len(cpus))):
        return f"GPUs {numbers} were measured instead of 0 to {len(cpus) - 1}"
    for gpu in output.gpus:
        ran = format_cpu_list(gpu.cpus)
        if ran != cpus[gpu.number]:
            return f"gpu{gpu.number} ran on CPUs {ran} instead of {cpus[gpu.number]}"
    return None
