"""A synthetic fleet: records of ND H100 v5 nodes as the benchmarks would leave them, with faults
planted. No figure was ever measured; healthy ones scatter by up to 1 % above what is expected.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from helpers import a_record

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

__all__ = ["COUNTERS", "FAULTS", "NOISY_PAIR", "SIZE", "fleet", "node"]

SIZE = "Standard_ND96isr_H100_v5"
RUN_ID = "20261120T091300Z-7c1e"
GIB = 1024**3
# Node number -> what is wrong with it.
FAULTS = {
    17: "slow NIC",
    101: "wrong link rate",
    202: "cold GPU",
    303: "bad NVLink",
    404: "wrong driver",
    505: "silent socket fall-back",
}
# Both are fast with all others.
NOISY_PAIR = (8, 9)
_ROUNDS = 5
# What a healthy GPU counts none of.
COUNTERS = (
    *("ecc_sram_corrected", "ecc_sram_uncorrected", "ecc_dram_corrected", "ecc_dram_uncorrected"),
    *("rows_remapped_uncorrectable", "row_remap_pending", "row_remap_failures"),
)
_IB = {"gdr": "yes", "queue_pairs": "1", "connection": "RC", "link": "IB"}
_NCCL = {"operation": "all_reduce", "datatype": "float", "reduction": "sum", "transport": "nvlink"}
# Bus bandwidth of a node in which one GPU's NVLink is bad, byte/s.
_SLOW_RING = 236e9


def node(number: int) -> str:
    """A node's name."""
    return f"h100-{number:04d}"


def fleet(
    nodes: int = 600,
    *,
    faults: Mapping[int, str] = FAULTS,
    noisy_pair: tuple[int, int] | None = NOISY_PAIR,
    missing: Container[int] = (),
    sweep: Callable[[float], dict[str, Any]] | None = None,
) -> Iterator[dict[str, Any]]:
    """Every record of the fleet: five a node, and pairs of neighbours at five distances.

    Args:
        faults: node number to what is wrong with it.
        noisy_pair: two nodes that are slow with each other; None for none.
        missing: nodes without any record, also of pairs.
        sweep: from a node's bus bandwidth at 16 GiB, which a bad NVLink then lowers too, the fields
            of its NCCL record in place of that one size.
    """
    scatter = random.Random(7)
    for number in range(nodes):
        if number not in missing:
            yield from _alone(number, faults.get(number), scatter, sweep)
    for number in range(nodes):
        for other in range(number + 1, min(number + _ROUNDS + 1, nodes)):
            if number not in missing and other not in missing:
                yield _pair(number, other, scatter, noisy=(number, other) == noisy_pair)


