"""The rows of evidence.csv: one published figure each, with its source."""

from __future__ import annotations

import contextlib
import csv
import re
import tempfile
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec
from trueup_node.errors import BadInput

from ... import catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FILE: Final = "evidence.csv"
SERVING: Final = "serving"
TRAINING: Final = "training"
# Figures of a served model; times are those of the median request, else of the mean.
OUTPUT_RATE: Final = "output_tokens_per_second"
TTFT: Final = "ttft"
TPOT: Final = "tpot"
# Of training.
MODEL_FLOPS: Final = "model_flops_per_gpu"
# Of one GPU.
TRAINED_PER_GPU: Final = "tokens_per_second_per_gpu"
TIME_TO_TRAIN: Final = "time_to_train"

NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One published figure.

    Attributes:
        source: the publication, by the name of its reader.
        publisher: who measured it: an organisation.
        repository, commit: where the figure stands; commit "" for a file outside of a repository.
        date: YYYY-MM-DD of the measurement, else of the commit.
        kind: serving, training, or the name of a program.
        engine, version: the program.
        model: by the name of evidence_models.csv, else as the source calls it.
        precision: of the weights: bf16, fp8, fp4, int4; "" where the source does not say.
        hardware: a GPU as vm_sizes.csv calls it, or a VM size.
        count: GPUs, or nodes of a size without GPUs.
        parallelism: such as "tp8 ep1"; "" where the source does not say.
        scenario: such as offline or server; "" of a number of requests in flight.
        tokens_in, tokens_out: of a request (serving), or of a sample (training: tokens_in);
            0 where the source does not say.
        concurrency: requests in flight; 0 where as many as the engine takes, or not said.
        metric, value, unit: the figure.
    """

    source: Name
    publisher: Name
    repository: Name
    commit: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{7,40})?$")]
    date: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    kind: Name
    engine: str
    version: str
    model: Name
    precision: str
    hardware: Name
    count: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    parallelism: str
    scenario: str
    tokens_in: NotNegative
    tokens_out: NotNegative
    concurrency: NotNegative
    metric: Name
    value: Annotated[float, msgspec.Meta(gt=0)]
    unit: Name


COLUMNS: Final = Row.__struct_fields__
_FIGURE: Final = ("metric", "value", "unit")
# Empty cells where the source does not say them.
_UNSTATED: Final = ("tokens_in", "tokens_out", "concurrency")
# Rows that differ in these alone are two readings of one figure, of which the newer counts.
_DATED: Final = ("commit", "date", "value", "version")


class Result(NamedTuple):
    """The figures of one configuration that a source measured together.

    Attributes:
        row: any row of it; its metric, value and unit are one of several.
        figures: values by metric.
    """

    row: Row
    figures: Mapping[str, float]


def read(chosen: Path | None = None) -> tuple[Row, ...]:
    """The rows of the built-in catalog, and those of the chosen folder before them.

    Raises:
        BadInput: a row is none.
    """
    folders = dict.fromkeys((catalog.built_in(), catalog.folder(chosen)))
    rows: list[Row] = []
    for folder in folders:
        if (folder / FILE).is_file():
            rows += read_file(folder / FILE)
    return merged(rows)


def read_file(path: Path) -> list[Row]:
    """The rows of a file.

    Raises:
        BadInput: a row is none; the message has its line.
    """
    return [of_text(row, where) for where, row in catalog.rows(path, *COLUMNS)]


def of_text(row: Mapping[str, Any], where: str) -> Row:
    """A row from texts.

    Raises:
        BadInput: a value is not of the column's kind.
    """
    try:
        values = {name: row[name] for name in COLUMNS}
        values |= {name: values[name] or 0.0 for name in _UNSTATED}
        converted = msgspec.convert(values, Row, strict=False)
        date.fromisoformat(converted.date)
    except (msgspec.ValidationError, ValueError) as error:
        raise BadInput(f"{where}: {error}") from error
    return converted


def merged(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The newest reading of each figure, in the order of the file."""
    newest: dict[tuple[Any, ...], Row] = {}
    identity = [name for name in COLUMNS if name not in _DATED]
    for row in rows:
        key = tuple(getattr(row, name) for name in identity)
        if key not in newest or _age(newest[key]) <= _age(row):
            newest[key] = row
    return tuple(sorted(newest.values(), key=msgspec.structs.astuple))


def _age(row: Row) -> tuple[str, list[int]]:
    """Orders readings, the oldest first: by date, and of a date by the numbers of the version."""
    return row.date, [int(number) for number in re.findall(r"\d{1,9}", row.version)]


def write(path: Path, rows: Sequence[Row]) -> None:
    """Replace a file as a whole.

    Raises:
        BadInput: it cannot be written.
    """
    try:
        with contextlib.ExitStack() as aside:
            stream = tempfile.NamedTemporaryFile(  # noqa: SIM115 WHY: it is closed before it is named
                "w", dir=path.parent, prefix=".evidence-", delete=False, encoding="utf-8"
            )
            aside.callback(Path(stream.name).unlink, missing_ok=True)
            with stream:
                writer = csv.writer(stream, lineterminator="\n")
                writer.writerow(COLUMNS)
                writer.writerows(map(_cell, msgspec.structs.astuple(row)) for row in rows)
            Path(stream.name).chmod(0o644)
            Path(stream.name).replace(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}" if value else ""
    return value


def results(rows: Iterable[Row]) -> list[Result]:
    """Rows of one configuration together."""
    by_configuration: dict[tuple[Any, ...], tuple[Row, dict[str, float]]] = {}
    columns = [name for name in COLUMNS if name not in _FIGURE]
    for row in rows:
        key = tuple(getattr(row, name) for name in columns)
        by_configuration.setdefault(key, (row, {}))[1][row.metric] = row.value
    return [Result(row, figures) for row, figures in by_configuration.values()]
