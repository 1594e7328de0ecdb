"""The role of each benchmark."""

from __future__ import annotations

import importlib

from trueup_node import benchmarks


def role_of(benchmark: str) -> str:
    """The role that measures a benchmark."""
    output = importlib.import_module(f"{benchmarks.__name__}.{benchmark}.output")
    return str(getattr(output, "ROLE", benchmark))
