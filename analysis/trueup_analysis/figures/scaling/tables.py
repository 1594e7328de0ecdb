"""The scaling series of a benchmark, each a table in base units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from trueup.errors import BadInput

from ... import units
from ...frames import rows_of
from ..fits import Fit, fit_laws
from ..views import view_of, views
from .findings import Point, not_reached, settings, stops_paying, warnings
from .points import headlines, outcomes, points
from .split import Kind, Over, Raw, axis, split
from .titles import told_apart_titles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trueup.health.expectations import Expectations

    from ...load import Loaded


@dataclass(frozen=True)
class Series:
    """One scaling table.

    Attributes:
        kind: "strong" (same work) or "weak" (same work per core).
        title: one line: benchmark, work, size or machine.
        benchmark, over: what scaled; over is "cores", "gpus" or "nodes" (``axis`` is its word).
        metric, unit, direction: the figure in median/min/max: run_time in s (lower), triad_rate in
            byte/s (higher); the first headline of the benchmark's view that the records hold.
        label, shown: what people call the figure, and the unit that they read it in.
        flat: the figure is of each device or rank (bus bandwidth), so it stays the same where
            scaling is perfect: efficiency is figure / baseline's figure, speed-up that times the
            ratio of resources, and kind is "weak".
        message_bytes: the message size of all rows, None where the figure has none.
        vm_size: the size of all rows, None when rows differ (constrained sizes of one host) or the
            size is unknown.
        baseline: the resource count that speed-ups refer to.
        table: rows by resource, best layout first; columns: resource, cores, gpus, node_count,
            vm_size, layout (text), best (bool: the row that counts at this resource), baseline
            (bool), n (repeats), records, median, min, max (min and max NaN where not stated),
            speedup, efficiency (1 = ideal), serial_fraction (Karp-Flatt; NaN at the baseline and in
            weak series), flop_rate (flop/s), point_rate (point/s), roofline_fraction, halo_share
            (of the time, in the exchange of halos), work (flop: flop_rate x time),
            published_speedup. NaN where no record holds the figure.
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
    flat: bool
    amdahl: Fit | None = None
    usl: Fit | None = None
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stops_paying: str | None = None
    provenance: str = "measured"
    configuration: str = ""
    label: str = ""
    shown: str = ""
    message_bytes: int | None = None


def capital(label: str) -> str:
    """A label at the start of a sentence; a name such as "bf16 rate" stays as it is."""
    return label[:1].upper() + label[1:] if label.partition(" ")[0].isalpha() else label


def series(
    loaded: Loaded,
    *,
    benchmark: str = "devito",
    over: Literal["cores", "gpus", "nodes", "auto"] = "auto",
    baseline: int | None = None,
    across_sizes: bool = False,
    threshold: float = 0.5,
    expectations: Expectations | None = None,
) -> list[Series]:
    """All scaling series of one benchmark among the records with outcome ok.

    Records of the same work, machine and layout are pooled over runs (median of medians, n added);
    at one resource count the fastest layout counts, and the others stay visible below it. Work is
    the same where the parameters are that the benchmark's view tells problems apart by.

    Args:
        over: "auto" takes nodes wherever their number varies, whatever the cores of each; and
            within single nodes cores, or the GPUs of a benchmark that works on them.
        baseline: resource count that speed-ups refer to; smallest when None.
        across_sizes: compare constrained sizes of the same host (HB120-16rs_v3 to HB120rs_v3) in
            one series.
        threshold: a step pays when at least this fraction of the added resource arrives as added
            speed.
        expectations: say at which message size a figure is judged; the largest without them.

    Raises:
        BadInput: no ok record of that benchmark, it does not scale, or a series lacks the baseline.
    """
    view = view_of(benchmark)
    if view is None:
        raise BadInput(f"scaling of {benchmark!r} is not known; known are {', '.join(views())}")
    if not view.scales:
        raise BadInput(
            f"{benchmark} does not scale: it measures each node, pair or device by itself;"
            f" `trueup list --benchmark {benchmark}` has its figures, `trueup health` judges them"
        )
    comparable = points(loaded, benchmark, view, expectations, across_sizes=across_sizes)
    found = []
    for _, group in comparable.groupby("work_key", sort=False):
        weak = group["weak"]
        kinds: list[tuple[Kind, pd.DataFrame]] = [("strong", group[~weak]), ("weak", group[weak])]
        for kind, part in kinds:
            if not part.empty:
                measure = view.headlines[int(part["headline"].iloc[0])]
                for along, rows in split(part, view, over=over, weak=kind == "weak"):
                    found.append(Raw(benchmark, view, measure, kind, along, rows))
    if over == "gpus" and not found:
        raise BadInput(f"no {benchmark} record says that it used GPUs (--over cores or nodes)")
    titles = told_apart_titles(found)
    return [
        _series(raw, title, baseline=baseline, threshold=threshold)
        for raw, title in zip(found, titles, strict=True)
    ]


