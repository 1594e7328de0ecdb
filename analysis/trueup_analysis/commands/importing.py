"""``trueup import``: logs become the records of a run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .help_text import examples
from .inputs import RESULTS, Output, output_of
from .messages import say, say_all
from .options import CatalogOption, SizeOption, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup.record import Record

app = typer.Typer()
_UTC = "%Y-%m-%dT%H:%M:%SZ"


@app.command(
    "import",
    epilog=examples(
        "trueup import nccl.log --size Standard_ND96isr_H100_v5 --nodes 2",
        "trueup import 1.log 2.log --size Standard_HB120rs_v3 --region eastus",
        "trueup cost                     # and report, health, scaling, list",
    ),
)
def import_(
    files: Annotated[
        list[str], typer.Argument(metavar="LOG", help="Outputs of a tool; - is standard input.")
    ],
    *,
    size: SizeOption,
    node_count: Annotated[
        int, option("N", "Nodes that each of them ran on.", "--nodes", min=1)
    ] = 1,
    nodes: Annotated[
        list[str] | None,
        option("NAME", "Name of a node, once for each; else the log's name.", "--node"),
    ] = None,
    region: Annotated[str | None, option("REGION", "Azure region, for the price.")] = None,
    offer: Annotated[str | None, option("OFFER", "payg, spot, ...; else payg.")] = None,
    tool: Annotated[
        str | None,
        option("NAME", "Which tool wrote them (nccl, stream, ...); else found out.", "--benchmark"),
    ] = None,
    results: Annotated[Path, option("FOLDER", "Where the run is written.")] = RESULTS,
    catalog: CatalogOption = None,
) -> None:
    """Turn tools' own outputs into records, all of one new run, so that list, cost, report, health
    and scaling work on them. A log's time is that of its file. Figures that could not be verified,
    or whose check failed, are never an ok record."""
    from trueup import record as records

    from ..catalog import folder
    from ..figures import imported
    from ..figures.prices import Terms, read_all, refuse_unknown
    from ..figures.sizes import read_sizes
    from ..read import nodes_of
    from ..units import plural

    outputs = [output_of(name, tool) for name in files]
    run_id = records.run_of(str(results))
    sizes = read_sizes(folder(catalog))
    refuse_unknown(read_all(catalog), Terms(region=region, offer=offer))
    made = [
        imported.record(
            output.reading,
            run_id=run_id,
            started_at=_time_of(output.reading.source),
            nodes=nodes_of(output.reading.source, node_count, nodes or ()),
            size=size,
            sizes=sizes,
            region=region,
            offer=offer,
        )
        for output in outputs
    ]
    _write(results, made, outputs)
    for output, record in zip(outputs, made, strict=True):
        say_all([f"{output.reading.source}: {text}" for text in output.reading.warnings])
        if record["outcome"] != "ok":
            say(f"{output.reading.source}: imported as {record['outcome']}: {record['reason']}")
    say(f"{plural(len(made), 'record')} written into {results / run_id}.")
    if any(record["outcome"] != "ok" for record in made):
        raise typer.Exit(1)


def _time_of(source: str) -> str:
    """When the file was last written, which is when the tool ended; now of a pipe."""
    path = Path(source)
    moment = path.stat().st_mtime if path.is_file() else time.time()
    return time.strftime(_UTC, time.gmtime(moment))


def _write(results: Path, made: Sequence[Record], outputs: Sequence[Output]) -> None:
    from trueup import record as records

    for record, output in zip(made, outputs, strict=True):
        records.write_record(str(results), record, raw=output.text)
    nodes = sorted({name for record in made for name in record["nodes"]})
    now = time.strftime(_UTC, time.gmtime())
    manifest = records.new_manifest(made[0]["run_id"], 0, "trueup import", now)
    hosts = {name: {"failed": 0, "unreachable": 0} for name in nodes}
    records.write_manifest(
        str(results), {**manifest, "finished_at": now, "expected": nodes, "hosts": hosts}
    )
