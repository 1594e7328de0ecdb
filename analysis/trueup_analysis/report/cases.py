"""The loaded frames as plain objects: a report reads each case a few times and joins nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..render.units import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..load import Loaded

__all__ = ["Case", "Figures", "Machine", "headline_case", "machines", "problem", "read_cases"]


@dataclass(frozen=True)
class Figures:
    """One metric of one case in base units: the median (or the only value), the least, the
    greatest, and how many.
    """

    unit: str
    median: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(frozen=True)
class Machine:
    """What records say of the nodes that they were made on."""

    nodes: str
    vm_size: str | None
    region: str | None
    system: dict[str, Any]

    def get(self, name: str) -> Any:
        """A field of the record's ``system``, None where it does not say."""
        return self.system.get(name)

    @property
    def kind(self) -> str:
        """What machines have in common that are compared: the Azure size, off Azure the CPU."""
        return self.vm_size or str(self.get("cpu_model") or self.nodes)


@dataclass(frozen=True)
class Case:
    """One record."""

    run_id: str
    benchmark: str
    name: str
    outcome: str
    reason: str | None
    machine: Machine
    node_count: int | None
    ranks: int | None
    threads: int | None
    cores: int | None
    parameters: dict[str, Any]
    software: dict[str, str]
    command: list[str]
    started_at: str | None
    duration: float | None
    raw_path: str | None
    source: str
    provenance: str
    figures: dict[str, Figures] = field(default_factory=dict)

    @property
    def measured(self) -> bool:
        """Whether this is a record of ours, not a published result."""
        return self.provenance == "measured"

    def median(self, name: str) -> float | None:
        """A metric's median in its base unit, None where the record lacks it."""
        found = self.figures.get(name)
        return None if found is None else found.median

    @property
    def layout(self) -> str:
        """ "2 ranks x 1 thread, numa": how the cores were used."""
        if self.ranks is None or self.threads is None:
            return "unknown"
        ranks = f"{self.ranks} rank" + ("s" if self.ranks > 1 else "")
        threads = f"{self.threads} thread" + ("s" if self.threads > 1 else "")
        binding = self.parameters.get("binding")
        bound = "" if binding in (None, "", "none") else f", by {binding}"
        mpi = self.parameters.get("mpi")
        exchange = "" if mpi in (None, "", "off", "basic") else f", MPI {mpi}"
        launcher = self.parameters.get("launcher")
        exchange += "" if launcher in (None, "", "local") else f", {launcher}"
        return f"{ranks} × {threads}{bound}{exchange}"

    @property
    def short_layout(self) -> str:
        """The same in a few characters: "2x1 numa"."""
        if self.ranks is None or self.threads is None:
            return ""
        binding = self.parameters.get("binding")
        bound = "" if binding in (None, "", "none") else f" {binding}"
        return f"{self.ranks}x{self.threads}{bound}"


def read_cases(loaded: Loaded) -> list[Case]:
    """All records, in the order in which they were read."""
    if loaded.cases.empty:
        return []
    figures = _figures(loaded.metrics)
    return [_case(row, figures.get(row["record"], {})) for row in loaded.cases.to_dict("records")]


def machines(cases: Sequence[Case]) -> list[Machine]:
    """The kinds of machine that the cases ran on, each with all of its nodes ("a+b")."""
    kinds: dict[str, Machine] = {}
    nodes: dict[str, dict[str, None]] = {}
    for case in cases:
        machine = case.machine
        system = sorted(machine.system.items(), key=str)
        key = f"{machine.vm_size}\0{machine.region}\0{system}"
        kinds.setdefault(key, machine)
        nodes.setdefault(key, {}).update(dict.fromkeys(machine.nodes.split("+")))
    return [replace(machine, nodes="+".join(nodes[key])) for key, machine in kinds.items()]


def _figures(metrics: pd.DataFrame) -> dict[Any, dict[str, Figures]]:
    """record -> metric -> its statistics; figures of one message size or device
    of many are another benchmark's, and left out.
    """
    found: dict[Any, dict[str, dict[str, Any]]] = {}
    if metrics.empty:
        return {}
    plain = metrics[metrics["message_bytes"].isna() & metrics["device"].isna()]
    places = {"min": "low", "max": "high"}
    columns = ["record", "name", "value", "unit", "statistic", "n"]
    for record, name, value, unit, statistic, n in plain[columns].itertuples(index=False):
        row = found.setdefault(record, {}).setdefault(str(name), {"unit": unit})
        row[places.get(statistic, "median")] = float(value)
        if _known(n) is not None:
            row["n"] = int(n)
    return {
        record: {name: Figures(**row) for name, row in names.items()}
        for record, names in found.items()
    }


def _case(row: dict[Any, Any], figures: dict[str, Figures]) -> Case:
    def text(name: str) -> str | None:
        value = _known(row[name])
        return None if value is None else str(value)

    def whole(name: str) -> int | None:
        value = _known(row[name])
        return None if value is None else int(value)

    duration = _known(row["duration_seconds"])
    return Case(
        run_id=text("run_id") or "unknown",
        benchmark=str(row["benchmark"]),
        name=str(row["case"]),
        outcome=str(row["outcome"]),
        reason=text("reason"),
        machine=Machine(
            nodes=text("nodes") or "unknown",
            vm_size=text("vm_size"),
            region=text("region"),
            system=dict(row["system"]),
        ),
        node_count=whole("node_count"),
        ranks=whole("ranks"),
        threads=whole("threads_per_rank"),
        cores=whole("cores"),
        parameters=dict(row["parameters"]),
        software=dict(row["software"]),
        command=list(row["command"]),
        started_at=text("started_at"),
        duration=None if duration is None else float(duration),
        raw_path=text("raw_path"),
        source=str(row["source"]),
        provenance=str(row["provenance"]),
        figures=figures,
    )


def _known(value: Any) -> Any:
    """The value, None where the frame says that it is missing."""
    return None if value is None or value is pd.NA or value != value else value


def headline_case(ok: Sequence[Case]) -> Case | None:
    """The case that the headline figures are of: the fastest one of the problem that most cases
    are of.

    Run times of different problems are not comparable; of equally many cases, the problem with
    more points counts.
    """
    groups: dict[str, list[Case]] = {}
    for case in ok:
        if case.benchmark == "devito" and case.median("run_time") is not None:
            groups.setdefault(problem(case), []).append(case)
    if not groups:
        return None

    most = max(
        groups.values(),
        key=lambda group: (len(group), number(group[0].parameters.get("points")) or 0.0),
    )
    return min(most, key=lambda case: case.median("run_time") or 0.0)


def problem(case: Case) -> str:
    """The problem that was solved: "acoustic, 256×256×256, space order 8, 200 ms"."""
    chosen = case.parameters
    words = [str(chosen.get("model", case.benchmark))]
    if chosen.get("configuration"):
        words.append(str(chosen["configuration"]))
    if chosen.get("shape"):
        words.append(str(chosen["shape"]).replace("x", "×"))
    if chosen.get("space_order") is not None:
        words.append(f"space order {chosen['space_order']}")
    if (simulated := number(chosen.get("tn_ms"))) is not None:
        words.append(f"{simulated:g} ms")
    return ", ".join(words)
