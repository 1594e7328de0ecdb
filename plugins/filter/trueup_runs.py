"""The id of a run."""

from __future__ import annotations

import os
import time
from typing import Any

from ansible.errors import AnsibleFilterError
from trueup import record as records

DOCUMENTATION = r"""
name: trueup_runs
short_description: Run ids of a results folder
description:
  - C(trueup_run_id) gives the id of a new run, or of the run to resume.
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


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {"trueup_run_id": run_id}