def every_series(loaded: Loaded, **options: Any) -> list[Series]:
    """The series of every benchmark that has several counts of something, and of those that are run
    in several layouts; ``options`` are those of ``series`` without the benchmark.

    Raises:
        BadInput: nothing among the records scales.
    """
    cases = loaded.cases
    ran = set(cases.loc[cases["outcome"] == "ok", "benchmark"])
    names = [name for name, view in views().items() if name in ran and view.scales]
    found: list[Series] = []
    refused: list[BadInput] = []
    for name in names:
        try:
            of_it = series(loaded, benchmark=name, **options)
        except BadInput as error:
            refused.append(error)
            continue
        found += [one for one in of_it if views()[name].layouts or one.table["best"].sum() > 1]
    if found:
        return found
    if refused and len(refused) == len(names):
        raise refused[0]
    why = f"none of {', '.join(names)} was run on several counts of nodes, cores or GPUs"
    if not ran:
        why = f"none has outcome ok ({outcomes(cases)}); `trueup list` has the reasons"
    elif not names:
        why = f"{', '.join(sorted(ran))} measure each node, pair or device by itself"
    raise BadInput(f"nothing scales among {units.plural(len(cases), 'record')}: {why}")


def left_out(loaded: Loaded, benchmark: str) -> list[str]:
    """The records of a benchmark with no figure to judge it by, and why, one sentence each."""
    view = view_of(benchmark)
    cases = loaded.cases[loaded.cases["benchmark"] == benchmark]
    metrics: Iterable[str] = ()
    usable: set[int] = set()
    zero: set[int] = set()
    if view is not None:
        held, _ = headlines(loaded, cases, view, None)
        usable, zero = set(held.index[held["median"] > 0]), set(held.index[held["median"] <= 0])
        metrics = dict.fromkeys(measure.metric for measure in view.headlines)
    bad = cases[(cases["outcome"] != "ok") | ~cases["record"].isin(usable)]
    why = f"it holds no median of {' or '.join(metrics)}"
    columns = ["outcome", "case", "nodes", "run_id", "reason", "record"]
    return [
        f"left out, {outcome}: {case} on {nodes} in {run_id}: "
        + (reason if outcome != "ok" else "its figure is 0" if record in zero else why)
        for outcome, case, nodes, run_id, reason, record in bad[columns].itertuples(index=False)
    ]


