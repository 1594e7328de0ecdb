"""Strong and weak scaling: pure functions from the loaded frames to tables in base units."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from trueup.errors import BadInput

from .. import units
from ..cases import TYPICAL, read_cases
from ..frames import figures, rows_of
from .fits import Fit, fit_laws
from .views import at_headline, headline, view_of, views
from .work import HOW, work_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trueup.view import Measure, View

    from ..cases import Case
    from ..load import Loaded
    from .health.expectations import Expectations

__all__ = [
    "Fit",
    "Series",
    "axis",
    "capital",
    "every_series",
    "left_out",
    "series",
]

Over = Literal["cores", "gpus", "nodes"]
Kind = Literal["strong", "weak"]

# And these say over how many GPUs or ranks the work was spread.
_SPREAD = frozenset(
    {"data_parallel", "gpus", "gpus_per_node", "processes_per_node", "tensor_parallel"}
)
_NOT_USED = (None, "", "none", "off", "local", "torchrun", False)
# A weak series changes these along its way. In a strong one they are the same.
GROWS = frozenset({"shape", "points", "array_elements", "array_bytes", "global_batch"})
# GFLOP/s x time varied by 0.12 % over the 13 rows of the Devito article; more than this is another
# problem size.
WORK_TOLERANCE = 0.005
# More speed than the resources allow by this much is no rounding.
SUPERLINEAR = 1.01
# Shapes are whole numbers, so points per core are equal only nearly.
WEAK_TOLERANCE = 0.05
_MOST_DECIMALS = 12
# Less than this between the fewest and the most cores is a choice of layouts, not a scaling.
_SPAN = 2
# A parameter that takes more values than this, or a longer one, is a finding of each run (the name
# of a peer, a checksum), not a setting.
_MOST_SETTINGS, _LONGEST_SETTING = 6, 40
_NAMED = 4


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
    amdahl: Fit | None = None
    usl: Fit | None = None
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stops_paying: str | None = None
    provenance: str = "measured"
    configuration: str = ""
    label: str = ""
    shown: str = ""
    flat: bool = False
    message_bytes: int | None = None


def axis(over: str, number: int = 2) -> str:
    """What is counted, in words: "cores", "GPU", "nodes"."""
    word = over.removesuffix("s") if number == 1 else over
    return word.replace("gpu", "GPU")


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
        BadInput: no ok record of that benchmark, or a series lacks the baseline.
    """
    view = view_of(benchmark)
    if view is None:
        message = f"scaling of {benchmark!r} is not known; known are {', '.join(views())}"
        raise BadInput(message)
    points = _points(loaded, benchmark, view, expectations, across_sizes=across_sizes)
    found = []
    for _, group in points.groupby("work_key", sort=False):
        weak = group["weak"]
        kinds: list[tuple[Kind, pd.DataFrame]] = [("strong", group[~weak]), ("weak", group[weak])]
        for kind, part in kinds:
            if not part.empty:
                measure = view.headlines[int(part["headline"].iloc[0])]
                for along, rows in _split(part, view, over=over, weak=kind == "weak"):
                    found.append(_Raw(benchmark, view, measure, kind, along, rows))
    if over == "gpus" and not found:
        message = f"no {benchmark} record says that it used GPUs (--over cores or nodes)"
        raise BadInput(message)
    titles = _told_apart_titles(found)
    return [
        _series(raw, title, baseline=baseline, threshold=threshold)
        for raw, title in zip(found, titles, strict=True)
    ]


@dataclass(frozen=True)
class _Raw:
    """The records of one series."""

    benchmark: str
    view: View
    measure: Measure
    kind: Kind
    over: Over
    rows: pd.DataFrame

    @property
    def flat(self) -> bool:
        """Whether the figure stays the same where scaling is perfect."""
        return not self.measure.grows

    @property
    def first(self) -> Mapping[str, Any]:
        """The parameters of its first record."""
        found: Mapping[str, Any] = self.rows["parameters"].iloc[0]
        return found

    @property
    def message_bytes(self) -> int | None:
        size = self.rows["message_bytes"].iloc[0]
        return None if pd.isna(size) else int(size)


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
    tried = ", ".join(names) or "none that can scale"
    message = (
        f"nothing scales among {len(cases)} records: no benchmark ({tried}) was run on several"
        " counts of nodes, cores or GPUs"
    )
    raise BadInput(message)


