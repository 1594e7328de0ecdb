"""All verdicts on a set of records, what they come to, and the forms that machines read."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trueup.errors import BadInput

from . import fleet, verdicts
from .verdicts import WORST_FIRST, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..cases import Case
    from .expectations import Expectations

__all__ = ["Health", "examine", "junit", "prometheus"]

_PAIR: Final = 2


@dataclass(frozen=True)
class Health:
    """What was found.

    Attributes:
        verdicts: all of them, those of the fleet included, the worst first.
        nodes: every node that has a record.
    """

    verdicts: Sequence[Verdict]
    nodes: Sequence[str]

    @property
    def counts(self) -> dict[str, int]:
        """How many verdicts of each kind there are."""
        found = Counter(item.verdict for item in self.verdicts)
        return {word: found[word] for word in WORST_FIRST}

    @property
    def blamed(self) -> dict[str, list[Verdict]]:
        """Single nodes with a failure, each with its failures."""
        found: dict[str, list[Verdict]] = {}
        for item in self.verdicts:
            if item.verdict == "fail" and len(item.nodes) == 1:
                found.setdefault(item.nodes[0], []).append(item)
        return dict(sorted(found.items()))

    @property
    def groups(self) -> list[Verdict]:
        """Failures and outliers between nodes, of which none alone is to blame."""
        return [
            item
            for item in self.verdicts
            if item.verdict in ("fail", "warn") and len(item.nodes) > 1
        ]

    def worst(self, node: str) -> str:
        """The worst verdict on one node."""
        found = {item.verdict for item in self.verdicts if item.nodes == (node,)}
        return next((word for word in WORST_FIRST if word in found), "no verdict")

    @property
    def status(self) -> int:
        """The exit status: 1 for a failure; 2 where something could not be measured, or where
        nothing could be judged; 0 otherwise.
        """
        counts = self.counts
        if counts["fail"]:
            return 1
        return 2 if counts["not measured"] or not counts["pass"] + counts["warn"] else 0


def examine(
    cases: Sequence[Case], expectations: Expectations, *, required: Sequence[str] = ()
) -> Health:
    """Judge cases one by one and beside each other.

    Args:
        cases: what was measured.
        expectations: what it is judged by.
        required: benchmarks that every node must have been measured with.

    Raises:
        BadInput: no cases.
    """
    if not cases:
        message = "there is no record to judge"
        raise BadInput(message)
    pairs = [case for case in cases if _is_pair(case)]
    others = [case for case in cases if not _is_pair(case)]
    found = verdicts.judge(others, expectations)
    found += verdicts.judge([case for case in pairs if case.outcome != "ok"], expectations)
    found += fleet.pairs(pairs, expectations)
    failed = {(item.nodes, item.device, item.metric) for item in found if item.verdict == "fail"}
    found += [
        item
        for item in fleet.outliers(cases)
        # What failed is not said a second time.
        if (item.nodes, item.device, item.metric) not in failed
    ]
    found += fleet.differences(cases)
    nodes = sorted({node for case in cases for node in case.nodes})
    found += _lacking(cases, nodes, required)
    found.sort(key=lambda item: (WORST_FIRST.index(item.verdict), item.nodes, item.benchmark))
    return Health(found, nodes)


def _is_pair(case: Case) -> bool:
    return len(case.nodes) == _PAIR and case.benchmark == "ib"


def _lacking(cases: Sequence[Case], nodes: Sequence[str], required: Sequence[str]) -> list[Verdict]:
    measured = {(node, case.benchmark) for case in cases for node in case.nodes}
    return [
        Verdict(
            nodes=(node,),
            vm_size=None,
            benchmark=benchmark,
            case="",
            verdict="not measured",
            what=benchmark,
            reason=f"{benchmark} is required, and there is no record of it",
        )
        for node in nodes
        for benchmark in required
        if (node, benchmark) not in measured
    ]


def sentence(item: Verdict) -> str:
    """A verdict in one line, figures in base units as records hold them."""
    parts = [item.what]
    if item.device:
        parts.append(f"on {item.device}")
    if item.message_bytes is not None:
        parts.append(f"at {item.message_bytes} bytes")
    if item.measured is not None:
        parts.append(f"measured {item.measured:.6g} {item.unit},")
    if item.expected is not None:
        words = str(item.comparison).replace("_", " ")
        parts.append(f"expected {words} {item.expected:.6g} {item.unit}")
    if item.reason:
        parts.append(f"({item.reason})" if item.measured is not None else f": {item.reason}")
    if item.source:
        parts.append(f"[{item.source}]")
    if item.fault:
        parts.append(item.fault)
    return _plain(" ".join(parts).replace(" :", ":"))


def _plain(text: str) -> str:
    """Text without what XML 1.0 cannot carry."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd]", "?", text)


