"""From records to the sheets of `trueup list`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final

from trueup_node.record import OUTCOMES

from .. import units
from ..cases import names, read_cases
from ..figures.frames import Heads, of_kinds
from ..packed import values
from .compare import SINCE, since_shown
from .sheet import Column, Columns, Sheet, figure_text, short_size, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_node.cases import Case
    from trueup_node.health.expectations import Expectations

    from ..figures.compare.comparing import Deltas
    from ..load import Loaded
    from ..rooms import Headline

_NODES_SHOWN: Final = 2
# More rows than this are read by nobody: a summary stands for them.
ROWS_SHOWN: Final = 50
# Of these a summary shows the last.
_EXAMPLES: Final = 20
ASK: Final = "--every-record lists them all; --help names the options that choose records."
_ALSO_LISTED: Final = (
    *("run_id", "region", "offer", "node_count", "ranks", "threads_per_rank", "gpus"),
    *("started_at", "duration_seconds", "name", "value", "unit", "message_bytes", "device"),
    *("command", "source", "raw_path", "provenance"),
)
# Columns of records that are listed as they are.
_SAME: Final = (
    *("benchmark", "case", "outcome", "reason", "nodes", "vm_size", "run_id", "region", "offer"),
    *("started_at", "source", "raw_path", "provenance"),
    *("cores", "node_count", "ranks", "threads_per_rank", "gpus", "duration_seconds"),
)


def cases(
    loaded: Loaded, expectations: Expectations | None = None, deltas: Deltas | None = None
) -> list[Sheet]:
    """Every record, a table for each run; with ``deltas`` the change of each figure."""
    return run_by_run(loaded, Heads(loaded, expectations).every, deltas)


def run_by_run(
    loaded: Loaded, heads: Sequence[Headline | None], deltas: Deltas | None = None
) -> list[Sheet]:
    """All records, a table for each run.

    Args:
        heads: the figure that stands for each.
    """
    columns = _columns(loaded, heads)
    if deltas is not None:
        columns |= _changes(loaded, heads, deltas)
    runs = loaded.records["run_id"]
    manifests = {str(run.get("run_id")): run for run in loaded.runs}
    sheets = []
    for name, of_run in runs.groupby(runs, sort=False, observed=True):
        run_id, places = str(name), of_run.index.tolist()
        rows = {key: [column[row] for row in places] for key, column in columns.items()}
        title = _run_title(run_id, rows["outcome"], manifests.get(run_id))
        sheets.append(_records(Columns(rows), title, run_id))
    return sheets


def _columns(loaded: Loaded, heads: Sequence[Headline | None]) -> dict[str, Sequence[Any]]:
    """The listed values of each record, column by column."""
    shown_nodes = of_kinds(
        loaded.records, ["nodes", "node_count"], lambda *nodes: _few(names(*nodes))
    )
    commands = of_kinds(loaded.records, ["command"], lambda words: " ".join(words) or None)
    outcomes = loaded.values("outcome")
    measures = [None if figure is None else figure.measure for figure in heads]
    return {
        **{key: loaded.values(key) for key in _SAME},
        "name": [measure and measure.metric for measure in measures],
        "value": [figure and figure.value for figure in heads],
        "unit": [measure and measure.unit for measure in measures],
        "message_bytes": [figure and figure.message_bytes for figure in heads],
        "device": [figure and figure.device for figure in heads],
        "shown_nodes": shown_nodes.tolist(),
        "command": values(commands),
        "mark": ["" if outcome == "ok" else "bad" for outcome in outcomes],
        "figure": heads,
    }


def _changes(
    loaded: Loaded, heads: Sequence[Headline | None], deltas: Deltas
) -> dict[str, Sequence[Any]]:
    """The change of each record's figure since the run before."""
    since = [
        (None, "") if head is None else deltas.of([case], head.measure.metric, head.message_bytes)
        for case, head in zip(read_cases(loaded), heads, strict=True)
    ]
    return {
        "since_run_before": [ratio for ratio, _ in since],
        "since_verdict": [verdict for _, verdict in since],
        "since_shown": list(starmap(since_shown, since)),
    }


def summary(loaded: Loaded) -> list[Sheet]:
    """Records by benchmark and outcome, by run where there are several, and those that are not
    ok."""
    all_cases = read_cases(loaded, metrics=set())
    runs = dict.fromkeys(case.run_id for case in all_cases)
    bad = [case for case in all_cases if case.outcome != "ok"]
    title = f"{len(all_cases):,} records of " + _run_or_runs(list(runs))
    sheets = [_tally(f"{title}: {_outcomes([case.outcome for case in all_cases])}", all_cases)]
    sheets += [_run_by_run(loaded, all_cases, list(runs))] * (len(runs) > 1)
    if bad:
        last = loaded.only([case.record for case in bad[-_EXAMPLES:]])
        rows = Columns(_columns(last, [None] * len(last.records)))
        sheet = _records(rows, f"Not ok: {len(bad):,}", "")
        more = len(bad) - _EXAMPLES
        notes = [f"And {more:,} before these: --outcome failed --outcome invalid --every-record."]
        sheets.append(replace(sheet, notes=notes * (more > 0), name="not-ok"))
    return sheets


