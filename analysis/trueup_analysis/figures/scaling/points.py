"""Which records may be compared: each with its figure, its resources and its work."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd
from trueup.cases import TYPICAL
from trueup.errors import BadInput

from ... import units
from ...cases import read_cases
from ...frames import figures
from ..views import at_headline, headline
from ..work import HOW, work_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trueup.cases import Case
    from trueup.health.expectations import Expectations
    from trueup.view import Measure, View

    from ...load import Loaded

_NOT_USED = (None, "", "none", "off", "local", "torchrun", False)
# A parameter that takes more values than this, or a longer one, is a finding of each run (the name
# of a peer, a checksum), not a setting.
_MOST_SETTINGS, _LONGEST_SETTING = 6, 40
_HEADLINE = ["headline", "median", "min", "max", "n", "message_bytes", "judged_bytes"]


def host_family(vm_size: str) -> str:
    """A size without its constrained core count: the five HBv3 sizes are one host
    (``Standard_HB120-16rs_v3``)."""
    return re.sub(r"(?<=\d)-\d+(?=[a-z])", "", vm_size)


def points(
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
        why = f"none has outcome ok ({outcomes(of_it)}); `trueup list` has the reasons"
        if of_it.empty:
            held = ", ".join(sorted(set(cases["benchmark"])))
            why = f"it is not among {units.plural(len(cases), 'record')} (of {held})"
        raise BadInput(f"there is no scaling of {benchmark}: {why}")
    require(chosen, "node_count")
    if view.resource == "cores":
        require(chosen, "cores")
    judged, at_sizes = headlines(loaded, chosen, view, expectations)
    judged = judged[judged["median"] > 0]
    if judged.empty:
        wanted = " or ".join(f"{one.label} ({one.metric})" for one in view.headlines)
        names = loaded.metrics.loc[loaded.metrics["record"].isin(chosen["record"]), "name"]
        held = ", ".join(sorted(set(names))) or "no figure"
        raise BadInput(
            f"{units.plural(len(chosen), f'{benchmark} record')} with outcome ok, but none has"
            f" {wanted} above 0, so there is no scaling; they have {held}"
        )
    beside = ("flop_rate", "point_rate", "roofline_fraction", "halo_share", "published_speedup")
    wide = figures(loaded, [(name, None) for name in beside]).drop(
        columns=[f"{name}:n" for name in beside]
    )
    out = chosen.merge(judged, left_on="record", right_index=True, validate="one_to_one")
    out = out.merge(wide, left_on="record", right_index=True, how="left", validate="one_to_one")
    out["weak"], out["points_each"] = _amounts(out, view)
    out["work_key"] = _work_keys(out, benchmark, view, across_sizes=across_sizes)
    if at_sizes:
        out = _at_common_sizes(out, view, at_sizes)
    lower = out["headline"].map(lambda place: view.headlines[place].direction == "lower")
    out["work"] = (out["flop_rate"] * out["median"]).where(lower)
    out["layout"] = _layouts(out)
    out["variant"] = _variants(out, view)
    return out


def outcomes(cases: pd.DataFrame) -> str:
    """How often which: "3 failed, 1 invalid"."""
    counts = cases["outcome"].value_counts()
    return ", ".join(f"{counts[name]:,} {name}" for name in sorted(counts.index[counts > 0]))


def require(cases: pd.DataFrame, name: str) -> None:
    """Refuse records that do not say what they are compared by."""
    if cases[name].isna().any():
        row = cases[cases[name].isna()].iloc[0]
        what = "GPUs" if name == "gpus" else name.replace("_", " ")
        raise BadInput(f"case {row['case']} ({row['source']}) does not say its {what}")


def _amounts(cases: pd.DataFrame, view: View) -> tuple[list[bool], list[float]]:
    """Whether each record's work grows with its resources, and how much of it each core has."""
    weak, each = [], []
    known: dict[int, tuple[bool, float, int | None, Any]] = {}
    counts = (cases[name].astype(float).to_list() for name in ("ranks", "cores"))
    for parameters, ranks, cores in zip(cases["parameters"], *counts, strict=True):
        found = known.get(id(parameters))
        if found is None:
            points = _number(parameters.get(view.amount))
            micro, batch = (parameters.get(name) for name in view.batch or ("", ""))
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


def headlines(
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
    out = pd.DataFrame({"median": one["value"], "n": one["n"].astype(float)}, index=one.index)
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
    changed: dict[int, dict[str, float]] = {}
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
            best = next((one for one in wanted if one in held), size)
            if best != size and (again := _at_size(case, measure, int(best))):
                changed[record] = again
    for record, values in changed.items():
        out.loc[out["record"] == record, list(values)] = list(values.values())
    sizes = ["" if pd.isna(size) else f" at {int(size)} bytes" for size in out["message_bytes"]]
    out["work_key"] = out["work_key"] + sizes
    return out


def _at_size(case: Case, measure: Measure, size: int) -> dict[str, float]:
    """The headline columns of a case at one of its message sizes; NaN where it lacks them."""
    rows = [row for row in case.of(measure.metric) if row.message_bytes == size]
    shown = at_headline(replace(case, figures=rows), measure)
    if shown is None:
        return {}
    found = (shown.value, shown.low, shown.high, shown.n, size, None)
    return {
        name: math.nan if value is None else float(value)
        for name, value in zip(_HEADLINE[1:], found, strict=True)
    }


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
    known = HOW.union(view.grows, view.spread, view.apart)
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
            how = HOW.union(view.spread, view.grows if weak else ())
            if apart:
                how |= set(parameters) - apart - set(view.grows)
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
