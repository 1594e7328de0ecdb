"""The command ``trueup``: data to standard output, messages to standard error, a known error in one
sentence.

Imports of the analysis stand inside the commands: pandas, scipy and matplotlib take over a second,
``trueup --help`` a tenth.
"""

from __future__ import annotations

import os
import shutil
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from trueup.errors import BadInput, TrueupError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup.node.nccl_topology import Layout

    from .health.verdicts import Verdict
    from .load import Loaded
    from .read import Reading
    from .render.sheet import Sheet

__all__ = ["app", "main"]

RESULTS = Path("results")
# A folder with a thousand bad files must not bury the table; `trueup list` names them all.
MESSAGES_SHOWN = 20

app = typer.Typer(
    name="trueup",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
topology_app = typer.Typer(
    name="topology",
    no_args_is_help=True,
    rich_markup_mode="rich",
    short_help="NCCL topology files of Azure's GPU sizes: check, write, show.",
)
app.add_typer(topology_app)


class Format(str, Enum):
    """How a table is written."""

    table = "table"
    markdown = "markdown"
    csv = "csv"
    json = "json"


class HealthFormat(str, Enum):
    """How verdicts are written."""

    table = "table"
    markdown = "markdown"
    csv = "csv"
    json = "json"
    junit = "junit"
    prometheus = "prometheus"


class Over(str, Enum):
    """What scales."""

    auto = "auto"
    cores = "cores"
    gpus = "gpus"
    nodes = "nodes"


def _examples(*lines: str) -> str:
    """Commands to copy whole, also those with a comment; they fit into 80 columns."""
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(lines)


EXIT_CODES = (
    "Exit status: 0 fine; 1 bad input or a known error, said in one sentence; 2 wrong usage."
)

Sources = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="RESULTS",
        help="Results folders, run folders, records, packed files, fact caches of Ansible, or"
        " the catalog's reference_results.csv. Without any: results/.",
        show_default=False,
    ),
]
FormatOption = Annotated[
    Format, typer.Option("--format", "-f", help="csv and json hold base units, unrounded.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write here instead of standard output."),
]
CatalogOption = Annotated[
    Path | None,
    typer.Option(
        "--catalog",
        metavar="FOLDER",
        help="Folder of prices.csv; else TRUEUP_CATALOG, else the one built in.",
    ),
]
RegionOption = Annotated[
    str | None,
    typer.Option(
        metavar="REGION", help="Price in this region instead of the record's own: eastus."
    ),
]
OfferOption = Annotated[
    str | None,
    typer.Option(
        metavar="OFFER", help="payg, spot, lowpriority or 1y; else the record's own, else payg."
    ),
]
PriceOption = Annotated[
    float | None,
    typer.Option(metavar="US$", help="US$ an hour and node for all rows, instead of the catalog."),
]
AsSizeOption = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Price every row as this size, also records made off Azure."),
]
SizeOption = Annotated[
    str,
    typer.Option("--size", metavar="SIZE", help="The VM size, such as Standard_ND96asr_v4."),
]


@app.callback(
    epilog=_examples(
        "trueup scaling                  # how results/ scales",
        "trueup cost --region eastus     # what it costs there",
        "trueup scaling results/20261120T091300Z-7c1e --format markdown",
        "trueup reference                # published tables, yours beside them",
        "trueup report                   # one HTML page of everything",
        "trueup health                   # each node against what its size must reach",
        "trueup topology show --size Standard_ND96asr_v4   # GPUs, NICs, masks",
    )
    + "\n\n"
    + EXIT_CODES
)
def _trueup() -> None:
    """Turn trueup's records into scaling, cost and reference tables and one report."""


