"""From records to the sheets of `trueup list`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from .. import units
from ..cases import read_cases
from ..figures.views import headline, views
from .sheet import Column, Sheet, short_size, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..cases import Case
    from ..figures.health.expectations import Expectations
    from ..figures.views import Headline
    from ..load import Loaded

_NODES_SHOWN: Final = 2
_ALSO_LISTED: Final = (
    *("run_id", "region", "offer", "node_count", "ranks", "threads_per_rank", "gpus"),
    *("started_at", "duration_seconds", "name", "value", "unit", "message_bytes", "device"),
    *("command", "source", "raw_path", "provenance"),
)


def cases(loaded: Loaded, expectations: Expectations | None = None) -> list[Sheet]:
    """Every record, a table for each run."""
    runs: dict[str, list[Case]] = {}
    for case in read_cases(loaded, metrics=_metrics(loaded)):
        runs.setdefault(case.run_id, []).append(case)
    manifests = {str(run.get("run_id")): run for run in loaded.runs}
    return [
        records(group, _run_title(run_id, group, manifests.get(run_id)), expectations, run_id)
        for run_id, group in runs.items()
    ]


def _metrics(loaded: Loaded) -> set[str] | None:
    """The figures that a headline may be made of; all of them where a record has no view."""
    if set(loaded.values("benchmark")) - set(views()):
        return None
    return {one.metric for view in views().values() for one in view.headlines}


def records(
    found: Sequence[Case], title: str, expectations: Expectations | None, run_id: str
) -> Sheet:
    """Records as one table, each with the figure that stands for it."""
    return Sheet(
        title=title,
        columns=[
            *worded("benchmark", "case", "outcome"),
            Column("nodes"),
            Column("shown_nodes", "nodes", words=True, data=False),
            Column("vm_size", "size\n(Standard_)", short_size, words=True),
            Column("cores", "cores", units.count),
            Column("figure", "headline figure", words=True, data=False),
            Column("reason", "reason", words=True),
            *unshown(*_ALSO_LISTED),
        ],
        rows=[_row(case, headline(case, expectations)) for case in found],
        facts={"kind": "cases", "run_id": run_id},
        marks="mark",
        name=f"list-{run_id}",
    )


def _row(case: Case, found: Headline | None) -> dict[str, Any]:
    nodes = case.nodes
    few = len(nodes) <= _NODES_SHOWN
    row = {
        **vars(case),
        "nodes": case.node,
        "shown_nodes": case.node if few else f"{nodes[0]} and {len(nodes) - 1} more",
        "threads_per_rank": case.threads,
        "duration_seconds": case.duration,
        "command": " ".join(case.command) or None,
        "mark": "" if case.outcome == "ok" else "bad",
    }
    if found is None:
        return row
    measure = found.measure
    head = {"figure": figure_text(found), "name": measure.metric, "unit": measure.unit}
    return row | vars(found) | head


def figure_text(found: Headline) -> str:
    """ "bus bandwidth 308.00 GB/s at 1 GiB, below the judged size (16 GiB)"."""
    measure = found.measure
    shown = measure.shown or units.DISPLAYED.get(measure.unit, "")
    unit = "" if shown == "1" else shown
    value = units.in_unit(found.value, shown)
    return f"{measure.label} {value} {unit}".rstrip() + place_text(found)


def place_text(found: Headline) -> str:
    """Where a figure was measured: " at 16 GiB", ", gpu3, slowest of 8"; "" for the whole case."""
    words = "" if found.message_bytes is None else f" at {units.size_of(found.message_bytes)}"
    if found.judged_bytes is not None:
        words += f", below the judged size ({units.size_of(found.judged_bytes)})"
    if found.device is not None:
        words += f", {found.device}"
        worst = "slowest" if found.measure.unit != "1" else "worst"
        words += f", {worst} of {found.devices}" if found.devices > 1 else ""
    return words


def _run_title(run_id: str, group: Sequence[Case], manifest: dict[str, Any] | None) -> str:
    counts = Counter(case.outcome for case in group)
    said = ", ".join(
        f"{counts[name]} {name}" for name in ("ok", "failed", "invalid") if counts[name]
    )
    state = ""
    if manifest is not None and manifest.get("finished_at") is None:
        state = "; the run has not finished"
    return f"{'Published' if run_id == 'published' else 'Run ' + run_id}: {said}{state}"


def excluded(loaded: Loaded) -> list[Sheet]:
    """What could not be read, if anything."""
    if not loaded.excluded:
        return []
    return [
        Sheet(
            title=f"Not read: {len(loaded.excluded)}",
            columns=[Column("path", "file", words=True), Column("reason", "reason", words=True)],
            rows=[{"path": item.path, "reason": item.reason} for item in loaded.excluded],
            facts={"kind": "excluded"},
            name="left-out",
        )
    ]