def _alone(
    number: int,
    fault: str | None,
    scatter: random.Random,
    sweep: Callable[[float], dict[str, Any]] | None,
) -> Iterator[dict[str, Any]]:
    def about(value: float) -> float:
        return value * scatter.uniform(1.0, 1.01)

    driver = "570.211.01" if fault == "wrong driver" else "580.173.02"
    state = [
        _row("cores", 96, "1", "none"),
        _row("memory", 1.96e12, "byte", "none"),
        _row("rdma_nics", 8, "1", "none"),
        _row("gpus", 8, "1", "none"),
        _row("nvme_disks", 8, "1", "none"),
        _row("hardware_xids", 0, "1", "none"),
    ]
    for nic in range(8):
        slow = fault == "wrong link rate" and nic == 2
        state.append(
            _row("link_rate", 200e9 if slow else 400e9, "bit/s", "none", device=f"mlx5_ib{nic}")
        )
    state += [
        _row("gpu_memory", 79.6 * 2**30, "byte", "none", device=f"gpu{gpu}") for gpu in range(8)
    ]
    state += [
        _row(counter, 0, "1", "none", device=f"gpu{gpu}")
        for gpu in range(8)
        for counter in COUNTERS
    ]
    for gpu in range(8):
        state += [
            _row(name, value, "1", "none", device=f"gpu{gpu}")
            for name, value in (("nvlinks_active", 18), ("fabric_ready", 1))
        ]
    yield _record(number, "node_state", "state", state, software={"nvidia_driver": driver}, gpus=8)
    loopback = [260e9 if fault == "slow NIC" and nic == 5 else about(391e9) for nic in range(8)]
    written = [
        _row(
            *("ib_write_bandwidth", rate, "bit/s", "higher"),
            device=f"mlx5_ib{nic}",
            message_bytes=8 * 1024**2,
        )
        for nic, rate in enumerate(loopback)
    ]
    yield _record(number, "ib", "write_bw-loopback", written, parameters=_IB)
    products = [640e12 if fault == "cold GPU" and gpu == 3 else about(765e12) for gpu in range(8)]
    computed = [
        _row("gemm_bf16", rate, "flop/s", "higher", device=f"gpu{gpu}")
        for gpu, rate in enumerate(products)
    ]
    yield _record(number, "gemm", "bf16", computed, parameters={"program": "pytorch"}, gpus=8)
    bad = fault == "bad NVLink"
    copies = [
        _row(f"{way}_bandwidth", about(55e9), "byte/s", "higher", device=f"gpu{gpu}")
        for way in ("h2d", "d2h")
        for gpu in range(8)
    ]
    copies += [
        _row(
            "p2p_bandwidth",
            190e9 if bad and 6 in (one, other) else about(390e9),
            "byte/s",
            "higher",
            device=f"gpu{one}>gpu{other}",
        )
        for one in range(8)
        for other in range(8)
        if one != other
    ]
    program = {"program": "nvbandwidth", "peer_test": "read"}
    yield _record(number, "gpu_copy", "all", copies, parameters=program, gpus=8)
    yield _collective(number, fault, about(484e9), sweep)


def _collective(
    number: int, fault: str | None, busbw: float, sweep: Callable[[float], dict[str, Any]] | None
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "case": "all_reduce-n1",
        "metrics": [
            _row("busbw", busbw, "byte/s", "higher", message_bytes=16 * GIB),
            _row("wrong", 0, "1", "lower", message_bytes=16 * GIB),
        ],
        "parameters": _NCCL,
        "gpus": 8,
    }
    if sweep:
        fields.update(sweep(_SLOW_RING if fault == "bad NVLink" else busbw))
    if fault == "silent socket fall-back":
        fields["outcome"] = "invalid"
        fields["reason"] = "NCCL used sockets where NVLink was expected"
        fields["parameters"] = {**fields["parameters"], "transport": "socket"}
    return _record(number, "nccl", **fields)


def _pair(one: int, other: int, scatter: random.Random, *, noisy: bool) -> dict[str, Any]:
    made = _record(
        one,
        "ib",
        f"write_bw-{node(one)}-{node(other)}",
        [
            _row(
                "ib_write_bandwidth",
                210e9 if noisy else 391e9 * scatter.uniform(1.0, 1.01),
                "bit/s",
                "higher",
                message_bytes=8 * 1024**2,
            )
        ],
        parameters=_IB,
    )
    return {**made, "nodes": [node(one), node(other)], "node_count": 2}


def _row(name: str, value: float, unit: str, direction: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "direction": direction, **more}


def _record(
    number: int, benchmark: str, case: str, metrics: list[dict[str, Any]], **changes: Any
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "run_id": RUN_ID,
        "benchmark": benchmark,
        "case": case,
        "nodes": [node(number)],
        "vm_size": SIZE,
        "region": "eastus",
        "offer": "payg",
        "threads_per_rank": 1,
        "command": ["made"],
        "duration_seconds": 1.0,
        "metrics": metrics,
    }
    about: dict[str, Any] = {"parameters": {}, "environment": {}, "software": {}, "system": {}}
    return a_record(**{**made, **about, **changes})
