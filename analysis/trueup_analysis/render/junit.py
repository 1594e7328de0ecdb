"""Verdicts as JUnit XML, which CI shows."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from typing import TYPE_CHECKING

from .. import units

if TYPE_CHECKING:
    from trueup.health.verdicts import Verdict

    from ..figures.health.examine import Health


def render(health: Health) -> str:
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
            kind = {"fail": "failure", "not measured": "error", "no verdict": "skipped"}
            if item.verdict in kind:
                attributes = {"message": _sentence(item)}
                if item.verdict == "fail":
                    attributes["type"] = item.fault or "fail"
                ET.SubElement(case, kind[item.verdict], attributes)
            else:
                prefix = "warning: " if item.verdict == "warn" else ""
                ET.SubElement(case, "system-out").text = prefix + _sentence(item)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


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
