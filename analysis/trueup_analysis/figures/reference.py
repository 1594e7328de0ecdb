"""Published tables beside their recomputed figures, and beside this run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trueup_node.errors import BadInput

from .. import units
from ..cases import read_cases
from ..published import read_storage
from . import cost, shared_load
from .scaling import tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trueup_node.cases import Case

    from ..load import Loaded
    from .scaling.tables import Series

# Facts that a reader of the article needs and its tables lack. Source: the article's own figures,
# recomputed.
_CORRECTIONS = {
    "single node": (
        "The article says that a single node scales very well up to 64 and 96 cores; by its own"
        " figures the efficiency at 64 cores is 0.392, and 96 and 120 cores are slower than 64."
    ),
}
_HOW_SUMMED = (
    "The published hours are the sums of the run times of a table's rows, cut (not rounded) to"
    " three decimals, with the node count left out: multiplied by the hourly price they are"
    " right for one node only."
)


@dataclass(frozen=True)
class Comparison:
    """One published scaling table.

    Attributes:
        table: rows by resource; columns: cores, nodes, vm_size, published_seconds,
            published_flop_per_second, published_speedup (as printed), speedup and efficiency
            (recomputed), and mine_layout, mine_seconds, mine_flop_per_second, mine_speedup,
            mine_efficiency (this run at the same resource; absent without one).
    """

    title: str
    over: str
    source: str
    table: Sequence[Mapping[str, Any]]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sums:
    """The published cost table: configuration, published_hours, sum_run_hours, node_hours,
    underbilled."""

    title: str
    source: str
    table: Sequence[Mapping[str, Any]]
    notes: list[str] = field(default_factory=list)


_NOT_COMPARABLE = (
    "The published rates are of an industry-standard EDA benchmark, a mix of reads, writes and"
    " metadata operations of 10 clients on one volume, at a given latency. fio's is another load,"
    " without metadata operations: what stands here as own is not to be divided by them."
)
_UNIT_ERROR = (
    'The article prints "10~12TB/s" for the volumes of 500 TB. Its 10 clients have 30 Gb/s each,'
    " 37.5 GB/s together, and its tables are in MB/s: it must be GB/s, and is so here."
)


@dataclass(frozen=True)
class Storage:
    """Published I/O rates of shared storage, and this run's own figures of fio.

    Attributes:
        table: rows as ``read_storage`` gives them.
        mine: node, case, directory, filesystem, filesystem_source, figure, device, statistic,
            value, unit.
        loads: rates at latencies over clients, as ``shared_load.rows`` gives them.
    """

    title: str
    source: str
    table: Sequence[Mapping[str, Any]]
    mine: Sequence[Mapping[str, Any]]
    loads: Sequence[Mapping[str, Any]] = ()
    notes: list[str] = field(default_factory=list)


def storage(published: Path, mine: Loaded | None) -> Storage:
    """The published I/O rates, with this run's fio figures of file systems that are no disk.

    Raises:
        BadInput: the file cannot be read, or holds no such rows.
    """
    rows = read_storage(published)
    if not rows:
        raise BadInput(f"{published} holds no published I/O rates")
    cases = _of_shares(mine)
    own_rows = [row for case in cases if case.outcome == "ok" for row in _told(case)]
    loads, notes = shared_load.rows(cases, [] if mine is None else mine.runs)
    notes = [_UNIT_ERROR, *notes]
    if own_rows:
        notes.append(_NOT_COMPARABLE)
    source = str(rows[0]["source"])
    return Storage(
        title=f"Published I/O rates of shared storage, {source}",
        source=source,
        table=rows,
        mine=own_rows,
        loads=loads,
        notes=notes,
    )


_SHARED = ("nfs", "nfs4", "lustre")
_TOLD_OF = ("directory", "filesystem", "filesystem_source")


def _of_shares(mine: Loaded | None) -> list[Case]:
    if mine is None:
        return []
    records = [index for index, name in enumerate(mine.values("benchmark")) if name == "fio"]
    cases = read_cases(mine, records=records)
    return [case for case in cases if case.parameters.get("filesystem") in _SHARED]


def _told(case: Case) -> list[dict[str, Any]]:
    return [
        {
            "node": case.node,
            "case": case.case,
            **{name: case.parameters.get(name) for name in _TOLD_OF},
            "figure": row.name,
            "device": row.device,
            "statistic": row.statistic,
            "value": row.value,
            "unit": row.unit,
        }
        for row in case.figures
    ]


def compare(published: Loaded, mine: Sequence[Series]) -> list[Comparison]:
    """Each published Devito scaling table, the best matching of this run's strong series beside it.

    Raises:
        BadInput: no published Devito results.
    """
    return [_comparison(series, mine) for series in tables.series(published)]


def sums(published: Loaded) -> Sums:
    """The published cost table, with the node-hours that it leaves out.

    Raises:
        BadInput: no published Devito results.
    """
    totals = cost.table(published, prices=()).totals
    source = published.values("provenance")[0]
    return Sums(
        title=f"Published cost table, {source}",
        source=source,
        table=totals,
        notes=[_HOW_SUMMED, "Node-hours are nodes x run time, summed; they are what Azure bills."],
    )


def own(mine: Loaded | None) -> list[Series]:
    """The strong series of this run."""
    if mine is None:
        return []
    try:
        return [item for item in tables.series(mine) if item.kind == "strong"]
    except BadInput:
        # Nothing of Devito in these results: the published tables stand alone, and the command line
        # says so.
        return []


# Columns of a scaling table as they are called here.
_PUBLISHED = {
    "resource": "resource",
    "cores": "cores",
    "nodes": "node_count",
    "vm_size": "vm_size",
    "published_seconds": "median",
    "published_flop_per_second": "flop_rate",
    **{name: name for name in ("published_speedup", "speedup", "efficiency")},
}
_MINE = {
    "mine_layout": "layout",
    "mine_seconds": "median",
    "mine_flop_per_second": "flop_rate",
    "mine_speedup": "speedup",
    "mine_efficiency": "efficiency",
}


def _comparison(series: Series, mine: Sequence[Series]) -> Comparison:
    rows = {
        row.resource: {ours: getattr(row, theirs) for ours, theirs in _PUBLISHED.items()}
        for row in series.best
    }
    notes = [series.stops_paying] if series.stops_paying else []
    notes += [
        text for start, text in _CORRECTIONS.items() if series.configuration.startswith(start)
    ]
    chosen = _matching(series, mine)
    if chosen is not None:
        for row in chosen.best:
            resource_columns = {
                ours: getattr(row, _PUBLISHED[ours]) for ours in ("resource", "cores", "nodes")
            }
            at = rows.setdefault(row.resource, resource_columns)
            at |= {ours: getattr(row, theirs) for ours, theirs in _MINE.items()}
        notes.append(
            f"Own figures are of this run: {chosen.title}, baseline"
            f" {units.plural(chosen.baseline, chosen.over.removesuffix('s'))}. The article does"
            " not give its problem size, so compare speed-up and efficiency; seconds belong to"
            " different work."
        )
        if chosen.stops_paying:
            notes.append(f"In this run: {chosen.stops_paying}")
    return Comparison(
        title=f"Published: {series.title} ({series.provenance})",
        over=series.over,
        source=series.provenance,
        table=[rows[resource] for resource in sorted(rows)],
        notes=notes,
    )


def _matching(series: Series, mine: Sequence[Series]) -> Series | None:
    """The series of this run over the same resource: the same size first, then the one with most
    points."""
    same = [item for item in mine if item.over == series.over]
    if not same:
        return None
    return max(
        same,
        key=lambda item: (
            item.vm_size is not None and item.vm_size == series.vm_size,
            len(item.best),
        ),
    )
