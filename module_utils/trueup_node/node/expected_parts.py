"""Expectations of the state of a node that follow from its size's row in catalog/vm_sizes.csv.

They judge the parts of a size for which catalog/expectations.yml has no entry: CPUs, memory, GPUs,
InfiniBand adapters and their links, local disks. The row holds no speeds: these have no verdict
without a published figure. ``eth_gbps`` is the network limit of the VM, not the rate of an adapter,
and is not expected. An empty cell says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..health.expectations import Comparison, Expectation, Expectations
from ..quantity import Quantity
from .identify import LEAST_MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

_BENCHMARK = "node_state"
_MOVE = "Stop (deallocate) and start the VM, so that it gets another host;"


class _Part(NamedTuple):
    """A column of the catalog and the figure of ``node.state`` that it describes.

    Attributes:
        share: the part of the column's figure that a healthy node must show.
        required, fault, fix: as in ``Expectation``.
        alias: another metric of the same part. The part is not judged twice.
    """

    column: str
    metric: str
    text: str
    unit: str
    comparison: Comparison = "exactly"
    share: float = 1.0
    required: str = "yes"
    fault: str = ""
    fix: str = ""
    alias: str = ""

    def of(self, figure: float, source: str) -> Expectation:
        """The expectation that the column's figure gives."""
        return Expectation(
            what=self.text,
            benchmark=_BENCHMARK,
            metric=self.metric,
            comparison=self.comparison,
            expected=Quantity(figure * self.share, self.unit),
            required=self.required,
            fault=self.fault,
            fix=self.fix,
            source=f"catalog/vm_sizes.csv: {source}",
            date="",
        )


_PARTS = (
    _Part(
        *("vcpus", "cpus", "CPUs", "1"),
        # Azure's checks count cores, of sizes without SMT.
        alias="cores",
        fault="NHC2001",
        fix="Check that no CPU is offline and SMT is as the size has it (lscpu)."
        f" {_MOVE} if the count stays wrong, report the node.",
    ),
    _Part(
        *("memory_gib", "memory", f"memory, less {1 - LEAST_MEMORY:.0%}", "GiB", "at_least"),
        share=LEAST_MEMORY,
        fault="NHC2001",
        fix=f"{_MOVE} if memory stays missing, report the node.",
    ),
    _Part(
        *("gpus", "gpus", "GPUs", "1"),
        fault="NHC2009",
        fix="Check with lspci and the kernel log (XID 79) whether a GPU fell off the bus; reboot"
        " once; then report the node.",
    ),
    _Part(
        *("gpu_memory_gib", "gpu_memory", f"memory of each GPU, less {1 - LEAST_MEMORY:.0%}"),
        *("GiB", "at_least"),
        share=LEAST_MEMORY,
        required="gpus",
        fix="Compare the GPU's name in nvidia-smi with the size and check that MIG is off; reboot"
        " once; then report the node.",
    ),
    _Part(
        *("rdma_nics", "rdma_nics", "InfiniBand adapters", "1"),
        fault="NHC2002",
        fix="Check with lspci and ibstat that each adapter is there and its driver loaded; reboot"
        " once; then report the node.",
    ),
    _Part(
        *("rdma_gbps_per_nic", "link_rate", "link rate of each InfiniBand adapter", "Gb/s"),
        "at_least",
        required="rdma_nics",
        fault="NHC2003",
        fix="Check state, rate and error counters with ibstat and the kernel log for link flapping;"
        " reboot once; then report the node.",
    ),
    _Part(
        *("nvme_disks", "nvme_disks", "local NVMe disks", "1"),
        fault="NHC2023",
        fix=f"Check with lspci and nvme list which disk is missing. {_MOVE} then report the node.",
    ),
)


def with_parts(
    published: Expectations,
    sizes: Mapping[str, Mapping[str, Any]],
    sources: Mapping[str, str],
) -> Expectations:
    """Published expectations, and those of a size's catalog row for metrics that they do not judge.

    Args:
        published: as catalog/expectations.yml has them. They take precedence: their limits were
            measured on nodes of the size.
        sizes: rows of the catalog by size, as ``sizes.read_sizes`` gives them.
        sources: the sources of these rows by size, as ``sizes.read_sources`` gives them.
    """
    by_size = {}
    for size, row in sizes.items():
        judged = {item.metric for item in published.of(size, _BENCHMARK)}
        by_size[size.lower()] = list(_of_row(row, sources[size], judged))
    return Expectations(by_size).with_own(published)


def _of_row(row: Mapping[str, Any], source: str, judged: AbstractSet[str]) -> Iterator[Expectation]:
    for column in _PARTS:
        figure = row.get(column.column)
        # Zero GPUs or disks are no part that could be missing.
        if figure and not judged & {column.metric, column.alias}:
            yield column.of(float(figure), source)
