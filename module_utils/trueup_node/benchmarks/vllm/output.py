"""Parser of ``vllm bench serve`` (before 0.10: ``benchmark_serving.py``), which measures a server.

Three forms are read:

- the output of trueup's driver (roles/vllm/files/vllm_driver.py): vLLM's own table, and as the last
  line ``trueup-vllm {...}`` with the same figures unrounded, the server's /metrics during the run,
  and a checksum;
- the JSON object of ``--save-result``;
- the printed table alone (``Serving Benchmark Result``), where every figure is rounded to 0.01.

Labels and keys are those of vllm/benchmarks/serve.py (0.32) and of the older scripts: ``Total Token
throughput`` is now ``Total token throughput``, the key ``request_goodput:`` had a colon, and
versions before October 2025 do not count failed requests. Rows and sections that are not known
(probe requests, queueing, speculative decoding; those of forks) are kept by name and not judged.
SGLang prints a table with the same title and other rows; it is refused here.

Under load an answer may arrive in one piece: the server had no time to send each token by itself,
or the client none to read it. Its tokens are counted (the server says how many), so throughputs
hold. Its TPOT is 0 and it has no ITL: neither can be known, and neither is given as a figure.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple

from ...errors import ParseError
from ...reading import (
    Line,
    decoded,
    digest,
    is_count,
    is_number,
    lines_of,
    only_json,
    refuse_after,
)
from ...record import Metric
from ...serving import LEAST_TOKEN_SECONDS, rows, spread_error
from .signatures import DRIVER_PREFIX

TOOL = "vllm"
_TITLE = f"{' Serving Benchmark Result ':=^50}"
_END = "=" * 50
_HALF = 0.005 * (1 + 1e-9)  # the table is rounded to 0.01
_EXACT = 1e-12  # unrounded figures that follow from others: sums in another order differ less
_SAME = 1e-9  # unrounded figures that bound each other
# Each answer that arrived in one piece counts as a TPOT of 0: up to this fraction of them, mean,
# median and p99 stay within about as much.
_SHARE_IN_ONE_PIECE = 0.01

_LATENCIES = {
    "ttft": ("TTFT", "Time to First Token"),
    "tpot": ("TPOT", "Time per Output Token (excl. 1st token)"),
    "itl": ("ITL", "Inter-token Latency"),
    "e2el": ("E2EL", "End-to-end Latency"),
}
_SECTIONS = {title.lower(): name for name, (_, title) in _LATENCIES.items()}
_SHORTS = {short: name for name, (short, _) in _LATENCIES.items()}
# Rows of the table's head: label, key of the JSON, whether it is a whole number.
_HEAD = (
    ("Successful requests:", "completed", True),
    ("Failed requests:", "failed", True),
    ("Maximum request concurrency:", "max_concurrency", True),
    ("Request rate configured (RPS):", "request_rate", False),
    ("Benchmark duration (s):", "duration", False),
    ("Total input tokens:", "total_input_tokens", True),
    ("Total generated tokens:", "total_output_tokens", True),
    ("Request throughput (req/s):", "request_throughput", False),
    ("Request goodput (req/s):", "request_goodput", False),
    ("Input token throughput (tok/s):", "input_throughput", False),
    ("Output token throughput (tok/s):", "output_throughput", False),
    ("Peak output token throughput (tok/s):", "max_output_tokens_per_s", False),
    ("Peak concurrent requests:", "max_concurrent_requests", False),
    ("Total token throughput (tok/s):", "total_token_throughput", False),
)
_PEAK_TOKENS = "max_output_tokens_per_s"
_LABELS = {label.lower(): (key, is_integer) for label, key, is_integer in _HEAD}
_NEEDED = (
    *("completed", "duration", "total_input_tokens", "total_output_tokens"),
    *("request_throughput", "output_throughput"),
)
_COUNTS = ("completed", "failed", "total_input_tokens", "total_output_tokens")
_ROW = re.compile(r"([^:]{1,60}:) +(-?[\d.]+|nan|-?inf)")
_STATISTIC = re.compile(r"(Mean|Median|P\d+(?:\.\d+)?) (\w+) \(ms\):")
_PARAMETERS = (
    *("backend", "model_id", "num_prompts", "request_rate", "burstiness", "max_concurrency"),
    *("ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps"),
)
# One entry a request, whether it succeeded or not.
_LISTS = (
    *("input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times"),
    *("generated_texts", "errors"),
)
# Nothing that any server does.
_MOST_SECONDS = 1e9


class Latency(NamedTuple):
    """Seconds over the successful requests; ``percentiles`` as printed, 99.0 among them or not."""

    mean: float
    median: float
    percentiles: Mapping[float, float]
    deviation: Optional[float] = None

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


def parse_vllm(text: str) -> VllmOutput:
    """Read the output of one run.

    Raises:
        ParseError: no result or a damaged one, two of them, a run in which no request succeeded, a
            figure that is missing or no number, figures that contradict each other, or requests
            without a token that were counted as successful.
    """
    lines = lines_of(text)
    titles = [line for line in lines if "Serving Benchmark Result" in line]
    sealed = [line for line in lines if line.startswith(DRIVER_PREFIX)]
    for marked_lines, kind in ((titles, "table"), (sealed, "line of the driver")):
        if len(marked_lines) > 1:
            raise marked_lines[1].error(f"a second {kind}: two runs in one output")
    if sealed:
        return _driver(lines, sealed[0], titles)
    for line in lines:
        if '"busy_samples"' in line:
            raise line.error("the driver's line is damaged: it does not begin as one")
    if titles:
        before = lines[: titles[0].number]
        return _Table(lines, titles[0]).output(first_error=first_error(before))
    if text.lstrip().startswith("{"):
        return _Json(only_json(text, text.index("{")), lines).output()
    raise ParseError(
        "no result of vLLM's serving benchmark: neither its table nor its JSON; the run did not end"
    )


# --- figures, wherever they come from ------------------------------------------------------------


class _Figures:
    """The figures of one run by vLLM's keys, and the line that a refusal shows.

    Args:
        figures: values by key of vLLM's JSON; latencies in ms.
        slack: how much a printed figure may be off.
    """

    def __init__(self, figures: Mapping[str, Any], slack: float) -> None:
        self.figures = figures
        self._slack = slack
        self._in_one_piece: Optional[int] = None
        self.warnings: List[str] = []
        self.not_judged: Dict[str, str] = {}

    def where(self, key: str) -> Optional[Line]:
        """The line of a key's value, for an error."""
        raise NotImplementedError

    def refuse(self, message: str, key: str) -> NoReturn:
        line = self.where(key)
        raise line.error(message) if line else ParseError(message)

    def output(self, **more: Any) -> VllmOutput:
        figures = self.figures
        for key in _NEEDED:
            if figures.get(key) is None:
                self.refuse(f"{key} is missing", key)
        for key in _COUNTS:
            if figures.get(key) is not None:
                self._count(key)
        for key in ("duration", "request_throughput", "output_throughput"):
            self._number(key)
        # vLLM counts both, or it is older and counts neither.
        peaks = ("max_output_tokens_per_s", "max_concurrent_requests")
        for key, other in (peaks, peaks[::-1]):
            if figures.get(key) is None and figures.get(other):
                self.refuse(f"{key} is missing", other)
        completed = int(figures["completed"])
        failed = self._failed(completed)
        if not completed:
            counted = "" if failed is None else f", {failed} failed"
            self.refuse(f"no request succeeded{counted}", "completed")
        tokens = int(figures["total_input_tokens"]), int(figures["total_output_tokens"])
        duration = float(figures["duration"])
        if duration <= 0:
            self.refuse("the benchmark took no time", "duration")
        self._tokens(completed, tokens[1])
        total = self._rates(duration, completed, *tokens)
        goodput = self._goodput(duration, completed)
        return VllmOutput(
            completed=completed,
            failed=failed,
            duration_seconds=duration,
            input_tokens=tokens[0],
            output_tokens=tokens[1],
            request_throughput=float(figures["request_throughput"]),
            output_throughput=float(figures["output_throughput"]),
            total_throughput=total,
            goodput=goodput,
            latencies=self._latencies(completed, tokens[1], duration),
            exact=not self._slack,
            in_one_piece=self._in_one_piece,
            peak_output_throughput=self._peak(_PEAK_TOKENS),
            peak_requests=self._peak("max_concurrent_requests"),
            parameters={
                key: str(figures[key]) for key in _PARAMETERS if figures.get(key) is not None
            },
            warnings=self.warnings,
            not_judged=self.not_judged,
            **more,
        )

    def _count(self, key: str) -> int:
        value = self.figures[key]
        if not is_count(value):
            self.refuse(f"{key} {value!r} is not a count", key)
        return int(value)

    def _number(self, key: str) -> float:
        value = self.figures[key]
        if not is_number(value):
            self.refuse(f"{key} {value!r} is not a number", key)
        if not math.isfinite(value) or value < 0:
            self.refuse(f"{key} {value!r} is not a positive number", key)
        return float(value)

    def _peak(self, key: str) -> Optional[float]:
        """The most in any second; of a short run it may lie somewhat below the mean."""
        peak = None if self.figures.get(key) is None else self._number(key)
        mean = self.figures.get("output_throughput")
        if (
            key == _PEAK_TOKENS
            and peak is not None
            and isinstance(mean, (int, float))
            and 2 * peak < mean
        ):
            self.warnings.append(f"the printed peak of {peak:g} tokens/s lies far below the mean")
        return peak

    def _failed(self, completed: int) -> Optional[int]:
        """Failed requests; from the requested number if an older result does not count them."""
        failed = self.figures.get("failed")
        requested = self.figures.get("num_prompts")
        if requested is not None and not (is_number(requested) and isinstance(requested, int)):
            self.refuse(f"num_prompts {requested!r} is not a count", "num_prompts")
        if requested is not None and requested > 0:
            if failed is not None and completed + failed != requested:
                self.refuse(
                    f"{completed} requests succeeded and {failed} failed, of {requested}",
                    "completed",
                )
            if completed > requested:
                self.refuse(f"{completed} requests succeeded of {requested}", "completed")
            return requested - completed
        if failed is None:
            self.warnings.append(
                "this version of vLLM does not count failed requests: some may have failed"
            )
            return None
        return int(failed)

    def _tokens(self, completed: int, generated: int) -> None:
        if generated < completed:
            self.refuse(
                f"{completed} requests succeeded with {generated} tokens generated",
                "total_output_tokens",
            )

    def _rates(self, duration: float, completed: int, input_tokens: int, generated: int) -> float:
        """Total token throughput; each printed rate must be its count over the duration."""
        checked = [
            ("request_throughput", completed),
            ("output_throughput", generated),
            ("input_throughput", input_tokens),
            ("total_token_throughput", input_tokens + generated),
        ]
        for key, count in checked:
            if self.figures.get(key) is None:
                continue
            rate = self._number(key)
            if not self._is_rate(rate, count, duration):
                self.refuse(f"{key} {rate} is not {count} in {duration} s", key)
        total = self.figures.get("total_token_throughput")
        if total is not None:
            return float(total)
        if self.figures.get("input_throughput") is None:
            self.refuse("total_token_throughput is missing", "total_token_throughput")
        return float(self.figures["input_throughput"]) + float(self.figures["output_throughput"])

    def _goodput(self, duration: float, completed: int) -> Optional[float]:
        """Good requests over the duration: a whole number of them, of those that succeeded."""
        if self.figures.get("request_goodput") is None:
            return None
        rate = self._number("request_goodput")
        good = round(rate * duration)
        if good > completed or not self._is_rate(rate, good, duration):
            self.refuse(
                f"request_goodput {rate} is no number of the {completed} requests in {duration} s",
                "request_goodput",
            )
        return rate

    def _is_rate(self, rate: float, count: int, duration: float) -> bool:
        low = count / (duration + self._slack) * (1 - _EXACT) - self._slack
        high = count / max(duration - self._slack, 1e-9) * (1 + _EXACT) + self._slack
        return low <= rate <= high

    def _latencies(self, completed: int, generated: int, duration: float) -> Dict[str, Latency]:
        latencies: Dict[str, Latency] = {}
        for name, (short, _) in _LATENCIES.items():
            latency = self._latency(name, short)
            if latency is None:
                continue
            if generated == completed and name in ("tpot", "itl"):
                self.warnings.append(f"one token a request: there is no {short}")
                continue
            if name in ("ttft", "e2el"):
                self._not_zero(name, short, latency, completed)
            self._spread(name, short, latency)
            longest = max([latency.mean, latency.median, *latency.percentiles.values()])
            if longest > duration + self._slack * (1 + 1e-3) + _SAME:
                self.refuse(
                    f"a {short} of {longest:g} s in a benchmark of {duration:g} s",
                    f"mean_{name}_ms",
                )
            latencies[name] = latency
        # vLLM takes the same percentiles of each.
        percents_by_name = {
            name: sorted(latency.percentiles) for name, latency in latencies.items()
        }
        odd = next(
            (
                name
                for name in percents_by_name
                if percents_by_name[name] != next(iter(percents_by_name.values()))
            ),
            None,
        )
        if odd is not None:
            self.refuse(
                f"{_LATENCIES[odd][0]} has the percentiles {percents_by_name[odd]}, and "
                f"{_LATENCIES[next(iter(percents_by_name))][0]}"
                f" {next(iter(percents_by_name.values()))}",
                f"mean_{odd}_ms",
            )
        if not {"ttft", "e2el"} & latencies.keys():
            self.refuse("there is neither TTFT nor E2EL in the result", "mean_ttft_ms")
        if "ttft" not in latencies:
            self.warnings.append("there is no TTFT in the result: it was not asked for")
        elif "e2el" in latencies:
            self._contains(latencies["ttft"], latencies["e2el"])
        self._unresolved(latencies, completed)
        return latencies

    def _unresolved(self, latencies: Dict[str, Latency], completed: int) -> None:
        """Take out the latencies between tokens that streaming did not resolve, and say so."""
        tpot, itl = latencies.get("tpot"), latencies.get("itl")
        pieces = self._in_one_piece
        if (pieces is not None and pieces > _SHARE_IN_ONE_PIECE * completed) or (
            tpot and min([tpot.mean, tpot.median, *tpot.percentiles.values()]) < LEAST_TOKEN_SECONDS
        ):
            those = "answers" if pieces is None else f"{pieces} of {completed} answers"
            shorts = [_LATENCIES[name][0] for name in ("tpot", "itl") if latencies.pop(name, None)]
            if shorts:
                self.warnings.append(
                    f"{those} arrived in one piece: {' and '.join(shorts)} cannot be known and "
                    "are left out, TTFT is the time to the first piece; the throughput holds"
                )
            if self.figures.get("request_goodput") is not None:
                self.warnings.append(
                    "where request_goodput has a limit for TPOT, answers in one piece count as "
                    "within it"
                )
            return
        if pieces:
            self.warnings.append(
                f"{pieces} of {completed} answers arrived in one piece: they count as a TPOT of 0"
            )
        if itl and itl.median < LEAST_TOKEN_SECONDS:
            del latencies["itl"]
            self.warnings.append(
                "more than half of the tokens arrived together with the one before: ITL cannot be "
                "known and is left out"
            )

    def _latency(self, name: str, short: str) -> Optional[Latency]:
        keys = {"mean": f"mean_{name}_ms", "median": f"median_{name}_ms"}
        present_keys = [key for key in keys.values() if self.figures.get(key) is not None]
        percentiles = {}
        for key in self.figures:
            match = re.fullmatch(r"p([0-9]+(?:[.][0-9]+)?)", key.split("_")[0])
            if match and key == f"{match.group()}_{name}_ms":
                percentiles[float(match.group(1))] = self._number(key) / 1000
        if not present_keys and not percentiles:
            return None
        if len(present_keys) != len(keys) or not percentiles:
            self.refuse(f"{short} needs its mean, its median and a percentile", keys["mean"])
        deviation = self.figures.get(f"std_{name}_ms")
        return Latency(
            mean=self._number(keys["mean"]) / 1000,
            median=self._number(keys["median"]) / 1000,
            percentiles=percentiles,
            deviation=None if deviation is None else self._number(f"std_{name}_ms") / 1000,
        )

    def _not_zero(self, name: str, short: str, latency: Latency, completed: int) -> None:
        # TPOT is taken over the answers of more than one token, the others over all of them.
        if min([latency.mean, latency.median, *latency.percentiles.values()]) > 0:
            return
        self.refuse(
            f"{short} of 0.00 over {completed} successful requests: requests without a token "
            "were counted as successful",
            f"median_{name}_ms" if not latency.median else f"mean_{name}_ms",
        )

    def _spread(self, name: str, short: str, latency: Latency) -> None:
        """Checks of the mean, median and percentiles of any figures above zero."""
        slack = 3 * self._slack / 1000 + _SAME * latency.mean
        middle = latency.percentiles.get(50)
        statistics = latency.statistics()
        wrong = spread_error(
            short,
            statistics if middle is None else {**statistics, "p50": middle},
            latency.deviation,
            slack,
        )
        if wrong is not None:
            self.refuse(wrong[1], f"{wrong[0]}_{name}_ms")

    def _contains(self, ttft: Latency, e2el: Latency) -> None:
        """TTFT is a part of E2EL, request by request."""
        slack = 3 * self._slack / 1000 + _SAME * e2el.mean
        pairs = [("mean", ttft.mean, e2el.mean), ("median", ttft.median, e2el.median)]
        pairs += [
            (f"p{percent:g}", value, e2el.percentiles[percent])
            for percent, value in ttft.percentiles.items()
            if percent in e2el.percentiles
        ]
        for statistic, short, long in pairs:
            if short > long + slack:
                self.refuse(
                    f"the {statistic} TTFT {short:g} s is longer than that E2EL, {long:g} s",
                    f"{statistic}_e2el_ms",
                )


