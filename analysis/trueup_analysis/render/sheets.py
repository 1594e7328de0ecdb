"""From results to sheets: which columns a table has, their headers, units and rounding."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from trueup_analysis.cost import GIVEN
from trueup_analysis.scaling import JUDGED

from . import units
from .sheet import Column, Sheet, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from trueup_analysis.cost import CostTable
    from trueup_analysis.load import Loaded
    from trueup_analysis.read import Reading
    from trueup_analysis.reference import Comparison, Storage, Sums
    from trueup_analysis.scaling import Fit, Series

__all__ = [
    "cases",
    "cost",
    "excluded",
    "fit_line",
    "reading",
    "reference",
    "scaling",
    "short_size",
]

_two = partial(units.fixed, digits=2)
_three = partial(units.fixed, digits=3)
_flops = partial(units.measure, unit="flop/s")
_hours = partial(units.fixed, digits=4)
# Names of metrics in CSV and JSON end in their base unit.
_UNIT_WORDS = {
    "s": "seconds",
    "byte/s": "bytes_per_second",
    "bit/s": "bits_per_second",
    "flop/s": "flop_per_second",
    "1/s": "per_second",
}


def scaling(series: Series) -> Sheet:
    """One scaling table, with what its fits say below it."""
    show = partial(units.measure, unit=series.unit)
    what = units.DISPLAYED.get(series.unit, series.unit)
    word = _UNIT_WORDS[series.unit]
    frame = series.table.rename(
        columns={
            **{name: f"{name}_{word}" for name in ("median", "min", "max")},
            "flop_rate": "flop_per_second",
            "point_rate": "points_per_second",
            "work": "work_flop",
        }
    )
    rows = rows_of(frame)
    several = not all(row["best"] for row in rows)
    for row in rows:
        row["wins"] = "*" if row["best"] and several else ""
    columns = [
        Column("resource"),
        *([Column("node_count", "nodes", units.count)] if series.over == "nodes" else []),
        Column("cores", "cores", units.count),
        *([] if series.over == "nodes" else [Column("node_count")]),
        # One size for all stands in the title.
        Column("vm_size", None if series.vm_size else "size\n(Standard_)", short_size, words=True),
        Column("layout", "layout", words=True),
        Column("wins", "wins", words=True, data=False),
        Column("best"),
        Column("baseline"),
        Column("n", "n", units.count),
        Column("records"),
        Column(f"median_{word}", f"median\n{what}", show),
        Column(f"min_{word}", f"min\n{what}", show),
        Column(f"max_{word}", f"max\n{what}", show),
        Column("speedup", "speed-\nup", _two),
        Column("efficiency", "parallel\neffic.", _three),
        Column("serial_fraction", "serial\nfraction", _three),
        Column("flop_per_second", "GFLOP/s", _flops),
        Column("points_per_second", "GPts/s", partial(units.measure, unit="point/s")),
        Column("roofline_fraction", "of\nroofline", units.percent),
        Column("halo_share", "in halo\nexchange", units.percent),
        Column("work_flop"),
        Column("published_speedup", "published\nspeed-up", _two),
    ]
    fits = [fit for fit in (series.amdahl, series.usl) if fit is not None]
    notes = [fit_line(fit, series.over) for fit in fits]
    if series.stops_paying:
        notes.insert(0, series.stops_paying)
    if several:
        notes.append("Where several layouts ran on the same resource, the one marked * counts.")
    return Sheet(
        title=(
            f"{series.kind.capitalize()} scaling over {series.over}, baseline"
            f" {units.plural(series.baseline, series.over.removesuffix('s'))}: {series.title}"
        ),
        columns=columns,
        rows=rows,
        notes=notes + series.notes,
        warnings=series.warnings,
        faint="best",
        facts={
            "kind": series.kind,
            "benchmark": series.benchmark,
            "over": series.over,
            "metric": series.metric,
            "baseline": series.baseline,
            "provenance": series.provenance,
            "stops_paying": series.stops_paying,
            "fits": [_fit_facts(fit) for fit in fits],
        },
    )


def fit_line(fit: Fit, over: str) -> str:
    """What a fit says, in one sentence."""
    words = {
        "sigma": "serial fraction" if fit.law == "Amdahl" else "contention",
        "kappa": "coherency",
    }
    values = ", ".join(
        f"{words[name]} {units.significant(value, 3)}"
        + (" (at its bound)" if units.is_missing(error) else f" +- {units.significant(error, 2)}")
        for name, (value, error) in fit.parameters.items()
    )
    peak = f"; fastest at about {fit.peak:.0f} {over}" if fit.peak is not None else ""
    name = fit.law[0].upper() + fit.law[1:]
    error = units.significant(fit.residual, 2)
    return f"{name}: {values} (error of the speed-up {error} rms, {fit.points} points){peak}."


def _fit_facts(fit: Fit) -> dict[str, Any]:
    return {
        "law": fit.law,
        "parameters": {
            name: {"value": _fitted(value), "standard_error": _fitted(error)}
            for name, (value, error) in fit.parameters.items()
        },
        "rms_error": _fitted(fit.residual),
        "points": fit.points,
        "peak": _fitted(fit.peak),
    }


def _fitted(value: float | None) -> float | None:
    """Six digits: a search for the least error ends where the next digits are chance."""
    return None if units.is_missing(value) else float(f"{value:.5e}")


def cost(result: CostTable) -> list[Sheet]:
    """Cost by case, where the prices come from, and cost by sweep."""
    table = result.table
    # What is the same for all rows stands below the table, with the source of the price.
    place = {
        name: header if table[name].nunique(dropna=False) > 1 else None
        for name, header in (
            ("version", "version"),
            ("region", "region"),
            ("offer", "offer"),
            ("price_date", "price of"),
        )
    }
    columns = [
        Column("benchmark"),
        Column("configuration"),
        Column("case", "case", words=True),
        Column("version", place["version"], words=True),
        Column("vm_size", "size\n(Standard_)", short_size, words=True),
        Column("node_count", "nodes", units.count),
        Column("cores"),
        Column("n", "n", units.count),
        Column("records"),
        Column("run_seconds", "run\ns", units.seconds),
        Column("node_hours", "node-\nhours", partial(units.significant, digits=4)),
        Column("region", place["region"], words=True),
        Column("os"),
        Column("offer", place["offer"], words=True),
        Column("currency"),
        Column("usd_per_hour", "US$ per\nnode-h", _price),
        Column("price_date", place["price_date"], words=True),
        Column("price_source"),
        Column("usd_per_run", "US$\nper run", _price),
        Column("usd_per_gflop", "US$ per\n1e6 GFLOP", _per_million),
        Column("usd_per_gpt", "US$ per\n1e6 GPts", _per_million),
        Column("list_usd_per_hour"),
        Column("saving", "below\nlist", units.percent),
    ]
    return [
        Sheet(
            title="Cost of one run of each case (run time of the operator only; set-up bills too)",
            columns=columns,
            rows=rows_of(table),
            notes=[*_price_notes(table), *_amounts(table)],
            warnings=[*result.warnings, *result.unknown],
            facts={"kind": "cases", "currency": "USD", "unknown_prices": list(result.unknown)},
        ),
        _sweeps(result.totals, place),
    ]


def _price(value: Any) -> str:
    return "unknown" if units.is_missing(value) else units.money(value)


def short_size(value: Any) -> str:
    return units.text(value).removeprefix("Standard_")


def _per_million(value: Any) -> str:
    return units.UNKNOWN if value is None else units.money(float(value) * 1e6)


def _price_notes(table: pd.DataFrame) -> list[str]:
    """Where the prices come from: one sentence for each region, offer, date and source."""
    priced = table[table["usd_per_hour"].notna()]
    notes = []
    for row in rows_of(priced, ("region", "os", "offer", "price_date", "price_source")):
        if row["price_source"] == GIVEN:
            notes.append(f"Prices: USD, {GIVEN}.")
            continue
        date = row["price_date"] or "unknown date"
        notes.append(
            f"Prices: USD, {row['region']}, {row['os']}, {row['offer']}, as of {date},"
            f" {row['price_source']}."
        )
    return list(dict.fromkeys(notes))


def _amounts(table: pd.DataFrame) -> list[str]:
    if table[["usd_per_gflop", "usd_per_gpt"]].isna().all(axis=None):
        return []
    return [
        (
            "GFLOP and GPts are amounts of work, not rates: 1e9 floating-point operations and 1e9"
            " updates of a grid point. 1e6 of them are the unit of a column."
        )
    ]


def _times(value: Any) -> str:
    return units.UNKNOWN if units.is_missing(value) else f"{units.fixed(value, 1)}x"


def _sweeps(totals: pd.DataFrame, place: dict[str, str | None]) -> Sheet:
    return Sheet(
        title="Cost of each sweep as a whole (every case once)",
        columns=[
            Column("configuration", "sweep", words=True),
            Column("version", place["version"], words=True),
            Column("vm_size", "size\n(Standard_)", short_size, words=True),
            Column("region", place["region"], words=True),
            Column("offer", place["offer"], words=True),
            Column("runs", "runs", units.count),
            Column("published_hours", "published\nh", _three),
            Column("sum_run_hours", "sum of run\ntimes h", _hours),
            Column("node_hours", "node-\nhours", _hours),
            Column("underbilled", "node-h /\nsum", _times),
            Column("usd", "US$", units.money),
            Column("usd_by_sum", "US$ by\nthe sum", units.money),
        ],
        rows=rows_of(totals),
        notes=[
            (
                "What is billed is node-hours. The sum of run times is not node-hours: it leaves"
                " the node count out, and 'US$ by the sum' is what it would make of the price."
            )
        ],
        facts={"kind": "sweeps"},
    )


_LISTED = ("benchmark", "case", "outcome", "nodes", "vm_size", "cores", "reason")
_ALSO_LISTED = (
    *("run_id", "region", "offer", "node_count", "ranks", "threads_per_rank", "gpus"),
    *("started_at", "duration_seconds", "name", "value", "unit", "source", "raw_path"),
    "provenance",
)


def cases(loaded: Loaded) -> list[Sheet]:
    """Every record, a table for each run."""
    head = _headline_figures(loaded)
    manifests = {str(run.get("run_id")): run for run in loaded.runs}
    sheets = []
    for run_id, group in loaded.cases.groupby("run_id", sort=False):
        frame = group.merge(
            head, left_on="record", right_index=True, how="left", validate="one_to_one"
        )
        rows = rows_of(frame, (*_LISTED, *_ALSO_LISTED))
        for row in rows:
            row["figure"] = _figure(row["name"], row["value"], row["unit"])
        sheets.append(
            Sheet(
                title=_run_title(str(run_id), group, manifests.get(str(run_id))),
                columns=[
                    Column("benchmark", "benchmark", words=True),
                    Column("case", "case", words=True),
                    Column("outcome", "outcome", words=True),
                    Column("nodes", "nodes", words=True),
                    Column("vm_size", "size\n(Standard_)", short_size, words=True),
                    Column("cores", "cores", units.count),
                    Column("figure", "headline figure", data=False),
                    Column("reason", "reason", words=True),
                    *(Column(name) for name in _ALSO_LISTED),
                ],
                rows=rows,
                facts={"kind": "cases", "run_id": str(run_id)},
            )
        )
    return sheets


def _headline_figures(loaded: Loaded) -> pd.DataFrame:
    """The figure that stands for each record, indexed by record: the one that its benchmark is
    judged by, else its first that has a direction.
    """
    head = loaded.metrics[loaded.metrics["direction"].isin(["higher", "lower"])]
    head = head[head["statistic"].isna() | head["statistic"].isin(["median", "single"])]
    benchmark = head["record"].map(loaded.cases.set_index("record")["benchmark"])
    wanted = benchmark.map({name: metric for name, (metric, _, _) in JUDGED.items()})
    first = (head["name"].astype(object) != wanted).rename("other")
    head = head.assign(other=first).sort_values(["record", "other"], kind="stable")
    return head.drop(columns="other").drop_duplicates("record").set_index("record")


def _run_title(run_id: str, group: pd.DataFrame, manifest: dict[str, Any] | None) -> str:
    counts = group["outcome"].value_counts()
    said = ", ".join(
        f"{counts[name]} {name}" for name in ("ok", "failed", "invalid") if name in counts
    )
    state = ""
    if manifest is not None and manifest.get("finished_at") is None:
        state = "; the run has not finished"
    return f"{'Published' if run_id == 'published' else 'Run ' + run_id}: {said}{state}"


def _figure(name: str | None, value: float | None, unit: str | None) -> str:
    if name is None or value is None:
        return units.UNKNOWN
    word = name.replace("_", " ")
    unit = unit or "1"
    shown = units.DISPLAYED.get(unit, "" if unit == "1" else unit)
    return f"{word} {units.measure(value, unit)} {shown}".rstrip()


def excluded(loaded: Loaded) -> list[Sheet]:
    """What could not be read, if anything."""
    if not loaded.excluded:
        return []
    return [
        Sheet(
            title=f"Not read: {len(loaded.excluded)}",
            columns=[Column("path", "file", words=True), Column("reason", "reason", words=True)],
            rows=[{"path": item.path, "reason": item.reason} for item in loaded.excluded],
            facts={"kind": "excluded"},
        )
    ]


def reading(item: Reading) -> Sheet:
    """One tool's output, row by row as records hold it."""
    keys = ("name", "value", "unit", "direction", "message_bytes", "device", "statistic", "n")
    columns = [Column(key, key, words=key != "value") for key in keys]
    rows = [{key: row.get(key) for key in keys} for row in item.rows]
    return _reading(item, columns, rows)


