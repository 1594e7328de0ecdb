"""Load sweeps of a server: the knee, the results of each load, and the rates of users and machine
with their price."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import units
from ..figures.serving import sweeps
from ..render.html import Figure, Part
from ..render.plots.curves import draw_lines
from ..render.plots.data import Line, LinesPlot
from ..sheets import serving as sheets

if TYPE_CHECKING:
    from ..figures.serving import Sweep
    from ..figures.terms import ServiceLevel
    from ..figures.tokens import TokenTable


def serving_parts(result: TokenTable | None, level: ServiceLevel | None) -> dict[str, list[Part]]:
    """A part for each sweep among the records, by benchmark."""
    parts: dict[str, list[Part]] = {}
    if result is None:
        return parts
    for number, item in enumerate(sweeps(result, level), 1):
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


def _exchange(item: Sweep, name: str) -> tuple[Figure, ...]:
    """The rate of a user against the rate of the machine, with each load's price beside it."""
    rows = [row for row in item.rows if row["tokens_per_user"] is not None]
    if len(rows) < 2:  # one place is no curve
        return ()
    priced = any(row["usd_per_million_output_tokens"] is not None for row in rows)
    line = Line(
        "each load" + (", US$ per million output tokens beside it" if priced else ""),
        tuple(row["tokens_per_user"] for row in rows),
        tuple(row["tokens_per_device"] for row in rows),
        notes=tuple(_told(row, item) for row in rows),
    )
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
    beside = " and its US$ per million output tokens" if priced else ""
    caption = f"Tokens a second per user against {of_all}; beside each place its load{beside}."
    return (Figure(name, f"{caption}{where}{money}", drawing),)


def _pair(row: dict[str, Any]) -> str:
    return (
        f"{row['tokens_per_user']:.3g} and {row['tokens_per_device']:.4g} at load {row['load']:g}"
    )


_usd = partial(units.significant, digits=3)


def _told(row: dict[str, Any], item: Sweep) -> str:
    """ "8: US$ 0.42", and which is the knee."""
    cost = row["usd_per_million_output_tokens"]
    words = f"{row['load']:g}" + ("" if cost is None else f": US$ {_usd(cost)}")
    return f"{words}, knee" if row["load"] == item.knee.load else words