# --- the printed table ---------------------------------------------------------------------------


def first_error(lines: Sequence[str]) -> Optional[str]:
    """The error of the first failed request: of a traceback its last line."""
    start = next((n for n, line in enumerate(lines) if line.startswith("Error 0: ")), None)
    if start is None:
        return None
    message_lines = [lines[start][len("Error 0: ") :].strip()]
    for line in lines[start + 1 :]:
        if re.match(r"Error \d+: |tip: |={12} ", line):
            break
        if line.strip():
            message_lines.append(line.strip())
    return (
        message_lines[0]
        if message_lines[0] and not message_lines[0].startswith("Traceback")
        else message_lines[-1]
    )[:200]


_LATENCY_KEY = re.compile(r"(mean|median|std|p[0-9.]+)_([a-z0-9]+)_ms")


class _Table(_Figures):
    """vLLM's printed table."""

    def __init__(self, lines: Sequence[Line], title: Line) -> None:
        self._places: Dict[str, Line] = {}
        self._read_figures: Dict[str, Any] = {}
        super().__init__(self._read_figures, _HALF)
        self.end = self._read(lines, title)

    def output(self, **more: Any) -> VllmOutput:
        output = super().output(**more)
        output.warnings.append("the figures of the printed table are rounded to 0.01")
        if self.end is None:
            output.unverified.append("no closing line of =: the table is cut off")
        return output

    def where(self, key: str) -> Optional[Line]:
        return self._places.get(key)

    def _read(self, lines: Sequence[Line], title: Line) -> Optional[Line]:
        """Fill ``figures`` and ``not_judged``; the closing line, or None without one."""
        if title.strip() != _TITLE:
            raise title.error("the table's title is damaged")
        section = ""
        for line in lines[title.number :]:
            text = line.strip()
            if text == _END:
                self._nothing_after(lines[line.number :])
                return line
            if text.startswith("--") and text.endswith("--"):
                section = text.strip("-")
            elif text:
                self._row(section, text, line)
        self._without_half(_SECTIONS.get(section.lower(), ""))
        return None

    def _without_half(self, latency: str) -> None:
        """Leave out the last latency of a table that is cut off, unless it has the statistics of
        the others."""
        by_latency: Dict[str, Dict[str, str]] = {}
        for key in self._read_figures:
            match = _LATENCY_KEY.fullmatch(key)
            if match:
                by_latency.setdefault(match.group(2), {})[match.group(1)] = key
        half = by_latency.pop(latency, {})
        if half and any(half.keys() < whole.keys() for whole in by_latency.values()):
            for key in half.values():
                del self._read_figures[key]

    def _nothing_after(self, lines: Sequence[Line]) -> None:
        """Rows behind the closing line were moved there, or it was moved before them."""
        for line in lines:
            row = _ROW.fullmatch(line.strip())
            if line.strip() == _END or (row and _STATISTIC.fullmatch(row.group(1))):
                raise line.error("vLLM's table goes on after its closing line")

    def _row(self, section: str, text: str, line: Line) -> None:
        """Take a row; one that is not known is kept by its name, below that of its section."""
        row = _ROW.fullmatch(text)
        label = row.group(1) if row else text
        if label.startswith(("Backend:", "Traffic request rate:")) or "retokenized" in label:
            raise line.error("this is a table of SGLang, not of vLLM")
        key, is_integer = self._key(section, label, line)
        if not key:
            name = f"{section}, {label}" if section else label
            self.not_judged[name.rstrip(":")[:80]] = row.group(2) if row else "a line"
        elif row is None:
            raise line.error(f"{key} is no number")
        elif key in self.figures:
            raise line.error(f"row {label!r} stands twice")
        else:
            self._take(key, row.group(2), line, is_integer=is_integer)

    def _key(self, section: str, label: str, line: Line) -> Tuple[str, bool]:
        """The key of a row, and whether it is a count; no key of a row that is not known."""
        if not section:
            return _LABELS.get(label.lower(), ("", False))
        latency = _SECTIONS.get(section.lower())
        statistic = _STATISTIC.fullmatch(label) if latency else None
        own = _SHORTS.get(statistic.group(2)) if statistic else None
        if own is None or statistic is None:
            return "", False
        if own != latency:
            raise line.error(f"row {label!r} stands below {section!r}")
        return f"{statistic.group(1).lower()}_{own}_ms", False

    def _take(self, key: str, text: str, line: Line, *, is_integer: bool) -> None:
        if is_integer and not re.fullmatch(r"\d{1,18}", text):
            raise line.error(f"{key} {text!r} is not a count")
        if not is_integer and not re.fullmatch(r"\d+\.\d\d", text):
            raise line.error(f"{key} {text!r} is not a positive number with two decimals")
        self._places[key] = line
        self._read_figures[key] = int(text) if is_integer else float(text)