@app.command(
    "list",
    epilog=_examples(
        "trueup list",
        "trueup list results/ --verify   # raw outputs still as recorded?",
        "trueup list packed.parquet --format csv",
    ),
)
def list_cases(
    sources: Sources = None,
    *,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check raw outputs; exit 1 when one differs.")
    ] = False,
    catalog: CatalogOption = None,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """What was measured, run by run, with what failed and what could not be read."""
    from .catalog import find
    from .health import expectations
    from .load import verify as verify_raw
    from .render import list_sheets

    loaded = _load(sources)
    expected = expectations.read(find("expectations.yml", catalog))
    _write([*list_sheets.cases(loaded, expected), *list_sheets.excluded(loaded)], format_, output)
    _say_notes(loaded)
    if not verify:
        return
    problems = verify_raw(loaded)
    checked = int(loaded.cases["raw_sha256"].notna().sum())
    _say(f"{checked - len(problems)} of {checked} raw outputs are as recorded.")
    _say_all([f"{problem.path}: {problem.reason}" for problem in problems])
    if problems:
        raise typer.Exit(1)


@app.command(
    epilog=_examples(
        "trueup scaling",
        "trueup scaling --baseline 2 --over cores",
        "trueup scaling --benchmark nccl                 # bus bandwidth over nodes",
        "trueup scaling run-a/ run-b/ --format csv --output scaling.csv",
        "trueup scaling catalog/reference_results.csv    # published tables",
    )
)
def scaling(
    sources: Sources = None,
    *,
    benchmark: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="One benchmark: devito, nccl, ...; else all that scale."),
    ] = None,
    over: Annotated[
        Over, typer.Option(help="What scales; auto: cores or GPUs in a node, and nodes.")
    ] = Over.auto,
    baseline: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Cores, GPUs or nodes that speed-ups refer to; else the fewest.",
        ),
    ] = None,
    across_sizes: Annotated[
        bool,
        typer.Option(
            "--across-sizes", help="Compare the constrained sizes of one host in one table."
        ),
    ] = False,
    threshold: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="A step pays when this much of what it adds arrives as speed."
        ),
    ] = 0.5,
    layouts: Annotated[
        bool,
        typer.Option(
            "--layouts",
            help="Tables over nodes with the slower layouts too; csv and json have them.",
        ),
    ] = False,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Speed-up, efficiency, serial fraction, fits, and where adding cores or nodes stops paying."""
    from . import scaling as analysis
    from .catalog import find
    from .health import expectations
    from .render import scaling_sheets

    loaded = _load(sources)
    # Only of what is measured at several message sizes one is judged.
    sized = bool(loaded.metrics["message_bytes"].notna().any())
    options: dict[str, Any] = {
        "over": over.value,
        "baseline": baseline,
        "across_sizes": across_sizes,
        "threshold": threshold,
        "expectations": expectations.read(find("expectations.yml")) if sized else None,
    }
    if benchmark is None:
        found = analysis.every_series(loaded, **options)
    else:
        found = analysis.series(loaded, benchmark=benchmark, **options)
    every = layouts or format_ in {Format.csv, Format.json}
    made = [scaling_sheets.scaling(series, layouts=every) for series in found]
    _write(made, format_, output)
    _say_notes(loaded)
    for name in dict.fromkeys(series.benchmark for series in found):
        _say_all(analysis.left_out(loaded, name))
    _say_warnings(made)


@app.command(
    short_help="Node-hours and US$ of each run, and US$ by unit of work.",
    epilog=_examples(
        "trueup cost --region eastus",
        "trueup cost --region southcentralus --offer spot",
        "trueup cost --as-size Standard_HB120rs_v3 --region eastus  # as if there",
        "trueup cost --price 3.60 --format json",
        "trueup cost --region eastus2 --api-price 0.60   # vLLM against an API",
        "trueup cost catalog/reference_results.csv       # published tables",
    ),
)
def cost(
    sources: Sources = None,
    *,
    region: RegionOption = None,
    offer: OfferOption = None,
    os_: Annotated[str, typer.Option("--os", metavar="OS", help="linux or windows.")] = "linux",
    price: PriceOption = None,
    as_size: AsSizeOption = None,
    price_date: Annotated[
        str | None,
        typer.Option(metavar="YYYY-MM-DD", help="The newest price on or before this day."),
    ] = None,
    api_price: Annotated[
        float | None,
        typer.Option(
            metavar="US$",
            help="What an API asks per million output tokens: how busy must the node be to match?",
        ),
    ] = None,
    api_price_total: Annotated[
        float | None,
        typer.Option(metavar="US$", help="The same, per million tokens in total."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 when a price is unknown.")
    ] = False,
    catalog: CatalogOption = None,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Node-hours (nodes x run time), US$ per run, and US$ by the unit that each benchmark's work is
    counted in (PFLOP, TB, ns, billion grid points, million samples or tokens), the cheapest marked.
    Published rates of tokens are priced on their article's own terms too."""
    from . import cost as analysis
    from . import published_tokens, tokens
    from .catalog import find, folder
    from .health import expectations
    from .render import cost_sheets, token_sheets

    api = tokens.ApiPrices(api_price, api_price_total)
    loaded = _load(sources)
    place = folder(catalog)
    prices = analysis.read_prices(place / "prices.csv")
    gpus = tokens.read_gpus(place / "vm_sizes.csv")
    serving = tokens.table(
        loaded,
        prices=prices,
        gpus=gpus,
        region=region,
        offer=offer,
        os=os_,
        price=price,
        as_size=as_size,
        price_date=price_date,
        api=api,
        # Published rates name no region, so there is a price only where one is asked for.
        published=region is not None or price is not None,
    )
    article = published_tokens.recompute(
        loaded, prices=prices, gpus=gpus, price_date=price_date, api=api
    )
    if api.given and serving is None and article is None:
        message = (
            f"an API's price compares with rates of tokens, and none of {len(loaded.cases)} records"
            f" is of {tokens.BENCHMARK}"
        )
        raise BadInput(message)
    made: list[Sheet] = []
    unknown: list[str] = []
    serves = article is not None or (serving is not None and not serving.table.empty)
    if serving is not None and not serves:
        _say_all(serving.left_out)
    # Without either, it says that there is nothing to price.
    if analysis.has_work(loaded) or not serves:
        # They matter only to figures of several message sizes.
        sized = bool(loaded.metrics["message_bytes"].notna().any())
        expected = expectations.read(find("expectations.yml", catalog)) if sized else None
        result = analysis.table(
            loaded,
            prices=prices,
            region=region,
            offer=offer,
            os=os_,
            price=price,
            as_size=as_size,
            price_date=price_date,
            expectations=expected,
        )
        made += cost_sheets.cost(result)
        unknown += result.unknown
    if serving is not None:
        made += token_sheets.tokens(serving)
        unknown += serving.unknown
    if article is not None:
        made += token_sheets.article(article)
        unknown += article.unknown
    _write(made, format_, output)
    _say_notes(loaded)
    if serving is not None and serves:
        _say_all(serving.left_out)
    _say_warnings(made)
    if strict and unknown:
        raise typer.Exit(1)


