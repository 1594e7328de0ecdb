"""``trueup evidence``: results that others published, from which advice is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from trueup_node.errors import BadInput

from .interface import Common, examples, group, option, taking
from .prices import today

app = group(
    "evidence",
    "Results that others published: serving and training by model, GPU and load, with repository,"
    " commit and date. `trueup advise` draws on them after your own records.",
    "trueup evidence show                    # by kind and source, and how old",
    "trueup evidence show serving --model llama-3.1-70b",
    "trueup evidence import inferencex ~/InferenceX-app",
)


@app.command(
    epilog=examples(
        "trueup evidence show",
        "trueup evidence show training --format csv",
        "trueup evidence show serving --model deepseek-r1 --hardware H200-SXM5-141GB",
    )
)
@taking(common=Common)
def show(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="[KIND]", help="Each result of this kind.", show_default=False),
    ] = None,
    *,
    model: Annotated[str | None, option("MODEL", "Of this model.", "--model")] = None,
    hardware: Annotated[
        str | None, option("GPU", "On this GPU, as vm_sizes.csv calls it.", "--hardware")
    ] = None,
    common: Common,
) -> None:
    """The evidence by kind and source, and how old it is; of a kind each result."""
    from ..figures.evidence import rows
    from ..sheets import evidence as sheets

    every = rows.read(common.catalog)
    if kind is None and (model or hardware):
        raise BadInput(
            "--model and --hardware take a kind: trueup evidence show serving --model ..."
        )
    chosen = [
        row
        for row in every
        if kind in (None, row.kind)
        and model in (None, row.model)
        and hardware in (None, row.hardware)
    ]
    if not chosen:
        query = ", ".join(filter(None, (kind, model, hardware)))
        kinds = ", ".join(sorted({row.kind for row in every}))
        raise BadInput(f"no published result of {query or 'any kind'}; kinds: {kinds or 'none'}")
    results = rows.results(chosen)
    common.write([sheets.listed(kind, results) if kind else sheets.sources(results, today())])


@app.command(
    "import",
    epilog=examples(
        "trueup evidence import mlperf-inference ~/inference_results_v5.1 --to evidence.csv",
        "trueup evidence import tensorrt-llm perf-overview.md --date 2025-09-24 --to evidence.csv",
    ),
)
@taking(common=Common)
def import_(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A source that trueup reads.")],
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A checkout, a folder or a file of it.")
    ],
    *,
    to: Annotated[
        Path | None,
        option("FILE", "Merge into this file; else evidence.csv of --catalog.", "--to"),
    ] = None,
    repository: Annotated[
        str | None, option("NAME", "Where it is published, if not the usual.", "--repository")
    ] = None,
    commit: Annotated[
        str | None, option("COMMIT", "Of files outside of a git repository.", "--commit")
    ] = None,
    date: Annotated[
        str | None, option("DATE", "Of files outside of a git repository.", "--date")
    ] = None,
    common: Common,
) -> None:
    """Read published results from a checkout that you have, and merge them into an evidence file.
    Results on hardware that Azure does not rent are skipped and counted."""
    from ..catalog import folder
    from ..figures.evidence import importing, rows
    from ..sheets import evidence as sheets

    if to is None and common.catalog is None:
        raise BadInput("nothing says where to keep the rows: give --to FILE, or --catalog FOLDER")
    catalog = folder(common.catalog)
    target = to or catalog / rows.FILE
    reading = importing.read(source, path, repository=repository, commit=commit, day=date)
    before, after = importing.keep(target, reading)
    common.write([sheets.imported(reading, before, after, str(target))])
