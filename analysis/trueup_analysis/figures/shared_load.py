"""The I/O rate of shared storage at a stated latency, over all clients that measured it together.

Each client measures a workload at one queue depth after the other (``fio_iodepths``). A point is
all clients at one depth: their rates summed, and the mean latency of all their I/Os. Between two
points the rate at a latency is taken on the straight line between them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .health.required import why_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trueup_node.cases import Case

# Of the article's table: the target of EDA jobs, and about the edge of performance.
LATENCIES = (0.002, 0.007)
# The share of the measuring time in which all clients of a point must have measured.
TOGETHER = 0.9
_WORKLOADS = ("eda_frontend", "eda_backend", "eda_mixed")
# Parameters in which the points of a row agree.
_SAME = (
    "filesystem_source",
    "workload",
    "jobs",
    "block_bytes",
    "job_bytes",
    "runtime_seconds",
    "start_seconds",
)


@dataclass(frozen=True)
class Point:
    """All clients at one queue depth.

    Attributes:
        iodepth: of each process.
        rate: I/Os per second of all clients.
        bandwidth: bytes per second of all clients.
        latency: mean over all I/Os, in seconds.
    """

    iodepth: int
    rate: float
    bandwidth: float
    latency: float


def rows(
    cases: Iterable[Case], runs: Iterable[Mapping[str, Any]] = ()
) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each run, workload and storage, and notes on omissions.

    A client has a record of it at some queue depth, also a failed one. A depth
    that one of them lacks makes no point: it may have loaded the storage until it was lost.

    A row has run_id, filesystem_source, workload, clients, points, edge_rate and edge_latency (of
    the point with the highest rate), and for each of LATENCIES ``rate_at_2ms``,
    ``bandwidth_at_2ms`` and so on, which are missing where the points do not reach that latency;
    ``said`` then says why.

    Args:
        cases: of fio, failed ones too.
        runs: the manifests, which say why a client has no record.
    """
    by_key: dict[tuple[Any, ...], dict[int, dict[str, Case]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    # A node that measured the same twice: the later one counts, and one that is ok before all.
    for case in sorted(cases, key=lambda case: (case.outcome == "ok", case.started_at or "")):
        if case.benchmark == "fio" and _is_load(case):
            key = (case.run_id, *(case.parameters.get(name) for name in _SAME))
            by_key[key][case.parameters["iodepth"]][case.node] = case
    manifests = {str(run["run_id"]): run for run in runs}
    table_rows, notes = [], []
    for (run_id, source, workload, *_), depths in by_key.items():
        clients = {node for nodes in depths.values() for node in nodes}
        manifest = manifests.get(run_id, {})
        points = []
        for depth, nodes in sorted(depths.items()):
            reason = _left_out(nodes, clients, manifest)
            if reason:
                where = f"{workload} on {source} at queue depth {depth}"
                notes.append(f"{where}: {reason}: no sum is made.")
            else:
                points.append(_point(depth, list(nodes.values())))
        lost = _lost(clients, manifest)
        if lost:
            notes.append(f"{workload} on {source}: no record of {lost}; it is in no sum.")
        if points:
            row = {"run_id": run_id, "filesystem_source": source, "workload": workload}
            row["clients"] = len(clients)
            table_rows.append(row | _at_latencies(points))
    return table_rows, notes


def _left_out(nodes: Mapping[str, Case], clients: set[str], manifest: Mapping[str, Any]) -> str:
    """Why the clients at one depth make no point; empty where they make one."""
    without = []
    for client in sorted(clients):
        case = nodes.get(client)
        if case is None:
            without.append(f"{client} ({why_missing(client, manifest, 'fio')})")
        elif case.outcome != "ok":
            without.append(f"{client} ({case.outcome}: {case.reason})")
    return f"no figures of {', '.join(without)}" if without else _apart(list(nodes.values()))


def _lost(clients: set[str], manifest: Mapping[str, Any]) -> str:
    """The nodes of the run that were to measure and left no record, as far as it can be known."""
    whys = {
        node: why_missing(node, manifest, "fio")
        for node in manifest.get("expected") or ()
        if node not in clients
    }
    return ", ".join(
        f"{node} ({reason})"
        for node, reason in sorted(whys.items())
        if reason.startswith(("unreachable", "failed: ", "failed in fio"))
    )


def _is_load(case: Case) -> bool:
    parameters = case.parameters
    depth = parameters.get("iodepth")
    if parameters.get("workload") not in _WORKLOADS or not isinstance(depth, int) or depth <= 0:
        return False
    if case.outcome != "ok":
        return True
    figures = {(row.device, row.name, row.statistic) for row in case.figures}
    rates = [(device, name) for device, name, _ in figures if name.endswith("_iops")]
    timed = all((at, name.replace("iops", "latency"), "mean") in figures for at, name in rates)
    return timed and case.duration is not None and case.started_at is not None


def _point(depth: int, cases: Sequence[Case]) -> Point:
    rate = bandwidth = weighted = 0.0
    for case in cases:
        of_jobs = {(row.device, row.name, row.statistic): row.value for row in case.figures}
        for (device, name, _), value in of_jobs.items():
            kind, _, quantity = name.partition("_")
            if quantity == "bandwidth":
                bandwidth += value
            elif quantity == "iops":
                rate += value
                weighted += value * of_jobs[device, f"{kind}_latency", "mean"]
    return Point(depth, rate, bandwidth, weighted / rate if rate else 0.0)


def _apart(cases: Sequence[Case]) -> str:
    """A sentence on clients that measured less than TOGETHER of the time together; else empty.

    A case's duration is that of fio, which looks at all files before it measures; where
    ``start_seconds`` was given, fio was started so long after the beginning of the case.
    """
    seconds = float(cases[0].parameters["runtime_seconds"])
    begins = []
    for case in cases:
        begun = datetime.fromisoformat(case.started_at or "").timestamp()
        before = (case.parameters.get("start_seconds") or 0) + (case.duration or 0.0) - seconds
        begins.append((begun + before, case.node))
    (first, early), (last, late) = min(begins), max(begins)
    together = max(0.0, (seconds - (last - first)) / seconds)
    if together >= TOGETHER:
        return ""
    return (
        f"its {len(cases)} clients measured together for {100 * together:.0f} % of the time, and"
        f" {100 * TOGETHER:.0f} % are needed ({late} began {last - first:.0f} s after {early}; set"
        " fio_start_seconds and forks, or raise fio_runtime_seconds)"
    )


def _at_latencies(points: Sequence[Point]) -> dict[str, Any]:
    edge = max(points, key=lambda point: point.rate)
    row: dict[str, Any] = {
        "points": len(points),
        "edge_rate": edge.rate,
        "edge_latency": edge.latency,
    }
    sentences = []
    for latency in LATENCIES:
        name = f"{latency * 1000:g}ms"
        between = _between(points, latency)
        if between is None:
            sentences.append(_why_not(points, latency))
            continue
        (low, high), share = between
        row[f"rate_at_{name}"] = low.rate + share * (high.rate - low.rate)
        row[f"bandwidth_at_{name}"] = low.bandwidth + share * (high.bandwidth - low.bandwidth)
    return row | {"said": "; ".join(sentences)}


def _between(points: Sequence[Point], latency: float) -> tuple[tuple[Point, Point], float] | None:
    """The first two points, by load, between which the latency is reached, and how far."""
    for low, high in zip(points, points[1:], strict=False):
        if low.latency <= latency <= high.latency and low.latency < high.latency:
            return (low, high), (latency - low.latency) / (high.latency - low.latency)
    return None


def _why_not(points: Sequence[Point], latency: float) -> str:
    target = f"{latency * 1000:g} ms"
    first, last = points[0], points[-1]
    if len(points) == 1:
        return f"{target} not known: one queue depth only ({first.latency * 1000:.3g} ms)"
    if first.latency > latency:
        return f"{target} not reached: {first.latency * 1000:.3g} ms at the lowest queue depth"
    return f"{target} not reached: {last.latency * 1000:.3g} ms at the highest queue depth"
