"""What of a node's facts becomes a figure, a version, or a sentence."""

from __future__ import annotations

from typing import Any

import node_state as module
import pytest
from helpers import answer_of
from trueup_node.node import state as node_state

NODE = {
    "vm_size": "Standard_ND96isr_H100_v5",
    "cores": 96,
    "memory_bytes": 1.9e12,
    "kernel": "6.8.0-1021-azure",
    "gpus": [{"name": "NVIDIA H100 80GB HBM3"}] * 8,
    "nvme": [{"local": True}] * 8 + [{"local": False}],
}
IB = {
    "devices": [
        {
            "device": "mlx5_ib0",
            "kind": "infiniband",
            "rate_gbps": 400.0,
            "state": "ACTIVE",
            "firmware": "28.41.1000",
            "counters": {"symbol_error": 0, "link_downed": 3, "port_rcv_errors": None},
        },
        {"device": "mlx5_ib1", "kind": "infiniband", "rate_gbps": 400.0, "state": "DOWN"},
        {"device": "mlx5_an0", "kind": "ethernet", "rate_gbps": 100.0, "state": "ACTIVE"},
    ],
    "problems": [],
}
GPU = {
    "kernel_module": "580.173.02",
    "fabric_manager": "580.173.02",
    "problems": [],
    "devices": [
        {
            "ecc_by_memory": {"sram_corrected": 2, "dram_uncorrected": None},
            "row_remap": {"uncorrectable": 1, "pending": True, "failure": False},
            "nvlinks": {"total": 18, "active": 17},
            "fabric": {"state": "Completed", "status": "Success", "health": None},
            "clocks": {"sm_mhz": 1980, "max_sm_mhz": None},
        }
    ],
}


def rows(*facts: dict[str, Any] | None) -> dict[tuple[str, str | None], tuple[float, str]]:
    node, gpu, ib = facts
    return {
        (row.name, row.device): (row.value, row.unit)
        for row in node_state.metrics(node or {}, gpu, ib)
    }


def test_links_that_were_lost_have_rows_where_the_journal_was_read() -> None:
    device = {"device": "mlx5_ib0", "kind": "infiniband", "carrier_losses": 4}
    flaps = [{"device": "mlx5_ib0", "interface": "ib0", "losses": 1, "last": None}]
    found = rows({}, None, {"devices": [device], "flaps": flaps})
    assert (found["link_losses", "mlx5_ib0"], found["carrier_losses", "mlx5_ib0"]) == (
        (1.0, "1"),
        (4.0, "1"),
    )
    assert ("link_losses", "mlx5_ib0") not in rows({}, None, {"devices": [device], "flaps": None})


def test_versions_in_which_nodes_should_not_differ() -> None:
    assert node_state.software(NODE, GPU, IB) == {
        "kernel": "6.8.0-1021-azure",
        "nvidia_driver": "580.173.02",
        "fabric_manager": "580.173.02",
        "infiniband_firmware": "28.41.1000",
    }
    assert node_state.software({}, None, None) == {}


def run(capsys: pytest.CaptureFixture[str], **given: Any) -> dict[str, Any]:
    asked = {"run_id": "20261120T091300Z-7c1e", "node_name": "node-1", "node": NODE, **given}
    return answer_of(module, capsys, **asked)


def test_a_healthy_node_gives_a_record_that_is_ok(capsys: pytest.CaptureFixture[str]) -> None:
    record = run(capsys, gpu=GPU, ib=IB)["record"]
    assert (record["benchmark"], record["outcome"], record["gpus"]) == ("node_state", "ok", 8)
    assert record["vm_size"] == NODE["vm_size"]


def test_what_the_modules_found_wrong_makes_it_invalid(capsys: pytest.CaptureFixture[str]) -> None:
    gpu = {
        **GPU,
        "problems": [{"name": "xid", "message": "GPU 3 fell off the bus.", "reboot": True}],
    }
    ib = {**IB, "problems": ["mlx5_ib1 is DOWN."]}
    record = run(capsys, gpu=gpu, ib=ib)["record"]
    assert record["outcome"] == "invalid"
    assert record["reason"] == "GPU 3 fell off the bus. mlx5_ib1 is DOWN."


def test_check_mode_makes_no_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, _ansible_check_mode=True)["record"] is None
