"""From a tool's own output to a record: for who has a log and no run of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trueup.errors import BadInput
from trueup.record import SCHEMA
from trueup.words import did_you_mean

from ..read import slug
from .views import view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup.record import Record

    from ..read import Reading
    from .sizes import Sizes


def record(
    reading: Reading,
    *,
    run_id: str,
    started_at: str,
    nodes: Sequence[str],
    size: str,
    sizes: Sizes,
    region: str | None = None,
    offer: str | None = None,
) -> Record:
    """The record of one log. It is ok only where the reading is.

    Args:
        started_at: UTC, as records write it.
        nodes: the names of its nodes.
        size: the VM size, which the catalog must know.

    Raises:
        BadInput: no size of that name.
    """
    known = sizes.name(size)
    if known is None:
        raise BadInput(f"no VM size {size!r} in the catalog{did_you_mean(size, sizes.names())}")
    outcome, reason = reading.outcome()
    parameters: dict[str, Any] = dict(reading.parameters)
    gpus = _gpus(reading, known, sizes, len(nodes))
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "benchmark": reading.tool,
        "case": slug(reading.source),
        "outcome": outcome,
        "reason": reason,
        "nodes": list(nodes),
        "vm_size": known,
        "region": region,
        "offer": offer,
        "node_count": len(nodes),
        "ranks": _ranks(reading) or max(gpus, 1),
        "threads_per_rank": reading.resources.get("threads", 1),
        "gpus": gpus,
        "parameters": parameters,
        "command": [],
        "environment": {},
        "software": {reading.tool: reading.tool_version} if reading.tool_version else {},
        "system": {"imported_from": reading.source},
        "started_at": started_at,
        # How long it took is in no log, and no time of 0 is used (forecast).
        "duration_seconds": 0.0,
        "metrics": reading.rows,
        "raw": None,
    }


def _ranks(reading: Reading) -> int | None:
    """How many ranks the output says, by number or as a grid of p x q."""
    grid = [str(reading.parameters.get(side, "")) for side in ("p", "q")]
    if all(side.isdecimal() for side in grid):
        return max(1, int(grid[0]) * int(grid[1]))
    return reading.resources.get("ranks")


def _gpus(reading: Reading, size: str, sizes: Sizes, nodes: int) -> int:
    """How many GPUs: as the output says, else, of a benchmark of GPUs, those of the nodes."""
    if "gpus" in reading.resources:
        return reading.resources["gpus"]
    view = view_of(reading.tool)
    if view is None or view.resource != "gpus":
        return 0
    return _ranks(reading) or int((sizes.figure(size, "gpus") or 0) * nodes)
