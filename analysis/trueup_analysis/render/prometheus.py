"""Verdicts as text for node_exporter's textfile collector."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from .. import units
from .dcgm_labels import device, hostname

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trueup_node.health.verdicts import Verdict

    from ..figures.health.examine import Health

_NUMBERS: Final = {"pass": 0, "warn": 1, "fail": 2, "not measured": 3, "no verdict": 4}
_WORDS: Final = "0 pass, 1 warn, 2 fail, 3 not measured, 4 no verdict."
# A node has its roll-up, the time of its measurement and its counts of five verdicts, and of so
# many findings four series: 39 series at most.
_FINDINGS: Final = 8
_FOUND: Final = ("fail", "not measured", "warn")
SERIES: Final = {
    "trueup_node_health": f"The worst verdict on the node: {_WORDS}",
    "trueup_node_verdicts": "How many figures of the node have that verdict.",
    "trueup_node_measured_timestamp_seconds": "When the node was last measured.",
    "trueup_run_started_timestamp_seconds": "When the first judged case of the run began.",
    "trueup_nodes_expected": "How many nodes were expected.",
    "trueup_nodes_judged": "Of how many of these everything expected was judged.",
    "trueup_health_verdict": _WORDS,
    "trueup_health_measured": "The measured figure, in the base unit of the label unit.",
    "trueup_health_expected": "What is expected of it, in the same unit.",
    "trueup_health_healthy": "The figure that healthy nodes reach, in the same unit.",
}


def render(health: Health, *, every_series: bool = False) -> str:
    """Each node's verdict and time, the runs' times, and the worst findings of each node; with
    ``every_series`` every figure with its verdict.
    """
    series = _Series()
    for node, verdict in health.words.items():
        series.add("trueup_node_health", _NUMBERS[verdict], **hostname(node))
    counts = Counter((node, item.verdict) for item in health.verdicts for node in item.nodes)
    for (node, verdict), count in sorted(counts.items()):
        series.add("trueup_node_verdicts", count, **hostname(node), verdict=verdict)
    last, began = _times(health.verdicts)
    for node, time in last.items():
        series.add("trueup_node_measured_timestamp_seconds", time, **hostname(node))
    for run_id, time in began.items():
        series.add("trueup_run_started_timestamp_seconds", time, run=run_id)
    series.add("trueup_nodes_expected", len(health.nodes))
    series.add("trueup_nodes_judged", len(health.nodes) - len(health.unjudged))
    # The first of two alike is the worse: the list is sorted so.
    for item in health.verdicts if every_series else _worst(health.verdicts):
        labels = _labels_of(item)
        series.add("trueup_health_verdict", _NUMBERS[item.verdict], **labels)
        if item.measured is not None:
            series.add("trueup_health_measured", item.measured, **labels)
        if item.expected is not None:
            series.add("trueup_health_expected", item.expected, **labels)
        if item.healthy is not None:
            series.add("trueup_health_healthy", item.healthy, **labels)
    return series.text()


class _Series:
    """Series by name; of one that is given twice the first counts."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, float]] = {name: {} for name in SERIES}

    def add(self, name: str, value: float, **labels: Any) -> None:
        self._values[name].setdefault(_quoted(labels), value)

    def text(self) -> str:
        lines = []
        for name, about in SERIES.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge"]
            lines += [f"{name}{labels} {value!r}" for labels, value in self._values[name].items()]
        return "\n".join(lines) + "\n"


def _worst(verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """The worst findings of each node; of several nodes, they are the first one's."""
    held: Counter[str] = Counter()
    for item in verdicts:
        whose = item.nodes[0] if item.nodes else ""
        if item.verdict in _FOUND and held[whose] < _FINDINGS:
            held[whose] += 1
            yield item


def _times(verdicts: Iterable[Verdict]) -> tuple[dict[str, float], dict[str, float]]:
    """Node to the time of its last measurement, and run to that of its first one."""
    last: dict[str, float] = {}
    began: dict[str, float] = {}
    for item in verdicts:
        if item.measured_at is None:
            continue
        time = datetime.fromisoformat(item.measured_at).timestamp()
        for node in item.nodes:
            last[node] = max(time, last.get(node, time))
        run_id = item.run_id or "unknown"
        began[run_id] = min(time, began.get(run_id, time))
    return dict(sorted(last.items())), dict(sorted(began.items()))


def _labels_of(item: Verdict) -> dict[str, Any]:
    return {
        **hostname("+".join(item.nodes)),
        "size": item.vm_size,
        "benchmark": item.benchmark,
        "case": item.case,
        "metric": item.metric or "",
        "what": item.what,
        **device(item.device),
        "message_bytes": item.message_bytes,
        "comparison": item.comparison,
        "unit": item.unit,
    }


def _quoted(labels: Mapping[str, Any]) -> str:
    texts = {name: str(value) for name, value in labels.items() if value is not None}
    quoted = (f'{name}="{_escaped(value)}"' for name, value in texts.items())
    return "{" + ",".join(quoted) + "}" if texts else ""


def _escaped(value: str) -> str:
    return units.text(value).replace("\\", "\\\\").replace('"', '\\"')
