"""Result of the parser of vLLM's benchmark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Mapping, NamedTuple, Optional

from ...record import Metric
from ...serving import rows


class Latency(NamedTuple):
    """Seconds over the successful requests; ``percentiles`` as printed, 99.0 among them or not."""

    mean: float
    median: float
    percentiles: Mapping[float, float]
    deviation: Optional[float] = None

    @property
    def least(self) -> float:
        """The least of these figures."""
        return min(self.mean, self.median, *self.percentiles.values())

    def statistics(self) -> Dict[str, float]:
        """Mean, median and percentiles by name; of the 50th the median, which it is compared
        with."""
        percentiles = sorted(self.percentiles.items())
        named = {f"p{percent:g}": value for percent, value in percentiles if percent != 50}
        return {"mean": self.mean, "median": self.median, **named}


@dataclass(frozen=True)
class Server:
    """The server's /metrics while the benchmark ran; None where it did not say.

    Attributes:
        samples: answers, of which ``busy_samples`` met requests that ran or waited.
        refused: how often nobody listened.
        kv_cache_usage_max, kv_cache_usage_mean: fraction, over the busy samples; of several engines
            the fullest, and their mean.
        prefix_cache_queries, prefix_cache_hits: tokens looked up and found during the run.
        requests_waiting_max, requests_running_max: all engines together.
    """

    samples: int
    busy_samples: int
    refused: int
    kv_cache_usage_max: Optional[float]
    kv_cache_usage_mean: Optional[float]
    prefix_cache_queries: Optional[float]
    prefix_cache_hits: Optional[float]
    requests_waiting_max: Optional[float]
    requests_running_max: Optional[float]

    @property
    def hit_rate(self) -> Optional[float]:
        """Fraction of the tokens looked up that the prefix cache had; None without a look-up."""
        if not self.prefix_cache_queries or self.prefix_cache_hits is None:
            return None
        return self.prefix_cache_hits / self.prefix_cache_queries


@dataclass(frozen=True)
class VllmOutput:
    """One run against one server.

    Attributes:
        failed: None where vLLM did not count them.
        goodput: requests a second that met the stated latencies, where some were stated.
        latencies: by ttft, tpot, itl, e2el; those that were printed and that streaming resolved.
        in_one_piece: answers of several tokens that arrived at once; None where that was not
            counted.
        exact: the figures are not rounded.
        server: None without the driver.
        first_error: the error of the first failed request, where it was printed.
        peak_output_throughput, peak_requests: the most in any second, where that was counted.
    """

    completed: int
    failed: Optional[int]
    duration_seconds: float
    input_tokens: int
    output_tokens: int
    request_throughput: float
    output_throughput: float
    total_throughput: float
    goodput: Optional[float]
    latencies: Mapping[str, Latency]
    exact: bool
    tool_version: Optional[str] = None
    server_version: Optional[str] = None
    server: Optional[Server] = None
    first_error: Optional[str] = None
    in_one_piece: Optional[int] = None
    peak_output_throughput: Optional[float] = None
    peak_requests: Optional[float] = None
    parameters: Dict[str, str] = field(default_factory=dict)
    warnings: List[str] = field(default_factory=list)
    unverified: List[str] = field(default_factory=list)
    not_judged: Dict[str, str] = field(default_factory=dict)

    @property
    def checks(self) -> Dict[str, bool]:
        """That no request failed; without a count there is no check."""
        return {} if self.failed is None else {"no_failed_requests": self.failed == 0}

    def metrics(self) -> List[Metric]:
        """The metrics of ``trueup_node.serving``, with each percentile that was printed; and of the
        server kv_cache_usage, prefix_cache_hit_rate, requests_waiting, requests_running [1]."""
        figures = {
            "request_throughput": self.request_throughput,
            "output_token_throughput": self.output_throughput,
            "total_token_throughput": self.total_throughput,
            "request_goodput": self.goodput,
            "peak_output_token_throughput": self.peak_output_throughput,
            "requests_completed": self.completed,
            "requests_failed": self.failed,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "answers_in_one_piece": self.in_one_piece,
            "peak_concurrent_requests": self.peak_requests,
        }
        latencies = {name: latency.statistics() for name, latency in self.latencies.items()}
        return rows(figures, latencies) + (_server_rows(self.server) if self.server else [])


def _server_rows(server: Server) -> List[Metric]:
    busy = server.busy_samples
    # Requests were served: where no sample met one, the most at once is not 0 but unknown.
    samples = server.samples if busy else 0
    figures = (
        ("kv_cache_usage", server.kv_cache_usage_max, "lower", "max", busy),
        ("kv_cache_usage", server.kv_cache_usage_mean, "lower", "mean", busy),
        ("prefix_cache_hit_rate", server.hit_rate, "higher", "single", 1),
        ("requests_waiting", server.requests_waiting_max, "lower", "max", samples),
        ("requests_running", server.requests_running_max, "none", "max", samples),
    )
    return [
        Metric(name, value, "1", better, statistic=statistic, n=n)
        for name, value, better, statistic, n in figures
        if value is not None and n
    ]
