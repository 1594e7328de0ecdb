"""Verdicts, comparisons and readings as JUnit XML, which CI shows."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Final

from .. import units
from ..figures.compare import changes as compare_changes
from ..sheets import compare as compare_sheets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from trueup_node.health.verdicts import Verdict

    from ..figures.compare.changes import Comparison
    from ..figures.health.examine import Health
    from ..read import Reading

_KINDS: Final = {
    compare_changes.WORSE: "failure",
    compare_changes.MIXED: "failure",
    compare_changes.UNSURE: "skipped",
    compare_changes.NOT_JUDGED: "skipped",
}
_VERDICTS: Final = {
    "pass": "system-out",
    "warn": "system-out",
    "fail": "failure",
    "not measured": "error",
    "no verdict": "skipped",
}


def render(health: Health, only: Collection[str] = ()) -> str:
    """JUnit XML: a test suite for each node (or pair), a test case for each verdict.

    Args:
        only: these verdicts; none for all.
    """
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
    for item in health.only(only) if only else health.verdicts:
        by_nodes.setdefault(item.nodes, []).append(item)
    for nodes, its in sorted(by_nodes.items()):
        by_verdict = Counter(item.verdict for item in its)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_plain("+".join(nodes)),
            tests=str(len(its)),
            failures=str(by_verdict["fail"]),
            errors=str(by_verdict["not measured"]),
            skipped=str(by_verdict["no verdict"]),
        )
        for item in its:
            name = " ".join(str(text) for text in (item.what, item.device) if text)
            case = ET.SubElement(
                suite, "testcase", classname=_plain(f"trueup.{item.benchmark}"), name=_plain(name)
            )
            kind = _VERDICTS[item.verdict]
            if kind != "system-out":
                attributes = {"message": _sentence(item)}
                if item.verdict == "fail":
                    attributes["type"] = item.fault or "fail"
                ET.SubElement(case, kind, attributes)
            else:
                prefix = "warning: " if item.verdict == "warn" else ""
                ET.SubElement(case, "system-out").text = prefix + _sentence(item)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def comparison(compared: Comparison) -> str:
    """JUnit XML: a test suite for each benchmark, a test case for each figure; worse is a failure,
    missing an error, too few repeats skipped."""
    suites: dict[str, list[tuple[str, str, str]]] = {}
    for item in compared.failures:
        text = f"now {item.outcome} on {item.node}: {item.reason or 'no reason is recorded'}"
        suites.setdefault(item.work.benchmark, []).append((item.work.case, "failure", text))
    for change in compared.changes:
        kind = _KINDS.get(change.verdict, "system-out")
        name = compared.titles.of(change.figure)
        text = f"{change.verdict}: {compare_sheets.sentence(compared.titles, change)}"
        suites.setdefault(change.figure.work.benchmark, []).append((name, kind, text))
    for lost in compared.missing:
        if lost.side == "before":
            text = f"not measured any more on {', '.join(lost.nodes)}"
            name = compared.titles.of(lost.figure)
            suites.setdefault(lost.figure.work.benchmark, []).append((name, "error", text))
    return _document("trueup compare", suites)


def readings(
    outputs: Iterable[Reading], verdicts: Iterable[Sequence[Verdict]], refused: Sequence[str]
) -> str:
    """JUnit XML: a test suite for each output, a test case for each check of the tool, each verdict
    and each figure that is unverified; an output that cannot be read is an error."""
    suites: dict[str, list[tuple[str, str, str]]] = {}
    for output, its in zip(outputs, verdicts, strict=True):
        cases = suites.setdefault(output.title, [])
        cases.append(("read", "system-out", f"{output.tool} output, {len(output.figures)} figures"))
        for name, has_passed in output.checks.items():
            kind = "system-out" if has_passed else "failure"
            cases.append((name, kind, f"{name} {'passed' if has_passed else 'failed'}"))
        cases += [("unverified", "skipped", text) for text in output.unverified]
        cases += [(item.what, _VERDICTS[item.verdict], _sentence(item)) for item in its]
    if refused:
        suites["not read"] = [("read", "error", text) for text in refused]
    return _document("trueup read", suites)


def _document(title: str, suites: Mapping[str, Sequence[tuple[str, str, str]]]) -> str:
    """Suites of cases, each with name, element and text."""
    root = ET.Element("testsuites", {"name": title, **_totals(chain(*suites.values()))})
    for suite_name, its in suites.items():
        suite = ET.SubElement(root, "testsuite", {"name": _plain(suite_name), **_totals(its)})
        for name, kind, text in its:
            case = ET.SubElement(
                suite, "testcase", classname=_plain(f"trueup.{suite_name}"), name=_plain(name)
            )
            if kind == "system-out":
                ET.SubElement(case, kind).text = _plain(text)
            else:
                ET.SubElement(case, kind, message=_plain(text))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _totals(cases: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    kinds = [kind for _, kind, _ in cases]
    return {
        "tests": str(len(kinds)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
    }


def _sentence(item: Verdict) -> str:
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
        healthy = ""
        if item.healthy is not None:
            share = "" if item.of_healthy is None else f" ({item.of_healthy:.1%} of it)"
            healthy = f", healthy {item.healthy:.6g} {item.unit}{share}"
        parts.append(f"expected {words} {item.expected:.6g} {item.unit}{healthy}")
    if item.reason:
        parts.append(f"({item.reason})" if item.measured is not None else f": {item.reason}")
    if item.source:
        parts.append(f"[{item.source}]")
    if item.fault:
        parts.append(item.fault)
    return _plain(" ".join(parts).replace(" :", ":"))


def _plain(text: str) -> str:
    """Text without characters that XML 1.0 cannot carry or that a terminal obeys."""
    carried = re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd]", "?", text)
    return "\n".join(map(units.text, carried.split("\n")))
