"""The result of every reader here, and the checks that all of them share."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from trueup_node.errors import ParseError
from trueup_node.reading import Line, is_number
from trueup_node.serving import LATENCIES, LEAST_TOKEN_SECONDS, rows, spread_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trueup_node.record import Metric

# By engine, its names in tools' outputs.
_ENGINES: Final = {
    "sglang": r"sglang.*|sgl",
    "tensorrt-llm": r"trt|trt-?llm|tensorrt[-_]?llm.*",
    "vllm": r"vllm.*",
}
_SECONDS: Final = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_NUMBER: Final = re.compile(r"-?\d[\d,]{0,24}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,2})?")
_COUNTS: Final = (
    *("requests_completed", "requests_failed", "input_tokens", "output_tokens"),
    "peak_concurrent_requests",
)
_STATISTIC: Final = re.compile(r"mean|median|std|min|max|p\d{1,2}(?:\.\d{1,4})?")
_SILENT: Final = frozenset({"", "none", "null", "n/a", "not set", "unknown", "auto"})
_NEAR: Final = 0.05
_ROUGHLY: Final = 10.0
# A count of requests that may be off by more is not known.
_MOST_UNSURE: Final = 0.2
_REQUESTS: Final = "request_throughput"
_INPUT: Final = "input_token_throughput"
_OUTPUT: Final = "output_token_throughput"
_TOTAL: Final = "total_token_throughput"
_LENGTH: Final = "mean_output_length"
_SHARE: Final = 1e-6  # sums and means in another order differ less
_MOST: Final = 1e15


class Figure(NamedTuple):
    """A printed number.

    Attributes:
        slack: how far it may be off: half of its last digit.
        line: its line; None in JSON.
    """

    value: float
    slack: float = 0.0
    line: Line | None = None

    def times(self, factor: float) -> Figure:
        """The same in another unit."""
        return Figure(self.value * factor, self.slack * factor, self.line)


def printed(text: str, line: Line) -> Figure:
    """A number as a tool prints it, with commas or without.

    Raises:
        ParseError: it is none, or negative.
    """
    text = text.strip()
    if not _NUMBER.fullmatch(text) or text.startswith("-"):
        raise line.error(f"{text!r} is not a number of 0 or more")
    mantissa, _, exponent = text.replace(",", "").lower().partition("e")
    digits = len(mantissa.partition(".")[2]) - int(exponent or 0)
    slack = 0.0 if digits <= 0 and not exponent else 0.5 * 10.0**-digits
    return Figure(float(text.replace(",", "")), slack * (1 + 1e-9), line)


def seconds_of(unit: str) -> float | None:
    """The factor of a unit of time, also by token ("ms/token"); None of any other unit."""
    return _SECONDS.get(unit.strip().lower().partition("/")[0])


@dataclass(frozen=True)
class Serving:
    """One run against one server or in one engine.

    Attributes:
        figures: those that the output states or that follow from it: the rates and counts of
            ``trueup_node.serving``, input_token_throughput, total_tokens, mean_input_length,
            mean_output_length, concurrency and duration.
        latencies: seconds, by ``LATENCIES`` and statistic.
        gpu_count: GPUs of the engine, where the output says it.
    """

    figures: Mapping[str, float]
    latencies: Mapping[str, Mapping[str, float]]
    parameters: dict[str, str]
    tool_version: str | None = None
    gpu_count: int | None = None
    warnings: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)
    not_judged: dict[str, str] = field(default_factory=dict)

    @property
    def checks(self) -> dict[str, bool]:
        """That no request failed; without a count there is no check."""
        failed = self.figures.get("requests_failed")
        return {} if failed is None else {"no_failed_requests": failed == 0}

    def metrics(self) -> list[Metric]:
        """The metrics of ``trueup_node.serving``."""
        return rows(self.figures, self.latencies)


class Draft:
    """The figures of one run as they are read, in any order.

    Args:
        client: the tool that measured.
        engine: the measured engine, where the tool measures no other.
    """

    def __init__(self, client: str, engine: str = "") -> None:
        self.figures: dict[str, Figure] = {}
        self.latencies: dict[str, dict[str, Figure]] = {name: {} for name in LATENCIES}
        self.parameters: dict[str, str] = {"client": client}
        self.not_judged: dict[str, str] = {}
        self.warnings: list[str] = []
        self.unverified: list[str] = []
        self.tool_version: str | None = None
        self.gpus: Figure | None = None
        # A duration that is not quite the one of the rates.
        self.about: Figure | None = None
        self.say("engine", engine)

    def put(self, name: str, figure: Figure | None) -> None:
        """Take a figure: a rate [1/s], a count, the duration [s] or a mean length; None is not
        said."""
        if figure is None:
            return
        self._whole(name, figure)
        if name in self.figures:
            _refuse(f"{name} stands twice: read one run at a time", figure)
        self.figures[name] = figure

    def latency(self, name: str, statistic: str, figure: Figure | None) -> None:
        """Take a statistic of a latency in seconds: mean, median, std, min, max or a percentile
        ("p99")."""
        if figure is None:
            return
        if not _STATISTIC.fullmatch(statistic):
            self.unknown(f"{statistic} {name}", figure.value)
            return
        self._whole(f"{statistic} {name}", figure)
        statistics = self.latencies[name]
        if statistic in statistics:
            _refuse(f"{statistic} {name.upper()} stands twice: read one run at a time", figure)
        statistics[statistic] = figure

    def same(self, name: str, statistic: str, figure: Figure | None) -> None:
        """Take a statistic that may stand twice, and then is the same."""
        earlier = self.latencies[name].get(statistic)
        if earlier is None:
            self.latency(name, statistic, figure)
        elif figure is not None and not _agree(earlier, figure):
            stated = f"{earlier.value:g} s and {figure.value:g} s"
            _refuse(f"the {statistic} {name.upper()} is {stated}", figure)

    def say(self, name: str, value: Any) -> None:
        """Take a parameter; a silent value is not said."""
        text = str(value).strip() if isinstance(value, (str, int, float)) else ""
        text = re.sub(r"^(\d{1,18})\.0+$", r"\1", text)
        if name == "engine":
            text = engine_of(text)
        if text.lower() not in _SILENT:
            self.parameters.setdefault(name, text)

    def unknown(self, name: str, value: Any) -> None:
        """Keep a setting, row or column that is not known."""
        self.not_judged[name] = str(value).strip()[:80]

    def _whole(self, name: str, figure: Figure) -> None:
        if not (math.isfinite(figure.value) and 0 <= figure.value < _MOST):
            _refuse(f"{name} {figure.value!r} is not a number of 0 or more", figure)
        if name in _COUNTS and not figure.value.is_integer():
            _refuse(f"{name} {figure.value!r} is not a whole number", figure)

    def finished(self) -> Serving:
        """The result, its figures checked against each other.

        Raises:
            ParseError: two of them contradict each other, or there is neither a throughput nor a
                latency.
        """
        self._derive()
        self._check_rates()
        self._check_latencies()
        figures = {name: figure.value for name, figure in self.figures.items()}
        latencies = {name: _shown(statistics) for name, statistics in self.latencies.items()}
        if figures.get("requests_completed") == 0:
            _refuse("no request succeeded", self.figures["requests_completed"])
        rates = [name for name in figures if name.endswith("throughput")]
        if not rates and not any(latencies.values()):
            raise ParseError("there is neither a throughput nor a latency in the result")
        return Serving(
            figures=figures,
            latencies={name: statistics for name, statistics in latencies.items() if statistics},
            parameters=self.parameters,
            tool_version=self.tool_version,
            gpu_count=self._gpus(),
            warnings=self.warnings,
            unverified=self.unverified,
            not_judged=self.not_judged,
        )

    def _gpus(self) -> int | None:
        if self.gpus is None:
            return None
        count = round(self.gpus.value)
        if count < 1 or abs(count - self.gpus.value) > self.gpus.slack + _SHARE * count:
            _refuse(f"{self.gpus.value:.4g} GPUs follow from the rate of each GPU", self.gpus)
        return count

    def _known(self, *names: str) -> list[tuple[Figure, ...]]:
        """Some figures as the only element, where all of them are known; else empty."""
        figures = tuple(self.figures[name] for name in names if name in self.figures)
        return [figures] if len(figures) == len(names) else []

    def _derive(self) -> None:
        """Add the figures that follow from others."""
        figures = self.figures
        # By tokens, whose rate has more digits than that of requests.
        for output, inputs, outputs in self._known(_OUTPUT, "mean_input_length", _LENGTH):
            if outputs.value > 0:
                figures.setdefault(_INPUT, _product(output, inputs, outputs))
        for requests, inputs in self._known(_REQUESTS, "mean_input_length"):
            if not requests.slack:
                figures.setdefault(_INPUT, _product(requests, inputs))
        for rate, output in self._known(_INPUT, _OUTPUT):
            together = Figure(rate.value + output.value, rate.slack + output.slack, rate.line)
            figures.setdefault(_TOTAL, together)

    def _check_rates(self) -> None:
        """Each rate is its count over the duration, and the total that of its parts."""
        self._count()
        for (duration,) in self._known("duration"):
            if duration.value <= 0:
                _refuse("the benchmark took no time", duration)
        for rate_name, count_name in (
            (_REQUESTS, "requests_completed"),
            (_OUTPUT, "output_tokens"),
            (_INPUT, "input_tokens"),
            (_TOTAL, "total_tokens"),
        ):
            for rate, count, duration in self._known(rate_name, count_name, "duration"):
                if not _agree(rate, _product(count, divisor=duration)):
                    counted = f"{count.value:.12g} in {duration.value:g} s"
                    _refuse(f"{rate_name} {rate.value:g} is not {counted}", rate)
            for rate, count in self._known(rate_name, count_name):
                self._check_near(rate_name, rate, count)
        self._check_parts()

    def _count(self) -> None:
        """The number of requests, where only their rate and the duration are printed: a whole
        one."""
        for rate, duration in self._known(_REQUESTS, "duration"):
            product = _product(rate, duration)
            count = round(product.value)
            if "requests_completed" in self.figures or product.slack > _MOST_UNSURE:
                continue
            if not count or not _agree(product, Figure(float(count))):
                _refuse(
                    f"{rate.value:g} requests a second in {duration.value:g} s are"
                    f" {product.value:.6g}: no whole number",
                    rate,
                )
            self.figures["requests_completed"] = Figure(float(count), 0.0, rate.line)

    def _check_near(self, name: str, rate: Figure, count: Figure) -> None:
        near = self.about
        if near is not None and near.value and not _is_near(rate, count.value / near.value):
            counted = f"{count.value:.12g} in {near.value:.6g} s"
            self.warnings.append(f"{name} {rate.value:.6g} is not near {counted}")

    def _check_parts(self) -> None:
        for inputs, outputs, total in self._known(_INPUT, _OUTPUT, _TOTAL):
            together = Figure(inputs.value + outputs.value, inputs.slack + outputs.slack)
            if not _agree(total, together):
                _refuse(
                    f"{_TOTAL} {total.value:g} is not {inputs.value:g} of the input and"
                    f" {outputs.value:g} of the output",
                    total,
                )
        for outputs, total in self._known(_OUTPUT, _TOTAL):
            if not _below(outputs, total):
                _refuse("the total token throughput is below that of the output", total)
        for good, requests in self._known("request_goodput", _REQUESTS):
            if not _below(good, requests):
                _refuse("request_goodput is above the request throughput", good)
        for outputs, requests, length in self._known(_OUTPUT, _REQUESTS, _LENGTH):
            if not _agree(outputs, _product(requests, length)):
                _refuse(
                    f"{_OUTPUT} {outputs.value:g} is not {requests.value:g} requests a second of"
                    f" {length.value:g} tokens",
                    outputs,
                )

    def _check_latencies(self) -> None:
        """The order of percentiles, of TTFT and E2EL, and of both and the duration."""
        for name, statistics in self.latencies.items():
            if not statistics:
                continue
            values = {key: figure.value for key, figure in statistics.items()}
            deviation = values.pop("std", None)
            slack = 3 * max(figure.slack for figure in statistics.values())
            slack += 1e-9 * max(values.values(), default=0.0)
            if name in {"tpot", "itl"} and self._is_unresolved(name, values):
                continue
            low, high = values.pop("min", None), values.pop("max", None)
            wrong = spread_error(name.upper(), values, deviation, slack)
            if wrong is not None:
                _refuse(wrong[1], statistics.get(wrong[0]) or next(iter(statistics.values())))
            least, most = (0.0 if low is None else low), (_MOST if high is None else high)
            for key, value in values.items():
                if not least - slack <= value <= most + slack:
                    _refuse(f"{key} {name.upper()} is not between min and max", statistics[key])
        self._check_contained()

    def _check_contained(self) -> None:
        first, whole = self.latencies["ttft"], self.latencies["e2el"]
        for key in ("mean", "median"):
            short, long = first.get(key), whole.get(key)
            if short is not None and long is not None and not _below(short, long):
                _refuse(f"the {key} TTFT is longer than that E2EL", long)
        longest = whole.get("mean")
        if longest is None:
            return
        duration = self.figures.get("duration", self.about)
        if duration is not None and not _below(longest, duration.times(1 + _NEAR)):
            _refuse(
                f"a mean E2EL of {longest.value:g} s in a benchmark of {duration.value:g} s",
                longest,
            )
        for rate, count in self._known(_REQUESTS, "requests_completed"):
            if not _below(longest, _product(count, divisor=rate).times(1 + _NEAR)):
                _refuse(
                    f"a mean E2EL of {longest.value:g} s of {count.value:g} requests,"
                    f" {rate.value:g} a second",
                    longest,
                )
        for (length,) in self._known(_LENGTH):
            self._check_steps(longest, length)
        self._check_concurrency(longest)

    def _check_concurrency(self, longest: Figure) -> None:
        """By Little's law."""
        for rate, concurrency in self._known(_REQUESTS, "concurrency"):
            if not _agree(concurrency, _product(rate, longest)):
                _refuse(
                    f"concurrency {concurrency.value:g} is not {rate.value:g} requests a second of"
                    f" {longest.value:g} s",
                    concurrency,
                )

    def _check_steps(self, longest: Figure, length: Figure) -> None:
        """An answer takes its TTFT and a TPOT for each further token, by their means roughly."""
        first, step = self.latencies["ttft"].get("mean"), self.latencies["tpot"].get("mean")
        if first is None or step is None or length.value < 1:
            return
        expected = first.value + step.value * (length.value - 1)
        if not longest.value / _ROUGHLY <= expected <= longest.value * _ROUGHLY:
            _refuse(
                f"a mean E2EL of {longest.value:g} s, where TTFT and {length.value:g} tokens take"
                f" {expected:g} s",
                longest,
            )

    def _is_unresolved(self, name: str, values: Mapping[str, float]) -> bool:
        """Take out a latency between tokens that streaming did not resolve, and say so."""
        middle = values.get("median", values.get("mean"))
        if middle is None or middle >= LEAST_TOKEN_SECONDS:
            return False
        self.latencies[name] = {}
        self.warnings.append(
            f"{name.upper()} of {middle:g} s: tokens arrived together, or one token a request was"
            " asked for; it cannot be known and is left out"
        )
        return True


