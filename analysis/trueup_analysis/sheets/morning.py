"""The morning's message: which nodes newly fail, are missing or are well again, and which figures
are worse than in the run before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from .. import units
from ..figures.compare.changes import MIXED, WORSE
from ..figures.compare.comparing import of_runs
from ..figures.health import measured
from ..figures.health.examine import examine
from ..figures.health.required import roster
from ..selection import Selection, run_before, run_ids, select
from . import compare as compare_sheets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trueup_node.health.expectations import Expectations
    from trueup_node.health.verdicts import Verdict

    from ..figures.compare.changes import Change, Comparison
    from ..figures.health.examine import Health
    from ..load import Loaded

MOST_LINES: Final = 15
_FAILURES: Final = 5
_FIGURES: Final = 3
_NAMES: Final = 5


@dataclass(frozen=True)
class Message:
    """What is told in the morning.

    Attributes:
        lines: at most 15, the first is the whole in a sentence.
        is_news: whether anything changed, so that it is worth sending.
        has_run: whether the check ran at all.
    """

    lines: Sequence[str]
    is_news: bool
    has_run: bool = True

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)


def not_run(reason: str) -> Message:
    """The message where there is no fresh run, or nothing can judge it."""
    line = units.text(f"trueup: the check did not run, or could not be judged: {reason}")
    return Message([line], is_news=True, has_run=False)


def message(
    loaded: Loaded, expectations: Expectations, *, now: datetime, max_age: timedelta
) -> Message:
    """The message about the last run beside the one before.

    Args:
        loaded: the records of all runs.
        expectations: the limits by which nodes fail.
        max_age: of the last run; an older one means that the check did not run.
    """
    runs = run_ids(loaded)
    if not runs:
        return not_run("there is no run")
    last = _health(loaded, runs[-1], expectations)
    began = _began(loaded, runs[-1])
    if began is None or now - began > max_age:
        age = "at an unknown time" if began is None else f"{_hours(now - began)} ago"
        return not_run(f"the last run, {runs[-1]}, began {age}")
    earlier = run_before(loaded, runs[-1])
    before = None if earlier is None else _health(loaded, earlier, expectations)
    compared = None if earlier is None else of_runs(loaded, earlier, runs[-1])
    return _message(last, before, compared, began)


def _hours(span: timedelta) -> str:
    return units.plural(round(span.total_seconds() / 3600), "hour")


def _health(loaded: Loaded, run: str, expectations: Expectations) -> Health:
    chosen = select(loaded, Selection(run=run), may_be_empty=True)
    cases = measured.cases(chosen)
    return examine(cases, expectations, expected=roster(chosen, cases, None))


def _began(loaded: Loaded, run: str) -> datetime | None:
    manifests = [held.get("started_at") for held in loaded.runs if held.get("run_id") == run]
    pairs = zip(loaded.values("run_id"), loaded.values("started_at"), strict=True)
    times = [time for time in manifests if time] or [begun for id_, begun in pairs if id_ == run]
    known = sorted(filter(None, times))
    return datetime.fromisoformat(known[0]).astimezone(UTC) if known else None


def _message(
    last: Health, before: Health | None, compared: Comparison | None, began: datetime
) -> Message:
    news = _news(last, {} if before is None else before.words, compared)
    still = sum(word == "fail" for word in last.words.values()) - len(news.fails)
    told = [*news.counts(), *([f"{still:,} still fail"] if still else [])]
    count = units.plural(len(last.nodes), "node")
    summary = "; ".join(told) or "nothing changed"
    lines = [
        f"trueup, {began:%Y-%m-%d %H:%M} UTC, {count}: {summary}.",
        *_failing([item for item in last.findings if item.verdict == "fail"], news.fails),
        *_named("Not measured", news.lost),
        *_named("No longer there", news.gone),
        *([] if compared is None else _figures(news.worse, compared)),
        *_named("Well again", news.mended),
    ]
    # Names are a node's word.
    return Message(list(map(units.text, lines[:MOST_LINES])), any(news))


class _News(NamedTuple):
    """What is not as in the run before: nodes by name, and the figures that are worse."""

    fails: list[str]
    lost: list[str]
    gone: list[str]
    worse: list[Change]
    mended: list[str]

    def counts(self) -> list[str]:
        """Each kind of news that there is, counted."""
        figures = units.plural(len(self.worse), "figure")
        counted = (
            _counted(self.fails, "newly fails", "newly fail"),
            _counted(self.lost, "is newly not measured", "are newly not measured"),
            _counted(self.gone, "is no longer there", "are no longer there"),
            f"{figures} worse" if self.worse else "",
            _counted(self.mended, "is well again", "are well again"),
        )
        return list(filter(None, counted))


def _news(last: Health, was: Mapping[str, str], compared: Comparison | None) -> _News:
    def newly(verdict: str) -> list[str]:
        return [
            node
            for node, word in last.words.items()
            if word == verdict and was.get(node) != verdict
        ]

    changes = () if compared is None else compared.changes
    return _News(
        fails=newly("fail"),
        lost=newly("not measured"),
        gone=[node for node in was if node not in last.words],
        worse=[change for change in changes if change.verdict in {WORSE, MIXED}],
        mended=[
            node for node, word in was.items() if word == "fail" and _is_well(last.words, node)
        ],
    )


def _named(what: str, nodes: Sequence[str]) -> list[str]:
    return [f"{what}: {_few(nodes)}."] if nodes else []


def _figures(worse: Sequence[Change], compared: Comparison) -> list[str]:
    """A line for each of the worst figures."""
    lines = [
        f"{compare_sheets.sentence(compared.titles, change)}{compare_sheets.beside(change)}."
        for change in worse[:_FIGURES]
    ]
    more = len(worse) - _FIGURES
    rest = [f"{units.plural(more, 'more figure')} worse: `trueup compare`."] if more > 0 else []
    return lines + rest


def _is_well(words: Mapping[str, str], node: str) -> bool:
    return words.get(node, "not measured") in {"pass", "warn"}


def _counted(nodes: Sequence[str], one: str, several: str) -> str:
    return (
        f"{units.plural(len(nodes), 'node')} {one if len(nodes) == 1 else several}" if nodes else ""
    )


def _few(names: Iterable[str]) -> str:
    held = list(names)
    more = len(held) - _NAMES
    return ", ".join(held[:_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def _failing(findings: Sequence[Verdict], nodes: Sequence[str]) -> list[str]:
    """A line for each kind of failure of the new nodes, with the fix."""
    by_kind: dict[tuple[str, str | None], list[Verdict]] = {}
    for item in findings:
        if not {*item.nodes}.isdisjoint(nodes):
            by_kind.setdefault((item.what, item.fix), []).append(item)
    lines = []
    for (what, fix), items in by_kind.items():
        names = dict.fromkeys(node for item in items for node in item.nodes if node in nodes)
        reason = items[0].reason or _measured(items[0])
        lines.append(f"Fails: {_few(names)}: {what}: {reason}." + (f" {fix}" if fix else ""))
    more = len(lines) - _FAILURES
    rest = [f"{units.plural(more, 'more kind')} of failure: `trueup health`."] if more > 0 else []
    return [*lines[:_FAILURES], *rest]


def _measured(item: Verdict) -> str:
    """The figure and its limit, in the unit of people."""
    unit = units.DISPLAYED.get(item.unit or "", item.unit or "")
    figure, limit = (
        units.measure(value, item.unit or "1") for value in (item.measured, item.expected)
    )
    comparison = str(item.comparison).replace("_", " ")
    return f"{figure} {unit}".rstrip() + f", must be {comparison} {limit}"