# --- the JSON ------------------------------------------------------------------------------------


class _Json(_Figures):
    """The JSON object of ``--save-result``.

    Args:
        lines: where it stands.
        in_one_piece: answers that arrived in one piece, where the driver counted them.
    """

    def __init__(
        self, data: Mapping[str, Any], lines: Sequence[Line], in_one_piece: Optional[int] = None
    ) -> None:
        if "request_goodput:" in data:
            data = {**data, "request_goodput": data["request_goodput:"]}
        super().__init__(data, 0.0)
        self._in_one_piece = in_one_piece
        self._lines = lines

    def where(self, key: str) -> Optional[Line]:
        for line in self._lines:
            at = line.find(f'"{key}"')
            if at >= 0:
                return Line(line[at : at + 80], line.number)
        return None

    def output(self, **more: Any) -> VllmOutput:
        if self._in_one_piece is None:
            self._in_one_piece = self._counted_pieces()
        output = super().output(**more)
        if "total_token_throughput" not in self.figures:
            self.refuse("total_token_throughput is missing", "duration")
        self._lists(output)
        return output

    def _counted_pieces(self) -> Optional[int]:
        """Answers that arrived in one piece, where the figures of single requests are there."""
        lengths, gaps = self.figures.get("output_lens"), self.figures.get("itls")
        if not isinstance(lengths, list) or not isinstance(gaps, list):
            return None
        if not all(isinstance(request_gaps, list) for request_gaps in gaps):
            self.refuse("itls holds no lists", "itls")
        return sum(
            tokens > 1
            and sum(self._all_numbers("itls", request_gaps)) < LEAST_TOKEN_SECONDS * (tokens - 1)
            for tokens, request_gaps in zip(self._all_numbers("output_lens", lengths), gaps)
        )

    def _lists(self, output: VllmOutput) -> None:
        """Where the figures of single requests are there, they must be of this run."""
        lists = self._equally_long(
            None if output.failed is None else output.completed + output.failed
        )
        # A request that failed has a length of 0.
        empty = lists.get("output_lens", []).count(0) - (output.failed or 0)
        if empty > 0:
            self.refuse(_empty(empty, output.completed), "output_lens")
        if output.failed:
            return
        # Of a run without failures the summary follows from the lists.
        for key, total in (
            ("input_lens", output.input_tokens),
            ("output_lens", output.output_tokens),
        ):
            if key in lists and sum(self._all_numbers(key, lists[key])) != total:
                self.refuse(f"{key} do not add up to {total}", key)
        for key, name in (("ttfts", "ttft"), ("latencies", "e2el"), ("itls", "itl")):
            if key in lists and name in output.latencies:
                self._recompute(key, lists[key], output.latencies[name])

    def _equally_long(self, requests: Optional[int]) -> Dict[str, List[Any]]:
        lists: Dict[str, List[Any]] = {}
        for key in _LISTS:
            values = self.figures.get(key)
            if values is None:
                continue
            if not isinstance(values, list):
                self.refuse(f"{key} is no list", key)
            requests = len(values) if requests is None else requests
            if len(values) != requests:
                self.refuse(f"{key} has {len(values)} entries for {requests} requests", key)
            lists[key] = values
        return lists

    def _recompute(self, key: str, values: Sequence[Any], latency: Latency) -> None:
        if key == "itls":
            values = [value for request_gaps in values for value in request_gaps]
        numbers = sorted(self._all_numbers(key, values))
        if not numbers:
            return
        pairs = [
            (math.fsum(numbers) / len(numbers), latency.mean),
            (_at(numbers, 50), latency.median),
        ]
        pairs += [(_at(numbers, percent), value) for percent, value in latency.percentiles.items()]
        for mine, printed in pairs:
            if abs(mine - printed) > _EXACT * abs(printed):
                self.refuse(f"{key} give {mine:g} s where the summary says {printed:g} s", key)

    def _all_numbers(self, key: str, values: Sequence[Any]) -> List[float]:
        for value in values:
            if not is_number(value) or not 0 <= value < _MOST_SECONDS:
                self.refuse(f"{key} holds {value!r}", key)
        return list(values)


