"""What GPUs say of themselves: read, or refused; and what of it is a fault."""

from __future__ import annotations

from typing import Any

import pytest
from trueup.errors import ParseError
from trueup.node.gpu_state import (
    QUERIES,
    REMAP_QUERY,
    XID_MEANING,
    devices,
    judge,
    parse_nvlinks,
    parse_query,
    parse_throttle,
    parse_xids,
)

GPU = "0001:00:00.0"
CLOCKS = (
    "pci.bus_id, clocks.current.sm [MHz], clocks.max.sm [MHz], clocks.current.memory [MHz],"
    " temperature.gpu\n"
)


def one(**cells: list[str]) -> dict[str, Any]:
    return devices({name: {GPU: row} for name, row in cells.items()}, None)[0]


def test_the_figures_of_a_gpu() -> None:
    text = f"{CLOCKS}00000001:00:00.0, 210 MHz, 1410 MHz, [N/A], 34\n"
    table = parse_query(text, QUERIES["clocks"])
    assert table == {GPU: ["210 MHz", "1410 MHz", "[N/A]", "34"]}
    found = devices({"clocks": table}, None)
    assert found == [
        {
            "pci": GPU,
            "name": None,
            "memory_bytes": None,
            "licence": None,
            "clocks": {"sm_mhz": 210, "max_sm_mhz": 1410, "memory_mhz": None},
            "temperature_celsius": 34,
            "ecc": None,
            "ecc_by_memory": None,
            "row_remap": None,
            "throttle_reasons": None,
            "nvlinks": None,
        }
    ]


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["[N/A]"] * 4, None),
        (
            ["0", "1", "[N/A]", "2"],
            {
                "volatile": {"corrected": 0, "uncorrected": 1},
                "aggregate": {"corrected": None, "uncorrected": 2},
            },
        ),
    ],
)
def test_ecc_counts(cells: list[str], wanted: Any) -> None:
    assert one(ecc=cells)["ecc"] == wanted


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["[N/A]"] * 4, None),
        (["1", "2", "Yes", "No"], [1, 2, True, False]),
        (["1", "2", "0", "1"], [1, 2, False, True]),
    ],
)
def test_row_remapping(cells: list[str], wanted: Any) -> None:
    found = one(remap=cells)["row_remap"]
    assert (found if found is None else list(found.values())) == wanted


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        ("0x0000000000000000", []),
        ("0x0000000000000001", ["gpu idle"]),
        ("0x48", ["hardware slowdown", "hardware thermal slowdown"]),
        ("0x1004", ["software power cap", "unknown (0x1000)"]),
        ("[N/A]", None),
        ("[Not Supported]", None),
    ],
)
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no GPU in its answer"),
        ("garbage\n", "not a GPU and not a link"),
        ("\t Link 0: 25 GB/s\n", "not a GPU and not a link"),
        ("GPU 1: x (UUID: GPU-1)\nGPU 2: x\n", "expected GPU 0"),
        ("GPU 0: x\nGPU 0: x\n", "expected GPU 1"),
        ("GPU 0: x\n Link 1: 25 GB/s\n", "expected link 0"),
        ("GPU 0: x\n Link 0: fast\n Link 1: 25 GB/s\n", "expected link 0"),
        ("GPU 0: x\n Link 0: 25 GB/s\n Link 1: fast\n", "not a GPU and not a link"),
    ],
)
def test_damaged_nvlinks_are_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_nvlinks(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the columns"),
        ("garbage\n", "expected the columns"),
        ("a, b, c, d, e\n", "expected the columns"),
        (CLOCKS, "no GPU in its answer"),
        (f"{CLOCKS}00000001:00:00.0, 1, 2, 3\n", "expected 5 cells, got 4"),
        (f"{CLOCKS}x, 1, 2, 3, 4\n", "expected a PCI address and 4 figures"),
        (f"{CLOCKS}00000001:00:00.0, 1, 2, 3, 4\n0001:00:00.0, 1, 2, 3, 4\n", "each GPU once"),
    ],
)
def test_an_unusable_answer_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_query(text, QUERIES["clocks"])


