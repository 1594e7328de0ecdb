"""NVLinks, their fabric and codes of the kernel log, as `trueup health` judges them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fleet
import made
import pytest
import yaml
from helpers import parametrized

ROOT = Path(__file__).resolve().parents[3]
CATALOG = yaml.safe_load((ROOT / "catalog" / "expectations.yml").read_text(encoding="utf-8"))
NC, ND = "Standard_NC80adis_H100_v5", "Standard_ND96isr_H100_v5"


def judged(
    call_trueup: Any, folder: Path, size: str, rows: list[tuple[str, str, float]]
) -> dict[str, tuple[str, str]]:
    """Metric to verdict and reason or source of a node with these rows (metric, device, value)."""
    [state] = [
        record
        for record in fleet.fleet(1, faults={}, noisy_pair=None)
        if record["benchmark"] == "node_state"
    ]
    figures = [
        {"name": name, "value": value, "unit": "1", "direction": "none", "device": device}
        for name, device, value in rows
    ]
    made.write(folder, [{**state, "vm_size": size, "metrics": figures}])
    done = call_trueup("health", next(folder.rglob("*.json")), "--format", "json", "--passes")
    return {
        row["metric"]: (row["verdict"], row["reason"] or row["what"])
        for row in json.loads(done.out)["tables"][0]["rows"]
        if row["measured"] is not None
    }


@parametrized(("size", "links", "word"))
def test_the_active_nvlinks_of_a_gpu_are_those_of_its_size(
    call_trueup: Any, tmp_path: Path, size: str, links: float, word: str
) -> None:
    result = judged(call_trueup, tmp_path, size, [("nvlinks_active", "gpu0", links)])
    assert result == {"nvlinks_active": (word, "active NVLinks of each GPU")}


@pytest.mark.parametrize(("ready", "word"), [(0, "fail"), (1, "pass")])
def test_a_gpu_must_be_registered_with_its_fabric(
    call_trueup: Any, tmp_path: Path, ready: float, word: str
) -> None:
    result = judged(call_trueup, tmp_path, ND, [("fabric_ready", "gpu0", ready)])
    assert [verdict for verdict, _ in result.values()] == [word]


def test_codes_to_be_watched_are_warnings_with_their_number(
    call_trueup: Any, tmp_path: Path
) -> None:
    rows = [("xid_137", "0001:00:00.0", 3), ("sxid_20009", "0000:c3:00.0", 1)]
    result = judged(call_trueup, tmp_path, ND, [*rows, ("xid_999", "0001:00:00.0", 1)])
    refused = "an NVLink access was refused, of hardware or of the application"
    assert result == {
        "xid_137": ("warn", f"XID 137 in the kernel log: {refused}"),
        "sxid_20009": (
            "warn",
            "SXid 20009 in the kernel log: an NVLink repeats packets, or receives many errors",
        ),
        "xid_999": ("warn", "XID 999 is not in catalog/faults/xid.yml"),
    }


def sizes_of(metric: str) -> set[str]:
    """The sizes that the catalog expects a figure of."""
    return {
        size
        for entry in CATALOG["expectations"]
        if entry["metric"] == metric
        for value in entry["values"]
        for size in value["sizes"]
    }


def test_sizes_with_nvswitches_have_a_fabric_but_for_the_a100() -> None:
    a100 = {size for size in sizes_of("nvlinks_active") if "A100" in size or "96asr_v4" in size}
    bridged = {size for size in sizes_of("nvlinks_active") if "_NC" in size} | {
        "Standard_ND40rs_v2"
    }
    assert sizes_of("fabric_ready") == sizes_of("nvlinks_active") - a100 - bridged
