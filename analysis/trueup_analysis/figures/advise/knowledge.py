"""The sources of advice: records, published results, sizes, prices."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from trueup_node.errors import BadInput
from trueup_node.node.gpu_support import lacks_cuda_13
from trueup_node.suggest import did_you_mean

from ... import catalog
from ..flops import peak_of_size
from ..lifecycle import advisable
from .estimates import RECORD, Evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from pathlib import Path

    from trueup_node.cases import Case

    from ...spot import Evictions


T = TypeVar("T")


class UserFigure(NamedTuple):
    """One of our records and one value of it."""

    case: Case
    size: str
    nodes: int
    value: float
    evidence: Evidence


@dataclass(frozen=True)
class Knowledge:
    """The catalog and the records that advice is drawn from.

    Attributes:
        folder: the catalog.
        cases: our own records that ended ok.
        today: retired sizes are past before it, and the age of a price counts from it.
    """

    folder: Path
    today: date
    cases: Sequence[Case] = field(default=())

    @cached_property
    def sizes(self) -> Mapping[str, Mapping[str, str]]:
        """The rows of vm_sizes.csv by size; also of retired sizes, whose results still tell
        something of others."""
        return {
            row["size"]: row
            for _, row in catalog.rows(self.folder / "vm_sizes.csv", "size", "status")
        }

    @cached_property
    def withheld(self) -> Mapping[str, str]:
        """By size, why it is not advised."""
        return {
            size: reason
            for size, row in self.sizes.items()
            if (reason := advisable(row, self.today))
        }

    @cached_property
    def evictions(self) -> Mapping[tuple[str, str], Evictions]:
        """By size in lower case and region, how often spot nodes are taken away, as the user's file
        of `trueup prices spot` has it."""
        from ...spot import read_evictions  # noqa: PLC0415 WHY: services and sizings need none

        return read_evictions()

    @cached_property
    def published(self) -> Sequence[Mapping[str, str]]:
        """The rows of reference_results.csv."""
        path = self.folder / "reference_results.csv"
        return [row for _, row in catalog.rows(path, "system", "benchmark", "metric", "value")]

    @cached_property
    def without_cuda_13(self) -> Mapping[str, str]:
        """By size, why it is not advised for work that the roles training and vllm do: the reasons
        of ``withheld``, and the GRID driver that these roles refuse."""
        old_drivers = {
            size: reason for size, row in self.sizes.items() if (reason := lacks_cuda_13(row))
        }
        return {**old_drivers, **self.withheld}

    def require(self, sizes: Sequence[str], withheld: Mapping[str, str]) -> None:
        """Raise BadInput where one of the sizes is not of the catalog, or is withheld."""
        for size in sizes:
            if size not in self.sizes:
                raise BadInput(f"{size} is no size of the catalog{did_you_mean(size, self.sizes)}")
            if size in withheld:
                raise BadInput(f"{size} is not advised: {withheld[size]}")

    def results(self, benchmark: str, metric: str) -> list[Mapping[str, str]]:
        """Published rows of a benchmark whose name begins so, whose value is a number."""
        return [
            row
            for row in self.published
            if row["benchmark"].startswith(benchmark)
            and row["metric"] == metric
            and _is_number(row["value"])
        ]

    @cached_property
    def _made(self) -> dict[Hashable, Any]:
        return {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of ``make``, computed once for this knowledge."""
        if key not in self._made:
            self._made[key] = make()
        cached: T = self._made[key]
        return cached

    @cached_property
    def _peaks(self) -> dict[str, float | None]:
        return {}

    def bf16_peak(self, size: str) -> float | None:
        """Of one GPU of the size, dense, flop/s; None without whole GPUs or a datasheet's peak."""
        if size not in self._peaks:
            try:
                self._peaks[size] = peak_of_size(size, self.folder)[0]
            except BadInput:
                self._peaks[size] = None
        return self._peaks[size]

    @cached_property
    def _bandwidths(self) -> Mapping[str, float]:
        return {
            row["system"]: float(row["value"]) * 1e9
            for row in self.results("datasheet HBM bandwidth", "peak")
        }

    def gpu_bandwidth(self, size: str) -> float | None:
        """Of the memory of one GPU of the size, bytes/s; None as of ``bf16_peak``."""
        row = self.sizes[size]
        return self._bandwidths.get(row["gpu_model"]) if row["gpu_fraction"] == "1" else None

    def own(self, benchmark: str, metric: str, **parameters: Any) -> Iterator[UserFigure]:
        """Our records of a benchmark with these parameters on sizes of the catalog, each with the
        value of a metric."""
        for case in self.cases:
            value = case.plain(metric)
            if (
                case.benchmark == benchmark
                and value is not None
                and case.vm_size in self.sizes
                and case.node_count
                and all(
                    case.parameters.get(name) == expected for name, expected in parameters.items()
                )
            ):
                source = f"{case.run_id}, {case.case}"
                evidence = Evidence(RECORD, source, (case.started_at or "")[:10])
                yield UserFigure(case, str(case.vm_size), case.node_count, value, evidence)


def number(row: Mapping[str, str], column: str) -> float | None:
    """A figure of a row of the catalog, None where it has none."""
    return float(row[column]) if row.get(column) else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
