"""From published results of others to sheets."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from .. import units
from .sheet import Column, Sheet, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from ..figures.evidence.readers.reading import Reading
    from ..figures.evidence.rows import Result, Row


def sources(results: Sequence[Result], today: date) -> Sheet:
    """The evidence by kind and source: how much there is, and how old."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for result in results:
        groups.setdefault((result.row.kind, result.row.source), []).append(result.row)
    rows = [_group(kind, source, some, today) for (kind, source), some in sorted(groups.items())]
    return Sheet(
        title="Published results of others, by kind and source",
        columns=[
            *worded("kind", "source"),
            Column("results", "results", units.count),
            Column("publishers", "publishers", units.count),
            Column("models", "models", units.count),
            Column("hardware", "hardware", words=True),
            Column("newest", "newest"),
            Column("age_days", "age\ndays", units.count),
            *unshown("oldest", "repositories"),
        ],
        rows=rows,
        notes=[
            "A result is one configuration that was measured; it may have a rate and latencies.",
            "trueup evidence KIND lists them with repository, commit and date.",
        ],
        name="evidence",
        facts={"kind": "evidence"},
    )


def _group(kind: str, source: str, rows: Sequence[Row], today: date) -> dict[str, Any]:
    days = sorted(row.date for row in rows)
    return {
        "kind": kind,
        "source": source,
        "results": len(rows),
        "publishers": len({row.publisher for row in rows}),
        "models": len({row.model for row in rows}),
        "hardware": ", ".join(sorted({row.hardware.partition("-")[0] for row in rows})),
        "newest": days[-1],
        "age_days": (today - today.fromisoformat(days[-1])).days,
        "oldest": days[0],
        "repositories": ", ".join(sorted({row.repository for row in rows})),
    }


def listed(kind: str, results: Sequence[Result]) -> Sheet:
    """Each result of a kind with its configuration, figures and source."""
    metrics = list(dict.fromkeys(name for result in results for name in result.figures))
    names = ("model", "precision", "hardware", "parallelism", "scenario", "engine", "version")
    loads = ("tokens_in", "tokens_out", "concurrency")
    rows: list[Mapping[str, Any]] = [
        {
            **{name: getattr(result.row, name) for name in names},
            "count": result.row.count,
            **{name: getattr(result.row, name) or None for name in loads},
            **{name: result.figures.get(name) for name in metrics},
            "source": f"{result.row.source}, {result.row.publisher}",
            "repository": result.row.repository,
            "commit": result.row.commit,
            "date": result.row.date,
        }
        for result in results
    ]
    figure = units.significant
    return Sheet(
        title=f"Published results of others: {kind}",
        columns=[
            *worded("model", "precision", "hardware"),
            Column("count", "count", units.count),
            *worded("parallelism", "scenario"),
            *(Column(name, name.replace("_", "\n"), figure) for name in loads),
            *(Column(name, name.replace("_", "\n"), figure) for name in metrics),
            *worded("engine", "source"),
            Column("date", "date"),
            *unshown("version", "repository", "commit"),
        ],
        rows=rows,
        notes=["Rates are of all GPUs (tokens/s), or of one GPU where the name says so; times: s."],
        name="evidence",
        facts={"kind": "evidence_rows"},
    )


def imported(reading: Reading, before: int, after: int, path: str) -> Sheet:
    """The rows that an import brought, by model and hardware, and the results that it skipped."""
    groups = Counter((row.model, row.precision, row.hardware) for row in reading.rows)
    rows = [
        {"model": model, "precision": precision, "hardware": hardware, "figures": count}
        for (model, precision, hardware), count in sorted(groups.items())
    ]
    skipped = [f"Skipped: {count} x {reason}." for reason, count in reading.skipped.most_common()]
    tree = reading.tree
    return Sheet(
        title=f"{reading.source}: {len(reading.rows)} figures of {tree.repository}",
        columns=[
            *worded("model", "precision", "hardware"),
            Column("figures", "figures", units.count),
        ],
        rows=rows,
        notes=[
            f"Commit {tree.commit or 'unknown'}, {tree.date}.",
            (
                f"{path} had {before} rows and has {after}: of two readings of one figure the newer"
                " stays."
            ),
            *skipped,
        ],
        name="evidence-import",
        facts={"kind": "evidence_import", "skipped": dict(reading.skipped)},
    )
