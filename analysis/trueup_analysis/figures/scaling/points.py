"""Which records may be compared: each with its figure, its resources and its work."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from trueup.errors import BadInput

from ... import units
from ...cases import read_cases
from ...columns import numbered
from ..coded import ByRecord, Coded, all_of, by_number, first_of_each, words_of
from ..views import at_headline, headline, views
from ..work import HOW, work_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from trueup.cases import Case
    from trueup.health.expectations import Expectations
    from trueup.view import View

    from ...columns import Words
    from ...load import Loaded
    from ..coded import Counts, Numbers
    from ..views import Headline

_NOT_USED = (None, "", "none", "off", "local", "torchrun", False)
# A parameter that takes more values than this, or a longer one, is a finding of each run (the name
# of a peer, a checksum), not a setting.
_MOST_SETTINGS, _LONGEST_SETTING = 6, 40
# Figures that stand beside the one that is judged.
BESIDE: Final = (
    *("flop_rate", "point_rate", "roofline_fraction", "halo_share", "published_speedup"),
)


_Held = TypeVar("_Held", "Judged", "Points")


@dataclass(frozen=True)
class Judged:
    """The figure that stands for each record; NaN where it holds none, or does not say.

    Attributes:
        place: among the view's headlines; -1 where it holds none.
        n: repeats, 0 where the record does not say.
        message_bytes: at which size. judged_bytes: the judged size that was not reached. -1: none.
    """

    place: Counts
    median: Numbers
    low: Numbers
    high: Numbers
    n: Counts
    message_bytes: Counts
    judged_bytes: Counts

    @classmethod
    def nothing(cls, records: int) -> Judged:
        """Of records that hold none."""
        numbers = (np.full(records, math.nan) for _ in range(3))
        return cls(
            np.full(records, -1), *numbers, *(np.full(records, default) for default in (0, -1, -1))
        )

    def put(self, row: int, position: int, figure: Headline) -> None:
        """Set the figure of one record."""
        self.place[row], self.median[row] = position, figure.value
        self.low[row] = math.nan if figure.low is None else figure.low
        self.high[row] = math.nan if figure.high is None else figure.high
        self.n[row] = figure.n or 0
        self.message_bytes[row] = -1 if figure.message_bytes is None else figure.message_bytes
        self.judged_bytes[row] = -1 if figure.judged_bytes is None else figure.judged_bytes

    def taken(self, rows: Any) -> Judged:
        """That of some records."""
        return _taken(self, rows)


@dataclass(frozen=True)
class Points:
    """Records that may be compared.

    Attributes:
        beside: the figures of ``BESIDE`` by name, and "work" (flop); NaN where it holds none.
        weak: whether its work grows with its resources. points_each: how much of it each core has,
            NaN where that is not known.
        work: equal numbers for records that may be compared, from 0 on in the order of appearance.
        layout: how it used its cores. variant: settings that others of the same work have
            otherwise.
    """

    records: Coded
    judged: Judged
    beside: Mapping[str, Numbers]
    weak: NDArray[np.bool_]
    points_each: Numbers
    work: Counts
    layout: Words
    variant: Words

    def __len__(self) -> int:
        return len(self.work)

    def taken(self, rows: Any) -> Points:
        """The records at some places, or where a mask is true."""
        return _taken(self, rows)


def _taken(held: _Held, rows: Any) -> _Held:
    """The same with some rows of each column."""

    def of(column: Any) -> Any:
        if isinstance(column, dict):
            return {name: values[rows] for name, values in column.items()}
        return column[rows] if isinstance(column, np.ndarray) else column.taken(rows)

    return replace(held, **{field.name: of(getattr(held, field.name)) for field in fields(held)})


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
) -> Points:
    """The records with outcome ok: their resources, their figures, and the records that they may
    be compared with."""
    of_it = records_of(loaded, benchmark)
    chosen = of_it.taken(of_it.words("outcome").marks(["ok"]))
    if not len(chosen):
        reason = f"none has outcome ok ({outcomes(of_it)}); `trueup list` has the reasons"
        if not len(of_it):
            every = all_of(loaded)
            held = every.words("benchmark").held()
            reason = f"it is not among {units.plural(len(every), 'record')} (of {', '.join(held)})"
        raise BadInput(f"there is no scaling of {benchmark}: {reason}")
    chosen = chosen.taken(_counted(chosen, view, refuse=True))
    judged, at_sizes = headlines(chosen, view, expectations)
    counts = judged.median > 0
    if not counts.any():
        labels = " or ".join(f"{measure.label} ({measure.metric})" for measure in view.headlines)
        names = loaded.figures.name
        held = names.taken(np.isin(loaded.figures.owners, chosen.records)).held()
        raise BadInput(
            f"{units.plural(len(chosen), f'{benchmark} record')} with outcome ok, but none has"
            f" {labels} above 0, so there is no scaling; they have {', '.join(held) or 'no figure'}"
        )
    chosen, judged = chosen.taken(counts), judged.taken(counts)
    figures = ByRecord(loaded)
    beside = {name: figures.median(name)[chosen.records] for name in BESIDE}
    weak, points_each = _amounts(chosen, view)
    work = _works(chosen, judged.place, weak, benchmark, view, across_sizes=across_sizes)
    if at_sizes:
        _to_common_sizes(judged, work, chosen.records, view, at_sizes)
        work = first_of_each([work, numbered(judged.message_bytes)])[1]
    lower = [
        position for position, measure in enumerate(view.headlines) if measure.direction == "lower"
    ]
    done = beside["flop_rate"] * judged.median
    return Points(
        chosen,
        judged,
        {**beside, "work": np.where(np.isin(judged.place, lower), done, math.nan)},
        weak,
        points_each,
        work,
        _layouts(chosen, work),
        _variants(chosen, work, view),
    )


def _counted(records: Coded, view: View, *, refuse: bool = False) -> NDArray[np.bool_]:
    """Which records say on how many nodes they ran, and on how many cores where these scale.

    Raises:
        BadInput: with ``refuse``, none does.
    """
    needed = ("node_count", *(["cores"] if view.resource == "cores" else []))
    counted = np.all([records.count(name) >= 0 for name in needed], axis=0)
    if refuse and not counted.any():
        for name in needed:
            require(records, name)
    is_counted: NDArray[np.bool_] = counted
    return is_counted


def uncounted(loaded: Loaded) -> list[str]:
    """Records that no table holds, because they do not say their number of nodes or cores; a
    sentence for each benchmark."""
    sentences = []
    for name, view in views().items():
        records = records_of(loaded, name)
        ok = records.taken(records.words("outcome").marks(["ok"]))
        if view.scales and len(ok):
            lacking = ok.taken(~_counted(ok, view))
            needed = "nodes" if view.resource == "gpus" else "nodes, ranks or threads"
            if len(lacking):
                sentences.append(
                    f"left out, {units.plural(len(lacking), f'{name} record')} without a number of"
                    f" {needed} (first: {lacking.first('source')})"
                )
    return sentences


def records_of(loaded: Loaded, benchmark: str) -> Coded:
    """The records of a benchmark."""
    return Coded(loaded, np.flatnonzero(loaded.words("benchmark").marks([benchmark])))


def outcomes(records: Coded) -> str:
    """How often which: "3 failed, 1 invalid"."""
    column = records.words("outcome")
    counts = Counter(column.codes.tolist())
    names = sorted((column.words[code], count) for code, count in counts.items())
    return ", ".join(f"{count:,} {name}" for name, count in names)


def require(records: Coded, name: str) -> None:
    """Refuse records without the count that they are compared by."""
    missing = records.count(name) < 0
    if missing.any():
        lacking = records.taken(missing)
        quantity = "GPUs" if name == "gpus" else name.replace("_", " ")
        raise BadInput(
            f"case {lacking.first('case')} ({lacking.first('source')}) does not say its {quantity}"
        )


def _amounts(records: Coded, view: View) -> tuple[NDArray[np.bool_], Numbers]:
    """Whether each record's work grows with its resources, and how much of it each core has."""
    codes, ranks = records.words("parameters").codes, records.count("ranks")
    first, kind = first_of_each([codes, ranks])
    by_code = records.mappings("parameters")
    weak, by_process, amount = [], [], []
    for code, processes in zip(codes[first].tolist(), ranks[first].tolist(), strict=True):
        parameters = by_code[code]
        micro, batch = (parameters.get(name) for name in view.batch or ("", ""))
        # A training run whose whole batch is that of each process times the processes.
        is_each = isinstance(micro, int) and processes >= 0 and batch == micro * processes
        by_process.append(is_each)
        weak.append(is_each or parameters.get("scaling") == "weak")
        amount.append(_number(parameters.get(view.amount)))
    each = np.array(amount)[kind] / records.number("cores")
    return np.array(weak)[kind], np.where(np.array(by_process)[kind], 1.0, each)


