"""``trueup export``: records in the formats of other projects."""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from trueup_node.errors import BadInput

from .interface import OutputOption, examples, option, put, say
from .records import RecordQuery, end_incomplete, filtered, load_results, say_notes

if TYPE_CHECKING:
    from ..render.exported import Exported

app = typer.Typer()


class Foreign(str, Enum):
    """A format of another project, and the module of render/ that writes it."""

    llmd = "llmd"
    superbench = "superbench"
    reframe = "reframe"
    openmetrics = "openmetrics"


@app.command(
    epilog=examples(
        "trueup export --format superbench --output results-summary.jsonl",
        "trueup export --format reframe --all --output run-report.json",
        "trueup export --format openmetrics --benchmark nccl --output trueup.om.txt",
        "trueup export --format llmd --output reports/      # a report a record",
    )
    + "\n\nllmd: llm-d's Benchmark Report 0.2, of records that measure a server; superbench: a"
    " line a node of results-summary.jsonl; reframe: a run report (data version 4.2);"
    " openmetrics: gauges with the record's facts as labels.",
)
@filtered
def export(
    *,
    query: RecordQuery,
    format_: Annotated[
        Foreign, option("FORMAT", "llmd, superbench, reframe or openmetrics.", "--format")
    ],
    output: OutputOption = None,
) -> None:
    """Write records in the format of another project. What that format cannot say is named and
    counted in messages; figures of records that are not ok are never in it. llmd has a report a
    record: --output is a folder for it, and standard output has them one after the other."""
    from ..cases import read_cases

    loaded = load_results(*query)
    say_notes(loaded)
    cases = read_cases(loaded)
    measured = [case for case in cases if case.provenance == "measured"]
    exported: Exported = import_module(f"..render.{format_.value}", __package__).render(measured)
    if len(measured) < len(cases):
        exported.left_out["published row, which nobody here measured"] += len(cases) - len(measured)
    for text in exported.sentences():
        say(f"note: not in {format_.value}: {text}")
    if not measured or not exported.texts:
        raise BadInput(f"no record can be written as {format_.value}")
    if format_ is Foreign.llmd and output is not None:
        _write_each(exported, output)
    else:
        put("---\n".join(exported.texts.values()), output)
    end_incomplete(loaded)


def _write_each(exported: Exported, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder} cannot be a folder: {error.strerror}") from error
    for name, text in exported.texts.items():
        put(text, folder / name)
    say(f"{len(exported.texts)} reports written into {folder}.")