def left_out(loaded: Loaded, benchmark: str) -> list[str]:
    """The records of a benchmark with no figure to judge it by, and why, one sentence each."""
    view = view_of(benchmark)
    cases = loaded.cases[loaded.cases["benchmark"] == benchmark]
    metrics: Iterable[str] = ()
    usable: set[int] = set()
    zero: set[int] = set()
    if view is not None:
        held, _ = _headlines(loaded, cases, view, None)
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


def host_family(vm_size: str) -> str:
    """A size without its constrained core count: the five HBv3 sizes are one host
    (``Standard_HB120-16rs_v3``)."""
    return re.sub(r"(?<=\d)-\d+(?=[a-z])", "", vm_size)


def _points(
    loaded: Loaded,
    benchmark: str,
    view: View,
    expectations: Expectations | None,
    *,
    across_sizes: bool,
) -> pd.DataFrame:
    """One row a record with outcome ok: its resources, its figures, and what it may be compared
    with (work_key)."""
    cases = loaded.cases
    of_it = cases[cases["benchmark"] == benchmark]
    chosen = of_it[of_it["outcome"] == "ok"]
    if chosen.empty:
        counts = cases["benchmark"].value_counts()
        there = ", ".join(f"{name} {counts[name]:,}" for name in sorted(counts.index[counts > 0]))
        message = f"no {benchmark} record with outcome ok among {len(cases):,} records ({there})"
        raise BadInput(message)
    _require(chosen, "node_count")
    if view.resource == "cores":
        _require(chosen, "cores")
    judged, at_sizes = _headlines(loaded, chosen, view, expectations)
    judged = judged[judged["median"] > 0]
    if judged.empty:
        wanted = " or ".join(f"{one.label} ({one.metric})" for one in view.headlines)
        names = loaded.metrics.loc[loaded.metrics["record"].isin(chosen["record"]), "name"]
        held = ", ".join(sorted(set(names))) or "no figure"
        message = (
            f"{units.plural(len(chosen), f'{benchmark} record')} with outcome ok, but none holds"
            f" {wanted} above 0, which its scaling is judged by; they hold {held}"
        )
        raise BadInput(message)
    beside = ("flop_rate", "point_rate", "roofline_fraction", "halo_share", "published_speedup")
    wide = figures(loaded, [(name, None) for name in beside]).drop(
        columns=[f"{name}:n" for name in beside]
    )
    out = chosen.merge(judged, left_on="record", right_index=True, validate="one_to_one")
    out = out.merge(wide, left_on="record", right_index=True, how="left", validate="one_to_one")
    out["weak"], out["points_each"] = _amounts(out)
    out["work_key"] = _work_keys(out, benchmark, view, across_sizes=across_sizes)
    if at_sizes:
        out = _at_common_sizes(out, view, at_sizes)
    lower = out["headline"].map(lambda place: view.headlines[place].direction == "lower")
    out["work"] = (out["flop_rate"] * out["median"]).where(lower)
    out["layout"] = _layouts(out)
    out["variant"] = _variants(out, view)
    return out


def _require(cases: pd.DataFrame, name: str) -> None:
    """Refuse records that do not say what they are compared by."""
    if cases[name].isna().any():
        row = cases[cases[name].isna()].iloc[0]
        what = "GPUs" if name == "gpus" else name.replace("_", " ")
        message = f"case {row['case']} ({row['source']}) does not say its {what}"
        raise BadInput(message)


def _amounts(cases: pd.DataFrame) -> tuple[list[bool], list[float]]:
    """Whether each record's work grows with its resources, and how much of it each core has."""
    weak, each = [], []
    known: dict[int, tuple[bool, float, int | None, Any]] = {}
    counts = (cases[name].astype(float).to_list() for name in ("ranks", "cores"))
    for parameters, ranks, cores in zip(cases["parameters"], *counts, strict=True):
        found = known.get(id(parameters))
        if found is None:
            points = _number(parameters.get("points", parameters.get("array_elements")))
            micro, batch = parameters.get("micro_batch"), parameters.get("global_batch")
            micro = micro if isinstance(micro, int) else None
            found = known[id(parameters)] = (
                parameters.get("scaling") == "weak",
                points,
                micro,
                batch,
            )
        grows, points, micro, batch = found
        # A training run whose whole batch is that of each process times the processes.
        by_process = micro is not None and batch == micro * ranks
        weak.append(grows or by_process)
        each.append(1.0 if by_process else points / cores)
    return weak, each


