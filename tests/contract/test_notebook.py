"""The notebook answers its question from its logs: its cells run in their order."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "guides" / "which_gpu.ipynb"


def test_the_notebook_finds_the_cheapest_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "docs" / "start" / "logs", tmp_path / "start" / "logs")
    (tmp_path / "guides").mkdir()
    monkeypatch.chdir(tmp_path / "guides")
    mpl.use("agg")
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(cell["source"], names)
    price, fig = names["price"], names["fig"]
    bars = [bar.get_width() for bar in fig.axes[0].patches]
    assert bars == list(price) == sorted(price)
    assert fig.axes[0].get_xlabel() == "US$/million output tokens by gpu share"
    assert sorted(price.index) == sorted(names["SIZES"].values())
    rows = names["cost"].dropna(subset=[names["KEY"]]).drop_duplicates("vm_size")
    hours = rows.set_index("vm_size")["usd_per_hour"]
    rates = names["rates"].set_index("size")["value"]
    for size, usd in price.items():
        # An eighth of the node's price for one of its GPUs.
        assert usd == pytest.approx(hours[size] / 8 / 3600 / rates[size] * 1e6)
