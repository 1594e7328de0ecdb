"""Parser of the output of Devito's benchmark.

Two forms are read:

- the last line of trueup's driver (``trueup-devito {...}``, roles/devito/files/devito_driver.py):
  unrounded;
- Devito's own log at level PERF (read off Devito 4.8.23, devito/operator/operator.py
  ``_emit_apply_profiling``):
  ``Operator `Forward` ran in 1.73 s`` (``run in`` in old versions) and then ``Global performance:
  [OI=2.66, 45.21 GFlops/s, 1.00 GPts/s]``.
  There every figure is rounded up to 0.01, and the rates are derived from the rounded time. Of
  several operators in a log the benchmark's forward operator counts, else the one that runs
  longest; the others are named. Operators that set up a model (``initdamp``) are no benchmark.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...errors import ParseError
from ...reading import Line, decoded, lines_of, only
from ...record import Metric, summarise
from .signatures import DRIVER_PREFIX

TOOL = "devito"
ERROR_PREFIX = "trueup-devito-error "

# The forward operators of benchmarks/user/benchmark.py: acoustic, acoustic_sa, tti, elastic,
# viscoelastic.
_FORWARD = (
    "Forward",
    "IsoFwdOperator",
    "ForwardTTI",
    "ForwardElastic",
    "ViscoIsoElasticForward",
)
_DECIMAL = re.compile(r"-?[0-9]+\.[0-9]+")
_FIGURE = re.compile(r"(?:OI=(?P<oi>\S+))|(?:(?P<value>\S+) (?P<unit>GFlops/s|GPts/s))")
# No figure of a run is larger; rates made of such are finite.
_MOST = 1e100
# Operators of Devito's own models and functions, which a benchmark runs before its own.
_HELPER = re.compile(
    r"init\w*|pad\w*|assign|\w*smooth\w*|norm\d*|sumall|inner|mmin|mmax", re.IGNORECASE
)
_NO_PERFORMANCE = "no 'Global performance' after the run: cut off, or DEVITO_LOGGING is below PERF"
# Lines of an operator whose run has begun.
_BEGUN = re.compile(r"Operator `\w+` (?:r[au]n in|jit-compiled|arguments preprocess)")
_GENERATED = re.compile(r"Operator `(\w+)` generated in (\S+) s\s*$")
_CLOCKS_DIFFER = 0.01
_TIMED_DIFFERENCE_SECONDS = 0.011  # the log rounds up to 0.01


@dataclass(frozen=True)
class Repeat:
    """One application of the operator.

    Attributes:
        seconds: its run time; compilation and autotuning are not in it.
        flops: floating-point operations done (single precision), None where the output does not
            say.
        points: grid points updated, None likewise.
        operational_intensity: flop per byte of memory traffic by Devito's count of compulsory
            accesses.
        halo_seconds: time in the exchange of halos, packing and waiting included, mean over the
            ranks; None with one rank and in Devito's log.
    """

    seconds: float
    flops: Optional[float]
    points: Optional[float]
    operational_intensity: Optional[float]
    halo_seconds: Optional[float] = None


class _Run(NamedTuple):
    """A run in Devito's log: the line that says how long it took, and its figures."""

    line: Line
    operator: str
    repeat: Repeat


@dataclass(frozen=True)
class Tuning:
    """Where a run's block shape is from.

    Attributes:
        reused: an earlier run found it; else this one.
        found_at: when it was found, UTC.
        ignored: why a kept one was not used, or this one not kept.
    """

    reused: bool = False
    found_at: Optional[str] = None
    ignored: Optional[str] = None


