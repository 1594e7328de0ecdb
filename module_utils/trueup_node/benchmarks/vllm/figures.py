"""Figures of vLLM's benchmark, from its table or its JSON, and the checks that they fit together.

Under load an answer may arrive in one piece: the server had no time to send each token by itself,
or the client none to read it. Its tokens are counted (the server says how many), so throughputs
hold. Its TPOT is 0 and it has no ITL: neither can be known, and neither is given as a figure.
"""

from __future__ import annotations

import math
import re
from typing import Any, Callable, Dict, List, Mapping, NoReturn, Optional

from ...errors import ParseError
from ...reading import Line, is_count, is_number
from ...serving import LEAST_TOKEN_SECONDS, spread_error
from .result import Latency, VllmOutput

LATENCIES = {
    "ttft": ("TTFT", "Time to First Token"),
    "tpot": ("TPOT", "Time per Output Token (excl. 1st token)"),
    "itl": ("ITL", "Inter-token Latency"),
    "e2el": ("E2EL", "End-to-end Latency"),
}
LATENCY_KEY = re.compile(r"(mean|median|std|p[0-9]+(?:\.[0-9]+)?)_(ttft|tpot|itl|e2el)_ms")
EXACT = 1e-12  # unrounded figures that follow from others: sums in another order differ less
SAME = 1e-9  # unrounded figures that bound each other
# Each answer that arrived in one piece counts as a TPOT of 0: up to this fraction of them, mean,
# median and p99 stay within about as much.
_SHARE_IN_ONE_PIECE = 0.01
_NEEDED = (
    *("completed", "duration", "total_input_tokens", "total_output_tokens"),
    *("request_throughput", "output_throughput"),
)
_PEAK_TOKENS, _PEAK_REQUESTS = "max_output_tokens_per_s", "max_concurrent_requests"
_PARAMETERS = (
    *("backend", "model_id", "num_prompts", "request_rate", "burstiness", "max_concurrency"),
    *("ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps"),
)


