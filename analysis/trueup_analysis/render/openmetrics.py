"""Records as OpenMetrics text (https://prometheus.io/docs/specs/om/open_metrics_spec 1.0).

A gauge for each metric, with its base unit at the end of its name; the record's facts are labels,
those of places by the names of dcgm-exporter.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from .. import units
from .dcgm_labels import device, hostname, model
from .exported import Exported, node_of, seconds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup_node.cases import Case
    from trueup_node.record import Metric

_OUTCOME = "trueup_case_ok"
_Series = dict[tuple[tuple[str, str], ...], tuple[float, float | None]]


def render(cases: Sequence[Case]) -> Exported:
    """One text of all records. Of records that no label tells apart the last one is in it."""
    exported = Exported()
    families: dict[str, tuple[str, _Series]] = {_OUTCOME: ("", {})}
    for case in cases:
        began = seconds_of(case)
        ended = None if began is None else began + (case.duration or 0.0)
        common = _labels(case)
        _put(exported, families[_OUTCOME][1], common, float(case.outcome == "ok"), ended)
        if case.outcome != "ok":
            exported.left_out[f"record that is {case.outcome}: its figures"] += 1
            continue
        for figure in case.figures:
            name, unit = _name(case.benchmark, figure)
            series = families.setdefault(name, (unit, {}))[1]
            labels = {**common, **_places(figure)}
            _put(exported, series, labels, figure.value, ended)
    exported.texts["trueup.om.txt"] = "".join(
        _family(name, unit, series) for name, (unit, series) in sorted(families.items())
    )
    exported.texts["trueup.om.txt"] += "# EOF\n"
    return exported


def _name(benchmark: str, figure: Metric) -> tuple[str, str]:
    """The name of a metric's family, and its unit."""
    unit = "" if figure.unit == "1" else re.sub(r"[^a-z0-9_]", "_", units.in_words(figure.unit))
    return f"trueup_{benchmark}_{figure.name}{'_' if unit else ''}{unit}", unit


def _labels(case: Case) -> dict[str, str]:
    named = {
        "run": case.run_id,
        "case": case.case,
        "benchmark": case.benchmark,
        **hostname(node_of(case)),
        "vm_size": case.vm_size,
        "region": case.region,
        "nodes": case.node_count,
        "gpus": case.gpus,
        **model(case.parameters.get("gpu_name")),
    }
    return {name: str(value) for name, value in named.items() if value is not None}


def _places(figure: Metric) -> dict[str, str]:
    named: dict[str, Any] = {
        **device(figure.device),
        "message_bytes": figure.message_bytes,
        "statistic": figure.statistic,
    }
    return {name: str(value) for name, value in named.items() if value is not None}


def _put(
    exported: Exported,
    series: _Series,
    labels: dict[str, str],
    value: float,
    moment: float | None,
) -> None:
    key = tuple(labels.items())
    if key in series:
        exported.left_out["figure that a later record of the same labels replaces"] += 1
    series[key] = (value, moment)


def _family(name: str, unit: str, series: _Series) -> str:
    lines = [f"# TYPE {name} gauge"]
    lines += [f"# UNIT {name} {unit}"] if unit else []
    for labels, (value, moment) in series.items():
        quoted = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        number = repr(value) if math.isfinite(value) else "NaN"
        lines.append(f"{name}{{{quoted}}} {number}{'' if moment is None else f' {moment:.3f}'}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return units.text(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
