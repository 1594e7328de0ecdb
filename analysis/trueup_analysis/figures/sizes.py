"""The catalog's limits of the hardware of a VM size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from trueup_node.errors import BadInput

from .. import catalog
from .flops import peak_of_size

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trueup_node.cases import Case
    from trueup_node.view import Peak

# No column of vm_sizes.csv: the GPU's figure in catalog/training.yml.
_NUMBERS: Final = ("memory_bandwidth_gbps", "peak_fp64_gflops")
_BF16: Final = "gpu_peak_bf16_gflops_each"


class Sizes:
    """The rows of catalog/vm_sizes.csv by size, whatever its upper and lower case."""

    def __init__(self, rows: Mapping[str, Mapping[str, str]], folder: Path) -> None:
        self._rows = rows
        self._folder = folder
        self._bf16: dict[str, float | None] = {}

    def figure(self, size: str | None, column: str) -> float | None:
        """A figure of a size in the column's own unit, None where the catalog has none."""
        row = self._rows.get((size or "").lower(), {})
        if column == _BF16:
            return self._bf16_of(size)
        return float(row[column]) if row.get(column) else None

    def text(self, size: str, column: str) -> str:
        """A column of a size as it stands, empty where the catalog has none."""
        return self._rows.get(size.lower(), {}).get(column, "")

    def names(self) -> list[str]:
        """All sizes, as Azure writes them."""
        return [row["size"] for row in self._rows.values()]

    def name(self, size: str) -> str | None:
        """A size as Azure writes it, None where the catalog has none of that name."""
        row = self._rows.get(size.lower())
        return row["size"] if row else None

    def _bf16_of(self, size: str | None) -> float | None:
        """BF16 peak of a GPU in GFLOP/s, dense."""
        if size is None:
            return None
        if size not in self._bf16:
            try:
                self._bf16[size] = peak_of_size(size, self._folder)[0] / 1e9
            except BadInput:
                self._bf16[size] = None
        return self._bf16[size]

    def peak(self, case: Case, peak: Peak | None) -> float | None:
        """The peak of a measure of a case, in the measure's base unit; None where nobody says."""
        while peak is not None and peak.parameter:
            if str(case.parameters.get(peak.parameter)) == peak.value:
                break
            peak = peak.otherwise
        if peak is None:
            return None
        value = self.figure(case.vm_size, peak.column)
        if value is None:
            return None
        counts = [case.node_count] * peak.nodes + [case.gpus] * peak.gpus
        if None in counts:
            return None
        return math.prod([value, peak.factor, *(count or 1 for count in counts)])


def gpu_fraction(row: Mapping[str, str]) -> float:
    """The part of each GPU that a VM of the size sees; 1 where the catalog says nothing."""
    over, _, under = (row["gpu_fraction"] or "1").partition("/")
    return float(over) / float(under or 1)


def read_sizes(folder: Path) -> Sizes:
    """The sizes of a catalog.

    Raises:
        BadInput: vm_sizes.csv cannot be read, or a figure in it is no number.
    """
    rows = {}
    for where, row in catalog.rows(folder / "vm_sizes.csv", "size", *_NUMBERS):
        try:
            for column in _NUMBERS:
                float(row[column] or 0)
        except ValueError as error:
            raise BadInput(f"{where}: {error}") from error
        rows[row["size"].lower()] = row
    return Sizes(rows, folder)
