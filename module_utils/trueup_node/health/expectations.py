"""Figures that healthy nodes reach, by the catalog's expectations.yml and a node's copy of it.

Each figure has a limit that a node must meet, and where a source has them the figure that healthy
nodes reach and a warning limit between the two. Without a warning limit a figure passes or fails.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Optional, cast

from ..errors import BadInput
from ..quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ..cases import Case

Comparison = Literal["at_least", "at_most", "exactly"]
_REQUIRED: Final = {
    *("what", "benchmark", "metric", "comparison", "unit", "source", "date", "values")
}
_ENTRY: Final = _REQUIRED | {
    *("program", "parameters", "unsure", "refused", "least", "nodes", "gpus", "message_bytes"),
    *("statistic", "fault", "fix", "required"),
}
# Members of an entry that a value may state for its sizes.
_OF_VALUE: Final = {"message_bytes", "gpus", "least"}
# By comparison: the member of a value that a node must meet, and the member with its warning limit.
_LIMIT: Final = {"at_least": "floor", "at_most": "ceiling", "exactly": "value"}
_WARN: Final = {"at_least": "warn_below", "at_most": "warn_above"}
# Members of the format before this one, and their replacement.
_REPLACED: Final = {
    "warn_within": "nothing is warned of for being near its limit: give a value healthy (the"
    " figure that healthy nodes reach) and warn_below (a figure or a share of healthy), each with"
    " source and date",
    "judged": "without warn_below there is no warning, so leave it out",
}


class Level(NamedTuple):
    """A figure beside the limit, and where it is from.

    Attributes:
        value: the figure, in the unit of the expectation.
        source: its source with its date, as people read it.
    """

    value: Quantity
    source: str


@dataclass(frozen=True)
class Expectation:
    """The expectation of one figure of one size.

    Attributes:
        expected: the figure below (above, beside) which a node fails.
        healthy: the figure that healthy nodes reach; None where no source says it.
        warn: the figure below (above) which it passes with a warning; None where there is no
            warning.
        program: the program and the input that the figures hold for, as people read it; empty
            where the node itself is looked at.
        parameters: of the case: name to the values that are allowed, as patterns of fnmatch.
        unsure: further values of these parameters, of outputs that do not say: with them a figure
            can meet the limit, but not miss it.
        refused: parameters with which the case is a failure, whatever its figures.
        least: parameters that are numbers, and their least value.
        nodes: how many nodes the case ran on, None for any; ``several`` for more than one.
        gpus: how many GPUs of each node took part, None for any number.
        message_bytes: the message size that is judged; None where the figure has none.
        statistic: which statistic of repeats is judged; None for the median or the only one.
        fault: Azure's fault code; empty where none fits.
        fix: the remedy of a failure, one sentence; empty if it is not known.
        required: whether a node of the size must have the figure: ``yes``, or the metric that says
            on how many devices; empty where it need not.
    """

    what: str
    benchmark: str
    metric: str
    comparison: Comparison
    expected: Quantity
    source: str
    date: str
    healthy: Optional[Level] = None
    warn: Optional[Level] = None
    program: str = ""
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unsure: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)
    nodes: int | Literal["several"] | None = None
    gpus: int | None = None
    message_bytes: int | None = None
    statistic: str | None = None
    fault: str = ""
    fix: str = ""
    required: str = ""

    def applies(self, case: Case) -> bool:
        """Whether the figures hold for a case of this kind."""
        return not self.misfits(case)

    def misfits(self, case: Case) -> list[str]:
        """Properties of a case outside the figures' scope: ``program pytorch``, ``4 GPUs``."""
        wrong = [
            _named(name, case.parameters.get(name))
            for name, allowed in self.parameters.items()
            if not _is_any(case.parameters.get(name), [*allowed, *self.unsure.get(name, ())])
        ]
        wrong += [
            _named(name, case.parameters.get(name))
            for name, least in self.least.items()
            if not _reaches(case.parameters.get(name), least)
        ]
        nodes = case.node_count
        if nodes is None and (self.nodes is not None or self.gpus is not None):
            wrong.append("an unknown number of nodes (--nodes gives it for a log)")
        elif not self.fits(nodes):
            wrong.append(f"{nodes} node" + "s" * (nodes != 1))
        if self.gpus is not None and nodes is not None and case.gpus != self.gpus * nodes:
            count = "an unknown number of" if case.gpus is None else case.gpus
            wrong.append(f"{count} GPU" + "s" * (case.gpus != 1))
        return wrong

    def doubts(self, case: Case) -> list[str]:
        """The parameters of which a case does not say whether the figures hold for it."""
        return [
            name
            for name, values in self.unsure.items()
            if _is_any(case.parameters.get(name), values)
        ]

    def refuses(self, case: Case) -> str | None:
        """The parameter that makes a case of this kind a failure, as ``name value``; else None.

        A case is of this kind if its other parameters are allowed.
        """
        other_parameters = {
            name: of for name, of in self.parameters.items() if name not in self.refused
        }
        of_this_kind = self.fits(case.node_count) and all(
            _is_any(case.parameters.get(name), allowed)
            for name, allowed in other_parameters.items()
        )
        refused = (
            _named(name, case.parameters.get(name))
            for name, values in self.refused.items()
            if _is_any(case.parameters.get(name), values)
        )
        return next(refused, None) if of_this_kind else None

    def fits(self, node_count: int | None) -> bool:
        """Whether it holds for a case on this many nodes. An unknown number fits only an
        expectation for any number."""
        several = self.nodes == "several" and node_count is not None and node_count > 1
        return several or self.nodes in (None, node_count)