def _at(ordered: Sequence[float], percent: float) -> float:
    """The percentile as numpy takes it: linear between the two nearest."""
    position = percent / 100 * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _empty(requests: int, completed: int) -> str:
    return f"{requests} of {completed} requests without a token were counted as successful"


# --- the driver ----------------------------------------------------------------------------------


def _unsealed(lines: Sequence[Line], line: Line) -> Dict[str, Any]:
    """The driver's object, as it was written."""
    data = decoded(line, DRIVER_PREFIX, "the driver's line", version=1, role="vllm")
    if data.pop("sha256", None) != digest(data):
        raise line.error("the driver's line is not what the driver wrote: its checksum differs")
    refuse_after(lines[line.number :], "text after the driver's last line")
    return data


def _driver(lines: Sequence[Line], line: Line, titles: Sequence[Line]) -> VllmOutput:
    data = _unsealed(lines, line)
    status, result = data.get("status"), data.get("result")
    if status != 0:
        raise line.error(f"the benchmark ended with status {status!r}")
    if not isinstance(result, dict):
        raise line.error("the benchmark saved no result")
    if not titles or titles[0].number > line.number:
        raise line.error("vLLM's own table is missing before the driver's line")
    table = _Table(lines, titles[0])
    if table.end is None or table.end.number > line.number:
        raise line.error("the driver's line stands inside vLLM's table")
    answers = _answers(data.get("answers"), line)
    server = _server(data.get("server"), line)
    exact = _Json(result, [line], answers.get("in_one_piece"))
    output = exact.output(
        tool_version=_text(data.get("vllm")),
        server_version=_text(data.get("server_vllm")),
        server=server,
        first_error=first_error(lines[: titles[0].number]),
    )
    if answers.get("empty"):
        raise line.error(_empty(answers["empty"], output.completed))
    if answers.get("in_one_piece", 0) > output.completed:
        raise line.error("answers: more arrived in one piece than there are")
    table.output()
    output.not_judged.update(table.not_judged)
    _compare(table, exact)
    if server.refused:
        output.warnings.append(
            f"the server did not answer {server.refused} times while the benchmark ran"
        )
    if not server.busy_samples:
        output.warnings.append(
            "no sample of the server's metrics met a request: sample more often, or run longer"
        )
    return output


