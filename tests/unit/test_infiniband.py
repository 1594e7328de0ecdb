"""RDMA devices from sysfs, their names, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from helpers import parametrized
from machines import DATA, build, description, root_of
from trueup_controller.sizes import read_sizes
from trueup_filters import rdma_expected
from trueup_node.errors import BadInput
from trueup_node.node.infiniband import (
    Expected,
    counter_problems,
    persistent_names,
    problems,
    read_devices,
)

if TYPE_CHECKING:
    from pathlib import Path

CATALOG = DATA.parents[2] / "catalog"
NDV4_NUMA = {
    f"010{number}:00:00.0": node for number, node in enumerate((1, 1, 0, 0, 3, 3, 2, 2), start=1)
}
NDV4 = {"rate_gbps": 200, "nics": 8, "numa": NDV4_NUMA}


def devices_of(machine: str) -> list[dict[str, Any]]:
    return read_devices(str(root_of(machine) / "sys"))


def changed(tmp_path: Path, number: int, **changes: Any) -> list[dict[str, Any]]:
    """The devices of an NDv4 where device ``number`` is otherwise."""
    machine = description("nd96asr_v4")
    machine["infiniband"][number].update(changes)
    return read_devices(str(build(machine, tmp_path) / "sys"))


def test_a_slower_link(tmp_path: Path) -> None:
    (problem,) = problems(changed(tmp_path, 2, rate="100 Gb/sec (4X EDR)"), Expected(NDV4))
    assert problem.startswith("mlx5_ib2: the link runs at 100 Gb/s, expected 200 Gb/s: deallocate")


def test_a_faster_link_is_the_catalogs_to_mend(tmp_path: Path) -> None:
    (problem,) = problems(changed(tmp_path, 2, rate="400 Gb/sec (4X NDR)"), Expected(NDV4))
    assert "runs at 400 Gb/s, expected 200 Gb/s: correct rdma_gbps_per_nic" in problem


@parametrized(("state", "physical"))
def test_a_link_that_is_not_up(tmp_path: Path, state: str, physical: str) -> None:
    rows = changed(tmp_path, 7, state=state, phys_state=physical, rate="10 Gb/sec (4X SDR)")
    (problem,) = problems(rows, Expected(NDV4))
    word, after = state[3:] or "of no state", physical[3:] or "unknown"
    said = f"mlx5_ib7: the link is {word} (physical state {after}), expected ACTIVE"
    assert problem.startswith(said)


def test_a_device_on_the_wrong_numa_node(tmp_path: Path) -> None:
    rows = changed(tmp_path, 4, numa_node=0)
    (problem,) = problems(rows, Expected(NDV4))
    assert problem.startswith("mlx5_ib4 (0105:00:00.0): on NUMA node 0, expected 3: ranks and GPUs")
    by_name = Expected({"numa": {"mlx5_ib4": 3}})
    assert problems(rows, by_name) == [problem]
    (unknown,) = problems([{**rows[4], "numa_node": None}], by_name)
    assert "on NUMA node an unknown number, expected 3" in unknown


def test_devices_whose_names_have_been_swapped(tmp_path: Path) -> None:
    machine = description("nd96asr_v4")
    names = persistent_names(devices_of("nd96asr_v4"))
    first, second = machine["infiniband"][:2]
    first["device"], second["device"] = second["device"], first["device"]
    found = problems(
        read_devices(str(build(machine, tmp_path) / "sys")), Expected({**NDV4, "names": names})
    )
    assert [problem.split(": reboot")[0] for problem in found] == [
        "mlx5_ib0 (0102:00:00.0): the device at this address is to be called mlx5_ib1",
        "mlx5_ib1 (0101:00:00.0): the device at this address is to be called mlx5_ib0",
    ]


@parametrized(("given", "message"))
def test_expectations_that_are_none(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Expected(given)


def test_soft_roce_is_never_infiniband(tmp_path: Path) -> None:
    """As rxe0 on eth1 looks: no device link, and the interface's name in ``parent``."""
    device = tmp_path / "class" / "infiniband" / "rxe0"
    (device / "ports" / "1").mkdir(parents=True)
    for name, text in {
        "parent": "eth1",
        "fw_ver": "",
        "ports/1/link_layer": "Ethernet",
        "ports/1/state": "4: ACTIVE",
        "ports/1/phys_state": "5: LinkUp",
        "ports/1/rate": "2.5 Gb/sec (1X SDR)",
    }.items():
        (device / name).write_text(text + "\n")
    (row,) = read_devices(str(tmp_path))
    assert (row["kind"], row["interfaces"], row["rate_gbps"]) == ("soft-roce", ["eth1"], 2.5)
    assert (row["pci"], row["numa_node"]) == (None, None)
    assert persistent_names([row]) == {}
    (problem,) = problems([row], Expected({"nics": 1, "rate_gbps": 200}))
    assert problem.startswith("0 InfiniBand device(s), expected 1")


def test_the_interfaces_and_firmware_of_a_device(tmp_path: Path) -> None:
    root = build(description("nd96asr_v4"), tmp_path)
    device = root / "sys" / "class" / "infiniband" / "mlx5_ib0"
    (device / "device" / "net" / "ib0").mkdir(parents=True)
    (device / "fw_ver").write_text("20.31.1014\n")
    row = read_devices(str(root / "sys"))[0]
    assert (row["interfaces"], row["firmware"]) == (["ib0"], "20.31.1014")


def test_error_counters(tmp_path: Path) -> None:
    root = build(description("nd96asr_v4"), tmp_path)
    port = root / "sys" / "class" / "infiniband" / "mlx5_ib2" / "ports" / "1"
    for name, text in {
        "counters/symbol_error": "12\n",
        "counters/link_downed": "0\n",
        "counters/port_xmit_discards": "7\n",
        "counters/port_rcv_errors": "N/A (no PMA)\n",
        "hw_counters/out_of_sequence": "18446744073709551615\n",
        "hw_counters/roce_adp_retrans": "3\n",
    }.items():
        (port / name).parent.mkdir(exist_ok=True)
        (port / name).write_text(text)
    rows = read_devices(str(root / "sys"))
    counters = rows[2]["counters"]
    assert {name: value for name, value in counters.items() if value is not None} == {
        "symbol_error": 12,
        "link_downed": 0,
        "port_xmit_discards": 7,
        "out_of_sequence": 2**64 - 1,
        "roce_adp_retrans": 3,
    }
    assert set(rows[0]["counters"]) == set(counters)
    # Counters alone are no problem of a device.
    assert problems(rows, Expected(NDV4)) == []
    (problem,) = counter_problems(rows)
    assert problem.startswith(
        "mlx5_ib2: errors counted since the driver was loaded: symbol_error 12,"
    )


@parametrized(("size", "machine", "numa"))
def test_the_catalogs_expectation_fits_the_described_machine(
    size: str, machine: str, numa: dict[str, int] | None
) -> None:
    row = read_sizes(str(CATALOG / "vm_sizes.csv"))[size]
    node = {"vm_size": size, "catalog": row}
    expected = rdma_expected(node, "catalog/topologies.yml")
    assert (expected["rate_gbps"], expected["nics"], expected.get("numa")) == (
        row["rdma_gbps_per_nic"],
        row["rdma_nics"],
        numa,
    )
    assert problems(devices_of(machine), Expected(expected)) == []
