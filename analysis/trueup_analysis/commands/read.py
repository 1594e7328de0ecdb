"""``trueup read``: a tool's own output."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..read import files_of, outputs_of
from .interface import (
    Common,
    Format,
    examples,
    flag,
    once_each,
    option,
    put,
    raise_all,
    say_all,
    say_refused,
    taking,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup_node.health.verdicts import Verdict

    from ..read import Output, Reading
    from ..sheets.reading import Answer
    from ..sheets.sheet import Sheet

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup read devito.log",
        "trueup read - < devito.log      # standard input",
        "trueup read --benchmark stream --format json triad-*.txt",
        "trueup read nccl.log --size Standard_ND96isr_H100_v5     # with a verdict",
        "trueup read logs/ --junit checks.xml                     # for CI",
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
    junit: Annotated[
        Path | None,
        option("FILE", "Write the checks and verdicts as JUnit XML too, for CI.", "--junit"),
    ] = None,
    common: Common,
) -> None:
    """Read a tool's own output: its figures, the tool's checks (exit 1 when one failed), and
    warnings on the figures; with --size also the verdict (exit 1 for a failure, 2 where nothing
    could be judged). A figure that cannot be cross-checked is marked unverified, with the reason,
    and never judged. JSON has one object a file: tool, tool_version, rows, checks, warnings,
    unverified."""
    from ..render import json
    from ..sheets import reading as reading_sheets

    names, refused = files_of(files)
    outputs, reasons = outputs_of(names, tool)
    refused += reasons
    if not outputs:
        raise_all(refused)
    readings = [output.reading for output in outputs]
    answers = _answers(outputs, size, node_count, common.catalog)
    people = common.format_ in (Format.table, Format.markdown)
    if common.format_ is Format.json:
        put(json.dump(list(map(_object, readings, answers))), common.output)
    elif people:
        sheets = [
            reading_sheets.reading_for_people(item, answer, all_rows=all_rows)
            for item, answer in zip(readings, answers, strict=True)
        ]
        common.write(sheets + _verdict_sheets(readings, answers))
    else:
        common.write([reading_sheets.reading(item) for item in readings])
    if junit is not None:
        from ..render import junit as render_junit

        text = render_junit.readings(readings, [item.verdicts for item in answers], refused)
        put(text, junit)
    failed = _say_checks(readings, also_unverified=not people)
    say_refused(refused, len(outputs) + len(refused))
    verdicts = [verdict for answer in answers for verdict in answer.verdicts]
    if status := _status(verdicts, is_judged=size is not None, failed=failed or bool(refused)):
        raise typer.Exit(status)


def _object(item: Reading, answer: Answer) -> dict[str, Any]:
    """A reading for programs."""
    verdicts = [vars(verdict) for verdict in answer.verdicts]
    members = {**vars(item), "figures": item.rows}
    return {
        **{"rows" if name == "figures" else name: value for name, value in members.items()},
        "plausible": answer.plausible,
        **({} if answer.size is None else {"verdicts": verdicts}),
    }


def _status(verdicts: Sequence[Verdict], *, is_judged: bool, failed: bool) -> int:
    """1 for a failed check or verdict; 2 where nothing could be judged; 0 otherwise."""
    outcomes = {verdict.verdict for verdict in verdicts}
    if failed or "fail" in outcomes:
        return 1
    return 2 if is_judged and not outcomes & {"pass", "warn"} else 0


def _answers(
    outputs: Sequence[Output], size: str | None, node_count: int | None, catalog: Path | None
) -> list[Answer]:
    """The judgement on each output, as if it were a record of that size; of unverified figures
    beside the limits of the size, or of the sizes with the GPUs that the output names."""
    from trueup_node.health.verdicts import judge_case

    from ..catalog import folder
    from ..figures import topology
    from ..figures.contradictions import contradictions, sizes_with_gpus_of
    from ..figures.health import expectations
    from ..figures.imported import Provenance
    from ..figures.plausible import against_sizes
    from ..figures.sizes import read_sizes
    from ..sheets.reading import Answer

    if size is None and not any(output.reading.unverified for output in outputs):
        return [Answer()] * len(outputs)
    expected = expectations.for_size(size, catalog)
    sizes = read_sizes(folder(catalog))
    layouts = topology.read(folder(catalog) / "topologies.yml")
    answers = []
    for item, text in outputs:
        verdicts = [] if size is None else judge_case(item.as_case(size, node_count), expected)
        among = sizes_with_gpus_of(text, sizes) if size is None else [sizes.name(size) or size]
        plausible = against_sizes(item, among, expected) if item.unverified else None
        name = None if size is None else sizes.name(size)
        options = Provenance(name or "", node_count)
        doubts = list(contradictions(item, text, options, sizes, layouts)) if name else []
        answers.append(Answer(size, verdicts, plausible, doubts))
    return answers


def _verdict_sheets(readings: Sequence[Reading], answers: Sequence[Answer]) -> list[Sheet]:
    """Every verdict with its source, where the lines above the figures do not say it all."""
    from ..sheets import health
    from ..sheets.reading import VERDICTS_SHOWN

    return [
        health.verdicts(answer.verdicts, f"{item.title} as {answer.size}")
        for item, answer in zip(readings, answers, strict=True)
        if not item.unverified
        if any(verdict.measured is not None for verdict in answer.verdicts)
        or len(answer.verdicts) > VERDICTS_SHOWN
    ]


def _say_checks(readings: Sequence[Reading], *, also_unverified: bool) -> bool:
    """Name warnings and failed checks, and what is unverified where no table does; whether any
    check failed."""
    messages = [(item.title, text) for item in readings for text in (*item.warnings, *item.remarks)]
    if also_unverified:
        messages += [
            (each.title, f"unverified: {text}") for each in readings for text in each.unverified
        ]
    failed = [(item.title, bad) for item in readings if (bad := item.failed_checks())]
    messages += [(source, f"failed checks: {', '.join(bad)}") for source, bad in failed]
    say_all(once_each(messages))
    return bool(failed)
