"""Time and cost of a run: planned cases, times of earlier records, prices. Unknown figures are
counted, never guessed."""

from __future__ import annotations

import calendar
import os
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from trueup_node.record import manifest_of, read_records, run_counts

# How many runs back a time is looked for, from the newest.
_RUNS = 10
Kind = tuple[str, Optional[str]]


class Work(NamedTuple):
    """A benchmark on a node: ``cases`` are those of its plan, None where it has none; ``notes`` its
    sentences for the reader."""

    host: str
    size: str | None
    benchmark: str
    cases: int | None
    notes: tuple[str, ...] = ()


class Forecast(NamedTuple):
    """The expected time and cost of a run's measuring, configuring apart.

    Attributes:
        nodes, cases: how many there are.
        seconds: of the cases with an earlier record; nodes measure a benchmark side by side, and
            wait for each other.
        untimed: cases without an earlier record of their benchmark and size.
        unplanned: benchmarks on a node of which no cases are known.
        usd: of ``seconds``, for the nodes with a price.
        unpriced: nodes without a price.
    """

    nodes: int
    cases: int
    seconds: float
    untimed: int
    unplanned: int
    usd: float
    unpriced: int

    def sentence(self, most: float | None = None) -> str:
        """All of it, for a reader; ``most`` is the limit in US$."""
        parts = [f"{self.nodes} node(s), {self.cases} case(s)"]
        if self.unplanned:
            parts.append(f"cases of {self.unplanned} benchmark(s) not known")
        if self.cases > self.untimed:
            parts.append(f"measuring takes {self.seconds / 60:.1f} min by earlier records")
            if self.unpriced < self.nodes:
                parts.append(f"which bills {self.usd:.2f} US$")
        if self.untimed:
            parts.append(f"time of {self.untimed} case(s) not known (no earlier record)")
        if self.unpriced:
            parts.append(f"price of {self.unpriced} node(s) not known")
        if most is not None and (self.untimed or self.unplanned or self.unpriced):
            parts.append(f"trueup_max_usd ({most:g} US$) limits only what is known of it")
        return "; ".join(parts) + "."

    def refusal(self, most: float | None) -> str | None:
        """Why the run may not begin; None where it may."""
        if most is None or self.usd <= most:
            return None
        return (
            f"{self.sentence()} That is above trueup_max_usd ({most:g} US$): measure less"
            " (trueup_benchmarks, --limit), or raise it."
        )


def forecast(
    work: Sequence[Work], seconds: Mapping[Kind, float], prices: Mapping[str, float | None]
) -> Forecast:
    """The expected time and cost.

    Args:
        work: the benchmarks and their cases.
        seconds: mean time of a case by benchmark and size, where there are earlier records.
        prices: US$ an hour of each node; None where none is known.
    """
    slowest: dict[str, float] = {}
    for job in work:
        took = seconds.get((job.benchmark, job.size), 0.0) * (job.cases or 0)
        slowest[job.benchmark] = max(slowest.get(job.benchmark, 0.0), took)
    total = sum(slowest.values())
    return Forecast(
        nodes=len(prices),
        cases=sum(job.cases or 0 for job in work),
        seconds=total,
        untimed=sum(job.cases or 0 for job in work if (job.benchmark, job.size) not in seconds),
        unplanned=sum(job.cases is None for job in work),
        usd=total / 3600 * sum(price for price in prices.values() if price is not None),
        unpriced=sum(price is None for price in prices.values()),
    )


def earlier(results: str, kinds: set[Kind]) -> dict[Kind, float]:
    """Mean time of a case in seconds, by benchmark and size, in the newest run that has ok records
    of it; a key without one is missing."""
    folder = os.path.expanduser(results)
    mean_times: dict[Kind, float] = {}
    for run in list(run_counts(folder))[: -_RUNS - 1 : -1]:
        if kinds <= set(mean_times):
            break
        times: dict[Kind, list[float]] = {}
        for _, record, _ in read_records(os.path.join(folder, run)):
            if record is not None and record["outcome"] == "ok":
                _time_of(record, times)
        for kind in kinds & set(times) - set(mean_times):
            mean_times[kind] = sum(times[kind]) / len(times[kind])
    return mean_times


def whole_run(results: str, playbook: str, hosts: Collection[str]) -> float | None:
    """Seconds of the newest run of a playbook over these hosts that came to its end; None without
    one."""
    folder = os.path.expanduser(results)
    for run in list(run_counts(folder))[: -_RUNS - 1 : -1]:
        manifest = manifest_of(folder, run)
        try:
            begun, ended = (
                calendar.timegm(time.strptime(str(manifest[name]), "%Y-%m-%dT%H:%M:%SZ"))
                for name in ("started_at", "finished_at")
            )
        except (KeyError, ValueError):
            continue
        alike = manifest.get("playbook") == playbook and manifest.get("expected") == sorted(hosts)
        if alike and ended > begun:
            return float(ended - begun)
    return None


def _time_of(record: Mapping[str, Any], times: dict[Kind, list[float]]) -> None:
    # An imported log's is 0: no log says it.
    took = record.get("duration_seconds")
    if isinstance(took, (int, float)) and took > 0:
        times.setdefault((record["benchmark"], record.get("vm_size")), []).append(float(took))
