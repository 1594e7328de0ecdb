"""A store of a year: 365 days of 600 nodes with 462 figures each, with a change planted in it.

No figure was measured. A figure is its usual value, times a constant of the node and device (1 %
standard deviation), times the noise of a day, Student's t with 5 degrees of freedom, as
``tests/planted_changes.py`` has it for a few runs.

Of such a store (365 files, 1.2 GB) duckdb 2.0 reads one figure in 1.5 s of CPU and 283 MB, pyarrow
in 9.5 s and 222 MB; two days in 1.6 s and 731 MB, and in 1.8 s and 226 MB. A history of the figure
takes 9.5 s: 365 files are opened for records and figures. duckdb would save at most a third of
that for a library of 66 MB.

python bench/year.py FOLDER [DAYS [NODES]]
"""

from __future__ import annotations

import datetime as dt
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from trueup_analysis import packed
from trueup_analysis.load import Loaded, metadata
from trueup_node.cases import MEASURED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DAYS, NODES = 365, 600
FIRST = dt.date(2025, 11, 21)
SIZE = "Standard_ND96isr_H100_v5"
# From this day on a benchmark is slower on all nodes, since a new driver; and one node's disk.
DRIVER_DAY, DISK_DAY = 0.7, 0.4
_GPUS = tuple(f"gpu{number}" for number in range(8))
_RAILS = tuple(f"mlx5_ib{number}" for number in range(8))
_DISKS = tuple(f"nvme{number}n1" for number in range(8))
_PAIRS = tuple(f"{one}>{other}" for one in _GPUS for other in _GPUS if one != other)


class Kind(NamedTuple):
    """Some figures of a node: one for each device, size and statistic."""

    benchmark: str
    case: str
    metric: str
    unit: str
    direction: str
    value: float
    noise: float
    devices: Sequence[str | None] = (None,)
    sizes: Sequence[int | None] = (None,)
    statistics: Sequence[str | None] = (None,)


_SIZES = tuple(2**power for power in range(3, 33))
_REPEATS = ("median", "min", "max")
_FIO = [
    Kind("fio", "scratch", name, unit, "higher", value, 0.015, _DISKS, statistics=_REPEATS)
    for name, unit, value in (
        *(("read_bandwidth", "byte/s", 6e9), ("write_bandwidth", "byte/s", 3e9)),
        *(("read_rate", "1/s", 8e5), ("write_rate", "1/s", 4e5)),
    )
]
_COUNTERS = [
    Kind("node_state", "state", f"counter_{number}", "1", "none", 18.0, 0.0, _GPUS)
    for number in range(16)
]
_ALONE = [
    Kind("node_state", "state", name, "1", "none", 8.0, 0.0)
    for name in ("gpus", "rdma_nics", "nvme_disks", "cores", "memory", "hardware_xids")
]
KINDS: Sequence[Kind] = (
    Kind("nccl", "all_reduce", "busbw", "byte/s", "higher", 484e9, 0.004, sizes=_SIZES),
    Kind("nccl", "all_reduce", "latency", "s", "lower", 3e-5, 0.02, sizes=_SIZES),
    Kind(
        *("ib", "loopback", "ib_write_bandwidth", "bit/s", "higher", 391e9, 0.002),
        *(_RAILS, _SIZES[13:21]),
    ),
    *(
        Kind("gemm", "all", f"gemm_{kind}", "flop/s", "higher", 765e12, 0.006, _GPUS)
        for kind in ("bf16", "fp16", "fp64")
    ),
    *(
        Kind("gpu_copy", "all", f"{way}_bandwidth", "byte/s", "higher", 55e9, 0.004, devices)
        for way, devices in (("h2d", _GPUS), ("d2h", _GPUS), ("p2p", _PAIRS))
    ),
    *_FIO,
    *(
        Kind("stream", "all", f"{name}_rate", "byte/s", "higher", 6e11, 0.006, statistics=_REPEATS)
        for name in ("copy", "scale", "add", "triad")
    ),
    *_COUNTERS,
    *_ALONE,
)
# Of a record the figures, in the order of KINDS.
ROWS = [
    (kind, device, size, statistic)
    for kind in KINDS
    for device in kind.devices
    for size in kind.sizes
    for statistic in kind.statistics
]
BENCHMARKS = tuple(dict.fromkeys(kind.benchmark for kind in KINDS))


def day_name(number: int) -> str:
    return (FIRST + dt.timedelta(days=number)).isoformat()


