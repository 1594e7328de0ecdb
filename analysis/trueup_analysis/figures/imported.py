"""From a tool's own output to a record: for a log that no run of trueup made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from trueup.errors import BadInput
from trueup.record import SCHEMA
from trueup.suggest import did_you_mean

from ..read import STANDARD_INPUT, nodes_of, slug

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trueup.record import Record

    from ..read import Reading
    from .sizes import Sizes

# Of a record's ``system``: the file that it was read from, the name of that among other logs, and
# the fields that options gave.
ORIGIN: Final = "imported_from"
LABEL: Final = "imported_as"
FROM_OPTIONS: Final = "from_options"
_COUNTS: Final = ("node_count", "ranks", "threads_per_rank", "gpus")


class Provenance(NamedTuple):
    """The user's options on logs.

    Attributes:
        size: a size of the catalog.
        node_count: how many nodes each log ran on; None where only the log may say.
        nodes: names of the nodes; empty where the log's path names them.
    """

    size: str
    node_count: int | None = None
    nodes: Sequence[str] = ()
    region: str | None = None
    offer: str | None = None


def size_of(name: str, sizes: Sizes) -> str:
    """A size as Azure writes it.

    Raises:
        BadInput: the catalog has none of that name.
    """
    catalog_name = sizes.name(name)
    if catalog_name is None:
        raise BadInput(f"no VM size {name!r} in the catalog{did_you_mean(name, sizes.names())}")
    return catalog_name


def record(
    reading: Reading, log_options: Provenance, *, run_id: str, label: str, started_at: str
) -> Record:
    """The record of one log. It is ok only where the reading is. A fact that neither log nor user
    states is null.

    Args:
        label: its name among other logs: the name of its node.
        started_at: UTC, as records write it.
    """
    outcome, reason = reading.outcome()
    counts = reading.resources
    node_count = log_options.node_count or len(log_options.nodes) or counts.get("nodes")
    nodes = nodes_of(label, node_count, log_options.nodes)
    count_fields = {
        "node_count": node_count,
        "ranks": counts.get("ranks"),
        "threads_per_rank": counts.get("threads"),
        "gpus": counts.get("gpus"),
    }
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "benchmark": reading.tool,
        # Nodes are compared by case. Of one node, logs of one name are different cases.
        "case": label if log_options.nodes else slug(reading.source),
        "outcome": outcome,
        "reason": reason,
        "nodes": nodes,
        "vm_size": log_options.size,
        "region": log_options.region,
        "offer": log_options.offer,
        **count_fields,
        "parameters": dict(reading.parameters),
        "command": [],
        "environment": {},
        "software": {reading.tool: reading.tool_version} if reading.tool_version else {},
        "system": {LABEL: label, **_origin(reading.source, log_options)},
        "started_at": started_at,
        "duration_seconds": None,
        "metrics": reading.rows,
        "raw": None,
    }


def _origin(source: str, log_options: Provenance) -> dict[str, str]:
    """Where the log is, and which fields are not from it."""
    options = {
        "node_count": log_options.node_count or log_options.nodes,
        "nodes": log_options.nodes,
        "vm_size": log_options.size,
        "region": log_options.region,
        "offer": log_options.offer,
    }
    piped = source == STANDARD_INPUT
    return {
        ORIGIN: origin_of(source),
        FROM_OPTIONS: " ".join(name for name, value in options.items() if value),
        "started_at_from": "time of the import" if piped else "time of the file",
    }


def unknown(record: Record) -> list[str]:
    """Counts that neither the log nor an option says."""
    return [name for name in _COUNTS if record[name] is None]


def origin_of(source: str) -> str:
    """The file of a log whatever the folder that it is named from."""
    return source if source == STANDARD_INPUT else str(Path(source).absolute())


def labels(sources: Sequence[str], earlier: Sequence[tuple[str, str]]) -> list[str]:
    """The label of each log: its file's name; of equal names, the part of the path in which the
    logs differ. No two logs have one label.

    Args:
        sources: the logs, each once.
        earlier: file and label of each log that the run holds.
    """
    origins = [origin_of(source) for source in sources]
    by_origin = {origin: label for origin, label in earlier if origin != STANDARD_INPUT}
    every, taken = {*by_origin, *origins}, {label for _, label in earlier}
    label_list = []
    for origin in origins:
        if origin in by_origin:
            label_list.append(by_origin[origin])
            continue
        name = _differing(origin, every)
        label, number = name, 1
        while label in taken:
            number += 1
            label = f"{name}-{number}"
        taken.add(label)
        label_list.append(label)
    return label_list


def _differing(origin: str, every: Iterable[str]) -> str:
    """The name of a file among others; of equal names, the folders in which the paths differ."""
    mine = Path(origin).parts
    other_parts = [
        Path(path).parts for path in every if slug(path) == slug(origin) and path != origin
    ]
    if not other_parts:
        return slug(origin)
    if all(len(parts) == len(mine) for parts in other_parts):
        at = [
            position
            for position, segment in enumerate(mine)
            if any(o[position] != segment for o in other_parts)
        ]
        return slug("-".join(mine[position] for position in at))
    begin = min(_equal(mine, parts) for parts in other_parts)
    end = min(_equal(mine[::-1], parts[::-1]) for parts in other_parts)
    return slug("-".join(mine[begin : len(mine) - end]) or origin)


def _equal(parts: Sequence[str], other: Sequence[str]) -> int:
    """How many parts are equal from the beginning."""
    pairs = enumerate(zip(parts, other, strict=False))
    return next((position for position, (a, b) in pairs if a != b), min(len(parts), len(other)))
