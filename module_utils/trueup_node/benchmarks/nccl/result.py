"""The result of one run of nccl-tests, whatever form it came in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ...errors import ParseError
from ...reading import Line
from ...record import Metric, summarise
from .fit import (
    MODELS_2019,
    Settings,
    ascents,
    check_average,
    check_rows,
    check_wrong,
    cycles_of,
    fitting,
)
from .log import NcclLog
from .rows import Body, Printed, Row

NO_END = (
    "no '# Out of bounds values' and '# Avg bus bandwidth' below the table: it may be cut off, and"
    " rows and the average are not checked"
)
NO_VERDICT = "no '# Out of bounds values' below the table: wrong results are not ruled out"
_GB = 1e9
_MICROSECOND = 1e-6


@dataclass(frozen=True)
class NcclOutput:
    """One run of one operation.

    Attributes:
        operation: one of nccl-tests', or "unknown" where several fit (on two ranks all_reduce and
            sendrecv have the same figures where nothing was checked) and the output does not name
            it.
        may_be: those that fit.
        ranks: GPUs that took part, None where the text does not say.
        hosts: their machines, each once.
        rows: the table, without rows of 0 bytes.
        cycles: how often the sizes were gone through (-N).
        cpu_time: the times are the CPU's (-C); bandwidths are not made from them.
        out_of_bounds: the tool's count of wrong results, None where it did not check.
        average_ok: the tool's verdict on the average against NCCL_TESTS_MIN_BW, None without one.
        counts_wrong: the tables count wrong elements; old ones give the largest relative error.
        log: the facts of NCCL's own log.
        same_column: algbw is printed as busbw (all_gather and reduce_scatter to 2019).
        empty_rows: rows of 0 bytes, left out.
        errors: NCCL's messages at the end.
        unverified: facts that the text lacks for checks of the figures.
        not_judged: settings of the header that are not known, and how many lines in the table.
    """

    operation: str
    ranks: Optional[int]
    hosts: tuple[str, ...]
    rows: tuple[Row, ...]
    cycles: int
    cpu_time: bool
    out_of_bounds: Optional[int]
    average_ok: Optional[bool]
    counts_wrong: bool
    iterations: Optional[int]
    tool_version: Optional[str] = None
    nccl_version: Optional[str] = None
    log: NcclLog = field(default_factory=NcclLog)
    same_column: bool = False
    empty_rows: int = 0
    may_be: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    not_judged: Mapping[str, str] = field(default_factory=dict)

    @property
    def node_count(self) -> Optional[int]:
        """Machines in the list of ranks; None without a list."""
        return len(self.hosts) or None

    @property
    def gpu_count(self) -> Optional[int]:
        """Each rank has a GPU of its own."""
        return self.ranks

    @property
    def parameters(self) -> dict[str, str]:
        """operation, data type and reduction ("none" where nothing is reduced), and the way of the
        data by NCCL's log."""
        return {
            "operation": self.operation,
            "datatype": self.rows[0].type,
            "reduction": self.rows[0].redop or "none",
            **self.log.parameters,
        }

    @property
    def wrong_rows(self) -> tuple[Row, ...]:
        """Rows with wrong values."""
        if not self.counts_wrong:
            return ()
        return tuple(
            row
            for row in self.rows
            if (row.out_of_place and row.out_of_place.wrong)
            or (row.in_place and row.in_place.wrong)
        )

    @property
    def checks(self) -> dict[str, bool]:
        """The tool's check of the values, where it was on; its verdict on the average."""
        checks = {}
        if self.out_of_bounds is not None:
            checks["values_correct"] = self.out_of_bounds == 0 and not self.wrong_rows
        if self.average_ok is not None:
            checks["average_bus_bandwidth"] = self.average_ok
        return checks

    @property
    def warnings(self) -> list[str]:
        """Warnings for the reader of the figures."""
        warnings = []
        if self.out_of_bounds is None and {NO_END, NO_VERDICT}.isdisjoint(self.unverified):
            warnings.append("nccl-tests did not check the results (validation: 0)")
        if self.operation == "unknown":
            warnings.append(
                f"the output does not say which operation it is: {' or '.join(self.may_be)}"
            )
        if self.ranks == 1:
            warnings.append("one rank: nothing is sent, and busbw is 0 or means nothing")
        if self.log.transport == "unknown" and self.ranks != 1:
            warnings.append(f"the transport is unknown: {self.log.why_unknown}")
        if self.log.transport == "p2p":
            warnings.append(
                "GPUs talked directly; NCCL's log does not show that it was over NVLink "
                "(GRAPH in NCCL_DEBUG_SUBSYS would)"
            )
        if self.cpu_time:
            warnings.append("the times are the CPU's (-C); bandwidths are of the GPUs' time")
        if self.same_column:
            warnings.append("this old version prints busbw in the column algbw: algbw is left out")
        if self.empty_rows:
            warnings.append(f"{self.empty_rows} rows of 0 bytes are left out: too small to divide")
        warnings += [f"a topology file was not opened: {name}" for name in self.log.topology_failed]
        warnings += [f"NCCL: {text}" for text in (*self.log.warnings, *self.errors)]
        return warnings

    def metrics(self) -> list[Metric]:
        """By size: busbw and algbw [byte/s], time or cpu_time [s], wrong [1]; the same
        with _in_place. One cycle gives its values, several their median, min and max."""
        by_size: dict[int, list[Row]] = {}
        for row in self.rows:
            by_size.setdefault(row.size, []).append(row)
        metrics: list[Metric] = []
        for size, rows in by_size.items():
            for suffix, bodies in (
                ("", [row.out_of_place for row in rows]),
                ("_in_place", [row.in_place for row in rows]),
            ):
                measured = [body for body in bodies if body is not None]
                if measured:
                    metrics += self._figures(size, suffix, measured)
        return metrics

    def _figures(self, size: int, suffix: str, bodies: Sequence[Body]) -> Iterator[Metric]:
        time = "cpu_time" if self.cpu_time else "time"
        values = [body.busbw.value * _GB for body in bodies]
        yield from _rows("busbw" + suffix, values, "byte/s", "higher", size)
        if not self.same_column:
            values = [body.algbw.value * _GB for body in bodies]
            yield from _rows("algbw" + suffix, values, "byte/s", "higher", size)
        values = [body.time.value * _MICROSECOND for body in bodies]
        yield from _rows(time + suffix, values, "s", "lower", size)
        wrong = [body.wrong for body in bodies if body.wrong is not None]
        if self.counts_wrong and self.out_of_bounds is not None and wrong:
            yield from _rows("wrong" + suffix, wrong, "1", "lower", size)
        iterations = bodies[0].iterations
        if iterations and len(bodies) == 1:
            for statistic, value in zip(("min", "max", "p99"), iterations):
                yield Metric(
                    "iteration_time" + suffix,
                    value * _MICROSECOND,
                    "s",
                    "lower",
                    message_bytes=size,
                    statistic=statistic,
                    n=self.iterations,
                )


