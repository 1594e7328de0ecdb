"""``trueup read``: a tool's own output."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .help_text import examples
from .inputs import expectations_for, outputs_of
from .messages import once_each, say_all, say_refused
from .options import Format, flag, option, taking
from .output import Common, put

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup.health.verdicts import Verdict

    from ..read import Reading
    from ..sheets.sheet import Sheet

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup read devito.log",
        "trueup read - < devito.log      # standard input",
        "trueup read --benchmark stream --format json triad-*.txt",
        "trueup read nccl.log --size Standard_ND96isr_H100_v5     # with a verdict",
    ),
)
@taking(common=Common)
def read(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Outputs of tools, folders of them, or patterns in quotes; - is standard input.",
        ),
    ],
    *,
    tool: Annotated[
        str | None,
        option("NAME", "Which tool wrote them (nccl, stream, ...); else found out.", "--benchmark"),
    ] = None,
    size: Annotated[
        str | None, option("SIZE", "Judge the figures as measured on this VM size.")
    ] = None,
    node_count: Annotated[
        int | None,
        option("N", "Nodes that the case ran on; else as many as it says.", "--nodes", min=1),
    ] = None,
    all_rows: Annotated[
        bool, flag("--all", "Of a sweep every figure, not a row a message size.")
    ] = False,
    common: Common,
) -> None:
    """Read a tool's own output: its figures, the tool's checks (exit 1 when one failed), and
    warnings on the figures; with --size also the verdict (exit 1 for a failure, 2 where nothing
    could be judged). A figure that cannot be cross-checked is marked unverified, with the reason,
    and never judged. JSON has one object a file: tool, tool_version, rows, checks, warnings,
    unverified."""
    from ..render import json
    from ..sheets import reading as reading_sheets

    outputs, refused = outputs_of(files, tool)
    readings = [output.reading for output in outputs]
    judged = None if size is None else _judged(readings, size, node_count, common.catalog)
    if common.format_ is Format.json:
        objects = [dict(vars(item)) for item in readings]
        for written, verdicts in zip(objects, judged or [], strict=judged is not None):
            written["verdicts"] = [vars(verdict) for verdict in verdicts]
        put(json.dump(objects), common.output)
    else:
        sheet = reading_sheets.reading
        if common.format_ is not Format.csv:
            sheet = partial(reading_sheets.reading_for_people, all_rows=all_rows)
        sheets = [sheet(item) for item in readings]
        if judged is not None and common.format_ is not Format.csv:
            sheets += _verdict_sheets(readings, judged, size)
        common.write(sheets)
    failed = _say_checks(readings)
    say_refused(refused, len(outputs) + len(refused))
    if status := _status(judged, failed=failed or bool(refused)):
        raise typer.Exit(status)


def _status(judged: Sequence[Sequence[Verdict]] | None, *, failed: bool) -> int:
    """1 for a failed check or verdict; 2 where nothing could be judged; 0 otherwise."""
    words = {verdict.verdict for verdicts in judged or [] for verdict in verdicts}
    if failed or "fail" in words:
        return 1
    return 2 if judged is not None and not words & {"pass", "warn"} else 0


def _judged(
    readings: Sequence[Reading], size: str, node_count: int | None, catalog: Path | None
) -> list[list[Verdict]]:
    """The verdicts on each reading, as if it were a record of that size."""
    from trueup.health.verdicts import judge_case

    from ..figures.health.measured import of_reading

    expected = expectations_for(size, catalog)
    return [judge_case(of_reading(item, size, node_count), expected) for item in readings]


def _verdict_sheets(
    readings: Sequence[Reading], judged: Sequence[Sequence[Verdict]], size: str | None
) -> list[Sheet]:
    from ..sheets import health

    return [
        health.verdicts(verdicts, f"{item.title} as {size}")
        for item, verdicts in zip(readings, judged, strict=True)
    ]


def _say_checks(readings: Sequence[Reading]) -> bool:
    """Name warnings and failed checks; whether any check failed."""
    said = [(item.title, text) for item in readings for text in (*item.warnings, *item.remarks)]
    said += [(item.title, f"unverified: {text}") for item in readings for text in item.unverified]
    failed = {item.title: bad for item in readings if (bad := item.failed_checks())}
    said += [(source, f"failed checks: {', '.join(bad)}") for source, bad in failed.items()]
    say_all(once_each(said))
    return bool(failed)
