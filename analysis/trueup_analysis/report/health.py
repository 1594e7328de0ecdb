"""The report's first section: how many nodes pass, which do not, the reasons and the fixes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from markupsafe import Markup
from trueup_node.health.verdicts import NODE_ORDER, WORST_FIRST, worst

from ..figures.health.required import NO_RECORD
from ..render.html import Affected, Card, Fact, Part, Section, Verdicts
from ..rooms import names_of
from ..sheets import health as health_sheets
from ..sheets.sheet import Column, Sheet
from ..units import UNKNOWN, plural
from .opening import unique

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_node.health.verdicts import Verdict

    from ..figures.health.examine import Health
    from ..figures.health.required import ExpectedNode
    from .records import Evidence

# The order of the strip.
_STRIP: Final = ("pass", "warn", "fail", "not measured", "no verdict")
_CLASSES: Final = {verdict: verdict.replace(" ", "-") for verdict in _STRIP}
# The map, in the units of its own drawing.
_WIDTH, _LABELS, _ROW, _LEAST_CELL = 1080.0, 340.0, 22.0, 4.0
_HEADS: Final = 16.0
# A cell's share of its row's height: worse verdicts stand higher, also without colours.
_HEIGHTS: Final = {"fail": 1.0, "not measured": 0.8, "warn": 0.6, "pass": 0.35, "no verdict": 0.15}
_NAMES_SHOWN: Final = 24
# More cards are read by nobody; equal findings of all nodes are one.
_CARDS: Final = 60
_ROW_GAP: Final = 4.0
_LONGEST_LABEL: Final = 43
_HOW_TO_READ: Final = (
    "A column is a node, in the order of their names; what is worse stands higher. Checks without"
    " any verdict are left out."
)


@dataclass(frozen=True)
class NodeHealth:
    """The health of the nodes that the runs expected.

    Attributes:
        health: all verdicts.
        words: node -> its verdict, in the order of their names.
        missing: the expected nodes without a record.
    """

    health: Health
    words: Mapping[str, str]
    missing: Sequence[ExpectedNode]

    @property
    def counts(self) -> dict[str, int]:
        """How many nodes there are of each verdict."""
        counts = Counter(self.words.values())
        return {verdict: counts[verdict] for verdict in _STRIP}

    @property
    def is_checked(self) -> bool:
        """Whether the records judge any node, or lack one that was expected, or failed: records of
        a benchmark without limits are no check."""
        judged = any(item.verdict in ("fail", "warn") for item in self.health.findings)
        ran = any(
            item.verdict == "not measured" and item.measured_at for item in self.health.findings
        )
        return bool(judged or ran or self.missing or self.health.counts["pass"])

    def is_opening(self, *, asks_price: bool) -> bool:
        """Whether the page opens with it: beside a price only where a node fails or is missing."""
        return self.is_checked and (not asks_price or self.counts["fail"] > 0 or bool(self.missing))

    @property
    def sentence(self) -> str:
        """Whether all is well, in a few words for the title of the page."""
        counts, total = self.counts, len(self.words)
        nodes = plural(total, "node")
        failed, lost = counts["fail"], counts["not measured"]
        if total == 1 and failed:
            return "the node fails"
        if failed:
            more = f", {lost:,} not measured" if lost else ""
            return f"{failed:,} of {nodes} {'fails' if failed == 1 else 'fail'}{more}"
        if lost:
            return f"{lost:,} of {nodes} not measured"
        if counts["warn"]:
            return f"{counts['warn']:,} of {nodes} with warnings, none fails"
        if counts["pass"] == total:
            return "the node passes" if total == 1 else f"all {total:,} nodes pass"
        if not counts["pass"]:
            return "no verdict on health"
        return f"{counts['pass']:,} of {nodes} pass, the others have no verdict"


def node_health(health: Health, expected: Sequence[ExpectedNode]) -> NodeHealth:
    """The verdict on each expected node, and on each that was measured without being expected."""
    by_node: dict[str, set[str]] = {node: set() for node in health.nodes}
    for item in health.verdicts:
        if len(item.nodes) == 1:
            by_node.setdefault(item.nodes[0], set()).add(item.verdict)
    missing = [node for node in expected if not node.present]
    for node in missing:
        by_node.setdefault(node.name, set()).add("not measured")
    words = {
        node: worst(verdicts)
        for node, verdicts in sorted(by_node.items(), key=lambda pair: _natural(pair[0]))
    }
    return NodeHealth(health, words, missing)


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """An order in which node-9 stands before node-10."""
    parts = re.split(r"([0-9]{1,18})", name)
    return [(int(piece), "") if piece.isdecimal() else (0, piece) for piece in parts], name


def health_section(fleet: NodeHealth, evidence: Evidence) -> Section:
    """The strip, failures, warnings, missing nodes, and the map of nodes and checks.

    Args:
        evidence: the files of the judged records.
    """
    verdicts = fleet.health.verdicts
    failures, unmeasured, warnings = (
        [item for item in verdicts if item.verdict == verdict]
        for verdict in ("fail", "not measured", "warn")
    )
    # Whoever has no record at all stands in a table of its own.
    unmeasured = [item for item in unmeasured if item.what != NO_RECORD]
    parts = [Part(drawn=_strip(fleet), paragraphs=_paragraphs(fleet))]
    if failures:
        nodes = len({node for item in failures for node in item.nodes})
        figures = plural(len(failures), "figure")
        title = f"What fails: {figures} of {plural(nodes, 'node')}"
        parts.append(_cards(failures, title, evidence))
    if fleet.missing:
        parts.append(Part(sheets=(_missing_sheet(fleet.missing),)))
    if unmeasured:
        title = f"Not measured: {plural(len(unmeasured), 'check')}"
        parts.append(_cards(unmeasured, title, evidence))
    if fleet.missing or _of_nodes(verdicts):
        title = "Every node and every check"
        parts.append(Part(title=title, drawn=_map(fleet), notes=(_HOW_TO_READ,)))
    if warnings:
        parts.append(_warnings(warnings, failures, evidence))
    return Section("health", "Health", parts, data=(health_sheets.data(fleet.health, WORST_FIRST),))


def _of_nodes(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts on single nodes."""
    return [item for item in verdicts if len(item.nodes) == 1 and item.verdict != "no verdict"]


