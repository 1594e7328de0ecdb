"""Sweeps of a server's load: the knee, and the highest load within a service level."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trueup_node.serving import LOADS

from .knee import Knee, knee
from .terms import ServiceLevel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .tokens import TokenTable

# The loads of one sweep are equal in all of these, and in the other kind of load.
_SAME: Final = (
    *("benchmark", "engine", "model", "version", "sweep", "vm_size", "machine", "region"),
    *("offer", "node_count", "gpus"),
)


@dataclass(frozen=True)
class Sweep:
    """The loads of one server, from the lowest.

    Attributes:
        benchmark: whose records these are.
        over: "request_rate" or "max_concurrency".
        rows: those of the token table, each with load, device ("GPU", or "node" on CPUs),
            tokens_per_user (tokens of an answer / its mean time) and tokens_per_device a second,
            within (the service level: True, False, None for unknown or none stated).
        knee: of output tokens a second over the load.
        highest: the highest load within the service level; None for none.
        level: why ``highest`` is that, a sentence.
        missing: load -> outcome of the records there that do not count.
    """

    benchmark: str
    over: str
    model: str
    where: str
    rows: list[dict[str, Any]]
    knee: Knee
    highest: float | None
    level: str
    missing: dict[float, str] = field(default_factory=dict)

    @property
    def device(self) -> str:
        return str(self.rows[0]["device"])


def sweeps(result: TokenTable, level: ServiceLevel | None = None) -> list[Sweep]:
    """Groups of the table's rows that differ only in their load, with two loads or more."""
    level = ServiceLevel() if level is None else level
    all_sweeps = []
    for over in LOADS:
        other = LOADS[1 - LOADS.index(over)]
        together: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in result.table:
            if row[over] > 0:
                together.setdefault(tuple(row[name] for name in (*_SAME, other)), []).append(row)
        for key, members in together.items():
            if len({row[over] for row in members}) > 1:
                lost = [
                    row
                    for row in result.unmeasured
                    if row["sweep"] == members[0]["sweep"] and row[other] == key[-1]
                ]
                all_sweeps.append(_sweep(over, members, lost, level))
    return all_sweeps


def _sweep(
    over: str,
    members: Sequence[dict[str, Any]],
    lost: Sequence[Mapping[str, Any]],
    level: ServiceLevel,
) -> Sweep:
    rows = [{**row, **_of_load(row, over, level)} for row in members]
    rows.sort(key=lambda row: row["load"])
    missing = {row[over]: str(row["outcome"]) for row in lost if row[over] > 0}
    runs = [(row["load"], rate) for row in rows for rate in row["output_runs"]]
    highest, sentence = _highest(rows, missing, level)
    return Sweep(
        benchmark=str(rows[0]["benchmark"]),
        over=over,
        model=str(rows[0]["model"]),
        where=str(rows[0]["vm_size"] or rows[0]["machine"]),
        rows=rows,
        knee=knee([load for load, _ in runs], [rate for _, rate in runs]),
        highest=highest,
        level=sentence,
        missing=dict(sorted(missing.items())),
    )


def _of_load(row: Mapping[str, Any], over: str, level: ServiceLevel) -> dict[str, Any]:
    device, count = ("GPU", row["gpus"]) if row["gpus"] else ("node", row["node_count"])
    tokens_per_answer, seconds = row["output_tokens_per_answer"], row["e2el_mean_seconds"]
    return {
        "load": row[over],
        "device": device,
        "tokens_per_user": tokens_per_answer / seconds
        if tokens_per_answer is not None and seconds
        else None,
        "tokens_per_device": row["output_tokens_per_second"] / count,
        "within": level.holds(row) if level.limits else None,
    }


def _highest(
    rows: Sequence[Mapping[str, Any]], missing: Mapping[float, str], level: ServiceLevel
) -> tuple[float | None, str]:
    """The highest load up to which every load is within the level, and a sentence."""
    if not level.limits:
        return None, "No service level is stated, so no load is judged by it."
    verdicts: dict[float, bool | None] = {row["load"]: row["within"] for row in rows}
    verdicts |= dict.fromkeys(missing, False)
    highest = None
    for load in sorted(verdicts):
        if verdicts[load]:
            highest = load
            continue
        reason = (
            f"{load:g} is {missing[load]}"
            if load in missing
            else f"{load:g} is not"
            if verdicts[load] is False
            else f"of {load:g} a latency is unknown"
        )
        if highest is None:
            return None, f"No load is within the service level ({level.words}): {reason}."
        return highest, (
            f"{highest:g} is the highest load within the service level ({level.words}): {reason}."
        )
    return highest, (
        f"All loads are within the service level ({level.words}), up to {highest:g}:"
        " higher ones may be too."
    )
