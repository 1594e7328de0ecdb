"""Strong and weak scaling: pure functions from the loaded frames to tables in base units."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from trueup.errors import BadInput

from .fits import Fit, fit_laws
from .read import tools
from .render import units
from .render.sheet import rows_of

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from .load import Loaded

__all__ = ["Fit", "Series", "figures", "left_out", "series", "work_of"]

Over = Literal["cores", "nodes"]
Kind = Literal["strong", "weak"]

# The figure that a benchmark's scaling is judged by, as its parser says: metric, unit, direction.
JUDGED: dict[str, tuple[str, str, str]] = {
    name: module.JUDGED_BY for name, module in tools().items()
}
# Parameters that say how the work was done. All others say which work it was; only equal work is
# compared.
HOW = frozenset(
    {
        "asked",
        "autotune",
        "binding",
        "block_shape",
        "language",
        "launcher",
        "layout",
        "mpi",
        "ranks",
        "repeats",
        "scaling",
        "threads",
        "threads_per_rank",
    }
)
_NOT_USED = (None, "", "none", "off", "local", "torchrun", False)
# A weak series changes these along its way.
GROWS = frozenset({"shape", "points", "array_elements", "array_bytes"})
# GFLOP/s x time varied by 0.12 % over the 13 rows of the Devito article; more than this is another
# problem size.
WORK_TOLERANCE = 0.005
# More speed than the resources allow by this much is no rounding.
SUPERLINEAR = 1.01
# Shapes are whole numbers, so points per core are equal only nearly.
WEAK_TOLERANCE = 0.05
_MOST_DECIMALS = 12


@dataclass(frozen=True)
class Series:
    """One scaling table.

    Attributes:
        kind: "strong" (same work) or "weak" (same work per core).
        title: one line: benchmark, work, size or machine.
        benchmark, over: what scaled; over is "cores" or "nodes".
        metric, unit, direction: the figure in median/min/max: run_time in s (lower), triad_rate in
            byte/s (higher).
        vm_size: the size of all rows, None when rows differ (constrained sizes of one host) or the
            size is unknown.
        baseline: the resource count that speed-ups refer to.
        table: rows by resource, best layout first; columns: resource, cores, node_count, vm_size,
            layout (text), best (bool: the row that counts at this resource), baseline (bool), n
            (repeats), records, median, min, max (min and max NaN where not stated), speedup,
            efficiency (1 = ideal), serial_fraction (Karp-Flatt; NaN at the baseline and in weak
            series), flop_rate (flop/s), point_rate (point/s), roofline_fraction, halo_share (of the
            time, in the exchange of halos), work (flop: flop_rate x time), published_speedup. NaN
            where no record holds the figure.
        amdahl, usl: the fits, None where there are too few points (notes say so).
        warnings: sentences, most important first. notes: sentences that are no warning.
        stops_paying: where adding resources stops paying, None when it always paid.
        provenance: "measured", or the publication.
        configuration: the publication's own name of the set-up, "" for measured records.
    """

    kind: Literal["strong", "weak"]
    title: str
    benchmark: str
    over: Over
    metric: str
    unit: str
    direction: str
    vm_size: str | None
    baseline: int
    table: pd.DataFrame
    amdahl: Fit | None = None
    usl: Fit | None = None
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stops_paying: str | None = None
    provenance: str = "measured"
    configuration: str = ""


def series(
    loaded: Loaded,
    *,
    benchmark: str = "devito",
    over: Literal["cores", "nodes", "auto"] = "auto",
    baseline: int | None = None,
    across_sizes: bool = False,
    threshold: float = 0.5,
) -> list[Series]:
    """All scaling series of one benchmark among the records with outcome ok.

    Records of the same work, machine and layout are pooled over runs (median of medians, n added);
    at one resource count the fastest layout counts, and the others stay visible below it.

    Args:
        over: "auto" takes cores within single nodes, and nodes wherever their number varies.
        baseline: resource count that speed-ups refer to; smallest when None.
        across_sizes: compare constrained sizes of the same host (HB120-16rs_v3 to HB120rs_v3) in
            one series.
        threshold: a step pays when at least this fraction of the added resource arrives as added
            speed.

    Raises:
        BadInput: no ok record of that benchmark, or a series lacks the baseline.
    """
    if benchmark not in JUDGED:
        message = f"scaling of {benchmark!r} is not known; known are {', '.join(sorted(JUDGED))}"
        raise BadInput(message)
    points = _points(loaded, benchmark, across_sizes=across_sizes)
    found = []
    for _, group in points.groupby("work_key", sort=False):
        weak = group["weak"]
        kinds: list[tuple[Kind, pd.DataFrame]] = [("strong", group[~weak]), ("weak", group[weak])]
        for kind, part in kinds:
            if not part.empty:
                for axis, rows in _split(part, over=over, weak=kind == "weak"):
                    found.append(_Raw(benchmark, kind, axis, rows))
    return [_series(raw, baseline=baseline, threshold=threshold) for raw in found]


@dataclass(frozen=True)
class _Raw:
    """The records of one series."""

    benchmark: str
    kind: Kind
    over: Over
    rows: pd.DataFrame


def figures(loaded: Loaded, names: Sequence[tuple[str, str | None]]) -> pd.DataFrame:
    """Chosen figures side by side, indexed by record: a column for each (metric, statistic), named
    ``metric`` for the median (or the single value) and ``metric:statistic`` otherwise; ``metric:n``
    beside each median.
    """
    wanted = loaded.metrics[loaded.metrics["name"].isin({name for name, _ in names})]
    wanted = wanted[wanted["message_bytes"].isna() & wanted["device"].isna()]
    out = pd.DataFrame(index=loaded.cases["record"])
    for name, statistic in names:
        rows = wanted[wanted["name"] == name]
        if statistic in (None, "median"):
            rows = rows[rows["statistic"].isna() | rows["statistic"].isin(["median", "single"])]
            rows = rows.drop_duplicates("record").set_index("record")
            out[name] = rows["value"]
            out[f"{name}:n"] = rows["n"]
        else:
            rows = rows[rows["statistic"] == statistic].drop_duplicates("record")
            out[f"{name}:{statistic}"] = rows.set_index("record")["value"]
    return out


def left_out(loaded: Loaded, benchmark: str) -> list[str]:
    """The records of a benchmark with no figure to judge it by, and why, one sentence each."""
    cases = loaded.cases[loaded.cases["benchmark"] == benchmark]
    metric = JUDGED[benchmark][0]
    with_it = figures(loaded, [(metric, None)])[metric].notna()
    bad = cases[(cases["outcome"] != "ok") | ~cases["record"].isin(with_it.index[with_it])]
    columns = ["outcome", "case", "nodes", "run_id", "reason"]
    return [
        f"left out, {outcome}: {case} on {nodes} in {run_id}:"
        f" {f'it holds no median of {metric}' if outcome == 'ok' else reason}"
        for outcome, case, nodes, run_id, reason in bad[columns].itertuples(index=False)
    ]


def work_of(parameters: Mapping[str, Any], without: Container[str] = HOW) -> str:
    """Equal texts for equal work: the parameters less those that say how it was done."""
    return repr(
        sorted((name, str(value)) for name, value in parameters.items() if name not in without)
    )


def host_family(vm_size: str) -> str:
    """A size without its constrained core count: the five HBv3 sizes are one host
    (``Standard_HB120-16rs_v3``)."""
    return re.sub(r"(?<=\d)-\d+(?=[a-z])", "", vm_size)


def _points(loaded: Loaded, benchmark: str, *, across_sizes: bool) -> pd.DataFrame:
    """One row a record with outcome ok: its resources, its figures, and what it may be compared
    with (work_key)."""
    metric, _, direction = JUDGED[benchmark]
    cases = loaded.cases
    chosen = cases[(cases["benchmark"] == benchmark) & (cases["outcome"] == "ok")]
    if chosen.empty:
        others = sorted(set(cases["benchmark"]))
        message = (
            f"no {benchmark} record with outcome ok among {len(cases)} records"
            f" (benchmarks: {', '.join(others)})"
        )
        raise BadInput(message)
    for name in ("node_count", "cores"):
        if chosen[name].isna().any():
            row = chosen[chosen[name].isna()].iloc[0]
            message = (
                f"case {row['case']} ({row['source']}) does not say its {name.replace('_', ' ')}"
            )
            raise BadInput(message)
    names = [
        (metric, "median"),
        (metric, "min"),
        (metric, "max"),
        ("flop_rate", None),
        ("point_rate", None),
        ("roofline_fraction", None),
        ("halo_share", None),
        ("published_speedup", None),
    ]
    wide = figures(loaded, names)
    out = chosen.merge(wide, left_on="record", right_index=True, how="left", validate="one_to_one")
    out = out[out[metric].notna()]
    if out.empty:
        message = f"no {benchmark} record holds the metric {metric}"
        raise BadInput(message)
    out = out.rename(
        columns={
            metric: "median",
            f"{metric}:min": "min",
            f"{metric}:max": "max",
            f"{metric}:n": "n",
        }
    )
    out["work"] = out["flop_rate"] * out["median"] if direction == "lower" else float("nan")
    out["weak"] = [parameters.get("scaling") == "weak" for parameters in out["parameters"]]
    out["points"] = [
        _number(parameters.get("points", parameters.get("array_elements")))
        for parameters in out["parameters"]
    ]
    out["work_key"] = _work_keys(out, benchmark, across_sizes=across_sizes)
    out["layout"] = _layouts(out)
    return out


def _number(value: Any) -> float:
    """A parameter that counts something; NaN where a record says something else there."""
    found = units.number(value)
    return float("nan") if found is None or found <= 0 else found


def _layouts(cases: pd.DataFrame) -> list[str]:
    """How each record used its cores: "2x4 l3 basic" is 2 ranks of 4 threads bound to L3 groups."""
    names = ("work_key", "parameters", "ranks", "threads_per_rank")
    columns = [cases[name].to_list() for name in names]
    tunings: dict[str, set[Any]] = {}
    for work, parameters in zip(*columns[:2], strict=True):
        tunings.setdefault(work, set()).add(parameters.get("autotune"))
    known: dict[tuple[str, int, Any, Any], str] = {}
    labels = []
    # Sweeps share their parameter objects (see packed), so most labels are made once.
    for work, parameters, ranks, threads in zip(*columns, strict=True):
        key = (work, id(parameters), ranks, threads)
        label = known.get(key)
        if label is None:
            words = [] if units.is_missing(ranks) else [f"{ranks}x{threads}"]
            used = [parameters.get(name) for name in ("binding", "mpi", "launcher")]
            words += [str(value) for value in used if value not in _NOT_USED]
            if len(tunings[work]) > 1:
                words.append(f"tune={parameters.get('autotune')}")
            label = known[key] = " ".join(words)
        labels.append(label)
    return labels


def _work_keys(cases: pd.DataFrame, benchmark: str, *, across_sizes: bool) -> list[str]:
    """Equal texts for records that may be compared: same work, machine, tool version and origin."""
    known: dict[tuple[Any, ...], str] = {}
    keys = []
    names = ("parameters", "software", "system", "vm_size", "nodes", "weak", "provenance")
    for row in zip(*(cases[name].to_list() for name in names), strict=True):
        parameters, software, system, vm_size, nodes, weak, provenance = row
        key = (id(parameters), id(software), id(system), vm_size, nodes, weak, provenance)
        found = known.get(key)
        if found is None:
            left_out = HOW | GROWS if weak else HOW
            if "configuration" in parameters:
                # A publication's table compares what it compares, also over constrained sizes.
                machine = ""
            elif units.is_missing(vm_size):
                machine = str(system.get("cpu_model") or nodes.split("+")[0])
            else:
                machine = host_family(vm_size) if across_sizes else vm_size
            found = known[key] = repr(
                (provenance, machine, software.get(benchmark, ""), work_of(parameters, left_out))
            )
        keys.append(found)
    return keys


def _split(
    rows: pd.DataFrame, *, over: Literal["cores", "nodes", "auto"], weak: bool
) -> list[tuple[Over, pd.DataFrame]]:
    """The series of the same work: over cores, and over nodes for each number of cores per node."""
    parts = [rows]
    if weak:
        per_core = rows["points"] / rows["cores"].astype(float)
        order = per_core.sort_values()
        steps = (order / order.shift() > 1 + WEAK_TOLERANCE).cumsum().where(order.notna(), -1)
        parts = [rows.loc[index] for index in steps.groupby(steps).groups.values()]
    found: list[tuple[Over, pd.DataFrame]] = []
    for part in parts:
        shown: set[int] = set()
        if over != "cores":
            per_node = part["cores"] / part["node_count"]
            for _, group in part.groupby(per_node.astype(float), sort=True):
                if group["node_count"].nunique() > 1 or over == "nodes":
                    found.append(("nodes", group))
                    shown |= set(group["record"])
        if over == "cores":
            found.append(("cores", part))
        elif over == "auto":
            for _, single in part.groupby("node_count", sort=True):
                new = not set(single["record"]) <= shown
                if new or single["cores"].nunique() > 1:
                    found.insert(0, ("cores", single))
    return found


def _pooled(rows: pd.DataFrame, axis: Over, direction: str) -> pd.DataFrame:
    """A row for each resource and layout, the best layout of each resource first and marked."""
    rows = rows.assign(resource=rows["cores" if axis == "cores" else "node_count"].astype("int64"))
    grouped = rows.groupby(
        ["resource", "cores", "node_count", "vm_size", "layout"], dropna=False, sort=False
    )
    table = grouped.agg(
        n=("n", "sum"),
        records=("record", "size"),
        median=("median", "median"),
        min=("min", "min"),
        max=("max", "max"),
        flop_rate=("flop_rate", "median"),
        point_rate=("point_rate", "median"),
        roofline_fraction=("roofline_fraction", "median"),
        halo_share=("halo_share", "median"),
        work=("work", "median"),
        points=("points", "median"),
        published_speedup=("published_speedup", "median"),
    ).reset_index()
    # Where no record says its n, the sum is 0.
    table["n"] = table["n"].replace(0, pd.NA)
    table = table.sort_values(
        ["resource", "median", "layout"],
        ascending=[True, direction == "lower", True],
        kind="stable",
    ).reset_index(drop=True)
    table["best"] = ~table.duplicated("resource")
    return table


def _series(raw: _Raw, *, baseline: int | None, threshold: float) -> Series:
    metric, unit, direction = JUDGED[raw.benchmark]
    rows, over = raw.rows, raw.over
    table = _pooled(rows, over, direction)
    title = _title(rows, table, raw.benchmark)
    counts = [int(value) for value in table.loc[table["best"], "resource"]]
    base = counts[0] if baseline is None else baseline
    if base not in counts:
        have = ", ".join(map(str, counts))
        message = (
            f"baseline of {base} {over} was not measured in the series '{title}'; it has {have}"
            f" {over} (--over keeps to one kind of series)"
        )
        raise BadInput(message)
    table["baseline"] = table["best"] & (table["resource"] == base)
    reference = float(table.loc[table["baseline"], "median"].iloc[0])
    ratio = table["resource"] / base
    gain = reference / table["median"] if direction == "lower" else table["median"] / reference
    weak_time = raw.kind == "weak" and direction == "lower"
    table["speedup"] = gain * ratio if weak_time else gain
    table["efficiency"] = table["speedup"] / ratio
    strong = raw.kind == "strong"
    table["serial_fraction"] = _karp_flatt(table["speedup"], ratio) if strong else float("nan")
    best = table[table["best"]].reset_index(drop=True)
    amdahl = usl = None
    notes = ["Amdahl and universal scalability are laws of fixed work: not fitted to weak scaling."]
    if strong:
        amdahl, usl, notes = fit_laws(counts, best["speedup"].to_list(), base=base, over=over)
    if best["n"].isna().all():
        notes.append(
            "The source does not say how often each run was repeated: n and spread are unknown."
        )
    sizes = table["vm_size"].dropna().unique()
    steps = [_Point(**values) for values in rows_of(best, _Point.__slots__)]
    if len(steps) == 1:
        notes.insert(
            0, f"Only one count of {over} was measured, so nothing can be said about scaling."
        )
    return Series(
        kind=raw.kind,
        title=title,
        benchmark=raw.benchmark,
        over=over,
        metric=metric,
        unit=unit,
        direction=direction,
        vm_size=str(sizes[0]) if len(sizes) == 1 else None,
        baseline=base,
        table=table[_TABLE],
        amdahl=amdahl,
        usl=usl,
        warnings=_warnings(steps, raw, base),
        notes=notes,
        stops_paying=_stops_paying(steps, raw, threshold),
        provenance=str(rows["provenance"].iloc[0]),
        configuration=str(rows["parameters"].iloc[0].get("configuration", "")),
    )


_TABLE = [
    *("resource", "cores", "node_count", "vm_size", "layout", "best", "baseline", "n", "records"),
    *("median", "min", "max", "speedup", "efficiency", "serial_fraction", "flop_rate"),
    *("point_rate", "roofline_fraction", "halo_share", "work", "published_speedup"),
]


@dataclass(frozen=True, slots=True)
class _Point:
    """The row that counts at one resource."""

    resource: int
    cores: int
    median: float
    min: float | None
    max: float | None
    speedup: float
    efficiency: float
    work: float | None
    layout: str


def _title(rows: pd.DataFrame, table: pd.DataFrame, benchmark: str) -> str:
    parameters = rows["parameters"].iloc[0]
    words = [benchmark if "model" not in parameters else f"{benchmark} {parameters['model']}"]
    if "configuration" in parameters:
        words.append(str(parameters["configuration"]))
    if "shape" in parameters and not rows["weak"].iloc[0]:
        words.append(str(parameters["shape"]))
    if "space_order" in parameters:
        words.append(f"space order {parameters['space_order']}")
    if "tn_ms" in parameters:
        words.append(f"{_plain(parameters['tn_ms'])} ms")
    sizes = table["vm_size"].dropna().unique()
    if len(sizes) == 1:
        words.append(str(sizes[0]))
    elif len(sizes) > 1:
        words.append(f"{host_family(str(sizes[-1]))} and its constrained sizes")
    else:
        system = rows["system"].iloc[0]
        words.append(str(system.get("cpu_model") or rows["nodes"].iloc[0]))
    version = rows["software"].iloc[0].get(benchmark)
    if version:
        words.append(f"{benchmark} {version}")
    return ", ".join(words)


def _plain(value: Any) -> str:
    """200.0 as "200"."""
    return f"{value:.6g}" if isinstance(value, float) else units.text(value)


def _karp_flatt(speedup: pd.Series, ratio: pd.Series) -> pd.Series:
    """Experimentally determined serial fraction, (1/S - 1/p) / (1 - 1/p); Karp and Flatt, CACM
    33(5), 1990."""
    return ((1 / speedup - 1 / ratio) / (1 - 1 / ratio)).where(ratio != 1)


def _warnings(points: list[_Point], raw: _Raw, base: int) -> list[str]:
    return _other_work(points, raw) + _superlinear(points, raw.over, base)


def _superlinear(points: list[_Point], over: Over, base: int) -> list[str]:
    """A warning where more resources brought more than their share. Fewer than the baseline's are
    rightly above 1.
    """
    baseline = next(point for point in points if point.resource == base)
    above = [
        f"{point.efficiency:.3f} at {point.resource} {over}"
        + (f" ({point.layout}; baseline {baseline.layout})" if point.layout else "")
        for point in points
        if point.resource > base and point.efficiency > SUPERLINEAR
    ]
    if not above:
        return []
    return [
        (
            f"Super-linear: a parallel efficiency of {', '.join(above)}. That is noise, caches that"
            " hold more of the work, or a layout that the baseline did not use; measure the"
            " baseline again before counting on it."
        )
    ]


def _other_work(points: list[_Point], raw: _Raw) -> list[str]:
    strong = raw.kind == "strong"
    work = {
        point.resource: point.work if strong else point.work / point.cores
        for point in points
        if point.work is not None
    }
    if len(work) < 2:
        return []
    typical = statistics.median(work.values())
    off = [
        f"{resource} {raw.over} ({units.percent(value / typical - 1, 2)})"
        for resource, value in work.items()
        if abs(value / typical - 1) > WORK_TOLERANCE
    ]
    if not off:
        return []
    what = "GFLOP/s x time" if strong else "GFLOP/s x time / cores"
    warning = (
        f"Not the same work: {what} differs from the series' median by more than"
        f" {units.percent(WORK_TOLERANCE, 1)} at {', '.join(off)}; speed-ups of these rows compare"
        " different problems."
    )
    return [warning]


def _stops_paying(points: list[_Point], raw: _Raw, threshold: float) -> str | None:
    """Where a step first brings under ``threshold`` of what it adds, and where one is slower."""
    over = raw.over
    steps = list(zip(points, points[1:], strict=False))
    sentences = []
    for before, after in steps:
        gained = (after.speedup / before.speedup - 1) / (after.resource / before.resource - 1)
        if gained < threshold:
            if gained >= 0:
                share, wanted = _told_apart(gained, threshold)
                sentences.append(
                    f"Going from {before.resource} to {after.resource} {over} brings {share} of the"
                    f" added {over} as speed (under {wanted})."
                )
            break
    for before, after in steps:
        if after.speedup < before.speedup:
            sentences.append(_slower(before, after, raw))
            break
    return " ".join(sentences) or None


def _told_apart(share: float, threshold: float) -> tuple[str, str]:
    """Two percentages with as many decimals as it takes to tell them apart: not 50 % under 50 %."""
    for digits in range(_MOST_DECIMALS):
        written = units.percent(share, digits), units.percent(threshold, digits)
        if written[0] != written[1]:
            break
    return written[0], units.percent(threshold, 0 if threshold * 100 % 1 == 0 else digits)


def _slower(before: _Point, after: _Point, raw: _Raw) -> str:
    unit = JUDGED[raw.benchmark][1]
    first, then = (units.measure(point.median, unit) for point in (before, after))
    shown = units.DISPLAYED.get(unit, unit)
    overlap = ""
    if None not in (before.min, before.max, after.min, after.max):
        low, high = max(before.min or 0, after.min or 0), min(before.max or 0, after.max or 0)
        overlap = ", within the spread of the repeats" if low <= high else ""
    return (
        f"It gets slower from {before.resource} to {after.resource} {raw.over}"
        f" ({first} {shown} to {then} {shown}{overlap})."
    )