def _rows(name: str, values: Sequence[float], unit: str, direction: str, size: int) -> list[Metric]:
    if len(values) == 1:
        return [Metric(name, values[0], unit, direction, message_bytes=size)]
    return summarise(name, values, unit, direction, message_bytes=size)


def version_of(code: int) -> str:
    """NCCL's version from its number: 23004 is 2.30.4, and 2804 (to 2.8) is 2.8.4."""
    major = 10_000 if code >= 10_000 else 1000
    return f"{code // major}.{code % major // 100}.{code % 100}"


def assembled(
    rows: Sequence[Row],
    settings: Settings,
    named: Optional[str],
    out_of_bounds: Optional[tuple[int, Line]],
    average: Optional[tuple[Printed, Optional[str], Line]],
    *,
    counts_wrong: bool,
    cpu_time: bool,
    **extra_fields: Any,
) -> NcclOutput:
    """The output of rows that fit together, whatever form they came in, with ``extra_fields``."""
    check_rows(rows, settings)
    checked = out_of_bounds if settings.validation > 0 else None
    models = fitting(rows, settings, named, old=not counts_wrong, by_wall_time=not cpu_time)
    shared = {model.shared for model in models}
    cycles = (
        ascents(rows)
        if settings.missing
        else cycles_of(rows, settings, shared=shared.pop() if len(shared) == 1 else None)
    )
    if average:
        check_average(rows, settings, average)
    if checked:
        check_wrong(rows, checked, counts=counts_wrong)
    full = tuple(row for row in rows if row.size > 0)
    if not full:
        raise ParseError("no row moves any data: every size is 0 bytes")
    operations = tuple(dict.fromkeys(model.operation for model in models))
    return NcclOutput(
        operation=operations[0] if len(operations) == 1 else "unknown",
        may_be=operations,
        ranks=settings.ranks[0] if len(settings.ranks) == 1 else None,
        rows=full,
        cycles=cycles,
        cpu_time=cpu_time,
        out_of_bounds=checked[0] if checked else None,
        average_ok=average[1] == "OK" if average and average[1] else None,
        counts_wrong=counts_wrong,
        iterations=settings.iterations or None,
        unverified=settings.missing,
        same_column=any(model in MODELS_2019 for model in models),
        empty_rows=len(rows) - len(full),
        **extra_fields,
    )
