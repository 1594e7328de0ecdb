"""The matrix-product benchmark as a case: whether a run counts."""

from __future__ import annotations

from typing import Optional, Sequence

from ...node.topology import format_cpu_list
from .output import LARGEST_ERROR, GemmOutput

__all__ = ["judge"]


def judge(output: GemmOutput, cpus: Sequence[str]) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None.

    Args:
        output: what was read.
        cpus: for each GPU by number, the CPUs that its process was to run on.
    """
    for gpu in output.gpus:
        for name, error in gpu.errors.items():
            if not error <= LARGEST_ERROR[name]:
                return (
                    f"gpu{gpu.number} computes {name} wrongly: the sampled block is off by"
                    f" {error:.3g} of its root mean square, the bound is {LARGEST_ERROR[name]:g}"
                )
    numbers = sorted(gpu.number for gpu in output.gpus)
    if numbers != list(range(len(cpus))):
        return f"GPUs {numbers} were measured instead of 0 to {len(cpus) - 1}"
    for gpu in output.gpus:
        ran = format_cpu_list(gpu.cpus)
        if ran != cpus[gpu.number]:
            return f"gpu{gpu.number} ran on CPUs {ran} instead of {cpus[gpu.number]}"
    return None