@dataclass(frozen=True)
class DevitoOutput:
    """A benchmark run of one or more repeats.

    ``operator`` is the name of the operator that ran, ``not_judged`` the times of other operators,
    ``generated`` the seconds of a text without a run.
    ``norms``, ``tuned``, ``tuning``, ``cpus`` and the versions are known from the driver only.
    """

    repeats: Tuple[Repeat, ...]
    exact: bool
    tool_version: Optional[str] = None
    software: Mapping[str, str] = field(default_factory=dict)
    norms: Mapping[str, float] = field(default_factory=dict)
    tuned: Mapping[str, int] = field(default_factory=dict)
    tuning: Tuning = field(default_factory=Tuning)
    autotune_seconds: Optional[float] = None
    cpus: Tuple[str, ...] = ()
    hosts: Tuple[str, ...] = ()
    ranks: Optional[int] = None
    operator: str = "Forward"
    not_judged: Mapping[str, str] = field(default_factory=dict)
    unverified: Tuple[str, ...] = ()
    generated: Optional[float] = None

    @property
    def node_count(self) -> Optional[int]:
        """Machines that the driver names; None where nobody does."""
        return len(set(self.hosts)) or None

    @property
    def parameters(self) -> Dict[str, str]:
        """The operator, where it is not the benchmark's."""
        return {} if self.operator in _FORWARD else {"operator": self.operator}

    @property
    def checks(self) -> Dict[str, bool]:
        """Norms that are finite and not zero: a blown-up or empty field is not a measurement."""
        return {
            f"{name}_norm_finite": math.isfinite(value) and value > 0
            for name, value in self.norms.items()
        }

    @property
    def warnings(self) -> List[str]:
        """Warnings for the reader of the figures."""
        if self.exact:
            return [self.tuning.ignored] if self.tuning.ignored else []
        if not self.repeats:
            return []
        shortest = min(repeat.seconds for repeat in self.repeats)
        message = (
            "Devito's log rounds times up to 0.01 s and derives its rates from the rounded time: "
            f"up to {0.01 / shortest:.2%} off at {shortest:.2f} s"
        )
        several = (
            f"the log has {len(self.repeats)} runs: repeats of one case, unless outputs of several"
            " ranks or cases were put together"
        )
        if self.repeats[0].flops is None:
            message += "; no 'Global performance' below the run: no rates are known"
        return [message, several] if len(self.repeats) > 1 else [message]

    def metrics(self) -> List[Metric]:
        """run_time [s], flop_rate [flop/s], point_rate [point/s], operational_intensity [flop/byte]
        and norms."""
        repeats = self.repeats
        if not repeats:
            time = self.generated or 0.0
            return [Metric("generation_time", time, "s", "lower", statistic="single", n=1)]
        rows = summarise("run_time", [repeat.seconds for repeat in repeats], "s", "lower")
        flop_rates = [r.flops / r.seconds for r in repeats if r.flops is not None]
        point_rates = [r.points / r.seconds for r in repeats if r.points is not None]
        intensities = [r.operational_intensity for r in repeats if r.operational_intensity]
        for name, values, unit, direction in (
            ("flop_rate", flop_rates, "flop/s", "higher"),
            ("point_rate", point_rates, "point/s", "higher"),
            ("operational_intensity", intensities, "flop/byte", "none"),
        ):
            if len(values) == len(repeats):
                rows += summarise(name, values, unit, direction)
        halos = [
            min(r.halo_seconds / r.seconds, 1.0) for r in repeats if r.halo_seconds is not None
        ]
        if len(halos) == len(repeats):
            rows += summarise("halo_share", halos, "1", "lower")
        for name, metric in (("field", "field_norm"), ("receivers", "rec_norm")):
            # One that is not finite is a failed check; no record can hold it.
            if math.isfinite(self.norms.get(name, math.nan)):
                rows.append(Metric(metric, self.norms[name], "1", "none", statistic="single", n=1))
        if self.autotune_seconds is not None:
            rows.append(
                Metric("autotune_time", self.autotune_seconds, "s", "none", statistic="single", n=1)
            )
        return rows


def parse_devito(text: str) -> DevitoOutput:
    """Read the output of one benchmark run.

    Raises:
        ParseError: no forward operator ran to its end, a figure is missing or is no number, or the
            driver's line and
            the log beside it contradict each other.
    """
    lines = lines_of(text)
    logged = _logged(lines)
    forward = [run for run in logged if run.operator in _FORWARD]
    second = "a second result line of the driver: two runs in one output"
    for line in only(lines, DRIVER_PREFIX, second):
        output = _driver(line)
        _compare(output, forward, line)
        return output
    logged = [run for run in logged if not _HELPER.fullmatch(run.operator)]
    return _from_log(lines, logged, forward)


