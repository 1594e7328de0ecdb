"""The scaling series of a benchmark, each a table in base units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from trueup_node.errors import BadInput

from ... import units
from ...packed import alike, values
from ...rooms import view_of, views
from ..fits import Fit, fit_laws
from ..frames import first, rows_of
from .findings import Row, not_reached, settings, stops_paying, warnings
from .points import BESIDE, headlines, outcomes, points, records_of
from .split import Kind, Over, Raw, axis, split
from .titles import told_apart_titles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup_node.health.expectations import Expectations

    from ...load import Loaded


@dataclass(frozen=True)
class Series:
    """One scaling table.

    Attributes:
        kind: "strong" (same work) or "weak" (same work per core).
        title: one line: benchmark, work, size or machine.
        benchmark; over: the resource, "cores", "gpus" or "nodes" (``axis`` is its word).
        metric, unit, direction: the figure in median/min/max: run_time in s (lower), triad_rate in
            byte/s (higher); the first headline of the benchmark's view that the records hold.
        label, shown: the figure's name for readers, and the unit that they read it in.
        flat: the figure is of each device or rank (bus bandwidth), so it stays the same where
            scaling is perfect: efficiency is figure / baseline's figure, speed-up that times the
            ratio of resources, and kind is "weak".
        message_bytes: the message size of all rows, None where the figure has none.
        vm_size: the size of all rows, None when rows differ (constrained sizes of one host) or the
            size is unknown.
        baseline: the resource count that speed-ups refer to.
        rows: by resource, the best layout first.
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
    rows: list[Row]
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

    @property
    def best(self) -> list[Row]:
        """The rows that count, one a resource."""
        return [row for row in self.rows if row.best]


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
    raw_series = []
    for _, group in comparable.groupby("same_work"):
        kinds: list[tuple[Kind, pd.DataFrame]] = [
            ("strong", group[~group["weak"]]),
            ("weak", group[group["weak"]]),
        ]
        for kind, subset in kinds:
            if len(subset):
                measure = view.headlines[first(subset, "position")]
                for along, points_of_it in split(subset, view, over=over, weak=kind == "weak"):
                    raw_series.append(Raw(benchmark, view, measure, kind, along, points_of_it))
    if over == "gpus" and not raw_series:
        raise BadInput(f"no {benchmark} record says that it used GPUs (--over cores or nodes)")
    titles = told_apart_titles(raw_series)
    return [
        _series(raw, title, baseline=baseline, threshold=threshold)
        for raw, title in zip(raw_series, titles, strict=True)
    ]


def every_series(loaded: Loaded, **options: Any) -> list[Series]:
    """The series of every benchmark that has several counts of something, and of those run
    in several layouts; ``options`` are those of ``series`` without the benchmark.

    Raises:
        BadInput: nothing among the records scales.
    """
    records = loaded.records
    ran = sorted(records.loc[records["outcome"] == "ok", "benchmark"].unique())
    names = [name for name, view in views().items() if name in ran and view.scales]
    all_series: list[Series] = []
    refused: list[BadInput] = []
    for name in names:
        try:
            of_it = series(loaded, benchmark=name, **options)
        except BadInput as error:
            refused.append(error)
            continue
        all_series += [
            scaling_series
            for scaling_series in of_it
            if views()[name].layouts or len(scaling_series.best) > 1
        ]
    if all_series:
        return all_series
    if refused and len(refused) == len(names):
        raise refused[0]
    reason = f"none of {', '.join(names)} was run on several counts of nodes, cores or GPUs"
    if not ran:
        reason = f"none has outcome ok ({outcomes(records)}); `trueup list` has the reasons"
    elif not names:
        reason = f"{', '.join(ran)} measure each node, pair or device by itself"
    raise BadInput(f"nothing scales among {units.plural(len(records), 'record')}: {reason}")


def left_out(loaded: Loaded, benchmark: str) -> list[str]:
    """The records of a benchmark with no figure to judge it by, and why, one sentence each."""
    view = view_of(benchmark)
    records = records_of(loaded, benchmark)
    headline_measures = () if view is None else view.headlines
    figure = pd.Series(float("nan"), records.index)
    if view is not None:
        figure = headlines(loaded, records.index, view, None)[0]["median"]
    is_left_out = (records["outcome"] != "ok") | ~(figure > 0)
    metrics = dict.fromkeys(measure.metric for measure in headline_measures)
    no_median = f"it holds no median of {' or '.join(metrics)}"
    names = ("outcome", "case", "nodes", "run_id", "reason")
    columns = [values(records.loc[is_left_out, name]) for name in names]
    zero = (figure[is_left_out] <= 0).tolist()
    return [
        f"left out, {outcome}: {case} on {nodes} in {run_id}: "
        + (str(reason) if outcome != "ok" else "its figure is 0" if is_zero else no_median)
        for outcome, case, nodes, run_id, reason, is_zero in zip(*columns, zero, strict=True)
    ]


