"""From verdicts to sheets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trueup_node.health.verdicts import WORST_FIRST
from trueup_node.quantity import Quantity

from .. import units
from .sheet import Column, Sheet, worded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from trueup_node.health.verdicts import Verdict

    from ..figures.health.examine import Health
    from ..figures.health.summary import Spread

# With more nodes than this, passes are not shown.
_FEW_NODES = 4
# So many nodes with equal findings have a row each; more are one row.
_FEW_ALIKE = 3
# So many names stand in a cell, and so many warnings below the failures.
_NAMES, _WARNINGS = 8, 20
SIGNS = {"at_least": "\u2265 ", "at_most": "\u2264 ", "usual": "about "}
# Base unit -> the unit that people read.
_FOR_PEOPLE = {"byte/s": "GB/s", "bit/s": "Gb/s", "flop/s": "GFLOP/s", "byte": "GiB", "KiB": "GiB"}


def health(examined: Health, *, everything: bool, only: Collection[str] = ()) -> Sheet:
    """For people: every verdict but passes, the worst first; all verdicts for a few nodes.

    Args:
        only: these verdicts alone.
    """
    counts = ", ".join(f"{count} {verdict}" for verdict, count in examined.counts.items() if count)
    title = f"Health of {units.plural(len(examined.nodes), 'node')}: {counts}"
    if only:
        return verdicts(examined.only(only), title, [f"Only {', '.join(only)} is shown."])
    if everything or len(examined.nodes) <= _FEW_NODES:
        return verdicts(examined.verdicts, title)
    bad = [item for item in examined.findings if item.verdict in ("fail", "not measured")]
    warned = _alike([item for item in examined.findings if item.verdict == "warn"])
    warned.sort(key=lambda its: max(map(off, its)), reverse=True)
    notes = ["Passes are not shown; --passes shows them."]
    if unlisted := warned[_WARNINGS:]:
        nodes = len({node for its in unlisted for item in its for node in item.nodes})
        more = f"{units.plural(len(unlisted), 'more warning')} of {units.plural(nodes, 'node')}"
        notes.append(f"{more}, less far off; --passes shows them.")
    if unjudged := examined.counts["no verdict"]:
        notes.append(f"{units.plural(unjudged, 'figure')} without a verdict; --passes says why.")
    return _sheet([*_alike(bad), *warned[:_WARNINGS]], title, notes)


def off(item: Verdict) -> float:
    """How far off the figure of healthy nodes, and of an outlier the usual one, as a share; 0 where
    there are no two figures."""
    usual = item.expected if item.comparison == "usual" else item.healthy
    return abs(item.measured / usual - 1) if item.measured is not None and usual else 0.0


def verdicts(judged: Iterable[Verdict], title: str, notes: Sequence[str] = ()) -> Sheet:
    """For people: one row for all devices of a node that have the same verdict on one figure, and
    for more than a few nodes that do, with the worst of them; sources below the table.
    """
    return _sheet(_alike(judged), title, notes)


class Finding(NamedTuple):
    """Verdicts that say the same, of however many nodes.

    Attributes:
        checks: the names of its checks; several where nothing was measured for one reason.
        nodes: the verdicts of each node, the node with the worst figure first.
        row: that of the worst figure.
        sources: of limits and of the figures of healthy nodes.
    """

    checks: Sequence[str]
    nodes: Sequence[Sequence[Verdict]]
    row: Mapping[str, Any]
    sources: Sequence[str]

    @property
    def size(self) -> str:
        """The message size that is judged."""
        value = self.row["message_bytes"]
        return "" if value is None else units.size_of(value)

    def figure(self, its: Sequence[Verdict]) -> str:
        """ "190.00 GB/s" of one node's verdicts."""
        worst = worst_of(its)
        unit = _unit(worst)
        text = _figure(worst.measured, worst.unit, unit)
        return "" if text == units.UNKNOWN else f"{text} {'' if unit == '1' else unit}".rstrip()


def limit(item: Verdict) -> tuple[str, str]:
    """The limit of a figure, and its unit; empty texts without one."""
    unit = _unit(item)
    if item.expected is None or unit is None:
        return "", ""
    text = f"{SIGNS.get(str(item.comparison), '')}{_figure(item.expected, item.unit, unit)}"
    return text, "" if unit == "1" else unit


def figure(item: Verdict) -> str:
    """The measured figure of a verdict in the unit of its limit; "" without one."""
    return "" if item.measured is None else _figure(item.measured, item.unit, _unit(item))


def of_healthy(item: Verdict) -> str:
    """ "392.82 Gb/s (66 %)": the figure of healthy nodes, and the measured share; "" without."""
    if item.healthy is None:
        return ""
    unit = _unit(item)
    share = "" if item.of_healthy is None else f" ({units.percent(item.of_healthy)})"
    return f"{_figure(item.healthy, item.unit, unit)} {'' if unit == '1' else unit}{share}"


