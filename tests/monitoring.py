"""The dashboard of docs/monitoring, from the series of ``trueup health --format prometheus``."""

from __future__ import annotations

import json
from typing import Any

PAGE = "docs/monitoring/trueup.dashboard.json"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_VERDICTS = ("pass", "warn", "fail", "not measured", "no verdict")
_COLOURS = ("green", "orange", "red", "purple", "gray")
_CHOSEN = 'Hostname=~"$node"'


def dashboard() -> str:
    """A dashboard for Grafana 10 and later."""
    mappings = [
        {
            "type": "value",
            "options": {
                str(number): {"text": word, "color": colour}
                for number, (word, colour) in enumerate(zip(_VERDICTS, _COLOURS, strict=True))
            },
        }
    ]
    counts = [
        _stat(f"Nodes: {word}", f"count(trueup_node_health == {number}) or vector(0)", colour)
        for number, (word, colour) in enumerate(zip(_VERDICTS, _COLOURS, strict=True))
    ]
    since = "time() - max(trueup_run_started_timestamp_seconds)"
    stats = [*counts, _stat("Since the last check", since, "blue", unit="s")]
    panels = [
        *(_at(panel, x=4 * place, y=0, width=4, height=4) for place, panel in enumerate(stats)),
        _at(
            _graph("Verdict of each node", f"trueup_node_health{{{_CHOSEN}}}", "{{Hostname}}")
            | {"type": "state-timeline", "fieldConfig": {"defaults": {"mappings": mappings}}},
            *(0, 4, 24, 9),
        ),
        _at(
            _graph(
                "Measured share of healthy nodes' figure",
                f'trueup_health_measured{{{_CHOSEN},comparison="at_least"}}'
                f" / trueup_health_healthy{{{_CHOSEN}}}",
                "{{Hostname}} {{what}} {{device}}",
                unit="percentunit",
            ),
            *(0, 13, 24, 9),
        ),
        _at(_table("What fails", f"trueup_health_verdict{{{_CHOSEN}}} == 2"), *(0, 22, 24, 8)),
    ]
    nodes = "label_values(trueup_node_health, Hostname)"
    board = {
        "title": "trueup: health of the nodes",
        "uid": "trueup-health",
        "schemaVersion": 39,
        "refresh": "5m",
        "time": {"from": "now-30d", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                {
                    "name": "node",
                    "type": "query",
                    "datasource": _SOURCE,
                    "query": nodes,
                    "includeAll": True,
                    "multi": True,
                    "allValue": ".*",
                },
            ]
        },
        "panels": [{"id": number, **panel} for number, panel in enumerate(panels, 1)],
    }
    return json.dumps(board, indent=2) + "\n"


def expressions() -> list[str]:
    """The queries of its panels, for every node."""
    panels = json.loads(dashboard())["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    return [query.replace("$node", ".*") for query in queries]


def _at(panel: dict[str, Any], x: int, y: int, width: int, height: int) -> dict[str, Any]:
    return {**panel, "gridPos": {"x": x, "y": y, "w": width, "h": height}}


def _panel(kind: str, title: str, query: str, **target: Any) -> dict[str, Any]:
    targets = [{"refId": "A", "datasource": _SOURCE, "expr": query, **target}]
    return {"type": kind, "title": title, "datasource": _SOURCE, "targets": targets}


def _stat(title: str, query: str, colour: str, unit: str = "none") -> dict[str, Any]:
    defaults = {"unit": unit, "color": {"mode": "fixed", "fixedColor": colour}}
    return {**_panel("stat", title, query), "fieldConfig": {"defaults": defaults}}


def _graph(title: str, query: str, legend: str, unit: str = "none") -> dict[str, Any]:
    panel = _panel("timeseries", title, query, legendFormat=legend)
    return {**panel, "fieldConfig": {"defaults": {"unit": unit}}}


def _table(title: str, query: str) -> dict[str, Any]:
    return _panel("table", title, query, format="table", instant=True)
