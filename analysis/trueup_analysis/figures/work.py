"""The parameters that identify the work of a case, and the ones that say how it was done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

# Parameters that say how the work was done. All others say which work it was; only equal work is
# compared.
HOW = frozenset(
    {
        "asked",
        "autotune",
        "binding",
        "block_shape",
        "language",
        "launcher",
        "layout",
        "mpi",
        "ranks",
        "repeats",
        "scaling",
        "threads",
        "threads_per_rank",
        "tuned_at",
        "tuning",
    }
)


def work_of(parameters: Mapping[str, Any], without: Container[str] = HOW) -> str:
    """Equal texts for equal work: the parameters without the ones that say how it was done."""
    return repr(
        sorted((name, str(value)) for name, value in parameters.items() if name not in without)
    )
