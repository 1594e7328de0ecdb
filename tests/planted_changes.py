"""Generated runs of a fleet with a change planted between two of them, or none.

A figure is its size's usual value, times a constant of the node and device (1 % standard deviation,
the same in all runs), times the noise of a run. There are two kinds of noise. SYNTHETIC: Student's
t with 5 degrees of freedom, so that outliers occur, scaled to the standard deviations below.
MEASURED (tests/data/noise/measured.json): deviations of real repeats, drawn at random, scaled to
the spread that real outputs of the tool have.

``python tests/planted_changes.py 300`` counts how many of so many changes are found.
"""

from __future__ import annotations

import json
import math
import random
import sys
from itertools import cycle, islice
from pathlib import Path
from statistics import NormalDist, median, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from trueup_analysis.figures.compare.changes import UNCHANGED, UNSURE, Change, Comparison
from trueup_analysis.figures.compare.comparing import compare
from trueup_analysis.figures.compare.sides import Side
from trueup_node.cases import Case, Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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


class Noise(NamedTuple):
    """The noise of a run.

    Attributes:
        spreads: the scale of each metric, as a logarithm.
        draw: a deviation of scale 1.
        deviation: the standard deviation of these.
    """

    spreads: Mapping[str, float]
    draw: Callable[[random.Random], float]
    deviation: float


def _students_t(scatter: random.Random) -> float:
    """Student's t with 5 degrees of freedom, of standard deviation 1."""
    squares = sum(scatter.gauss(0, 1) ** 2 for _ in range(5))
    return scatter.gauss(0, 1) / math.sqrt(squares / 5) / math.sqrt(5 / 3)


def _measured() -> Noise:
    """The deviations of all repeats, each series scaled to a median absolute deviation of 1 normal
    standard deviation, and the spread of each metric."""
    path = Path(__file__).parent / "data" / "noise" / "measured.json"
    held = json.loads(path.read_text(encoding="utf-8"))
    pool = []
    for series in held["repeats"]:
        deviations = series["deviations"]
        scale = median(map(abs, deviations)) / NormalDist().inv_cdf(0.75)
        pool += [deviation / scale for deviation in deviations]
    spreads = {row["metric"]: row["spread"] for row in held["spreads"]}
    return Noise(spreads, lambda scatter: scatter.choice(pool), stdev(pool))


SYNTHETIC = Noise({kind.metric: kind.noise for kind in KINDS}, _students_t, 1.0)
MEASURED = _measured()


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
    scatter: random.Random,
    constants: dict[Any, float],
    planted: Planted | None,
    noise: Noise = SYNTHETIC,
    **when: Any,
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
            rows = _figures(kind, number, scatter, constants, planted if is_after else None, noise)
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
    noise: Noise,
) -> Iterator[Figure]:
    for device in kind.devices:
        place = kind.metric, number, device
        constant = constants.setdefault(place, math.exp(scatter.gauss(0, 0.01)))
        deviation = noise.spreads[kind.metric] * noise.draw(scatter)
        value = kind.value * constant * math.exp(deviation)
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
NODES = (12, 24, 48)


class Outcome(NamedTuple):
    """A planted change and its comparison.

    Attributes:
        is_visible: whether a perfect test sees such a change nine times in ten.
        is_found: the figure is reported.
        is_caused: the right setting stands first, and the right nodes are named.
        others: other figures that are reported.
    """

    is_visible: bool
    is_found: bool
    is_caused: bool
    others: int


def compared(seed: int, plant: Any, noise: Noise) -> tuple[Planted | None, Comparison]:
    """Two runs of a fleet, with a change between them or without."""
    scatter, nodes = random.Random(seed), NODES[seed % len(NODES)]
    planted = None if plant is None else plant(scatter, nodes)
    hour = 16 if planted is not None and planted.setting == "hour of day" else 9
    constants: dict[Any, float] = {}
    sides = (
        Side(name, run(scatter, constants, planted, noise, nodes=nodes, is_after=after, hour=at))
        for name, after, at in (("before", False, 9), ("after", True, hour))
    )
    return planted, compare(*sides)


def claimed(comparison: Comparison) -> list[Change]:
    """The figures that are reported as changed."""
    return [item for item in comparison.changes if item.verdict not in {UNCHANGED, UNSURE}]


def outcome(seed: int, plant: Any, noise: Noise) -> Outcome:
    """A planted change: whether it is found, with its cause."""
    planted, comparison = compared(seed, plant, noise)
    if planted is None:
        raise ValueError("no change is planted")
    nodes = NODES[seed % len(NODES)]
    hits = [item for item in claimed(comparison) if item.figure.metric == planted.metric]
    others = len(claimed(comparison)) - len(hits)
    if not hits:
        return Outcome(is_visible(planted, nodes, noise), False, False, others)
    first = [item.setting for item in hits[0].explanations][:1]
    named = {int(shift.place.node.rpartition("-")[2]) for shift in hits[0].worse}
    is_whole = len(planted.nodes) == nodes or named == planted.nodes
    is_cause = first == [planted.setting] * (planted.setting is not None)
    return Outcome(is_visible(planted, nodes, noise), True, is_cause and is_whole, others)


def is_visible(planted: Planted, nodes: int, noise: Noise) -> bool:
    """Whether a test that knows the noise and looks at the changed places alone sees the change in
    nine of ten cases, when 1 in 100 histories without a change may be reported."""
    kind = next(kind for kind in KINDS if kind.metric == planted.metric)
    devices = 1 if planted.device is not None else len(kind.devices)
    sign = 1 if kind.direction == "lower" else -1
    error = noise.spreads[kind.metric] * noise.deviation * math.sqrt(2)
    shift = abs(math.log1p(sign * planted.size)) * math.sqrt(len(planted.nodes) * devices) / error
    places = nodes * sum(len(kind.devices) for kind in KINDS)
    normal = NormalDist()
    return shift >= normal.inv_cdf(1 - 0.01 / 2 / places) + normal.inv_cdf(0.9)


def outcomes(count: int, noise: Noise) -> list[Outcome]:
    """Of so many planted changes, each kind in turn."""
    plants = islice(cycle(PLANTS.values()), count)
    return [outcome(seed, plant, noise) for seed, plant in enumerate(plants)]


def inventing(count: int, noise: Noise) -> list[int]:
    """The seeds of histories without a change in which one is reported."""
    return [
        seed for seed in range(10_000, 10_000 + count) if claimed(compared(seed, None, noise)[1])
    ]


def _report(count: int) -> None:
    for name, noise in (("synthetic", SYNTHETIC), ("measured", MEASURED)):
        every = outcomes(count, noise)
        visible = [item for item in every if item.is_visible]
        print(
            f"{name} noise: {count} planted changes, {count - len(visible)} beyond a perfect test."
            f" Of the other {len(visible)}: {sum(item.is_found for item in visible)} found,"
            f" {sum(item.is_caused for item in visible)} with the right nodes and setting first;"
            f" another figure reported too in {sum(item.others > 0 for item in every)}."
            f" Of {count} histories without a change {len(inventing(count, noise))} report one."
        )


if __name__ == "__main__":
    _report(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
