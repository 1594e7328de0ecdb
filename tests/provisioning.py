"""Recipes of deployments on Azure, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from trueup_analysis.figures import azure, prices
from trueup_controller.azure.catalog import Catalog
from trueup_controller.azure.parameters import Parameters, read

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "azure"
NOW = datetime(2026, 11, 23, 10, 0, tzinfo=UTC)
RUN = "20261123T100000Z-7c1e"
# The catalog's.
RECIPES = [
    *("cpu-llama", "devito-hbv3", "eda-lustre", "eda-storage", "gromacs-hbv3", "gromacs-nc-a100"),
    *(
        "llama-a100",
        "nd-h100-deepseek",
        "nd-h200-deepseek",
        "ndm-a100-megatron",
        "ndv4-training",
        "nx-avd",
    ),
]
# A document that a rule takes one thing after another from.
FULL: dict[str, Any] = {
    "owner": "geophysics",
    "region": "southcentralus",
    "ssh_from": ["203.0.113.7/32"],
    "login": {"size": "Standard_D4d_v5"},
}


@cache
def known() -> Catalog:
    """The checkout's catalog."""
    return azure.known(prices.read_prices(ROOT / "catalog" / "prices.csv"))


def recipe(name: str) -> dict[str, Any]:
    """A recipe of the catalog."""
    path = ROOT / "catalog" / "azure_recipes" / f"{name}.yml"
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def made(nodes: Mapping[str, Any] | None = None, **given: Any) -> Parameters:
    """Parameters of one document: HBv3 nodes, unless others are given."""
    whole = {**FULL, "nodes": {"size": "Standard_HB120rs_v3", **(nodes or {})}, **given}
    return read("test", [whole], known(), NOW)
