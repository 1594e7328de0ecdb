"""Verdicts as text for node_exporter's textfile collector."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..figures.health.examine import Health
    from ..figures.health.verdicts import Verdict


def render(health: Health) -> str:
    """Verdicts, measured and expected figures.

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
