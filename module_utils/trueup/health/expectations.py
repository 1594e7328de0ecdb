"""What healthy nodes reach, as the catalog's expectations.yml and a node's copy of it say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ..errors import BadInput
from ..quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

Comparison = Literal["at_least", "at_most", "exactly"]
_COMPARISONS: Final = ("at_least", "at_most", "exactly")
_REQUIRED: Final = {
    *("what", "benchmark", "metric", "comparison", "unit", "source", "date", "values")
}
_ENTRY: Final = _REQUIRED | {
    *("parameters", "refused", "nodes", "message_bytes", "statistic", "judged", "fault"),
    *("fix", "required"),
}
_VALUE: Final = {"value", "sizes", "message_bytes", "warn_below"}


@dataclass(frozen=True)
class Expectation:
    """What one figure of one size must be.

    Attributes:
        expected: the figure below (above, beside) which a node fails.
        warn: the figure up to which it passes with a warning; None where there is no such band.
        parameters: what the case must have been: name to the values that are allowed.
        refused: parameters with which the case is a failure, whatever its figures.
        nodes: how many nodes the case ran on, None for any; ``several`` for more than one.
        message_bytes: the message size that is judged; None where the figure has none.
        statistic: which statistic of repeats is judged; None for the median or the only one.
        fault: Azure's fault code; empty where none fits.
        fix: what to do about a failure, one sentence; empty where nobody says.
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
    warn: Quantity | None = None
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nodes: int | Literal["several"] | None = None
    message_bytes: int | None = None
    statistic: str | None = None
    fault: str = ""
    fix: str = ""
    required: str = ""

    def applies(self, parameters: Mapping[str, Any], node_count: int) -> bool:
        """Whether a case of these parameters and this many nodes is what it speaks of."""
        return self.fits(node_count) and all(
            str(parameters.get(name)) in allowed for name, allowed in self.parameters.items()
        )

    def refuses(self, parameters: Mapping[str, Any], node_count: int) -> str | None:
        """The parameter that makes a case of this kind a failure, as ``name value``; else None.

        A case is of this kind whose other parameters are what they must be.
        """
        others = {name: of for name, of in self.parameters.items() if name not in self.refused}
        of_this_kind = self.fits(node_count) and all(
            str(parameters.get(name)) in allowed for name, allowed in others.items()
        )
        found = (
            f"{name} {parameters.get(name)}"
            for name, refused in self.refused.items()
            if str(parameters.get(name)) in refused
        )
        return next(found, None) if of_this_kind else None

    def fits(self, node_count: int) -> bool:
        """Whether a case on this many nodes is what it speaks of."""
        several = self.nodes == "several" and node_count > 1
        return several or self.nodes in (None, node_count)


class Expectations:
    """All expectations, by size (whatever its upper and lower case) and benchmark."""

    def __init__(self, by_size: Mapping[str, list[Expectation]]) -> None:
        self._by_size = by_size

    def of(self, size: str, benchmark: str | None = None) -> list[Expectation]:
        """Those of a size, and of one benchmark if given."""
        found = self._by_size.get(size.lower(), [])
        return [item for item in found if benchmark in (None, item.benchmark)]

    def knows(self, size: str) -> bool:
        """Whether anything is expected of the size."""
        return size.lower() in self._by_size

    def only(self, benchmarks: Collection[str]) -> Expectations:
        """Those of some benchmarks."""
        return Expectations(
            {
                size: [item for item in items if item.benchmark in benchmarks]
                for size, items in self._by_size.items()
            }
        )

    def with_own(self, own: Expectations) -> Expectations:
        """These, and a site's own in the place of what they say of the same figure of a size."""
        by_size = dict(self._by_size)
        for size, items in own._by_size.items():
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
    try:
        within = float(data["warn_within"])
        entries = list(data["expectations"])
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        message = f"{where}: warn_within (a share) and expectations (a list) are needed: {error}"
        raise BadInput(message) from error
    by_size: dict[str, list[Expectation]] = {}
    for number, entry in enumerate(entries, 1):
        for size, expectation in _checked(entry, within, f"{where}: expectation {number}"):
            by_size.setdefault(size.lower(), []).append(expectation)
    return Expectations(by_size)


