"""Required measurements that a node lacks: silence is not health."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Callable, Dict, Final, Optional, Tuple

from .verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from ..cases import Case
    from .expectations import Expectation, Expectations

_STATE: Final = "node_state"
# (node, run id, benchmark) -> why there is no record of it.
Why = Callable[[str, Optional[str], str], str]
# (benchmark, metric) -> one of the expectations that require it, and on how many devices.
_Must = Dict[Tuple[str, str], Tuple["Expectation", int]]


def not_measured(
    nodes: tuple[str, ...],
    benchmark: str,
    subject: str,
    reason: str,
    run_id: str | None,
    **more: Any,
) -> Verdict:
    """A verdict on a missing record; ``more`` are its other fields."""
    return Verdict(
        nodes,
        more.pop("vm_size", None),
        benchmark,
        "",
        "not measured",
        subject,
        reason=reason,
        run_id=run_id,
        **more,
    )


def held_to(
    verdicts: Sequence[Verdict],
    cases: Sequence[Case],
    expectations: Expectations,
    *,
    reason_of: Why | None,
    required: Collection[str] = (),
    passed: Iterable[tuple[Case, str, Collection[str | None]]] = (),
) -> list[Verdict]:
    """The verdicts, with "not measured" instead of "no verdict" for a required figure of the node's
    size that could not be judged; and verdicts "not measured" on missing records.

    Args:
        reason_of: the reason for a missing record; None if only existing records count: then no
            node fails for a benchmark without a record.
        required: benchmarks that every node must have been measured with.
        passed: passes that are not among the verdicts: case, metric and devices.
    """
    nodes = {node: _OfNode(node) for case in cases for node in case.nodes}
    for case in cases:
        for node in case.nodes:
            nodes[node].add(case)
    for item in verdicts:
        for node in item.nodes:
            nodes[node].judged(item)
    for case, metric, devices in passed:
        for node in case.nodes:
            nodes[node].passed(case.benchmark, metric, devices)
    lacking: list[Verdict] = []
    musts: dict[str | None, _Must] = {}
    for of_node in nodes.values():
        size = of_node.size
        if size not in musts:
            musts[size] = _must(size, expectations)
        lacking += of_node.lacking(musts[size], reason_of, required)
    reported = {(item.nodes, item.benchmark, item.metric) for item in lacking if item.metric}
    # A figure that is reported as not measured is reported once.
    remaining = [
        item
        for item in verdicts
        if item.verdict != "no verdict" or (item.nodes, item.benchmark, item.metric) not in reported
    ]
    return remaining + lacking


class _OfNode:
    """The measured and judged figures of one node."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.size: str | None = None
        self.run_id: str | None = None
        self.cases: dict[str, Case] = {}
        self._devices: dict[tuple[str, str], set[str | None]] = defaultdict(set)
        self._settled: set[str] = set()
        self._unjudged: dict[tuple[str, str | None], Verdict] = {}

    def add(self, case: Case) -> None:
        self.size = case.vm_size or self.size
        self.run_id = case.run_id
        self.cases[case.benchmark] = case

    def passed(self, benchmark: str, metric: str, devices: Collection[str | None]) -> None:
        self._devices[benchmark, metric].update(devices)

    def judged(self, item: Verdict) -> None:
        if item.metric is not None and item.measured is not None:
            self._devices[item.benchmark, item.metric].add(item.device)
        elif item.verdict == "no verdict":
            self._unjudged.setdefault((item.benchmark, item.metric), item)
        elif item.metric is None and item.benchmark != _STATE:
            # The case failed, which says all.
            self._settled.add(item.benchmark)

    def lacking(
        self, must: _Must, reason_of: Why | None, required: Collection[str]
    ) -> Iterator[Verdict]:
        """Verdicts on the required figures that the node lacks."""
        names = {benchmark for benchmark, _ in must}
        for benchmark in [*sorted(names), *(name for name in required if name not in names)]:
            if benchmark in self.cases or benchmark in self._settled:
                continue
            if benchmark in required or reason_of is not None:
                reason = "" if reason_of is None else reason_of(self.name, self.run_id, benchmark)
                yield self._verdict(benchmark, benchmark, reason or "required, and has no record")
        for (benchmark, metric), (item, count) in must.items():
            if benchmark in self.cases and benchmark not in self._settled:
                yield from self._figure(benchmark, metric, item, count)

    def _figure(
        self, benchmark: str, metric: str, item: Expectation, count: int
    ) -> Iterator[Verdict]:
        held = len(self._devices[benchmark, metric])
        if held >= count:
            return
        unjudged = self._unjudged.get((benchmark, metric)) or self._unjudged.get((benchmark, None))
        if held:
            reason = f"known of {held} of {count}"
        elif benchmark == _STATE:
            reason = "it could not be read"
        elif unjudged is not None and unjudged.reason:
            reason = unjudged.reason
        else:
            reason = f"{metric} was not measured"
        case = self.cases[benchmark]
        yield self._verdict(
            benchmark,
            item.what,
            reason,
            metric=metric,
            source=item.source,
            date=item.date,
            measured_at=case.started_at,
        )

    def _verdict(self, benchmark: str, subject: str, reason: str, **more: Any) -> Verdict:
        return not_measured(
            (self.name,), benchmark, subject, reason, self.run_id, vm_size=self.size, **more
        )


def _must(size: str | None, expectations: Expectations) -> _Must:
    of_size = [] if size is None else expectations.of(size)
    return {
        (item.benchmark, item.metric): (item, _devices_of(item, str(size), expectations))
        for item in of_size
        if item.required
    }


def _devices_of(item: Expectation, size: str, expectations: Expectations) -> int:
    """On how many devices a required figure must be known; at least one."""
    if item.required == "yes":
        return 1
    counts = [
        int(expectation.expected.base)
        for expectation in expectations.of(size, item.benchmark)
        if expectation.metric == item.required
    ]
    return max(counts, default=1)