def headlines(
    records: Coded, view: View, expectations: Expectations | None
) -> tuple[Judged, dict[int, Case]]:
    """The figure that stands for each record, and by their numbers the cases that were measured of
    devices or at message sizes."""
    figures = ByRecord(records.loaded)
    every = [figures.held(measure).of(records.records) for measure in view.headlines]
    judged = Judged.nothing(len(records))
    placed = np.zeros(len(records), np.bool_)
    for position, held in enumerate(every):
        placed |= held.placed
        rows = (judged.place < 0) & ~np.isnan(held.value)
        judged.place[rows] = position
        for ours, theirs in (
            *((judged.median, held.value), (judged.low, held.low), (judged.high, held.high)),
            (judged.n, held.n),
        ):
            ours[rows] = theirs[rows]
    if not placed.any():
        return judged, {}
    of_cases = np.flatnonzero(placed)
    cases = read_cases(
        records.loaded,
        records=records.records[of_cases].tolist(),
        metrics={measure.metric for measure in view.headlines},
    )
    at_sizes = {}
    for row, case in zip(of_cases.tolist(), cases, strict=True):
        figure = headline(case, expectations)
        judged.place[row], judged.median[row] = -1, math.nan
        if figure is not None:
            judged.put(row, view.headlines.index(figure.measure), figure)
            at_sizes[case.record] = case
    return judged, at_sizes


