"""Each figure against the expectation of the size that it was measured on."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ..cases import kind_of
from ..record import TOO_SHORT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ..cases import Case, Figure
    from .expectations import Expectation, Expectations

Level = Literal["fail", "not measured", "warn", "no verdict", "pass"]
WORST_FIRST: Final[tuple[Level, ...]] = ("fail", "not measured", "warn", "no verdict", "pass")

# The worst of all judged figures counts; a figure without an expectation makes no node worse.
NODE_ORDER: Final = ("fail", "not measured", "warn", "pass", "no verdict")
# Azure's fault code in a sentence of gpu_facts.
_FAULT: Final = re.compile(r"\bNHC[0-9]{4}\b")


@dataclass(frozen=True)
class Verdict:
    """The verdict on one figure, or on a case without figures.

    Attributes:
        nodes: one node, or all nodes of the case.
        measured, expected: in ``unit``, a base unit; None where there is no figure.
        healthy, healthy_source: the figure that healthy nodes reach, in ``unit`` too.
        source_unit: the unit in which the source gives it, for people.
        fix: the remedy of a failure, where the expectation has one.
        reason: a sentence for whatever is neither pass nor a plain comparison of two figures.
        run_id, measured_at: the run, and when the case began (UTC text); None where nothing ran.
    """

    nodes: tuple[str, ...]
    vm_size: str | None
    benchmark: str
    case: str
    verdict: Level
    what: str
    metric: str | None = None
    device: str | None = None
    message_bytes: int | None = None
    measured: float | None = None
    expected: float | None = None
    comparison: str | None = None
    unit: str | None = None
    source_unit: str | None = None
    source: str | None = None
    date: str | None = None
    healthy: float | None = None
    healthy_source: str | None = None
    fault: str | None = None
    fix: str | None = None
    reason: str | None = None
    run_id: str | None = None
    measured_at: str | None = None

    @property
    def of_healthy(self) -> float | None:
        """The measured share of the figure that healthy nodes reach; None without either."""
        if self.measured is None or not self.healthy:
            return None
        return self.measured / self.healthy


def worst(words: Collection[str]) -> str:
    """The verdict on a node with these verdicts on its figures."""
    return next((verdict for verdict in NODE_ORDER if verdict in words), "no verdict")


def latest(cases: Iterable[Case], order: Sequence[str] = ()) -> list[Case]:
    """The case of each kind that began last, in the order in which they began.

    Args:
        order: the runs in the order in which they began, which no clock of a node decides.
    """
    rank_by_run = {run_id: number for number, run_id in enumerate(order)}
    ordered = sorted(
        cases, key=lambda case: (rank_by_run.get(case.run_id, -1), case.started_at or "")
    )
    last = {kind_of(case): index for index, case in enumerate(ordered)}
    return [ordered[index] for index in sorted(last.values())]


class Stance(NamedTuple):
    """The judgement on a case before its figures are compared; the same for all cases of a size,
    benchmark, outcome and parameters on as many nodes.

    Attributes:
        word: the verdict on the whole case; None where its figures say all.
        reason, fault, fix: of that verdict.
        fitting: the expectations that its figures are held to.
    """

    word: Level | None
    reason: str = ""
    fault: str | None = None
    fix: str | None = None
    fitting: Sequence[Expectation] = ()

    def whole(self, case: Case) -> list[Verdict]:
        """The verdict on the whole case, if there is one."""
        if self.word is None:
            return []
        return [_whole(case, self.word, self.reason, fault=self.fault, fix=self.fix)]


def judge(cases: Iterable[Case], expectations: Expectations) -> list[Verdict]:
    """A verdict or more for each case, in the order of the cases."""
    return [verdict for case in cases for verdict in judge_case(case, expectations)]


def judge_case(case: Case, expectations: Expectations) -> list[Verdict]:
    """The verdicts on one case.

    A case that failed measured nothing. One whose own check failed (``invalid``) is a failure of
    the node, whatever its figures.
    """
    taken = stance(case, expectations)
    return taken.whole(case) + _figures(case, taken.fitting)


def stance(case: Case, expectations: Expectations) -> Stance:
    """The judgement on a case before its figures are compared."""
    if case.outcome in ("failed", TOO_SHORT):
        return Stance("not measured", case.reason or "the case failed")
    if case.vm_size is None:
        return Stance("no verdict", "the VM size is not known")
    expected = expectations.of(case.vm_size, case.benchmark)
    if case.outcome == "invalid":
        return _invalid(case, expected)
    if not expected:
        of_it = f"{case.benchmark} on" if expectations.knows(case.vm_size) else "the size"
        return Stance("no verdict", f"nothing is expected of {of_it} {case.vm_size}")
    for item in expected:
        if refused := item.refuses(case):
            return _refused(item, refused)
    fitting = [item for item in expected if item.applies(case)]
    if not fitting:
        misfits = _misfits(expected, case)
        return Stance("no verdict", f"no expectation holds for this case: {misfits}")
    return Stance(None, fitting=fitting)


def _invalid(case: Case, expected: Sequence[Expectation]) -> Stance:
    """A case whose own check failed is a failure."""
    reason = case.reason or "its own check failed"
    if case.benchmark == "node_state":
        code = _FAULT.search(reason)
        # Another fault does not change a node's parts, so their figures count; it changes a speed.
        return Stance("fail", reason, fault=code and code[0], fitting=expected)
    of_its_kind = [item for item in expected if item.fits(case.node_count)]
    fault = next((item.fault for item in of_its_kind if item.fault), None)
    fix = next((item.fix for item in of_its_kind if item.fix), None)
    return Stance("fail", reason, fault=fault, fix=fix)


def _refused(item: Expectation, refused: str) -> Stance:
    """A parameter that healthy nodes do not have makes the case a failure."""
    allowed = " or ".join(
        value
        for name, values in item.parameters.items()
        if refused.startswith(f"{name} ")
        for value in values
    )
    reason = f"{item.what}: {refused}, expected {allowed}; the figures do not count"
    return Stance("fail", reason, fault=item.fault or None, fix=item.fix or None)


def _figures(case: Case, fitting: Iterable[Expectation]) -> list[Verdict]:
    verdicts = [verdict for item in fitting for verdict in against(case, item)]
    # A sweep need not reach every size that some source names: one is enough.
    judged = {item.metric for item in verdicts if item.measured is not None}
    return [item for item in verdicts if item.measured is not None or item.metric not in judged]


def _misfits(expected: Iterable[Expectation], case: Case) -> str:
    """Properties of a case without an expectation, and the programs that have one."""
    programs: dict[str, list[str]] = {}
    for item in expected:
        program_names = programs.setdefault(", ".join(item.misfits(case)), [])
        program_names += [item.program or item.what]
    return "; ".join(
        f"it has {misfits}, and the limit is of {' or of '.join(dict.fromkeys(program_names))}"
        for misfits, program_names in programs.items()
    )


def of_case(case: Case, verdict: Level, subject: str, **more: Any) -> Verdict:
    """A verdict on a case; ``more`` are its other fields."""
    begun = {"run_id": case.run_id, "measured_at": case.started_at}
    return Verdict(
        case.nodes, case.vm_size, case.benchmark, case.case, verdict, subject, **{**begun, **more}
    )


def _whole(case: Case, verdict: Level, reason: str, **more: Any) -> Verdict:
    return of_case(case, verdict, f"{case.benchmark} {case.case}", reason=reason, **more)


def _expected(case: Case, item: Expectation, verdict: Level, **more: Any) -> Verdict:
    """A verdict on an expectation of a case, in the unit of records."""
    return of_case(
        case,
        verdict,
        item.what,
        metric=item.metric,
        expected=item.expected.base,
        comparison=item.comparison,
        unit=item.expected.base_unit,
        source_unit=item.expected.unit,
        source=item.source,
        date=item.date,
        healthy=None if item.healthy is None else item.healthy.value.base,
        healthy_source=None if item.healthy is None else item.healthy.source,
        **more,
    )


def against(case: Case, expectation: Expectation) -> list[Verdict]:
    """The verdicts on the figures of a case under one expectation; a verdict without a figure if
    the case has none."""
    named = list(case.of(expectation.metric))
    sized = [figure for figure in named if figure.message_bytes == expectation.message_bytes]
    judged = [figure for figure in sized if figure.statistic in judged_statistics(expectation)]
    if not judged:
        if named and not sized:
            reason = f"{expectation.message_bytes} bytes are judged, and were not measured"
            if expectation.message_bytes is None:
                reason = "sizes of a sweep are not judged"
        elif sized:
            reason = f"the {expectation.statistic or 'median'} is judged, and was not measured"
        else:
            reason = f"{expectation.metric} was not measured"
        return [_figureless(case, expectation, reason)]
    return [of_figure(case, expectation, figure) for figure in judged]


def judged_statistics(expectation: Expectation) -> Collection[str | None]:
    """Of which repeats a figure is judged."""
    return {expectation.statistic} if expectation.statistic else {None, "single", "median"}


def _figureless(case: Case, item: Expectation, reason: str) -> Verdict:
    return _expected(case, item, "no verdict", message_bytes=item.message_bytes, reason=reason)


def of_figure(case: Case, item: Expectation, figure: Figure) -> Verdict:
    """The verdict on one figure; none on one of another dimension, or that is no number."""
    unit = item.expected.base_unit
    if figure.unit != unit:
        reason = f"the record is in {figure.unit}, the expectation in {unit}"
        return _figureless(case, item, reason)
    if not math.isfinite(figure.value):
        return _figureless(case, item, f"the recorded value {figure.value} is not a number")
    verdict = _compare(figure.value, item)
    doubts = [] if verdict == "pass" else item.doubts(case)
    if doubts:
        reason = f"the limit is not met, and the output does not say its {' and '.join(doubts)}"
        return _figureless(case, item, f"{reason}: it holds for {item.program}")
    return _expected(
        case,
        item,
        verdict,
        device=figure.device,
        message_bytes=figure.message_bytes,
        measured=figure.value,
        fault=_fault(item, figure) if verdict == "fail" else None,
        fix=(item.fix or None) if verdict == "fail" else None,
        reason=_why_warned(item) if verdict == "warn" else None,
    )


def _fault(item: Expectation, figure: Figure) -> str | None:
    """Azure's fault code: a link that is down (rate 0) has not that of a slow one."""
    return "NHC2004" if (item.metric, figure.value) == ("link_rate", 0) else item.fault


def _why_warned(item: Expectation) -> str | None:
    """The warning limit that a figure does not meet, and its source."""
    if item.warn is None:
        return None
    side = "above" if item.comparison == "at_most" else "below"
    limit = item.warn.value
    return f"{side} the warning limit {limit.value:g} {limit.unit}: {item.warn.source}"


def _compare(value: float, expectation: Expectation) -> Level:
    expected = expectation.expected.base
    # Figures that differ only by the conversion of units are equal.
    if expectation.comparison == "exactly":
        return "pass" if math.isclose(value, expected, rel_tol=1e-9) else "fail"
    beyond = operator.gt if expectation.comparison == "at_most" else operator.lt
    limits: list[tuple[Level, float]] = [("fail", expected)]
    if expectation.warn is not None:
        limits.append(("warn", expectation.warn.value.base))
    for verdict, limit in limits:
        if beyond(value, limit) and not math.isclose(value, limit, rel_tol=1e-12):
            return verdict
    return "pass"
