"""The options that several commands take, each declared once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer
from trueup_node.errors import BadInput

from ..selection import Selection, moment
from .messages import Format, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..figures.terms import ApiPrices, ServiceLevel, Terms
    from ..load import Loaded
    from ..sheets.sheet import Sheet


def option(metavar: str, about: str, *names: str, **more: Any) -> Any:
    """An option with a value: its placeholder, and a line of help."""
    return typer.Option(*names, metavar=metavar, help=about, **more)


def flag(name: str, about: str) -> Any:
    """An option without a value, and a line of help."""
    return typer.Option(name, help=about)


class Outcome(str, Enum):
    """The outcome of a case."""

    ok = "ok"
    too_short = "too_short"
    failed = "failed"
    invalid = "invalid"


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
    option("FILE", "Write here instead of standard output.", "--output", "-o"),
]
ContractOption = Annotated[
    Path | None,
    option(
        "FILE",
        "Your contract's prices, discounts and currency; else TRUEUP_CONTRACT, else contract.yml"
        " beside your own prices.",
        "--contract",
    ),
]
CatalogOption = Annotated[
    Path | None,
    option(
        "FOLDER", "A catalog of your own; else TRUEUP_CATALOG, else the built-in one.", "--catalog"
    ),
]
SizeOption = Annotated[
    str,
    option("SIZE", "The VM size, such as Standard_ND96asr_v4.", "--size"),
]


@dataclass(frozen=True, kw_only=True)
class Common:
    """The options of nearly every command: the catalog, how tables are written, and where to."""

    catalog: CatalogOption = None
    format_: FormatOption = Format.table
    output: OutputOption = None

    def write(self, sheets: Sequence[Sheet]) -> None:
        write(sheets, self.format_, self.output)


def _since(text: str) -> datetime:
    try:
        return moment(text, datetime.now(UTC))
    except BadInput as error:
        raise typer.BadParameter(str(error)) from error


def _filter(metavar: str, about: str, *names: str, **more: Any) -> Any:
    return option(metavar, about, *names, rich_help_panel="Which records", **more)


Changes = Annotated[
    bool, flag("--changes", "Each figure's change since the run before, of the same nodes.")
]


class RecordQuery(NamedTuple):
    """Where results are, ``results/`` if nobody says, and which of their records are meant."""

    sources: list[Path] | None
    chosen: Selection


def filters(
    sources: Sources = None,
    *,
    node: Annotated[
        list[str] | None, _filter("NODE", "Of this node, or pattern ('h100-00*'); repeatable.")
    ] = None,
    benchmark: Annotated[
        list[str] | None, _filter("NAME", "Of this benchmark: nccl, stream, ...; repeatable.")
    ] = None,
    run: Annotated[
        str | None, _filter("RUN", "Of this run: its id, the beginning of one, or last.")
    ] = None,
    since: Annotated[
        datetime | None,
        _filter(
            "TIME",
            "Begun then or later: 2026-11-20, 2026-11-20T09:13 (UTC), 7d.",
            parser=_since,
        ),
    ] = None,
    outcome: Annotated[
        list[Outcome] | None,
        typer.Option(help="With this outcome; repeatable.", rich_help_panel="Which records"),
    ] = None,
    every_run: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Of every run, not of the last one alone.",
            rich_help_panel="Which records",
        ),
    ] = False,
) -> RecordQuery:
    """The options that say which records are meant."""
    if every_run and (run or since):
        raise typer.BadParameter("--all takes every run: not with --run or --since")
    chosen = Selection(
        nodes=tuple(node or ()),
        benchmarks=tuple(benchmark or ()),
        run=run,
        since=since,
        outcomes=tuple(state.value for state in outcome or ()),
        every_run=every_run,
    )
    return RecordQuery(sources, chosen)


@dataclass(frozen=True, kw_only=True)
class Billing:
    """The options that set the price of a node-hour."""

    region: Annotated[
        str | None, option("REGION", "Price in this region instead of the record's own: eastus.")
    ] = None
    offer: Annotated[
        str | None,
        option("OFFER", "payg, spot, lowpriority or 1y; else the record's own, else payg."),
    ] = None
    os: Annotated[str, option("OS", "linux or windows.")] = "linux"
    price: Annotated[
        float | None, option("US$", "US$ an hour and node for all rows, instead of the catalog.")
    ] = None
    as_size: Annotated[
        str | None,
        option("SIZE", "Price every row as this size, also records made off Azure.", "--size"),
    ] = None
    price_date: Annotated[
        str | None, option("YYYY-MM-DD", "The newest price on or before this day.")
    ] = None
    api_price: Annotated[
        float | None,
        option(
            "US$", "What an API asks per million output tokens: how busy must the node be to match?"
        ),
    ] = None
    api_price_total: Annotated[
        float | None, option("US$", "The same, per million tokens in total.")
    ] = None
    idle_hours: Annotated[
        float,
        option(
            "HOURS", "Hours a day that a server is billed and nobody asks: what they add to tokens."
        ),
    ] = 0.0
    users: Annotated[
        int | None,
        option("N", "US$ per user-hour of N users a host, instead of the records' sessions."),
    ] = None
    ttft_ms: Annotated[
        float | None,
        option("MS", "Service level of a load sweep: 99 % of first tokens within this time."),
    ] = None
    tpot_ms: Annotated[
        float | None, option("MS", "The same of the time per token after the first, by answer.")
    ] = None
    contract: ContractOption = None

    def terms(self) -> Terms:
        """
        Raises:
            BadInput: a price that is not above zero, no date, no hours of a day, or no user.
        """
        from ..figures.terms import Terms

        return Terms(
            self.region,
            self.offer,
            self.os,
            self.price,
            self.as_size,
            self.price_date,
            self.idle_hours,
            self.users,
            self.contract,
        )

    def level(self) -> ServiceLevel:
        """
        Raises:
            BadInput: a time that is not above zero.
        """
        from ..figures.terms import ServiceLevel

        return ServiceLevel(self.ttft_ms, self.tpot_ms)

    def api(self, loaded: Loaded) -> ApiPrices:
        """
        Raises:
            BadInput: a price that is not above zero, or no record to compare with it.
        """
        from ..figures.terms import ApiPrices
        from ..rooms import is_served

        api_prices = ApiPrices(self.api_price, self.api_price_total)
        if api_prices.given and not any(map(is_served, {*loaded.values("benchmark")})):
            count = len(loaded.records)
            raise BadInput(
                f"--api-price compares with records of servers, and none of the {count:,} records"
                " is one"
            )
        return api_prices


Command = Callable[..., None]


def taking(**bundles: Callable[..., Any]) -> Callable[[Command], Command]:
    """Replaces the parameter of each bundle's name by the options of the bundle. The command gets
    the value that the bundle makes of them."""

    def decorate(command: Command) -> Command:
        options = {name: _parameters(bundle) for name, bundle in bundles.items()}

        @functools.wraps(command)
        def bundled(**arguments: Any) -> None:
            bundle_values = {
                name: bundle(
                    **{option_name: arguments.pop(option_name) for option_name in options[name]}
                )
                for name, bundle in bundles.items()
            }
            command(**arguments, **bundle_values)

        parameters = [
            parameter
            for name, declared in _parameters(command).items()
            for parameter in (options[name].values() if name in options else [declared])
        ]
        bundled.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        bundled.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return bundled

    return decorate


filtered = taking(query=filters)


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a function, their annotations as objects."""
    hints = get_type_hints(function, include_extras=True)
    return {
        name: parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
    }


def examples(*lines: str) -> str:
    """Commands to copy whole, also those with a comment; they fit into 80 columns."""
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(lines)


def group(name: str, about: str, *lines: str) -> typer.Typer:
    """A command that has several of its own, with examples of them."""
    return typer.Typer(
        name=name,
        help=about,
        epilog=examples(*lines),
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
