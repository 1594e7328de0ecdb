"""Published tables beside what is recomputed from them, and beside this run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd
from trueup.errors import BadInput

from .. import units
from ..published import read_storage
from . import cost
from .scaling import tables

if TYPE_CHECKING:
    from pathlib import Path

    from ..load import Loaded
    from .scaling.tables import Series

# What a reader of the article must know and its tables do not say. Source: the article's own
# figures, recomputed.
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
            mine_efficiency (this run at the same resource; missing without one).
    """

    title: str
    over: str
    source: str
    table: pd.DataFrame
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sums:
    """The published cost table: configuration, published_hours, sum_run_hours, node_hours,
    underbilled."""

    title: str
    source: str
    table: pd.DataFrame
    notes: list[str] = field(default_factory=list)


_NOT_COMPARABLE = (
    "The published rates are of an industry-standard EDA benchmark, a mix of reads, writes and"
    " metadata operations of 10 clients on one volume, at a given latency. fio does another load on"
    " each node alone: what stands here as own is not to be divided by them."
)
_UNIT_ERROR = (
    'The article prints "10~12TB/s" for the volumes of 500 TB. Its 10 clients have 30 Gb/s each,'
    " 37.5 GB/s together, and its tables are in MB/s: it must be GB/s, and is so here."
)


@dataclass(frozen=True)
class Storage:
    """Published I/O rates of shared storage, and this run's own figures of fio.

    Attributes:
        table: configuration, clients, what, latency, low, high, unit, said.
        mine: node, case, directory, filesystem, filesystem_source, figure, device, statistic,
            value, unit.
    """

    title: str
    source: str
    table: pd.DataFrame
    mine: pd.DataFrame
    notes: list[str] = field(default_factory=list)


def storage(published: Path, mine: Loaded | None) -> Storage:
    """The published I/O rates, with this run's fio figures of file systems that are no disk.

    Raises:
        BadInput: the file cannot be read, or holds no such rows.
    """
    rows = read_storage(published)
    if not rows:
        message = f"{published} holds no published I/O rates"
        raise BadInput(message)
    own = _of_shares(mine)
    notes = [_UNIT_ERROR]
    if not own.empty:
        notes.append(_NOT_COMPARABLE)
    source = str(rows[0]["source"])
    return Storage(
        title=f"Published I/O rates of shared storage, {source}",
        source=source,
        table=pd.DataFrame(rows).drop(columns=["source", "system"]).astype({"clients": "Int64"}),
        mine=own,
        notes=notes,
    )


_SHARED = ("nfs", "nfs4", "lustre")
_OWN = (
    *("node", "case", "directory", "filesystem", "filesystem_source", "figure", "device"),
    *("statistic", "value", "unit"),
)


def _of_shares(mine: Loaded | None) -> pd.DataFrame:
    if mine is None:
        return pd.DataFrame(columns=list(_OWN))
    cases = mine.cases[(mine.cases["benchmark"] == "fio") & (mine.cases["outcome"] == "ok")]
    told = ("directory", "filesystem", "filesystem_source")
    rows = [
        {
            "record": case["record"],
            "node": case["nodes"],
            "case": case["case"],
            **{name: case["parameters"].get(name) for name in told},
        }
        for case in cases.to_dict("records")
        if case["parameters"].get("filesystem") in _SHARED
    ]
    if not rows:
        return pd.DataFrame(columns=list(_OWN))
    figures = mine.metrics.rename(columns={"name": "figure"})
    joined = pd.DataFrame(rows).merge(figures, on="record", how="inner", validate="one_to_many")
    return joined[list(_OWN)].reset_index(drop=True)


def compare(published: Loaded, mine: Loaded | None) -> list[Comparison]:
    """Each published Devito scaling table, this run's best matching strong series beside it.

    Raises:
        BadInput: no published Devito results.
    """
    own = _own(mine)
    return [_comparison(series, own) for series in tables.series(published)]


def sums(published: Loaded) -> Sums:
    """The published cost table, with the node-hours that it leaves out.

    Raises:
        BadInput: no published Devito results.
    """
    totals = cost.table(published, prices=()).totals
    source = str(published.cases["provenance"].iloc[0])
    return Sums(
        title=f"Published cost table, {source}",
        source=source,
        table=totals,
        notes=[_HOW_SUMMED, "Node-hours are nodes x run time, summed; they are what Azure bills."],
    )


def _own(mine: Loaded | None) -> list[Series]:
    if mine is None:
        return []
    try:
        return [item for item in tables.series(mine) if item.kind == "strong"]
    except BadInput:
        # Nothing of Devito in these results: the published tables stand alone, and the command line
        # says so.
        return []


def _comparison(series: Series, own: list[Series]) -> Comparison:
    best = series.table[series.table["best"]]
    out = pd.DataFrame(
        {
            "resource": best["resource"],
            "cores": best["cores"],
            "nodes": best["node_count"],
            "vm_size": best["vm_size"],
            "published_seconds": best["median"],
            "published_flop_per_second": best["flop_rate"],
            "published_speedup": best["published_speedup"],
            "speedup": best["speedup"],
            "efficiency": best["efficiency"],
        }
    )
    notes = [series.stops_paying] if series.stops_paying else []
    notes += [
        text for start, text in _CORRECTIONS.items() if series.configuration.startswith(start)
    ]
    chosen = _matching(series, own)
    mine = pd.DataFrame(
        columns=[
            "resource",
            "mine_layout",
            "mine_seconds",
            "mine_flop_per_second",
            "mine_speedup",
            "mine_efficiency",
        ]
    )
    if chosen is not None:
        rows = chosen.table[chosen.table["best"]]
        mine = pd.DataFrame(
            {
                "resource": rows["resource"],
                "mine_cores": rows["cores"],
                "mine_nodes": rows["node_count"],
                "mine_layout": rows["layout"],
                "mine_seconds": rows["median"],
                "mine_flop_per_second": rows["flop_rate"],
                "mine_speedup": rows["speedup"],
                "mine_efficiency": rows["efficiency"],
            }
        )
        notes.append(
            f"Own figures are of this run: {chosen.title}, baseline"
            f" {units.plural(chosen.baseline, chosen.over.removesuffix('s'))}. The article does"
            " not give its problem size, so compare speed-up and efficiency; seconds belong to"
            " different work."
        )
        if chosen.stops_paying:
            notes.append(f"In this run: {chosen.stops_paying}")
    else:
        mine = mine.astype({"resource": "int64"})
    out = out.merge(mine, on="resource", how="outer", validate="one_to_one").sort_values("resource")
    if chosen is not None:
        out["cores"] = out["cores"].fillna(out["mine_cores"])
        out["nodes"] = out["nodes"].fillna(out["mine_nodes"])
        out = out.drop(columns=["mine_cores", "mine_nodes"])
    return Comparison(
        title=f"Published: {series.title} ({series.provenance})",
        over=series.over,
        source=series.provenance,
        table=out.reset_index(drop=True),
        notes=notes,
    )


def _matching(series: Series, own: list[Series]) -> Series | None:
    """The series of this run over the same resource: the same size first, then the one with most
    points."""
    same = [item for item in own if item.over == series.over]
    if not same:
        return None
    return max(
        same,
        key=lambda item: (
            item.vm_size is not None and item.vm_size == series.vm_size,
            int(item.table["best"].sum()),
        ),
    )
