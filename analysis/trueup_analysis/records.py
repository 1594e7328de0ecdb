"""One record as a file holds it: its rules, the reason why a text is none, and the table of
many."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from trueup_node.cases import MEASURED
from trueup_node.quantity import UNITS

from . import packed
from .packed import METRIC_NAME, PATTERNS, Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

# Fits 64 bits, ranks x threads included.
Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
GpuCount = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
DEVICE = "^[A-Za-z0-9_.:-]+(>[A-Za-z0-9_.:-]+)?$"
STATISTIC = "^(median|min|max|mean|single|p[0-9]{1,3}([.][0-9]{1,6})?)$"


class MetricRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One figure of a record, as ``record.schema.json`` defines it."""

    name: Annotated[str, msgspec.Meta(pattern=METRIC_NAME)]
    value: float
    unit: Annotated[str, msgspec.Meta(min_length=1)]
    direction: Literal["higher", "lower", "none"]
    message_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    device: Annotated[str, msgspec.Meta(pattern=DEVICE)] | msgspec.UnsetType = msgspec.UNSET
    statistic: (
        Annotated[
            str,
            msgspec.Meta(pattern=STATISTIC),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    n: Count | msgspec.UnsetType = msgspec.UNSET


class Raw(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The tool's own output, kept beside the record."""

    path: Annotated[str, msgspec.Meta(min_length=1)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One measured case, as ``record.schema.json`` defines it; the unit tests hold the two
    together.

    Meant differences: JSON Schema takes 1.0 for an integer, this does not; and this refuses values
    that no schema can express or no measurement can give (``impossible``, counts beyond 32 bits).
    """

    schema: Literal["trueup.record/1"]
    run_id: Annotated[str, msgspec.Meta(pattern=PATTERNS["run_id"])]
    benchmark: Annotated[str, msgspec.Meta(pattern=PATTERNS["benchmark"])]
    case: Annotated[str, msgspec.Meta(pattern=PATTERNS["case"])]
    outcome: Literal["ok", "too_short", "failed", "invalid"]
    reason: str | None
    nodes: Annotated[list[Annotated[str, msgspec.Meta(min_length=1)]], msgspec.Meta(min_length=1)]
    vm_size: str | None
    region: str | None
    offer: str | None
    node_count: Count | None
    ranks: Count | None
    threads_per_rank: Count | None
    gpus: GpuCount | None
    parameters: dict[str, Scalar]
    command: list[str]
    environment: dict[str, str]
    software: dict[str, str]
    system: dict[str, Scalar]
    started_at: Annotated[str, msgspec.Meta(pattern=PATTERNS["started_at"])]
    duration_seconds: Annotated[float, msgspec.Meta(ge=0)] | None
    metrics: list[MetricRow]
    raw: Raw | None

    def __post_init__(self) -> None:
        if self.outcome == "ok":
            if self.reason is not None:
                raise ValueError("outcome is ok, yet a reason is given")
            if not self.metrics:
                raise ValueError("outcome is ok, yet there are no metrics")
        elif not self.reason:
            raise ValueError(f"outcome is {self.outcome}, yet no reason is given")
        if reason := impossible(self):
            raise ValueError(reason)


# No clock resolves less than the one, and no unit here has more than the other.
_LEAST, MOST = 1e-12, 1e30
ORDERED = ("min", "median", "max")


def impossible(record: Record) -> str | None:
    """Why this cannot have been measured: a date that is none, more nodes or fewer than it names, a
    unit that is no record's, a time or a performance not above zero, a median outside the least and
    the greatest.
    """
    try:
        datetime.fromisoformat(record.started_at)
    except ValueError:
        return f"started_at {record.started_at} is not a date and time"
    if not counts_names(record.node_count, record.nodes):
        return f"node_count is {record.node_count}, and nodes names {len(record.nodes)}"
    if record.raw is not None and not is_name(record.raw.path):
        return f"raw.path {record.raw.path!r} is not the name of a file beside the record"
    ends: dict[tuple[str, Any, Any], dict[Any, float]] = {}
    for row in record.metrics:
        if reason := _out_of_range(row):
            return f"{row.name} is {row.value:g} {row.unit}, {reason}"
        if row.statistic in ORDERED:
            at = (row.name, row.message_bytes, row.device)
            ends.setdefault(at, {})[row.statistic] = row.value
    for (name, *_), by_statistic in ends.items():
        if len(by_statistic) > 1:
            order = [by_statistic[statistic] for statistic in ORDERED if statistic in by_statistic]
            if order != sorted(order):
                return f"min, median and max of {name} are out of order"
    return None


def counts_names(node_count: int | None, nodes: Sequence[str]) -> bool:
    """Whether a record names as many nodes as it says; where the number is unknown, one name stands
    for all."""
    return len(nodes) == (1 if node_count is None else node_count)


def is_name(path: str) -> bool:
    return path == os.path.basename(path) and path not in {".", ".."} and "\0" not in path


def _out_of_range(row: MetricRow) -> str | None:
    base, least = limits(row.name, row.unit, row.direction)
    if row.unit != base:
        return f"and records hold it in {base}"
    if least <= row.value <= MOST:
        return None
    if row.name in packed.ABOVE_ZERO and row.value <= 0:
        return "not above 0"
    if row.value < 0 and row.direction != "none":
        return "not at least 0"
    return "which is out of range"


@functools.lru_cache(4096)
def limits(name: str, unit: str, direction: str) -> tuple[str, float]:
    """The unit in which records hold a metric, and the least that it can be."""
    if name in packed.ABOVE_ZERO:
        return packed.ABOVE_ZERO[name], _LEAST
    return UNITS.get(unit, (unit,))[0], -MOST if direction == "none" else 0.0


_TYPED = msgspec.json.Decoder(Record).decode


def decode(content: bytes) -> Record:
    """The record that a text is.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: it is none; says why.
    """
    record = _TYPED(content)
    if not _holds_no_more(content, record):
        json.loads(content, object_pairs_hook=once_each)
    return record


def _holds_no_more(content: bytes, record: Record) -> bool:
    """Whether a JSON text has as many colons as its record's; no, where some may be escaped."""
    if b"\\u" in content:
        return False
    return content.count(b":") == msgspec.json.encode(record).count(b":")


def once_each(pairs: list[tuple[str, Any]]) -> None:
    """Refuse a name that stands twice in an object: which of the two values counts?

    Raises:
        msgspec.ValidationError: one does.
    """
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise msgspec.ValidationError(f"{name} is given twice in one object")
        names.add(name)


# Columns that a record has itself.
_SAME: Final = (
    *("run_id", "benchmark", "case", "outcome", "reason", "vm_size", "region", "offer"),
    *("started_at", "node_count", "ranks", "threads_per_rank", "gpus", "duration_seconds"),
)


def _cores(record: Record) -> int | None:
    if record.ranks is None or record.threads_per_rank is None:
        return None
    return record.ranks * record.threads_per_rank


# Columns that are made of a record and the path of its file.
_DERIVED: Final[dict[str, Callable[[Record, str], Any]]] = {
    "nodes": lambda record, _: "+".join(record.nodes),
    "cores": lambda record, _: _cores(record),
    "raw_path": lambda record, path: (
        record.raw and os.path.join(os.path.dirname(path), record.raw.path)
    ),
    "raw_sha256": lambda record, _: record.raw and record.raw.sha256,
    "source": lambda _, path: path,
    "provenance": lambda *_: MEASURED,
}


def frames(batch: Sequence[tuple[Record, str]]) -> packed.Frames:
    """The frames of some records, each with the path of its file."""
    same = {name: [getattr(record, name) for record, _ in batch] for name in _SAME}
    texts = {
        name: [packed.canonical(getattr(record, name)) for record, _ in batch]
        for name in packed.JSON
    }
    derived = {
        name: [derive(record, path) for record, path in batch] for name, derive in _DERIVED.items()
    }
    return packed.from_columns(same | texts | derived, [record.metrics for record, _ in batch])


# A folder, its packed file and Ansible's fact cache hold the same records.
_SAME_RUN: Final = ("run_id", "benchmark", "case", "nodes", "started_at", "duration_seconds")
_SAME_CONTENT: Final = (
    *("outcome", "reason", "vm_size", "region", "offer", "provenance"),
    *("node_count", "ranks", "threads_per_rank", "gpus", *packed.JSON),
)


def copies(records: pd.DataFrame, figures: pd.DataFrame) -> list[int]:
    """The records that are copies of one before them. Two results are never one: copies agree in
    every field, in every figure, and in the sha256 of the tool's output where both have it."""
    suspects = records[records.duplicated(list(_SAME_RUN), keep=False)]
    if suspects.empty:
        return []
    of_suspects = figures[figures["record"].isin(suspects.index)]
    measured = packed.alike(of_suspects, list(packed.FIGURES)).groupby(of_suspects["record"])
    figures_by_record = measured.agg(tuple).to_dict()
    contents = packed.alike(suspects, [*_SAME_RUN, *_SAME_CONTENT])
    outputs: dict[tuple[Any, ...], set[str | None]] = {}
    copied = []
    for record, content, digest in zip(
        suspects.index.tolist(), contents, packed.values(suspects["raw_sha256"]), strict=True
    ):
        key = (content, figures_by_record.get(record, ()))
        earlier = outputs.setdefault(key, set())
        # The fact cache does not hold a tool's own output.
        if digest in earlier or (earlier and None in {digest, *earlier}):
            copied.append(record)
        if digest is not None or not earlier:
            earlier -= {None}
            earlier.add(digest)
    return copied