def _to_common_sizes(
    judged: Judged, work: Counts, records: Counts, view: View, cases: Mapping[int, Case]
) -> None:
    """Take records of the same work at the largest size that is judged and that they hold, so that
    an expectation of one node at another size does not part them; the size is part of the work.
    """
    for same in by_number(work):
        group = same[judged.message_bytes[same] >= 0]
        # A record that never reached its size says nothing about which one counts.
        reached = judged.message_bytes[group[judged.judged_bytes[group] < 0]]
        judged_sizes = sorted(set(reached.tolist()), reverse=True)
        if len(judged_sizes) < 2:
            continue
        for row in group.tolist():
            case, position = cases[int(records[row])], int(judged.place[row])
            measure = view.headlines[position]
            held = {figure.message_bytes for figure in case.of(measure.metric)}
            best = next((size for size in judged_sizes if size in held), None)
            if best not in {None, int(judged.message_bytes[row])}:
                at_size = [
                    figure for figure in case.of(measure.metric) if figure.message_bytes == best
                ]
                again = at_headline(replace(case, figures=at_size), measure)
                if again is not None:
                    judged.put(row, position, again._replace(judged_bytes=None))


def _number(value: Any) -> float:
    """A parameter that counts something; NaN where a record says something else there."""
    number = units.number(value)
    return float("nan") if number is None or number <= 0 else number


