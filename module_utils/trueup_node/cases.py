"""Records as plain objects, a ``Case`` each: for judging, lists and reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from .record import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The statistics that stand for a figure, in this order where a tool gives several.
TYPICAL: Final = (None, "median", "single", "mean")
# The provenance of records of ours; published results have the publication.
MEASURED: Final = "measured"
_NO_BINDING: Final = (None, "", "none")

# Code that judges and lists calls a metric row a figure.
Figure = Metric


# Not frozen: it takes a quarter of the time to make, half a second of a hundred thousand.
@dataclass
class Case:
    """One record, and its figures. Nobody changes it.

    Attributes:
        nodes: the nodes that it ran on, by name.
        vm_size: the Azure size, None where it is not known.
        node_count: None where nobody says it: one name then stands for all nodes.
        record: its number in ``Loaded.cases``.
        provenance: "measured", or the publication.
    """

    nodes: tuple[str, ...]
    vm_size: str | None
    benchmark: str
    case: str
    outcome: str
    reason: str | None
    parameters: Mapping[str, Any]
    software: Mapping[str, str]
    figures: Sequence[Figure]
    record: int = 0
    run_id: str = "unknown"
    region: str | None = None
    offer: str | None = None
    node_count: int | None = None
    ranks: int | None = None
    threads: int | None = None
    cores: int | None = None
    gpus: int | None = None
    system: Mapping[str, Any] = field(default_factory=dict)
    command: Sequence[str] = ()
    started_at: str | None = None
    duration: float | None = None
    raw_path: str | None = None
    source: str = ""
    provenance: str = MEASURED

    @property
    def measured(self) -> bool:
        """Whether this is a record of ours, not a published result."""
        return self.provenance == MEASURED

    @property
    def node(self) -> str:
        """The names of its nodes in one text: "a+b"."""
        return "+".join(self.nodes)

    @property
    def machine(self) -> str:
        """The property that compared machines have in common: the Azure size, off Azure the CPU."""
        return self.vm_size or str(self.system.get("cpu_model") or self.node)

    @cached_property
    def _by_metric(self) -> Mapping[str, Sequence[Figure]]:
        by_name: dict[str, list[Figure]] = {}
        for figure in self.figures:
            by_name.setdefault(figure.name, []).append(figure)
        return by_name

    def of(self, metric: str) -> Sequence[Figure]:
        """Its rows of one metric."""
        return self._by_metric.get(metric, ())

    def typical(self, metric: str, statistic: str = "") -> list[Figure]:
        """The rows that stand for a metric: those of the named statistic, else of the first of
        ``TYPICAL`` that it has.
        """
        rows = self.of(metric)
        held = {row.statistic for row in rows}
        candidates = (statistic,) if statistic else TYPICAL
        chosen = next((candidate for candidate in candidates if candidate in held), "")
        return [row for row in rows if row.statistic == chosen]

    def plain(self, metric: str, statistic: str = "") -> float | None:
        """A figure of the whole case (no message size, no device): the named statistic, else the
        one that stands for the figure. None where the record lacks it.
        """
        candidates = (statistic,) if statistic else TYPICAL
        by_statistic = {
            figure.statistic: figure.value
            for figure in self.of(metric)
            if figure.message_bytes is None and figure.device is None
        }
        return next(
            (by_statistic[candidate] for candidate in candidates if candidate in by_statistic), None
        )

    def repeats(self, metric: str) -> int | None:
        """How often a figure of the whole case was measured, None where the record is silent."""
        return next((row.n for row in self.of(metric) if row.device is None and row.n), None)

    @property
    def layout(self) -> str:
        """ "2 ranks x 1 thread, by numa": how the cores were used; empty where nobody says."""
        if self.ranks is None or self.threads is None:
            return ""
        ranks = f"{self.ranks} rank" + ("s" if self.ranks > 1 else "")
        threads = f"{self.threads} thread" + ("s" if self.threads > 1 else "")
        binding, mpi = self.parameters.get("binding"), self.parameters.get("mpi")
        words = "" if binding in _NO_BINDING else f", by {binding}"
        words += "" if mpi in (None, "", "off", "basic") else f", MPI {mpi}"
        launcher = self.parameters.get("launcher")
        words += "" if launcher in (None, "", "local") else f", {launcher}"
        return f"{ranks} × {threads}{words}"

    @property
    def short_layout(self) -> str:
        """The same in a few characters: "2x1 numa"."""
        if self.ranks is None or self.threads is None:
            return ""
        binding = self.parameters.get("binding")
        return f"{self.ranks}x{self.threads}" + ("" if binding in _NO_BINDING else f" {binding}")


def of_record(record: Mapping[str, Any]) -> Case:
    """A record of ``record.read_records`` as a case, without where it ran.

    Raises:
        KeyError, TypeError, ValueError: a member is missing, or not of its type.
    """
    return Case(
        nodes=tuple(map(str, record["nodes"])),
        vm_size=record.get("vm_size"),
        benchmark=str(record["benchmark"]),
        case=str(record["case"]),
        outcome=str(record["outcome"]),
        reason=record.get("reason"),
        parameters=dict(record["parameters"]),
        software=dict(record.get("software") or {}),
        figures=[Figure(**{**row, "value": float(row["value"])}) for row in record["metrics"]],
        run_id=str(record.get("run_id")),
        gpus=record.get("gpus"),
        node_count=record.get("node_count", len(record["nodes"])),
        started_at=str(record["started_at"]),
    )


def kind_of(case: Case) -> str:
    """The properties that two measurements of the same thing on the same nodes share.

    Of a pair of nodes either may have begun.
    """
    names, name = case.nodes, case.case
    if case.benchmark == "ib" and len(names) > 1:
        pair = ("test", "device", "message_bytes", "gdr")
        name = repr([str(case.parameters.get(parameter)) for parameter in pair])
        names = tuple(sorted(names))
    return repr((names, case.benchmark, name))
