"""Which records may be compared: each with its figure, its resources and its work."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
from trueup_node.errors import BadInput

from ... import units
from ...cases import read_cases
from ...packed import alike, decoded
from ...rooms import at_headline, headline, views
from ..frames import HOW, first, measured, of_kinds, of_whole_case, work_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_node.cases import Case
    from trueup_node.health.expectations import Expectations
    from trueup_node.view import View

    from ...load import Loaded
    from ...rooms import Headline

_NOT_USED = (None, "", "none", "off", "local", "torchrun", False)
# A parameter that takes more values than this, or a longer one, is a finding of each run (the name
# of a peer, a checksum), not a setting.
_MOST_SETTINGS, _LONGEST_SETTING = 6, 40
# Figures that stand beside the one that is judged.
BESIDE: Final = (
    *("flop_rate", "point_rate", "roofline_fraction", "halo_share", "published_speedup"),
)


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
    """The records with outcome ok that may be compared: their columns, and

    - those of ``headlines``;
    - the figures of ``BESIDE`` by name, and work (flop); NaN where it holds none;
    - weak: whether its work grows with its resources. points_each: how much of it each core has,
      NaN where that is not known;
    - same_work: equal numbers for records that may be compared, from 0 on in the order of
      appearance;
    - layout: how it used its cores. variant: settings that others of the same work have otherwise.

    Raises:
        BadInput: there is none.
    """
    of_it = records_of(loaded, benchmark)
    chosen = of_it[of_it["outcome"] == "ok"]
    if chosen.empty:
        reason = f"none has outcome ok ({outcomes(of_it)}); `trueup list` has the reasons"
        if of_it.empty:
            held = sorted(loaded.records["benchmark"].unique())
            several = units.plural(len(loaded.records), "record")
            reason = f"it is not among {several} (of {', '.join(held)})"
        raise BadInput(f"there is no scaling of {benchmark}: {reason}")
    chosen = chosen[_counted(chosen, view, refuse=True)]
    judged, at_sizes = headlines(loaded, chosen.index, view, expectations)
    is_judged = judged["median"] > 0
    if not is_judged.any():
        labels = " or ".join(f"{measure.label} ({measure.metric})" for measure in view.headlines)
        figures = loaded.figures[loaded.figures["record"].isin(chosen.index)]
        held = sorted(figures["name"].unique())
        raise BadInput(
            f"{units.plural(len(chosen), f'{benchmark} record')} with outcome ok, but none has"
            f" {labels} above 0, so there is no scaling; they have {', '.join(held) or 'no figure'}"
        )
    frame = chosen.join(judged, validate="one_to_one")[is_judged]
    frame = frame.assign(**{name: of_whole_case(loaded.figures, metric=name) for name in BESIDE})
    frame = _with_amounts(frame, view)
    frame = frame.assign(same_work=_works(frame, benchmark, view, across_sizes=across_sizes))
    if at_sizes:
        frame = _at_common_sizes(frame, view, at_sizes)
        frame = frame.assign(same_work=alike(frame, ["same_work", "message_bytes"]))
    lower = [
        position for position, measure in enumerate(view.headlines) if measure.direction == "lower"
    ]
    done = (frame["flop_rate"] * frame["median"]).where(frame["position"].isin(lower))
    return frame.assign(work=done, layout=_layouts(frame), variant=_variants(frame, view))


def _counted(records: pd.DataFrame, view: View, *, refuse: bool = False) -> pd.Series:
    """Which records say on how many nodes they ran, and on how many cores where these scale.

    Raises:
        BadInput: with ``refuse``, none does.
    """
    needed = ["node_count", *(["cores"] if view.resource == "cores" else [])]
    counted = records[needed].notna().all(axis="columns")
    if refuse and not counted.any():
        for name in needed:
            require(records, name)
    return counted


def uncounted(loaded: Loaded) -> list[str]:
    """Records that no table holds, because they do not say their number of nodes or cores; a
    sentence for each benchmark."""
    sentences = []
    for name, view in views().items():
        records = records_of(loaded, name)
        ok = records[records["outcome"] == "ok"]
        if view.scales and len(ok):
            lacking = ok[~_counted(ok, view)]
            needed = "nodes" if view.resource == "gpus" else "nodes, ranks or threads"
            if len(lacking):
                sentences.append(
                    f"left out, {units.plural(len(lacking), f'{name} record')} without a number of"
                    f" {needed} (first: {first(lacking, 'source')})"
                )
    return sentences


def records_of(loaded: Loaded, benchmark: str) -> pd.DataFrame:
    """The records of a benchmark."""
    return loaded.records[loaded.records["benchmark"] == benchmark]


def outcomes(records: pd.DataFrame) -> str:
    """How often which: "3 failed, 1 invalid"."""
    counts = records["outcome"].value_counts(sort=False).sort_index()
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def require(records: pd.DataFrame, name: str) -> None:
    """Refuse records without the count that they are compared by."""
    lacking = records[records[name].isna()]
    if len(lacking):
        quantity = "GPUs" if name == "gpus" else name.replace("_", " ")
        raise BadInput(
            f"case {first(lacking, 'case')} ({first(lacking, 'source')}) does not say its"
            f" {quantity}"
        )


def _with_amounts(frame: pd.DataFrame, view: View) -> pd.DataFrame:
    """Whether each record's work grows with its resources, and how much of it each core has."""
    micro, batch = view.batch or ("", "")

    def is_each(parameters: Mapping[str, Any], ranks: int | None) -> bool:
        """Whether it is a training run whose whole batch is that of each process times these."""
        of_each = parameters.get(micro)
        return (
            isinstance(of_each, int)
            and ranks is not None
            and parameters.get(batch) == of_each * ranks
        )

    by_process = of_kinds(frame, ["parameters", "ranks"], is_each, kind="bool")
    says_weak = of_kinds(
        frame, ["parameters"], lambda parameters: parameters.get("scaling") == "weak", kind="bool"
    )
    amount = of_kinds(
        frame, ["parameters"], lambda parameters: _number(parameters.get(view.amount)), kind="float"
    )
    each = amount / frame["cores"].astype("float64")
    return frame.assign(weak=by_process | says_weak, points_each=each.mask(by_process, 1.0))


