"""The log of a training run: Megatron-LM's, Megatron-DeepSpeed's, or that of trueup's gpt_driver.

Formats, from the sources (megatron/training/training.py of NVIDIA/Megatron-LM, branch core_r0.16.0,
commit ddc0d677; megatron/training.py of Megatron-DeepSpeed, commits 1f19913c of July 2022 and
4efb479d of 2025): one line for each iteration, or for each ``--log-interval`` of them, as

    [time] iteration N/ TOTAL | consumed samples: ... | elapsed time per iteration (ms): ... |
    throughput per GPU (TFLOP/s/GPU): ... | learning rate: ... | global batch size: ... |
    lm loss: ... | loss scale: ... | grad norm: ... | number of skipped iterations: ... |
    number of nan iterations: ... | samples per second: ... | TFLOPs: ... |

The time is printed by newer versions only, throughput by Megatron-LM with ``--log-throughput``,
samples per second and TFLOPs by Megatron-DeepSpeed. A line without ``lm loss`` had none that is a
positive number: the iteration was skipped, or the loss is NaN.

gpt_driver (roles/training/files/gpt_driver.py) prints the same lines between a first line of its
own and a last one, ``trueup-megatron {...}``, with everything unrounded and a checksum.

Nothing is taken that does not fit together: iterations follow each other, samples are batch x
iteration, samples per second are batch / time, a rate times its step time
is the same in all lines, and tokens are samples x length. A field that is not known is named, and
so is one that stands in some lines alone.

Megatron's own log may be a part: of a job that was cut or still runs (its last line may be half a
line), or that was resumed. It is read over its iterations, and names the missing ones; of several
starts in one log, each from a checkpoint, the last one counts.

Checkpoints are timed by Megatron's own timers, ``save-checkpoint ...: (least, most)`` in ms over
the ranks, and the job waits for the slowest; with ``--async-save`` it is the part that training
waits for. Where lines have a time, tokens by the clock are known too: from the first line to the
last, over all starts, with checkpoints, evaluation, outages and repeated iterations in it.

Warm-up: the first quarter of the lines is left out of all times and rates, at least 2 and at most 4
of them; none where the log begins in the middle of a run and shows no start. DeepSpeed on Azure
(2022-07-26) saw a steady state within 3 to 4 iterations; and the second line of Megatron-LM holds
the first iteration too, since its first line does not reset the timer.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from itertools import islice
from re import Match
from typing import Any, NamedTuple, Optional

from ...errors import ParseError
from ...reading import STANDARD_ERROR, Line, decoded, each_line, is_count, lines_of
from ...record import Metric, summarise
from .losses import judged
from .signatures import DRIVER_FIRST, DRIVER_PREFIX

TOOL = "megatron"
ROLE = "training"
_FEWEST_LINES = 3
_LONGEST = 1 << 30  # tokens of a sequence
_MOST_WARM_UP = 4
_FEWEST_TO_FALL = 16  # lines of a part of a log
_CLOCK = 0.01  # share by which a log's clock and its step times may differ
_DRIVER_FALL = 0.01  # share of its loss by which gpt_driver's own data lets it fall at least

_BEGIN = (
    r"(?:\[(?P<minute>\d{4}-\d\d-\d\d \d\d:\d\d):(?P<second>\d\d)\.(?P<part>\d{1,6})\] )?"
    r"iteration +(?P<number>\d{1,18})/ *(?P<total>\d{1,18}) \|"
)
_SECONDS = {f"{second:02d}": second for second in range(60)}
_LINE = re.compile(rf"(?:^|[\s:>]){_BEGIN}(?P<fields>.*)$")
# Text that only such a line holds: a line with it that has not the form above is damaged.
_LIKE = re.compile(r"elapsed time per iteration \(m?s\)|consumed samples:|number of nan iterations")
# Words other than "iteration" of the lines that are read.
_WORDS = ("..", "consumed samples:", "padded vocab", STANDARD_ERROR)
_ARGUMENTS = {
    "num_layers": "layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "attention_heads",
    "seq_length": "sequence_length",
    "micro_batch_size": "micro_batch",
    "global_batch_size": "global_batch",
    "train_iters": "iterations",
    "world_size": "world_size",
    "tensor_model_parallel_size": "tensor_parallel",
    "pipeline_model_parallel_size": "pipeline_parallel",
}
# DeepSpeed prints settings of its own, of which world_size is that of data parallelism.
_DEEPSPEED = "[INFO] [config.py:"
_LOADED = re.compile(r"successfully loaded checkpoint .* at iteration (\d+)")
# megatron/training/training.py, save_checkpoint_and_time; timers.py has (min, max) or max alone.
_TIMED = re.compile(
    r"\b(save|load)-checkpoint \.{2,}: (?:\(\d{1,12}\.\d+, (\d{1,12}\.\d+)\)|(\d{1,12}\.\d+)\s*$)"
)
# The padded size of the vocabulary stands in no table.
_PADDED = re.compile(r"> padded vocab \(size: \d+\) with \d+ dummy tokens \(new size: (\d+)\)")

# Printed to 0.1 ms; by BigScience's fork of 2022 to 0.01 s.
_MS, _S = "elapsed time per iteration (ms)", "elapsed time per iteration (s)"
_TIMES = {_MS: 1000.0, _S: 1.0}
_HALVES = {_MS: 5e-5, _S: 5e-3}
_LM_LOSS = "lm loss"
_RATE = "throughput per GPU (TFLOP/s/GPU)"
_RATE_DS = "TFLOPs"
_SAMPLES = "samples per second"
_TOKENS = "consumed tokens"
# Tokens per second of each GPU, by the names of forks; of some the first of two figures.
_EACH = "tokens per gpu per second (tgs)"
_COUNTS = frozenset(
    (
        *("consumed samples", _TOKENS, "skipped samples", "global batch size"),
        *("number of skipped iterations", "number of nan iterations"),
        *("curriculum seqlen", "random ltd reserved length", "actual seqlen"),
    )
)
_FIGURES = frozenset((_MS, _S, _RATE, _RATE_DS, _SAMPLES, _EACH, "learning rate"))
# Megatron Bridge prints its estimate of memory behind the first iteration, on the same line.
_BEHIND = re.compile(r"\|\s*Number of parameters in transformer (?:layers|block) in billions:.*$")
_LOSSES = re.compile(
    r"lm loss|moe loss|(?:seq_|global_)?load_balancing_loss|z_loss|indexer loss|mtp_\d+ loss"
)
# Fields that are read by name, and not judged.
_PASSED = (
    *("loss scale", "grad norm", "num zeros", "params norm"),
    *("energy per GPU (J/iter/GPU)", "power per GPU (W/GPU)"),
)
# Names of the loss in forks.
_SAME = {
    **dict.fromkeys(("lm-loss", "lm_loss"), _LM_LOSS),
    **dict.fromkeys(
        (
            *("tokens per GPU (tokens/s/GPU)", "tokens/s/GPU inst/harmonic mean"),
            *("tokens/sec/gpu", "tokens per GPU"),
        ),
        _EACH,
    ),
}
_NEEDED = ("consumed samples", "global batch size")
_SKIPPED, _NAN = "number of skipped iterations", "number of nan iterations"
# Fields that are read of a line, and those that are known.
_READ = {*_NEEDED, _SKIPPED, _NAN, *_TIMES, _LM_LOSS, _RATE, _RATE_DS, _SAMPLES, _TOKENS, _EACH}
_KNOWN = {*_COUNTS, *_FIGURES, *_PASSED, _LM_LOSS}
_COUNT = r"\d{1,18}"
_FIGURE = r"\d{1,18}(?:\.\d{1,9})?(?:E[+-]\d\d)?"
_FIGURE_OR_NONE = re.compile(rf"{_FIGURE}|[+-]?(?:nan|inf)", re.IGNORECASE)


class Iteration(NamedTuple):
    """One line: an iteration, or the mean of ``log_interval`` of them.

    Attributes:
        number: of the (last) iteration; total: how many were asked for.
        seconds: of one iteration.
        loss: None where it is not a finite positive number.
        flops: flop/s of each GPU as printed, None where it is not.
        line: the number of the line; without its text a long log takes less memory than its text.
        at: when it ended, seconds since 1970 if the log's clock is UTC; None where it is not said.
        each: tokens per second of each GPU as printed, None where they are not.
    """

    number: int
    total: int
    consumed: int
    seconds: float
    batch: int
    loss: Optional[float]
    skipped: int
    nan: int
    line: int
    flops: Optional[float] = None
    length: Optional[int] = None
    at: Optional[float] = None
    each: Optional[float] = None


class Resume(NamedTuple):
    """A start from a checkpoint after the iterations of another start.

    Attributes:
        redone: iterations that were done before and are done once more.
        away: seconds from the last iteration before to the beginning of the first one after, None
            where the lines have no time.
    """

    redone: int
    away: Optional[float]


@dataclass(frozen=True)
class MegatronOutput:
    """A run. ``exact``: figures are the driver's, unrounded.

    ``sequence_length`` is None where the log does not say it (Megatron-LM). ``part``: the parts of
    the run that the log lacks, a sentence each. ``saves`` and ``loads`` are seconds of each
    checkpoint, ``resumes`` the starts from one after another start; ``clocked`` is samples and
    seconds between the first and the last line of all starts, None without times. ``begun``: the
    log has the beginning of a start, and with it warm-up. ``sometimes``: fields that some lines
    lack. ``not_judged``: fields that are not known.
    """

    program: str
    iterations: tuple[Iteration, ...]
    exact: bool
    sequence_length: Optional[int] = None
    tool_version: Optional[str] = None
    software: Mapping[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    part: tuple[str, ...] = ()
    saves: tuple[float, ...] = ()
    loads: tuple[float, ...] = ()
    resumes: tuple[Resume, ...] = ()
    clocked: Optional[tuple[int, float]] = None
    begun: bool = True
    sometimes: tuple[str, ...] = ()
    not_judged: Mapping[str, str] = field(default_factory=dict)
    rounding: str = "0.1 ms"

    @property
    def unverified(self) -> list[str]:
        """Lines that nothing is compared with."""
        lines = len(self.iterations)
        return [] if lines >= _FEWEST_LINES else [f"{lines} lines of iterations of a longer run"]

    @property
    def node_count(self) -> Optional[int]:
        """Machines that gpt_driver names; None in other logs."""
        return len(set(self.hosts)) or None

    @property
    def ranks(self) -> Optional[int]:
        """Processes of the job, where the log prints its arguments."""
        world_size = self.parameters.get("world_size", "")
        return int(world_size) if re.fullmatch("[1-9][0-9]{0,8}", world_size) else None

    @property
    def gpu_count(self) -> Optional[int]:
        """A GPU for each process, but where gpt_driver trained on CPUs."""
        return 0 if self.parameters.get("device") == "cpu" else self.ranks

    @property
    def measured(self) -> tuple[Iteration, ...]:
        """The iterations after the warm-up."""
        return self.iterations[self._warm_up :]

    @property
    def _warm_up(self) -> int:
        return warm_up(len(self.iterations), self._interval) if self.begun else 0

    @property
    def _interval(self) -> int:
        return _interval(self.iterations)

    @property
    def _judged(self) -> tuple[dict[str, bool], dict[str, str]]:
        """A few lines of a longer run say nothing of a fall; gpt_driver's must be a hundredth."""
        least = _DRIVER_FALL if self.exact else 0.0
        is_short = self.part and len(self.iterations) < _FEWEST_TO_FALL
        losses = [item.loss for item in self.iterations if item.loss is not None]
        return judged(losses, least_fall=None if is_short else least)

    @property
    def checks(self) -> dict[str, bool]:
        """Whether it trained: losses finite, falling, and not above their start or best at the end
        (``losses.judged``), no iteration skipped or NaN."""
        return {
            "loss_finite": all(item.loss is not None or item.skipped for item in self.iterations),
            **self._judged[0],
            "no_iteration_skipped": all(item.skipped == 0 for item in self.iterations),
            "no_iteration_nan": all(item.nan == 0 for item in self.iterations),
        }

    @property
    def reasons(self) -> dict[str, str]:
        """Of a check, the sentence for its failure."""
        return self._judged[1]

    @property
    def warnings(self) -> list[str]:
        """Warnings for the reader of the figures."""
        interval = self._interval
        lines = len(self.iterations)
        warnings = [*self.part, *self.sometimes]
        if self._warm_up:
            warnings.append(
                f"the first {self._warm_up} of {lines} lines are warm-up and in no time or rate"
            )
        skipped = sum(item.skipped for item in self.iterations)
        if skipped:
            warnings.append(f"{skipped} iterations were skipped")
        if interval > 1 and lines >= _FEWEST_LINES:
            warnings.append(f"each line is the mean of {interval} iterations")
        if not self.exact:
            warnings.append(f"the log rounds step times to {self.rounding}")
        return warnings

    def metrics(self) -> list[Metric]:
        """step_time [s], sample_throughput and, where the length is known, token_throughput [1/s],
        train_flops_printed [flop/s a GPU] and device_token_throughput [1/s a GPU] as printed,
        checkpoint_save_time and checkpoint_load_time [s], the metrics of _lost, loss_first and
        loss_last."""
        measured = self.measured
        rows = summarise("step_time", [item.seconds for item in measured], "s", "lower")
        rates = [item.batch / item.seconds for item in measured]
        rows += summarise("sample_throughput", rates, "1/s", "higher")
        if self.sequence_length is not None:
            tokens = [rate * self.sequence_length for rate in rates]
            rows += summarise("token_throughput", tokens, "1/s", "higher")
        for name, unit, printed in (
            ("train_flops_printed", "flop/s", [item.flops for item in measured]),
            ("device_token_throughput", "1/s", [item.each for item in measured]),
        ):
            values = [value for value in printed if value is not None]
            rows += summarise(name, values, unit, "higher") if values else []
        for name, times in (
            ("checkpoint_save_time", self.saves),
            ("checkpoint_load_time", self.loads),
        ):
            rows += summarise(name, times, "s", "lower") if times else []
        rows += self._lost()
        for name, at in (("loss_first", 0), ("loss_last", -1)):
            loss = self.iterations[at].loss
            if loss is not None:  # one that is not finite is a failed check; no record can hold it
                rows.append(Metric(name, loss, "1", "lower", statistic="single", n=1))
        return rows

    def _lost(self) -> list[Metric]:
        """Metrics by the clock: sample_rate_clocked and token_rate_clocked [1/s], and of starts
        from a checkpoint iterations_redone and resume_time [s], the outage and the repeated
        iterations."""
        rows: list[Metric] = []
        if self.clocked is not None:
            samples, seconds = self.clocked
            rates = {"sample_rate_clocked": 1, "token_rate_clocked": self.sequence_length}
            rows += [
                Metric(name, samples * each / seconds, "1/s", "higher", statistic="single", n=1)
                for name, each in rates.items()
                if each is not None
            ]
        if self.resumes:
            step = statistics.median(item.seconds for item in self.measured)
            redone = [resume.redone for resume in self.resumes]
            rows.append(Metric("iterations_redone", sum(redone), "1", "lower", n=len(redone)))
            resume_times = [
                resume.away + resume.redone * step
                for resume in self.resumes
                if resume.away is not None
            ]
            rows += summarise("resume_time", resume_times, "s", "lower") if resume_times else []
        return rows