def _from_log(
    lines: Sequence[Line], logged: Sequence[_Run], forward: Sequence[_Run]
) -> DevitoOutput:
    """The output of Devito's own log, with the runs in it and those of the benchmark."""
    matches = filter(None, map(_GENERATED.search, lines))
    generated = [match for match in matches if not _HELPER.fullmatch(match[1])]
    if not logged and len(generated) == 1 and not any(map(_BEGUN.search, lines)):
        return _fragment(generated[0])
    if not logged or any(match[1] in _FORWARD and not forward for match in generated):
        raise ParseError(
            "no line 'Operator `Forward` ran in ... s': the run did not end, or its log level is "
            "below PERF"
        )
    chosen = _of_one_operator(forward or logged)
    return DevitoOutput(
        repeats=tuple(run.repeat for run in chosen),
        exact=False,
        operator=chosen[0].operator,
        not_judged=_others(logged, chosen[0].operator),
        unverified=_lacking(chosen) if forward else (),
    )


def _lacking(runs: Sequence[_Run]) -> Tuple[str, ...]:
    """That the rates of all runs are missing; those of some are an error."""
    without = [run.line for run in runs if run.repeat.flops is None]
    if 0 < len(without) < len(runs):
        raise without[0].error(_NO_PERFORMANCE)
    return (_NO_PERFORMANCE,) if without else ()


def _others(logged: Sequence[_Run], operator: str) -> Dict[str, str]:
    """The times of the other operators."""
    times: Dict[str, List[str]] = {}
    for run in logged:
        if run.operator != operator:
            times.setdefault(f"operator {run.operator}", []).append(f"{run.repeat.seconds:g} s")
    return {name: ", ".join(each) for name, each in times.items()}


def _fragment(generated: re.Match[str]) -> DevitoOutput:
    """The one figure of a text that shows how an operator was generated, and not its run."""
    seconds = _printed(generated[2], "time to generate", Line(generated[0], 1))
    lacking = "no line 'Operator ... ran in': the operator's run is not in the text"
    return DevitoOutput((), False, operator=generated[1], generated=seconds, unverified=(lacking,))


def _of_one_operator(runs: Sequence[_Run]) -> List[_Run]:
    """The runs of the operator that takes the most time."""
    totals: Dict[str, float] = {}
    for run in runs:
        totals[run.operator] = totals.get(run.operator, 0.0) + run.repeat.seconds
    longest = max(totals, key=lambda name: totals[name])
    return [run for run in runs if run.operator == longest]


def _logged(lines: Sequence[Line]) -> List[_Run]:
    """The runs in Devito's log, each with the figures below it."""
    runs: List[_Run] = []
    for line in lines:
        ran = re.search(r"Operator `(\w+)` r[au]n in (\S+) s\s*$", line)
        if ran:
            seconds = _printed(ran.group(2), "run time", line)
            runs.append(_Run(line, ran.group(1), Repeat(seconds, None, None, None)))
            continue
        performance = line.partition("Global performance: [")[2].rstrip()
        if performance.endswith("]") and runs and runs[-1].repeat.flops is None:
            line_of_run, name, repeat = runs[-1]
            figures = _figures(repeat.seconds, performance[:-1], line)
            runs[-1] = _Run(line_of_run, name, figures)
    points = any("Global performance" in line and "GPts/s" in line for line in lines)
    pointless = [run.line for run in runs if run.operator in _FORWARD and run.repeat.points is None]
    forward = any(run.operator in _FORWARD and run.repeat.flops is not None for run in runs)
    if pointless and forward and points:
        raise pointless[0].error("its figures are another operator's: points/s stand elsewhere")
    return runs


def _figures(seconds: float, text: str, line: Line) -> Repeat:
    values: Dict[str, float] = {}
    for figure_text in text.split(","):
        figure = _FIGURE.fullmatch(figure_text.strip())
        if not figure:
            if not re.fullmatch(r"\S+ \S+|\S+=\S+", figure_text.strip()):
                raise line.error(f"the form of {figure_text.strip()!r} is not known")
            continue
        name = "OI" if figure.group("oi") else figure.group("unit")
        if name in values:
            raise line.error(f"{name} stands twice")
        values[name] = _printed(figure.group("oi") or figure.group("value"), name, line)
    if "GFlops/s" not in values or "OI" not in values:
        raise line.error("OI and GFlops/s expected in Devito's performance")
    points = values.get("GPts/s")
    return Repeat(
        seconds=seconds,
        flops=values["GFlops/s"] * 1e9 * seconds,
        points=None if points is None else points * 1e9 * seconds,
        operational_intensity=values["OI"],
    )


