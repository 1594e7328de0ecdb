"""Filter of the role devito: which layout won."""

from __future__ import annotations

import os
from typing import Any

from trueup import record as records
from trueup.benchmarks.devito.plan import fastest

DOCUMENTATION = r"""
name: trueup_devito
short_description: The fastest layout of Devito
description:
  - C(trueup_devito_fastest) takes the cases of the role's plan, the results folder, the run and the
    node, and says which of the layouts that are recorded won; empty where none is.
"""


def devito_fastest(cases: list[dict[str, Any]], results: str, run: str, host: str) -> str:
    """As ``trueup.benchmarks.devito.plan.fastest``, over the run's records."""
    found = records.read_records(os.path.join(os.path.expanduser(results), run))
    made = [record for _, record, _ in found if record is not None and record["outcome"] == "ok"]
    return fastest(cases, made, host)


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        return {"trueup_devito_fastest": devito_fastest}
