"""From sweeps of a server's load to sheets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import units
from ..figures.serving import sweeps
from .sheet import Column, Sheet, price, unshown
from .tokens import ANSWERS, goodput_notes, idle_note, rate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..figures.serving import Sweep
    from ..figures.terms import ServiceLevel
    from ..figures.tokens import TokenTable

# Variables of a sweep, with their names for people.
OVER: Final = {"request_rate": "requests a second", "max_concurrency": "requests in flight"}
_RUNS: Final = (
    "n runs of each load: rates and medians are medians over them, p99 is the worst run's, spread"
    " is (max - min) / median of the output rate."
)
_two = partial(units.significant, digits=3)


def sweep_sheets(result: TokenTable, level: ServiceLevel | None) -> list[Sheet]:
    """One for each sweep among the rows."""
    return [sweep(item, result.idle_factor) for item in sweeps(result, level)]


def sweep(item: Sweep, idle_factor: float = 1.0) -> Sheet:
    """One sweep, a row a load."""
    rows = [
        {
            **row,
            "spread": _spread(row),
            "shown_within": {True: "yes", False: "no", None: "unknown"}[row["within"]],
            "mark": "best" if row["load"] == item.knee.load else "",
        }
        for row in item.rows
    ]
    judged = any(row["within"] is not None for row in rows)
    device = item.device
    return Sheet(
        title=" ".join(
            filter(None, ("Load sweep over", f"{OVER[item.over]},", item.model, "on", item.where))
        ),
        columns=[
            *unshown("model", "version", "vm_size", "node_count", "gpus", "currency"),
            Column("load", "load", "{:g}".format),
            Column("n", "n", units.count),
            Column("answers_per_second", "answers\n/s", _two),
            Column("output_tokens_per_second", "output\ntok/s", rate),
            *unshown("output_tokens_per_second_min", "output_tokens_per_second_max"),
            Column("spread", "spread", partial(units.percent, digits=1)),
            Column("cached_share", "prompt\ncached", units.percent),
            Column("ttft_seconds", "TTFT\nms", _milliseconds),
            Column("ttft_p99_seconds", "TTFT\np99 ms", _milliseconds),
            Column("tpot_seconds", "TPOT\nms", _milliseconds),
            Column("tpot_p99_seconds", "TPOT\np99 ms", _milliseconds),
            Column("e2el_mean_seconds"),
            Column("tokens_per_user", "tok/s\na user", rate),
            Column("tokens_per_device", f"tok/s\na {device}", rate),
            Column("usd_per_million_output_tokens", "US$/1e6\noutput", price),
            Column("usd_per_million_uncached_tokens", "US$/1e6\nuncached", price),
            *ANSWERS,
            Column("within"),
            Column("shown_within", "within\nlevel" if judged else None, words=True, data=False),
        ],
        rows=rows,
        marks="mark",
        name=f"sweep-{item.over.replace('_', '-')}",
        notes=[*findings(item), *_notes(item, idle_factor)],
        facts={
            "kind": "sweep",
            "over": item.over,
            "knee": item.knee.load,
            "knee_at": item.knee.at,
            "no_knee": item.knee.why,
            "highest_within_level": item.highest,
            "missing": {f"{load:g}": outcome for load, outcome in item.missing.items()},
        },
    )


def findings(item: Sweep) -> list[str]:
    """The knee, the highest load within the service level, and the missing loads."""
    knee = item.knee
    sentences = [
        knee.why
        if knee.load is None or knee.at is None
        else f"The knee is at {knee.load:g} {OVER[item.over]} (two lines through the output tokens"
        f" a second join at {knee.at:.3g})."
    ]
    sentences.append(item.level)
    if item.missing:
        loads = ", ".join(f"{load:g} ({outcome})" for load, outcome in item.missing.items())
        sentences.append(f"Loads with records that do not count: {loads}.")
    return sentences


def _notes(item: Sweep, idle_factor: float) -> list[str]:
    notes = [
        _RUNS,
        _rates(item.device),
    ]
    notes += goodput_notes(item.rows)
    if all(row["usd_per_hour"] is None for row in item.rows):
        notes.append(f"No US$: {item.where} has no price.")
    if idle_factor > 1:
        notes.append(idle_note(idle_factor))
    return notes


def _rates(device: str) -> str:
    where = " (the server runs on CPUs)" if device == "node" else ""
    return (
        "tok/s a user: tokens of an answer / its mean time, the wait included;"
        f" tok/s a {device}: output tokens of all users{where}."
    )


def _spread(row: Mapping[str, Any]) -> float | None:
    if row["n"] < 2:
        return None
    name = "output_tokens_per_second"
    return float((row[f"{name}_max"] - row[f"{name}_min"]) / row[name])


def _milliseconds(value: Any) -> str:
    return units.UNKNOWN if units.is_missing(value) else units.significant(value * 1000, 3)