@app.command(
    epilog=_examples(
        "trueup reference                # results/ beside them, if it exists",
        "trueup reference results/20261120T091300Z-7c1e --format markdown",
    )
)
def reference(
    sources: Sources = None,
    *,
    catalog: CatalogOption = None,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Published tables, what is wrong with them, and this run beside."""
    from . import reference as analysis
    from .catalog import folder
    from .load import load
    from .render import reference_sheets

    path = folder(catalog) / "reference_results.csv"
    published = load([path])
    mine = None
    if sources or RESULTS.is_dir():
        mine = _load(sources)
        _say_notes(mine)
    else:
        _say("No results/ here: the published tables stand alone.")
    _write(
        reference_sheets.reference(
            analysis.compare(published, mine),
            analysis.sums(published),
            analysis.storage(path, mine),
        ),
        format_,
        output,
    )


@app.command(
    short_help="Figures, checks and warnings in a tool's own output.",
    epilog=_examples(
        "trueup read devito.log",
        "trueup read - < devito.log      # standard input",
        "trueup read --tool stream --format json triad-*.txt",
        "trueup read nccl.log --size Standard_ND96isr_H100_v5     # with a verdict",
    ),
)
def read(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Outputs of a tool; - is standard input.")
    ],
    *,
    tool: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Which tool wrote them (nccl, stream, ...); else found out."
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Judge the figures as measured on this VM size."),
    ] = None,
    node_count: Annotated[
        int, typer.Option("--nodes", min=1, metavar="N", help="Nodes that the case ran on.")
    ] = 1,
    catalog: CatalogOption = None,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Read a tool's own output: its figures, the tool's checks (exit 1 when one failed), and
    warnings on the figures; with --size also the verdict (exit 1 for a failure, 2 where nothing
    could be judged). JSON has one object a file: tool, tool_version, rows, checks, warnings."""
    from . import read as reading
    from .render import json

    readings = [
        reading.read(_text(name), source="standard input" if name == "-" else name, tool=tool)
        for name in files
    ]
    judged = None if size is None else _judged(readings, size, node_count, catalog)
    if format_ is Format.json:
        objects = [dict(vars(item)) for item in readings]
        for written, found in zip(objects, judged or [], strict=judged is not None):
            written["verdicts"] = [vars(verdict) for verdict in found]
        _put(json.dump(objects), output)
    else:
        from .render import reading_sheets

        sheet = (
            reading_sheets.reading if format_ is Format.csv else reading_sheets.reading_for_people
        )
        made = [sheet(item) for item in readings]
        if judged is not None and format_ is not Format.csv:
            from .render import health_sheets

            made += [
                health_sheets.verdicts(found, f"{item.source} as {size}")
                for item, found in zip(readings, judged, strict=True)
            ]
        _write(made, format_, output)
    failed = []
    for item in readings:
        _say_all([f"{item.source}: {text}" for text in item.warnings])
        bad = [name for name, passed in item.checks.items() if not passed]
        failed += [f"{item.source}: failed checks: {', '.join(bad)}"] if bad else []
    _say_all(failed)
    words = {verdict.verdict for found in judged or [] for verdict in found}
    if failed or "fail" in words:
        raise typer.Exit(1)
    if judged is not None and not words & {"pass", "warn"}:
        raise typer.Exit(2)


@app.command(
    short_help="What healthy nodes reach, node by node: pass, warn, fail or no verdict.",
    epilog=_examples(
        "trueup health",
        "trueup health results/20261120T091300Z-7c1e --all",
        "trueup health --as-size Standard_ND96isr_H100_v5 one-record.json",
        "trueup health --format junit --output health.xml",
        "trueup health --format prometheus -o /var/lib/node_exporter/trueup.prom",
        "trueup health --require nccl --require ib     # without them: exit 2",
    )
    + "\n\nExit status: 0 all that was judged passes, warnings included; 1 a failure, or a known"
    " error; 2 something could not be measured, nothing could be judged, or wrong usage.",
)
def health(
    sources: Sources = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Show passes too, however many nodes there are.")
    ] = False,
    as_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Judge every record as measured on this size."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BENCHMARK", help="Every node must have a record of it; may be repeated."
        ),
    ] = None,
    catalog: CatalogOption = None,
    format_: Annotated[
        HealthFormat,
        typer.Option(
            "--format",
            "-f",
            help="csv and json hold base units, unrounded; junit for CI; prometheus for"
            " node_exporter's textfile collector.",
        ),
    ] = HealthFormat.table,
    output: OutputOption = None,
) -> None:
    """Each figure against what its VM size must reach (catalog/expectations.yml), at the message
    size that the source names; then the nodes of one size beside each other, and pairs of nodes
    reduced to whom they blame."""
    from .catalog import find
    from .health import expectations, report, verdicts
    from .render import health_sheets

    loaded = _load(sources)
    expected = expectations.read(find("expectations.yml", catalog))
    if as_size is not None and not expected.knows(as_size):
        message = f"nothing is expected of the size {as_size}{_near(as_size, expected.sizes)}"
        raise BadInput(message)
    found = report.examine(
        verdicts.cases(loaded, as_size=as_size), expected, required=require or []
    )
    if format_ is HealthFormat.junit:
        _put(report.junit(found), output)
    elif format_ is HealthFormat.prometheus:
        _put(report.prometheus(found), output)
    else:
        form = Format(format_.value)
        for_programs = form in (Format.csv, Format.json)
        sheet = (
            health_sheets.data(found)
            if for_programs
            else health_sheets.health(found, everything=everything)
        )
        _write([sheet], form, output)
    _say_notes(loaded)
    if found.blamed:
        _say(f"fail: {', '.join(found.blamed)}")
    if found.status:
        raise typer.Exit(found.status)


