"""The id of a run: trueup.record as a filter."""

from __future__ import annotations

from typing import Any

from trueup import record

DOCUMENTATION = r"""
name: trueup_runs
short_description: Run ids of a results folder
description:
  - C(trueup_run_id) gives the id of a new run, or of the run to resume.
"""


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {"trueup_run_id": record.run_of}
