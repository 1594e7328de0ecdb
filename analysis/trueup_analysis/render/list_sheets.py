"""From records to the sheets of `trueup list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trueup_analysis.scaling import JUDGED

from . import units
from .sheet import Column, Sheet, rows_of, short_size

if TYPE_CHECKING:
    import pandas as pd

    from trueup_analysis.load import Loaded

__all__ = ["cases", "excluded"]

_LISTED = ("benchmark", "case", "outcome", "nodes", "vm_size", "cores", "reason")
_ALSO_LISTED = (
    *("run_id", "region", "offer", "node_count", "ranks", "threads_per_rank", "gpus"),
    *("started_at", "duration_seconds", "name", "value", "unit", "source", "raw_path"),
    "provenance",
)


def cases(loaded: Loaded) -> list[Sheet]:
    """Every record, a table for each run."""
    head = _headline_figures(loaded)
    manifests = {str(run.get("run_id")): run for run in loaded.runs}
    sheets = []
    for run_id, group in loaded.cases.groupby("run_id", sort=False):
        frame = group.merge(
            head, left_on="record", right_index=True, how="left", validate="one_to_one"
        )
        rows = rows_of(frame, (*_LISTED, *_ALSO_LISTED))
        for row in rows:
            row["figure"] = _figure(row["name"], row["value"], row["unit"])
        sheets.append(
            Sheet(
                title=_run_title(str(run_id), group, manifests.get(str(run_id))),
                columns=[
                    Column("benchmark", "benchmark", words=True),
                    Column("case", "case", words=True),
                    Column("outcome", "outcome", words=True),
                    Column("nodes", "nodes", words=True),
                    Column("vm_size", "size\n(Standard_)", short_size, words=True),
                    Column("cores", "cores", units.count),
                    Column("figure", "headline figure", data=False),
                    Column("reason", "reason", words=True),
                    *(Column(name) for name in _ALSO_LISTED),
                ],
                rows=rows,
                facts={"kind": "cases", "run_id": str(run_id)},
            )
        )
    return sheets


def _headline_figures(loaded: Loaded) -> pd.DataFrame:
    """The figure that stands for each record, indexed by record: the one that its benchmark is
    judged by, else its first that has a direction.
    """
    head = loaded.metrics[loaded.metrics["direction"].isin(["higher", "lower"])]
    head = head[head["statistic"].isna() | head["statistic"].isin(["median", "single"])]
    benchmark = head["record"].map(loaded.cases.set_index("record")["benchmark"])
    wanted = benchmark.map({name: metric for name, (metric, _, _) in JUDGED.items()})
    first = (head["name"].astype(object) != wanted).rename("other")
    head = head.assign(other=first).sort_values(["record", "other"], kind="stable")
    return head.drop(columns="other").drop_duplicates("record").set_index("record")


def _run_title(run_id: str, group: pd.DataFrame, manifest: dict[str, Any] | None) -> str:
    counts = group["outcome"].value_counts()
    said = ", ".join(
        f"{counts[name]} {name}" for name in ("ok", "failed", "invalid") if name in counts
    )
    state = ""
    if manifest is not None and manifest.get("finished_at") is None:
        state = "; the run has not finished"
    return f"{'Published' if run_id == 'published' else 'Run ' + run_id}: {said}{state}"


def _figure(name: str | None, value: float | None, unit: str | None) -> str:
    if name is None or value is None:
        return units.UNKNOWN
    word = name.replace("_", " ")
    unit = unit or "1"
    shown = units.DISPLAYED.get(unit, "" if unit == "1" else unit)
    return f"{word} {units.measure(value, unit)} {shown}".rstrip()


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
        )
    ]
