"""The names of figures for people, with what tells their work from others."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...rooms import names_of, view_of
from ...units import plural, size_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .measured import FigureKey, Work


class Titles:
    """The names of some figures.

    Args:
        figures: all that are named beside each other.
    """

    def __init__(self, figures: Iterable[FigureKey]) -> None:
        self._differing = _differing({figure.work for figure in figures})

    def of(self, figure: FigureKey) -> str:
        """ "NCCL bus bandwidth at 16 GiB, operation all_reduce": with the properties in which the
        works of its benchmark differ."""
        work = figure.work
        differing = self._differing[work.benchmark]
        apart = [f"{name} {value}" for name, value in work.apart if name in differing]
        apart += [work.layout] if "layout" in differing and work.layout else []
        apart += [plural(work.node_count or 0, "node")] if "nodes" in differing else []
        apart += [work.case] if "case" in differing else []
        size = "" if figure.message_bytes is None else f" at {size_of(figure.message_bytes)}"
        return ", ".join([f"{names_of(work.benchmark)} {_label(figure)}{size}", *apart])


def _label(figure: FigureKey) -> str:
    view = view_of(figure.work.benchmark)
    measures = () if view is None else (*view.headlines, *view.figures)
    labels = [measure.label for measure in measures if measure.metric == figure.metric]
    return labels[0] if labels else figure.metric.replace("_", " ")


def _differing(works: Iterable[Work]) -> dict[str, set[str]]:
    """The properties in which the works of a benchmark differ; their names where no other does."""
    works = set(works)
    held: dict[str, dict[str, set[object]]] = {}
    for work in works:
        properties = held.setdefault(work.benchmark, {})
        layout = {"layout": work.layout, "nodes": work.node_count}
        for name, value in {**dict(work.apart), **layout}.items():
            properties.setdefault(name, set()).add(value)
    differing = {
        benchmark: {name for name, values in properties.items() if len(values) > 1}
        for benchmark, properties in held.items()
    }
    alike = Counter(work._replace(case="") for work in works)
    for work, count in alike.items():
        differing[work.benchmark] |= {"case"} if count > 1 else set()
    return differing
