"""Filters over a run's records: the run's id, what is recorded already, and the best of it."""

from __future__ import annotations

import os
import time
from typing import Any

from ansible.errors import AnsibleFilterError
from trueup import record as records

DOCUMENTATION = r"""
name: trueup_runs
short_description: Run ids and recorded cases of a results folder
description:
  - C(trueup_run_id) gives the id of a new run, or of the run to resume.
  - C(recorded) gives the records of one benchmark and node in a run that ended ok.
  - C(recorded_like) keeps the records whose parameters are as given.
  - C(best) gives the record with the best value of a metric.
"""


def run_id(results_dir: str, resume: str = "") -> str:
    """A new run's id; with ``resume`` that run's, where ``last`` is the newest in the folder."""
    results_dir = os.path.expanduser(results_dir)
    if not resume:
        return records.new_run_id(time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
    runs = sorted(
        name
        for name in (os.listdir(results_dir) if os.path.isdir(results_dir) else [])
        if records.is_run_id(name)
    )
    if resume == "last" and runs:
        return runs[-1]
    if resume in runs:
        return resume
    known = f"the newest there is {runs[-1]}" if runs else "there is none"
    raise AnsibleFilterError(
        f"resume: no run {resume!r} in {results_dir} ({known}); leave resume out to start a new run"
    )


def recorded(results_dir: str, run: str, benchmark: str, node: str) -> list[dict[str, Any]]:
    """The records of ``benchmark`` on ``node`` (on any, when empty) in a run that ended ok, in the
    order in which they were made."""
    found = [
        record
        for _, record, _ in records.read_records(os.path.join(os.path.expanduser(results_dir), run))
        if record is not None
        and record["benchmark"] == benchmark
        and record["outcome"] == "ok"
        and (not node or node in record["nodes"])
    ]
    return sorted(found, key=lambda record: str(record["started_at"]))


def recorded_like(found: list[dict[str, Any]], wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of the records whose fields or parameters equal ``wanted``.

    Compared as text: a variable given as ``-e name=50`` is the text 50, and the record holds 50.
    """

    def value(record: dict[str, Any], name: str) -> Any:
        return record["parameters"].get(name, record.get(name))

    return [
        record
        for record in found
        if all(str(value(record, name)) == str(want) for name, want in wanted.items())
    ]


def metric(record: dict[str, Any], name: str, statistic: str = "median") -> float | None:
    """One figure of a record, or None where it has none of that name."""
    for row in record["metrics"]:
        if row["name"] == name and row.get("statistic") == statistic:
            return float(row["value"])
    return None


def best(
    found: list[dict[str, Any]], name: str, statistic: str = "median"
) -> dict[str, Any] | None:
    """The record with the best value of a metric by the metric's own direction, or None without
    any."""
    ranked = [
        (float(row["value"]) * (1 if row["direction"] == "lower" else -1), index)
        for index, record in enumerate(found)
        for row in record["metrics"]
        if row["name"] == name and row.get("statistic") == statistic
    ]
    return found[min(ranked)[1]] if ranked else None


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {
            "trueup_run_id": run_id,
            "recorded": recorded,
            "recorded_like": recorded_like,
            "metric": metric,
            "best": best,
        }