@app.command(
    short_help="How long a checkpoint to Blob takes, and how often to write one.",
    epilog=_examples(
        "trueup checkpoint --gigabytes 2400",
        "trueup checkpoint --gigabytes 2400 --cap-mbps 2300 --limit-gbps 20",
        "trueup checkpoint --gigabytes 2400 --nodes 16 --node-mtbf-hours 20000",
    ),
)
def checkpoint(
    *,
    gigabytes: Annotated[
        float, typer.Option(metavar="GB", help="The whole checkpoint, in GB (10^9 bytes).")
    ],
    copies: Annotated[
        int, typer.Option(metavar="N", help="Files that are copied at the same time.")
    ] = 8,
    cap_mbps: Annotated[
        float | None,
        typer.Option(metavar="MBIT", help="The most that each copy takes, Mb/s; else what fits."),
    ] = None,
    limit_gbps: Annotated[
        float, typer.Option(metavar="GBIT", help="What the account takes in, Gb/s.")
    ] = 20.0,
    overhead: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the time for checkpoints.")
    ] = 0.05,
    nodes: Annotated[int, typer.Option(metavar="N", help="Nodes of the job.")] = 1,
    node_mtbf_hours: Annotated[
        float | None,
        typer.Option(metavar="HOURS", help="Mean time between failures of one node."),
    ] = None,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """How long a checkpoint takes through copies that stay below the storage account's limit, the
    fewest seconds between two for a given overhead, and, with a rate of failures, the interval that
    loses the least time (Young, Daly). No work is done while one is written."""
    from . import checkpoint as analysis
    from .render import checkpoint_sheets

    sent = analysis.transfer(
        gigabytes * 1e9,
        copies=copies,
        limit=limit_gbps * 1e9,
        cap=None if cap_mbps is None else cap_mbps * 1e6,
    )
    found = analysis.intervals(
        sent.seconds, overhead=overhead, nodes=nodes, node_hours=node_mtbf_hours
    )
    _write([checkpoint_sheets.checkpoint(gigabytes * 1e9, sent, overhead, found)], format_, output)