def _layouts(records: Coded, work: Counts) -> Words:
    """How each record used its cores: "2x4 l3 basic" is 2 ranks of 4 threads bound to L3 groups."""
    by_code = records.mappings("parameters")
    tuned = {code: parameters.get("autotune") for code, parameters in by_code.items()}
    codes = records.words("parameters").codes
    columns = (work, codes, records.count("ranks"), records.count("threads_per_rank"))
    first, number = first_of_each(columns)
    kinds = list(zip(*(column[first].tolist() for column in columns), strict=True))
    tunings: dict[int, set[Any]] = {}
    for of, code, *_ in kinds:
        tunings.setdefault(of, set()).add(tuned[code])
    labels = []
    for of, code, ranks, threads in kinds:
        used = [by_code[code].get(name) for name in ("binding", "mpi", "launcher")]
        words = [f"{ranks}x{threads}"] if ranks >= 0 and threads >= 0 else []
        words += [str(value) for value in used if value not in _NOT_USED]
        if len(tunings[of]) > 1:
            words.append(f"tune={tuned[code]}")
        labels.append(" ".join(words))
    return words_of(labels, number)


def _variants(records: Coded, work: Counts, view: View) -> Words:
    """The settings of each record that others of the same work have otherwise: "transport=ib". They
    are not pooled.
    """
    excluded = HOW.union(view.grows, view.spread, view.apart)
    nodes = records.words("nodes")
    names = {name for node_names in nodes.held() for name in node_names.split("+")} | {
        units.UNKNOWN
    }
    by_code = records.mappings("parameters")
    codes = records.words("parameters").codes
    first, number = first_of_each([work, codes])
    pairs = list(zip(work[first].tolist(), codes[first].tolist(), strict=True))
    kinds: dict[int, list[Mapping[str, Any]]] = {}
    for of, code in pairs:
        kinds.setdefault(of, []).append(by_code[code])
    varying = {of: _varying(mappings, excluded, names) for of, mappings in kinds.items()}
    texts = [
        "; ".join(f"{name}={units.text(by_code[code].get(name))}" for name in varying[of])
        for of, code in pairs
    ]
    return words_of(texts, number)


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


def _works(
    records: Coded,
    positions: Counts,
    weak: NDArray[np.bool_],
    benchmark: str,
    view: View,
    *,
    across_sizes: bool,
) -> Counts:
    """Equal numbers for records that may be compared: same work, machine, tool version and origin,
    judged by the same figure."""
    parameter_sets, softwares, systems = map(records.mappings, ("parameters", "software", "system"))
    size, nodes = records.words("vm_size"), records.words("nodes")
    provenance = records.words("provenance")
    codes = [records.words(name).codes for name in ("parameters", "software", "system")]
    machine_codes = [size.codes, np.where(size.codes < 0, nodes.codes, -1)]
    first, number = first_of_each(
        [*codes, *machine_codes, provenance.codes, weak.astype(np.int64), positions]
    )
    apart = set(view.apart)
    texts = []
    for row in first.tolist():
        parameters, software, system = (
            of[int(column[row])]
            for of, column in zip((parameter_sets, softwares, systems), codes, strict=True)
        )
        how = HOW.union(view.spread, view.grows if weak[row] else ())
        if apart:
            how |= set(parameters) - apart - set(view.grows)
        if "configuration" in parameters:
            # A publication's table keeps its own comparison, also over constrained sizes.
            machine = ""
        elif size.codes[row] < 0:
            machine = str(system.get("cpu_model") or nodes.words[nodes.codes[row]].split("+")[0])
        else:
            vm_size = size.words[size.codes[row]]
            machine = host_family(vm_size) if across_sizes else vm_size
        work = (machine, software.get(benchmark, ""), work_of(parameters, how))
        texts.append((int(provenance.codes[row]), int(positions[row]), *work))
    work_numbers = {text: work for work, text in enumerate(dict.fromkeys(texts))}
    return np.array([work_numbers[text] for text in texts], np.int64)[number]