def findings(judged: Iterable[Verdict]) -> list[Finding]:
    """Equal verdicts of all nodes, devices and cases together, in the order of the first of
    each."""
    alike: dict[tuple[Any, ...], dict[tuple[str, ...], list[Verdict]]] = {}
    key: tuple[Any, ...]
    for item in judged:
        key = (item.benchmark, item.what, item.verdict, item.reason, item.fix)
        # Beside other nodes, a node is one outlier at any number of message sizes.
        if item.comparison != "usual":
            key += (item.message_bytes, item.expected)
        alike.setdefault(key, {}).setdefault(item.nodes, []).append(item)
    joined: dict[tuple[Any, ...], list[Finding]] = {}
    for number, of_nodes in enumerate(alike.values()):
        finding = _finding(list(of_nodes.values()))
        row = finding.row
        # Checks that were not measured for one reason are one finding.
        alone = row["measured"] != units.UNKNOWN or row["verdict"] != "not measured"
        key = (number,) if alone else (row["reason"], row["fix"], frozenset(of_nodes))
        joined.setdefault(key, []).append(finding)
    return [
        each[0]._replace(checks=[name for finding in each for name in finding.checks])
        for each in joined.values()
    ]


def _finding(of_nodes: Sequence[Sequence[Verdict]]) -> Finding:
    items = [item for its in of_nodes for item in its]
    worst = worst_of(items)
    cited = [*(item.source for item in items), *(item.healthy_source for item in items)]
    sources = list(dict.fromkeys(filter(None, cited)))
    return Finding([worst.what], _worst_first(of_nodes), _shown([worst], {}), sources)


def _worst_first(of_nodes: Sequence[Sequence[Verdict]]) -> list[Sequence[Verdict]]:
    worst = [worst_of(its) for its in of_nodes]
    places = range(len(worst))
    if worst[0].measured is None:
        return list(of_nodes)
    if worst[0].comparison == "usual":
        order = sorted(places, key=lambda place: -off(worst[place]))
    else:
        sign = -1 if worst[0].comparison == "at_most" else 1
        order = sorted(places, key=lambda place: sign * (worst[place].measured or 0.0))
    return [of_nodes[place] for place in order]


def _alike(judged: Iterable[Verdict]) -> list[list[Verdict]]:
    """Verdicts that say the same, of one node or of more than a few."""
    of_node: dict[tuple[Any, ...], list[Verdict]] = {}
    for item in judged:
        of_node.setdefault((item.nodes, *_said(item)), []).append(item)
    of_all: dict[tuple[Any, ...], list[list[Verdict]]] = {}
    for its in of_node.values():
        of_all.setdefault(_said(its[0]), []).append(its)
    rows = []
    for key, its in of_node.items():
        alike = of_all[key[1:]]
        if len(alike) <= _FEW_ALIKE:
            rows.append(its)
        elif alike[0] is its:
            rows.append([item for each in alike for item in each])
    return rows


def _said(item: Verdict) -> tuple[Any, ...]:
    """The key of verdicts that say the same. Beside other nodes, a node is one outlier at any
    number of message sizes; an expectation is for one size.
    """
    common = (item.benchmark, item.what, item.verdict, item.reason)
    if item.comparison == "usual":
        return common
    return (
        *common,
        item.case,
        item.message_bytes,
        item.expected,
        item.device is None and item.metric,
    )


def _sheet(alike: Sequence[Sequence[Verdict]], title: str, notes: Sequence[str]) -> Sheet:
    items = [item for its in alike for item in its]
    cited = [*(item.source for item in items), *(item.healthy_source for item in items)]
    sources = dict.fromkeys(filter(None, cited))
    marks = {source: f"[{number}]" for number, source in enumerate(sources, 1)}
    return Sheet(
        title=title,
        columns=[
            *worded("node", "verdict", "what", "device"),
            Column("message_bytes", "at", _size),
            Column("measured", "measured"),
            Column("expected", "expected"),
            Column("healthy", "healthy"),
            *worded("unit", "fault", "source"),
            Column("reason", "why", words=True),
            Column("fix", "fix", words=True),
        ],
        rows=[_shown(its, marks) for its in alike],
        notes=[*notes, *(f"{mark} {source}." for source, mark in marks.items())],
        marks="mark",
        name="verdicts",
    )


def _size(value: Any) -> str:
    return units.UNKNOWN if value is None else units.size_of(value)