def _series(raw: Raw, title: str, *, baseline: int | None, threshold: float) -> Series:
    measure, direction = raw.measure, raw.measure.direction
    rows, over = raw.rows, raw.over
    table = _pooled(rows, raw)
    counts = [int(value) for value in table.loc[table["best"], "resource"]]
    base = counts[0] if baseline is None else baseline
    if base not in counts:
        have = ", ".join(map(str, counts))
        raise BadInput(
            f"baseline of {base} {axis(over)} was not measured in the series '{title}'; it has"
            f" {have} {axis(over)} (--over keeps to one kind of series)"
        )
    table["baseline"] = table["best"] & (table["resource"] == base)
    reference = float(table.loc[table["baseline"], "median"].iloc[0])
    ratio = table["resource"] / base
    gain = reference / table["median"] if direction == "lower" else table["median"] / reference
    each = raw.flat or (raw.kind == "weak" and direction == "lower")
    table["speedup"] = gain * ratio if each else gain
    table["efficiency"] = table["speedup"] / ratio
    strong = raw.kind == "strong" and not raw.flat
    table["serial_fraction"] = _karp_flatt(table["speedup"], ratio) if strong else float("nan")
    best = table[table["best"]]
    amdahl = usl = None
    notes = _not_fitted(raw, len(best))
    if strong:
        amdahl, usl, notes = fit_laws(counts, best["speedup"].to_list(), base=base, over=axis(over))
    notes += [*settings(best, raw), *not_reached(rows)]
    if best["n"].isna().all():
        notes.append(
            "The source does not say how often each run was repeated: n and spread are unknown."
        )
    sizes = table["vm_size"].dropna().unique()
    steps = [Point(**values) for values in rows_of(best, Point.__slots__)]
    if len(steps) == 1:
        notes.insert(
            0, f"Only one count of {axis(over)} was measured: there is no scaling to show."
        )
    return Series(
        kind="weak" if raw.flat else raw.kind,
        title=title,
        benchmark=raw.benchmark,
        over=over,
        metric=measure.metric,
        unit=measure.unit,
        direction=direction,
        vm_size=str(sizes[0]) if len(sizes) == 1 else None,
        baseline=base,
        table=table,
        amdahl=amdahl,
        usl=usl,
        warnings=warnings(steps, raw, base),
        notes=notes,
        stops_paying=stops_paying(steps, raw, threshold),
        provenance=str(rows["provenance"].iloc[0]),
        configuration=str(raw.first.get("configuration", "")),
        label=measure.label,
        shown=measure.shown,
        flat=raw.flat,
        message_bytes=raw.message_bytes,
    )


def _not_fitted(raw: Raw, counts: int) -> list[str]:
    """Why no law is fitted to a series whose work grows, or whose figure should stay the same."""
    if not raw.flat:
        return [
            "Amdahl and universal scalability are laws of fixed work: not fitted to weak scaling."
        ]
    measure = raw.measure
    parts = [measure.label, "that of the baseline"]
    share = " / ".join(parts if measure.direction == "higher" else reversed(parts))
    sentence = (
        f"{capital(measure.label)} stays the same where scaling is perfect: efficiency is"
        f" {share}. Laws of fixed work are not fitted."
    )
    return [sentence] if counts > 1 else []


def _pooled(rows: pd.DataFrame, raw: Raw) -> pd.DataFrame:
    """A row for each resource and layout, the best layout of each resource first and marked."""
    along = "node_count" if raw.over == "nodes" else raw.over
    rows = rows.assign(resource=rows[along].astype("int64"))
    keys = ["resource", "cores", "node_count", "vm_size", "layout", "variant"]
    keys += ["gpus"] if raw.view.resource == "gpus" else []
    grouped = rows.groupby(keys, dropna=False, sort=False)
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
        published_speedup=("published_speedup", "median"),
        **({} if "gpus" in keys else {"gpus": ("gpus", "max")}),
    ).reset_index()
    # Where no record says its n, the sum is 0.
    table["n"] = table["n"].replace(0, pd.NA)
    table = table.sort_values(
        ["resource", "median", "layout"],
        ascending=[True, raw.measure.direction == "lower", True],
        kind="stable",
    ).reset_index(drop=True)
    table["best"] = ~table.duplicated("resource")
    # Rows of one layout at one count differ in their settings, which the layout then names.
    alike = table.duplicated(["resource", "layout"], keep=False)
    if alike.any():
        for _, same in table[alike].groupby(["resource", "layout"], sort=False):
            parts = [set(text.split("; ")) - {""} for text in same["variant"]]
            common = set.intersection(*parts)
            for place, own in zip(same.index, parts, strict=True):
                words = [table.loc[place, "layout"], *sorted(own - common)]
                table.loc[place, "layout"] = " ".join(word for word in words if word)
    return table


def _karp_flatt(speedup: pd.Series, ratio: pd.Series) -> pd.Series:
    """Experimentally determined serial fraction, (1/S - 1/p) / (1 - 1/p); Karp and Flatt, CACM
    33(5), 1990."""
    return ((1 / speedup - 1 / ratio) / (1 - 1 / ratio)).where(ratio != 1)
