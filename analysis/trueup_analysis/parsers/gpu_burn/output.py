"""Parser of gpu-burn (wilicc/gpu-burn 1.0 and 2.0).

While it runs it writes a line over and over, of every GPU in turn::

    53.3%  proc'd: 85 (17548 Gflop/s) - 85 (17512 Gflop/s)   errors: 0 - 0   temps: 54 C - 55 C

and at its end ``Tested 2 GPUs:`` with ``GPU 0: OK`` or ``GPU 1: FAULTY``. A rate is that since the
line before; 0 stands where a GPU has not reported yet. The rates of all lines count but for those
before a GPU's first report.
"""

from __future__ import annotations

import operator
import re

from trueup.errors import ParseError
from trueup.reading import Line, lines_of
from trueup.record import summarise

from ...labelled import Labelled
from .signatures import PROGRESS

TOOL = "gpu_burn"
_RATE = re.compile(r"\d{1,18} \((\d{1,9}) Gflop/s\)")
_DONE = re.compile(r"(\d{1,18}) \(\d{1,9} Gflop/s\)")
_ERRORS = re.compile(r"(\d{1,18})(?: +\(WARNING!\))?")
_TESTED = re.compile(r"\s*Tested (\d{1,3}) GPUs:\s*")
_VERDICT = re.compile(r"\s*GPU (\d{1,3}): (OK|FAULTY)\s*")
_GFLOPS = 1e9


def parse_gpu_burn(text: str) -> Labelled:
    """Read the output of one run.

    Raises:
        ParseError: no GPU reported, lines are of different numbers of GPUs or out of order, or a
            GPU is OK that counted errors.
    """
    lines = lines_of(text)
    rates, errors = _reports(lines)
    by_gpu = [[rate for rate in each if rate] for each in zip(*rates, strict=True)]
    if not by_gpu or not all(by_gpu):
        raise ParseError("no GPU, or not every GPU, reported a rate: the output is not complete")
    verdicts = _verdicts(lines, errors)
    faulty = [f"gpu{gpu}" for gpu, passed in verdicts.items() if not passed]
    counted = [f"gpu{gpu}" for gpu, count in enumerate(errors) if count]
    return Labelled(
        rows=tuple(
            row
            for gpu, each in enumerate(by_gpu)
            for row in summarise(
                "burn_rate",
                [rate * _GFLOPS for rate in each],
                "flop/s",
                "higher",
                device=f"gpu{gpu}",
            )
        ),
        checks={"no_wrong_results": not faulty and not counted},
        reasons={"no_wrong_results": f"wrong results of {', '.join(faulty or counted)}"},
        unverified=() if verdicts else ("no line 'Tested N GPUs': the run did not end",),
        gpu_count=len(by_gpu),
    )


def _reports(lines: list[Line]) -> tuple[list[list[int]], list[int]]:
    """The rates of each report by GPU, in Gflop/s, and the errors of the last one by GPU."""
    rates: list[list[int]] = []
    errors: list[int] = []
    done: list[int] = []
    for line in lines:
        if "proc'd" not in line and "Gflop/s)" not in line:
            continue
        match = PROGRESS.fullmatch(" ".join(line.split()))
        if match is None:
            raise line.error("this form of a report is not known")
        before, done = done, _each(line, match["rates"], _DONE)
        if any(map(operator.lt, done, before)) or done == before:
            raise line.error("no GPU has done more than in the line before: two runs, or damage")
        rates.append(_each(line, match["rates"], _RATE))
        errors = _each(line, match["errors"], _ERRORS)
        if not len(errors) == len(rates[-1]) == len(rates[0]):
            raise line.error("the line is of another number of GPUs than the first")
    return rates, errors


def _each(line: Line, text: str, pattern: re.Pattern[str]) -> list[int]:
    """The figure of each GPU."""
    matches = [pattern.fullmatch(part.strip()) for part in text.split(" - ")]
    if not all(matches):
        raise line.error(f"{text!r} is not a figure of each GPU")
    return [int(match[1]) for match in matches if match]


def _verdicts(lines: list[Line], errors: list[int]) -> dict[int, bool]:
    """Whether each GPU is OK; empty where the run did not end."""
    tested = [(line, match) for line in lines if (match := _TESTED.fullmatch(line))]
    if not tested:
        return {}
    if len(tested) > 1:
        raise tested[1][0].error("a second run: read one at a time")
    line, match = tested[0]
    found = [each for each in map(_VERDICT.fullmatch, lines[line.number :]) if each]
    verdicts = {int(each[1]): each[2] == "OK" for each in found}
    if not list(verdicts) == list(range(int(match[1]))) or len(verdicts) != len(errors):
        raise line.error(f"verdicts of GPUs {sorted(verdicts)} follow, and {len(errors)} GPUs ran")
    for gpu, passed in verdicts.items():
        if passed and errors[gpu]:
            raise line.error(f"GPU {gpu} is OK, and has {errors[gpu]} errors")
    return verdicts
