"""The role of each benchmark."""

from __future__ import annotations

import importlib


def role_of(benchmark: str) -> str:
    """The role that measures a benchmark."""
    output = importlib.import_module(f"trueup_node.benchmarks.{benchmark}.output")
    return str(getattr(output, "ROLE", benchmark))