def _warnings(warnings: Sequence[Verdict], failures: Sequence[Verdict], evidence: Evidence) -> Part:
    worst_verdicts = _worst_of_each(warnings, failures)
    note = (
        "Of each node and benchmark the figure that is furthest off. Of a benchmark"
        " that fails on a node, no warning is repeated. tables/health.csv has every verdict."
    )
    title = f"Warnings: {plural(len(warnings), 'figure')}"
    notes = [note] if len(worst_verdicts) < len(warnings) else []
    return _cards(worst_verdicts, title, evidence, notes)


def every_verdict(fleet: NodeHealth) -> Verdicts:
    """The worst verdict of each node and check, with its figure."""
    levels = list(WORST_FIRST)
    worst: dict[tuple[str, tuple[str, str, str]], Verdict] = {}
    for item in fleet.health.verdicts:
        limit = health_sheets.limit(item)
        for node in item.nodes:
            key = (node, (item.what, *limit))
            held = worst.get(key)
            if held is None or levels.index(item.verdict) < levels.index(held.verdict):
                worst[key] = item
    nodes = {node: number for number, node in enumerate(fleet.words)}
    checks = {check: number for number, check in enumerate(dict.fromkeys(key[1] for key in worst))}
    return Verdicts(
        list(nodes),
        levels,
        list(checks),
        [
            (nodes[node], checks[check], levels.index(item.verdict), health_sheets.figure(item))
            for (node, check), item in worst.items()
            if node in nodes
        ],
    )


def _cards(
    verdicts: Sequence[Verdict], title: str, evidence: Evidence, notes: Sequence[str] = ()
) -> Part:
    """Verdicts of one kind: a card for equal findings of all their nodes."""
    cards = [_card(finding, evidence) for finding in health_sheets.findings(verdicts)]
    more = len(cards) - _CARDS
    hidden = [f"{plural(more, 'more finding')}: tables/health.csv has them."] if more > 0 else []
    return Part(title=title, cards=cards[:_CARDS], notes=(*notes, *hidden))


def _card(finding: health_sheets.Finding, evidence: Evidence) -> Card:
    row, several = finding.row, len(finding.nodes) > 1
    unit = f" {row['unit']}" if row["unit"] else ""
    worst = health_sheets.worst_of(finding.nodes[0])
    figures = [
        ("worst" if several else "measured", row["measured"], unit),
        ("other nodes" if worst.comparison == "usual" else "limit", row["expected"], unit),
        ("healthy nodes", health_sheets.of_healthy(worst), ""),
    ]
    return Card(
        verdict=row["verdict"],
        check=", ".join(finding.checks),
        at=finding.size,
        code=row["fault"] or "",
        figures=[
            Fact(label, f"{text}{of_unit}")
            for label, text, of_unit in figures
            if text not in (None, "", UNKNOWN)
        ],
        nodes=[
            Affected(
                "+".join(its[0].nodes),
                _devices(its),
                finding.figure(its) if several else "",
                evidence.of_verdict(health_sheets.worst_of(its)),
            )
            for its in finding.nodes
        ],
        remedy=[
            Fact(label, f"{text[:1].upper()}{text[1:]}")
            for label, text in (("Why", row["reason"]), ("Fix", row["fix"]))
            if text
        ],
        sources=finding.sources,
    )