def reading_for_people(item: Reading) -> Sheet:
    """One tool's output, one line a figure, in the field's units."""
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in item.rows:
        unit = row["unit"]
        line = lines.setdefault(
            (row["name"], row.get("message_bytes"), row.get("device")),
            {
                "name": str(row["name"]).replace("_", " "),
                "message_bytes": row.get("message_bytes"),
                "device": row.get("device"),
                "n": row.get("n"),
                "unit": "" if unit == "1" else units.DISPLAYED.get(unit, unit),
            },
        )
        line[row.get("statistic") or "single"] = units.measure(row["value"], unit)
    columns = [
        Column("name", "figure", words=True),
        Column("message_bytes", "message\nbytes", units.count),
        Column("device", "device", words=True),
        *(Column(key, key) for key in ("median", "mean", "min", "max", "p99")),
        Column("single", "value"),
        Column("unit", "unit", words=True),
        Column("n", "n", units.count),
    ]
    return _reading(item, columns, list(lines.values()))


def _reading(item: Reading, columns: list[Column], rows: list[dict[str, Any]]) -> Sheet:
    checks = ", ".join(
        f"{name} {'passed' if passed else 'FAILED'}" for name, passed in item.checks.items()
    )
    return Sheet(
        title=f"{item.source}: {item.tool} {item.tool_version or ''}".rstrip(),
        columns=columns,
        rows=rows,
        notes=[f"Checks: {checks}."] if checks else [],
        warnings=item.warnings,
        facts={"kind": "reading", "tool": item.tool, "tool_version": item.tool_version},
    )


