"""From readings of tools' outputs to sheets."""

from __future__ import annotations

import statistics
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.cases import TYPICAL, Figure
from trueup_node.health.verdicts import NODE_ORDER, worst
from trueup_node.quantity import Quantity

from .. import units
from ..rooms import headline
from .sheet import Column, Sheet, figure_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trueup_node.health.verdicts import Verdict

    from ..read import Reading

_STATISTICS: Final = ("median", "mean", "min", "max")
# Base unit -> displayed unit, beside units.DISPLAYED: for the times of messages.
_SHORT: Final = {"s": "us"}
_HEADING: Final = 9


def reading(item: Reading) -> Sheet:
    """One tool's output, row by row as records hold it."""
    columns = [Column(key, key, words=key != "value") for key in Figure._fields]
    columns.append(Column("unverified", "unverified", words=True))
    missing = "; ".join(item.unverified)
    rows = [{**figure._asdict(), "unverified": missing} for figure in item.figures]
    return _reading(item, columns, rows)


class Answer(NamedTuple):
    """The judgement on a reading.

    Attributes:
        size: the VM size that it is judged as; None where nobody says it.
        verdicts: on its figures, as that size; empty without one.
        plausible: of unverified figures, a sentence on what the size reaches.
        doubts: sentences on facts in the output that contradict the size or the number of nodes.
    """

    size: str | None = None
    verdicts: Sequence[Verdict] = ()
    plausible: str | None = None
    doubts: Sequence[str] = ()


_TONES: Final = {"pass": "good", "fail": "bad", "": ""}
_LIMITS: Final = {"at_least": "the floor is", "at_most": "the most is", "exactly": "expected is"}
VERDICTS_SHOWN: Final = 3


def reading_for_people(item: Reading, answer: Answer, *, all_rows: bool = False) -> Sheet:
    """The verdict and the headline, then the figures in the field's units: of a sweep a line a
    message size, unless all rows are asked for; else a line a figure."""
    sheet = _figures(item, all_rows=all_rows)
    word = _word(item, answer)
    return replace(
        sheet,
        title=f"{word.upper()}: {sheet.title}" if word else sheet.title,
        tone=_TONES.get(word, "doubtful"),
        lead=list(_lead(item, answer)),
    )


def _word(item: Reading, answer: Answer) -> str:
    """The verdict on a reading; empty where none is asked for and nothing is wrong."""
    if item.failed_checks():
        return "fail"
    if item.unverified:
        return "unverified"
    return worst({verdict.verdict for verdict in answer.verdicts}) if answer.verdicts else ""


def _lead(item: Reading, answer: Answer) -> Iterator[str]:
    """The headline, and the worst verdicts with what healthy nodes reach."""
    if bad := item.failed_checks():
        yield f"The tool's own check failed: {', '.join(bad)}."
    yield from (f"Contradiction: {text}." for text in answer.doubts)
    text = _headline(item, answer.size)
    if item.unverified:
        held = f": {answer.plausible}" if answer.plausible else ""
        yield from ([f"Unverified: {text[0].lower()}{text[1:]}"] if text else [])
        yield f"Unverified, so not judged{held}."
        return
    yield from ([text] if text else [])
    judged = [verdict for verdict in answer.verdicts if verdict.measured is not None]
    shown = sorted(judged or answer.verdicts, key=lambda verdict: NODE_ORDER.index(verdict.verdict))
    for verdict in shown[:VERDICTS_SHOWN]:
        yield _sentence(verdict)


def _headline(item: Reading, size: str | None) -> str:
    """The figure that stands for a reading; of a sweep its peak and its average."""
    figure = headline(item.as_case(size or ""))
    if figure is None:
        return ""
    metric, measure = figure.measure.metric, figure.measure
    sweep = [row for row in item.figures if row.name in (metric, f"{metric}_in_place")]
    sweep = [row for row in sweep if row.statistic in (None, "median", "single", "mean")]
    if len({row.message_bytes for row in sweep}) < 2 or measure.direction != "higher":
        text = figure_text(figure)
        return f"{text[0].upper()}{text[1:]}."
    peak = max(sweep, key=lambda row: row.value)
    average = statistics.fmean(row.value for row in sweep)
    unit = measure.shown
    return (
        f"{measure.label.capitalize()}: peak {units.in_unit(peak.value, unit)} {unit} at"
        f" {_size(peak.message_bytes)}, average {units.in_unit(average, unit)} {unit}"
        " over the rows below."
    )


def _sentence(verdict: Verdict) -> str:
    """A verdict in one sentence: the figure, its limit, and what healthy nodes reach."""
    begin = verdict.verdict.capitalize()
    if verdict.measured is None or verdict.unit is None:
        of = f"{verdict.what}: " if verdict.metric else ""
        return f"{begin}: {of}{verdict.reason}."
    unit = verdict.source_unit or verdict.unit

    def text(value: float) -> str:
        number = Quantity(value, str(verdict.unit)).to(unit).value
        return f"{units.measure(number)} {'' if unit == '1' else unit}".rstrip()

    at = "" if verdict.message_bytes is None else f" at {units.size_of(verdict.message_bytes)}"
    limit = _LIMITS.get(str(verdict.comparison), "expected is")
    expected = text(verdict.expected or 0.0)
    sentence = f"{begin}: {verdict.what}: {text(verdict.measured)}{at}; {limit} {expected}"
    if verdict.healthy is not None:
        share = units.percent(verdict.of_healthy)
        sentence += f", healthy nodes reach {text(verdict.healthy)} ({share})"
    return f"{sentence}."