def _headlines(
    loaded: Loaded, chosen: pd.DataFrame, view: View, expectations: Expectations | None
) -> tuple[pd.DataFrame, dict[int, Case]]:
    """The figure that stands for each record, indexed by record (place among the view's headlines,
    median, min, max, n, message_bytes, judged_bytes), and the cases that were measured at several
    message sizes. Records that hold none are left out.
    """
    metrics = loaded.metrics
    metrics = metrics[metrics["record"].isin(chosen["record"])]
    metrics = metrics[metrics["name"].isin({measure.metric for measure in view.headlines})]
    nested = metrics["message_bytes"].notna() | metrics["device"].notna()
    places = set(metrics.loc[nested, "record"])
    plain = metrics[~metrics["record"].isin(places)] if places else metrics
    parts = []
    for place, measure in enumerate(view.headlines):
        part = _whole(plain[plain["name"] == measure.metric], measure)
        parts.append(part.assign(headline=place, message_bytes=None, judged_bytes=None))
    found = pd.concat(parts)
    found = found[~found.index.duplicated()]
    if not places:
        return found, {}
    cases = read_cases(
        loaded, records=places, metrics={measure.metric for measure in view.headlines}
    )
    rows = {case.record: _headline_row(case, view, expectations) for case in cases}
    rest = pd.DataFrame.from_dict(
        {record: row for record, row in rows.items() if row is not None},
        orient="index",
        columns=_HEADLINE,
    )
    at_sizes = {case.record: case for case in cases if rows[case.record] is not None}
    found = rest if found.empty else pd.concat([found[_HEADLINE], rest]) if len(rest) else found
    numbers = ["median", "min", "max", "n", "message_bytes", "judged_bytes"]
    return found.astype(dict.fromkeys(numbers, float)), at_sizes


_HEADLINE = ["headline", "median", "min", "max", "n", "message_bytes", "judged_bytes"]


