"""From published results to sheets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import units
from .sheet import Column, Sheet, flops, four, three, times, two, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..figures.reference import Comparison, Storage, Sums


_mb, _ms = partial(units.in_unit, unit="MB/s"), partial(units.in_unit, unit="ms")


def reference(
    comparisons: Sequence[Comparison], sums: Sums, storage: Storage | None = None
) -> list[Sheet]:
    """The published tables with the figures recomputed from them and, where there is one, this run
    beside them."""
    sheets = [*scaling_tables(comparisons), _sums(sums)]
    return sheets if storage is None else sheets + storage_sheets(storage)


def scaling_tables(comparisons: Sequence[Comparison]) -> list[Sheet]:
    """The published scaling tables."""
    return list(map(_comparison, comparisons))


def storage_sheets(item: Storage) -> list[Sheet]:
    rows = [
        {
            **row,
            "published": _published(row),
            "shown": units.DISPLAYED.get(row["unit"], row["unit"]),
        }
        for row in item.table
    ]
    sheets = [
        Sheet(
            title=item.title,
            columns=[
                Column("configuration", "volume", words=True),
                Column("clients", "clients", units.count),
                Column("what", "measured", words=True),
                Column("latency", "at"),
                *unshown("low", "high"),
                Column("published", "published", data=False),
                Column("unit"),
                Column("shown", "unit", data=False),
                Column("said", "remark", words=True),
            ],
            rows=rows,
            notes=item.notes,
            facts={"kind": "published_storage", "source": item.source},
        )
    ]
    if item.loads:
        sheets.append(_loads(item.loads))
    if item.mine:
        mine = [
            {
                **row,
                "own": units.measure(row["value"], row["unit"]),
                "shown": units.DISPLAYED.get(row["unit"], row["unit"]),
            }
            for row in item.mine
        ]
        sheets.append(
            Sheet(
                title="Own figures of fio on shared storage: another benchmark than the published",
                columns=[
                    *worded("node", "case"),
                    Column("filesystem", "type"),
                    Column("filesystem_source", "source", words=True),
                    Column("figure", "figure", words=True),
                    Column("device"),
                    Column("statistic", "statistic", words=True),
                    Column("value"),
                    Column("own", "own", data=False),
                    Column("unit"),
                    Column("shown", "unit", data=False),
                ],
                rows=mine,
                facts={"kind": "own_storage"},
            )
        )
    return sheets


def _loads(loads: Sequence[Mapping[str, Any]]) -> Sheet:
    """In the shape of the article's table: rate and throughput at both latencies."""
    at = [
        Column(f"{name}_at_{latency}", f"{words}\nat {latency[:-2]} ms", show)
        for latency in ("2ms", "7ms")
        for name, words, show in (("rate", "I/O per s", units.count), ("bandwidth", "MB/s", _mb))
    ]
    return Sheet(
        title="Own I/O rate of shared storage at a stated latency, over all clients together",
        columns=[
            Column("filesystem_source", "volume", words=True),
            Column("workload", "workload", words=True),
            Column("clients", "clients", units.count),
            *at,
            Column("edge_rate", "highest\nI/O per s", units.count),
            Column("edge_latency", "at ms", _ms),
            Column("points", "queue\ndepths", units.count),
            Column("said", "remark", words=True),
        ],
        rows=list(loads),
        facts={"kind": "own_storage_loads"},
    )


def _published(row: Mapping[str, Any]) -> str:
    unit, ends = row["unit"], (row["low"], row["high"])
    low, high = (units.count(end) if unit == "1/s" else units.measure(end, unit) for end in ends)
    return low if row["low"] == row["high"] else f"{low} to {high}"


def _comparison(item: Comparison) -> Sheet:
    columns = [
        *([Column("nodes", "nodes", units.count)] if item.over == "nodes" else []),
        Column("cores", "cores", units.count),
        Column("vm_size"),
        Column("published_seconds", "published\ns", units.seconds),
        Column("published_flop_per_second", "published\nGFLOP/s", flops),
        Column("published_speedup", "published\nspeed-up", two),
        Column("speedup", "recomp.\nspeed-up", two),
        Column("efficiency", "effic.", three),
        Column("mine_layout", "own\nlayout", words=True),
        Column("mine_seconds", "own\ns", units.seconds),
        Column("mine_flop_per_second", "own\nGFLOP/s", flops),
        Column("mine_speedup", "own\nspeed-up", two),
        Column("mine_efficiency", "own\neffic.", three),
    ]
    return Sheet(
        title=item.title,
        columns=columns,
        rows=item.table,
        notes=item.notes,
        facts={"kind": "published", "over": item.over, "source": item.source},
    )


# Of each sweep; CSV would put more of it under other tables' columns.
_SUMMED: Final = (
    *("configuration", "published_hours", "sum_run_hours", "node_hours", "underbilled"),
)


def _sums(sums: Sums) -> Sheet:
    return Sheet(
        title=sums.title,
        columns=[
            Column("configuration", "runs summed", words=True),
            Column("published_hours", "published\nh", three),
            Column("sum_run_hours", "sum of run times,\nnot node-hours: h", four),
            Column("node_hours", "true\nnode-hours", four),
            Column(
                "underbilled",
                "underbills\nby",
                times,
            ),
        ],
        rows=[{name: row[name] for name in _SUMMED} for row in sums.table],
        notes=sums.notes,
        facts={"kind": "published_cost", "source": sums.source},
    )
