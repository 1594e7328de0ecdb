"""Presets: time and price on each size, and a run beside the rows that it should reproduce."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml
from trueup_controller.project import FOLDER, settings
from trueup_node.cases import Figure
from trueup_node.errors import BadInput

from . import price_list, shared_load
from .prices import standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date

    from trueup_controller.presets import Preset, Reference
    from trueup_node.cases import Case

# Units of catalog/reference_results.csv: the factor to the base unit.
_FACTORS: Final = dict(
    (
        *(("GFLOP/s", 1e9), ("TFLOP/s", 1e12), ("TFLOP/s/GPU", 1e12), ("PFLOP/s", 1e15)),
        *(("MB/s", 1e6), ("GB/s", 1e9), ("Gb/s", 1e9 / 8), ("s", 1.0), ("ms", 1e-3)),
        *(("tok/s", 1.0), ("ops/s", 1.0), ("ns/day", 1.0), ("users", 1.0)),
        ("%", 0.01),
    )
)
# A number, or the lowest and the highest of several.
_NUMBERS = re.compile(r"([0-9.]+)(?:-([0-9.]+))?")
REPRODUCED, BELOW = "reproduced", "below the published figure"
# Figures of all clients of shared storage together, which no record has.
_OF_CLIENTS: Final = tuple(f"rate_at_{latency * 1000:g}ms" for latency in shared_load.LATENCIES)


def families() -> list[dict[str, Any]]:
    """The VM families with their roles, benchmarks and presets (trueup_families)."""
    path = settings(FOLDER)
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))[
        "trueup_families"
    ]
    return found


def offered(
    presets: Mapping[str, Preset], prices: Sequence[Mapping[str, Any]], today: date
) -> list[dict[str, Any]]:
    """A row for each preset and size: preset, title, size, benchmarks, nodes, minutes, usd (of all
    nodes for these minutes, at the lowest list price), region, price_date, age_days, reproduces
    (how many published figures), source. A time or price that is not known is NaN."""
    rows = []
    for name, preset in presets.items():
        for size, minutes in preset.sizes.items():
            query = price_list.PriceQuery(size, offer="payg", os="linux")
            price = price_list.lowest(prices, query, today)
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
        not compared), at_least, verdict, configuration (the publication's) and source.

    Raises:
        BadInput: a published row has no number, or a unit that is not known.
    """
    return [_compared(pair) for pair in pairs(presets, published, cases)]


class Pair(NamedTuple):
    """A figure of a run with a preset, and the published row that it should reproduce.

    Attributes:
        published: the published figure in the base unit of the measured one.
    """

    preset: str
    reference: Reference
    row: Mapping[str, str]
    case: Case
    figure: Figure
    published: float


def pairs(
    presets: Mapping[str, Preset],
    published: Iterable[tuple[str, Mapping[str, str]]],
    cases: Iterable[Case],
) -> list[Pair]:
    """The same as pairs of figures. Arguments and errors are those of ``reproduced``."""
    rows = [row for _, row in published]
    measured = [case for case in cases if case.outcome == "ok" and _name(case) in presets]
    return [
        Pair(_name(case), reference, row, case, figure, _base(row, figure.direction))
        for case in [*measured, *_clients_together(measured)]
        for reference in presets[_name(case)].reference
        for row in _published_rows(rows, reference, case)
        for figure in case.typical(reference.metric, reference.statistic)
        if figure.message_bytes == reference.message_bytes and figure.device is None
    ]


def beside_nothing(
    presets: Mapping[str, Preset], cases: Iterable[Case], compared: Iterable[Mapping[str, Any]]
) -> list[str]:
    """A sentence on each preset of a run of which no record stands beside a published row, first on
    those whose publication has no figure.

    Args:
        presets: by name.
        cases: the records of a run.
        compared: rows of ``reproduced``.
    """
    outcomes: dict[str, list[str]] = {}
    for case in cases:
        outcomes.setdefault(_name(case), []).append(case.outcome)
    lacking = (outcomes.keys() & presets.keys()) - {row["preset"] for row in compared}
    names = [name for name in outcomes if name in lacking]
    names.sort(key=lambda name: not presets[name].unpublished)
    reasons = {
        name: f"{held.count('ok')} of its {len(held)} record(s) are ok, and no published row has"
        " their nodes, cores or GPUs, and settings"
        for name, held in outcomes.items()
    }
    return [
        f"{name} is compared with nothing: {presets[name].unpublished or reasons[name]}."
        for name in names
    ]


