"""Parser of gpu-burn (wilicc/gpu-burn 1.0 and 2.0).

While it runs it writes a line over and over, of every GPU in turn::

    53.3%  proc'd: 85 (17548 Gflop/s) - 85 (17512 Gflop/s)   errors: 0 - 0   temps: 54 C - 55 C

and at its end ``Tested 2 GPUs:`` with ``GPU 0: OK`` or ``GPU 1: FAULTY``. A rate is that since the
line before; 0 stands where a GPU has not reported yet. The rates of all lines count but for those
before a GPU's first report. A run that is shorter than one report has the verdicts alone.

``(WARNING!)`` stands behind the errors of a GPU since the line before, and ``(DIED!)`` where its
process ended: ``proc'd`` is -1 then. The count of errors overflows to below 0.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from trueup_node.errors import ParseError
from trueup_node.reading import Line, lines_of
from trueup_node.record import Metric, summarise

from ...labelled import Labelled
from .signatures import PROGRESS, TESTED

TOOL = "gpu_burn"
_RATE = re.compile(r"(?:-1|\d{1,18}) \((\d{1,9}) Gflop/s\)")
_DONE = re.compile(r"(-1|\d{1,18}) \(\d{1,9} Gflop/s\)")
_ERRORS = re.compile(r"(-?\d{1,18})(?: +\((?:WARNING|DIED)!\))?")
_BETWEEN = re.compile(r"(?<=[)\d]) ?- ")
_DIED = -1
_ABORTED = "No clients are alive!"
_VERDICT = re.compile(r"\s*GPU (\d{1,3}): (OK|FAULTY)\s*")
_GFLOPS = 1e9


def parse_gpu_burn(text: str) -> Labelled:
    """Read the output of one run.

    Raises:
        ParseError: no GPU reported, lines are of different numbers of GPUs or out of order, or a
            GPU is OK that counted errors.
    """
    lines = lines_of(text)
    reports = _reports(lines)
    verdicts = _verdicts(lines, reports.errors)
    by_gpu = [[rate for rate in each if rate] for each in zip(*reports.rates, strict=True)]
    if not verdicts and not (by_gpu and _all_reported(by_gpu, reports.died)):
        raise ParseError("no GPU, or not every GPU, reported a rate: the output is not complete")
    wrong = _wrong(verdicts, reports)
    faulty = Metric("burn_faulty_gpus", float(len(wrong)), "1", "lower", statistic="single", n=1)
    has_ended = verdicts or any(line.startswith(_ABORTED) for line in lines)
    return Labelled(
        rows=(*_rates(by_gpu), faulty),
        checks={"no_wrong_results": not wrong},
        reasons={"no_wrong_results": f"wrong results, or none, of {', '.join(wrong)}"},
        unverified=() if has_ended else ("no line 'Tested N GPUs': the run did not end",),
        gpu_count=len(by_gpu) or len(verdicts),
    )


class _Reports(NamedTuple):
    """What the lines of a run report.

    Attributes:
        rates: of each report by GPU, in Gflop/s.
        errors: of the last report, by GPU.
        died: GPUs whose process ended.
    """

    rates: list[list[int]]
    errors: list[int]
    died: set[int]


def _all_reported(by_gpu: list[list[int]], died: set[int]) -> bool:
    return all(each or gpu in died for gpu, each in enumerate(by_gpu))


def _wrong(verdicts: dict[int, bool], reports: _Reports) -> list[str]:
    """GPUs with wrong results, or whose process ended."""
    faulty = [gpu for gpu, passed in verdicts.items() if not passed]
    counted = [gpu for gpu, count in enumerate(reports.errors) if count]
    return [f"gpu{gpu}" for gpu in sorted({*faulty, *counted, *reports.died})]


def _rates(by_gpu: list[list[int]]) -> tuple[Metric, ...]:
    return tuple(
        row
        for gpu, each in enumerate(by_gpu)
        if each
        for row in summarise(
            "burn_rate", [rate * _GFLOPS for rate in each], "flop/s", "higher", device=f"gpu{gpu}"
        )
    )


def _reports(lines: list[Line]) -> _Reports:
    reports = _Reports([], [], set())
    done: list[int] = []
    share = ""
    for line in lines:
        if "proc'd" not in line and "Gflop/s)" not in line:
            continue
        match = PROGRESS.fullmatch(" ".join(line.split()))
        if match is None:
            raise line.error("this form of a report is not known")
        before, done = done, _each(line, match["rates"], _DONE)
        _check_progress(line, before, done, is_same=match["share"] == share)
        share = match["share"]
        reports.errors[:] = _each(line, match["errors"], _ERRORS)
        reports.died.update(gpu for gpu, count in enumerate(done) if count == _DIED)
        # Where no GPU has done more, the rates are those of the line before.
        if done != before:
            reports.rates.append(_each(line, match["rates"], _RATE))
        if not len(reports.errors) == len(done) == len(reports.rates[0]):
            raise line.error("the line is of another number of GPUs than the first")
    return reports


def _check_progress(line: Line, before: list[int], done: list[int], *, is_same: bool) -> None:
    """Refuse a report that stands twice, or is of another run than the one before."""
    if any(now < then and now != _DIED for now, then in zip(done, before, strict=False)):
        raise line.error("a GPU has done less than in the line before: two runs, or damage")
    if is_same and done == before and _DIED not in done:
        raise line.error("no GPU has done more than in the line before: the line stands twice")


def _each(line: Line, text: str, pattern: re.Pattern[str]) -> list[int]:
    """The figure of each GPU."""
    matches = [pattern.fullmatch(part.strip()) for part in _BETWEEN.split(text)]
    if not all(matches):
        raise line.error(f"{text!r} is not a figure of each GPU")
    return [int(match[1]) for match in matches if match]


def _verdicts(lines: list[Line], errors: list[int]) -> dict[int, bool]:
    """Whether each GPU is OK; empty where the run did not end."""
    tested = [(line, match) for line in lines if (match := TESTED.fullmatch(line))]
    if not tested:
        return {}
    if len(tested) > 1:
        raise tested[1][0].error("a second run: read one at a time")
    line, match = tested[0]
    matches = filter(None, map(_VERDICT.fullmatch, lines[line.number :]))
    verdicts = {int(each[1]): each[2] == "OK" for each in matches}
    gpus = int(match[1])
    if list(verdicts) != list(range(gpus)) or len(errors) not in (0, gpus):
        raise line.error(f"verdicts of GPUs {sorted(verdicts)} follow, and {len(errors)} GPUs ran")
    for gpu, count in enumerate(errors):
        if verdicts[gpu] and count:
            raise line.error(f"GPU {gpu} is OK, and has {count} errors")
    return verdicts
