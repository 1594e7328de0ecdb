"""What of a node's facts becomes a figure, a version, or a sentence."""

from __future__ import annotations

from typing import Any

import node_state as module
import pytest
from helpers import answer_of
from trueup.node import state as node_state

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


def test_every_known_figure_has_a_row_and_no_other() -> None:
    assert rows(NODE, GPU, IB) == {
        ("cores", None): (96.0, "1"),
        ("memory", None): (1.9e12, "byte"),
        ("gpus", None): (8.0, "1"),
        # Azure's remote disks are NVMe disks too on some sizes.
        ("nvme_disks", None): (8.0, "1"),
        ("link_rate", "mlx5_ib0"): (400e9, "bit/s"),
        ("symbol_errors", "mlx5_ib0"): (0.0, "1"),
        ("link_downs", "mlx5_ib0"): (3.0, "1"),
        # It shows a rate, and carries nothing.
        ("link_rate", "mlx5_ib1"): (0.0, "bit/s"),
        ("ethernet_link_rate", "mlx5_an0"): (100e9, "bit/s"),
        ("rdma_nics", None): (2.0, "1"),
        ("ecc_sram_corrected", "gpu0"): (2.0, "1"),
        ("rows_remapped_uncorrectable", "gpu0"): (1.0, "1"),
        ("row_remap_pending", "gpu0"): (1.0, "1"),
        ("row_remap_failures", "gpu0"): (0.0, "1"),
        ("nvlinks_active", "gpu0"): (17.0, "1"),
        ("fabric_ready", "gpu0"): (1.0, "1"),
        ("gpu_clock", "gpu0"): (1.98e9, "Hz"),
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


def test_a_gpu_with_all_nvlinks_down_has_none() -> None:
    gpu = {**GPU, "devices": [{"nvlinks": {"active": 0, "total": None, "all_inactive": True}}]}
    assert rows({}, gpu, None) == {("nvlinks_active", "gpu0"): (0.0, "1")}


@pytest.mark.parametrize(
    ("fabric", "value"),
    [
        (
            {"state": "In Progress", "status": None, "health": None},
            {("fabric_ready", "gpu0"): (0.0, "1")},
        ),
        (None, {}),
    ],
)
def test_a_gpu_without_a_fabric_has_no_row(
    fabric: dict[str, Any] | None, value: dict[Any, Any]
) -> None:
    assert rows({}, {"devices": [{"fabric": fabric}]}, None) == value


def test_what_nobody_looked_at_has_no_rows() -> None:
    assert set(rows({"cores": None, "nvme": None}, None, None)) == set()


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


@pytest.mark.parametrize(
    ("xids", "counted"),
    [
        (None, {}),
        ([], {("hardware_xids", None): (0.0, "1")}),
        (
            [
                {"kind": "xid", "code": 79, "device": "a", "count": 2, "severity": "fail"},
                {"kind": "xid", "code": 13, "device": "a", "count": 5, "severity": "info"},
                {"kind": "xid", "code": 145, "device": "a", "count": 3, "severity": "warn"},
                {"kind": "xid", "code": 145, "device": "a", "count": 1, "severity": "warn"},
                {"kind": "sxid", "code": 20034, "device": "b", "count": 1, "severity": "fail"},
            ],
            {("hardware_xids", None): (3.0, "1"), ("xid_145", "a"): (4.0, "1")},
        ),
        # Nobody has judged it.
        ([{"kind": "xid", "code": 79, "device": "a", "count": 2}], {}),
    ],
)
def test_xids_are_counted_where_the_kernel_log_could_be_read(
    xids: list[dict[str, Any]] | None, counted: dict[Any, Any]
) -> None:
    assert rows(None, {"xids": xids}, None) == counted
