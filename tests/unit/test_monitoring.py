"""Alerts and dashboard for Prometheus name series that trueup writes, and the alerts fire."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import monitoring
import pytest
import yaml
from helpers import ROOT
from trueup_analysis.render.prometheus import SERIES

FOLDER = ROOT / "docs" / "monitoring"
_NAME = re.compile(r"\btrueup_\w+")


def test_every_query_names_series_that_health_writes() -> None:
    rules = yaml.safe_load((FOLDER / "trueup.rules.yml").read_text())["groups"][0]["rules"]
    queries = [*(rule["expr"] for rule in rules), *monitoring.expressions()]
    named = {name for query in queries for name in _NAME.findall(query)}
    assert (named - set(SERIES), len(named) > 5) == (set(), True)


def test_every_alert_has_a_test_in_which_it_fires() -> None:
    rules = yaml.safe_load((FOLDER / "trueup.rules.yml").read_text())["groups"][0]["rules"]
    tests = yaml.safe_load((FOLDER / "trueup.test.yml").read_text())["tests"]
    fired = {
        row["alertname"] for test in tests for row in test["alert_rule_test"] if row["exp_alerts"]
    }
    assert fired == {rule["alert"] for rule in rules}


def test_promtool_passes_rules_and_tests() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool (Debian's package prometheus) is not on this machine")
    for argv in (["check", "rules", "trueup.rules.yml"], ["test", "rules", "trueup.test.yml"]):
        done = subprocess.run([promtool, *argv], cwd=FOLDER, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_panels_do_not_overlap() -> None:
    panels = json.loads(monitoring.dashboard())["panels"]
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert (len(cells), max(x for x, _ in cells)) == (len(set(cells)), 23)