def _printed(text: str, name: str, line: Line) -> float:
    """A figure of Devito's own log, which has no exponents."""
    number = _positive(text, name, line)
    if not _DECIMAL.fullmatch(text):
        raise line.error(f"{name} {text!r} is no decimal number")
    return number


def _positive(value: Any, name: str, line: Line) -> float:
    number = _finite(value, name, line)
    if number < 1 / _MOST:
        raise line.error(f"{name} {str(value)!r} is not a positive number")
    return number


def _finite(value: Any, name: str, line: Line) -> float:
    try:
        number = float(str(value))
    except ValueError:
        raise line.error(f"{name} {str(value)!r} is not a number") from None
    if not abs(number) < _MOST:
        raise line.error(f"{name} {str(value)!r} is not a positive number")
    return number


def _not_negative(value: Any, name: str, line: Line) -> float:
    number = _finite(value, name, line)
    if number < 0:
        raise line.error(f"{name} {number} is negative")
    return number


def _driver(line: Line) -> DevitoOutput:
    data = decoded(line, DRIVER_PREFIX, "the driver's line", version=1, role="devito")
    try:
        repeats = tuple(_driver_repeat(item, line) for item in data["repeats"])
        if not repeats:
            raise line.error("the driver's line holds no repeats")
        software = {
            name: str(data[name])
            for name in ("devito", "python", "compiler", "mpi")
            if data[name] is not None
        }
        return DevitoOutput(
            repeats=repeats,
            exact=True,
            tool_version=str(data["devito"]),
            software=software,
            # A norm that is NaN is a failed check, not unreadable: the field blew up.
            norms={str(name): float(value) for name, value in data["norms"].items()},
            tuned={str(name): int(value) for name, value in data["tuned"].items()},
            # Since tunings are kept.
            tuning=_tuning(data.get("tuning", {})),
            autotune_seconds=_not_negative(data["autotune_seconds"], "autotune_seconds", line),
            cpus=tuple(str(cpus) for cpus in data["cpus"]),
            # Since drivers measure over nodes; kept output of older ones is read all the same.
            hosts=tuple(str(host) for host in data.get("hosts", [])),
            ranks=int(data["ranks"]),
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise line.error(f"the driver's line lacks or spoils {error}") from None


def _tuning(fields: Mapping[str, Any]) -> Tuning:
    texts = {name: fields.get(name) for name in ("found_at", "ignored")}
    return Tuning(
        reused=bool(fields.get("reused")),
        **{name: None if text is None else str(text) for name, text in texts.items()},
    )


def _driver_repeat(item: Mapping[str, Any], line: Line) -> Repeat:
    seconds = _positive(item["seconds"], "seconds", line)
    halo = item.get("halo_seconds")
    if halo is not None:
        halo = _finite(halo, "halo_seconds", line)
        # Another clock than the run time's.
        if not 0 <= halo <= seconds * (1 + _CLOCKS_DIFFER):
            raise line.error(f"{halo} s of halos in a run of {seconds} s")
    return Repeat(
        seconds=seconds,
        halo_seconds=halo,
        flops=_positive(item["flops"], "flops", line),
        points=_positive(item["points"], "points", line),
        operational_intensity=_positive(item["operational_intensity"], "OI", line),
    )


def _compare(output: DevitoOutput, logged: Sequence[_Run], driver: Line) -> None:
    """The log beside the driver's line must tell the same, rounded."""
    if logged and len(logged) != len(output.repeats):
        raise driver.error(
            f"the driver says {len(output.repeats)} repeats, the log shows {len(logged)}"
        )
    for (line, _, log), exact in zip(logged, output.repeats):
        # Over ranks the driver takes the slowest, the log rank 0's: the log may be the shorter of
        # the two.
        if log.seconds - exact.seconds > _TIMED_DIFFERENCE_SECONDS:
            raise line.error(
                f"the log says {log.seconds} s where the driver says {exact.seconds} s"
            )