def warm_up(lines: int, interval: int = 1) -> int:
    """How many of the first lines are left out: a quarter, at least 2 and at most 4; 2 where each
    is the mean of as many iterations as are warm-up at most."""
    return 2 if interval >= _MOST_WARM_UP else min(_MOST_WARM_UP, max(2, lines // 4))


def parse_megatron(text: str) -> MegatronOutput:
    """Read the log of one run.

    Raises:
        ParseError: there are fewer than 3 iteration lines, one is damaged, missing or out of order,
            or figures that follow from each other do not.
    """
    try:
        return _output(text)
    except ParseError as error:
        if error.line_number is None or error.line:
            raise
        line = next(islice(each_line(text), error.line_number - 1, None))
        raise ParseError(error.message, error.line_number, line) from None


def _output(text: str) -> MegatronOutput:
    """The same; an error may have a line's number without the line."""
    log = _logged(text)
    logged = log.iterations = _once(log.iterations)
    begun = bool(log.arguments or log.restored)
    begins, missing = _check_order(logged, begun=begun)
    omissions = log.part + missing + _check_same(log, begins=begins)
    half_time = _HALVES[_S if _S in log.seen else _MS]
    _check_rates(logged, deepspeed=log.deepspeed, half_time=half_time)
    driven = _driver(text)
    if driven is not None:
        if omissions:
            raise _error(logged[-1], f"not gpt_driver's whole log: {omissions[0]}")
        return _with_driver(*driven, log)
    lengths = {item.length for item in logged}
    if len(lengths) > 1:
        odd = next(item for item in logged if item.length != logged[0].length)
        raise _error(odd, "consumed tokens are not samples x one sequence length")
    return MegatronOutput(
        program="megatron_deepspeed" if log.deepspeed else "megatron_lm",
        iterations=tuple(logged),
        exact=False,
        sequence_length=lengths.pop(),
        parameters={"program": "megatron", **log.arguments},
        part=tuple(omissions),
        begun=begins or begun,
        rounding="0.01 s" if _S in log.seen else "0.1 ms",
        **log.fields(),
        **log.told(),
    )


@dataclass
class _Log:
    """Lines of iterations since the last start, and the log's other facts.

    Attributes:
        arguments: Megatron's own table of them.
        ended: where it was told to end early.
        part: the parts of the log that are missing.
        first: of all starts; stepped: seconds of all steps after it; forward: whether the times of
            lines go on.
        deepspeed: whether the first iteration has Megatron-DeepSpeed's rate.
    """

    iterations: list[Iteration] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)
    ended: Optional[int] = None
    part: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    loaded: Optional[int] = None
    restored: bool = False
    first: Optional[Iteration] = None
    stepped: float = 0.0
    forward: bool = True
    deepspeed: bool = False
    times: dict[str, list[float]] = field(default_factory=lambda: {"save": [], "load": []})
    timers: set[str] = field(default_factory=set)
    resumes: list[Resume] = field(default_factory=list)

    def told(self) -> dict[str, Any]:
        """Fields of MegatronOutput for checkpoints, starts and the clock."""
        first, last = self.first, self.iterations[-1]
        clocked = None
        if first is not None and None not in (first.at, last.at):
            seconds = float(last.at or 0) - float(first.at or 0)
            samples = last.consumed - first.consumed
            # A clock that ran less than the steps took was set back, or is damaged.
            steps = self.stepped * (1 - _CLOCK)
            is_plausible = self.forward and seconds >= steps and samples > 0
            clocked = (samples, seconds) if is_plausible else None
        return {
            "saves": tuple(self.times["save"]),
            "loads": tuple(self.times["load"]),
            "resumes": tuple(self.resumes),
            "clocked": clocked,
        }

    def fields(self) -> dict[str, Any]:
        """Fields of MegatronOutput on fields that not all lines have, or that are not known."""
        seen = [(name, lines) for name, lines in self.seen.items() if name != _LM_LOSS]
        return {
            "sometimes": tuple(
                f"{name} stands in {lines} of {self.lines} lines"
                for name, lines in seen
                if lines < self.lines
            ),
            "not_judged": {
                name: f"in {lines} lines"
                for name, lines in seen
                if name not in _KNOWN and not _LOSSES.fullmatch(name)
            },
        }

    def other(self, line: Line) -> None:
        """Take a line that is none of an iteration."""
        if _LIKE.search(line):
            raise line.error("a damaged line of an iteration")
        exited = re.search(r"exiting program at iteration (\d+)", line)
        self.ended = int(exited.group(1)) if exited else self.ended
        loaded = _LOADED.search(line)
        self.restored |= loaded is not None
        self.loaded = int(loaded.group(1)) if loaded else self.loaded
        timed = _TIMED.search(line)
        if timed:
            # A duration of a millionth of a second does not come twice.
            if timed.group() in self.timers:
                raise line.error("stands twice: the line is doubled, or outputs are mixed")
            self.timers.add(timed.group())
            self.times[timed.group(1)].append(float(timed.group(2) or timed.group(3)) / 1000)
        argument = None if _DEEPSPEED in line else _argument(line)
        if argument and self.arguments.setdefault(*argument) != argument[1]:
            raise line.error(f"{argument[0]} stands twice, otherwise")

    def iteration(self, match: re.Match[str], line: Line) -> None:
        """Take a line of an iteration."""
        fields = _fields(match.group("fields"), line)
        self.lines += 1
        self.seen.update(fields.keys())
        self._take(_iteration(match, fields, line), line)

    def take(self, line: Line) -> None:
        """Take any line."""
        match = _LINE.search(line)
        if match is None:
            self.other(line)
        else:
            self.iteration(match, line)

    def _take(self, iteration: Iteration, line: Line) -> None:
        self._clock(iteration)
        if self.loaded is not None and self.iterations:
            last = self.iterations[-1].number
            self.part.append(
                f"the run was resumed at iteration {self.loaded}: what it did before, iterations "
                f"{self.iterations[0].number} to {last}, is left out"
            )
            self.resumes.append(_resume(self.iterations[-1], iteration, self.loaded))
            self.iterations, self.ended = [], None
        self.loaded = None
        if not self.iterations:
            self.deepspeed = f" {_RATE_DS}:" in line
        self.iterations.append(iteration)

    def _clock(self, item: Iteration) -> None:
        """Take the time of a line, before it is among the others."""
        if not self.iterations:
            self.first = item
            return
        last = self.iterations[-1]
        begun = last.number if self.loaded is None else self.loaded
        self.stepped += item.seconds * max(0, item.number - begun)
        if last.at is not None and item.at is not None:
            self.forward &= item.at >= last.at


def _resume(before: Iteration, after: Iteration, loaded: int) -> Resume:
    away = None
    if before.at is not None and after.at is not None:
        away = after.at - before.at - after.seconds
    # Negative: a log's clock that was set back, or lines of two jobs that ran beside each other.
    is_plausible = away is not None and away >= 0
    return Resume(redone=max(0, before.number - loaded), away=away if is_plausible else None)


def _logged(text: str) -> _Log:
    log = _Log()
    for number, raw in enumerate(each_line(text), 1):
        # Twice as fast as any() of the other words.
        if "iteration" not in raw and not any(keyword in raw for keyword in _WORDS):
            continue
        if raw == STANDARD_ERROR:
            break
        try:
            log.take(Line(raw, number))
        except ParseError:
            # Of a log that still grows, or was cut, the last line may be half a line.
            below = next(islice(each_line(text), number, None), None)
            if below is not None or raw.rstrip().endswith("|"):
                raise
            log.part.append("the last line is cut off and left out")
    return log


def _argument(line: str) -> Optional[tuple[str, str]]:
    """(parameter, value) that a line of Megatron's table says, or the one about the vocabulary."""
    padded = _PADDED.search(line)
    if padded:
        return "vocabulary_size", padded.group(1)
    match = re.match(r"^(?:.*[>:\]] ?)?  (\w+) \.{2,} (\S+)$", line)
    name = _ARGUMENTS.get(match.group(1)) if match else None
    return (name, match.group(2)) if match and name else None


def _fields(text: str, line: Line) -> dict[str, float]:
    """The fields after ``iteration N/ TOTAL |``; NaN where one is not read."""
    text = _BEHIND.sub("|", text.rstrip())
    if not text.endswith("|"):
        raise line.error("the line of an iteration is cut off")
    fields: dict[str, float] = {}
    for field_text in text[:-1].split("|"):
        name, _, value = field_text.strip().rpartition(":")
        name, value = _SAME.get(name, name), value.strip()
        if name in fields:
            raise line.error(f"{name} stands twice")
        # Some forks print the figure of the last iteration and the mean of all.
        figure = value.partition("/")[0] if name in _FIGURES else value
        match = True
        if name in _COUNTS:
            match = bool(re.fullmatch(_COUNT, figure))
        elif name in _FIGURES or _LOSSES.fullmatch(name):
            match = bool(_FIGURE_OR_NONE.fullmatch(figure))
        if not match and name != _TOKENS:
            raise line.error(f"{name} {value!r} is not a number")
        fields[name] = float(figure) if name in _READ and match else math.nan
    lacking = [name for name in _NEEDED if name not in fields]
    lacking += [] if fields.keys() & _TIMES.keys() else [_MS]
    if lacking:
        raise line.error(f"no {lacking[0]} in the line of an iteration")
    return fields


def _iteration(match: re.Match[str], fields: Mapping[str, float], line: Line) -> Iteration:
    label = next(name for name in _TIMES if name in fields)
    seconds = fields[label] / _TIMES[label]
    if not 0 < seconds < math.inf:
        raise line.error(f"a step of {seconds * 1000:g} ms")
    batch = int(fields["global batch size"])
    consumed = int(fields["consumed samples"])
    if batch < 1:
        raise line.error("a global batch of no samples")
    loss = fields.get(_LM_LOSS, math.nan)
    for name in (_RATE_DS, _RATE, _EACH):
        if name in fields and not 0 <= fields[name] < math.inf:
            raise line.error("a rate that is no number")
    flops = fields.get(_RATE, fields.get(_RATE_DS))
    tokens = fields.get(_TOKENS, math.nan)
    rate = fields.get(_SAMPLES)
    if rate is not None and not _fits_batch(rate, seconds, batch, _HALVES[label]):
        raise line.error(
            f"{rate:g} samples per second in {seconds * 1000:g} ms are not a batch of {batch}"
        )
    return Iteration(
        number=int(match.group("number")),
        total=int(match.group("total")),
        consumed=consumed,
        seconds=seconds,
        batch=batch,
        loss=loss if math.isfinite(loss) else None,
        skipped=int(fields.get(_SKIPPED, 0)),
        nan=int(fields.get(_NAN, 0)),
        line=line.number,
        flops=None if flops is None else flops * 1e12,
        length=_length(int(tokens), consumed, line) if math.isfinite(tokens) else None,
        at=_seconds(match, line),
        each=fields.get(_EACH),
    )


def _seconds(match: Match[str], line: Line) -> Optional[float]:
    """The time of a line; a zone is not in it, and UTC has no hour twice."""
    minute, second, fraction = match.group("minute", "second", "part")
    if minute is None:
        return None
    try:
        begun = _minute(minute) + _SECONDS[second]
    except (KeyError, ValueError) as error:
        raise line.error(f"{minute}:{second}.{fraction} is no time") from error
    return (begun * 1_000_000 + int(fraction.ljust(6, "0"))) / 1_000_000


@lru_cache(maxsize=1000)
def _minute(text: str) -> int:
    if text[11:13] == "24":  # midnight, as Python 3.14 and no log has it
        raise ValueError(text)
    return int(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp())


def _length(tokens: int, consumed: int, line: Line) -> int:
    """Tokens of a sample."""
    length, remainder = divmod(tokens, consumed) if consumed else (0, 1)
    if remainder or length < 1:
        raise line.error(f"{tokens} consumed tokens are not a whole length x {consumed} samples")
    return length


def _fits_batch(rate: float, seconds: float, batch: int, half: float) -> bool:
    """Whether so many samples per second make the batch; Megatron-DeepSpeed of 2021 prints them
    per millisecond."""
    share = _share(rate, 0.0005) + _share(seconds, half)
    return _agree(rate * seconds, batch, share) or _agree(rate * 1000 * seconds, batch, share)


def _share(value: float, half: float) -> float:
    """How far a figure printed to ``half`` may be off, as a share of it."""
    return half / value if value > half else 1.0


def _agree(figure: float, other: float, share: float) -> bool:
    return abs(figure - other) <= max(figure, other) * share * 1.01 + 1e-12


def _error(item: Iteration, message: str) -> ParseError:
    return ParseError(message, item.line)


def _once(logged: list[Iteration]) -> list[Iteration]:
    """The lines without those that repeat the one before."""
    repeats = {
        item.line
        for before, item in zip(logged, logged[1:])
        if item.number == before.number and item == before._replace(line=item.line)
    }
    return [item for item in logged if item.line not in repeats] if repeats else logged


def _interval(logged: Sequence[Iteration]) -> int:
    """Iterations from a line to the next in most lines; of newer versions the first line is that of
    the first iteration whatever the interval."""
    steps = Counter(map(_step, logged, logged[1:]))
    if len(logged) >= _FEWEST_LINES and logged[0].number == 1:
        steps[_step(*logged[:2])] -= 1
    return min(steps, key=lambda step: (-steps[step], step), default=1)


def _step(before: Iteration, item: Iteration) -> int:
    return item.number - before.number


def _check_order(logged: Sequence[Iteration], *, begun: bool) -> tuple[bool, list[str]]:
    """Iterations go on; whether the log begins with the first, and which are missing between. A few
    lines suffice of a log that begins after the warm-up."""
    interval = _interval(logged)
    is_short = len(logged) < _FEWEST_LINES
    if not logged or (is_short and (begun or logged[0].number <= _MOST_WARM_UP * interval)):
        raise ParseError(
            f"{len(logged)} iteration lines: {_FEWEST_LINES} at least are needed, the first two of"
            " which are warm-up; the run did not end, or --log-interval is too large"
        )
    first = logged[0].number
    missing = []
    for before, item in zip(logged, logged[1:]):
        step = _step(before, item)
        if before.number == 1 and item.number == interval:
            continue
        if step < interval:
            raise _error(
                item,
                f"iteration {item.number} stands where {before.number + interval} was to come: "
                "lines are doubled or out of order",
            )
        if step > interval:
            missing.append(f"{before.number + interval} to {item.number - interval}")
    gaps = f"iterations {', '.join(missing[:3])} are missing ({len(missing)} gaps)"
    return first in {1, interval}, [gaps] if missing else []


def _check_same(log: _Log, *, begins: bool) -> list[str]:
    """The same total in every line, and samples of the batch; the parts missing at either end."""
    logged = log.iterations
    first, last = logged[0], logged[-1]
    # With --rampup-batch-size the batch grows, and its samples before the log are not known.
    start = first._replace(number=0, consumed=0, batch=first.batch if begins else 0)
    for before, item in zip([start, *logged], logged):
        if item.total != first.total:
            raise _error(item, f"{item.total} iterations in all, {first.total} in the first line")
        steps, samples = _step(before, item), item.consumed - before.consumed
        least, most = sorted((before.batch, item.batch))
        if not least * steps <= samples <= most * steps and (begins or item is not first):
            raise _error(
                item,
                f"{samples} samples of {steps} iterations are not batches of {least} to {most}",
            )
    end = first.total if log.ended is None else log.ended
    if last.number > end:
        raise _error(last, f"the log ends at iteration {last.number} of {end}")
    missing = []
    if not begins:
        missing.append(
            f"the log begins at iteration {first.number}: the run was resumed, or the beginning "
            "is not here"
        )
    if end >= last.number + _interval(logged):
        missing.append(
            f"the log ends at iteration {last.number} of {end}: the run was cut, or still runs"
        )
    return missing


def _check_rates(logged: Sequence[Iteration], *, deepspeed: bool, half_time: float) -> None:
    """A rate times its step time is the same work of each sample in every line, within the printed
    precision."""
    half = 0.005e12 if deepspeed else 0.05e12
    # The work lies in the range that all lines allow; damage makes that range empty.
    least, most = 0.0, math.inf
    for item in logged:
        flops, seconds = item.flops, item.seconds
        if not flops:
            continue
        share = (_share(flops, half) + _share(seconds, half_time)) * 1.01
        work = flops * seconds / item.batch
        # Twice as fast as max and min.
        if work * (1 - share) > least:
            least = work * (1 - share)
        if work * (1 + share) < most:
            most = work * (1 + share)
        if least > most:
            raise _error(
                item, "the rate and the step time are not the same work as in the lines before"
            )


def _driver(text: str) -> Optional[tuple[Mapping[str, Any], Line]]:
    """The driver's last line, checked against its checksum; None for a log of Megatron's own."""
    if "gpt_driver" not in text and "trueup-megatron" not in text:
        return None
    lines = lines_of(text)
    firsts = [line for line in lines if line.startswith(DRIVER_FIRST)]
    last_lines = [line for line in lines if line.startswith(DRIVER_PREFIX)]
    if not firsts and not last_lines:
        raise ParseError("the first and the last line of gpt_driver are damaged")
    if len(firsts) != 1 or len(last_lines) != 1:
        raise (last_lines or firsts[:1])[-1].error(
            f"{len(firsts)} first and {len(last_lines)} last lines of gpt_driver, and one of each"
            f" is needed: the run did not end, or two are in one output"
        )
    line = last_lines[0]
    if firsts[0].number > line.number:
        raise line.error("gpt_driver's last line stands before its first")
    description = "gpt_driver's last line"
    data = decoded(line, DRIVER_PREFIX, description, version=1, role="training")
    if data.pop("check", None) != zlib.crc32(json.dumps(data, sort_keys=True).encode()):
        raise line.error("gpt_driver's last line does not match its checksum")
    return data, line


def _with_driver(data: Mapping[str, Any], line: Line, log: _Log) -> MegatronOutput:
    logged = log.iterations
    try:
        times, losses = data["step_seconds"], data["losses"]
        if not len(times) == len(losses) == len(logged) == data["iterations"]:
            raise line.error(
                f"gpt_driver says {len(times)} times and {len(losses)} losses of"
                f" {data['iterations']} iterations, the log shows {len(logged)}"
            )
        exact = [_exact(item, seconds, loss) for item, seconds, loss in zip(logged, times, losses)]
        if data["global_batch"] != logged[0].batch:
            raise line.error(
                f"gpt_driver says a batch of {data['global_batch']}, the log {logged[0].batch}"
            )
        software = {
            name: str(data[name])
            for name in ("torch", "python", "deepspeed", "cuda", "nccl")
            if data[name] is not None
        }
        names = (
            *("program", "backend", "device", "world_size", "layers", "hidden_size"),
            *("attention_heads", "sequence_length", "vocabulary_size", "micro_batch"),
            *("global_batch", "iterations", "parameters", "zero_stage", "recompute", "precision"),
            "threads",
        )
        if not (isinstance(data["threads"], int) and data["threads"] >= 1):
            raise line.error(f"gpt_driver says {data['threads']!r} threads")
        if not (is_count(data["sequence_length"]) and data["sequence_length"] < _LONGEST):
            raise line.error(f"gpt_driver says {data['sequence_length']!r} tokens a sequence")
        return MegatronOutput(
            program=str(data["program"]),
            iterations=tuple(exact),
            exact=True,
            sequence_length=data["sequence_length"],
            tool_version=str(data["torch"]),
            software=software,
            parameters={name: str(data[name]) for name in names},
            hosts=tuple(str(host) for host in data["hosts"]),
            saves=tuple(log.times["save"]),
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise line.error(f"gpt_driver's last line lacks or spoils {error}") from None


def _exact(item: Iteration, seconds: float, loss: Optional[float]) -> Iteration:
    """The logged iteration with the driver's own figures, which must round to the logged ones."""
    if not 0 < seconds < math.inf:
        raise _error(item, f"a step of {seconds} s")
    if loss is not None and not math.isfinite(loss):
        raise _error(item, f"gpt_driver says a loss of {loss}")
    if abs(seconds - item.seconds) > 5.1e-5:
        raise _error(
            item,
            f"the log says {item.seconds * 1000:g} ms where gpt_driver says {seconds * 1000:g}",
        )
    same = (
        loss is item.loss
        if loss is None or item.loss is None
        else _agree(loss, item.loss, _share(item.loss, 1e-6 * item.loss))
    )
    if not same:
        raise _error(item, f"the log says a loss of {item.loss} where gpt_driver says {loss}")
    return item._replace(seconds=float(seconds), loss=loss)
