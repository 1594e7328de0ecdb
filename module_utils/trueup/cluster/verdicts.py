"""What `trueup health --format json` says of nodes, and what Slurm is told of one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ..errors import BadInput
from ..health.verdicts import worst

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FINDINGS = ("fail", "not measured", "warn")
# The benchmark of what is said of a node without any record, or of a run.
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
        later: whether what was not measured is to fail the run at its end.

    Returns:
        ``verdict``: the worst on the node; ``findings``: what is neither a pass nor without a
        verdict, a sentence each; ``unmeasured``: the planned benchmarks that measured nothing, or
        not all that the size must have; ``ends``: whether the node goes no further.

    Raises:
        BadInput: the text is not that JSON.
    """
    rows = [
        row for row in _table(text)["rows"] if row["node"] == node and not _left_out(row, planned)
    ]
    found = {row["verdict"] for row in rows}
    lacking = {row["benchmark"] for row in rows if row["verdict"] == "not measured"}
    known = {row["benchmark"] for row in rows} - lacking
    verdict = worst(found)
    return {
        "verdict": verdict,
        "findings": [sentence(row) for row in rows if row["verdict"] in _FINDINGS],
        "unmeasured": [name for name in planned if name not in known],
        "ends": verdict == "fail" or (verdict == "not measured" and not later),
    }


def _left_out(row: Mapping[str, Any], planned: Sequence[str]) -> bool:
    """Whether it is about a benchmark that has no record, and that nobody planned."""
    unmeasured = row["verdict"] == "not measured" and not row.get("measured_at")
    return unmeasured and row["benchmark"] not in {*planned, _RUN}


def findings(text: str) -> list[str]:
    """What is not well on any node, a sentence each, and how many nodes could be judged.

    Raises:
        BadInput: the text is not the JSON of `trueup health`.
    """
    table = _table(text)
    found = [sentence(row) for row in table["rows"] if row["verdict"] in _FINDINGS]
    return [*found, f"{table['sentence']}."]


def slurm_update(
    shown: str, verdict: Mapping[str, Any], node: str, own: Sequence[str] = ("trueup:",)
) -> list[str]:
    """The arguments of the `scontrol` that drains a node or gives it back; empty where none is due.

    A node that fails is drained with the first finding as the reason, unless it is drained. One
    that does not is given back if everything planned was measured and its reason is ours.

    Args:
        shown: what `scontrol show node` prints, with `--oneliner` or without. Without it no other
            text of the node can be taken for the reason.
        verdict: what ``node_verdict`` says of the node.
        node: its name in Slurm.
        own: what the reasons begin with that are ours; the first is that of a new one.
    """
    drained = "DRAIN" in slurm_states(shown)
    update = ["update", f"nodename={node}"]
    if verdict["verdict"] == "fail" and not drained:
        # One line, since Slurm shows it in one.
        reason = " ".join(verdict["findings"][0].split())
        if len(reason) > _REASON_CHARACTERS:
            reason = reason[: _REASON_CHARACTERS - 3] + "..."
        return [*update, "state=drain", f"reason={own[0]} {reason}"]
    well = verdict["verdict"] in {"pass", "warn"} and not verdict["unmeasured"]
    stands = re.search(r"^[ \t]*Reason=(.*)", shown, re.MULTILINE) or re.search(
        r"\sReason=(.*)", shown
    )
    if well and drained and stands and stands[1].startswith(tuple(own)):
        return [*update, "state=resume"]
    return []


def slurm_states(shown: str) -> set[str]:
    """The words of a node's state, such as IDLE and DRAIN, without the sign behind them (* for one
    that does not answer), which is a word of its own; empty where Slurm shows no state."""
    found = re.search(r"(?:^|\s)State=([A-Z_+]+)(\S?)([A-Z_+]*)", shown)
    if found is None:
        return set()
    return {*found[1].split("+"), found[2], *found[3].split("+")} - {""}


def slurm_down(shown: str, names: Sequence[str]) -> list[str]:
    """What keeps the nodes ``names`` from taking jobs, a sentence each.

    A drained node that is otherwise well is somebody's decision, and no problem.

    Args:
        shown: what `scontrol --oneliner show nodes` prints.
        names: of all nodes, in Slurm.
    """
    word = re.compile(r"(?:^|\s)(NodeName|State|Reason)=(.*?)(?=\s+[A-Za-z]+=|$)")
    rows = [dict(word.findall(line)) for line in shown.splitlines()]
    found = {row["NodeName"]: row for row in rows if "NodeName" in row}
    problems = [
        f"node {name} is not known to slurmctld: restart slurmctld"
        for name in names
        if name not in found
    ]
    for name in names:
        state = found.get(name, {}).get("State", "")
        words = set(state.rstrip("*~#!%$@^-").split("+"))
        if "*" in state or words & _DOWN:
            reason = found[name].get("Reason", "").strip()
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
        found: dict[str, Any] = {"rows": table["rows"], "sentence": table["sentence"]}
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"this is not the JSON of `trueup health`: {error}") from error
    return found


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
