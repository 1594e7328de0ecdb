"""What was set or installed where a record was measured, and which of it changed."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from ...cases import columns_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from trueup_node.cases import Case

# Settings that say when or how long, or repeat another one, and so differ without a meaning.
_NOT_SETTINGS: Final = frozenset({"tuned_at", "memory_bytes", "cores", "family"})
# From which share of the variance on a setting explains which nodes changed.
_EXPLAINS: Final = 0.5
# A share of nodes from which on a change is one of all nodes.
_ALL: Final = 0.9
# Hours between two times of day that are another one.
_HOURS_APART: Final = 3
_HOUR: Final = "hour of day"
_STATE: Final = "node_state"
# The order of settings that explain equally well: the last one that has any of these words.
_LIKELY: Final = (
    *("cpu_quota", "cpu_list", "driver", "firmware", "fabric", "nccl", "mpi", "kernel", "image"),
    *("topology", "physical_host"),
)
# Settings that differ on every node: a change to another value is the same one on all.
_OF_ONE_NODE: Final = frozenset({"physical_host", "machine"})
_ANOTHER: Final = ("one", "another")


class Explanation(NamedTuple):
    """A setting that changed, or differs, where a figure did.

    Attributes:
        before, after: its values; equal where it only differs between nodes.
        nodes: the nodes on which it is so.
        everywhere: whether it is so on all nodes, so that nothing tells it from other causes.
        share: of the variance between nodes that it explains; None where it is the same on all.
    """

    setting: str
    before: str
    after: str
    nodes: tuple[str, ...]
    everywhere: bool
    share: float | None


def settings_of(case: Case) -> dict[str, str]:
    """The settings of a record by name, as text."""
    mappings = (case.parameters, case.system, case.software)
    texts = {
        name: str(value)
        for mapping in mappings
        for name, value in mapping.items()
        if value is not None and name not in _NOT_SETTINGS
    }
    plain = {"vm_size": case.vm_size, "region": case.region, "offer": case.offer}
    return {**texts, **{name: value for name, value in plain.items() if value}}


def by_node(cases: Sequence[Case]) -> dict[str, dict[str, str]]:
    """Settings of each node by name: of all its records, several values joined. Parameters carry
    the benchmark's name; a node's state counts as settings."""
    held: dict[str, dict[str, str]] = {}
    several: dict[tuple[str, str], set[str]] = {}
    for case in cases:
        named = _named(case)
        for node in case.nodes:
            of_node = held.setdefault(node, {})
            for name, value in named.items():
                first = of_node.setdefault(name, value)
                if first != value:
                    several.setdefault((node, name), {first}).add(value)
    for (node, name), values in several.items():
        held[node][name] = ", ".join(sorted(values))
    return held


def _named(case: Case) -> dict[str, str]:
    parameters = {name for name in case.parameters if name not in case.software}
    named = {
        f"{case.benchmark} {name}" if name in parameters else name: value
        for name, value in settings_of(case).items()
    }
    if case.started_at:
        named[_HOUR] = case.started_at[11:13]
    if case.benchmark == _STATE:
        fields = columns_of(case.figures, "name", "device", "value")
        named |= {
            _state(name, device): _text(value) for name, device, value in zip(*fields, strict=True)
        }
    return named


@cache
def _state(name: str, device: str | None) -> str:
    return name if device is None else f"{name} of {device}"


@lru_cache(maxsize=2**12)
def _text(value: float) -> str:
    return f"{value:g}"


class Settings:
    """The settings of the nodes on both sides.

    Attributes:
        before, after: by node.
        pairs: of each setting by node, its values on both sides, None on a node that lacks one;
            without the settings that no node has on both sides, or that are everywhere equal.
    """

    def __init__(self, before: Sequence[Case], after: Sequence[Case]) -> None:
        self.before, self.after = by_node(before), by_node(after)
        nodes = [node for node in self.before if node in self.after]
        names = dict.fromkeys(
            name for node in nodes for name in (*self.before[node], *self.after[node])
        )
        every = ((name, self._pairs(name, nodes)) for name in names)
        self.pairs = {name: of_nodes for name, of_nodes in every if not _says_nothing(of_nodes)}

    def _pairs(self, name: str, nodes: Iterable[str]) -> dict[str, tuple[str, str] | None]:
        return {node: _pair(name, self.before[node], self.after[node]) for node in nodes}


def groups(settings: Settings) -> set[frozenset[str]]:
    """The nodes that have a change of a setting, or its value, in common, and others have not."""
    all_groups: set[frozenset[str]] = set()
    for pairs in settings.pairs.values():
        kinds: dict[tuple[str, str] | None, set[str]] = {}
        for node, pair in pairs.items():
            kinds.setdefault(pair, set()).add(node)
        if 1 < len(kinds) <= max(2, len(pairs) // 3):
            all_groups |= {
                frozenset(members) for kind, members in kinds.items() if kind is not None
            }
    return all_groups


def explanations(
    measured_nodes: Iterable[str],
    changed_nodes: Collection[str],
    settings: Settings,
    benchmark: str,
) -> list[Explanation]:
    """The settings that changed where a figure did, the most likely first.

    Args:
        measured_nodes: the nodes that were measured on both sides.
        changed_nodes: the nodes on which the figure changed.
        settings: of both sides.
        benchmark: whose parameters count; those of others do not act on it.
    """
    nodes = [node for node in measured_nodes if node in settings.before and node in settings.after]
    if not nodes:
        return []
    of_all = len(changed_nodes) >= _ALL * len(nodes)
    candidates = []
    for name, of_nodes in settings.pairs.items():
        if _is_foreign(name, benchmark):
            continue
        pairs = {node: of_nodes[node] for node in nodes}
        if not _says_nothing(pairs):
            candidates += _of_setting(name, pairs, changed_nodes, of_all=of_all)
    candidates.sort(key=lambda each: _rank(each, of_all=of_all))
    return [_with_values(each, settings) for each in candidates]


def _says_nothing(pairs: Mapping[str, tuple[str, str] | None]) -> bool:
    """Whether no node has both values, or all nodes have the same one on both sides."""
    kinds = set(pairs.values())
    if len(kinds) > 1:
        return False
    (pair,) = kinds or {None}
    return pair is None or pair[0] == pair[1]


def _with_values(item: Explanation, settings: Settings) -> Explanation:
    """A setting of one node with its values."""
    if item.setting not in _OF_ONE_NODE or len(item.nodes) > 1:
        return item
    (node,) = item.nodes
    return item._replace(
        before=settings.before[node][item.setting], after=settings.after[node][item.setting]
    )


def _is_foreign(name: str, benchmark: str) -> bool:
    """Whether a name is a parameter of another benchmark."""
    owner, _, parameter = name.partition(" ")
    is_parameter = bool(parameter) and " of " not in name and name != _HOUR
    return is_parameter and owner != benchmark


def _pair(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, str] | None:
    if name not in before or name not in after:
        return None
    if name in _OF_ONE_NODE:
        return None if before[name] == after[name] else _ANOTHER
    if name == _HOUR:
        hours = [text.split(", ")[0] for text in (before[name], after[name])]
        apart = abs(int(hours[0]) - int(hours[1]))
        return (hours[0], hours[1]) if min(apart, 24 - apart) >= _HOURS_APART else ("any", "any")
    return before[name], after[name]


def _of_setting(
    name: str,
    pairs: Mapping[str, tuple[str, str] | None],
    changed_nodes: Collection[str],
    *,
    of_all: bool,
) -> list[Explanation]:
    """How well a setting explains the change: the group of nodes that fell most together."""
    kinds = {pair for pair in pairs.values() if pair is not None}
    if len(kinds) == 1 and None not in pairs.values():
        ((old, new),) = kinds
        return [Explanation(name, old, new, tuple(pairs), everywhere=True, share=None)]
    if of_all or not changed_nodes or len(kinds) > max(2, len(pairs) // 3):
        return []
    explained = []
    for kind in kinds:
        held = tuple(node for node, pair in pairs.items() if pair == kind)
        share = _explained({*pairs}, {*changed_nodes}, {*held})
        if share >= _EXPLAINS:
            explained.append(Explanation(name, *kind, held, everywhere=False, share=share))
    return sorted(explained, key=lambda item: -(item.share or 0))[:1]


def _explained(nodes: set[str], changed: set[str], members: set[str]) -> float:
    """The share of the variance of "it changed" that membership explains: the square of phi, 0
    where members changed less often than others."""
    changed = changed & nodes
    both, count = len(changed & members), len(nodes)
    covariance = both * count - len(changed) * len(members)
    if covariance <= 0:
        return 0.0
    variances = (len(each) * (count - len(each)) for each in (changed, members))
    return float(covariance**2 / math.prod(variances))


def _rank(item: Explanation, *, of_all: bool) -> tuple[object, ...]:
    likely = [place for place, word in enumerate(_LIKELY) if word in item.setting]
    changed = item.before != item.after
    return (
        item.everywhere != of_all,
        -round(item.share or 0, 1),
        not changed,
        item.setting == _HOUR,
        min(likely, default=len(_LIKELY)),
        item.setting,
    )
