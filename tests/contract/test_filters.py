"""A filter is an adapter: its name says whose it is, and what it works out stands in a room."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "plugins" / "filter"
FILES = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", FILES)
def test_every_filters_name_begins_with_trueup(name: str) -> None:
    filters = importlib.import_module(name).FilterModule().filters()
    assert [found for found in filters if not found.startswith("trueup_")] == []
    assert name.startswith("trueup_") is True