def engine_of(name: str) -> str:
    """One name for each engine; that of an unknown one in lower case."""
    text = name.strip().lower()
    return next((engine for engine, names in _ENGINES.items() if re.fullmatch(names, text)), text)


def number(value: Any, factor: float = 1.0) -> Figure | None:
    """A figure of JSON, in another unit by the factor; None where it is null or absent.

    Raises:
        ParseError: it is no number.
    """
    if value is None:
        return None
    if not is_number(value) or abs(value) > _MOST:
        raise ParseError(f"{str(value)[:80]!r} is not a number of a measurement")
    return Figure(float(value) * factor)


def at(data: Any, path: str) -> Any:
    """A member of nested objects and lists: "models.0.name"; None where one is missing."""
    for name in path.split("."):
        if isinstance(data, list) and name.isdecimal():
            data = dict(enumerate(data)).get(int(name))
        else:
            data = data.get(name) if isinstance(data, dict) else None
    return data


def _shown(statistics: Mapping[str, Figure]) -> dict[str, float]:
    """Mean, median and the percentiles above, in this order."""
    values = {name: figure.value for name, figure in statistics.items()}
    median = values.get("median", values.get("p50"))
    picked = {"mean": values.get("mean"), "median": median}
    percents = sorted(float(name[1:]) for name in values if name.startswith("p"))
    picked |= {f"p{percent:g}": values[f"p{percent:g}"] for percent in percents if percent > 50}
    return {name: value for name, value in picked.items() if value is not None}


def _product(first: Figure, second: Figure | None = None, divisor: Figure | None = None) -> Figure:
    """first x second / divisor, with the slack of all."""
    value, share = first.value, first.slack / first.value if first.value else 0.0
    if second is not None:
        value *= second.value
        share += second.slack / second.value if second.value else 0.0
    if divisor is not None and not divisor.value:
        return Figure(math.inf, 0.0, first.line)
    if divisor is not None:
        value /= divisor.value
        share += divisor.slack / divisor.value
    return Figure(value, abs(value) * share * (1 + share), first.line)


def _agree(first: Figure, second: Figure) -> bool:
    most = max(abs(first.value), abs(second.value))
    return abs(first.value - second.value) <= first.slack + second.slack + _SHARE * most


def _is_near(rate: Figure, expected: float) -> bool:
    return abs(rate.value - expected) <= rate.slack + _NEAR * expected


def _below(short: Figure, long: Figure) -> bool:
    slack = short.slack + long.slack + _SHARE * abs(long.value)
    return short.value <= long.value + slack


def _refuse(message: str, figure: Figure) -> NoReturn:
    raise figure.line.error(message) if figure.line is not None else ParseError(message)
