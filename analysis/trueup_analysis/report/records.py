"""The report's lists of everything that was read, and how its figures are made."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from ..render.html import UNKNOWN, Column, Fact, Part, Row, Section, Table
from ..render.units import seconds
from .cells import moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..load import Loaded
    from .cases import Case

__all__ = ["excluded_section", "method_section", "records_section"]


def records_section(cases: Sequence[Case]) -> Section:
    several = len({case.run_id for case in cases}) > 1
    columns = (
        Column("Case"),
        *((Column("Run"),) if several else ()),
        Column("Node"),
        Column("Outcome"),
        Column("Reason", kind="text"),
        Column("Started", "UTC"),
        Column("Duration", "s", "number"),
        Column("Command", kind="code"),
        Column("Raw output", kind="code"),
    )
    rows = [
        Row(
            (
                f"{case.benchmark} {case.name}",
                *((case.run_id,) if several else ()),
                case.machine.nodes,
                case.outcome if case.measured else "published",
                case.reason or ("" if case.outcome == "ok" else UNKNOWN),
                moment(case.started_at) if case.started_at else UNKNOWN,
                seconds(case.duration),
                " ".join(case.command) or UNKNOWN,
                _beside(case),
            ),
            mark="" if case.outcome == "ok" else "bad",
        )
        for case in cases
    ]
    listing = Table(
        "records",
        "Every record that was read, whatever its outcome.",
        columns,
        tuple(rows),
        shown=500,
    )
    return Section("records", "All records", (Part(tables=(listing,)),))


def _beside(case: Case) -> str:
    """The raw output's place below the results folder."""
    if case.raw_path is None:
        return "none kept" if case.measured else case.provenance
    return "/".join(PurePath(case.raw_path).parts[-2:])


def excluded_section(loaded: Loaded) -> Section | None:
    if not loaded.excluded:
        return None
    columns = (Column("File", kind="code"), Column("Reason", kind="text"))
    rows = tuple(Row((item.path, item.reason), mark="bad") for item in loaded.excluded)
    listing = Table("left-out", "What could not be read, and why.", columns, rows)
    return Section("left-out", "Files left out", (Part(tables=(listing,)),))


_METHOD: Final = (
    Fact(
        "Median, n, spread",
        "Each case is run n times after compilation and autotuning, which are not part of the"
        " time. The median stands for"
        " it; the spread is the least and the greatest measurement. It is no confidence interval.",
    ),
    Fact(
        "Run time",
        "s. The time of the forward operator in Devito's own acoustic benchmark, without set-up.",
    ),
    Fact(
        "Point rate",
        "GPts/s, 10⁹ grid points updated in a second: grid points × time steps / run time.",
    ),
    Fact(
        "Floating-point rate",
        "GFLOP/s, 10⁹ floating-point operations a second, counted by Devito from the generated"
        " code, not by the CPU.",
    ),
    Fact(
        "Operational intensity",
        "flop/byte: the counted operations for each byte that must move between memory and the"
        " CPU.",
    ),
    Fact(
        "Memory bandwidth",
        "GB/s, 10⁹ byte/s. Triad is a[i] = b[i] + q × c[i] over arrays at least four times the"
        " last-level cache; three"
        " arrays count 24 byte an element.",
    ),
    Fact(
        "Roofline fraction",
        "%. Floating-point rate / (measured triad bandwidth × operational intensity), or / peak"
        " where that is lower.",
    ),
    Fact(
        "Speed-up, efficiency",
        "Strong scaling: run time of the baseline / run time. Efficiency is the speed-up / how"
        " many times the resources of"
        " the baseline were used; in weak scaling, where the work grows along, it is the"
        " baseline's time / the time.",
    ),
    Fact(
        "Serial fraction",
        "Karp and Flatt's: (1/S - 1/p) / (1 - 1/p) for speed-up S on p times the resources."
        " Growing with p, it means"
        " overhead rather than serial work.",
    ),
    Fact(
        "Amdahl, USL",
        "Least-squares fits to the speed-ups. Amdahl: S = p / (1 + σ(p - 1)). Universal"
        " scalability law:"
        " S = p / (1 + σ(p - 1) + κp(p - 1)); σ is contention, κ coherency. ± is the standard"
        " error of the fit.",
    ),
    Fact(
        "Cost",
        "US$ = nodes × run time × price of a node-hour. Storage, network, provisioning and idle"
        " time are not in it.",
    ),
    Fact(
        "Sources",
        "Measured figures come from the records of this run, each with the tool's own output"
        " beside it. Sizes, prices and"
        " published results come from the catalog, with the source and date that the tables name.",
    ),
)


def method_section() -> Section:
    return Section("method", "Method and units", (Part(terms=_METHOD),))
