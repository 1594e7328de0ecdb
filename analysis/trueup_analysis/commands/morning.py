"""``trueup morning``: what changed since the run before, told to people; and its timer."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from trueup_node.errors import BadInput

from .interface import CatalogOption, examples, flag, option, put, say
from .records import RESULTS, load_all

if TYPE_CHECKING:
    from ..sheets.morning import Message

app = typer.Typer()


class Kind(str, Enum):
    """The JSON of a webhook."""

    json = "json"
    slack = "slack"
    teams = "teams"


class Timer(str, Enum):
    """How the check starts each morning."""

    systemd = "systemd"
    cron = "cron"
    awx = "awx"


@app.command(
    epilog=examples(
        "trueup morning                             # the message of the last run",
        "trueup morning --mail hpc-ops@example.org",
        "TRUEUP_WEBHOOK=https://... trueup morning --as teams",
        "trueup morning --hook 'logger -t trueup' --always",
        "trueup morning --timer systemd -i inventories/mine --at 05:30",
    )
    + "\n\nExit status: 0 nothing changed; 1 something did; 2 the check did not run, or the message"
    " could not be sent; 64 wrong usage.",
)
def morning(
    results: Annotated[
        Path, typer.Argument(metavar="[RESULTS]", help="The folder of runs.", show_default=True)
    ] = RESULTS,
    *,
    max_age: Annotated[
        float, option("HOURS", "An older last run means that the check did not run.", min=0)
    ] = 26.0,
    webhook: Annotated[
        str | None,
        option(
            "URL",
            "Where to post the message; better TRUEUP_WEBHOOK, which nobody sees in the list of"
            " processes.",
            envvar="TRUEUP_WEBHOOK",
        ),
    ] = None,
    kind: Annotated[Kind, typer.Option("--as", help="The webhook's JSON.")] = Kind.json,
    mail: Annotated[list[str] | None, option("ADDRESS", "By sendmail; repeatable.")] = None,
    hook: Annotated[
        str | None, option("COMMAND", "A program that gets the message on standard input.")
    ] = None,
    always: Annotated[bool, flag("--always", "Send it even if nothing changed.")] = False,
    timer: Annotated[
        Timer | None,
        typer.Option(
            help="Print the form that starts it each morning: units of systemd, a line of cron, or"
            " a playbook for AWX."
        ),
    ] = None,
    install: Annotated[
        bool, flag("--install", "As root: install the units of systemd and start the timer.")
    ] = False,
    inventory: Annotated[
        str, option("INVENTORY", "With --timer: the nodes.", "--inventory", "-i")
    ] = "inventories/local",
    at: Annotated[str, option("HH:MM", "With --timer: when, local time.")] = "05:30",
    site_file: Annotated[
        Path | None,
        option(
            "FILE",
            "Limits of your own, as `trueup health` takes them; else TRUEUP_EXPECTATIONS.",
            "--expectations",
            envvar="TRUEUP_EXPECTATIONS",
        ),
    ] = None,
    catalog: CatalogOption = None,
) -> None:
    """Report what changed between the last run and the one before, in at most 15 lines: nodes that
    newly fail, are missing or well again, figures that are worse, and what to do. Nothing is sent
    if nothing changed. If the last run is too old, the message says that the check did not run.
    `make morning` installs the check and the message as a timer."""
    if timer is not None or install:
        valued: dict[str, object] = {
            "--max-age": f"{max_age:g}",
            "--as": kind.value,
            "--hook": hook,
            "--expectations": site_file and site_file.resolve(),
            "--catalog": catalog and catalog.resolve(),
        }
        options = _options(results, valued, mail or [], always=always)
        _set_up(timer or Timer.systemd, inventory, at, options, is_installed=install)
        if webhook:
            say(
                "note: write TRUEUP_WEBHOOK=URL into /etc/trueup/morning.env, mode 0600 (of cron:"
                " into its file): an address is a secret, and no unit holds it."
            )
        elif not (mail or hook):
            say(
                "note: no --mail, --hook or --webhook is given: nobody gets the message, unless"
                " /etc/trueup/morning.env (of cron: its file) has TRUEUP_WEBHOOK."
            )
        return
    message = _message(results, max_age, catalog, site_file)
    put(message.text + "\n")
    if message.is_news or always:
        _send(message, webhook=webhook, kind=kind, mail=mail or [], hook=hook)
    if message.is_news:
        raise typer.Exit(1 if message.has_run else 2)


def _options(
    results: Path, valued: Mapping[str, object], mail: list[str], *, always: bool
) -> list[str]:
    """The options as the timer passes them; the webhook's address stands in a file of its own."""
    options = [str(results.resolve()), *(["--always"] if always else [])]
    options += [str(word) for pair in valued.items() if pair[1] for word in pair]
    return options + [word for address in mail for word in ("--mail", address)]


def _set_up(
    timer: Timer, inventory: str, at: str, options: list[str], *, is_installed: bool
) -> None:
    from trueup_controller.morning import install, timer_files

    files = timer_files(timer.value, inventory=inventory, at=at, options=options)
    if not is_installed:
        put("".join(f"# {path}\n{text}\n" for path, text in files.items()))
        return
    if timer is not Timer.systemd:
        raise typer.BadParameter("--install installs units of systemd; the others are printed")
    install(files)
    say(f"installed: {', '.join(files)}; `systemctl list-timers` shows when it starts.")


def _message(
    results: Path, max_age: float, catalog: Path | None, site_file: Path | None
) -> Message:
    from ..figures.health import expectations
    from ..sheets.morning import message, not_run

    try:
        loaded = load_all([results], may_be_empty=True)
        limits = expectations.for_size(None, catalog, site_file)
        return message(loaded, limits, now=datetime.now(UTC), max_age=timedelta(hours=max_age))
    except BadInput as error:
        # Status 1 would say that something changed.
        return not_run(str(error))


def _send(
    message: Message, *, webhook: str | None, kind: Kind, mail: list[str], hook: str | None
) -> None:
    """Send it everywhere, whatever fails.

    Raises:
        Exit: somewhere it could not be sent.
    """
    from .. import notify

    facts = {"changed": message.is_news, "has_run": message.has_run}
    ways: list[Callable[[], None]] = []
    if webhook:
        ways.append(lambda: notify.post(webhook, notify.body(kind.value, message.lines, facts)))
    ways += [partial(notify.mail, address, message.lines) for address in mail]
    if hook:
        variables = {
            "TRUEUP_CHANGED": str(int(message.is_news)),
            "TRUEUP_HAS_RUN": str(int(message.has_run)),
        }
        argv = shlex.split(hook)
        ways.append(lambda: notify.run(argv, message.text + os.linesep, variables))
    refused = [reason for way in ways if (reason := _refusal(way)) is not None]
    for reason in refused:
        say(f"trueup: error: {reason}")
    if refused:
        raise typer.Exit(2)


def _refusal(way: Callable[[], None]) -> str | None:
    """Why a message could not be sent."""
    try:
        way()
    except BadInput as error:
        return str(error)
    return None
