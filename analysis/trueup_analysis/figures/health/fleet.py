"""Nodes of one size against each other: outliers, other software, and pairs reduced to whom they
blame."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np
from trueup_node.health.verdicts import Verdict, of_case, of_figure

from ...cases import as_figures
from ...packed import alike
from ..frames import rows_of
from .many import together

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence
    from typing import TypeVar

    import pandas as pd
    from numpy.typing import NDArray
    from trueup_node.cases import Case, Figure
    from trueup_node.health.expectations import Expectation, Expectations

    from ...load import Loaded

    Machine = TypeVar("Machine", bound=Hashable)


# Fewer nodes than this have no usual value.
LEAST_NODES: Final = 5
# For values from one normal distribution, 1.4826 x MAD estimates the standard deviation.
_TO_SIGMA: Final = 1.4826
_SIGMAS: Final = 5.0
# Nothing nearer to the median than this is an outlier, however alike the others are.
_LEAST_SHARE: Final = 0.05
# The others should have the version that nearly all nodes have.
_USUAL_SHARE: Final = 0.9
_PAIR: Final = 2
# Statistics that are no typical figure.
_ENDS: Final = ("min", "max", "p")


def outliers(cases: Sequence[Case], figures: pd.DataFrame) -> list[Verdict]:
    """Figures that are worse than those of the other nodes of the size, by median absolute
    deviation: more than 5 estimated standard deviations and more than 5 % off the median.

    Like is compared with like: figures of one device with those of the same device of the other
    nodes, since a property of one place in all nodes is no fault of a node. Pairs of nodes are
    left to ``pairs``.

    Args:
        figures: the figures of these cases.
    """
    compared = [index for index, case in enumerate(cases) if _is_compared(case, 1)]
    ends = [text for text in figures["statistic"].cat.categories if text.startswith(_ENDS)]
    rows = figures[
        figures["record"].isin(compared)
        & (figures["direction"] != "none")
        & ~figures["statistic"].isin(ends)
    ]
    likes = alike_cases((str(case.vm_size).lower(), case.benchmark, case.case) for case in cases)
    nodes = alike_cases(case.nodes for case in cases)
    rows = rows.assign(like=likes[rows["record"]], node=nodes[rows["record"]])
    same = ["name", "unit", "direction", "message_bytes", "device", "statistic"]
    # Groups are numbered in the order of reading.
    rows = rows.assign(group=alike(rows, ["like", *same]))
    by_group = rows.groupby("group")
    rows = rows.assign(
        middle=by_group["value"].transform("median"),
        count=by_group["value"].transform("size"),
        nodes=by_group["node"].transform("nunique"),
    )
    off = rows["value"] - rows["middle"]
    spread = _TO_SIGMA * off.abs().groupby(rows["group"]).transform("median")
    limit = np.maximum(_SIGMAS * spread, _LEAST_SHARE * rows["middle"].abs())
    worse = off.where(rows["direction"] != "higher", -off)
    apart = rows[(worse > limit) & (rows["nodes"] >= LEAST_NODES) & (rows["middle"] != 0)]
    apart = apart.sort_values("group", kind="stable")
    facts = zip(apart["record"], as_figures(apart), apart["middle"], apart["count"], strict=True)
    return [_outlier(cases[index], figure, middle, count) for index, figure, middle, count in facts]


def _is_compared(case: Case, nodes: int) -> bool:
    """Whether a case on so many nodes of a known size ended well."""
    return case.outcome == "ok" and case.vm_size is not None and case.node_count == nodes


def alike_cases(keys: Iterable[object]) -> NDArray[np.int64]:
    """The same number for equal keys."""
    codes: dict[object, int] = {}
    return np.array([codes.setdefault(key, len(codes)) for key in keys], np.int64)


def _alike(case: Case, figure: Figure) -> tuple[object, ...]:
    """The properties that compared figures have in common."""
    of_case = (str(case.vm_size).lower(), case.benchmark)
    return (*of_case, figure.name, figure.unit, figure.direction, figure.message_bytes)


def _usual(values: Sequence[float]) -> tuple[float, float]:
    """The median, and how far from it a value may lie."""
    middle = median(values)
    spread = _TO_SIGMA * median(abs(value - middle) for value in values)
    return middle, max(_SIGMAS * spread, _LEAST_SHARE * abs(middle))


def _worse(figure: Figure, middle: float) -> float:
    """How much worse than the median a figure is; below 0 where it is better."""
    return middle - figure.value if figure.direction == "higher" else figure.value - middle


def _outlier(case: Case, figure: Figure, middle: float, count: int) -> Verdict:
    return of_case(
        case,
        "warn",
        f"{figure.name} beside the other nodes",
        metric=figure.name,
        device=figure.device,
        message_bytes=figure.message_bytes,
        measured=figure.value,
        expected=middle,
        comparison="usual",
        unit=figure.unit,
        source=f"median of {count} figures of this size",
        # How much worse is in the figures: words that differ by it would keep equals apart.
        reason="worse than usual",
    )


def differences(cases: Iterable[Case]) -> list[Verdict]:
    """Driver, kernel, fabric manager or firmware of another version than nine tenths of the nodes
    of the size have; of fewer than ten nodes, than all others.
    """
    versions: dict[tuple[str, str], dict[tuple[str, ...], tuple[str, Case]]]
    versions = defaultdict(dict)
    for case in cases:
        # The build of a benchmark may differ; the software of the node may not.
        if case.benchmark != "node_state" or case.outcome == "failed" or case.vm_size is None:
            continue
        for name, version in case.software.items():
            versions[case.vm_size.lower(), name][case.nodes] = (version, case)
    verdicts = []
    for (_, name), nodes in versions.items():
        usual, count = Counter(version for version, _ in nodes.values()).most_common(1)[0]
        if len(nodes) < LEAST_NODES or count < min(_USUAL_SHARE * len(nodes), len(nodes) - 1):
            continue
        verdicts += [
            of_case(
                case,
                "fail",
                f"version of {name}",
                source=f"what {count} of {len(nodes)} nodes of this size have",
                reason=f"{name} is {version}, and {count} of {len(nodes)} nodes of this size have"
                f" {usual}",
            )
            for version, case in nodes.values()
            if version != usual
        ]
    return verdicts


def one_machine(cases: Iterable[Case]) -> list[Verdict]:
    """Names that are one Azure VM in the same run: each fails, since a VM is one node."""
    last = {
        (case.run_id, case.nodes[0]): case
        for case in cases
        if len(case.nodes) == 1 and case.system.get("machine")
    }
    machines = (((run_id, case.system["machine"]), name) for (run_id, name), case in last.items())
    return [
        of_case(
            last[run_id, name],
            "fail",
            "one machine under several names",
            reason=f"{' and '.join(names)} are one Azure VM, which counts as {len(names)} nodes",
            fix="Keep one of the names in the inventory, and measure again.",
        )
        for (run_id, _), names in shared(machines).items()
        for name in names
    ]


def pairs(cases: Iterable[Case], expectations: Expectations) -> list[Verdict]:
    """Measurements between two nodes, reduced to the node that is in most of the bad ones.

    A pair is bad if it is below its expectation, or an outlier among the pairs of its size and
    adapter. A node is blamed if it is in at least two bad pairs, which are more than half of its
    pairs, and most of its partners in these are fast with others: where all are slow, no node is to
    blame. A bad pair without such a node stands for itself: the path between the two is to be
    checked, not the nodes.
    """
    groups: dict[tuple[object, ...], list[tuple[Case, Figure]]] = defaultdict(list)
    compared = [case for case in cases if _is_compared(case, _PAIR)]
    figures = together(compared)
    for owner, figure in zip(figures["record"], as_figures(figures), strict=True):
        if figure.direction != "none" and figure.statistic in (None, "single", "median"):
            case = compared[owner]
            # Another adapter, or GPU memory, is another measurement.
            adapter = (str(case.parameters.get(name)) for name in ("device", "gdr"))
            groups[(*_alike(case, figure), *adapter)].append((case, figure))
    return [verdict for members in groups.values() for verdict in _reduce(members, expectations)]


def _reduce(members: Sequence[tuple[Case, Figure]], expectations: Expectations) -> list[Verdict]:
    middle, limit = _usual([figure.value for _, figure in members])
    bad: list[Verdict] = []
    good: list[Verdict] = []
    by_parameters: dict[int, list[Expectation]] = {}
    for case, figure in members:
        # Equal parameters of records are one object, and all else is the same for a group.
        if id(case.parameters) not in by_parameters:
            by_parameters[id(case.parameters)] = [
                item
                for item in expectations.of(str(case.vm_size), case.benchmark)
                if item.metric == figure.name
                and item.message_bytes == figure.message_bytes
                and item.applies(case)
            ]
        expected = [of_figure(case, item, figure) for item in by_parameters[id(case.parameters)]]
        worst = next((item for item in expected if item.verdict == "fail"), None)
        apart = _worse(figure, middle) > limit
        if worst is not None:
            bad.append(worst)
        elif apart and len(members) >= LEAST_NODES:
            bad.append(_outlier(case, figure, middle, len(members)))
        else:
            good += expected or [
                replace(
                    _outlier(case, figure, middle, len(members)),
                    verdict="no verdict",
                    reason="the catalog has no expectation for this pair",
                )
            ]
    blamed, rest = _blame(bad, [case.nodes for case, _ in members])
    return good + blamed + rest


def _blame(
    bad: Sequence[Verdict], measured: Iterable[tuple[str, ...]]
) -> tuple[list[Verdict], list[Verdict]]:
    by_pair = {frozenset(item.nodes): item for item in bad}
    all_pairs = {frozenset(nodes) for nodes in measured}
    totals = Counter(node for pair in all_pairs for node in pair)
    well = totals - Counter(node for pair in by_pair for node in pair)
    remaining = set(by_pair)
    blamed = []
    while (node := _guilty(remaining, totals, well)) is not None:
        its = [by_pair[pair] for pair in remaining if node in pair]
        remaining = {pair for pair in remaining if node not in pair}
        blamed.append(_of_node(node, its, totals))
    rest = sorted(remaining, key=sorted)
    return blamed, [_of_pair(by_pair[pair], all(well[node] > 0 for node in pair)) for pair in rest]


def _guilty(
    remaining: Iterable[frozenset[str]], totals: Mapping[str, int], well: Mapping[str, int]
) -> str | None:
    """The node that is in most of the bad pairs that are left, None where none is to blame."""
    partners: dict[str, list[str]] = defaultdict(list)
    for pair in remaining:
        for node in pair:
            partners[node] += pair - {node}
    suspects = [
        node
        for node, node_partners in sorted(partners.items())
        if len(node_partners) >= _PAIR
        and 2 * len(node_partners) > totals[node]
        and 2 * sum(well[other] > 0 for other in node_partners) > len(node_partners)
    ]
    count = {node: len(partners[node]) for node in suspects}
    return max(suspects, key=lambda node: (count[node] / totals[node], count[node]), default=None)


def _of_node(node: str, its: Sequence[Verdict], totals: Mapping[str, int]) -> Verdict:
    worst = min(its, key=lambda item: (("fail", "warn").index(item.verdict), item.nodes))
    return replace(
        worst,
        nodes=(node,),
        what=f"{worst.what}, in pairs",
        reason=f"{len(its)} of its {totals[node]} pairs are slow; most of its partners are fast"
        " with other nodes",
    )


def _of_pair(item: Verdict, others_fast: bool) -> Verdict:
    reason = "check the path between them, and measure each with other nodes"
    if others_fast:
        reason = "both are fast with other nodes: check the path between them"
    return replace(item, what=f"{item.what}, between these two", reason=reason)


def shared(pairs: Iterable[tuple[Machine, str]]) -> dict[Machine, list[str]]:
    """The names, sorted, of each machine that has several."""
    names: dict[Machine, set[str]] = {}
    for machine, name in pairs:
        names.setdefault(machine, set()).add(name)
    return {machine: sorted(each) for machine, each in names.items() if len(each) > 1}


def one_machine_sentences(loaded: Loaded) -> list[str]:
    """A sentence for each Azure VM that records know by several names."""
    single = loaded.records.loc[loaded.records["node_count"] == 1, ["system", "nodes"]]
    rows = rows_of(single.drop_duplicates())
    pairs = ((row["system"].get("machine"), row["nodes"]) for row in rows)
    several = shared(pair for pair in pairs if pair[0]).values()
    return [
        f"{' and '.join(names)} are one Azure VM by their records, which count {len(names)} nodes."
        for names in sorted(several)
    ]
