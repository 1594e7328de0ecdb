"""Verdicts on nodes from `trueup health --format json`, and the updates of nodes in Slurm."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ..errors import BadInput
from .verdicts import worst

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FINDINGS = ("fail", "not measured", "warn")
# The benchmark of a row about a node without any record, or about a run.
_RUN = "run"
# Slurm cuts long reasons.
_REASON_CHARACTERS = 180
# States in which a node takes no jobs and will not by itself; * is appended to one that does not
# respond (scontrol(1), NODE STATES).
_DOWN = {"DOWN", "FAIL", "ERROR", "UNKNOWN", "INVAL", "INVALID_REG", "NOT_RESPONDING"}


def node_verdict(
    text: str, node: str, planned: Sequence[str], *, later: bool = False
) -> dict[str, Any]:
    """The verdict on one node.

    Args:
        text: the JSON of `trueup health`.
        node: the node's name.
        planned: the benchmarks that were to be measured on it. One that was left out because
            nobody planned it makes no node worse here.
        later: whether an unmeasured benchmark is to fail the run at its end.

    Returns:
        ``verdict``: the worst on the node; ``findings``: failures, warnings and unmeasured figures,
        a sentence each; ``unmeasured``: the planned benchmarks that measured nothing, or
        not all that the size must have; ``ends``: whether the node goes no further.

    Raises:
        BadInput: the text is not that JSON.
    """
    rows = [
        row for row in _table(text)["rows"] if row["node"] == node and not _left_out(row, planned)
    ]
    verdicts = {row["verdict"] for row in rows}
    lacking = {row["benchmark"] for row in rows if row["verdict"] == "not measured"}
    measured = {row["benchmark"] for row in rows} - lacking
    verdict = worst(verdicts)
    return {
        "verdict": verdict,
        "findings": [sentence(row) for row in rows if row["verdict"] in _FINDINGS],
        "unmeasured": [name for name in planned if name not in measured],
        "ends": verdict == "fail" or (verdict == "not measured" and not later),
    }


def _left_out(row: Mapping[str, Any], planned: Sequence[str]) -> bool:
    """Whether it is about a benchmark that has no record, and that nobody planned."""
    unmeasured = row["verdict"] == "not measured" and not row.get("measured_at")
    return unmeasured and row["benchmark"] not in {*planned, _RUN}


def findings(text: str) -> list[str]:
    """The findings on all nodes, a sentence each, and the number of judged nodes.

    Raises:
        BadInput: the text is not the JSON of `trueup health`.
    """
    table = _table(text)
    sentences = [sentence(row) for row in table["rows"] if row["verdict"] in _FINDINGS]
    return [*sentences, f"{table['sentence']}."]


def slurm_update(
    output: str, verdict: Mapping[str, Any], node: str, prefixes: Sequence[str] = ("trueup:",)
) -> list[str]:
    """The arguments of the `scontrol` that drains a node or gives it back; empty where none is due.

    A node that fails is drained with the first finding as the reason, unless it is drained. A node
    that does not fail is given back if everything planned was measured and its reason is trueup's.

    Args:
        output: of `scontrol show node`, with `--oneliner` or without. Without it no other text of
            the node can be taken for the reason.
        verdict: the result of ``node_verdict`` for the node.
        node: its name in Slurm.
        prefixes: of trueup's own reasons; a new reason gets the first.
    """
    drained = "DRAIN" in slurm_states(output)
    update = ["update", f"nodename={node}"]
    if verdict["verdict"] == "fail" and not drained:
        # One line, since Slurm shows it in one.
        reason = " ".join(verdict["findings"][0].split())
        if len(reason) > _REASON_CHARACTERS:
            reason = reason[: _REASON_CHARACTERS - 3] + "..."
        return [*update, "state=drain", f"reason={prefixes[0]} {reason}"]
    well = verdict["verdict"] in {"pass", "warn"} and not verdict["unmeasured"]
    stands = re.search(r"^[ \t]*Reason=(.*)", output, re.MULTILINE) or re.search(
        r"\sReason=(.*)", output
    )
    if well and drained and stands and stands[1].startswith(tuple(prefixes)):
        return [*update, "state=resume"]
    return []


def slurm_states(output: str) -> set[str]:
    """The words of a node's state, such as IDLE and DRAIN, without the sign behind them (* for one
    that does not answer), which is a word of its own; empty where Slurm shows no state."""
    match = re.search(r"(?:^|\s)State=([A-Z_+]+)(\S?)([A-Z_+]*)", output)
    if match is None:
        return set()
    return {*match[1].split("+"), match[2], *match[3].split("+")} - {""}


def slurm_down(output: str, names: Sequence[str]) -> list[str]:
    """Problems that keep the nodes ``names`` from taking jobs, a sentence each.

    A drained node that is otherwise well is somebody's decision, and no problem.

    Args:
        output: of `scontrol --oneliner show nodes`.
        names: of all nodes, in Slurm.
    """
    pattern = re.compile(r"(?:^|\s)(NodeName|State|Reason)=(.*?)(?=\s+[A-Za-z]+=|$)")
    rows = [dict(pattern.findall(line)) for line in output.splitlines()]
    node_rows = {row["NodeName"]: row for row in rows if "NodeName" in row}
    problems = [
        f"node {name} is not known to slurmctld: restart slurmctld"
        for name in names
        if name not in node_rows
    ]
    for name in names:
        state = node_rows.get(name, {}).get("State", "")
        words = set(state.rstrip("*~#!%$@^-").split("+"))
        if "*" in state or words & _DOWN:
            reason = node_rows[name].get("Reason", "").strip()
            because = f", reason: {reason}" if reason else ""
            problems.append(f"node {name} is {state}{because}{_mend(name, words, reason)}")
    return problems


def _mend(name: str, words: set[str], reason: str) -> str:
    if words & {"INVALID_REG", "INVAL"} or reason.startswith(("Low ", "gres/")):
        return (
            ": it has less than slurm.conf says (compare `slurmd -C` on it); mend that and"
            f" `scontrol update nodename={name} state=resume`"
        )
    return f": see `systemctl status slurmd munge` and /var/log/slurm/slurmd.log on {name}"


def _table(text: str) -> dict[str, Any]:
    try:
        [table] = json.loads(text)["tables"]
        checked: dict[str, Any] = {"rows": table["rows"], "sentence": table["sentence"]}
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"this is not the JSON of `trueup health`: {error}") from error
    return checked


def sentence(row: Mapping[str, Any]) -> str:
    """A row of that JSON as a finding."""
    whom = f"{row['node']}: " if row["node"] else ""
    parts = [f"{whom}{row['verdict']}: {row['what']}"]
    if row["device"]:
        parts.append(f"on {row['device']}")
    if row["measured"] is not None and row["expected"] is not None:
        words = str(row["comparison"]).replace("_", " ")
        unit = "" if row["unit"] == "1" else f" {row['unit']}"
        parts.append(
            f"is {row['measured']:.6g}{unit}, expected {words} {row['expected']:.6g}{unit}"
        )
    if row["reason"]:
        parts.append(f"({row['reason']})")
    if row["fault"]:
        parts.append(f"[{row['fault']}]")
    return " ".join(parts) + "."
