"""Synthetic runs of a fleet with a change planted between two of them, or none.

No figure was measured. A figure is its size's usual value, times a constant of the node and device
(1 % standard deviation, the same in all runs), times the noise of a run: Student's t with 5 degrees
of freedom, so that outliers occur, scaled to the standard deviation below.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any, NamedTuple

from trueup_node.cases import Case, Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZE = "Standard_ND96isr_H100_v5"
GIB = 2**30


class Kind(NamedTuple):
    """A figure of the fleet: its benchmark, case, devices, usual value and noise of a run."""

    benchmark: str
    case: str
    metric: str
    unit: str
    devices: tuple[str | None, ...]
    value: float
    noise: float
    message_bytes: int | None = None
    direction: str = "higher"


_GPUS = tuple(f"gpu{number}" for number in range(8))
_RAILS = tuple(f"mlx5_ib{number}" for number in range(8))
_DISKS = tuple(f"nvme{number}n1" for number in range(8))
KINDS = (
    Kind("nccl", "all_reduce-n1", "busbw", "byte/s", (None,), 484e9, 0.004, 16 * GIB),
    Kind("nccl", "all_reduce-n1", "latency", "s", (None,), 3e-5, 0.02, 8, "lower"),
    Kind("ib", "write_bw-loopback", "ib_write_bandwidth", "bit/s", _RAILS, 391e9, 0.002, 2**23),
    Kind("gemm", "bf16", "gemm_bf16", "flop/s", _GPUS, 765e12, 0.006),
    Kind("gpu_copy", "all", "h2d_bandwidth", "byte/s", _GPUS, 55e9, 0.004),
    Kind("fio", "read-scratch", "read_bandwidth", "byte/s", _DISKS, 6e9, 0.015),
    Kind("stream", "streaming", "triad_rate", "byte/s", (None,), 6.5e11, 0.006),
)


class Planted(NamedTuple):
    """A change.

    Attributes:
        metric: the figure that it changes. size: by which share.
        nodes: the numbers of the changed nodes; device: the only changed one, None for all.
        setting: the setting that changes with it, None where nothing does.
    """

    metric: str
    size: float
    nodes: frozenset[int]
    device: str | None = None
    setting: str | None = None

    def acts_on(self, metric: str, number: int, device: str | None) -> bool:
        """Whether the change acts on a figure of a node."""
        is_device = self.device in {None, device}
        return metric == self.metric and number in self.nodes and is_device


def settings(planted: Planted | None, number: int, *, is_after: bool) -> dict[str, str]:
    """The settings of a node: those of the planted change have another value after it."""
    usual = {"nvidia_driver": "570.86", "kernel": "5.15", "image": "24.06", "nccl": "2.23"}
    changes = planted is not None and planted.setting in usual and is_after
    if changes and planted is not None and number in planted.nodes:
        usual[str(planted.setting)] += ".1"
    return usual


def run(
    scatter: random.Random, constants: dict[Any, float], planted: Planted | None, **when: Any
) -> list[Case]:
    """The records of one run.

    Args:
        when: ``nodes``, how many; ``is_after``, whether the change counts; ``hour``, of the day.
    """
    nodes, is_after, hour = when["nodes"], when["is_after"], when["hour"]
    run_id = f"202611{'20' if is_after else '13'}T{hour:02d}0000Z-{'bb' if is_after else 'aa'}00"
    cases = []
    for number in range(nodes):
        by_case: dict[tuple[str, str], list[Figure]] = {}
        for kind in KINDS:
            rows = _figures(kind, number, scatter, constants, planted if is_after else None)
            by_case.setdefault((kind.benchmark, kind.case), []).extend(rows)
        set_on = settings(planted, number, is_after=is_after)
        for (benchmark, case), figures in by_case.items():
            cases.append(
                Case(
                    nodes=(f"h100-{number:04d}",),
                    vm_size=SIZE,
                    benchmark=benchmark,
                    case=case,
                    outcome="ok",
                    reason=None,
                    parameters={},
                    software=set_on,
                    figures=figures,
                    run_id=run_id,
                    node_count=1,
                    started_at=f"2026-11-{'20' if is_after else '13'}T{hour:02d}:05:00Z",
                )
            )
    return cases


def _figures(
    kind: Kind,
    number: int,
    scatter: random.Random,
    constants: dict[Any, float],
    planted: Planted | None,
) -> Iterator[Figure]:
    for device in kind.devices:
        place = kind.metric, number, device
        constant = constants.setdefault(place, math.exp(scatter.gauss(0, 0.01)))
        value = kind.value * constant * math.exp(_noise(scatter, kind.noise))
        if planted is not None and planted.acts_on(kind.metric, number, device):
            sign = 1 if kind.direction == "lower" else -1
            value *= 1 + sign * planted.size
        yield Figure(
            kind.metric,
            value,
            kind.unit,
            kind.direction,
            device=device,
            message_bytes=kind.message_bytes,
        )


def _noise(scatter: random.Random, deviation: float) -> float:
    """Student's t with 5 degrees of freedom of that standard deviation."""
    squares = sum(scatter.gauss(0, 1) ** 2 for _ in range(5))
    return scatter.gauss(0, 1) / math.sqrt(squares / 5) * deviation / math.sqrt(5 / 3)


def _some(scatter: random.Random, nodes: int, share: float) -> frozenset[int]:
    return frozenset(scatter.sample(range(nodes), max(1, round(share * nodes))))


PLANTS: dict[str, Callable[[random.Random, int], Planted]] = {
    "one node": lambda s, n: Planted("busbw", s.uniform(0.05, 0.3), _some(s, n, 0)),
    "one rail": lambda s, n: Planted(
        "ib_write_bandwidth", s.uniform(0.1, 0.5), _some(s, n, 0), s.choice(_RAILS)
    ),
    "one image": lambda s, n: Planted(
        "triad_rate", s.uniform(0.04, 0.15), _some(s, n, 0.3), None, "image"
    ),
    "fleet, 3 %": lambda s, n: Planted(
        "gemm_bf16", 0.03, frozenset(range(n)), None, "nvidia_driver"
    ),
    "fleet, 5 %": lambda s, n: Planted("busbw", 0.05, frozenset(range(n)), None, "nccl"),
    "fleet, 10 %": lambda s, n: Planted("triad_rate", 0.1, frozenset(range(n)), None, "kernel"),
    "driver on half": lambda s, n: Planted(
        "gemm_bf16", s.uniform(0.05, 0.12), _some(s, n, 0.5), None, "nvidia_driver"
    ),
    "hour of day": lambda s, n: Planted(
        "read_bandwidth", s.uniform(0.06, 0.2), frozenset(range(n)), None, "hour of day"
    ),
    "one slow disk": lambda s, n: Planted(
        "read_bandwidth", s.uniform(0.25, 0.6), _some(s, n, 0), s.choice(_DISKS)
    ),
}