def _figures(item: Reading, *, all_rows: bool) -> Sheet:
    sizes = {row.message_bytes for row in item.figures} - {None}
    if len(sizes) > 1 and not all_rows:
        return _sweep(item)
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in item.figures:
        line = lines.setdefault(
            (row.name, row.message_bytes, row.device),
            {
                "name": _words(row.name),
                "message_bytes": row.message_bytes,
                "device": row.device,
                "n": row.n,
                "mark": "unverified" if item.unverified else "",
                "unit": "" if row.unit == "1" else units.DISPLAYED.get(row.unit, row.unit),
            },
        )
        line[row.statistic or "single"] = units.measure(row.value, row.unit)
    held = {str(row.statistic) for row in item.figures}
    percentiles = sorted(held - {"None", *_STATISTICS, "single"}, key=lambda name: float(name[1:]))
    columns = [
        Column("name", "figure", words=True),
        Column("message_bytes", "message\nbytes", units.count),
        Column("device", "device", words=True),
        *(Column(key, key) for key in (*_STATISTICS, *percentiles)),
        Column("single", "value"),
        Column("unit", "unit", words=True),
        Column("n", "n", units.count),
        Column("mark", "checked", words=True),
    ]
    return _reading(item, columns, list(lines.values()))


def _sweep(item: Reading) -> Sheet:
    """A line a message size (and device); of repeats the median and the 99th percentile."""
    mark = "?" if item.unverified else ""
    columns = {
        "device": Column("device", "device", words=True),
        "message_bytes": Column("message_bytes", "message", _size),
    }
    counts = {"device"}
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    typical = _typical(item)
    for row in item.figures:
        name, kind = row.name, row.statistic
        if kind not in {typical[name], "p99"}:
            continue
        shown_unit = _SHORT.get(row.unit, units.DISPLAYED.get(row.unit, row.unit))
        key = name if kind == typical[name] else f"{name} {kind}"
        columns.setdefault(
            key, Column(key, _heading(_words(key), "" if shown_unit == "1" else shown_unit))
        )
        counts |= {key} if shown_unit == "1" else set()
        position = row.device, row.message_bytes
        line = lines.setdefault(
            position, dict(zip(("device", "message_bytes"), position, strict=True))
        )
        line[key] = units.in_unit(row.value, shown_unit) + mark
    rows = list(lines.values())
    # A count that is the same in all rows, such as that of wrong values, is said once.
    same = {key: rows[0].get(key) for key in counts if len({row.get(key) for row in rows}) == 1}
    same_texts = [f"{_words(key)} {same[key]}" for key in columns if same.get(key) is not None]
    varying = [column for key, column in columns.items() if key not in same]
    return _reading(item, varying, rows, same_texts)


def _size(message_bytes: int | None) -> str:
    return units.UNKNOWN if message_bytes is None else units.size_of(message_bytes)


def _typical(item: Reading) -> dict[str, str | None]:
    """The statistic that stands for each figure."""
    kinds: dict[str, list[str | None]] = {}
    for row in item.figures:
        kinds.setdefault(row.name, []).append(row.statistic)
    return {
        name: next((kind for kind in TYPICAL if kind in held), held[0])
        for name, held in kinds.items()
    }


def _words(name: str) -> str:
    return name.replace("_", " ")


def _heading(words: str, unit: str) -> str:
    """A narrow heading, the unit in its last line."""
    lines = words.replace(" in place", "\nin place").replace(" p99", "\np99").split("\n")
    first, *rest = (line for chunk in lines for line in _broken(chunk))
    return "\n".join(filter(None, [first, *rest, unit]))


def _broken(words: str) -> list[str]:
    """Words in lines of at most ``_HEADING`` characters, or of one word."""
    return textwrap.wrap(words, _HEADING, break_long_words=False)


def _reading(
    item: Reading, columns: list[Column], rows: list[dict[str, Any]], same: Sequence[str] = ()
) -> Sheet:
    """The sheet; ``same`` are the values that all rows share."""
    checks = ", ".join(
        f"{name} {'passed' if passed else 'FAILED'}" for name, passed in item.checks.items()
    )
    parameters = ", ".join(
        f"{_words(name)} {value}"
        for name, value in item.parameters.items()
        if value not in {"unknown", "none"}
    )
    return Sheet(
        title=f"{item.title}: {item.tool} {item.tool_version or ''}".rstrip(),
        columns=columns,
        rows=rows,
        notes=[
            *([f"In all rows: {', '.join(same)}."] if same else []),
            *([f"Found: {parameters}."] if parameters else []),
            *([f"Checks: {checks}."] if checks else []),
            *(f"Unverified: {missing}." for missing in item.unverified),
        ],
        warnings=item.warnings,
        facts={"kind": "reading", "tool": item.tool, "tool_version": item.tool_version},
    )