def reference(
    comparisons: Sequence[Comparison], sums: Sums, storage: Storage | None = None
) -> list[Sheet]:
    """The published tables with what is recomputed from them and, where there is one, this run
    beside."""
    made = [*(_comparison(item) for item in comparisons), _sums(sums)]
    return made if storage is None else made + _storage(storage)


def _storage(item: Storage) -> list[Sheet]:
    table = item.table.copy()
    table["published"] = [
        _rate(low, unit) if low == high else f"{_rate(low, unit)} to {_rate(high, unit)}"
        for low, high, unit in zip(table["low"], table["high"], table["unit"], strict=True)
    ]
    table["shown"] = _shown(table["unit"])
    sheets = [
        Sheet(
            title=item.title,
            columns=[
                Column("configuration", "volume", words=True),
                Column("clients", "clients", units.count),
                Column("what", "measured", words=True),
                Column("latency", "at"),
                Column("low"),
                Column("high"),
                Column("published", "published", data=False),
                Column("unit"),
                Column("shown", "unit", data=False),
                Column("said", "remark", words=True),
            ],
            rows=rows_of(table),
            notes=item.notes,
            facts={"kind": "published_storage", "source": item.source},
        )
    ]
    if not item.mine.empty:
        mine = item.mine.copy()
        mine["own"] = list(map(units.measure, mine["value"], mine["unit"]))
        mine["shown"] = _shown(mine["unit"])
        sheets.append(
            Sheet(
                title="Own figures of fio on shared storage: another benchmark than the published",
                columns=[
                    Column("node", "node", words=True),
                    Column("case", "case", words=True),
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
                rows=rows_of(mine),
                facts={"kind": "own_storage"},
            )
        )
    return sheets


def _rate(value: float, unit: str) -> str:
    return units.count(value) if unit == "1/s" else units.measure(value, unit)


def _shown(names: pd.Series) -> list[str]:
    return [units.DISPLAYED.get(name, name) for name in names]


def _comparison(item: Comparison) -> Sheet:
    columns = [
        *([Column("nodes", "nodes", units.count)] if item.over == "nodes" else []),
        Column("cores", "cores", units.count),
        Column("vm_size"),
        Column("published_seconds", "published\ns", units.seconds),
        Column("published_flop_per_second", "published\nGFLOP/s", _flops),
        Column("published_speedup", "published\nspeed-up", _two),
        Column("speedup", "recomp.\nspeed-up", _two),
        Column("efficiency", "effic.", _three),
        Column("mine_layout", "own\nlayout", words=True),
        Column("mine_seconds", "own\ns", units.seconds),
        Column("mine_flop_per_second", "own\nGFLOP/s", _flops),
        Column("mine_speedup", "own\nspeed-up", _two),
        Column("mine_efficiency", "own\neffic.", _three),
    ]
    return Sheet(
        title=item.title,
        columns=columns,
        rows=rows_of(item.table),
        notes=item.notes,
        facts={"kind": "published", "over": item.over, "source": item.source},
    )


def _sums(sums: Sums) -> Sheet:
    return Sheet(
        title=sums.title,
        columns=[
            Column("configuration", "runs summed", words=True),
            Column("published_hours", "published\nh", _three),
            Column("sum_run_hours", "sum of run times,\nnot node-hours: h", _hours),
            Column("node_hours", "true\nnode-hours", _hours),
            Column(
                "underbilled",
                "underbills\nby",
                _times,
            ),
        ],
        rows=rows_of(
            sums.table,
            ["configuration", "published_hours", "sum_run_hours", "node_hours", "underbilled"],
        ),
        notes=sums.notes,
        facts={"kind": "published_cost", "source": sums.source},
    )
