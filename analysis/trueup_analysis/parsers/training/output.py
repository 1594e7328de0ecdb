"""Parser of training logs: torchtitan, NeMo, GPT-NeoX, MaxText, nanoGPT, llm.c, LitGPT, others.

One line is an iteration, or the mean of those since the line before. Its form is that of its
program (``signatures.FORMS``); the figures in it have the same names in most, with their units:

    step: 10  loss:  3.97610  grad_norm:  1.9366  memory: ...  tps: 324,245  tflops: 23.21  mfu: ...
    Training epoch 0, iteration 1/249 | ... | global_step: 1 | reduced_train_loss: 1.653 | ...
    samples/sec: 51.234 | iteration 10/ 50 | elapsed time per iteration (ms): 9876.5 | ...
    completed step: 5, seconds: 20.585, TFLOP/s/device: 97.566, Tokens/s/device: 1989.820, ...
    iter 10: loss 3.4012, time 123.45ms, mfu 12.34%
    step    1/3 | loss 11.032358 (+nanz)| norm 22.1414 (+nanz)| lr 8.57e-07 | 2511.08 ms | ...

Rates of torchtitan (``tps``, components/metrics.py) and MaxText are of one device. A rate of all
is computed where the log has the number of devices; a rate of samples where it has the batch.

Iterations go by their numbers. A number that comes again at once is another rank's line; one that
goes back begins the run anew, and the last one counts. Warm-up and losses are judged as Megatron's.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from trueup_node.benchmarks.megatron.losses import judged
from trueup_node.benchmarks.megatron.output import warm_up
from trueup_node.errors import ParseError
from trueup_node.reading import Line, each_line
from trueup_node.record import Metric, summarise

from .signatures import RL_HEADING, Form, head_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TOOL = "training"
_FEWEST_LINES = 3
_FEWEST_TO_FALL = 16
_LIGHTNING, _MOST_JOINED = "Training epoch ", 2000
# Lines of a step of NeMo-RL; its loss is that of a policy, which need not fall.
_OF_STEP = re.compile(r"Total step time: |- E2E \(Tokens/sec/gpu\): |TFLOPS per rank\)")
# A number that ends there: no separator and no letter of an exponent parts it from more digits.
_END = r"(?=[\s|,/)\]%(a-df-zA-DF-Z]|$)(?!\s?[,;:|=.\t]\d)"
_N = r"(\d{1,18}(?:\.\d{1,12})?(?:[eE][+-]\d\d)?|nan|inf)" + _END
_WHOLE = r"(\d{1,3}(?:,\d{3}){1,5}|\d{1,18}(?:\.\d{1,12})?)" + _END
_VALUE, _COUNT = r"[ :=]{1,6}" + _N, r"[ :=]{1,6}" + _WHOLE
# Figures: the factor to the base unit, a text that stands in each line with it, and the pattern of
# its name or unit, with the number.
_FIGURES = tuple(
    (name, factor, hint, re.compile(pattern, re.IGNORECASE))
    for name, factor, hint, pattern in (
        ("loss", 1.0, "reduced", rf"(?<!\w)reduced_train_loss{_VALUE}"),
        (
            *("loss", 1, "loss"),
            rf"(?<!val )(?<![\w-])(?:train_|lm[_ -])?loss(?: train)?{_VALUE}",
        ),
        ("val_loss", 1, "val_loss", rf"(?<!\w)val_loss{_VALUE}"),
        ("seconds", 1e-3, "ms", rf"(?:(?<!\w)(?:time|dt|took)[ :=]{{1,6}}|[|(] {{0,8}}){_N} ?ms\b"),
        ("seconds", 1e-3, "elapsed", rf"elapsed time per iteration \(ms\){_VALUE}"),
        ("seconds", 1, "timing in s", rf"train_step_timing in s{_VALUE}"),
        ("seconds", 1, "seconds", rf"(?<!\w)seconds{_VALUE}"),
        ("seconds", 1, "time (s)", rf"iter time \(s\){_VALUE}"),
        ("seconds", 1, "dt", rf"(?<!\w)dt{_VALUE} ?s\b"),
        ("seconds", 1, "step time", rf"Total step time{_VALUE}s\b"),
        ("seconds", 1, "s/it", rf"[ ,]{_N}s/it\b"),
        ("clock", 1e-3, "train_time", rf"(?<!\w)train_time{_VALUE}ms"),
        ("tokens", 1, "tok/s", rf"[|(] {{0,8}}{_WHOLE} tok/s\b"),
        ("tokens", 1, "sec", rf"(?<!\w)(?:tok|tokens)(?:/| per |_per_)sec(?:ond)?{_COUNT}"),
        ("device_tokens", 1, "ps:", rf"(?<!\w)[tw]ps{_COUNT}"),
        ("device_tokens", 1, "s/device", rf"(?<!\w)Tokens/s/device{_COUNT}"),
        ("device_tokens", 1, "s/gpu", rf"tokens per GPU \(tokens/s/GPU\){_VALUE}"),
        ("device_tokens", 1, "s/gpu", rf"tokens/s/GPU inst/harmonic mean{_VALUE}"),
        ("device_tokens", 1, "e2e", rf"- E2E \(Tokens/sec/gpu\){_VALUE}"),
        ("flops", 1e12, "per rank", rf"\({_N} TFLOPS per rank\)"),
        ("samples", 1, "samples/sec", rf"(?<!\w)samples/sec{_VALUE}"),
        ("flops", 1e12, "flop", rf"(?<!\w)(?:tflops|TFLOP/s/device|TFLOPS_per_GPU){_VALUE}"),
        ("flops", 1e12, "s/gpu", rf"(?:throughput|compute) per GPU \(TFLOP/s/GPU\){_VALUE}"),
        ("flops", 1e12, "approx", rf"approx flops per GPU{_VALUE}TFLOPS\b"),
        ("mfu", 0.01, "mfu", rf"(?<!\w)mfu{_VALUE}"),
        ("mfu", 0.01, "% ", rf"[|(] {{0,8}}{_N}% (?:\w{{1,8}} )?MFU\b"),
        ("batch", 1, "batch", rf"(?<!\w)global_batch_size{_VALUE}"),
        ("skipped", 1, "skipped", rf"number of skipped iterations{_VALUE}"),
        ("nan", 1, "nan", rf"number of nan iterations{_VALUE}"),
    )
)
# Figures that may be 0; a loss may be no number.
_MAY_BE_ODD = {"skipped", "nan", "loss", "val_loss"}
_TWICE = "twice"
_NO_RATE = {_TWICE, "batch", "skipped", "nan", "loss", "val_loss"}
_OTHER_NAME = re.compile(r"([A-Za-z][\w./()%-]{0,40}(?: [a-z]{1,20}){0,4})[:=] {0,4}[+-]?[\d(]")
# Facts of the whole log.
_MESH = re.compile(r"Building \d-D device mesh with \[[^]\n]{0,200}\], \[([\d, ]{1,100})\]")
_DEGREES = re.compile(
    r"device mesh with parallelism: pp=(\d{1,6}), dp_replicate=(\d{1,6}), dp_shard=(\d{1,6}),"
    r" cp=(\d{1,6}), tp=(\d{1,6})\b"
)
_FACTS = {
    "micro_batch": re.compile(r"\blocal batch size:? (\d{1,9})\b"),
    "global_batch": re.compile(r"\bglobal batch size:? (\d{1,9})\b"),
    "sequence_length": re.compile(r"\bsequence length:? (\d{1,9})\b"),
    "model": re.compile(r"\bModel (\S+ \S+) size: [\d,]+ total parameters"),
}
_METRICS = (
    ("seconds", "step_time", "s", "lower"),
    ("samples", "sample_throughput", "1/s", "higher"),
    ("tokens", "token_throughput", "1/s", "higher"),
    ("device_tokens", "device_token_throughput", "1/s", "higher"),
    ("flops", "train_flops_printed", "flop/s", "higher"),
    ("mfu", "mfu_printed", "1", "higher"),
)
# Figures of a line whose product is the same work in all lines, or with -1 whose quotient.
_WORK = (
    *(("seconds", "flops", 1), ("seconds", "samples", 1), ("seconds", "device_tokens", 1)),
    ("flops", "device_tokens", -1),
)


class Iteration(NamedTuple):
    """A line: its figures in base units, the share by which each may be off, as rounded, and its
    decimals."""

    number: int
    total: int | None
    figures: Mapping[str, float]
    shares: Mapping[str, float]
    places: Mapping[str, str]
    line: Line


@dataclass(frozen=True)
class TrainingOutput:
    """A run of one program.

    ``begun``: the log has the beginning of the run, and with it warm-up. ``gpu_count``: devices,
    where the log has their number. ``losses``: of training, or of the validation where no line of
    an iteration has one.
    """

    iterations: tuple[Iteration, ...]
    parameters: dict[str, str]
    losses: tuple[float, ...]
    gpu_count: int | None = None
    begun: bool = True
    notes: tuple[str, ...] = ()
    not_judged: Mapping[str, str] = field(default_factory=dict)
    tool_version: None = None

    @property
    def measured(self) -> tuple[Iteration, ...]:
        """The iterations after the warm-up; the last one where all are warm-up."""
        return self.iterations[min(self._warm_up, len(self.iterations) - 1) :]

    @property
    def _warm_up(self) -> int:
        lines = self.iterations
        interval = lines[-1].number - lines[-2].number if len(lines) > 1 else 1
        return warm_up(len(lines), interval) if self.begun else 0

    @property
    def unverified(self) -> list[str]:
        """Fewer lines than the warm-up and one more."""
        if len(self.iterations) >= _FEWEST_LINES or not self.begun:
            return []
        return [f"{len(self.iterations)} lines of iterations, and the first two are warm-up"]

    @property
    def _judged(self) -> tuple[dict[str, bool], dict[str, str]]:
        if not self.losses:
            return {}, {}
        losses = [loss for loss in self.losses if math.isfinite(loss)]
        is_long = self.begun and len(losses) >= _FEWEST_TO_FALL
        return judged(losses, least_fall=0.0 if is_long else None)

    @property
    def checks(self) -> dict[str, bool]:
        """Whether it trained, as of Megatron: losses finite, falling over 16 lines from the
        beginning, not above start or best at the end; no iteration skipped or NaN."""
        return {
            **({"loss_finite": all(map(math.isfinite, self.losses))} if self.losses else {}),
            **self._judged[0],
            **{
                f"no_iteration_{name}": not any(self._each(self.iterations, key))
                for key, name in (("skipped", "skipped"), ("nan", "nan"))
                if self._each(self.iterations, key)
            },
        }

    @property
    def reasons(self) -> dict[str, str]:
        """Of a check, the sentence for its failure."""
        return self._judged[1]

    @property
    def warnings(self) -> list[str]:
        """Warnings for the reader of the figures."""
        dropped = len(self.iterations) - len(self.measured)
        warnings = list(self.notes)
        if dropped:
            warnings.append(
                f"the first {dropped} of {len(self.iterations)} lines are warm-up and in no time"
                " or rate"
            )
        skipped = sum(self._each(self.iterations, "skipped"))
        return warnings + ([f"{skipped:.0f} iterations were skipped"] if skipped else [])

    @staticmethod
    def _each(iterations: Sequence[Iteration], name: str) -> list[float]:
        return [item.figures[name] for item in iterations if name in item.figures]

    def metrics(self) -> list[Metric]:
        """Those that the lines print: step_time [s], sample_throughput and token_throughput [1/s],
        device_token_throughput [1/s] and train_flops_printed [flop/s] of one device, mfu_printed
        [1], loss_first and loss_last."""
        rows: list[Metric] = []
        for key, name, unit, direction in _METRICS:
            values = [value for value in self._each(self.measured, key) if value > 0]
            rows += summarise(name, values, unit, direction) if values else []
        for name, at in (("loss_first", 0), ("loss_last", -1)):
            if self.losses and math.isfinite(self.losses[at]):
                rows.append(Metric(name, self.losses[at], "1", "lower", statistic="single", n=1))
        return rows


def parse_training(text: str) -> TrainingOutput:
    """Read the log of one run.

    Raises:
        ParseError: no line has a rate or a time, or the work of two lines contradicts itself.
    """
    log = _Log()
    for line in _joined(text):
        log.take(line)
    if log.form is None or not log.iterations:
        raise ParseError("no line of an iteration has a time or a rate")
    if log.form.is_exact:
        _check_work(log.iterations)
    return log.output()


def _joined(text: str) -> Iterator[Line]:
    """The lines; one of Lightning that ends in ``|`` goes on in the next, and the lines of a step
    of NeMo-RL that hold its rates are one with its heading."""
    pending: Line | None = None
    step: Line | None = None
    for number, raw in enumerate(each_line(text), 1):
        if RL_HEADING.search(raw):
            yield from [step] if step else []
            step = Line(raw, number)
        elif step and len(step) < _MOST_JOINED and _OF_STEP.search(raw):
            step = Line(f"{step} | {raw.strip()}", step.number)
        line = Line(raw, number) if pending is None else Line(pending + raw, pending.number)
        is_open = _LIGHTNING in line and line.rstrip().endswith("|") and len(line) < _MOST_JOINED
        pending = line if is_open else None
        if pending is None:
            yield line
    yield from (line for line in (pending, step) if line)


class _Log:
    """Lines of iterations since the last start, and the log's other facts."""

    def __init__(self) -> None:
        self.form: Form | None = None
        self.iterations: list[Iteration] = []
        self.numbers: set[int] = set()
        self.parameters: dict[str, str] = {}
        self.gpus: int | None = None
        self.repeats = 0
        self.notes: list[str] = []
        self.names: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.twice = 0
        self.clock: tuple[int, float] | None = None
        self.validated: list[float] = []

    def take(self, line: Line) -> None:
        """Take any line."""
        matched = head_of(line) if self.form is None else head_of(line, (self.form,))
        if matched is None:
            self._facts(line)
            return
        form, head = matched
        figures, shares, places, rest = _figures(line, head.end("step"))
        if "val_loss" in figures and "loss" not in figures:
            self.validated.append(figures["val_loss"])
            return
        if not figures.keys() - _NO_RATE:
            return
        self.form = form
        number = int(head["step"])
        if not self._is_new(number):
            return
        self.counts.update(figures.keys())
        self.names.update(list(dict.fromkeys(_OTHER_NAME.findall(rest))))
        self.twice += figures.pop(_TWICE, 0) > 0
        self._timed(number, figures)
        total = head.groupdict().get("total")
        self.iterations.append(
            Iteration(number, int(total) if total else None, figures, shares, places, line)
        )
        self.numbers.add(number)

    def _is_new(self, number: int) -> bool:
        """Whether an iteration is none of another rank; where the numbers go back, the run begins
        anew."""
        if not self.iterations or number > self.iterations[-1].number:
            return True
        interval = (
            self.iterations[-1].number - self.iterations[-2].number if self.iterations[1:] else 1
        )
        if number in self.numbers and self.iterations[-1].number - number <= 2 * interval:
            self.repeats += 1
            return False
        self.notes.append(
            f"the run began anew at iteration {number}: iterations {self.iterations[0].number} to"
            f" {self.iterations[-1].number} before it are left out"
        )
        self.iterations, self.numbers, self.clock, self.validated = [], set(), None, []
        self.counts.clear()
        return True

    def _timed(self, number: int, figures: dict[str, float]) -> None:
        """The time of an iteration by a clock that runs from the first one."""
        clock = figures.pop("clock", None)
        if clock is None:
            return
        if self.clock is not None and clock > self.clock[1]:
            figures["seconds"] = (clock - self.clock[1]) / (number - self.clock[0])
        self.clock = (number, clock)

    def _facts(self, line: str) -> None:
        for name, pattern in _FACTS.items():
            if match := pattern.search(line):
                self.parameters[name] = match[1]
        if "device mesh" not in line:
            return
        if match := _MESH.search(line):
            self.gpus = math.prod(map(int, match[1].split(",")))
        elif match := _DEGREES.search(line):
            self.gpus = math.prod(map(int, match.groups()))

    def output(self) -> TrainingOutput:
        """The last run."""
        first, second = (self.iterations * 2)[:2]
        framework = self.form.framework if self.form else ""
        parameters = {**({"framework": framework} if framework else {}), **self.parameters}
        batches = {item.figures["batch"] for item in self.iterations if "batch" in item.figures}
        if len(batches) == 1:
            parameters["global_batch"] = f"{batches.pop():.0f}"
        losses = [item.figures["loss"] for item in self.iterations if "loss" in item.figures]
        begun = first.number <= max(1, second.number - first.number)
        remarks = (
            (self.repeats, f"{self.repeats} lines of an iteration that stands twice are left out"),
            (self.twice, f"a figure stands twice in {self.twice} lines: the first counts"),
            (self.validated and not losses, "losses are those of the validation"),
            (not begun, f"the log begins at iteration {first.number}"),
        )
        notes = [*self.notes, *(note for is_so, note in remarks if is_so), *self._missing()]
        return TrainingOutput(
            iterations=tuple(map(self._with_rates, self.iterations)),
            parameters=parameters,
            losses=tuple(losses or self.validated),
            gpu_count=self.gpus,
            begun=begun,
            notes=tuple(notes),
            not_judged={name: f"in {lines} lines" for name, lines in self.names.items()},
        )

    def _missing(self) -> Iterator[str]:
        """Sentences on iterations and figures that are missing among the others."""
        steps = [(a.number, b.number) for a, b in pairwise(self.iterations)][1:]
        interval = statistics.median_low([b - a for a, b in steps]) if steps else 1
        gaps = [f"{a} to {b}" for a, b in steps if b - a > interval]
        if gaps:
            yield f"iterations between {', '.join(gaps[:3])} are missing ({len(gaps)} gaps)"
        for name in self.counts if self.form and self.form.is_fixed else ():
            places = Counter(item.places[name] for item in self.iterations if name in item.places)
            if len(places) > 1:
                yield f"{name} has other decimals in {min(places.values())} lines"
        for name, count in self.counts.items():
            if count < len(self.iterations) and name not in {_TWICE, "val_loss"}:
                yield f"{name} stands in {count} of {len(self.iterations)} lines"

    def _with_rates(self, item: Iteration) -> Iteration:
        """The iteration with the rates of all devices that follow from its figures."""
        figures = dict(item.figures)
        batch = figures.get("batch", float(self.parameters.get("global_batch", 0)))
        if batch and figures.get("seconds"):
            figures.setdefault("samples", batch / figures["seconds"])
        length = float(self.parameters.get("sequence_length", 0))
        if "device_tokens" in figures and self.gpus:
            figures.setdefault("tokens", figures["device_tokens"] * self.gpus)
        elif length and "samples" in figures:
            figures.setdefault("tokens", figures["samples"] * length)
        return item._replace(figures=figures)