def summary(spreads: Sequence[Spread]) -> Sheet:
    """How each figure is spread over the nodes of a size."""
    figures = ("median", "mean", "p10", "p90", "least", "most")

    def row(spread: Spread) -> dict[str, Any]:
        unit = _FOR_PEOPLE.get(spread.unit, spread.unit)
        texts = {name: _figure(getattr(spread, name), spread.unit, unit) for name in figures}
        shown_columns = {f"shown_{name}": text for name, text in texts.items()}
        return {**vars(spread), "spread": spread.spread, "shown_unit": unit, **shown_columns}

    return Sheet(
        title=f"Spread of {units.plural(len(spreads), 'figure')}",
        columns=[
            *worded("vm_size", "benchmark", "case", "metric", "statistic"),
            Column("message_bytes", "at", _size),
            Column("nodes", "nodes", units.count),
            Column("n", "n", units.count),
            *(Column(f"shown_{name}", name, data=False) for name in figures),
            Column("shown_unit", "unit", words=True, data=False),
            *(Column(name, None) for name in (*figures, "unit")),
            Column("spread", "spread", lambda share: units.percent(share, 1)),
        ],
        rows=[row(spread) for spread in spreads],
        notes=["Spread: from p10 to p90, as a share of the median."],
        facts={"kind": "health summary"},
        name="summary",
    )


def data(examined: Health, only: Collection[str]) -> Sheet:
    """For programs, in base units: the findings with some verdicts; the facts count all.

    Args:
        only: these verdicts; none for every verdict but passes.
    """
    columns = [
        *("node", "vm_size", "verdict", "benchmark", "case", "what", "metric", "device"),
        *("message_bytes", "measured", "comparison", "expected", "healthy", "of_healthy", "unit"),
        *("fault", "reason", "fix", "source", "date", "healthy_source", "run_id", "measured_at"),
    ]
    return Sheet(
        title=f"Health of {units.plural(len(examined.nodes), 'node')}",
        columns=[Column(name, name) for name in columns],
        rows=[
            {**vars(item), "node": "+".join(item.nodes), "of_healthy": item.of_healthy}
            for item in (examined.only(only) if only else examined.findings)
        ],
        facts={
            "kind": "health",
            "counts": {verdict: examined.counts[verdict] for verdict in WORST_FIRST},
            "nodes": dict(examined.words),
            "judged": len(examined.nodes) - len(examined.unjudged),
            "sentence": examined.sentence,
        },
        name="verdicts",
    )


def _shown(its: Sequence[Verdict], marks: Mapping[str, str]) -> dict[str, Any]:
    worst = worst_of(its)
    unit = _unit(worst)
    sign = SIGNS.get(str(worst.comparison), "")
    reason = worst.reason
    if worst.comparison == "usual" and worst.verdict == "warn":
        reason = f"{off(worst):.0%} {reason}"
    if len(its) > 1 and worst.measured is not None:
        reason = f"{reason}; the" if reason else "the"
        reason += f" worst of {len(its):,}"
    return {
        "node": _names(["+".join(item.nodes) for item in its], "+".join(worst.nodes)),
        "verdict": worst.verdict,
        "what": worst.what,
        "device": _names([item.device for item in its if item.device], str(worst.device), few=1),
        "message_bytes": worst.message_bytes,
        "measured": _figure(worst.measured, worst.unit, unit),
        "expected": None
        if worst.expected is None
        else sign + _figure(worst.expected, worst.unit, unit),
        "healthy": _healthy(worst, unit, marks),
        "unit": "" if unit == "1" else unit,
        "fault": worst.fault,
        "source": marks.get(worst.source or ""),
        "reason": reason,
        "fix": worst.fix,
        "mark": "bad" if worst.verdict in ("fail", "not measured") else "",
    }


def _unit(item: Verdict) -> str | None:
    """The unit of a verdict's figures for people: the one of its source."""
    return _FOR_PEOPLE.get(item.source_unit or "", item.source_unit) or _FOR_PEOPLE.get(
        item.unit or "", item.unit
    )


def _healthy(item: Verdict, unit: str | None, marks: Mapping[str, str]) -> str | None:
    """The figure that healthy nodes reach, the measured share of it, and the mark of its source."""
    if item.healthy is None:
        return None
    share = "" if item.of_healthy is None else f": {units.percent(item.of_healthy)}"
    mark = marks.get(item.healthy_source or "", "")
    return f"{_figure(item.healthy, item.unit, unit)}{share} {mark}".rstrip()


def worst_of(its: Sequence[Verdict]) -> Verdict:
    """Of verdicts that say the same, that with the worst figure."""
    first = its[0]
    if first.measured is None or first.comparison == "usual":
        return max(its, key=off)
    pick = max if first.comparison == "at_most" else min
    return pick(its, key=lambda item: item.measured or 0.0)


def _names(names: Sequence[str], first: str, few: int = _NAMES) -> str | None:
    """Some of the names, that of the worst first, and how many more there are."""
    each = list(dict.fromkeys([first, *names])) if names else []
    if not each:
        return None
    more = f" and {len(each) - few:,} more" if len(each) > few else ""
    return ", ".join(each[:few]) + more


def _figure(value: float | None, base: str | None, unit: str | None) -> str:
    if value is None or base is None or unit is None:
        return units.UNKNOWN
    if unit == "1":
        return f"{value:g}"
    # A record may hold a unit that no expectation knows.
    number = value if unit == base else Quantity(value, base).to(unit).value
    return units.measure(number)