@pytest.mark.parametrize(
    "cells",
    [
        {"clocks": ["fast", "1", "1", "1"]},
        {"clocks": ["-1 MHz", "1", "1", "1"]},
        {"ecc": ["0", "0", "0", "many"]},
        {"remap": ["0", "0", "maybe", "No"]},
        {"remap": ["0", "0", "7", "No"]},
        {"throttle": ["0xzz"]},
    ],
)
def test_a_cell_that_is_not_understood_is_refused(cells: dict[str, list[str]]) -> None:
    with pytest.raises(ParseError, match="nvidia-smi: "):
        one(**cells)


def test_remapped_rows_have_a_column_of_their_own_name() -> None:
    text = "gpu_bus_id, a, b, c, d\n00000001:00:00.0, 0, 0, No, No\n"
    assert list(parse_query(text, REMAP_QUERY, "gpu_bus_id")) == [GPU]


@pytest.mark.parametrize(
    ("line", "gpu", "xid", "time"),
    [
        (
            "[ 4909.92] NVRM: Xid (PCI:0001:00:00): 79, pid=1122, GPU has fallen off the bus.",
            "0001:00:00.0",
            79,
            "4909.92",
        ),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained", "0000:01:00.0", 94, None),
        (
            "Nov 20 18:29:55 node kernel: NVRM: Xid (0000:01:00): 31, Ch 0b",
            "0000:01:00.0",
            31,
            "Nov 20 18:29:55",
        ),
        (
            "2026-11-20T09:13:00,5+00:00 NVRM: Xid (PCI:000d:00:00): 119, pid=1",
            "000d:00:00.0",
            119,
            "2026-11-20T09:13:00,5+00:00",
        ),
        (
            "[Fri Nov 20 09:13:00 2026] NVRM: Xid (PCI:0001:00:00): 48, x",
            GPU,
            48,
            "Fri Nov 20 09:13:00 2026",
        ),
    ],
)
def test_xids(line: str, gpu: str, xid: int, time: str | None) -> None:
    log = f"[    0.0] Linux version\n{line}\n[ 5.0] eth0: link up\n"
    assert parse_xids(log) == [{"gpu": gpu, "xid": xid, "line": line, "time": time}]


def test_a_log_without_xids_has_none() -> None:
    assert parse_xids("[ 1.0] NVRM: loading NVIDIA UNIX Open Kernel Module\n") == []


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
}


def test_a_healthy_gpu_has_no_problem() -> None:
    unknown = dict.fromkeys(HEALTHY)
    assert judge([HEALTHY, {**unknown, "pci": GPU}], [{"gpu": GPU, "xid": 31, "line": "x"}]) == []
    assert judge([], None) == []


@pytest.mark.parametrize(
    ("changes", "name", "reboot", "part"),
    [
        (
            {"row_remap": {"pending": True, "failure": False}},
            "row_remap_pending",
            True,
            "remapped when it is reset",
        ),
        (
            {"row_remap": {"pending": True, "failure": True}},
            "row_remap_failed",
            False,
            "could not remap",
        ),
        (
            {"ecc": {"volatile": {"uncorrected": 3}}},
            "ecc_uncorrected",
            False,
            "counts 3 memory error(s)",
        ),
        (
            {"throttle_reasons": ["hardware thermal slowdown"]},
            "gpu_slowed",
            False,
            "(hardware thermal slowdown) at 34 degrees Celsius",
        ),
    ],
)
def test_a_fault_is_the_only_problem(
    changes: dict[str, Any], name: str, reboot: bool, part: str
) -> None:
    found = judge([{**HEALTHY, **changes}], [])
    assert [(one["name"], one["reboot"]) for one in found] == [(name, reboot)]
    assert part in found[0]["message"]


@pytest.mark.parametrize("xid", sorted(XID_MEANING))
def test_each_xid_of_hardware_is_one_problem_a_gpu_with_its_meaning(xid: int) -> None:
    entry = {"gpu": GPU, "xid": xid, "line": f"NVRM: Xid (PCI:0001:00:00): {xid}, x", "time": None}
    found = judge([], [entry, entry, {**entry, "gpu": "0002:00:00.0"}])
    assert [one["name"] for one in found] == [f"xid_{xid}"] * 2
    assert f"XID {xid} ({XID_MEANING[xid]}) 2 time(s)" in found[0]["message"]