def _devices(its: Sequence[Verdict]) -> str:
    """The device of the worst figure of a node, and how many others there are."""
    worst = health_sheets.worst_of(its)
    devices = unique(item.device for item in its if item.device)
    if not devices:
        return ""
    more = f" and {len(devices) - 1:,} more" if len(devices) > 1 else ""
    return f"{worst.device or devices[0]}{more}"


def _worst_of_each(warnings: Sequence[Verdict], failures: Sequence[Verdict]) -> list[Verdict]:
    """The furthest off of the warnings of each node and benchmark, where that does not fail."""
    failed = {(item.nodes, item.benchmark) for item in failures}
    worst: dict[tuple[object, ...], Verdict] = {}
    for item in warnings:
        key = (item.nodes, item.benchmark)
        if key not in failed and (
            key not in worst or health_sheets.off(item) > health_sheets.off(worst[key])
        ):
            worst[key] = item
    return list(worst.values())


def _paragraphs(fleet: NodeHealth) -> list[str]:
    if fleet.words and set(fleet.words.values()) == {"no verdict"}:
        reasons = Counter(
            item.reason for item in fleet.health.verdicts if item.verdict == "no verdict"
        )
        reason = f": {reasons.most_common(1)[0][0]}" if reasons else ""
        sized = any(item.vm_size for item in fleet.health.verdicts)
        hint = "" if sized else " `trueup health --size SIZE` judges it as one."
        return [f"No node could be judged{reason}.{hint}"]
    return []


def _strip(fleet: NodeHealth) -> Markup:
    total = len(fleet.words)
    tiles = [
        Markup(
            '<div class="v-{}"><dt>{}</dt><dd>{}<span class="of"> of {}</span></dd></div>'
        ).format(_CLASSES[verdict], verdict, f"{count:,}", f"{total:,}")
        for verdict, count in fleet.counts.items()
    ]
    label = f"Verdicts on {plural(total, 'expected node')}"
    return Markup('<dl class="strip" aria-label="{}">{}</dl>').format(label, Markup("").join(tiles))


def _missing_sheet(missing: Sequence[ExpectedNode]) -> Sheet:
    return Sheet(
        title=f"Expected and not there: {plural(len(missing), 'node')}",
        columns=[
            Column("node", "node", words=True),
            Column("run_id", "run", words=True),
            Column("why", "why", words=True),
        ],
        rows=[
            {"node": node.name, "run_id": node.run_id, "why": node.why, "mark": "bad"}
            for node in missing
        ],
        marks="mark",
        name="missing",
    )


def _map(fleet: NodeHealth) -> Markup:
    """Nodes from left to right, checks from top to bottom, as one drawing.

    Equal neighbours are one rectangle, so that a fleet stays small. Any verdict but a pass is at
    least some pixels wide, so that one node of 600 is visible.
    """
    nodes = list(fleet.words)
    rows = _checks(fleet, {node: number for number, node in enumerate(nodes)})
    order = sorted(rows, key=lambda check: (_worst(rows[check]), check))
    absent = {node.name for node in fleet.missing}
    if absent:
        rows[NO_RECORD] = {
            number: "not measured" if node in absent else "pass"
            for number, node in enumerate(nodes)
        }
        if NO_RECORD not in order:
            order.append(NO_RECORD)
    cell = (_WIDTH - _LABELS) / max(len(nodes), 1)
    named = len(nodes) <= _NAMES_SHOWN
    top = _HEADS
    drawn = [
        Markup("").join(_cells(rows[check], nodes, cell, top + number * (_ROW + _ROW_GAP)))
        for number, check in enumerate(order)
    ]
    texts = [
        Markup('<text x="0" y="{:.1f}">{}</text>').format(
            top + number * (_ROW + _ROW_GAP) + _ROW * 0.75, _shortened(check)
        )
        for number, check in enumerate(order)
    ]
    below = top + len(order) * (_ROW + _ROW_GAP) + 12
    texts += _names(nodes, cell, below, named=named)
    height = below + 8
    return Markup(
        '<div class="scroll map" role="group" tabindex="0" aria-label="Map of nodes and checks">'
        '<svg viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}{}</svg></div>{}'
    ).format(
        _WIDTH,
        height,
        _finding(fleet, rows, nodes),
        Markup("").join(texts),
        Markup("").join(drawn),
        _legend(),
    )