def _whole(rows: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """One measure of records that hold it once for the whole case."""
    left = rows
    typical = []
    for statistic in (measure.statistic,) if measure.statistic else TYPICAL:
        wanted = left["statistic"].isna() if statistic is None else left["statistic"] == statistic
        first = left[wanted].drop_duplicates("record", keep="last")
        if not first.empty:
            typical.append(first)
            left = left[~left["record"].isin(first["record"])]
    one = pd.concat(typical) if typical else rows.iloc[:0]
    one = one.set_index("record")
    out = pd.DataFrame({"median": one["value"], "n": one["n"]}, index=one.index)
    for end in ("min", "max"):
        of_it = rows[rows["statistic"] == end].drop_duplicates("record")
        out[end] = of_it.set_index("record")["value"]
    return out


def _headline_row(
    case: Case, view: View, expectations: Expectations | None
) -> tuple[Any, ...] | None:
    shown = headline(case, expectations)
    if shown is None:
        return None
    place = view.headlines.index(shown.measure)
    ends = (shown.low, shown.high, shown.n, shown.message_bytes, shown.judged_bytes)
    return (place, shown.value, *ends)


def _at_common_sizes(out: pd.DataFrame, view: View, cases: Mapping[int, Case]) -> pd.DataFrame:
    """Records of the same work at the largest size that is judged and that they hold, so that what
    is expected of one node at another size does not part them; the size is part of the work.
    """
    sized = out[out["message_bytes"].notna()]
    changed: dict[int, dict[str, Any]] = {}
    for _, group in sized.groupby("work_key", sort=False):
        # What never reached its size says nothing about which one counts.
        reached = group[group["judged_bytes"].isna()]
        wanted = sorted({int(size) for size in reached["message_bytes"]}, reverse=True)
        if len(wanted) < 2:
            continue
        for record, size, place in zip(
            *(group[name] for name in ("record", "message_bytes", "headline")), strict=True
        ):
            case, measure = cases[record], view.headlines[int(place)]
            held = {row.message_bytes for row in case.of(measure.metric)}
            best = next((one for one in wanted if one in held), None)
            if best is None or best == size:
                continue
            rows = [row for row in case.of(measure.metric) if row.message_bytes == best]
            shown = at_headline(replace(case, figures=rows), measure)
            if shown is not None:
                again = (shown.value, shown.low, shown.high, shown.n, best, None)
                changed[record] = dict(zip(_HEADLINE[1:], again, strict=True))
    if changed:
        out = out.set_index("record", drop=False)
        for record, values in changed.items():
            for name, value in values.items():
                out.loc[record, name] = float("nan") if value is None else value
        out = out.reset_index(drop=True)
    sizes = ["" if pd.isna(size) else f" at {int(size)} bytes" for size in out["message_bytes"]]
    out["work_key"] = out["work_key"] + sizes
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


def _variants(cases: pd.DataFrame, view: View) -> list[str]:
    """The settings of each record that others of the same work have otherwise: "transport=ib". They
    are not pooled.
    """
    known = HOW | GROWS | _SPREAD | set(view.apart)
    names = set("+".join(cases["nodes"].unique()).split("+"))
    kinds: dict[str, dict[int, Mapping[str, Any]]] = {}
    keys = list(zip(cases["work_key"].to_list(), map(id, cases["parameters"]), strict=True))
    for (work, key), parameters in dict(zip(keys, cases["parameters"], strict=True)).items():
        kinds.setdefault(work, {})[key] = parameters
    texts: dict[tuple[str, int], str] = {}
    for work, found in kinds.items():
        every = {name for parameters in found.values() for name in parameters} - known
        varying = []
        for name in sorted(every):
            values = {units.text(parameters.get(name)) for parameters in found.values()}
            if 1 < len(values) <= _MOST_SETTINGS and not values <= names | {units.UNKNOWN}:
                varying += [name] if max(map(len, values)) <= _LONGEST_SETTING else []
        for key, parameters in found.items():
            texts[work, key] = "; ".join(
                f"{name}={units.text(parameters.get(name))}" for name in varying
            )
    return [texts[key] for key in keys]


def _work_keys(cases: pd.DataFrame, benchmark: str, view: View, *, across_sizes: bool) -> list[str]:
    """Equal texts for records that may be compared: same work, machine, tool version and origin,
    judged by the same figure."""
    known: dict[tuple[Any, ...], str] = {}
    keys = []
    apart = set(view.apart)
    names = (
        *("parameters", "software", "system", "vm_size", "nodes", "weak", "provenance"),
        "headline",
    )
    for row in zip(*(cases[name].to_list() for name in names), strict=True):
        parameters, software, system, vm_size, nodes, weak, provenance, place = row
        key = (id(parameters), id(software), id(system), vm_size, nodes, weak, provenance, place)
        found = known.get(key)
        if found is None:
            how = HOW | _SPREAD | GROWS if weak else HOW | _SPREAD
            if apart:
                how |= set(parameters) - apart - GROWS
            if "configuration" in parameters:
                # A publication's table compares what it compares, also over constrained sizes.
                machine = ""
            elif units.is_missing(vm_size):
                machine = str(system.get("cpu_model") or nodes.split("+")[0])
            else:
                machine = host_family(vm_size) if across_sizes else vm_size
            found = known[key] = repr(
                (provenance, machine, software.get(benchmark, ""), work_of(parameters, how), place)
            )
        keys.append(found)
    return keys


def _split(
    rows: pd.DataFrame,
    view: View,
    *,
    over: Literal["cores", "gpus", "nodes", "auto"],
    weak: bool,
) -> list[tuple[Over, pd.DataFrame]]:
    """The series of the same work: within single nodes, and over nodes whatever the cores of
    each."""
    parts = [rows]
    if weak:
        order = rows["points_each"].sort_values()
        steps = (
            (order / order.shift() > 1 + WEAK_TOLERANCE).cumsum().where(order.notna(), len(order))
        )
        parts = [rows.loc[index] for index in steps.groupby(steps).groups.values()]
    found: list[tuple[Over, pd.DataFrame]] = []
    for part in parts:
        if over == "auto":
            found += _auto(part, view)
        elif over == "gpus":
            used = part[part["gpus"].fillna(0) > 0]
            found += [("gpus", used)] if not used.empty else []
        else:
            found.append((over, part))
    for along, part in found:
        _require(part, "node_count" if along == "nodes" else along)
    return found


def _auto(part: pd.DataFrame, view: View) -> list[tuple[Over, pd.DataFrame]]:
    """Within single nodes where that is a scaling or there is nothing else, and over nodes where
    their number varies."""
    several = part["node_count"].nunique() > 1
    alone = part[part["node_count"] == 1] if several else part
    found: list[tuple[Over, pd.DataFrame]] = []
    on_gpus = alone["gpus"].fillna(0) > 0 if view.resource == "gpus" else alone["gpus"] < 0
    sides: list[tuple[Over, pd.DataFrame]] = [("cores", alone[~on_gpus]), ("gpus", alone[on_gpus])]
    for along, rows in sides:
        if rows.empty:
            continue
        count = rows[along].astype(float)
        spans = bool(count.max() >= _SPAN * count.min())
        single = bool((rows["node_count"] == 1).all())
        if spans or (single and not several):
            found.append((along, rows))
        elif not several:
            # Layouts of some cores more or less, on nodes of which only one count was measured.
            found.append(("nodes", rows))
    return [*found, ("nodes", part)] if several else found


def _pooled(rows: pd.DataFrame, raw: _Raw) -> pd.DataFrame:
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


def _series(raw: _Raw, title: str, *, baseline: int | None, threshold: float) -> Series:
    measure, direction = raw.measure, raw.measure.direction
    rows, over = raw.rows, raw.over
    table = _pooled(rows, raw)
    counts = [int(value) for value in table.loc[table["best"], "resource"]]
    base = counts[0] if baseline is None else baseline
    if base not in counts:
        have = ", ".join(map(str, counts))
        message = (
            f"baseline of {base} {axis(over)} was not measured in the series '{title}'; it has"
            f" {have} {axis(over)} (--over keeps to one kind of series)"
        )
        raise BadInput(message)
    table["baseline"] = table["best"] & (table["resource"] == base)
    reference = float(table.loc[table["baseline"], "median"].iloc[0])
    ratio = table["resource"] / base
    gain = reference / table["median"] if direction == "lower" else table["median"] / reference
    each = raw.flat or (raw.kind == "weak" and direction == "lower")
    table["speedup"] = gain * ratio if each else gain
    table["efficiency"] = table["speedup"] / ratio
    strong = raw.kind == "strong" and not raw.flat
    table["serial_fraction"] = _karp_flatt(table["speedup"], ratio) if strong else float("nan")
    best = table[table["best"]].reset_index(drop=True)
    amdahl = usl = None
    notes = ["Amdahl and universal scalability are laws of fixed work: not fitted to weak scaling."]
    if raw.flat:
        parts = [measure.label, "that of the baseline"]
        share = " / ".join(parts if direction == "higher" else reversed(parts))
        sentence = (
            f"{capital(measure.label)} stays the same where scaling is perfect: efficiency is"
            f" {share}. Laws of fixed work are not fitted."
        )
        notes = [sentence] if len(best) > 1 else []
    if strong:
        amdahl, usl, notes = fit_laws(counts, best["speedup"].to_list(), base=base, over=axis(over))
    notes += _settings(best, raw)
    notes += _not_reached(rows)
    if best["n"].isna().all():
        notes.append(
            "The source does not say how often each run was repeated: n and spread are unknown."
        )
    sizes = table["vm_size"].dropna().unique()
    steps = [_Point(**values) for values in rows_of(best, _Point.__slots__)]
    if len(steps) == 1:
        notes.insert(
            0, f"Only one count of {axis(over)} was measured, so nothing can be said about scaling."
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
        table=table[_TABLE],
        amdahl=amdahl,
        usl=usl,
        warnings=_warnings(steps, raw, base),
        notes=notes,
        stops_paying=_stops_paying(steps, raw, threshold),
        provenance=str(rows["provenance"].iloc[0]),
        configuration=str(raw.first.get("configuration", "")),
        label=measure.label,
        shown=measure.shown,
        flat=raw.flat,
        message_bytes=raw.message_bytes,
    )


def _settings(best: pd.DataFrame, raw: _Raw) -> list[str]:
    """What else the rows that count differ in."""
    values: dict[str, dict[str, list[int]]] = {}
    for resource, variant in zip(best["resource"], best["variant"], strict=True):
        for pair in filter(None, str(variant).split("; ")):
            name, _, value = pair.partition("=")
            values.setdefault(name, {}).setdefault(value, []).append(int(resource))
    said = [
        f"{name} (" + "; ".join(f"{value} at {_counts(at, raw)}" for value, at in of.items()) + ")"
        for name, of in values.items()
        if len(of) > 1
    ]
    if not said:
        return []
    more = [f"{len(said) - _NAMED} more"] if len(said) > _NAMED else []
    return [f"The rows that count also differ in {', '.join([*said[:_NAMED], *more])}."]


def _counts(numbers: Sequence[int], raw: _Raw) -> str:
    """ "1, 2 and 4 nodes"."""
    *most, last = map(str, numbers)
    text = f"{', '.join(most)} and {last}" if most else last
    return f"{text} {axis(raw.over, numbers[0] if len(numbers) == 1 else 2)}"


def _not_reached(rows: pd.DataFrame) -> list[str]:
    missed = rows["judged_bytes"].dropna()
    if missed.empty:
        return []
    sizes = " and ".join(units.size_of(int(size)) for size in sorted(set(missed)))
    reached = units.size_of(int(rows["message_bytes"].iloc[0]))
    return [f"Judged at {sizes}, which these runs did not reach; {reached} is their largest."]


_TABLE = [
    *(
        "resource",
        "cores",
        "gpus",
        "node_count",
        "vm_size",
        "layout",
        "best",
        "baseline",
        "n",
        "records",
    ),
    *("median", "min", "max", "speedup", "efficiency", "serial_fraction", "flop_rate"),
    *("point_rate", "roofline_fraction", "halo_share", "work", "published_speedup"),
]


@dataclass(frozen=True, slots=True)
class _Point:
    """The row that counts at one resource."""

    resource: int
    cores: int | None
    median: float
    min: float | None
    max: float | None
    speedup: float
    efficiency: float
    work: float | None
    layout: str


# Parameters that a title names in words of its own.
_IN_TITLE = frozenset({"model", "configuration", "shape", "space_order", "tn_ms"})


def _title(raw: _Raw) -> str:
    parameters, benchmark = raw.first, raw.benchmark
    words = [benchmark if "model" not in parameters else f"{benchmark} {parameters['model']}"]
    named = [name for name in raw.view.apart if name not in HOW | _IN_TITLE | _SPREAD]
    values = [(name, parameters.get(name)) for name in named]
    words += [
        f"{name} {value}" if value == "yes" else value
        for name, value in values
        if isinstance(value, str) and value not in {"", "no", "none", "off"}
    ]
    words += [raw.measure.label] if len(raw.view.headlines) > 1 else []
    if raw.message_bytes is not None:
        words[-1] += f" at {units.size_of(raw.message_bytes)}"
    if "configuration" in parameters:
        words.append(str(parameters["configuration"]))
    if "shape" in parameters and raw.kind != "weak":
        words.append(str(parameters["shape"]))
    if "space_order" in parameters:
        words.append(f"space order {parameters['space_order']}")
    if "tn_ms" in parameters:
        words.append(f"{_plain(parameters['tn_ms'])} ms")
    words.append(_machine(raw.rows))
    version = raw.rows["software"].iloc[0].get(benchmark)
    if version:
        words.append(f"{benchmark} {version}")
    # A publication's case may be named after its profile.
    return ", ".join(dict.fromkeys(words))


def _machine(rows: pd.DataFrame) -> str:
    sizes = rows["vm_size"].dropna().unique()
    if len(sizes) == 1:
        return str(sizes[0])
    if len(sizes) > 1:
        return f"{host_family(str(sizes[-1]))} and its constrained sizes"
    return str(rows["system"].iloc[0].get("cpu_model") or rows["nodes"].iloc[0])


def _told_apart_titles(found: Sequence[_Raw]) -> list[str]:
    """A title each; where two of one kind would be the same, with what they differ in."""
    titles = [_title(raw) for raw in found]
    alike: dict[tuple[str, str, str], list[int]] = {}
    for place, (raw, title) in enumerate(zip(found, titles, strict=True)):
        alike.setdefault((raw.kind, raw.over, title), []).append(place)
    for places in alike.values():
        if len(places) < 2:
            continue
        about = {place: _about(found[place]) for place in places}
        names = dict.fromkeys(name for each in about.values() for name in each)
        differing = [
            name for name in names if len({about[place].get(name) for place in places}) > 1
        ]
        words = [
            ", ".join(
                f"{name.replace('_', ' ')} {about[place].get(name) or 'not said'}"
                for name in differing
            )
            for place in places
        ]
        for number, (place, text) in enumerate(zip(places, words, strict=True), 1):
            own = text if text and words.count(text) == 1 else f"{text} number {number}".strip()
            titles[place] += f", {own}"
    return titles


def _about(raw: _Raw) -> dict[str, str]:
    """What may tell a series from another of the same title."""
    rows = raw.rows
    names = [*raw.view.apart, *sorted(GROWS)]
    shown = {
        name: _plain(raw.first[name])
        for name in names
        if name in raw.first
        and name not in HOW | _SPREAD
        and not (raw.kind == "weak" and name in GROWS)
    }
    if not raw.view.apart:
        shown |= {
            name: _plain(value)
            for name, value in sorted(raw.first.items())
            if name not in HOW | _SPREAD
        }
    each = rows["points_each"].iloc[0]
    if raw.kind == "weak":
        shown["points of each core"] = units.UNKNOWN if pd.isna(each) else f"{each:,.0f}"
    shown["CPU"] = units.text(rows["system"].iloc[0].get("cpu_model"))
    shown["source"] = str(rows["provenance"].iloc[0])
    return shown


def _plain(value: Any) -> str:
    """200.0 as "200"."""
    return f"{value:.6g}" if isinstance(value, float) else units.text(value)


def _karp_flatt(speedup: pd.Series, ratio: pd.Series) -> pd.Series:
    """Experimentally determined serial fraction, (1/S - 1/p) / (1 - 1/p); Karp and Flatt, CACM
    33(5), 1990."""
    return ((1 / speedup - 1 / ratio) / (1 - 1 / ratio)).where(ratio != 1)


def _warnings(points: list[_Point], raw: _Raw, base: int) -> list[str]:
    return _other_work(points, raw) + _superlinear(points, raw, base)


def _superlinear(points: list[_Point], raw: _Raw, base: int) -> list[str]:
    """A warning where more resources brought more than their share. Fewer than the baseline's are
    rightly above 1.
    """
    baseline = next(point for point in points if point.resource == base)
    above = [
        f"{point.efficiency:.3f} at {point.resource} {axis(raw.over, point.resource)}"
        + (f" ({point.layout}; baseline {baseline.layout})" if point.layout else "")
        for point in points
        if point.resource > base and point.efficiency > SUPERLINEAR
    ]
    if not above:
        return []
    if raw.flat:
        return [
            (
                f"Better than perfect: an efficiency of {', '.join(above)}. That is noise, or a"
                f" baseline whose {raw.measure.label} is worse than it could be; measure the"
                " baseline again before counting on it."
            )
        ]
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
        if point.work is not None and point.cores is not None
    }
    if len(work) < 2:
        return []
    typical = statistics.median(work.values())
    off = [
        f"{resource} {axis(raw.over)} ({units.percent(value / typical - 1, 2)})"
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
    over = axis(raw.over)
    steps = list(zip(points, points[1:], strict=False))
    sentences = []
    if raw.flat:
        return _falls(steps, raw, threshold)
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


def _falls(steps: Sequence[tuple[_Point, _Point]], raw: _Raw, threshold: float) -> str | None:
    """The first step that loses so much of a figure that should stay that under ``threshold`` of
    what it adds arrives.
    """
    for before, after in steps:
        gained = (after.speedup / before.speedup - 1) / (after.resource / before.resource - 1)
        if gained < threshold:
            first, then = (
                units.in_unit(point.median, raw.measure.shown) for point in (before, after)
            )
            change = "falls" if raw.measure.direction == "higher" else "rises"
            return (
                f"Going from {before.resource} to {after.resource} {axis(raw.over)},"
                f" {raw.measure.label} {change} from {first} to {then} {raw.measure.shown}."
            )
    return None


def _told_apart(share: float, threshold: float) -> tuple[str, str]:
    """Two percentages with as many decimals as it takes to tell them apart: not 50 % under 50 %."""
    for digits in range(_MOST_DECIMALS):
        written = units.percent(share, digits), units.percent(threshold, digits)
        if written[0] != written[1]:
            break
    return written[0], units.percent(threshold, 0 if threshold * 100 % 1 == 0 else digits)


def _slower(before: _Point, after: _Point, raw: _Raw) -> str:
    shown = raw.measure.shown
    first, then = (units.in_unit(point.median, shown) for point in (before, after))
    overlap = ""
    if None not in (before.min, before.max, after.min, after.max):
        low, high = max(before.min or 0, after.min or 0), min(before.max or 0, after.max or 0)
        overlap = ", within the spread of the repeats" if low <= high else ""
    return (
        f"It gets slower from {before.resource} to {after.resource} {axis(raw.over)}"
        f" ({first} {shown} to {then} {shown}{overlap})."
    )