class Figures:
    """The figures of one run.

    Args:
        figures: values by key of vLLM's JSON; latencies in ms.
        where: gives the line of a key's value, for an error.
        slack: how much a printed figure may be off.
    """

    def __init__(
        self, figures: Mapping[str, Any], where: Callable[[str], Optional[Line]], slack: float
    ) -> None:
        self.figures = figures
        self.in_one_piece: Optional[int] = None
        self._where = where
        self._slack = slack
        self._warnings: List[str] = []

    def refuse(self, message: str, key: str) -> NoReturn:
        """An error that shows the line of a key."""
        line = self._where(key)
        raise line.error(message) if line else ParseError(message)

    def _has(self, key: str) -> bool:
        return self.figures.get(key) is not None

    def _count(self, key: str) -> int:
        if not is_count(self.figures[key]):
            self.refuse(f"{key} {self.figures[key]!r} is not a count", key)
        return int(self.figures[key])

    def _number(self, key: str) -> float:
        value = self.figures[key]
        if not is_number(value):
            self.refuse(f"{key} {value!r} is not a number", key)
        if not math.isfinite(value) or value < 0:
            self.refuse(f"{key} {value!r} is not a positive number", key)
        return float(value)

    def output(self) -> VllmOutput:
        """The result.

        Raises:
            ParseError: a figure is missing or no number, or figures contradict each other.
        """
        for key in _NEEDED:
            if not self._has(key):
                self.refuse(f"{key} is missing", key)
        # vLLM counts both, or it is older and counts neither.
        for key, other in ((_PEAK_TOKENS, _PEAK_REQUESTS), (_PEAK_REQUESTS, _PEAK_TOKENS)):
            if not self._has(key) and self.figures.get(other):
                self.refuse(f"{key} is missing", other)
        completed, failed = self._requests()
        inputs, outputs = self._count("total_input_tokens"), self._count("total_output_tokens")
        duration = self._number("duration")
        if duration <= 0:
            self.refuse("the benchmark took no time", "duration")
        if outputs < completed:
            message = f"{completed} requests succeeded with {outputs} tokens generated"
            self.refuse(message, "total_output_tokens")
        return VllmOutput(
            completed=completed,
            failed=failed,
            duration_seconds=duration,
            input_tokens=inputs,
            output_tokens=outputs,
            total_throughput=self._total(duration, completed, inputs, outputs),
            request_throughput=self._number("request_throughput"),
            output_throughput=self._number("output_throughput"),
            goodput=self._goodput(duration, completed),
            latencies=self._latencies(completed, outputs, duration),
            exact=not self._slack,
            in_one_piece=self.in_one_piece,
            peak_output_throughput=self._peak(),
            peak_requests=self._number(_PEAK_REQUESTS) if self._has(_PEAK_REQUESTS) else None,
            parameters={key: str(self.figures[key]) for key in _PARAMETERS if self._has(key)},
            warnings=self._warnings,
        )

    def _requests(self) -> tuple[int, Optional[int]]:
        """Requests that succeeded and that failed; from the requested number if an older result
        does not count these."""
        completed, failed = self._count("completed"), None
        requested = self.figures.get("num_prompts")
        if self._has("failed"):
            failed = self._count("failed")
        if requested is not None and not (is_number(requested) and isinstance(requested, int)):
            self.refuse(f"num_prompts {requested!r} is not a count", "num_prompts")
        if requested is not None and requested > 0:
            if failed is not None and completed + failed != requested:
                message = f"{completed} requests succeeded and {failed} failed, of {requested}"
                self.refuse(message, "completed")
            if completed > requested:
                self.refuse(f"{completed} requests succeeded of {requested}", "completed")
            failed = requested - completed
        elif failed is None:
            self._warnings.append(
                "this version of vLLM does not count failed requests: some may have failed"
            )
        if not completed:
            counted = "" if failed is None else f", {failed} failed"
            self.refuse(f"no request succeeded{counted}", "completed")
        return completed, failed

    def _peak(self) -> Optional[float]:
        """The most tokens in any second; of a short run it may lie somewhat below the mean."""
        if not self._has(_PEAK_TOKENS):
            return None
        peak = self._number(_PEAK_TOKENS)
        if 2 * peak < self._number("output_throughput"):
            self._warnings.append(f"the printed peak of {peak:g} tokens/s lies far below the mean")
        return peak

    def _total(self, duration: float, completed: int, inputs: int, outputs: int) -> float:
        """Total token throughput; each printed rate must be its count over the duration."""
        for key, count in (
            ("request_throughput", completed),
            ("output_throughput", outputs),
            ("input_throughput", inputs),
            ("total_token_throughput", inputs + outputs),
        ):
            if self._has(key) and not self._is_rate(self._number(key), count, duration):
                self.refuse(f"{key} {self.figures[key]} is not {count} in {duration} s", key)
        if self._has("total_token_throughput"):
            return self._number("total_token_throughput")
        if not self._has("input_throughput"):
            self.refuse("total_token_throughput is missing", "total_token_throughput")
        return self._number("input_throughput") + self._number("output_throughput")

    def _goodput(self, duration: float, completed: int) -> Optional[float]:
        """Good requests over the duration: a whole number of them, of those that succeeded."""
        if not self._has("request_goodput"):
            return None
        rate = self._number("request_goodput")
        good = round(rate * duration)
        if good > completed or not self._is_rate(rate, good, duration):
            message = f"request_goodput {rate} is no number of the {completed} requests in"
            self.refuse(f"{message} {duration} s", "request_goodput")
        return rate

    def _is_rate(self, rate: float, count: int, duration: float) -> bool:
        low = count / (duration + self._slack) * (1 - EXACT) - self._slack
        high = count / max(duration - self._slack, 1e-9) * (1 + EXACT) + self._slack
        return low <= rate <= high

    def _latencies(self, completed: int, outputs: int, duration: float) -> Dict[str, Latency]:
        latencies: Dict[str, Latency] = {}
        for name, (short, _) in LATENCIES.items():
            latency = self._latency(name, short)
            if latency and outputs == completed and name in ("tpot", "itl"):
                self._warnings.append(f"one token a request: there is no {short}")
            elif latency:
                self._check_latency(name, short, latency, completed, duration)
                latencies[name] = latency
        # vLLM takes the same percentiles of each.
        percents = {name: sorted(latency.percentiles) for name, latency in latencies.items()}
        for name, listed in percents.items():
            first = next(iter(percents))
            if listed != percents[first]:
                message = f"{LATENCIES[name][0]} has the percentiles {listed}, and"
                message += f" {LATENCIES[first][0]} {percents[first]}"
                self.refuse(message, f"mean_{name}_ms")
        if not {"ttft", "e2el"} & latencies.keys():
            self.refuse("there is neither TTFT nor E2EL in the result", "mean_ttft_ms")
        if "ttft" not in latencies:
            self._warnings.append("there is no TTFT in the result: it was not asked for")
        elif "e2el" in latencies:
            self._contains(latencies["ttft"], latencies["e2el"])
        self._unresolved(latencies, completed)
        return latencies

    def _latency(self, name: str, short: str) -> Optional[Latency]:
        keys = {
            match[1]: key
            for key in self.figures
            if (match := LATENCY_KEY.fullmatch(key)) and match[2] == name and self._has(key)
        }
        deviation = keys.pop("std", None)
        if not keys:
            return None
        if not keys.keys() > {"mean", "median"}:
            self.refuse(f"{short} needs its mean, its median and a percentile", f"mean_{name}_ms")
        seconds = {statistic: self._number(key) / 1000 for statistic, key in keys.items()}
        return Latency(
            mean=seconds.pop("mean"),
            median=seconds.pop("median"),
            percentiles={float(statistic[1:]): value for statistic, value in seconds.items()},
            deviation=self._number(deviation) / 1000 if deviation else None,
        )

    def _check_latency(
        self, name: str, short: str, latency: Latency, completed: int, duration: float
    ) -> None:
        # TPOT is taken over the answers of more than one token, TTFT and E2EL over all of them.
        if name in ("ttft", "e2el") and latency.least <= 0:
            self.refuse(
                f"{short} of 0.00 over {completed} successful requests: requests without a token "
                "were counted as successful",
                f"median_{name}_ms" if not latency.median else f"mean_{name}_ms",
            )
        statistics = latency.statistics()
        if 50 in latency.percentiles:
            statistics["p50"] = latency.percentiles[50]
        slack = 3 * self._slack / 1000 + SAME * latency.mean
        wrong = spread_error(short, statistics, latency.deviation, slack)
        if wrong is not None:
            self.refuse(wrong[1], f"{wrong[0]}_{name}_ms")
        longest = max(statistics.values())
        if longest > duration + self._slack * (1 + 1e-3) + SAME:
            message = f"a {short} of {longest:g} s in a benchmark of {duration:g} s"
            self.refuse(message, f"mean_{name}_ms")

    def _contains(self, ttft: Latency, e2el: Latency) -> None:
        """TTFT is a part of E2EL, request by request."""
        slack = 3 * self._slack / 1000 + SAME * e2el.mean
        longer = e2el.statistics()
        for statistic, short in ttft.statistics().items():
            if short > longer.get(statistic, math.inf) + slack:
                message = f"the {statistic} TTFT {short:g} s is longer than that E2EL,"
                self.refuse(f"{message} {longer[statistic]:g} s", f"{statistic}_e2el_ms")

    def _unresolved(self, latencies: Dict[str, Latency], completed: int) -> None:
        """Take out the latencies between tokens that streaming did not resolve, and say so."""
        tpot, itl, pieces = latencies.get("tpot"), latencies.get("itl"), self.in_one_piece
        counted = f"{pieces} of {completed} answers"
        if (pieces or 0) > _SHARE_IN_ONE_PIECE * completed or (
            tpot and tpot.least < LEAST_TOKEN_SECONDS
        ):
            shorts = [LATENCIES[name][0] for name in ("tpot", "itl") if latencies.pop(name, None)]
            if shorts:
                self._warnings.append(
                    f"{'answers' if pieces is None else counted} arrived in one piece:"
                    f" {' and '.join(shorts)} cannot be known and are left out, TTFT is the time to"
                    " the first piece; the throughput holds"
                )
            if self._has("request_goodput"):
                self._warnings.append(
                    "where request_goodput has a limit for TPOT, answers in one piece count as "
                    "within it"
                )
        else:
            if pieces:
                self._warnings.append(f"{counted} arrived in one piece: they count as a TPOT of 0")
            if itl and itl.median < LEAST_TOKEN_SECONDS:
                del latencies["itl"]
                self._warnings.append(
                    "more than half of the tokens arrived together with the one before: ITL cannot"
                    " be known and is left out"
                )
