"""``trueup health``: figures against the limits of their VM size."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from trueup_node.health.verdicts import WORST_FIRST

from .interface import (
    CatalogOption,
    Format,
    OutputOption,
    errors_end_with,
    examples,
    flag,
    option,
    put,
    say,
    write,
)
from .judged import judged, nodes_of
from .records import RecordQuery, end_incomplete, filtered, say_notes

if TYPE_CHECKING:
    from ..figures.health.examine import Health
    from ..sheets.sheet import Sheet

app = typer.Typer()


class Shown(str, Enum):
    """Verdicts that can be chosen."""

    passed = "pass"
    warn = "warn"
    fail = "fail"
    not_measured = "not_measured"
    no_verdict = "no_verdict"


class HealthFormat(str, Enum):
    """How verdicts are written."""

    table = "table"
    markdown = "markdown"
    csv = "csv"
    json = "json"
    junit = "junit"
    prometheus = "prometheus"


@app.command(
    epilog=examples(
        "trueup health                                 # the last run in results/",
        "trueup health --max-age 26h                   # nothing older than that",
        "trueup health --nodes inventories/mine        # and who of these is missing",
        "trueup health results/20261120T091300Z-7c1e --passes",
        "trueup health --only fail --only not_measured -f json",
        "trueup health --summary                       # and how figures are spread",
        "trueup health --size Standard_ND96isr_H100_v5 one-record.json",
        "trueup health --expectations ours.yml         # what this site expects",
        "trueup health --format junit --output health.xml",
        "trueup health --format prometheus -o /var/lib/node_exporter/trueup.prom",
        "trueup health --require nccl --require ib     # without them: exit 2",
    )
    + "\n\nExit status: 0 all that was expected was judged and passes, warnings included; 1 a"
    " failure; 2 something expected was not measured, or nothing could be judged, with the reason;"
    " 64 wrong usage.",
)
@filtered
def health(
    *,
    query: RecordQuery,
    max_age: Annotated[
        str | None,
        option("SPAN", "Every run, and no figure older than this: 26h, 7d.", "--max-age"),
    ] = None,
    nodes: Annotated[
        Path | None,
        option(
            "FILE",
            "Whom to expect beside whom run.json names: a file of one name a line, or an"
            " inventory of Ansible.",
        ),
    ] = None,
    passes: Annotated[
        bool,
        flag("--passes", "Passes too: of many nodes in tables, and in csv and json."),
    ] = False,
    only: Annotated[
        list[Shown] | None,
        typer.Option(help="These verdicts alone, in every format but prometheus; repeatable."),
    ] = None,
    summary: Annotated[
        bool,
        flag(
            "--summary",
            "Each figure over all nodes of a size, below what is wrong; csv and json hold it"
            " instead: n, median, mean, p10, p90, least, most, spread.",
        ),
    ] = False,
    as_size: Annotated[
        str | None, option("SIZE", "Judge every record as measured on this size.", "--size")
    ] = None,
    require: Annotated[
        list[str] | None,
        option("BENCHMARK", "Every node must have a record of it; may be repeated."),
    ] = None,
    site_file: Annotated[
        Path | None,
        option(
            "FILE",
            "Your own limits, in the format of catalog/expectations.yml. They override the built-in"
            " limits of the same figures; else TRUEUP_EXPECTATIONS.",
            "--expectations",
            envvar="TRUEUP_EXPECTATIONS",
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
    every_series: Annotated[
        bool,
        flag(
            "--every-series",
            "prometheus: each figure, hundreds a node; else each node's verdict, time and"
            " worst findings, 40 series at most.",
        ),
    ] = False,
    output: OutputOption = None,
) -> None:
    """Each figure against the limit of its VM size (catalog/expectations.yml), at the message size
    that the source names; then the nodes of one size beside each other, and failing pairs reduced
    to the nodes at fault. The last run is judged. A figure that a size must have and an expected
    node lacks is "not measured", with the reason."""
    from ..figures.health.measured import cases as cases_of
    from ..figures.health.summary import spreads
    from ..sheets import health as health_sheets
    from ..tables.health import health as judge

    if summary and format_.value not in Format.__members__:
        raise typer.BadParameter(f"--summary is a table, and {format_.value} holds verdicts")
    shown = _shown(only, format_, everything=passes)
    # 1 would say that a node failed.
    with errors_end_with(2):
        loaded, are_whole_runs = judged(*query, max_age=max_age)
        examined = judge(
            loaded,
            as_size=as_size,
            site_file=site_file,
            catalog=catalog,
            benchmarks=query.chosen.benchmarks,
            required=require or [],
            listed=None if nodes is None else nodes_of(nodes),
            # Of some outcomes, nobody can say who is missing.
            has_roster=are_whole_runs and not query.chosen.outcomes,
        )
    with errors_end_with(2):
        spread = (
            [health_sheets.summary(spreads(cases_of(loaded, as_size=as_size)))] if summary else []
        )
        if format_.value in Format.__members__:
            form = Format(format_.value)
            write(_sheets(examined, spread, form, shown, everything=passes), form, output)
        else:
            put(_text(examined, format_, shown, every_series=every_series), output)
    say_notes(loaded)
    say(f"{examined.sentence}.")
    if examined.blamed:
        say(f"fail: {', '.join(examined.blamed)}")
    end_incomplete(loaded, status=examined.status or 2)
    if examined.status:
        raise typer.Exit(examined.status)


def _shown(only: list[Shown] | None, form: HealthFormat, *, everything: bool) -> list[str]:
    """The chosen verdicts; none where nobody chose.

    Raises:
        BadParameter: the format has no single verdicts.
    """
    if only and form is HealthFormat.prometheus:
        raise typer.BadParameter("--only chooses verdicts, and prometheus holds each node's worst")
    chosen = [verdict.value.replace("_", " ") for verdict in only or ()]
    return list(WORST_FIRST) if everything and not chosen else chosen


def _sheets(
    examined: Health, spread: list[Sheet], form: Format, shown: list[str], *, everything: bool
) -> list[Sheet]:
    """The verdicts as tables; for programs one table."""
    from ..sheets import health as health_sheets

    if form in (Format.csv, Format.json):
        return spread or [health_sheets.data(examined, shown)]
    only = [] if everything else shown
    return [health_sheets.health(examined, everything=everything, only=only), *spread]


def _text(examined: Health, form: HealthFormat, shown: list[str], *, every_series: bool) -> str:
    """The verdicts in a format that is no table."""
    from ..render import junit, prometheus

    if form is HealthFormat.junit:
        return junit.render(examined, shown)
    return prometheus.render(examined, every_series=every_series)