@app.command(
    short_help="What a training step computes, and what a TFLOP/s or a step time means.",
    epilog=_examples(
        "trueup flops --published      # DeepSpeed on Azure, with % of peak",
        "trueup flops --layers 96 --hidden 12288 --sequence 512 --micro-batch 32",
        "trueup flops --layers 96 --hidden 12288 --sequence 512 --micro-batch 32",
        "    --gpus 256 --tflops-per-gpu 204.49 --size Standard_ND96amsr_A100_v4",
        "trueup flops --layers 32 --hidden 4096 --sequence 8192 --micro-batch 1",
        "    --gpus 8 --step-seconds 1.6 --ffn 14336 --heads 32 --query-groups 8",
        "    --gated --untied --vocabulary 128256 --peak 989.4     # Llama 3.1 8B",
    ),
)
def flops(
    context: typer.Context,
    *,
    layers: Annotated[
        int | None, typer.Option(metavar="L", help="Decoder layers.", show_default=False)
    ] = None,
    hidden: Annotated[
        int | None, typer.Option(metavar="H", help="Hidden size.", show_default=False)
    ] = None,
    sequence: Annotated[
        int | None,
        typer.Option(metavar="S", help="Sequence length, tokens.", show_default=False),
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(metavar="V", help="Padded vocabulary; else GPT-2's, 51200."),
    ] = None,
    micro_batch: Annotated[
        int, typer.Option(metavar="N", help="Samples of each GPU in an iteration.")
    ] = 1,
    global_batch: Annotated[
        int | None,
        typer.Option(metavar="N", help="Samples of all GPUs; else micro batch x GPUs."),
    ] = None,
    gpus: Annotated[int, typer.Option(metavar="N", help="GPUs of the job.")] = 1,
    step_seconds: Annotated[
        float | None, typer.Option(metavar="S", help="The time of an iteration.")
    ] = None,
    tflops_per_gpu: Annotated[
        float | None,
        typer.Option(metavar="TFLOP/S", help="Instead: each GPU's rate by --formula."),
    ] = None,
    formula: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="How that rate was counted: article, megatron or megatron_lm."
        ),
    ] = "article",
    peak: Annotated[
        float | None, typer.Option(metavar="TFLOP/S", help="Peak of one GPU (312 for an A100).")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Instead: that of this VM size's GPUs (BF16, dense)."),
    ] = None,
    heads: Annotated[
        int | None, typer.Option(metavar="N", help="Attention heads; for --query-groups.")
    ] = None,
    query_groups: Annotated[
        int | None, typer.Option(metavar="N", help="Key and value heads of grouped attention.")
    ] = None,
    ffn: Annotated[
        int | None, typer.Option(metavar="N", help="Feed-forward size; else 4 x hidden.")
    ] = None,
    gated: Annotated[bool, typer.Option("--gated", help="SwiGLU: a third matrix.")] = False,
    untied: Annotated[
        bool, typer.Option("--untied", help="Input and output embeddings are two matrices.")
    ] = False,
    published: Annotated[
        bool, typer.Option("--published", help="The published rates instead of a model.")
    ] = False,
    catalog: CatalogOption = None,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Operations of one training step by three formulas, and what a rate or a step time means by
    each of them: step time, samples/s, tokens/s, percent of peak. Rates of one run differ by a
    third between formulas: article counts recomputed activations (hardware FLOPs), megatron does
    not (model FLOPs), megatron_lm, which Megatron-LM prints, also halves the attention scores."""
    from trueup.benchmarks.megatron.flops import Model, parameters

    from . import flops as analysis
    from .catalog import folder
    from .render import flops_sheets

    place = folder(catalog)
    if published:
        taken = {"published", "catalog", "format_", "output"}
        for option in context.command.params:
            name = option.name or ""
            source = context.get_parameter_source(name)
            if name not in taken and source is not None and source.name == "COMMANDLINE":
                message = f"--published takes no {option.opts[0]}: its rates are the catalog's"
                raise BadInput(message)
        _write([flops_sheets.published(analysis.published(place))], format_, output)
        return
    if layers is None or hidden is None or sequence is None:
        message = "give --layers, --hidden and --sequence of a model, or --published"
        raise BadInput(message)
    if peak is not None and size is not None:
        message = "--peak and --size both say the peak; give one of them"
        raise BadInput(message)
    model = Model(
        layers=layers,
        hidden_size=hidden,
        sequence_length=sequence,
        vocabulary_size=analysis.vocabulary(place) if vocabulary is None else vocabulary,
        attention_heads=heads,
        ffn_hidden_size=ffn,
        query_groups=query_groups,
        gated=gated,
        tied=not untied,
        learned_positions=not (gated or query_groups),
    )
    most = None if peak is None else peak * 1e12
    if size is not None:
        most, _ = analysis.peak_of_size(size, place)
    found = analysis.count(
        model,
        micro_batch=micro_batch,
        gpus=gpus,
        global_batch=global_batch,
        seconds=step_seconds,
        rate=None if tflops_per_gpu is None else tflops_per_gpu * 1e12,
        rate_by=formula,
        peak=most,
    )
    batch = micro_batch * gpus if global_batch is None else global_batch
    sheet = flops_sheets.counts(
        found, model, batch=batch, gpus=gpus, parameters=parameters(model), peak=most
    )
    _write([sheet], format_, output)


@app.command(
    short_help="Put many records into one Parquet file, which reads much faster.",
    epilog=_examples(
        "trueup pack results/ --output all.parquet",
        "trueup scaling all.parquet",
    ),
)
def pack(
    sources: Sources = None,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")
    ] = Path("results.parquet"),
) -> None:
    """Put many records into one Parquet file, which reads a hundred times faster than its
    records."""
    from .load import pack as pack_

    if output.suffix != ".parquet":
        message = f"{output}: the name of a packed file must end in .parquet"
        raise BadInput(message)
    loaded = _load(sources)
    pack_(loaded, output)
    _say_notes(loaded)
    _say(f"{len(loaded.cases)} records packed into {output}.")


@app.command(
    epilog=_examples(
        "trueup report",
        "trueup report results/20261120T091300Z-7c1e --output report --region eastus",
    )
)
def report(
    sources: Sources = None,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder to write.")
    ] = Path("report"),
    region: RegionOption = None,
    offer: OfferOption = None,
    price: PriceOption = None,
    as_size: AsSizeOption = None,
    catalog: CatalogOption = None,
) -> None:
    """Write one self-contained HTML page, with its plots as PNG and its tables as CSV."""
    from .catalog import folder
    from .report import write_report

    loaded = _load(sources)
    page = write_report(
        loaded,
        output,
        catalog=folder(catalog),
        region=region,
        offer=offer,
        price=price,
        as_size=as_size,
    )
    _say_notes(loaded)
    _print(f"{page}\n")


@topology_app.callback(
    epilog=_examples(
        "trueup topology check /opt/microsoft/ndv4-topo.xml --size Standard_ND96asr_v4",
        "trueup topology write --size Standard_ND96isr_H100_v5 --output topo.xml",
        "trueup topology show --size Standard_ND96asr_v4",
    )
)
def _topology() -> None:
    """NCCL topology files. Inside a VM the PCI bus does not show which GPU, adapter and cores
    belong together; the file (NCCL_TOPO_FILE) says it."""


@topology_app.command(
    "check",
    short_help="Explain what is wrong with a file, or with a list of CPU masks.",
    epilog=_examples(
        "trueup topology check topo.xml --size Standard_ND96isr_H100_v5",
        "ssh node cat /opt/microsoft/ndv4-topo.xml |",
        "    trueup topology check - --size Standard_ND96asr_v4",
        "trueup topology check --masks ffffff000000,... --size Standard_ND96asr_v4",
    )
    + "\n\nExit status: 0 NCCL reads it as it should; 1 it does not, or a known error; 2 usage.",
)
def topology_check(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="The file; - is standard input.", show_default=False),
    ] = None,
    *,
    size: SizeOption,
    masks: Annotated[
        str | None,
        typer.Option(
            metavar="MASKS",
            help="Also, or instead: masks as given to srun --cpu-bind=mask_cpu, one a GPU.",
        ),
    ] = None,
    catalog: CatalogOption = None,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """What is wrong with a topology file, what NCCL does with it, and the mend. An error changes
    what NCCL does; with a warning it works as it should."""
    from . import topology as analysis
    from .render import topology_sheets

    if file is None and masks is None:
        message = "nothing to check; name a FILE, or give --masks"
        raise BadInput(message)
    layout, others = _layout(size, catalog)
    findings = [] if file is None else analysis.check(_bytes(file), layout, others)
    if masks is not None:
        findings += analysis.check_gpu_masks(masks.strip().split(","), layout)
    checked = {None: "masks", "-": "standard input"}.get(file, file)
    _write([topology_sheets.findings(findings, str(checked), layout, size)], format_, output)
    wrong = sum(finding.severity == "error" for finding in findings)
    if wrong:
        _say(f"{checked}: wrong for {size} in {wrong} place{'s' if wrong > 1 else ''}.")
        raise typer.Exit(1)


@topology_app.command(
    "write",
    short_help="Write the file of a size, from the catalog.",
    epilog=_examples(
        "trueup topology write --size Standard_ND96asr_v4 > ndv4-topo.xml",
        "NCCL_TOPO_FILE=$PWD/ndv4-topo.xml NCCL_DEBUG=INFO mpirun ... |",
        "    grep 'Loading topology file'   # needs NCCL_DEBUG_SUBSYS=GRAPH,INIT,ENV",
    ),
)
def topology_write(
    *, size: SizeOption, catalog: CatalogOption = None, output: OutputOption = None
) -> None:
    """The topology file of a size, from the catalog."""
    from . import topology as analysis

    _put(analysis.generate(_layout(size, catalog)[0]), output)


@topology_app.command(
    "show",
    short_help="GPUs, adapters, NUMA nodes and CPU masks of a size.",
    epilog=_examples(
        "trueup topology show --size Standard_ND96asr_v4",
        "trueup topology show --size Standard_ND96isr_H100_v5 --format json",
    ),
)
def topology_show(
    *,
    size: SizeOption,
    catalog: CatalogOption = None,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Which GPU, adapter, NUMA node and cores belong together on a size, and the masks that srun
    and mpirun need to put one rank beside each GPU."""
    from .render import topology_sheets

    _write(topology_sheets.layout(_layout(size, catalog)[0], size), format_, output)