def _is_any(value: Any, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(str(value), pattern) for pattern in patterns)


def _reaches(value: Any, least: float) -> bool:
    try:
        return float(value) >= least
    except (TypeError, ValueError):
        return False


def _named(name: str, value: Any) -> str:
    return f"no {name}" if value is None else f"{name} {value}"


class Expectations:
    """All expectations, by size (whatever its upper and lower case) and benchmark."""

    def __init__(self, by_size: Mapping[str, list[Expectation]]) -> None:
        self._by_size = by_size

    def of(self, size: str, benchmark: str | None = None) -> list[Expectation]:
        """The expectations of a size, and of one benchmark if given."""
        expectations = self._by_size.get(size.lower(), [])
        return [item for item in expectations if benchmark in (None, item.benchmark)]

    def knows(self, size: str) -> bool:
        """Whether anything is expected of the size."""
        return size.lower() in self._by_size

    def only(self, benchmarks: Collection[str]) -> Expectations:
        """The expectations of some benchmarks."""
        return Expectations(
            {
                size: [item for item in items if item.benchmark in benchmarks]
                for size, items in self._by_size.items()
            }
        )

    def with_own(self, overrides: Expectations) -> Expectations:
        """These, with a site's overrides for the same figures of a size."""
        by_size = dict(self._by_size)
        for size, items in overrides._by_size.items():
            replaced = {(item.benchmark, item.metric) for item in items}
            by_size[size] = [
                item
                for item in by_size.get(size, [])
                if (item.benchmark, item.metric) not in replaced
            ] + items
        return Expectations(by_size)

    @property
    def sizes(self) -> list[str]:
        """The sizes, in lower case."""
        return sorted(self._by_size)


def of_document(data: Any, where: str) -> Expectations:
    """The expectations of a document laid out as the catalog's expectations.yml.

    Args:
        where: the file, as an error names it.

    Raises:
        BadInput: an entry is wrong; says which.
    """
    if not isinstance(data, dict) or not isinstance(data.get("expectations"), list):
        raise BadInput(f"{where}: expectations, a list, is missing")
    try:
        _only(data, {"expectations"})
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    by_size: dict[str, list[Expectation]] = {}
    for number, entry in enumerate(data["expectations"], 1):
        for size, expectation in _checked(entry, f"{where}: expectation {number}"):
            by_size.setdefault(size.lower(), []).append(expectation)
    return Expectations(by_size)


def of_size(document: Mapping[str, Any], size: str) -> dict[str, Any]:
    """The part of the catalog's document for one size, in the same layout: a node gets it as
    JSON."""
    entries = []
    for entry in document["expectations"]:
        values = [
            {**value, "sizes": [size]}
            for value in entry["values"]
            if size.lower() in map(str.lower, value["sizes"])
        ]
        if values:
            entries.append({**entry, "date": str(entry["date"]), "values": values})
    return {"expectations": entries}


def _checked(entry: Any, where: str) -> list[tuple[str, Expectation]]:
    try:
        return list(_expanded(entry))
    except (AttributeError, KeyError, TypeError, ValueError, BadInput) as error:
        label = entry.get("what") if isinstance(entry, dict) else None
        raise BadInput(f"{where} ({label}) is wrong: {error}") from error


def _expanded(entry: Mapping[str, Any]) -> Iterator[tuple[str, Expectation]]:
    _only(entry, _ENTRY)
    if missing := sorted(_REQUIRED - set(entry)):
        raise BadInput(f"{', '.join(missing)} is missing")
    comparison = entry["comparison"]
    if comparison not in _LIMIT:
        raise BadInput(f"comparison {comparison!r} is none of {', '.join(_LIMIT)}")
    for value in entry["values"]:
        expected, healthy, warn = _levels(value, comparison, str(entry["unit"]))
        of_case = {name: value.get(name, entry.get(name)) for name in _OF_VALUE}
        message_bytes, gpus = of_case["message_bytes"], of_case["gpus"]
        expectation = Expectation(
            what=str(entry["what"]),
            benchmark=str(entry["benchmark"]),
            metric=str(entry["metric"]),
            comparison=cast("Comparison", comparison),
            expected=expected,
            healthy=healthy,
            warn=warn,
            program=str(entry.get("program", "")),
            parameters=_lists(entry.get("parameters", {})),
            unsure=_lists(entry.get("unsure", {})),
            refused=_lists(entry.get("refused", {})),
            least={
                str(name): _number(number, f"least: {name}")
                for name, number in (of_case["least"] or {}).items()
            },
            nodes=_nodes(entry.get("nodes")),
            gpus=None if gpus is None else int(_number(gpus, "gpus")),
            message_bytes=None if message_bytes is None else int(message_bytes),
            statistic=entry.get("statistic"),
            fault=str(entry.get("fault", "")),
            fix=str(entry.get("fix", "")),
            required=_required(entry.get("required", "no")),
            source=str(entry["source"]),
            date=str(entry["date"]),
        )
        if stray := sorted(set(expectation.unsure) - set(expectation.parameters)):
            raise BadInput(f"unsure has {', '.join(stray)}, which parameters has not")
        for size in _list("sizes", value["sizes"]):
            yield size, expectation


