"""The serving schema: figures of a server under load, by whichever tool and engine they were
measured. Every room of such a tool has these metrics, checks and charts."""

from __future__ import annotations

import math
from typing import Any, List, Mapping, Optional, Tuple

from .record import Metric
from .view import Chart, Measure, Timed, View, Work, latency, rate

# The latencies of the schema; all are seconds.
LATENCIES = ("ttft", "tpot", "itl", "e2el")
# Parameters that state the load of a server. The loads of a sweep differ in these.
LOADS = ("request_rate", "max_concurrency")
# The least time between tokens of one stream that was received token by token: 10 000 tokens a
# second are more than any server sends to one client. Shorter times are those that the client takes
# to decode pieces that it read at once.
LEAST_TOKEN_SECONDS = 1e-4
_RATES = (
    *("request_throughput", "output_token_throughput", "total_token_throughput"),
    *("request_goodput", "peak_output_token_throughput"),
)
_COUNTS = {
    "requests_completed": "higher",
    "requests_failed": "lower",
    "input_tokens": "none",
    "output_tokens": "none",
    "answers_in_one_piece": "lower",
    "peak_concurrent_requests": "none",
}


def rows(
    figures: Mapping[str, Optional[float]],
    latencies: Mapping[str, Mapping[str, float]],
) -> List[Metric]:
    """The figures of one run as metrics: the rates of ``_RATES`` [1/s], latencies [s] with the
    statistics of each, and the counts of ``_COUNTS`` [1]. Other figures are left out."""
    completed = figures.get("requests_completed")
    n = None if completed is None else int(completed)
    metrics = [
        Metric(name, value, "1/s", "higher", statistic="single", n=n)
        for name in _RATES
        if (value := figures.get(name)) is not None
    ]
    metrics += [
        Metric(name, value, "s", "lower", statistic=statistic, n=n)
        for name, statistics in latencies.items()
        for statistic, value in statistics.items()
    ]
    metrics += [
        Metric(name, float(count), "1", better, statistic="single", n=1)
        for name, better in _COUNTS.items()
        if (count := figures.get(name)) is not None
    ]
    return metrics


def spread_error(
    short: str, statistics: Mapping[str, float], deviation: Optional[float], slack: float
) -> Optional[Tuple[str, str]]:
    """The contradiction between mean, median and percentiles of any times above zero: its
    statistic and a sentence. None without one.

    Args:
        short: the latency's name in the sentence: "TTFT".
        statistics: by ``mean``, ``median``, ``p99`` and so on.
        slack: how far a printed figure may be off.
    """
    mean, median = statistics.get("mean"), statistics.get("median")
    curve = sorted(
        [(float(name[1:]), value) for name, value in statistics.items() if name.startswith("p")]
        + ([] if median is None else [(50.0, median)])
    )
    for (lower, below), (upper, above) in zip(curve, curve[1:]):
        if below > above + slack or (lower == upper and abs(above - below) > slack):
            return "median", f"{short}: P{upper:g} is below P{lower:g}"
    if mean is None:
        return None
    # Half of the values are the median at least, all are above zero.
    if median is not None and mean < median / 2 - slack:
        return "mean", f"{short}: a mean of {mean:g} s with a median of {median:g} s"
    if deviation is None:
        return None
    if median is not None and abs(mean - median) > deviation + slack:
        return "std", f"{short}: mean and median are further apart than the standard deviation"
    for percent, value in curve:
        if 50 < percent < 100:
            odds = math.sqrt(percent / (100 - percent))
            if value > mean + deviation * odds * 1.02 + slack:
                return "std", (
                    f"{short}: P{percent:g} is too far from the mean for this standard deviation"
                )
    return None


_OUTPUT = rate("output_token_throughput", "output tokens", "tokens/s")
_TOTAL = rate("total_token_throughput", "tokens in total", "tokens/s")
_REQUESTS = rate("request_throughput", "requests", "requests/s")
_GOODPUT = rate("request_goodput", "goodput", "requests/s")
_MEASURES = {name: latency(name, name.upper(), "ms") for name in LATENCIES}
_TTFT, _TPOT, _ITL, _E2EL = (median for median, _ in _MEASURES.values())


def serving_view(*, figures: Tuple[Measure, ...] = (), **more: Any) -> View:
    """The view of a tool that measures servers.

    Args:
        figures: of this tool alone, in the table behind those of all.
        more: of ``View``: title, identity, apart, method and so on.
    """
    return View(
        headlines=(_OUTPUT, _TOTAL, _REQUESTS, _E2EL),
        timed=Timed("requests_completed", divided_by="request_throughput"),
        figures=(
            *(_TOTAL, _REQUESTS, _GOODPUT),
            *(measure for pair in _MEASURES.values() for measure in pair),
            Measure("requests_failed", "requests failed", "1", "lower", "", grows=False),
            *figures,
        ),
        charts=tuple(
            Chart(
                "lines",
                measures,
                over,
                f"{label} over {load}",
                log=True,
                statistics=statistics,
                along=("num_prompts",),
            )
            for over, load in (
                ("max_concurrency", "requests in flight"),
                ("request_rate", "request rate"),
            )
            for label, measures, statistics in (
                ("Throughput", (_OUTPUT, _TOTAL), ()),
                ("TTFT and E2EL", (_TTFT, _E2EL), ("median", "p99")),
                ("TPOT and ITL", (_TPOT, _ITL), ("median", "p99")),
            )
        ),
        work=(
            Work("million output tokens", "million_output_tokens", "output_token_throughput", 1e6),
            Work("million total tokens", "million_total_tokens", "total_token_throughput", 1e6),
        ),
        resource="gpus",
        spread=("tensor_parallel", "data_parallel"),
        loads=LOADS,
        **more,
    )
