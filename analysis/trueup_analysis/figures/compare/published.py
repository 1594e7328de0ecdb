"""A run beside the published rows that its presets should reproduce.

A published row is one value: nothing says how much it varies, so there is no interval. The verdict
is that of the preset, which names the share of the published performance that a healthy run
reaches.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from trueup_controller.presets import names, read_all
from trueup_node.errors import BadInput

from ... import catalog
from ...units import plural
from .. import presets
from .changes import NOT_JUDGED, UNCHANGED, WORSE, Change, Comparison, Shift, Shifts
from .measured import FigureKey, Keys, Place, work_of
from .sides import Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trueup_controller.presets import Preset

PUBLISHED: Final = "published"
HOW: Final = (
    "A published row is one value: how much it varies is not known, so there is no interval. Worse"
    " is a run below the share of the published performance that its preset asks of a healthy run."
    " Not judged: less or other work, or a row that only stands beside it (`trueup reference`)."
)
_ORDER: Final = (WORSE, NOT_JUDGED, UNCHANGED)


def is_published(name: str) -> bool:
    """Whether the name of a side means published rows: ``published`` or a preset, and no path."""
    return not Path(name).exists() and (name == PUBLISHED or name in names(catalog.folder()))


def beside_published(name: str, side: Side) -> Comparison:
    """The published rows of a side's presets, and its own figures after them.

    Args:
        name: ``published``, or the one preset that counts.

    Raises:
        BadInput: no record of the side has a preset with a row.
    """
    every = read_all(catalog.folder())
    offered = every if name == PUBLISHED else {name: every[name]}
    rows = list(catalog.rows(catalog.find("reference_results.csv")))
    by_figure: dict[tuple[FigureKey, str, float], list[presets.Pair]] = {}
    for pair in presets.pairs(offered, rows, side.cases):
        work = work_of(pair.case, (), one_machine=True)
        figure = pair.figure
        key = FigureKey(
            work, figure.name, figure.unit, figure.direction or "", figure.message_bytes
        )
        row = f"{pair.row['source']}, {pair.row['configuration']}"
        by_figure.setdefault((key, row, pair.published), []).append(pair)
    if not by_figure:
        raise BadInput(_nothing(side, name, offered))
    changes = [_change(key[0], pairs) for key, pairs in by_figure.items()]
    changes.sort(key=lambda change: _ORDER.index(change.verdict))
    other = Side(_named(row for _, row, _ in by_figure), ())
    return Comparison(
        other,
        side,
        changes,
        failures=[],
        missing=[],
        at_least=0.0,
        counts=Counter(change.verdict for change in changes),
        how=HOW,
    )


def _change(key: FigureKey, pairs: Sequence[presets.Pair]) -> Change:
    """A figure beside one published row; several records of a node count by their median."""
    by_node: dict[str, list[float]] = {}
    for pair in pairs:
        by_node.setdefault(pair.case.node, []).append(pair.figure.value)
    published, shifts = pairs[0].published, []
    for node, values in by_node.items():
        own = median(values)
        ratio = math.log(own / published) if own > 0 else -math.inf
        shifts.append(Shift(Place(node, None), published, own, ratio, None))
    verdicts = {pair.case.node: presets.verdict(pair)["verdict"] for pair in pairs}
    below = tuple(shift for shift in shifts if verdicts[shift.place.node] == presets.BELOW)
    is_judged = all(each in {presets.BELOW, presets.REPRODUCED} for each in verdicts.values())
    return Change(
        key,
        published,
        median(shift.after for shift in shifts),
        estimate=None,
        nodes=tuple(by_node),
        paired=True,
        shifts=Shifts.of(shifts, Keys()),
        verdict=WORSE if below else UNCHANGED if is_judged else NOT_JUDGED,
        worse=below,
        is_published=True,
    )


def _named(rows: Iterable[str]) -> str:
    """The published rows as a side: the only one by its configuration."""
    texts = list(dict.fromkeys(rows))
    return texts[0] if len(texts) == 1 else plural(len(texts), "published row")


def _nothing(side: Side, name: str, offered: Mapping[str, Preset]) -> str:
    used = {str(case.parameters.get("preset") or "") for case in side.cases}
    if used.isdisjoint(offered):
        asked = "a preset" if name == PUBLISHED else f"the preset {name}"
        return (
            f"no record of {side.name} was measured with {asked}, so none has the work of a"
            " published row: measure with `-e trueup_preset=NAME` (`trueup presets` lists them)"
        )
    return " ".join(presets.beside_nothing(offered, side.cases, [])).rstrip(".")