def _name(case: Case) -> str:
    """The preset of a record; empty without one."""
    return str(case.parameters.get("preset") or "")


def _clients_together(cases: Sequence[Case]) -> list[Case]:
    """The clients of shared storage as one case, with the I/O rates of all at stated latencies."""
    together = []
    clients = [case for case in cases if case.benchmark == "fio"]
    for row in shared_load.rows(clients)[0]:
        alike = [
            case
            for case in clients
            if case.run_id == row["run_id"]
            and case.parameters["filesystem_source"] == row["filesystem_source"]
            and case.parameters["workload"] == row["workload"]
        ]
        names = tuple(sorted({case.node for case in alike}))
        figures = [
            Figure(metric, row[metric], "1/s", "higher") for metric in _OF_CLIENTS if metric in row
        ]
        together.append(
            replace(
                alike[0],
                nodes=names,
                case=row["workload"],
                node_count=len(names),
                cores=None,
                figures=figures,
            )
        )
    return together


def _published_rows(
    rows: Sequence[Mapping[str, str]], reference: Reference, case: Case
) -> list[Mapping[str, str]]:
    """The published rows of as many nodes, and of as many GPUs or cores, as the case."""
    if case.benchmark != reference.benchmark or any(
        case.parameters.get(name) != value for name, value in reference.parameters.items()
    ):
        return []
    units_used = case.gpus or case.cores
    return [
        row
        for row in rows
        if reference.is_of(row)
        and (not reference.same_size or row["system"] == case.vm_size)
        and _covers(row["nodes"], case.node_count)
        and _covers(row["cores_or_gpus"], units_used)
    ]


def _covers(published: str, number: int | None) -> bool:
    """Whether a published number, or a range such as 2-32, has a number; none has all."""
    if not published:
        return True
    numbers = _NUMBERS.fullmatch(published)
    if numbers is None or number is None:
        return False
    lowest, highest = numbers.groups()
    return float(lowest) <= number <= float(highest or lowest)


def _compared(pair: Pair) -> dict[str, Any]:
    case, row = pair.case, pair.row
    return {
        "preset": pair.preset,
        "node": case.node,
        "case": case.case,
        "metric": pair.reference.metric,
        "nodes": case.node_count,
        "cores_or_gpus": case.gpus or case.cores,
        "published": pair.published,
        "own": pair.figure.value,
        "unit": pair.figure.unit,
        **verdict(pair),
        "configuration": row["configuration"],
        "source": row["source"],
    }


def verdict(pair: Pair) -> dict[str, Any]:
    """The share of the published performance, and whether a healthy run reaches it."""
    reference, parameters = pair.reference, pair.case.parameters
    scale = float(parameters.get("preset_scale", 1.0))
    changed = parameters.get("preset_changed")
    at_least = math.nan if reference.at_least is None else reference.at_least
    reasons = [
        *([f"not compared: {scale:g} of the work"] if scale < 1 else []),
        *([f"not compared: other {changed}"] if changed else []),
    ]
    if reasons:
        return {"share": math.nan, "at_least": at_least, "verdict": "; ".join(reasons)}
    published, measured = pair.published, pair.figure.value
    share = published / measured if pair.figure.direction == "lower" else measured / published
    if reference.unlike:
        sentence = f"beside only: {reference.unlike}"
    else:
        sentence = REPRODUCED if share >= at_least else BELOW
    return {"share": share, "at_least": at_least, "verdict": sentence}


def _base(row: Mapping[str, str], direction: str | None) -> float:
    """The published figure in base units; of a range its end that is easier to reach."""
    if row["unit"] not in _FACTORS:
        raise BadInput(f"reference_results.csv: unit {row['unit']!r} is not known")
    numbers = _NUMBERS.fullmatch(row["value"])
    if numbers is None:
        raise BadInput(f"reference_results.csv: {row['value']!r} is not a number")
    lowest, highest = numbers.groups()
    easier = highest if highest and direction == "lower" else lowest
    return float(easier) * _FACTORS[row["unit"]]
