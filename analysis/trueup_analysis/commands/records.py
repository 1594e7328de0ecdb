"""Records of the commands: the options that say which are meant and how they are priced; reading
them, and messages on those that could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from trueup_node.errors import BadInput

from ..selection import Selection, moment, needed_runs, of_runs
from .interface import PROGRESS, ContractOption, flag, option, say, say_all, taking

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..figures.compare.comparing import Deltas
    from ..figures.terms import ApiPrices, ServiceLevel, Terms
    from ..load import Loaded

RESULTS = Path("results")
Sources = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="RESULTS",
        help="Results folders, run folders, records, packed files, fact caches of Ansible, or"
        " the catalog's reference_results.csv. Without any: results/.",
        show_default=False,
    ),
]
Changes = Annotated[
    bool, flag("--changes", "Each figure's change since the run before, of the same nodes.")
]


class Outcome(str, Enum):
    """The outcome of a case."""

    ok = "ok"
    too_short = "too_short"
    failed = "failed"
    invalid = "invalid"


def _since(text: str) -> datetime:
    try:
        return moment(text, datetime.now(UTC))
    except BadInput as error:
        raise typer.BadParameter(str(error)) from error


def _filter(metavar: str, about: str, *names: str, **more: Any) -> Any:
    return option(metavar, about, *names, rich_help_panel="Which records", **more)


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


filtered = taking(query=filters)


def load_results(
    sources: Sequence[Path] | None, chosen: Selection, *, may_be_empty: bool = False
) -> Loaded:
    """The chosen records of the sources, or of ``results/``: of the last run, unless others are
    chosen."""
    return load_with_others(sources, chosen, may_be_empty=may_be_empty)[1]


def load_with_others(
    sources: Sequence[Path] | None, chosen: Selection, *, may_be_empty: bool = False
) -> tuple[Loaded, Loaded]:
    """All records of the sources, of a store those of the needed runs, and the chosen ones."""
    named = list(sources) if sources else [RESULTS]
    loaded = load_all(named, may_be_empty=may_be_empty, runs=())
    if loaded.stored:
        runs = needed_runs(loaded, chosen)
        loaded = load_all(named, may_be_empty=may_be_empty, runs=runs)
    return loaded, of_runs(loaded, named, chosen, may_be_empty=may_be_empty)


def deltas_of(every: Loaded, loaded: Loaded) -> Deltas:
    """The changes since the run before; where there is none it says so."""
    from ..figures.compare.comparing import Deltas, since_run_before

    changes = since_run_before(every, loaded)
    if changes is None:
        say("--changes: no run before this one measured the same, so no figure has a change")
    return Deltas(changes)


def load_all(
    sources: Sequence[Path], *, may_be_empty: bool = False, runs: Collection[str] | None = None
) -> Loaded:
    """All records of the sources; of a store those of some runs, or of all."""
    from ..load import load

    loaded = load(
        sources,
        tell=lambda files: PROGRESS.step(f"reading records: {files:,} files"),
        may_be_empty=may_be_empty,
        runs=runs,
    )
    PROGRESS.step(f"working on {len(loaded.records):,} records")
    return loaded


def end_incomplete(loaded: Loaded, status: int = 1) -> None:
    """End with a status that is not 0 where files could not be read: the tables lack them.

    Raises:
        Exit: some could not.
    """
    if loaded.excluded:
        from .. import units

        say(f"{units.plural(len(loaded.excluded), 'file')} could not be read.")
        raise typer.Exit(status)


def say_notes(loaded: Loaded, *, not_read: bool = True) -> None:
    """Notes of the reader, and files that it could not read unless a table lists them."""
    for note in loaded.notes:
        say(f"note: {note}")
    if not_read:
        say_all([f"not read: {item.path}: {item.reason}" for item in loaded.excluded])


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