def of_size(document: Mapping[str, Any], size: str) -> dict[str, Any]:
    """The part of the catalog's document that speaks of a size, laid out in the same way: what a
    node needs, as JSON."""
    entries = []
    for entry in document["expectations"]:
        values = [
            {**value, "sizes": [size]}
            for value in entry["values"]
            if size.lower() in map(str.lower, value["sizes"])
        ]
        if values:
            entries.append({**entry, "date": str(entry["date"]), "values": values})
    return {"warn_within": document["warn_within"], "expectations": entries}


def _checked(entry: Any, within: float, where: str) -> list[tuple[str, Expectation]]:
    try:
        return list(_expanded(entry, within))
    except (AttributeError, KeyError, TypeError, ValueError, BadInput) as error:
        what = entry.get("what") if isinstance(entry, dict) else None
        raise BadInput(f"{where} ({what}) is wrong: {error}") from error


def _expanded(entry: Mapping[str, Any], within: float) -> Iterator[tuple[str, Expectation]]:
    _only(entry, _ENTRY)
    if missing := sorted(_REQUIRED - set(entry)):
        raise BadInput(f"{', '.join(missing)} is missing")
    comparison = entry["comparison"]
    if comparison not in _COMPARISONS:
        raise BadInput(f"comparison {comparison!r} is none of {', '.join(_COMPARISONS)}")
    judged = entry.get("judged", "with a band")
    if judged not in ("with a band", "strictly"):
        raise BadInput(f"judged {judged!r} is not strictly")
    for value in entry["values"]:
        _only(value, _VALUE)
        expected = Quantity(float(value["value"]), str(entry["unit"]))
        warn = _warn(expected, comparison, value.get("warn_below"), within)
        message_bytes = value.get("message_bytes", entry.get("message_bytes"))
        expectation = Expectation(
            what=str(entry["what"]),
            benchmark=str(entry["benchmark"]),
            metric=str(entry["metric"]),
            comparison=cast("Comparison", comparison),
            expected=expected,
            warn=None if judged == "strictly" else warn,
            parameters=_lists(entry.get("parameters", {})),
            refused=_lists(entry.get("refused", {})),
            nodes="several" if entry.get("nodes") == "2+" else entry.get("nodes"),
            message_bytes=None if message_bytes is None else int(message_bytes),
            statistic=entry.get("statistic"),
            fault=str(entry.get("fault", "")),
            fix=str(entry.get("fix", "")),
            required=_required(entry.get("required", "no")),
            source=str(entry["source"]),
            date=str(entry["date"]),
        )
        for size in value["sizes"]:
            yield str(size), expectation


def _required(word: Any) -> str:
    """``yes``, a metric, or empty; YAML may say true and false instead."""
    if isinstance(word, bool):
        return "yes" if word else ""
    if not isinstance(word, str) or not word.isidentifier():
        raise BadInput(f"required {word!r} is neither yes, no nor the metric that counts devices")
    return "" if word == "no" else word


def _lists(given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(str(item) for item in allowed) for name, allowed in given.items()}


def _only(found: Mapping[str, Any], known: set[str]) -> None:
    if unknown := sorted(set(found) - known):
        message = f"{', '.join(unknown)} is not known here; there are {', '.join(sorted(known))}"
        raise BadInput(message)


def _warn(
    expected: Quantity, comparison: str, below: float | None, within: float
) -> Quantity | None:
    if comparison == "exactly":
        return None
    if below is not None:
        if comparison != "at_least" or float(below) < expected.value:
            raise BadInput(f"warn_below {below} does not lie above an at_least of {expected.value}")
        return Quantity(float(below), expected.unit)
    factor = 1 + within if comparison == "at_least" else 1 - within
    return Quantity(expected.value * factor, expected.unit)