def headlines(
    loaded: Loaded, records: pd.Index, view: View, expectations: Expectations | None
) -> tuple[pd.DataFrame, dict[int, Case]]:
    """The figure that stands for each record, and by their numbers the cases that were measured of
    devices or at message sizes.

    Columns: position (among the view's headlines), median, low, high, n (repeats, 0 where the
    record does not say), message_bytes, judged_bytes (the judged size that was not reached). They
    are missing where it holds none, or does not say.
    """
    parts = []
    placed = records[:0]
    rest = records
    for position, measure in enumerate(view.headlines):
        held = measured(loaded.figures, measure=measure, records=records)
        placed = placed.union(held.index[held["placed"]])
        held = held.loc[rest].dropna(subset="value").rename(columns={"value": "median"})
        parts.append(held[["median", "low", "high", "n"]].assign(position=position))
        rest = rest.difference(held.index)
    judged = pd.concat(parts).drop(placed, errors="ignore")
    cases = read_cases(
        loaded,
        records=placed.tolist(),
        metrics={measure.metric for measure in view.headlines},
    )
    at_sizes = {}
    rows = {}
    for case in cases:
        figure = headline(case, expectations)
        if figure is not None:
            rows[case.record] = _row(view.headlines.index(figure.measure), figure)
            at_sizes[case.record] = case
    judged = pd.concat([judged, pd.DataFrame.from_dict(rows, "index")]).reindex(records)
    return judged.reindex(columns=list(_JUDGED)).astype(_JUDGED), at_sizes


_JUDGED: Final = {
    "position": "Int64",
    **dict.fromkeys(("median", "low", "high"), "float64"),
    **dict.fromkeys(("n", "message_bytes", "judged_bytes"), "Int64"),
}


def _row(position: int, figure: Headline) -> dict[str, Any]:
    """The columns of ``headlines`` of one figure."""
    return {
        "position": position,
        "median": figure.value,
        "low": figure.low,
        "high": figure.high,
        "n": figure.n or 0,
        "message_bytes": figure.message_bytes,
        "judged_bytes": figure.judged_bytes,
    }


def _at_common_sizes(frame: pd.DataFrame, view: View, cases: Mapping[int, Case]) -> pd.DataFrame:
    """Records of the same work at the largest size that is judged and that they hold, so that
    an expectation of one node at another size does not part them; the size is part of the work.
    """
    rows: dict[int, dict[str, Any]] = {}
    for _, same in frame.dropna(subset="message_bytes").groupby("same_work"):
        rows |= _at_common_size(same, view, cases)
    if not rows:
        return frame
    moved = pd.DataFrame.from_dict(rows, "index").astype(_JUDGED)
    is_moved = frame.index.isin(moved.index)
    columns = {
        name: frame[name].mask(is_moved, moved[name].reindex(frame.index)) for name in _JUDGED
    }
    return frame.assign(**columns)


