"""RDMA devices of a node as sysfs shows them, and their problems.

Nothing here runs a command. GUIDs, LIDs and addresses identify a machine and are not read.
Source of the files: kernel.org Documentation/ABI/stable/sysfs-class-infiniband.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadInput
from .sysfs import entries, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# A device's kind follows from its port's link layer and whether software emulates it.
INFINIBAND, ETHERNET, SOFT_ROCE = "infiniband", "ethernet", "soft-roce"
_UP = ("ACTIVE", "LinkUp")
# Errors of the link and of the port, the same for all vendors (ABI/stable/sysfs-class-infiniband),
# and those of mlx5 (drivers/infiniband/hw/mlx5/counters.c), which tell of loss above the link.
# rxe and others have fewer: a counter that a device does not have is None.
_COUNTERS = {
    "counters": (
        *("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors"),
        *("port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_discards"),
        *("port_xmit_constraint_errors", "port_rcv_constraint_errors", "VL15_dropped"),
        *("local_link_integrity_errors", "excessive_buffer_overrun_errors"),
    ),
    "hw_counters": (
        *("rx_icrc_encapsulated", "out_of_sequence", "packet_seq_err", "rnr_nak_retry_err"),
        *("local_ack_timeout_err", "implied_nak_seq_err", "duplicate_request", "out_of_buffer"),
        *("req_cqe_error", "resp_cqe_error", "roce_adp_retrans", "roce_slow_restart"),
    ),
}
# Counters that stay zero on a working link. The others also grow where a receiver is slow or a peer
# restarts, and with every boot.
_FAULTS = (
    *("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors"),
    *("local_link_integrity_errors", "excessive_buffer_overrun_errors", "rx_icrc_encapsulated"),
)
# Names that Azure's HPC images give: InfiniBand, and the Ethernet function of accelerated
# networking (Azure/azhpc-images@8e9d055 components/install_azure_persistent_rdma_naming.sh).
_NAMES = {INFINIBAND: "mlx5_ib{}", ETHERNET: "mlx5_an{}"}
_MENDS = {
    "DOWN": "see `dmesg | grep mlx5`, reboot, and if it stays down report the VM to Azure",
    "INIT": "the subnet manager has not configured it: wait a minute, then report it to Azure",
    "ARMED": "the subnet manager is not done with it: wait a minute, then report it to Azure",
}


class Expected:
    """Expected facts of the InfiniBand devices, by the catalog and a size's layout.

    Args:
        expected: any of ``rate_gbps`` (Gb/s of one link), ``nics`` (their number), ``numa`` (PCI
            address or device name to NUMA node) and ``names`` (PCI address to device name). An
            absent or empty member is unknown and not judged.

    Raises:
        BadInput: a member that is none of these, or not of its type.
    """

    def __init__(self, expected: Mapping[str, Any]) -> None:
        unknown = sorted(set(expected) - {"rate_gbps", "nics", "numa", "names"})
        if unknown:
            raise BadInput(f"expected: there is no {', '.join(unknown)}")
        try:
            self.rate_gbps = float(expected["rate_gbps"]) if expected.get("rate_gbps") else None
            self.nics = int(expected["nics"]) if expected.get("nics") not in (None, "") else None
            self.numa = {str(key): int(node) for key, node in (expected.get("numa") or {}).items()}
            self.names = {
                str(key): str(name) for key, name in (expected.get("names") or {}).items()
            }
        except (AttributeError, TypeError, ValueError) as error:
            raise BadInput(f"expected: not numbers and mappings ({error})") from error


def read_devices(sysfs_root: str) -> list[dict[str, Any]]:
    """RDMA devices with the state of their first port (Azure's have one), in order of their names.

    ``kind`` is ``infiniband``, ``ethernet`` (the function of accelerated networking, or a RoCE
    adapter) or ``soft-roce`` (the kernel's rxe on an ordinary network interface). ``rate_gbps`` is
    in Gb/s as the link runs. A fact that the machine does not show is None.
    """
    devices = []
    for device in entries(Path(sysfs_root, "class", "infiniband")):
        port = device / "ports" / "1"
        row = read_port(device)
        # rxe alone tells its interface so (drivers/infiniband/sw/rxe/rxe_verbs.c, parent_show).
        parent = text_of(device / "parent")
        if parent:
            row.update(pci=None, numa_node=None)
        kind = {"InfiniBand": INFINIBAND, "Ethernet": ETHERNET}.get(row["link_layer"])
        interfaces = sorted(path.name for path in entries(device / "device" / "net"))
        devices.append(
            {
                **row,
                "kind": SOFT_ROCE if parent else kind,
                "physical_state": _after_number(port / "phys_state"),
                "firmware": text_of(device / "fw_ver") or None,
                "interfaces": [parent] if parent else interfaces,
                "counters": _counters(port),
            }
        )
    return devices


def read_port(device: Path) -> dict[str, Any]:
    """A device and its first port: name, PCI address, rate, state, link layer, NUMA node."""
    port = device / "ports" / "1"
    rate = re.match(r"([0-9]+(?:\.[0-9]+)?) Gb/sec", text_of(port / "rate"))
    node = text_of(device / "device" / "numa_node")
    # The device is a link to its place on the PCI bus.
    pci = (device / "device").resolve().name
    return {
        "device": device.name,
        "pci": pci if _PCI_ADDRESS.fullmatch(pci) else None,
        "rate_gbps": None if rate is None else float(rate.group(1)),
        "state": _after_number(port / "state"),
        "link_layer": text_of(port / "link_layer") or None,
        "numa_node": int(node) if node.isdecimal() else None,
    }


def counter_problems(devices: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each InfiniBand device that counted errors which a working link does not have.

    Counters run since the driver was loaded, so a figure above 0 says that there were errors, not
    when.
    """
    sentences = []
    for row in devices:
        counted = {name: row["counters"][name] for name in _FAULTS if row["counters"][name]}
        if row["kind"] == INFINIBAND and counted:
            words = ", ".join(f"{name} {value}" for name, value in counted.items())
            sentences.append(
                f"{row['device']}: errors counted since the driver was loaded: {words}, expected "
                "0: measure, look again, and report the VM to Azure if they grow."
            )
    return sentences


def _counters(port: Path) -> dict[str, int | None]:
    """Error counters by name; None where the device has none such or it cannot be read."""
    read: dict[str, int | None] = {}
    for folder, names in _COUNTERS.items():
        for name in names:
            text = text_of(port / folder / name)
            read[name] = int(text) if re.fullmatch(r"[0-9]+", text) else None
    return read


def read_driver(sysfs_root: str) -> str | None:
    """The checksum of the source that the loaded mlx5_core was built from; None where not loaded.

    ``modinfo -F srcversion mlx5_core`` gives that of the module on the disk: where they differ, a
    newer driver waits for a reboot.
    """
    return text_of(Path(sysfs_root, "module", "mlx5_core", "srcversion")) or None


def persistent_names(devices: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The name that each device gets by its place, PCI address to name, in the order of addresses.

    InfiniBand devices become mlx5_ib0, mlx5_ib1, ..., Mellanox's Ethernet functions mlx5_an0, ...;
    those of others (Azure's MANA, mana_0) keep their names.
    """
    names: dict[str, str] = {}
    for kind, pattern in _NAMES.items():
        places = sorted(
            row["pci"]
            for row in devices
            if row["kind"] == kind and row["pci"] and row["device"].startswith("mlx")
        )
        names.update({address: pattern.format(number) for number, address in enumerate(places)})
    return names


def problems(devices: Sequence[Mapping[str, Any]], expected: Expected) -> list[str]:
    """Problems of the InfiniBand devices, a sentence each with both figures and the fix.

    Ethernet functions and soft-RoCE are not InfiniBand and are not judged.
    """
    mine = [row for row in devices if row["kind"] == INFINIBAND]
    sentences = []
    if expected.nics is not None and len(mine) != expected.nics:
        sentences.append(
            f"{len(mine)} InfiniBand device(s), expected {expected.nics}: see `lspci -d 15b3:` and "
            "`dmesg | grep mlx5`; devices that lspci lacks are Azure's to mend (redeploy the VM), "
            "devices that only sysfs lacks are the driver's (reboot)."
        )
    for row in mine:
        sentences += _problems_of(row, expected)
    return sentences


def _problems_of(row: Mapping[str, Any], expected: Expected) -> list[str]:
    sentences = []
    device, state, physical = row["device"], row["state"], row["physical_state"]
    if (state, physical) != _UP:
        mend = _MENDS.get(state or "", "run `ibstat` and look into `dmesg | grep mlx5`")
        sentences.append(
            f"{device}: the link is {state or 'of no state'} "
            f"(physical state {physical or 'unknown'}), expected {_UP[0]} ({_UP[1]}): {mend}."
        )
    elif expected.rate_gbps is not None and row["rate_gbps"] != expected.rate_gbps:
        slower = row["rate_gbps"] is None or row["rate_gbps"] < expected.rate_gbps
        sentences.append(
            f"{device}: the link runs at {_number(row['rate_gbps'])} Gb/s, expected "
            f"{_number(expected.rate_gbps)} Gb/s: "
            + (
                "deallocate and start the VM, and if it stays slow report it to Azure."
                if slower
                else "correct rdma_gbps_per_nic of this size in catalog/vm_sizes.csv."
            )
        )
    node = expected.numa.get(row["pci"] or "", expected.numa.get(device))
    if node is not None and row["numa_node"] != node:
        sentences.append(
            f"{device}{_at(row)}: on NUMA node {_number(row['numa_node'])}, expected {node}: "
            "ranks and GPUs would be paired with a far adapter; report the VM to Azure, or correct "
            "the layout in catalog/topologies.yml."
        )
    name = expected.names.get(row["pci"] or "")
    if name is not None and device != name:
        sentences.append(
            f"{device}{_at(row)}: the device at this address is to be called {name}: "
            "reboot, or while nothing uses it run "
            "`udevadm trigger --action=add --subsystem-match=infiniband`."
        )
    return sentences


def warnings_of(devices: Sequence[Mapping[str, Any]], waagent_conf: str | None) -> list[str]:
    """A note for the user on IPoIB addresses; ``waagent_conf`` is the agent's configuration.

    Azure's agent gives the IPoIB interface its address where ``OS.EnableRDMA=y`` (waagent.conf in
    github.com/Azure/WALinuxAgent).
    """
    if agent_enables(waagent_conf) is not False or not has_infiniband(devices):
        return []
    warning = (
        "IPoIB interfaces get no address: OS.EnableRDMA is not y in /etc/waagent.conf; role rdma "
        "sets it and restarts the agent. MPI and NCCL do without"
    )
    return [warning]


def agent_enables(waagent_conf: str | None) -> bool | None:
    """Whether Azure's agent is to give IPoIB interfaces their addresses; None without the agent.

    Of several lines the last one counts.
    """
    if waagent_conf is None:
        return None
    values = re.findall(r"^[ \t]*OS\.EnableRDMA[ \t]*=[ \t]*(\S+)", waagent_conf, re.MULTILINE)
    return bool(values) and values[-1].lower() == "y"


def has_infiniband(devices: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of the devices is InfiniBand, not its Ethernet function or soft-RoCE."""
    return any(row["kind"] == INFINIBAND for row in devices)


def _at(row: Mapping[str, Any]) -> str:
    return f" ({row['pci']})" if row["pci"] else ""


def _number(value: float | None) -> str:
    return "an unknown number" if value is None else f"{value:g}"


def _after_number(path: Path) -> str | None:
    match = re.match(r"[0-9]+: (\w+)", text_of(path))
    return None if match is None else match.group(1)
