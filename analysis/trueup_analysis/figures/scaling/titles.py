"""Titles of series."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ... import units
from ..frames import HOW, first
from .points import host_family

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from .split import Raw

# Parameters that every title names where a record has them.
_ALWAYS = frozenset({"model", "configuration"})


def told_apart_titles(raw_series: Sequence[Raw]) -> list[str]:
    """A title each; where two of one kind would be the same, with their differences."""
    titles = [_title(raw) for raw in raw_series]
    alike: dict[tuple[str, str, str], list[int]] = {}
    for index, (raw, title) in enumerate(zip(raw_series, titles, strict=True)):
        alike.setdefault((raw.kind, raw.over, title), []).append(index)
    for places in alike.values():
        if len(places) < 2:
            continue
        about = [_about(raw_series[index]) for index in places]
        names = dict.fromkeys(name for each in about for name in each)
        differing = [name for name in names if len({each.get(name) for each in about}) > 1]
        words = [_words(each, differing) for each in about]
        for number, (index, text) in enumerate(zip(places, words, strict=True), 1):
            suffix = text if words.count(text) == 1 else f"{text} number {number}".strip()
            titles[index] += f", {suffix}"
    return titles


def _words(about: Mapping[str, str], names: Sequence[str]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {about.get(name) or 'not said'}" for name in names)


def _title(raw: Raw) -> str:
    parameters, benchmark = raw.first, raw.benchmark
    words = [benchmark if "model" not in parameters else f"{benchmark} {parameters['model']}"]
    view, titled = raw.view, dict(raw.view.titled)
    words += _apart(raw)
    words += [raw.measure.label] if len(raw.view.headlines) > 1 else []
    if raw.message_bytes is not None:
        words[-1] += f" at {units.size_of(raw.message_bytes)}"
    if "configuration" in parameters:
        words.append(str(parameters["configuration"]))
    words += [
        text.format(_plain(parameters[name]))
        for name, text in titled.items()
        if name in parameters and not (raw.kind == "weak" and name in view.grows)
    ]
    words.append(_machine(raw.points))
    version = first(raw.points, "software").get(benchmark)
    if version:
        words.append(f"{benchmark} {version}")
    # A publication's case may be named after its profile.
    return ", ".join(dict.fromkeys(words))


def _apart(raw: Raw) -> list[str]:
    """The words by which the view tells problems apart: "all_reduce", "gdr" where that is on."""
    excluded = HOW.union(_ALWAYS, dict(raw.view.titled), raw.view.spread)
    values = {name: raw.first.get(name) for name in raw.view.apart if name not in excluded}
    return [
        f"{name} {value}" if value == "yes" else value
        for name, value in values.items()
        if isinstance(value, str) and value not in {"", "no", "none", "off"}
    ]


def _machine(records: pd.DataFrame) -> str:
    sizes = records["vm_size"].dropna().unique().tolist()
    if len(sizes) == 1:
        return str(sizes[0])
    if len(sizes) > 1:
        return f"{host_family(sizes[-1])} and its constrained sizes"
    return str(first(records, "system").get("cpu_model") or first(records, "nodes"))


def _about(raw: Raw) -> dict[str, str]:
    """The properties that may tell a series from another of the same title."""
    records, view = raw.points, raw.view
    names = [*view.apart, *sorted(view.grows)]
    untold = HOW.union(view.spread, view.grows if raw.kind == "weak" else ())
    traits = {
        name: _plain(raw.first[name]) for name in names if name in raw.first and name not in untold
    }
    if not raw.view.apart:
        traits |= {
            name: _plain(value)
            for name, value in sorted(raw.first.items())
            if name not in HOW.union(view.spread)
        }
    each = float(records["points_each"].iloc[0])
    if raw.kind == "weak":
        traits["points of each core"] = units.UNKNOWN if math.isnan(each) else f"{each:,.0f}"
    traits["CPU"] = units.text(first(records, "system").get("cpu_model"))
    traits["source"] = str(first(records, "provenance"))
    return traits


def _plain(value: Any) -> str:
    """200.0 as "200"."""
    return f"{value:.6g}" if isinstance(value, float) else units.text(value)
