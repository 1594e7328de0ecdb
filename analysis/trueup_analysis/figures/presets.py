"""Presets: time and price on each size, and a run beside the rows that it should reproduce."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from trueup.errors import BadInput

from . import price_list
from .prices import standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date

    from trueup.cases import Case
    from trueup_controller.presets import Preset, Reference

# Units of catalog/reference_results.csv: the factor to the base unit.
_FACTORS: Final = dict(
    (
        *(("GFLOP/s", 1e9), ("TFLOP/s", 1e12), ("TFLOP/s/GPU", 1e12), ("PFLOP/s", 1e15)),
        *(("MB/s", 1e6), ("GB/s", 1e9), ("Gb/s", 1e9 / 8), ("s", 1.0), ("ms", 1e-3)),
        *(("tok/s", 1.0), ("ops/s", 1.0), ("ns/day", 1.0), ("users", 1.0)),
    )
)


def offered(
    presets: Mapping[str, Preset], prices: Sequence[Mapping[str, Any]], today: date
) -> list[dict[str, Any]]:
    """A row for each preset and size: preset, title, size, benchmarks, nodes, minutes, usd (of all
    nodes for these minutes, at the lowest list price), region, price_date, age_days, reproduces
    (how many published figures), source. A time or price that is not known is NaN."""
    rows = []
    for name, preset in presets.items():
        for size, minutes in preset.sizes.items():
            wanted = price_list.Wanted(size, offer="payg", os="linux")
            price = price_list.lowest(prices, wanted, today)
            as_of = price.get("as_of_date", "")
            usd_per_hour = float(price.get("usd_per_hour", math.nan))
            taken = math.nan if minutes is None else minutes
            rows.append(
                {
                    "preset": name,
                    "title": preset.title,
                    "size": size,
                    "benchmarks": ", ".join(preset.benchmarks),
                    "nodes": max(preset.nodes),
                    "minutes": taken,
                    "usd": taken / 60 * usd_per_hour * max(preset.nodes),
                    "region": price.get("region", ""),
                    "price_date": as_of,
                    "age_days": standing(as_of, "", today).age_days,
                    "source": preset.source,
                }
            )
    return rows


def reproduced(
    presets: Mapping[str, Preset],
    published: Iterable[tuple[str, Mapping[str, str]]],
    cases: Iterable[Case],
) -> list[dict[str, Any]]:
    """Each figure of a run with a preset beside the published row that it should reproduce.

    Args:
        presets: by name.
        published: rows of catalog/reference_results.csv with their place.
        cases: the records of a run.

    Returns:
        Rows with preset, node, case, metric, nodes, cores_or_gpus, published and own (base units),
        unit, share (own performance of the published one, above 1 is better; NaN where the two are
        not compared), at_least, verdict and source.

    Raises:
        BadInput: a published row has no number, or a unit that is not known.
    """
    rows = [row for _, row in published]
    found = []
    for case in cases:
        name = case.parameters.get("preset")
        preset = presets.get(str(name)) if name else None
        if preset is None or case.outcome != "ok":
            continue
        for reference in preset.reference:
            row = _published_row(rows, reference, case)
            if row is not None:
                found += _compared(str(name), reference, row, case)
    return found


def _published_row(
    rows: Sequence[Mapping[str, str]], reference: Reference, case: Case
) -> Mapping[str, str] | None:
    """The published row of as many nodes, and of as many GPUs or cores, as the case."""
    if case.benchmark != reference.benchmark or any(
        case.parameters.get(name) != value for name, value in reference.parameters.items()
    ):
        return None
    units_used = str(case.gpus or case.cores or "")
    for row in rows:
        named = all(row[column] == value for column, value in reference.published.items())
        if named and row["nodes"] == str(case.node_count) and row["cores_or_gpus"] == units_used:
            return row
    return None


def _compared(
    name: str, reference: Reference, row: Mapping[str, str], case: Case
) -> list[dict[str, Any]]:
    figures = [
        figure
        for figure in case.typical(reference.metric, reference.statistic)
        if figure.message_bytes == reference.message_bytes and figure.device is None
    ]
    published = _base(row)
    return [
        {
            "preset": name,
            "node": case.node,
            "case": case.case,
            "metric": reference.metric,
            "nodes": case.node_count,
            "cores_or_gpus": case.gpus or case.cores,
            "published": published,
            "own": figure.value,
            "unit": figure.unit,
            **_verdict(reference, published, figure.value, figure.direction, case),
            "source": row["source"],
        }
        for figure in figures
    ]


def _verdict(
    reference: Reference, published: float, own: float, direction: str | None, case: Case
) -> dict[str, Any]:
    """The share of the published performance, and whether a healthy run reaches it."""
    scale = float(case.parameters.get("preset_scale", 1.0))
    changed = case.parameters.get("preset_changed")
    reasons = [
        *([f"not compared: {scale:g} of the work"] if scale < 1 else []),
        *([f"not compared: other {changed}"] if changed else []),
    ]
    if reasons:
        return {"share": math.nan, "at_least": reference.at_least, "verdict": "; ".join(reasons)}
    share = published / own if direction == "lower" else own / published
    verdict = "reproduced" if share >= reference.at_least else "below the published figure"
    return {"share": share, "at_least": reference.at_least, "verdict": verdict}


def _base(row: Mapping[str, str]) -> float:
    if row["unit"] not in _FACTORS:
        raise BadInput(f"reference_results.csv: unit {row['unit']!r} is not known")
    try:
        return float(row["value"]) * _FACTORS[row["unit"]]
    except ValueError as error:
        raise BadInput(f"reference_results.csv: {row['value']!r} is not a number") from error