def junit(health: Health) -> str:
    """JUnit XML: a test suite for each node (or pair), a test case for each verdict."""
    counts = health.counts
    root = ET.Element(
        "testsuites",
        name="trueup health",
        tests=str(len(health.verdicts)),
        failures=str(counts["fail"]),
        errors=str(counts["not measured"]),
        skipped=str(counts["no verdict"]),
    )
    by_nodes: dict[tuple[str, ...], list[Verdict]] = {}
    for item in health.verdicts:
        by_nodes.setdefault(item.nodes, []).append(item)
    for nodes, its in sorted(by_nodes.items()):
        found = Counter(item.verdict for item in its)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_plain("+".join(nodes)),
            tests=str(len(its)),
            failures=str(found["fail"]),
            errors=str(found["not measured"]),
            skipped=str(found["no verdict"]),
        )
        for item in its:
            name = " ".join(str(part) for part in (item.what, item.device) if part)
            case = ET.SubElement(
                suite, "testcase", classname=_plain(f"trueup.{item.benchmark}"), name=_plain(name)
            )
            kind = {"fail": "failure", "not measured": "error", "no verdict": "skipped"}
            if item.verdict in kind:
                attributes = {"message": sentence(item)}
                if item.verdict == "fail":
                    attributes["type"] = item.fault or "fail"
                ET.SubElement(case, kind[item.verdict], attributes)
            else:
                prefix = "warning: " if item.verdict == "warn" else ""
                ET.SubElement(case, "system-out").text = prefix + sentence(item)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def prometheus(health: Health) -> str:
    """Text for node_exporter's textfile collector: verdicts, measured and expected figures.

    ``trueup_health_verdict`` is 0 pass, 1 warn, 2 fail, 3 not measured, 4 no verdict.
    """
    number = {"pass": 0, "warn": 1, "fail": 2, "not measured": 3, "no verdict": 4}
    verdict_lines, measured, expected = [], [], []
    # The first of two alike is the worse: the list is sorted so.
    seen: set[str] = set()
    for item in health.verdicts:
        labels = _labels(item)
        if labels in seen:
            continue
        seen.add(labels)
        verdict_lines.append(f"trueup_health_verdict{labels} {number[item.verdict]}")
        if item.measured is not None:
            measured.append(f"trueup_health_measured{labels} {item.measured!r}")
        if item.expected is not None:
            expected.append(f"trueup_health_expected{labels} {item.expected!r}")
    parts = (
        ("verdict", "0 pass, 1 warn, 2 fail, 3 not measured, 4 no verdict.", verdict_lines),
        ("measured", "The measured figure, in the base unit of the label unit.", measured),
        ("expected", "What is expected of it, in the same unit.", expected),
    )
    lines = []
    for name, told, found in parts:
        lines += [f"# HELP trueup_health_{name} {told}", f"# TYPE trueup_health_{name} gauge"]
        lines += found
    return "\n".join(lines) + "\n"


def _labels(item: Verdict) -> str:
    values = {
        "node": "+".join(item.nodes),
        "size": item.vm_size,
        "benchmark": item.benchmark,
        "case": item.case,
        "metric": item.metric or "",
        "what": item.what,
        "device": item.device,
        "message_bytes": item.message_bytes,
        "comparison": item.comparison,
        "unit": item.unit,
    }
    quoted = (
        f'{name}="{_escaped(str(value))}"' for name, value in values.items() if value is not None
    )
    return "{" + ",".join(quoted) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