def _compare(table: _Table, exact: _Json) -> None:
    """The printed table must be the saved result, rounded."""
    for key, printed in table.figures.items():
        saved = exact.figures.get(key)
        if not is_number(saved):
            table.refuse(f"the table prints {key} and the saved result has none", key)
        if abs(saved - printed) > (0 if isinstance(printed, int) else _HALF):
            table.refuse(f"the table prints {key} {printed} and the saved result has {saved}", key)
    for key in exact.figures:
        if re.fullmatch(r"(mean|median|p[\d.]+)_(ttft|tpot|itl|e2el)_ms", key) and (
            key not in table.figures
        ):
            exact.refuse(f"the saved result has {key} and the table does not print it", key)


def _answers(data: Any, line: Line) -> Dict[str, int]:
    """How many successful answers held no token, and how many arrived in one piece; empty from a
    driver that did not count them."""
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise line.error(f"answers {data!r} are no counts")
    return {key: _whole(data, key, "answers", line) for key in _ANSWERS}


def _whole(data: Mapping[str, Any], key: str, label: str, line: Line) -> int:
    value: Any = data.get(key)
    if not is_count(value):
        raise line.error(f"{label}: {key} {value!r} is not a count")
    return int(value)


_ANSWERS = ("empty", "in_one_piece")
_SEEN = (
    *("kv_cache_usage_max", "kv_cache_usage_mean"),
    *("prefix_cache_queries", "prefix_cache_hits"),
    *("requests_waiting_max", "requests_running_max"),
)