def _run_or_runs(runs: Sequence[str]) -> str:
    return f"{len(runs):,} runs" if len(runs) > 1 else f"run {runs[0]}"


def _nodes(all_cases: Sequence[Case]) -> int:
    return len({name for case in all_cases for name in case.nodes})


def _tally(title: str, all_cases: Sequence[Case]) -> Sheet:
    """Records counted by benchmark and outcome."""
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in all_cases:
        groups.setdefault((case.benchmark, case.outcome), []).append(case)
    rows = []
    for (benchmark, outcome), members in groups.items():
        reasons = Counter(case.reason for case in members if case.reason).most_common()
        more = f" (and {len(reasons) - 1:,} other reasons)" if len(reasons) > 1 else ""
        rows.append(
            {
                "benchmark": benchmark,
                "outcome": outcome,
                "records": len(members),
                "nodes": _nodes(members),
                "runs": len({case.run_id for case in members}),
                "reason": f"{reasons[0][0]}{more}" if reasons else "",
                "mark": "" if outcome == "ok" else "bad",
            }
        )
    return Sheet(
        title=title,
        columns=[
            *worded("benchmark", "outcome"),
            *(Column(key, key, units.count) for key in ("records", "nodes", "runs")),
            Column("reason", "most frequent reason", words=True),
        ],
        rows=rows,
        notes=[ASK],
        marks="mark",
        facts={"kind": "summary"},
        name="list-summary",
    )


def _run_by_run(loaded: Loaded, all_cases: Sequence[Case], runs: Sequence[str]) -> Sheet:
    """The newest runs, a row each."""
    unfinished = {str(run.get("run_id")) for run in loaded.runs if run.get("finished_at") is None}
    members: dict[str, list[Case]] = {run_id: [] for run_id in sorted(runs)[-_EXAMPLES:]}
    for case in all_cases:
        if case.run_id in members:
            members[case.run_id].append(case)
    rows = []
    for run_id, group in members.items():
        counts = Counter(case.outcome for case in group)
        rows.append(
            {
                "run_id": run_id,
                **{name: counts[name] for name in OUTCOMES},
                "nodes": _nodes(group),
                "state": "has not finished" if run_id in unfinished else "",
            }
        )
    older = len(runs) - len(rows)
    return Sheet(
        title="Run by run",
        columns=[
            Column("run_id", "run", words=True),
            *(Column(key, key.replace("_", " "), units.count) for key in (*OUTCOMES, "nodes")),
            Column("state", "state", words=True),
        ],
        rows=rows,
        notes=[f"And {older:,} before these."] * (older > 0),
        facts={"kind": "runs"},
        name="list-runs",
    )


def _records(rows: Sequence[Mapping[str, Any]], title: str, run_id: str) -> Sheet:
    """Records as one table, each with the figure that stands for it."""
    return Sheet(
        title=title,
        columns=[
            *worded("benchmark", "case", "outcome"),
            Column("nodes"),
            Column("shown_nodes", "nodes", words=True, data=False),
            Column("vm_size", "size\n(Standard_)", short_size, words=True),
            Column("cores", "cores", units.count),
            Column("figure", "headline figure", _shown_figure, words=True, data=False),
            *(SINCE if rows and "since_shown" in rows[0] else ()),
            Column("reason", "reason", words=True),
            *unshown(*_ALSO_LISTED),
        ],
        rows=rows,
        facts={"kind": "cases", "run_id": run_id},
        marks="mark",
        name=f"list-{run_id}",
    )


def _few(nodes: Sequence[str]) -> str:
    few = len(nodes) <= _NODES_SHOWN
    return "+".join(nodes) if few else f"{nodes[0]} and {len(nodes) - 1} more"


def _shown_figure(headline: Headline | None) -> str:
    return units.UNKNOWN if headline is None else units.text(figure_text(headline))


def _run_title(run_id: str, outcomes: Sequence[str], manifest: dict[str, Any] | None) -> str:
    state = ""
    if manifest is not None and manifest.get("finished_at") is None:
        state = "; the run has not finished"
    return (
        f"{'Published' if run_id == 'published' else 'Run ' + run_id}: {_outcomes(outcomes)}{state}"
    )


def _outcomes(outcomes: Sequence[str]) -> str:
    """ "12 ok, 1 failed"."""
    counts = Counter(outcomes)
    return ", ".join(
        f"{counts[name]:,} {name.replace('_', ' ')}" for name in OUTCOMES if counts[name]
    )


def excluded(loaded: Loaded, *, everything: bool = True) -> list[Sheet]:
    """Files that could not be read, if any: all of them, or as many as a person reads."""
    if not loaded.excluded:
        return []
    listed = loaded.excluded if everything else loaded.excluded[:ROWS_SHOWN]
    more = len(loaded.excluded) - len(listed)
    return [
        Sheet(
            title=f"Not read: {len(loaded.excluded):,}",
            columns=[Column("path", "file", words=True), Column("reason", "reason", words=True)],
            rows=[{"path": item.path, "reason": item.reason} for item in listed],
            notes=[f"And {more:,} more; --every-record lists them."] * (more > 0),
            facts={"kind": "excluded"},
            name="left-out",
        )
    ]