def _figures(
    line: str, begin: int
) -> tuple[dict[str, float], dict[str, float], dict[str, str], str]:
    """The figures of a line, the shares by which they are rounded, their decimals, and the rest of
    the line from there on."""
    figures: dict[str, float] = {}
    shares: dict[str, float] = {}
    decimals: dict[str, str] = {}
    rest = list(line)
    lower = line.lower()
    for key, factor, hint, pattern in _FIGURES:
        matches = [*islice(pattern.finditer(line), 2)] if hint in lower else []
        if not matches:
            continue
        first, last = matches[0].span()
        rest[first:last] = " " * (last - first)
        text = matches[0][1].replace(",", "").lower()
        value = float(text)
        if len(matches) > 1:
            figures[_TWICE] = 1
        if key in figures or not (key in _MAY_BE_ODD or 0 < value < math.inf):
            continue
        figures[key] = value * factor
        mantissa, _, exponent = text.partition("e")
        places = len(mantissa.partition(".")[2])
        decimals[key] = f"{places}{'e' if exponent else ''}"
        half = 0.5 * 10.0 ** (int(exponent or 0) - places)
        shares[key] = min(1.0, half / value) if value > 0 else 1.0
    return figures, shares, decimals, "".join(rest[begin:])


def _check_work(iterations: Sequence[Iteration]) -> None:
    """A rate times its time is the same work in all lines, within the printed precision, and one
    rate is the same multiple of another."""
    for first, second, power in _WORK:
        least, most = 0.0, math.inf
        for item in iterations:
            figures, shares = item.figures, item.shares
            if not (figures.get(first, 0) > 0 and figures.get(second, 0) > 0):
                continue
            work = figures[first] * figures[second] ** power
            share = min(1.0, (shares[first] + shares[second]) * 1.01 + 1e-9)
            least, most = max(least, work * (1 - share)), min(most, work * (1 + share))
            if least > most:
                raise item.line.error(
                    "the figures of this line are not the same work as in the lines before"
                )
