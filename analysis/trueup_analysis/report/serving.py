"""Load sweeps of a server: the knee, the results of each load, and the rates of users and machine
with their price."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import units
from ..figures.serving import sweeps
from ..render.html import Figure, Part
from ..render.plots.curves import draw_lines
from ..render.plots.data import Line, LinesPlot
from ..sheets import serving as sheets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..figures.serving import Sweep
    from ..figures.terms import ServiceLevel
    from ..figures.tokens import TokenTable


_COST: Final = "usd_per_million_output_tokens"
_USD: Final = "US$ per million output tokens"
# More curves than these, each with its US$, are told apart by nobody.
_SIZES: Final = 4


def serving_parts(result: TokenTable, level: ServiceLevel | None) -> dict[str, list[Part]]:
    """A part for each sweep among the records, by benchmark."""
    parts: dict[str, list[Part]] = {}
    every = sweeps(result, level)
    for number, alike in enumerate(_of_one_model(every), 1):
        benchmark = alike[0].benchmark
        parts.setdefault(benchmark, []).append(_sizes(alike, f"{benchmark}-sizes-{number}"))
    for number, item in enumerate(every, 1):
        sheet = sheets.sweep(item, result.idle_factor)
        findings = sheets.findings(item)
        # Beside the plot, and not again below the table.
        notes = [note for note in sheet.notes if note not in findings]
        parts.setdefault(item.benchmark, []).append(
            Part(
                title=sheet.title,
                paragraphs=findings,
                figures=_exchange(item, f"{item.benchmark}-sweep-{number}"),
                sheets=(replace(sheet, notes=notes),),
            )
        )
    return parts


def _of_one_model(every: Sequence[Sweep]) -> list[list[Sweep]]:
    """Sweeps of one model on several machines, of which each is a curve."""
    alike: dict[tuple[str, ...], list[Sweep]] = {}
    for item in every:
        if len(_rated(item)) > 1:
            key = (item.benchmark, item.model, item.over, item.device)
            alike.setdefault(key, []).append(item)
    return [each for each in alike.values() if len({item.where for item in each}) > 1]


def _sizes(alike: Sequence[Sweep], name: str) -> Part:
    """The curves of several machines over each other, their US$ at the right."""
    shown = alike[:_SIZES]
    device = shown[0].device
    plot = LinesPlot(
        "tokens/s per user",
        f"output tokens/s per {device}",
        tuple(_rates(item, item.where) for item in shown),
        "linear",
        "linear",
        right_label=_USD,
        right=_costs(shown),
    )
    unpriced = [item.where for item in shown if not _is_priced(item)]
    money = f" No US$: {', '.join(unpriced)} has no price." if unpriced else ""
    description = "; ".join(
        f"{item.where}: {_pair(rows[0])}, {_pair(rows[-1])}"
        for item in shown
        for rows in [_rated(item)]
    )
    caption = (
        f"{shown[0].model} on {len(shown)} machines: tokens a second per user against those per"
        f" {device}, and at the right {_USD} (dotted).{money}"
    )
    if len(alike) > len(shown):
        caption += f" {len(shown)} of {len(alike)} sweeps are drawn."
    drawing = draw_lines(plot, name=name, description=f"{caption} {description}.")
    return Part(title="Machines beside each other", figures=(Figure(name, caption, drawing),))


def _rated(item: Sweep) -> list[dict[str, Any]]:
    """The loads of which the rate of a user is known."""
    return [row for row in item.rows if row["tokens_per_user"] is not None]


def _is_priced(item: Sweep) -> bool:
    return any(row[_COST] is not None for row in _rated(item))


def _rates(item: Sweep, label: str) -> Line:
    rows = _rated(item)
    return Line(
        label,
        tuple(row["tokens_per_user"] for row in rows),
        tuple(row["tokens_per_device"] for row in rows),
    )


def _costs(each: Sequence[Sweep]) -> tuple[Line, ...]:
    """US$ over the rate of a user, a line for each sweep: an empty one where it has no price."""
    if not any(map(_is_priced, each)):
        return ()
    lines = []
    for item in each:
        rows = [row for row in _rated(item) if row[_COST] is not None]
        xs, ys = (tuple(row[name] for row in rows) for name in ("tokens_per_user", _COST))
        lines.append(Line(f"{item.where}, US$", xs, ys))
    return tuple(lines)


def _exchange(item: Sweep, name: str) -> tuple[Figure, ...]:
    """The rate of a user against the rate of the machine, with each load's price beside it."""
    rows = _rated(item)
    if len(rows) < 2:  # one place is no curve
        return ()
    priced = _is_priced(item)
    label = "each load" + (f", {_USD} beside it" if priced else "")
    line = _rates(item, label)._replace(notes=tuple(_told(row, item) for row in rows))
    of_all = f"output tokens/s per {item.device}"
    plot = LinesPlot("tokens/s per user", of_all, (line,), "linear", "linear")
    first, last = rows[0], rows[-1]
    where = "" if item.device == "GPU" else " The server runs on CPUs: per node."
    money = "" if priced else f" No US$: {item.where} has no price."
    drawing = draw_lines(
        plot,
        name=name,
        description="Tokens a second per user against those per"
        f" {item.device}: {_pair(first)}; {_pair(last)}.{money}",
    )
    beside = f" and its {_USD}" if priced else ""
    caption = f"Tokens a second per user against {of_all}; beside each place its load{beside}."
    return (Figure(name, f"{caption}{where}{money}", drawing),)


def _pair(row: dict[str, Any]) -> str:
    return (
        f"{row['tokens_per_user']:.3g} and {row['tokens_per_device']:.4g} at load {row['load']:g}"
    )


_usd = partial(units.significant, digits=3)


def _told(row: dict[str, Any], item: Sweep) -> str:
    """ "8: US$ 0.42", and which is the knee."""
    cost = row[_COST]
    words = f"{row['load']:g}" + ("" if cost is None else f": US$ {_usd(cost)}")
    return f"{words}, knee" if row["load"] == item.knee.load else words
