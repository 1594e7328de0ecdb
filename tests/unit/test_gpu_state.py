"""What GPUs say of themselves: read, or refused; and what of it is a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_node.errors import ParseError
from trueup_node.node.gpu_state import (
    QUERIES,
    devices,
    judge,
    parse_fabric,
    parse_nvlinks,
    parse_query,
    parse_throttle,
)

DATA = Path(__file__).parent.parent / "data" / "nvidia_smi"
GPU = "0001:00:00.0"


def one(**cells: list[str]) -> dict[str, Any]:
    return devices({name: {GPU: row} for name, row in cells.items()}, None)[0]


@parametrized(("cells", "wanted"))
def test_ecc_counts(cells: list[str], wanted: Any) -> None:
    assert one(ecc=cells)["ecc"] == wanted


@parametrized(("cells", "wanted"))
def test_row_remapping(cells: list[str], wanted: Any) -> None:
    found = one(remap=cells)["row_remap"]
    assert (found if found is None else list(found.values())) == wanted


@parametrized(("cell", "wanted"))
def test_throttle_reasons(cell: str, wanted: Any) -> None:
    assert parse_throttle(cell) == wanted


# All links of a GPU are down, and nvidia-smi does not say how many these are.
DOWN = {"active": 0, "total": None, "inactive": [], "all_inactive": True}


def test_nvlinks() -> None:
    text = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)\n\t Link 0: 25 GB/s\n\t Link 1: <inactive>\n"
        "\t Link 2: 26.562 GB/s\n"
        "GPU 1: NVIDIA A10 (UUID: GPU-1)\nDevice does not have or support Nvlink\n"
        "GPU 2: NVIDIA A100 (UUID: GPU-2)\n"
        "NVML: Unable to retrieve Nvlink information as all links are inActive\n"
    )
    links = {"active": 2, "total": 3, "inactive": [1]}
    assert parse_nvlinks(text) == [links, None, DOWN]
    alone = text[: text.index("GPU 1")]
    assert parse_nvlinks(alone) == parse_nvlinks(alone.replace("GPU 0:", "GPU 5:")) == [links]


@parametrized(("text", "message"))
def test_damaged_nvlinks_are_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_nvlinks(text)


@parametrized(("text", "message"))
def test_an_unusable_answer_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_query(text, QUERIES["clocks"])


@parametrized("cells")
def test_a_cell_that_is_not_understood_is_refused(cells: dict[str, list[str]]) -> None:
    with pytest.raises(ParseError, match="nvidia-smi: "):
        one(**cells)


def test_the_links_of_a_size_that_lost_them_all() -> None:
    text = (DATA / "nvlink_inactive_nc80adis_h100_v5.txt").read_text(encoding="utf-8")
    found = [links and (links["active"], links["total"]) for links in parse_nvlinks(text)]
    assert found == [(0, None), (0, None)]


@parametrized("text")
def test_another_answer_to_the_fabric_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="nvidia-smi -q"):
        parse_fabric(text)


HEALTHY = {
    "pci": GPU,
    "temperature_celsius": 34,
    "ecc": {
        "volatile": {"corrected": 5, "uncorrected": 0},
        "aggregate": {"corrected": 9, "uncorrected": 1},
    },
    "row_remap": {"correctable": 1, "uncorrectable": 1, "pending": False, "failure": False},
    "throttle_reasons": ["gpu idle", "software power cap"],
    "nvlinks": {"active": 8, "total": 12, "inactive": [8, 9, 10, 11]},
    "fabric": {"state": "Completed", "status": "Success", "health": "Healthy"},
}


def test_a_healthy_gpu_has_no_problem() -> None:
    unknown = dict.fromkeys(HEALTHY)
    assert judge([HEALTHY, {**unknown, "pci": GPU}]) == []
    assert judge([]) == []


@parametrized(("changes", "name", "reboot", "part"))
def test_a_fault_is_the_only_problem(
    changes: dict[str, Any], name: str, reboot: bool, part: str
) -> None:
    found = judge([{**HEALTHY, **changes}])
    assert [(one["name"], one["reboot"]) for one in found] == [(name, reboot)]
    assert part in found[0]["message"]