def main() -> None:
    """Entry point of the command."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a question mark instead of a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        if sys.stdout is None or sys.stderr is None:
            # Closed by the caller (>&-): what would be written there has nowhere to go.
            sys.exit(1)
        app(prog_name="trueup")
    except TrueupError as error:
        _say(f"trueup: error: {error}")
        sys.exit(1)
    except MemoryError:
        _say("trueup: error: not enough memory for these records; give fewer of them")
        sys.exit(1)


def _load(sources: Sequence[Path] | None) -> Loaded:
    from .load import load

    return load(list(sources) if sources else [RESULTS])


def _layout(size: str, catalog: Path | None) -> tuple[Layout, list[Layout]]:
    """A size's layout, and those of all sizes."""
    from . import topology as analysis
    from .catalog import folder

    layouts = analysis.read(folder(catalog) / "topologies.yml")
    return analysis.layout_for(size, layouts), list(layouts.values())


def _judged(
    readings: Sequence[Reading], size: str, node_count: int, catalog: Path | None
) -> list[list[Verdict]]:
    """The verdicts on each reading, as if it were a record of that size."""
    from .catalog import find
    from .health import expectations, verdicts

    expected = expectations.read(find("expectations.yml", catalog))
    if not expected.knows(size):
        message = f"nothing is expected of the size {size}{_near(size, expected.sizes)}"
        raise BadInput(message)
    return [
        verdicts.judge_case(verdicts.of_reading(item, size, node_count), expected)
        for item in readings
    ]