def _levels(
    value: Mapping[str, Any], comparison: str, unit: str
) -> tuple[Quantity, Level | None, Level | None]:
    """The limit, the figure of healthy nodes and the warning limit of one value.

    Raises:
        BadInput: one is missing, no number, without its source, or on the wrong side of another.
    """
    limit_name, warn_name = _LIMIT[comparison], _WARN.get(comparison, "")
    beside = {"healthy", warn_name} if warn_name else set()
    if "value" in value and limit_name != "value":
        raise BadInput(f"value of {comparison} is called {limit_name}")
    _only(value, {limit_name, "sizes"} | _OF_VALUE | beside)
    if limit_name not in value:
        raise BadInput(f"{limit_name} is missing")
    limit = _number(value[limit_name], limit_name)
    levels = {
        name: _level(name, value[name], unit, value.get("healthy"))
        for name in ("healthy", warn_name)
        if name in value
    }
    healthy, warn = levels.get("healthy"), levels.get(warn_name)
    sign = -1 if comparison == "at_most" else 1
    side = "below" if sign > 0 else "above"
    if healthy is not None and sign * healthy.value.value < sign * limit:
        raise BadInput(f"healthy {healthy.value.value:g} lies {side} {limit_name} {limit:g}")
    if warn is not None and sign * warn.value.value <= sign * limit:
        raise BadInput(
            f"{warn_name} {warn.value.value:g} does not lie beyond {limit_name} {limit:g}"
        )
    if warn is not None and healthy and sign * warn.value.value > sign * healthy.value.value:
        raise BadInput(
            f"{warn_name} {warn.value.value:g} would warn of healthy {healthy.value.value:g}"
        )
    return Quantity(limit, unit), healthy, warn


def _level(name: str, stated: Any, unit: str, healthy: Any) -> Level:
    """A figure beside the limit; of a warning limit it may be a share of the healthy figure."""
    if not isinstance(stated, dict):
        raise BadInput(f"{name} {stated!r} has no members: it takes value, source and date")
    share = "of_healthy"
    is_share = name != "healthy" and share in stated
    figure = share if is_share else "value"
    _only(stated, {figure, "source", "date"})
    if missing := sorted({figure, "source", "date"} - set(stated)):
        raise BadInput(f"{name}: {', '.join(missing)} is missing")
    number = _number(stated[figure], f"{name}: {figure}")
    if is_share:
        if not isinstance(healthy, dict) or "value" not in healthy:
            raise BadInput(f"{name} is a share of healthy, which is missing")
        number *= _number(healthy["value"], "healthy: value")
    return Level(Quantity(number, unit), f"{stated['source']} ({stated['date']})")


def _number(value: Any, name: str) -> float:
    """A finite number; YAML's true is none."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (OverflowError, TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(f"{name} {value!r} is not a number")
    return number


def _required(setting: Any) -> str:
    """``yes``, a metric, or empty; YAML may say true and false instead."""
    if isinstance(setting, bool):
        return "yes" if setting else ""
    if not isinstance(setting, str) or not setting.isidentifier():
        raise BadInput(
            f"required {setting!r} is neither yes, no nor the metric that counts devices"
        )
    return "" if setting == "no" else setting


def _lists(members: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {str(name): _list(str(name), values) for name, values in members.items()}


def _list(name: str, values: Any) -> tuple[str, ...]:
    """The items of a list; a single word is none, whose letters would be items."""
    if not isinstance(values, (list, tuple)):
        raise BadInput(f"{name} {values!r} is not a list")
    return tuple(str(item) for item in values)


def _nodes(count: Any) -> int | Literal["several"] | None:
    """How many nodes, ``several`` for 2+, or None for any number."""
    if count == "2+":
        return "several"
    if count is None or (isinstance(count, int) and not isinstance(count, bool) and count > 0):
        return count
    raise BadInput(f"nodes {count!r} is neither a number of nodes nor 2+")


def _only(members: Mapping[str, Any], allowed: set[str]) -> None:
    for name in members:
        if name in _REPLACED:
            raise BadInput(
                f"{name} is of an earlier format: {_REPLACED[name]}; see docs/guides/health.md"
            )
    if unknown := sorted(map(str, set(members) - allowed)):
        message = f"{', '.join(unknown)} is not known here; there are {', '.join(sorted(allowed))}"
        raise BadInput(message)
