"""From scaling series to sheets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from .. import units
from ..figures.scaling.findings import Row
from ..figures.scaling.split import axis
from ..figures.scaling.tables import capital
from ..rooms import view_of
from .sheet import Column, Sheet, flops, short_size, three, two, unshown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..figures.fits import Fit
    from ..figures.scaling.tables import Series


def scaling(series: Series, *, layouts: bool = True) -> Sheet:
    """One scaling table, with the results of its fits below it.

    Args:
        layouts: whether a table over nodes has the slower layouts too; those within a node always
            stand there.
    """
    unit_name = units.in_words(series.unit)
    listed = series.rows if layouts or series.over != "nodes" else series.best
    hidden = len(series.rows) - len(listed)
    names = {
        **{name: f"{name}_{unit_name}" for name in ("median", "min", "max")},
        "flop_rate": "flop_per_second",
        "point_rate": "points_per_second",
        "work": "work_flop",
    }
    rows: list[dict[str, Any]] = [
        {names.get(name, name): getattr(row, name) for name in Row.__slots__} for row in listed
    ]
    several = not all(row["best"] for row in rows)
    fastest = max(row["speedup"] for row in rows)
    for row in rows:
        row["wins"] = "*" if row["best"] and several else ""
        row["mark"] = "best" if row["speedup"] == fastest else ""
    fits = [fit for fit in (series.amdahl, series.usl) if fit is not None]
    kind = capital(series.label) if series.flat else f"{series.kind.capitalize()} scaling"
    return Sheet(
        title=(
            f"{kind} over {axis(series.over)}, baseline"
            f" {units.plural(series.baseline, axis(series.over, 1))}: {series.title}"
        ),
        name=f"scaling-{series.benchmark}",
        marks="mark",
        columns=_columns(series, unit_name),
        rows=rows,
        notes=[*_notes(series, fits, several=several, hidden=hidden), *series.notes],
        warnings=series.warnings,
        faint="best",
        facts={
            "kind": series.kind,
            "benchmark": series.benchmark,
            "over": series.over,
            "metric": series.metric,
            "baseline": series.baseline,
            "provenance": series.provenance,
            "stops_paying": series.stops_paying,
            "fits": [_fit_facts(fit) for fit in fits],
        },
    )


def _columns(series: Series, unit_name: str) -> list[Column]:
    """The columns; ``unit_name`` ends the names of the measured ones."""
    show = partial(units.in_unit, unit=series.shown)
    view = view_of(series.benchmark)
    uses_gpus = (
        view is not None and view.resource == "gpus" and any(row.gpus for row in series.rows)
    )
    on_gpus = series.over == "gpus" or uses_gpus
    return [
        Column("resource"),
        *([Column("node_count", "nodes", units.count)] if series.over == "nodes" else []),
        *([Column("gpus", "GPUs", units.count)] if on_gpus else []),
        Column("cores", None if on_gpus else "cores", units.count),
        *([] if series.over == "nodes" else [Column("node_count")]),
        # One size for all stands in the title.
        Column("vm_size", None if series.vm_size else "size\n(Standard_)", short_size, words=True),
        Column("layout", "layout", words=True),
        Column("wins", "wins", words=True, data=False),
        *unshown("best", "baseline"),
        Column("n", "n", units.count),
        Column("records"),
        Column(f"median_{unit_name}", f"median\n{series.shown}", show),
        Column(f"min_{unit_name}", f"min\n{series.shown}", show),
        Column(f"max_{unit_name}", f"max\n{series.shown}", show),
        Column("speedup", "speed-\nup", two),
        Column("efficiency", "parallel\neffic.", three),
        Column("serial_fraction", "serial\nfraction", three),
        Column("flop_per_second", "GFLOP/s", flops),
        Column("points_per_second", "GPts/s", partial(units.measure, unit="point/s")),
        Column("roofline_fraction", "of\nroofline", units.percent),
        Column("halo_share", "in halo\nexchange", units.percent),
        Column("work_flop"),
        Column("published_speedup", "published\nspeed-up", two),
    ]


def _notes(series: Series, fits: Sequence[Fit], *, several: bool, hidden: int) -> list[str]:
    """Notes below the table: where adding resources stops paying, the fits, the layouts."""
    over = axis(series.over)
    notes = [series.stops_paying] if series.stops_paying else []
    notes += [fit_line(fit, over) for fit in fits]
    if several:
        notes.append("Where several layouts ran on the same resource, the one marked * counts.")
    if hidden:
        notes.append(
            f"The fastest layout of each count of {over} stands here; trueup scaling --layouts"
            f" shows {units.plural(hidden, 'slower row')} more."
        )
    return notes


def fit_line(fit: Fit, over: str) -> str:
    """The result of a fit, in one sentence."""
    words = {
        "sigma": "serial fraction" if fit.law == "Amdahl" else "contention",
        "kappa": "coherency",
    }
    values = ", ".join(
        f"{words[name]} {units.significant(value, 3)}"
        + (" (at its bound)" if units.is_missing(error) else f" +- {units.significant(error, 2)}")
        for name, (value, error) in fit.parameters.items()
    )
    peak = f"; fastest at about {fit.peak:.0f} {over}" if fit.peak is not None else ""
    name = fit.law[0].upper() + fit.law[1:]
    error = units.significant(fit.residual, 2)
    return f"{name}: {values} (error of the speed-up {error} rms, {fit.points} points){peak}."


def _fit_facts(fit: Fit) -> dict[str, Any]:
    return {
        "law": fit.law,
        "parameters": {
            name: {"value": _fitted(value), "standard_error": _fitted(error)}
            for name, (value, error) in fit.parameters.items()
        },
        "rms_error": _fitted(fit.residual),
        "points": fit.points,
        "peak": _fitted(fit.peak),
    }


def _fitted(value: float | None) -> float | None:
    """Six digits: a search for the least error ends where the next digits are chance."""
    return None if units.is_missing(value) else float(f"{value:.5e}")