def _series(raw: Raw, title: str, *, baseline: int | None, threshold: float) -> Series:
    measure, direction = raw.measure, raw.measure.direction
    over = raw.over
    rows = _pooled(raw)
    best = [row for row in rows if row.best]
    counts = [row.resource for row in best]
    base = counts[0] if baseline is None else baseline
    if base not in counts:
        have = ", ".join(map(str, counts))
        raise BadInput(
            f"baseline of {base} {axis(over)} was not measured in the series '{title}'; it has"
            f" {have} {axis(over)} (--over keeps to one kind of series)"
        )
    strong = raw.kind == "strong" and not raw.flat
    _compare(rows, raw, base, strong=strong)
    amdahl = usl = None
    notes = _not_fitted(raw, len(best))
    if strong:
        speedups = [row.speedup for row in best]
        amdahl, usl, notes = fit_laws(counts, speedups, base=base, over=axis(over))
    notes += [*settings(best, raw), *not_reached(raw.points)]
    if all(row.n is None for row in best):
        notes.append(
            "The source does not say how often each run was repeated: n and spread are unknown."
        )
    sizes = {row.vm_size for row in rows} - {None}
    if len(best) == 1:
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
        vm_size=sizes.pop() if len(sizes) == 1 else None,
        baseline=base,
        rows=rows,
        amdahl=amdahl,
        usl=usl,
        warnings=warnings(best, raw, base),
        notes=notes,
        stops_paying=stops_paying(best, raw, threshold),
        provenance=str(first(raw.points, "provenance")),
        configuration=str(raw.first.get("configuration", "")),
        label=measure.label,
        shown=measure.shown,
        flat=raw.flat,
        message_bytes=raw.message_bytes,
    )


def _compare(rows: Sequence[Row], raw: Raw, base: int, *, strong: bool) -> None:
    """Speedup, efficiency and, of fixed work, the serial fraction of each row by the baseline's."""
    lower = raw.measure.direction == "lower"
    reference = next(row.median for row in rows if row.best and row.resource == base)
    each = raw.flat or (raw.kind == "weak" and lower)
    for row in rows:
        ratio = row.resource / base
        gain = reference / row.median if lower else row.median / reference
        row.baseline = row.best and row.resource == base
        row.speedup = gain * ratio if each else gain
        row.efficiency = row.speedup / ratio
        row.serial_fraction = _karp_flatt(row.speedup, ratio) if strong and ratio != 1 else None


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


def _pooled(raw: Raw) -> list[Row]:
    """A row for each resource and layout, the best layout of each resource first and marked."""
    resource = "node_count" if raw.over == "nodes" else raw.over
    gpus = ["gpus"] if raw.view.resource == "gpus" else []
    same = ["cores", "node_count", "vm_size", "layout", "variant"]
    pooled = raw.points.groupby(alike(raw.points, [resource, *same, *gpus])).agg(
        resource=(resource, "first"),
        **{name: (name, "first") for name in same},
        gpus=("gpus", "max"),
        n=("n", "sum"),
        records=("n", "size"),
        min=("low", "min"),
        max=("high", "max"),
        **{name: (name, "median") for name in ("median", *BESIDE, "work")},
    )
    return _ranked(raw, [Row(**{**row, "n": float(row["n"]) or None}) for row in rows_of(pooled)])


def _ranked(raw: Raw, rows: list[Row]) -> list[Row]:
    """The same rows by resource, the best first and marked."""
    lower = raw.measure.direction == "lower"
    rows.sort(key=lambda row: (row.resource, row.median if lower else -row.median, row.layout))
    of_layout: dict[tuple[int, str], list[Row]] = {}
    seen_resources: set[int] = set()
    for row in rows:
        of_layout.setdefault((row.resource, row.layout), []).append(row)
        row.best = row.resource not in seen_resources
        seen_resources.add(row.resource)
    # Rows of one layout at one count differ in their settings, which the layout then names.
    for same_layout in of_layout.values():
        parts = [set(row.variant.split("; ")) - {""} for row in same_layout]
        common = set.intersection(*parts)
        for row, row_settings in zip(same_layout, parts, strict=True):
            row.layout = " ".join(filter(None, [row.layout, *sorted(row_settings - common)]))
    return rows


def _karp_flatt(speedup: float, ratio: float) -> float:
    """Experimentally determined serial fraction, (1/S - 1/p) / (1 - 1/p); Karp and Flatt, CACM
    33(5), 1990."""
    return (1 / speedup - 1 / ratio) / (1 - 1 / ratio)