def _near(word: str, known: Sequence[str]) -> str:
    """A hint at what may have been meant."""
    import difflib

    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.8)
    return f"; did you mean {near[0]}?" if near else ""


def _text(name: str) -> str:
    return _bytes(name).decode("utf-8", errors="replace")


def _bytes(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        message = f"{name} cannot be read: {error.strerror}"
        raise BadInput(message) from error


def _write(made: Sequence[Sheet], format_: Format, output: Path | None) -> None:
    from .render import csv, json, markdown, table

    if format_ is Format.table:
        colour = output is None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
        looked_at = output is None and sys.stdout.isatty()
        # Not os.get_terminal_size, which knows neither COLUMNS nor terminals that say 0.
        width = shutil.get_terminal_size((table.WIDTH, 24)).columns if looked_at else table.WIDTH
        _put(table.render(made, width=width, colour=colour), output)
    else:
        render = {
            Format.markdown: markdown.render,
            Format.csv: csv.render,
            Format.json: json.render,
        }[format_]
        _put(render(made), output)


def _put(text: str, output: Path | None) -> None:
    if output is None:
        _print(text)
        return
    # Whole or not at all: who reads a file that is written again and again must not see half of it.
    beside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        if output.exists() and not output.is_file():
            output.write_text(text, encoding="utf-8", errors="replace")  # /dev/stderr, a pipe
            return
        beside.write_text(text, encoding="utf-8", errors="replace")
        beside.replace(output)
    except OSError as error:
        message = f"{output} could not be written: {error.strerror}"
        raise BadInput(message) from error


def _print(text: str) -> None:
    """Write and flush, while an error can still be told; typer ends quietly on a broken pipe."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is left in the buffer would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        message = f"standard output could not be written: {error.strerror}"
        raise BadInput(message) from error


def _say(text: str) -> None:
    from .render import units

    sys.stderr.write(units.text(text) + "\n")


def _say_all(texts: Sequence[str]) -> None:
    for text in texts[:MESSAGES_SHOWN]:
        _say(f"warning: {text}")
    if len(texts) > MESSAGES_SHOWN:
        _say(f"warning: and {len(texts) - MESSAGES_SHOWN} more like these")


def _say_warnings(made: Sequence[Sheet]) -> None:
    _say_all(list(dict.fromkeys(text for sheet in made for text in sheet.warnings)))


def _say_notes(loaded: Loaded) -> None:
    """What was not read, and what else the reader has to say."""
    for note in loaded.notes:
        _say(f"note: {note}")
    _say_all([f"not read: {item.path}: {item.reason}" for item in loaded.excluded])