def _at_common_size(
    same: pd.DataFrame, view: View, cases: Mapping[int, Case]
) -> dict[int, dict[str, Any]]:
    """The columns of ``headlines`` of the records of one work that count at another size."""
    # A record that never reached its size says nothing about which one counts.
    reached = same.loc[same["judged_bytes"].isna(), "message_bytes"]
    judged_sizes = sorted(reached.unique(), reverse=True)
    rows = {}
    facts = zip(same.index, same["position"], same["message_bytes"], strict=True)
    for record, position, size in facts if len(judged_sizes) > 1 else ():
        measure = view.headlines[position]
        figures = cases[record].of(measure.metric)
        held = {figure.message_bytes for figure in figures}
        best = next((judged for judged in judged_sizes if judged in held), None)
        if best not in {None, size}:
            at_size = [figure for figure in figures if figure.message_bytes == best]
            again = at_headline(replace(cases[record], figures=at_size), measure)
            if again is not None:
                rows[record] = _row(position, again._replace(judged_bytes=None))
    return rows


def _number(value: Any) -> float:
    """A parameter that counts something; NaN where a record says something else there."""
    number = units.number(value)
    return float("nan") if number is None or number <= 0 else number


def _layouts(frame: pd.DataFrame) -> pd.Series:
    """How each record used its cores: "2x4 l3 basic" is 2 ranks of 4 threads bound to L3 groups."""
    tuned = of_kinds(frame, ["parameters"], lambda each: repr(each.get("autotune")))
    several = tuned.groupby(frame["same_work"]).transform("nunique") > 1

    def layout(
        parameters: Mapping[str, Any], ranks: int | None, threads: int | None, tunings: bool
    ) -> str:
        used = [parameters.get(name) for name in ("binding", "mpi", "launcher")]
        words = [] if ranks is None or threads is None else [f"{ranks}x{threads}"]
        words += [str(value) for value in used if value not in _NOT_USED]
        words += [f"tune={parameters.get('autotune')}"] if tunings else []
        return " ".join(words)

    columns = ["parameters", "ranks", "threads_per_rank", "several"]
    return of_kinds(frame.assign(several=several), columns, layout)


def _variants(frame: pd.DataFrame, view: View) -> pd.Series:
    """The settings of each record that others of the same work have otherwise: "transport=ib". They
    are not pooled.
    """
    excluded = HOW.union(view.grows, view.spread, view.apart)
    nodes = {name for names in frame["nodes"].unique() for name in names.split("+")}
    kinds = frame[["same_work", "parameters"]].drop_duplicates()
    varying = {
        work: _varying(list(map(decoded, texts)), excluded, nodes | {units.UNKNOWN})
        for work, texts in kinds.groupby("same_work")["parameters"]
    }

    def variant(work: int, parameters: Mapping[str, Any]) -> str:
        return "; ".join(f"{name}={units.text(parameters.get(name))}" for name in varying[work])

    return of_kinds(frame, ["same_work", "parameters"], variant)


def _varying(
    kinds: Sequence[Mapping[str, Any]], excluded: frozenset[str], nodes: set[str]
) -> list[str]:
    """The settings in which records of the same work differ; not names of ``nodes``."""
    settings = []
    for name in sorted({name for parameters in kinds for name in parameters}.difference(excluded)):
        values = {units.text(parameters.get(name)) for parameters in kinds}
        if 1 < len(values) <= _MOST_SETTINGS and not values <= nodes:
            settings += [name] if max(map(len, values)) <= _LONGEST_SETTING else []
    return settings


def _works(frame: pd.DataFrame, benchmark: str, view: View, *, across_sizes: bool) -> pd.Series:
    """Equal numbers for records that may be compared: same work, machine, tool version and origin,
    judged by the same figure."""
    apart = set(view.apart)

    def work(
        parameters: Mapping[str, Any],
        software: Mapping[str, str],
        system: Mapping[str, Any],
        vm_size: str | None,
        nodes: str | None,
        weak: bool,
    ) -> str:
        how = HOW.union(view.spread, view.grows if weak else ())
        if apart:
            how |= set(parameters) - apart - set(view.grows)
        if "configuration" in parameters:
            # A publication's table keeps its own comparison, also over constrained sizes.
            machine = ""
        elif vm_size is None:
            machine = str(system.get("cpu_model") or str(nodes).partition("+")[0])
        else:
            machine = host_family(vm_size) if across_sizes else vm_size
        return repr((machine, software.get(benchmark, ""), work_of(parameters, how)))

    # Off Azure the size says nothing.
    machines = frame.assign(nodes=frame["nodes"].where(frame["vm_size"].isna()))
    columns = ["parameters", "software", "system", "vm_size", "nodes", "weak"]
    works = frame[["provenance", "position"]].assign(work=of_kinds(machines, columns, work))
    return alike(works, ["provenance", "position", "work"])
