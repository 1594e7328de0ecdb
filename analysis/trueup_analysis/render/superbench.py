"""Records as SuperBench's results-summary.jsonl: an object a node (microsoft/superbenchmark@700d650
superbench/runner/runner.py).

SuperBench has no units: the name of a figure ends in its base unit, and ``trueup-`` before the
benchmark tells such names from SuperBench's own.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from .. import units
from .exported import Exported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup_node.cases import Case
    from trueup_node.record import Metric

# superbench/benchmarks/return_code.py: invalid benchmark result, runtime exception.
_CODES: Final = {"ok": 0, "too_short": 3, "invalid": 3, "failed": 4}
_RANKS: Final = {True: re.compile(r"rank(\d{1,6})"), False: re.compile(r"gpu(\d{1,6})")}


def render(cases: Sequence[Case]) -> Exported:
    """A line for each node. Of several records of one case on a node the last one is in it."""
    exported = Exported()
    by_node: dict[str, dict[str, float | int | str]] = {}
    for case in cases:
        node = case.nodes[0] if case.nodes else "unknown"
        if len(case.nodes) > 1:
            exported.left_out["record of several nodes, which stands at its first one"] += 1
        summary = by_node.setdefault(node, {"node": node})
        title = f"trueup-{case.benchmark}:{re.sub(r'[^A-Za-z0-9._-]+', '-', case.case)}"
        code = f"{title}/return_code"
        if code in summary:
            exported.left_out["record that a later one of the same case and node replaces"] += 1
            stale = [name for name in summary if name.startswith(f"{title}/")]
            for name in stale:
                del summary[name]
        summary[code] = _CODES.get(case.outcome, 4)
        if case.outcome != "ok":
            exported.left_out[f"record that is {case.outcome}: its figures"] += 1
            continue
        for figure in case.figures:
            rank = _RANKS[case.benchmark == "superbench"].fullmatch(figure.device or "")
            summary[f"{title}/{_name(figure, rank)}"] = figure.value
    exported.texts["results-summary.jsonl"] = "".join(
        json.dumps(summary, ensure_ascii=False) + "\n" for summary in by_node.values()
    )
    return exported


def _name(figure: Metric, rank: re.Match[str] | None) -> str:
    """The metric with its statistic, message size and unit, and the device as a rank."""
    parts = [
        figure.name,
        figure.statistic,
        None if figure.message_bytes is None else f"{figure.message_bytes}B",
        None if rank or figure.device is None else figure.device,
        units.in_words(figure.unit),
    ]
    return ".".join(filter(None, parts)) + (f":{rank[1]}" if rank else "")