def _fraction_or_count(value: Any, key: str, line: Line) -> Optional[float]:
    if value is None:
        return None
    if not is_number(value):
        raise line.error(f"server: {key} {value!r} is not a number")
    if not math.isfinite(value) or value < 0:
        raise line.error(f"server: {key} {value!r} is not a positive number")
    return float(value)


def _server(data: Any, line: Line) -> Server:
    if not isinstance(data, dict):
        raise line.error("the driver's line says nothing of the server")
    counts = {
        key: _whole(data, key, "server", line) for key in ("samples", "busy_samples", "refused")
    }
    figures = {key: _fraction_or_count(data.get(key), key, line) for key in _SEEN}
    top, mean = figures["kv_cache_usage_max"], figures["kv_cache_usage_mean"]
    if top is not None and not (mean is not None and mean <= top * (1 + _SAME) and top <= 1):
        raise line.error(f"server: KV-cache use of {mean!r} to {top!r}")
    hits, queries = figures["prefix_cache_hits"], figures["prefix_cache_queries"]
    if hits is not None and (queries is None or hits > queries):
        raise line.error(f"server: {hits} prefix-cache hits of {queries} queries")
    if counts["busy_samples"] > counts["samples"]:
        raise line.error("server: more busy samples than samples")
    fields: Dict[str, Any] = {**counts, **figures}
    return Server(**fields)


def _text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) and value else None