def _checks(fleet: NodeHealth, number_by_node: Mapping[str, int]) -> dict[str, dict[int, str]]:
    """The rows of the map: check -> number of the node -> the worst verdict."""
    rows: dict[str, dict[int, str]] = {}
    compared: dict[str, dict[int, str]] = {}
    single = [
        (item, number_by_node[item.nodes[0]])
        for item in fleet.health.verdicts
        if len(item.nodes) == 1 and item.nodes[0] in number_by_node
    ]
    for item, number in single:
        row = rows.setdefault(_check(item), {})
        row[number] = min(item.verdict, row.get(number, "pass"), key=WORST_FIRST.index)
        if item.comparison == "usual":
            # Whoever was measured and is no outlier is like the others.
            compared.setdefault(item.benchmark, row)
    for item, number in single:
        compared.get(item.benchmark, {}).setdefault(number, "pass")
    return {check: row for check, row in rows.items() if set(row.values()) - {"no verdict"}}


def _legend() -> Markup:
    items = [
        Markup('<li class="v-{}">{}</li>').format(_CLASSES[verdict], verdict) for verdict in _STRIP
    ]
    return Markup('<ul class="verdicts">{}</ul>').format(Markup("").join(items))


def _check(item: Verdict) -> str:
    """The row of a verdict: comparisons of one benchmark with the other nodes are one row."""
    if item.comparison == "usual":
        return f"{names_of(item.benchmark)} beside the other nodes"
    return item.what


def _worst(row: Mapping[int, str]) -> int:
    return min(NODE_ORDER.index(verdict) for verdict in row.values())


def _shortened(check: str) -> str:
    return check if len(check) <= _LONGEST_LABEL else check[: _LONGEST_LABEL - 1] + "…"


def _cells(row: Mapping[int, str], nodes: Sequence[str], cell: float, top: float) -> list[Markup]:
    runs: list[tuple[int, int, str]] = []
    for number in range(len(nodes)):
        verdict = row.get(number, "")
        if runs and runs[-1][2] == verdict:
            runs[-1] = (runs[-1][0], number, verdict)
        else:
            runs.append((number, number, verdict))
    rectangles = []
    # Bad verdicts are drawn last: among many nodes they are wider than their place.
    for first, last, verdict in sorted(runs, key=lambda run: run[2] not in ("pass", "no verdict")):
        if not verdict:
            continue
        width = max((last - first + 1) * cell - min(1.0, cell / 6), 0.5)
        if verdict in ("fail", "not measured", "warn"):
            width = max(width, _LEAST_CELL)
        high = _ROW * _HEIGHTS[verdict]
        names = nodes[first] if first == last else f"{nodes[first]} to {nodes[last]}"
        title = "" if verdict == "pass" else Markup("<title>{}: {}</title>").format(names, verdict)
        rectangles.append(
            Markup(
                '<rect class="v-{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">{}</rect>'
            ).format(
                _CLASSES[verdict], _LABELS + first * cell, top + _ROW - high, width, high, title
            )
        )
    return rectangles


def _names(nodes: Sequence[str], cell: float, y: float, *, named: bool) -> list[Markup]:
    """The names below: of a few nodes all, else the first and the last."""
    if not nodes:
        return []
    text = Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
    widest = max(len(node) for node in nodes)
    # A character of this size is about 7 units wide.
    if named and widest * 7 < cell:
        return [
            text.format(_LABELS + (number + 0.5) * cell, y, "middle", node)
            for number, node in enumerate(nodes)
        ]
    texts = [text.format(_LABELS, y, "start", nodes[0])]
    if len(nodes) > 1:
        texts.append(text.format(_WIDTH, y, "end", nodes[-1]))
    return texts


def _finding(fleet: NodeHealth, rows: Mapping[str, Mapping[int, str]], nodes: Sequence[str]) -> str:
    """The content of the map, in words."""
    sentences = [f"{fleet.sentence}; {plural(len(rows), 'check')} of {plural(len(nodes), 'node')}"]
    for check, row in rows.items():
        bad = [nodes[number] for number, verdict in sorted(row.items()) if verdict == "fail"]
        if bad:
            more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
            sentences.append(f"{check}: {', '.join(bad[:3])}{more}")
    return ". ".join(sentences) + "."