def _frames(nodes: int) -> packed.Frames:
    """The records of a day, without values and times."""
    by_benchmark = {name: [row for row in ROWS if row[0].benchmark == name] for name in BENCHMARKS}
    records = []
    for number in range(nodes):
        for benchmark, rows in by_benchmark.items():
            records.append(
                {
                    "run_id": "20251121T050000Z-00aa",
                    "benchmark": benchmark,
                    "case": rows[0][0].case,
                    "outcome": "ok",
                    "nodes": f"h100-{number:04d}",
                    "node_count": 1,
                    "vm_size": SIZE,
                    "region": "westeurope",
                    "started_at": "2025-11-21T05:05:00Z",
                    "source": f"results/20251121T050000Z-00aa/{benchmark}.{number}.json",
                    "provenance": MEASURED,
                    "metrics": [
                        {
                            "name": kind.metric,
                            "value": 1.0,
                            "unit": kind.unit,
                            "direction": kind.direction,
                            "device": device,
                            "message_bytes": size,
                            "statistic": statistic,
                            "n": 5 if statistic else None,
                        }
                        for kind, device, size, statistic in rows
                    ],
                }
                | dict.fromkeys(("parameters", "system", "environment"), "{}")
                | {"command": "[]", "software": '{"kernel":"5.15","nvidia_driver":"570.86"}'}
            )
    return packed.from_rows(records)


class Year:
    """The days of a year, made one after the other."""

    def __init__(self, days: int, nodes: int) -> None:
        self.days, self._nodes = days, nodes
        self._held = _frames(nodes)
        scatter = np.random.default_rng(7)
        self._rows = len(ROWS)
        # A record's rows are those of its benchmark: ROWS is in that order already.
        usual = np.array([kind.value for kind, *_ in ROWS])
        steady = np.array([kind.noise == 0 for kind, *_ in ROWS])
        constants = np.exp(scatter.normal(0, 0.01, (nodes, self._rows)))
        statistic = np.array([{"min": 0.98, "max": 1.02}.get(row[3] or "", 1.0) for row in ROWS])
        first = {row[:3]: number for number, row in reversed([*enumerate(ROWS)])}
        # Repeats of one figure share its constant and the noise of the day.
        self._of = np.array([first[row[:3]] for row in ROWS])
        self._level = usual * np.where(steady, 1.0, constants[:, self._of]) * statistic
        self._noise = np.array([kind.noise for kind, *_ in ROWS])

    def day(self, number: int) -> packed.Frames:
        """The records of a day."""
        scatter = np.random.default_rng(zlib.crc32(b"%d" % number))
        noise = scatter.standard_t(5, (self._nodes, self._rows))[:, self._of] / np.sqrt(5 / 3)
        values: NDArray[np.float64] = self._level * np.exp(noise * self._noise)
        is_new = number >= self.days * DRIVER_DAY
        for row, (kind, device, *_) in enumerate(ROWS):
            if kind.metric == "gemm_bf16" and is_new:
                values[:, row] *= 0.95
            if (kind.metric, device) == ("read_bandwidth", "nvme3n1") and (
                number >= self.days * DISK_DAY
            ):
                values[min(17, self._nodes - 1), row] *= 0.6
        name = day_name(number)
        run = f"{name.replace('-', '')}T050000Z-00aa"
        records = self._held.records.copy()
        records["run_id"] = _renamed(records["run_id"], lambda _: run)
        records["started_at"] = _renamed(records["started_at"], lambda _: f"{name}T05:05:00Z")
        records["source"] = _renamed(
            records["source"], lambda text: text.replace("20251121T050000Z-00aa", run)
        )
        if is_new:
            records["software"] = _renamed(
                records["software"], lambda text: text.replace("570.86", "580.17")
            )
        figures = self._held.figures.assign(value=values.ravel())
        return packed.Frames(records, figures)


def _renamed(column: pd.Series, rename: Any) -> pd.Series:
    return column.cat.rename_categories([rename(text) for text in column.cat.categories])


def write(folder: Path, days: int = DAYS, nodes: int = NODES) -> None:
    """A file for each day, as ``trueup pack --by-day`` writes it, but not read back."""
    folder.mkdir(parents=True, exist_ok=True)
    year = Year(days, nodes)
    for number in range(days):
        held = year.day(number)
        run = str(held.records["run_id"].iloc[0])
        manifest = {
            "schema": "trueup.run/1",
            "run_id": run,
            "count": number + 1,
            "playbook": "playbooks/check.yml",
            "expected": sorted(held.records["nodes"].unique()),
        }
        loaded = Loaded(*held, runs=[manifest])
        packed.write(held, metadata(loaded), folder / f"{day_name(number)}.parquet", check=False)


if __name__ == "__main__":
    write(Path(sys.argv[1]), *map(int, sys.argv[2:]))
