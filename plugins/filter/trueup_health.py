"""What `trueup health --format json` says of a node, for plays."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
name: trueup_health
short_description: Verdicts of C(trueup health), for plays
description:
  - C(health_of) takes the JSON of C(trueup health) and a node's name, and returns the worst verdict
    on that node - C(fail), C(not measured), C(warn), C(pass) or C(no verdict).
  - C(health_lacking) takes the same and a list of benchmarks, and returns those that measured
    nothing on that node.
  - C(health_sentences) takes the same JSON and returns a sentence for each verdict that is neither
    a pass nor none, of all nodes or of one.
"""

# From the worst; a node of which anything passed, and nothing worse was found, passes.
_ORDER = ("fail", "not measured", "warn", "pass", "no verdict")
_WORTH_SAYING = ("fail", "not measured", "warn")


def health_of(text: str, node: str) -> str:
    """The worst verdict on one node."""
    found = {row["verdict"] for row in _rows(text) if row["node"] == node}
    return next((word for word in _ORDER if word in found), "no verdict")


def health_lacking(text: str, node: str, planned: list[str]) -> list[str]:
    """Those of the planned benchmarks that did not measure anything on the node."""
    measured = {
        row["benchmark"]
        for row in _rows(text)
        if row["node"] == node and row["verdict"] != "not measured"
    }
    return [name for name in planned if name not in measured]


def health_sentences(text: str, node: str | None = None) -> list[str]:
    """What is not well, a sentence each; one for all where everything is."""
    found = [
        _sentence(row)
        for row in _rows(text)
        if row["verdict"] in _WORTH_SAYING and node in (None, row["node"])
    ]
    return found or ["Nothing is wrong with what could be judged."]


def _rows(text: str) -> list[dict[str, Any]]:
    try:
        [table] = json.loads(text)["tables"]
        rows: list[dict[str, Any]] = table["rows"]
    except (ValueError, KeyError, TypeError) as error:
        message = f"this is not the JSON of `trueup health`: {error}"
        raise AnsibleFilterError(message) from error
    return rows


def _sentence(row: dict[str, Any]) -> str:
    parts = [f"{row['node']}: {row['verdict']}: {row['what']}"]
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


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "health_lacking": health_lacking,
            "health_of": health_of,
            "health_sentences": health_sentences,
        }
